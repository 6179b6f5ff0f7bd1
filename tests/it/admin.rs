//! The admin listener, and an orderly end.

use crate::support::Baler;
use crate::support::Client;
use crate::support::Upstream;
use crate::support::message;
use crate::support::request;
use crate::support::until;
use crate::support::until_closed;
use crate::support::within;

#[tokio::test]
async fn probes_metrics_and_version_have_a_port_of_their_own() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    assert_eq!(
        (
            baler.probe("/livez").await.status,
            baler.probe("/readyz").await.status
        ),
        (200, 200)
    );
    assert_eq!(
        baler.probe("/version").await.json()["version"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(baler.probe("/v1/models").await.status, 404);
    let post = "POST /readyz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\
        connection: close\r\n\r\n";
    assert_eq!(
        within(async { Client::send(baler.admin, post, b"").await.answer().await })
            .await
            .status,
        405
    );

    baler.chat(&request(&[message("user", "hi")])).await;
    baler
        .metric_reaches(
            "baler_requests_total{action=\"none\",endpoint=\"chat\",status=\"2xx\"}",
            1.0,
        )
        .await;
    let metrics = baler.probe("/metrics").await;
    assert!(
        metrics
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let text = metrics.text();
    for name in [
        "baler_build_info{version=",
        "baler_requests_in_flight 0",
        "baler_occupancy_ratio_bucket{mode=\"enforce\",model=\"other\",policy=\"default\",\
         stage=\"before\"",
        "baler_overhead_seconds_bucket{phase=\"total\"",
        "baler_upstream_first_byte_seconds_count{action=\"none\",endpoint=\"chat\"} 1",
        "baler_prompt_tokens_total{mode=\"enforce\",model=\"other\",policy=\"default\",\
         stage=\"after\"} 8",
        "baler_messages_total{mode=\"enforce\",model=\"other\",policy=\"default\",\
         stage=\"before\"} 1",
        "baler_prompt_tokens_removed_total{mode=\"enforce\",model=\"other\",policy=\"default\"} 0",
    ] {
        assert!(text.contains(name), "{name} in\n{text}");
    }
    // Every metric has a help text and one of the prefixes.
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(
            ["baler_", "gen_ai_", "process_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
                && text.contains(&format!("# HELP {name} ")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn on_loopback_the_admin_port_has_no_name_that_a_web_page_could_take() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    for (host, status) in [
        ("host: evil.example\r\n", 421),
        ("host: localhost.evil.example:4142\r\n", 421),
        ("host: 127.0.0.1.evil.example\r\n", 421),
        ("host: a b\r\n", 421),
        ("host: \r\n", 421),
        ("host: localhost\r\n", 200),
        ("host: LOCALHOST:4142\r\n", 200),
        ("host: 127.0.0.1:4142\r\n", 200),
        ("host: [::1]:4142\r\n", 200),
        ("", 200),
    ] {
        let head = format!("GET /metrics HTTP/1.1\r\n{host}connection: close\r\n\r\n");
        let answer =
            within(async { Client::send(baler.admin, &head, b"").await.answer().await }).await;
        assert_eq!(answer.status, status, "{host:?}");
        assert_eq!(answer.text().contains("baler_"), status == 200, "{host:?}");
    }
}

#[tokio::test]
async fn stopping_turns_readiness_off_finishes_streams_and_then_ends() {
    let upstream = Upstream::start().await;
    let mut baler = Baler::start("", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut client = Client::send(baler.data, &head, body.as_bytes()).await;
    let mut got = within(upstream.next()).await;
    got.send(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
        \r\n3\r\none\r\n",
    )
    .await;
    within(client.read_until("one\r\n")).await;

    baler.stop.cancel();
    until(async || baler.probe("/readyz").await.status == 503).await;
    assert_eq!(baler.probe("/livez").await.status, 200);
    until_closed(baler.data).await;
    got.send("3\r\ntwo\r\n").await;
    within(client.read_until("two\r\n")).await;
    assert!(!baler.running.is_finished());
    got.send("0\r\n\r\n").await;
    assert!(
        within(client.rest()).await.ends_with(b"0\r\n\r\n"),
        "the stream ends properly"
    );
    within(&mut baler.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn stopping_does_not_wait_longer_than_the_deadline() {
    let upstream = Upstream::start().await;
    let mut baler = Baler::start("shutdown.timeout = \"50ms\"", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let client = Client::send(baler.data, &head, body.as_bytes()).await;
    let _got = within(upstream.next()).await;
    baler.stop.cancel();
    within(&mut baler.running).await.unwrap().unwrap();
    within(client.rest()).await;
}
