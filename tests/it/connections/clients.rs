//! Clients that say nothing, read nothing, or spell what they want in another way.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Answer, Baler, Client, Upstream, message, request, within};

const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Waits until the other side closes the connection, whichever way.
async fn closed(mut stream: TcpStream) {
    let mut piece = [0; 4096];
    while let Ok(1..) = within(stream.read(&mut piece)).await {}
}

async fn connect(to: SocketAddr, opening: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(opening.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn connections_that_say_too_little_are_closed_on_both_ports() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("limits.header_timeout = \"200ms\"", address).await;
    // An empty SETTINGS frame: a whole opening of HTTP/2, and then nothing.
    let settled = format!("{PREFACE}\0\0\0\u{4}\0\0\0\0\0");
    for port in [baler.data, baler.admin] {
        for opening in [
            "",
            "P",
            "G",
            "PRI * HT",
            PREFACE,
            &settled,
            "GET / HTTP/1.1\r\nhost:",
        ] {
            closed(connect(port, opening).await).await;
        }
        // An idle connection is closed as well, once it has been answered.
        let mut client = Client::send(port, "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n", b"").await;
        within(client.read_until("\r\n\r\n")).await;
        within(client.rest()).await;
    }
}

#[tokio::test]
async fn a_request_may_arrive_a_letter_at_a_time() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    let mut stream = TcpStream::connect(baler.data).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"PRI /v1/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).await.unwrap();
    }
    closed(stream).await;
    assert!(log.lock().unwrap()[0].0.starts_with("PRI /v1/x HTTP/1.1"));
}

#[tokio::test]
async fn probes_are_answered_whatever_hangs_on_their_port() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(connect(baler.admin, "").await);
    }
    for _ in 0..20 {
        assert_eq!(within(baler.probe("/livez")).await.status, 200);
    }
}

#[tokio::test]
async fn a_new_connection_takes_the_place_of_the_one_idle_for_longest_but_of_no_request() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("limits.connections = 3", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut busy = Client::send(baler.data, &head, body.as_bytes()).await;
    let mut got = within(upstream.next()).await;
    let silent = [connect(baler.data, "").await, connect(baler.data, "").await];
    let (answer, ()) = tokio::join!(baler.chat(&body), async {
        let mut got = within(upstream.next()).await;
        got.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
    });
    assert_eq!(answer.status, 200);
    got.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbusy")
        .await;
    within(busy.read_until("busy")).await;
    drop(silent);
}

#[tokio::test]
async fn a_client_that_stops_reading_gives_its_place_back() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("limits.write_timeout = \"200ms\"", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let client = Client::send(baler.data, &head, body.as_bytes()).await;
    let mut got = within(upstream.next()).await;
    got.send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        .await;
    let piece = vec![b'x'; 64 << 10];
    // The upstream writes until Baler closes, because the client does not read.
    within(async {
        let mut open = true;
        while open {
            open = got.stream.write_all(&piece).await.is_ok();
        }
    })
    .await;
    baler.metric_ends("baler_requests_in_flight").await;
    drop(client);
}

async fn raw(baler: &Baler, bytes: &str) -> Answer {
    within(async { Client::send(baler.data, bytes, b"").await.answer().await }).await
}

#[tokio::test]
async fn other_codings_than_chunked_are_not_implemented_and_hosts_are_single() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    for coding in [
        "gzip, chunked",
        "identity, chunked",
        "chunked\r\ntransfer-encoding: chunked",
    ] {
        for path in ["/v1/chat/completions", "/v1/embeddings"] {
            let answer = raw(
                &baler,
                &format!(
                    "POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: {coding}\r\n\r\n\
                    2\r\n{{}}\r\n0\r\n\r\n"
                ),
            )
            .await;
            assert_eq!(
                (answer.status, answer.header("x-baler-error")),
                (501, "unsupported_coding"),
                "{coding}"
            );
        }
    }
    for hosts in ["", "host: x\r\nhost: y\r\n"] {
        let head = format!("GET /v1/models HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        let answer = raw(&baler, &head).await;
        assert_eq!(
            (answer.status, answer.header("x-baler-error")),
            (400, "bad_host")
        );
    }
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_chat_path_is_inspected_however_it_is_spelled_and_sent_as_it_is() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    let body = request(&[message("user", "hi")]);
    for path in [
        "/v1/chat/completions/",
        "/v1/chat/completion%73",
        "/v1/%63hat/completions?api-version=1",
        "/v1//chat/completions",
        "/v1/./chat/completions",
        "/v1/chat%2fcompletions",
    ] {
        let answer = raw(
            &baler,
            &format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\
                \r\n{body}",
                body.len()
            ),
        )
        .await;
        assert_eq!(answer.action(), "none", "{path}");
        assert_eq!(answer.headers("x-baler-tokens").len(), 1, "{path}");
        let sent = log.lock().unwrap().pop().unwrap();
        assert!(
            sent.0.starts_with(&format!("POST {path} HTTP/1.1")),
            "{}",
            sent.0
        );
        assert_eq!(sent.1, body.as_bytes());
    }
}

#[tokio::test]
async fn a_client_that_is_answered_while_it_sends_gets_the_answer() {
    let (address, _) = Upstream::agreeable().await;
    let toml = "limits.body_bytes = \"64KiB\"\nlimits.on_overload = \"reject\"";
    let baler = Baler::start(toml, address).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999\r\n\r\n";
    let mut stream = connect(baler.data, head).await;
    within(stream.readable()).await.unwrap();
    // The answer is there, and the client sends on before it looks: far more than the sockets hold.
    within(stream.write_all(&vec![b' '; 4 << 20]))
        .await
        .unwrap();
    within(stream.shutdown()).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("body_too_large"), "{answer}");
}
