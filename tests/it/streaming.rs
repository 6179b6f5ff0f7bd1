//! Streams flow frame by frame, end as they ended, and stop when nobody listens.

use crate::support::Baler;
use crate::support::Client;
use crate::support::Received;
use crate::support::Upstream;
use crate::support::message;
use crate::support::request;
use crate::support::within;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

async fn ask(baler: &Baler) -> Client {
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Client::send(baler.data, &head, body.as_bytes()).await
}

/// A stream whose first event has arrived: both ends of it.
async fn open(baler: &Baler, upstream: &Upstream, event: &str) -> (Client, Received) {
    let mut client = ask(baler).await;
    let mut got = within(upstream.next()).await;
    got.send(HEAD).await;
    got.send(&chunk(event)).await;
    within(client.read_until(event)).await;
    (client, got)
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn each_frame_arrives_before_the_next_is_sent() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let mut client = ask(&baler).await;
    let mut got = within(upstream.next()).await;
    got.send(HEAD).await;
    let head = within(client.read_until("\r\n\r\n")).await;
    assert!(
        head.contains("x-baler-action: none"),
        "the head comes before any frame: {head}"
    );
    got.send(&chunk("da")).await;
    for n in 0..20 {
        // Cut anywhere, inside a line as well.
        let event = format!("ta: {{\"n\":{n}}}\n\n: ping {n}\r\nda");
        got.send(&chunk(&event)).await;
        within(client.read_until(&event)).await;
    }
    let usage = concat!(
        r#"ta: {"choices":[],"usage":{"prompt_tokens":77,"completion_tokens":3,"#,
        r#""prompt_tokens_details":{"cached_tokens":64}}}"#,
        "\n\ndata: [DONE]\n\n"
    );
    got.send(&chunk(usage)).await;
    got.send("0\r\n\r\n").await;
    within(client.read_until("[DONE]\n\n")).await;
    baler
        .sum_reaches("baler_upstream_tokens_total", &[("kind", "prompt")], 77.0)
        .await;
    baler
        .sum_reaches("baler_upstream_tokens_total", &[("kind", "cached")], 64.0)
        .await;
}

#[tokio::test]
async fn a_request_body_is_streamed_up_as_it_comes() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let baler = Baler::start("", listener.local_addr().unwrap()).await;
    let head = "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\ncontent-length: 20\r\n\r\n";
    let mut client = Client::send(baler.data, head, b"first ten!").await;
    let (mut stream, _) = within(listener.accept()).await.unwrap();
    let mut seen = Vec::new();
    within(async {
        while !seen.ends_with(b"first ten!") {
            stream.read_buf(&mut seen).await.unwrap();
        }
    })
    .await;
    client.stream.write_all(b"second ten").await.unwrap();
    within(async {
        while !seen.ends_with(b"second ten") {
            stream.read_buf(&mut seen).await.unwrap();
        }
    })
    .await;
}

/// A client leaves, before or after the first byte: the upstream's connection is closed long before
/// any timeout would.
async fn leave(mid_stream: bool) {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let (client, mut got) = if mid_stream {
        open(&baler, &upstream, "data: 1\n\n").await
    } else {
        let client = ask(&baler).await;
        (client, within(upstream.next()).await)
    };
    drop(client);
    within(got.closed()).await;
    baler
        .metric_reaches("baler_answers_broken_total{side=\"client\"}", 1.0)
        .await;
    let status = if mid_stream { "2xx" } else { "4xx" };
    assert_eq!(
        baler
            .metric(&format!(
                "baler_requests_total{{action=\"none\",endpoint=\"chat\",status=\"{status}\"}}"
            ))
            .await,
        1.0
    );
    assert_eq!(baler.metric("baler_requests_in_flight").await, 0.0);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_upstream_before_and_after_the_first_byte() {
    for mid_stream in [false, true] {
        leave(mid_stream).await;
    }
}

#[tokio::test]
async fn an_upstream_that_breaks_mid_stream_reaches_the_client_as_a_broken_stream() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let (client, got) = open(&baler, &upstream, "data: 1\n\n").await;
    got.reset();
    let rest = within(client.rest()).await;
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "no clean end: {:?}",
        String::from_utf8_lossy(&rest)
    );
    assert!(!String::from_utf8_lossy(&rest).contains("[DONE]"));
    baler
        .metric_reaches("baler_answers_broken_total{side=\"upstream\"}", 1.0)
        .await;
}

#[tokio::test]
async fn a_stream_that_stalls_is_given_up() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("upstream.idle_timeout = \"50ms\"", upstream.address).await;
    let (client, mut got) = open(&baler, &upstream, "data: 1\n\n").await;
    let rest = within(client.rest()).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"));
    within(got.closed()).await;
}

#[tokio::test]
async fn a_broken_answer_teaches_nothing() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let (client, got) = open(
        &baler,
        &upstream,
        "data: {\"usage\":{\"prompt_tokens\":77}}\n\n",
    )
    .await;
    got.reset();
    within(client.rest()).await;
    baler
        .metric_reaches("baler_answers_broken_total{side=\"upstream\"}", 1.0)
        .await;
    assert_eq!(baler.metric("baler_usage_learned_total").await, 0.0);
}
