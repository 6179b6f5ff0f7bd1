//! Upstreams that cannot be connected to, or that close connections between two requests.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::http2::{GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame};
use crate::support::{Baler, Client, message, request, until, within};

/// Reads until `pattern` came.
async fn read_until(stream: &mut TcpStream, pattern: &[u8]) -> Vec<u8> {
    let mut seen = Vec::new();
    while !seen.windows(pattern.len()).any(|window| window == pattern) {
        assert_ne!(
            within(stream.read_buf(&mut seen)).await.unwrap(),
            0,
            "closed"
        );
    }
    seen
}

#[tokio::test]
async fn connecting_has_one_deadline_tls_included_and_knows_its_phase() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let body = request(&[message("user", "hi")]);
    // What is refused at once has time to say so, on a busy machine, too.
    for (url, timeout, phase) in [
        (format!("https://127.0.0.1:{port}/v1"), "100ms", "timeout"),
        ("http://127.0.0.1:1/v1".to_owned(), "30s", "connect"),
        ("http://does-not-exist.invalid/v1".to_owned(), "30s", "dns"),
    ] {
        let toml = format!("upstream.connect_timeout = \"{timeout}\"");
        let baler = Baler::start_for(&toml, &url).await;
        let answer = baler.chat(&body).await;
        assert_eq!(
            (answer.status, answer.header("x-baler-error")),
            (502, &*format!("upstream_unreachable_{phase}")),
            "{url}"
        );
        let series = format!("baler_connect_failures_total{{phase=\"{phase}\"}}");
        assert_eq!(baler.metric(&series).await, 1.0, "{url}");
    }
}

/// An upstream that answers the first request on a connection, and closes at the second one.
async fn closes_at_the_second_request() -> (std::net::SocketAddr, tokio::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = tokio::sync::mpsc::channel(100);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_until(&mut stream, b"\r\n\r\n").await;
            seen.send(()).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(answer).await.unwrap();
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut piece = [0; 4096];
                if let Ok(1..) = stream.read(&mut piece).await {
                    seen.send(()).await.unwrap();
                }
            });
        }
    });
    (address, requests)
}

#[tokio::test]
async fn a_get_on_a_connection_that_was_closed_while_idle_is_sent_once_more() {
    let (address, mut requests) = closes_at_the_second_request().await;
    let baler = Baler::start("", address).await;
    let ask = async |method: &str| {
        let head = format!(
            "{method} /v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\
            \r\n"
        );
        within(async { Client::send(baler.data, &head, b"").await.answer().await }).await
    };
    for method in ["GET", "GET", "GET"] {
        assert_eq!(ask(method).await.status, 200);
    }
    // Each GET after the first was sent on a kept connection, or would not have been sent twice.
    let mut sent = 0;
    while requests.try_recv().is_ok() {
        sent += 1;
    }
    assert!(sent > 3, "{sent} requests arrived");
    // What may have been acted upon is not sent again.
    let (address, mut requests) = closes_at_the_second_request().await;
    let baler = Baler::start("", address).await;
    let post = "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\
        connection: close\r\n\r\n";
    let post =
        async || within(async { Client::send(baler.data, post, b"").await.answer().await }).await;
    assert_eq!(post().await.status, 200);
    let second = post().await;
    assert_eq!(
        (second.status, second.header("x-baler-error")),
        (502, "upstream_broke")
    );
    let mut sent = 0;
    while requests.try_recv().is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 2);
}

#[tokio::test]
async fn an_upload_may_take_longer_than_an_answer_but_not_stand_still() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let toml = "upstream.response_timeout = \"300ms\"\nlimits.body_timeout = \"400ms\"";
    let baler = Baler::start(toml, listener.local_addr().unwrap()).await;
    let head = "POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nconnection: close\r\n\
        \r\n";
    let mut client = Client::send(baler.data, head, b"").await;
    let (mut stream, _) = within(listener.accept()).await.unwrap();
    let mut pace = tokio::time::interval(Duration::from_millis(80));
    for piece in 0..10 {
        // The pace of a client on a slow line: what is tested is that the sum does not matter.
        pace.tick().await;
        client.stream.write_all(&[b'a' + piece]).await.unwrap();
    }
    let seen = read_until(&mut stream, b"abcdefghij").await;
    assert!(seen.starts_with(b"POST /v1/files"));
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    stream.write_all(answer).await.unwrap();
    let answer = within(client.answer()).await;
    assert_eq!(answer.status, 200, "{}", answer.head);

    let client = Client::send(baler.data, head, b"abc").await;
    let (_stream, _) = within(listener.accept()).await.unwrap();
    let answer = within(client.answer()).await;
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (408, "body_timeout")
    );
    // An upstream that took all of it and does not answer is late as ever.
    let client = Client::send(baler.data, head, b"abcdefghij").await;
    let (_stream, _) = within(listener.accept()).await.unwrap();
    assert_eq!(within(client.answer()).await.status, 504);
    until(async || baler.metric("baler_requests_in_flight").await <= 0.0).await;
}

#[tokio::test]
async fn get_and_head_carry_their_bodies() {
    for (method, framing, body, sent) in [
        ("GET", "content-length: 3", "abc", "abc"),
        (
            "GET",
            "transfer-encoding: chunked",
            "3\r\nabc\r\n0\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
        ),
        (
            "HEAD",
            "transfer-encoding: chunked",
            "3\r\nabc\r\n0\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
        ),
        ("DELETE", "content-length: 3", "abc", "abc"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let baler = Baler::start("", listener.local_addr().unwrap()).await;
        let head = format!("{method} /v1/x HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n");
        let _client = Client::send(baler.data, &head, body.as_bytes()).await;
        let (mut stream, _) = within(listener.accept()).await.unwrap();
        let end = format!("\r\n\r\n{sent}");
        let seen = read_until(&mut stream, end.as_bytes()).await;
        let seen = String::from_utf8(seen).unwrap();
        assert!(seen.to_lowercase().contains(framing), "{method}: {seen}");
    }
}

/// An upstream of HTTP/2 that ends the first request of its first connection with a frame, and
/// answers those of later connections. Returns how many connections it got.
async fn refuses_once(
    kind: u8,
    stream: u32,
    payload: Vec<u8>,
) -> (std::net::SocketAddr, tokio::sync::watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (count, connections) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        count.send_modify(|count| *count += 1);
        first.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        until_headers(&mut first).await;
        first
            .write_all(&frame(kind, 0, stream, &payload))
            .await
            .unwrap();
        loop {
            let (next, _) = listener.accept().await.unwrap();
            count.send_modify(|count| *count += 1);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(next).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    tokio::spawn(async move {
                        let mut body = request.into_body();
                        let mut seen = Vec::new();
                        while let Some(Ok(piece)) = body.data().await {
                            seen.extend_from_slice(&piece);
                        }
                        let answer = hyper::Response::new(());
                        let mut sending = respond.send_response(answer, false).unwrap();
                        sending.send_data(seen.into(), true).unwrap();
                    });
                }
            });
        }
    });
    (address, connections)
}

/// Reads the frames of a client until one of them begins a request.
async fn until_headers(client: &mut TcpStream) {
    let mut preface = vec![0; PREFACE.len()];
    within(client.read_exact(&mut preface)).await.unwrap();
    loop {
        let mut head = [0; 9];
        within(client.read_exact(&mut head)).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        within(client.read_exact(&mut payload)).await.unwrap();
        if head[3] == HEADERS {
            return;
        }
    }
}

#[tokio::test]
async fn what_an_upstream_of_http2_did_not_look_at_is_sent_once_more() {
    let code = |code: u32| code.to_be_bytes().to_vec();
    let body = request(&[message("user", "hi")]);
    let refused = (RST_STREAM, 1, code(7));
    let gone_before = (GOAWAY, 0, [code(0), code(0)].concat());
    let failed = (RST_STREAM, 1, code(2));
    for ((kind, stream, payload), is_repeated) in
        [(refused, true), (gone_before, true), (failed, false)]
    {
        let (address, connections) = refuses_once(kind, stream, payload).await;
        let baler = Baler::start("upstream.http2 = true", address).await;
        let answer = within(Box::pin(baler.chat(&body))).await;
        if is_repeated {
            assert_eq!((answer.status, answer.text()), (200, body.clone()));
            assert_eq!(*connections.borrow(), 2);
        } else {
            assert_eq!(answer.header("x-baler-error"), "upstream_broke");
            assert_eq!(*connections.borrow(), 1);
        }
    }
}
