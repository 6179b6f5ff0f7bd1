//! What Baler does not change: everything, where it has nothing to do.

use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::support::Baler;
use crate::support::Client;
use crate::support::Upstream;
use crate::support::json_answer;
use crate::support::message;
use crate::support::request;
use crate::support::within;

#[tokio::test]
async fn every_method_path_query_header_and_body_passes() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let target = "/v1/files/a%2Fb;c=1/..%00x?q=%7B%7D&r=a+b&&empty=&q=2";
    for (method, body) in [
        ("GET", ""),
        ("POST", "\0\u{1}binary\u{ff}"),
        ("PUT", "x"),
        ("PATCH", "{}"),
        ("DELETE", ""),
        ("OPTIONS", ""),
        ("PURGE", "y"),
    ] {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer sk-123\r\n\
            X-Mixed-Case: a  b\tc\r\nX-Twice: 1\r\nX-Twice: 2\r\nx-latin: caf\u{e9}\r\n\
            X-Empty:\r\n{length}Connection: close\r\n\r\n"
        );
        let client = Client::send(baler.data, &head, body.as_bytes()).await;
        let mut got = within(upstream.next()).await;
        assert_eq!(got.line(), format!("{method} {target} HTTP/1.1"));
        assert_eq!(got.body, body.as_bytes());
        let mut expected = vec![
            "Authorization: Bearer sk-123",
            "X-Mixed-Case: a  b\tc",
            "X-Twice: 1",
            "X-Twice: 2",
            "x-latin: caf\u{e9}",
            "X-Empty:",
        ];
        let length = length.trim_end().to_owned();
        expected.extend((!length.is_empty()).then_some(length.as_str()));
        let host = format!("host: {}", upstream.address);
        let (hosts, mut rest): (Vec<&str>, Vec<&str>) = got
            .header_lines()
            .into_iter()
            .partition(|line| line.to_ascii_lowercase().starts_with("host:"));
        assert_eq!(hosts.len(), 1);
        assert_eq!(hosts[0].to_ascii_lowercase(), host);
        rest.sort_unstable();
        expected.sort_unstable();
        assert_eq!(rest, expected, "{method}");

        got.send(
            "HTTP/1.1 299 Fine Then\r\nConnection: close\r\nX-Up: A\r\n\
            x-request-id: req_1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 3\r\n\r\n\
            \0\x01z",
        )
        .await;
        let answer = within(client.answer()).await;
        assert_eq!(answer.status, 299);
        assert_eq!(answer.body, b"\0\x01z");
        // The client asked for its connection to be closed; that header is ours.
        let head = answer
            .head
            .replace("connection: close", "Connection: close");
        let mut lines: Vec<&str> = head
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "Connection: close",
                "Content-Length: 3",
                "Set-Cookie: a=1",
                "Set-Cookie: b=2",
                "X-Up: A",
                "x-request-id: req_1"
            ]
        );
    }
}

#[tokio::test]
async fn hop_by_hop_headers_stay_on_their_hop_both_ways() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close, X-Secret-Hop\r\n\
        x-secret-hop: 1\r\nte: trailers\r\nkeep-alive: timeout=5\r\n\
        proxy-authorization: Basic eA==\r\nupgrade: websocket\r\nx-stays: 1\r\n\r\n";
    let client = Client::send(baler.data, head, b"").await;
    let mut got = within(upstream.next()).await;
    let lines: Vec<String> = got
        .header_lines()
        .iter()
        .map(|line| line.to_ascii_lowercase())
        .collect();
    assert_eq!(
        lines
            .iter()
            .filter(|line| !line.starts_with("host:"))
            .collect::<Vec<_>>(),
        ["x-stays: 1"]
    );
    got.send(
        "HTTP/1.1 200 OK\r\nconnection: X-Down\r\nx-down: 1\r\nkeep-alive: timeout=9\r\n\
        x-too: 1\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let answer = within(client.answer()).await;
    assert_eq!(answer.headers("x-down"), Vec::<&str>::new());
    assert_eq!(answer.headers("keep-alive"), Vec::<&str>::new());
    assert_eq!(answer.header("x-too"), "1");
}

#[tokio::test]
async fn a_chat_with_nothing_to_do_is_forwarded_byte_for_byte_and_explained() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let body = "{ \"messages\" : [ {\"role\":\"user\",\"content\":\"h\\u00e9\",\"k\":1e3,\"k\":2} \
        ],\n\t\"model\":\"gpt-4o\", \"big\":123456789012345678901234567890 }\n";
    let head = format!(
        "POST /v1/chat/completions?api-version=1 HTTP/1.1\r\nhost: x\r\n\
        x-baler-request-id: my-id.1\r\nx-baler-mode: nonsense\r\ncontent-length: {}\r\n\
        connection: close\r\n\r\n",
        body.len()
    );
    let client = Client::send(baler.data, &head, body.as_bytes()).await;
    let mut got = within(upstream.next()).await;
    assert_eq!(got.body, body.as_bytes());
    assert_eq!(
        got.line(),
        "POST /v1/chat/completions?api-version=1 HTTP/1.1"
    );
    assert!(
        !got.head.contains("x-baler"),
        "what speaks to Baler goes no further: {}",
        got.head
    );
    got.send(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nserver-timing: up;dur=1\r\n\
        content-length: 2\r\n\r\n{}",
    )
    .await;
    let answer = within(client.answer()).await;
    assert_eq!(answer.action(), "none");
    assert_eq!(answer.header("x-baler-policy"), "default");
    assert_eq!(answer.header("x-baler-request-id"), "my-id.1");
    assert!(
        answer.header("x-baler-tokens").starts_with("before="),
        "{}",
        answer.head
    );
    assert!(
        answer.header("x-baler-tokens").ends_with("; window=128000"),
        "{}",
        answer.head
    );
    let timings = answer.headers("server-timing");
    assert_eq!(timings[0], "up;dur=1");
    assert!(timings[1].starts_with("baler;dur="));
}

#[tokio::test]
async fn what_is_no_plain_chat_is_forwarded_as_it_is() {
    let (address, log) = Upstream::agreeable().await;
    // A small window, so that the gate lets nothing through unseen.
    let baler = Baler::start("[[policy]]\nwindow = 256\n", address).await;
    let padding = "x".repeat(400);
    let bodies = [
        format!("{{\"model\":\"m\",\"messages\":[ {padding}"),
        format!("[\"{padding}\"]"),
        format!("{{\"messages\":\"{padding}\"}}"),
        format!("{{\"messages\":[],\"x\":\"{padding}\"}}"),
        format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{padding}\"}}],\"messages\":[]}}"
        ),
        format!(
            "{{\"messages\":[{{\"role\":\"user\",\"role\":\"system\",\"content\":\"{padding}\"}}]}}"
        ),
        format!("\u{feff}{{\"messages\":[{{\"role\":\"user\",\"content\":\"{padding}\"}}]}}"),
        format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{padding}\"}}]}} trailing"),
        format!("{}{}", "[".repeat(100_000), padding),
        // Long enough for a compaction to be due.
        format!(
            r#"{{"messages":[{{"role":"tool","tool_call_id":"lost","content":"{}"}}]}}"#,
            "x ".repeat(2_000)
        ),
        format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{padding}\",\"deep\":{}{}}}]}}",
            "[".repeat(50_000),
            "]".repeat(50_000)
        ),
        String::new(),
    ];
    for body in &bodies {
        let answer = baler.chat(body).await;
        assert_eq!(
            (answer.status, answer.action()),
            (200, "none"),
            "{:.60}",
            body
        );
    }
    let seen: Vec<Vec<u8>> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| body.clone())
        .collect();
    assert_eq!(
        seen,
        bodies
            .iter()
            .map(|body| body.as_bytes().to_vec())
            .collect::<Vec<_>>()
    );
    // Not UTF-8 either.
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\
        connection: close\r\n\r\n";
    let answer = within(async {
        Client::send(baler.data, head, b"\xff\xfe{}")
            .await
            .answer()
            .await
    })
    .await;
    assert_eq!(answer.status, 200);
    assert_eq!(log.lock().unwrap().last().unwrap().1, b"\xff\xfe{}");
    assert!(
        baler
            .metric("baler_passes_total{reason=\"broken_pairing\"}")
            .await
            >= 1.0
    );
    assert_eq!(
        baler.metric("baler_fail_open_total{cause=\"panic\"}").await,
        0.0
    );
}

#[tokio::test]
async fn chunked_bodies_and_heads_without_bodies_keep_their_meaning() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let head = "POST /v1/audio HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\
        connection: close\r\n\r\n";
    let client = Client::send(baler.data, head, b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n").await;
    let mut got = within(upstream.next()).await;
    assert_eq!(got.body, b"abcdefg");
    got.send(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\n\
        hi\r\n0\r\n\r\n",
    )
    .await;
    let answer = within(client.answer()).await;
    assert_eq!(answer.body, b"hi");

    let client = Client::send(
        baler.data,
        "HEAD /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"",
    )
    .await;
    let mut got = within(upstream.next()).await;
    assert!(
        !got.head.to_ascii_lowercase().contains("transfer-encoding"),
        "a request without a body gains none"
    );
    got.send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 77\r\n\r\n")
        .await;
    let answer = within(client.answer()).await;
    assert_eq!(
        (answer.header("content-length"), answer.body.len()),
        ("77", 0)
    );

    let client = Client::send(
        baler.data,
        "DELETE /v1/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"",
    )
    .await;
    within(upstream.next())
        .await
        .send("HTTP/1.1 204 No Content\r\n\r\n")
        .await;
    assert_eq!(within(client.answer()).await.status, 204);
}

#[tokio::test]
async fn no_header_and_no_target_chooses_a_host() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    let head = "GET http://evil.example/v1/models HTTP/1.1\r\nhost: evil.example\r\n\
        x-forwarded-host: evil.example\r\nx-baler-upstream: http://evil.example\r\n\
        connection: close\r\n\r\n";
    let answer = within(async { Client::send(baler.data, head, b"").await.answer().await }).await;
    assert_eq!(answer.status, 200);
    assert!(
        log.lock().unwrap()[0]
            .0
            .starts_with("GET /v1/models HTTP/1.1\r\n")
    );
    let answer = within(async {
        Client::send(
            baler.data,
            "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\
            connection: close\r\n\r\n",
            b"",
        )
        .await
        .answer()
        .await
    })
    .await;
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (400, "bad_target")
    );
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn http2_clients_are_served_over_one_connection() {
    let (address, log) =
        Upstream::automatic(|body| json_answer(&format!("{{\"length\":{}}}", body.len()))).await;
    let baler = Baler::start("", address).await;
    let stream = tokio::net::TcpStream::connect(baler.data).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let body = request(&[message("user", "hi")]);
    for _ in 0..3 {
        let request = hyper::Request::post("http://app.example/v1/chat/completions")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(Full::new(bytes::Bytes::from(body.clone())))
            .unwrap();
        let response = within(sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-baler-action"], "none; reason=gate");
        let text = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, format!("{{\"length\":{}}}", body.len()));
    }
    let log = log.lock().unwrap();
    assert_eq!(log[0].1, body.as_bytes());
    assert!(
        log[0]
            .0
            .to_ascii_lowercase()
            .contains("cookie: a=1; b=2\r\n"),
        "{}",
        log[0].0
    );
}
