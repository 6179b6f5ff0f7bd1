//! Requests that there is no room to look at are streamed through unread; only too many at a time
//! are refused.

use crate::support::Baler;
use crate::support::Client;
use crate::support::Upstream;
use crate::support::agent;
use crate::support::message;
use crate::support::request;
use crate::support::until;
use crate::support::within;
use crate::support::words;

const HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";

#[tokio::test]
async fn a_body_over_the_limit_is_streamed_through_announced_or_not() {
    let (address, log) = Upstream::agreeable().await;
    let limits = "limits.body_bytes = 2000\nlimits.memory_bytes = 4000";
    let baler = Baler::start(limits, address).await;
    let body = request(&[message("user", &words(1, 5_000))]);
    let answer = baler.chat(&body).await;
    assert_eq!((answer.status, answer.action()), (200, "bypassed"));
    let head = format!("{HEAD}transfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    let (half, rest) = body.split_at(body.len() / 2);
    let chunked = format!(
        "{:x}\r\n{half}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n",
        half.len(),
        rest.len()
    );
    let mut client = Client::send(baler.data, &head, chunked.as_bytes()).await;
    let answer = within(client.read_until("\r\n\r\n")).await;
    assert!(answer.contains("x-baler-action: bypassed"), "{answer}");
    let sent: Vec<_> = log.lock().unwrap().drain(..).collect();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|(_, sent)| sent == body.as_bytes()));
    assert_eq!(
        baler
            .metric("baler_passes_total{reason=\"too_large\"}")
            .await,
        2.0
    );
}

#[tokio::test]
async fn a_body_without_memory_is_streamed_through() {
    let (address, log) = Upstream::agreeable().await;
    let limits = "limits.body_bytes = 100000\nlimits.memory_bytes = 100000";
    let baler = Baler::start(limits, address).await;
    // Most of the memory is held by a body of which the end does not come.
    let head = format!("{HEAD}content-length: 99000\r\n\r\n");
    let held = Client::send(baler.data, &head, &[b' '; 90_000]).await;
    baler.metric_reaches("baler_requests_in_flight", 1.0).await;
    let body = request(&[message("user", &"x".repeat(60_000))]);
    let bypassed = async || Box::pin(baler.chat(&body)).await.action() == "bypassed";
    until(bypassed).await;
    assert_eq!(log.lock().unwrap().last().unwrap().1, body.as_bytes());
    assert!(
        baler
            .metric("baler_passes_total{reason=\"no_memory\"}")
            .await
            >= 1.0
    );
    drop(held);
    baler.metric_ends("baler_requests_in_flight").await;
    assert_eq!(baler.chat(&body).await.action(), "none");
}

#[tokio::test]
async fn an_announced_length_takes_no_memory() {
    let (address, _) = Upstream::agreeable().await;
    let limits = "limits.body_bytes = 1000000\nlimits.memory_bytes = 1000000\n\
        limits.on_overload = \"reject\"";
    let baler = Baler::start(limits, address).await;
    let head = format!("{HEAD}content-length: 1000000\r\n\r\n");
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(Client::send(baler.data, &head, b"{").await);
    }
    baler.metric_reaches("baler_requests_in_flight", 16.0).await;
    let body = request(&[message("user", &"x".repeat(60_000))]);
    assert_eq!(baler.chat(&body).await.status, 200);
}

#[tokio::test]
async fn lists_beyond_all_measure_are_forwarded_unread() {
    let (address, log) = Upstream::agreeable().await;
    let policy = "limits.messages = 100\n[[policy]]\nwindow = 2000\n";
    let baler = Baler::start(policy, address).await;
    let calls = vec!["{}"; 100_000].join(",");
    let parts = vec!["1"; 100_000].join(",");
    for body in [
        request(&agent(60, 100)),
        format!(r#"{{"messages":[{{"role":"assistant","tool_calls":[{calls}]}}]}}"#),
        format!(r#"{{"messages":[{{"role":"user","content":[{parts}]}}]}}"#),
    ] {
        let answer = baler.chat(&body).await;
        assert_eq!((answer.status, answer.action()), (200, "none"));
        assert_eq!(log.lock().unwrap().last().unwrap().1, body.as_bytes());
    }
    assert_eq!(
        baler
            .metric("baler_passes_total{reason=\"unusual_json\"}")
            .await,
        3.0
    );
}
