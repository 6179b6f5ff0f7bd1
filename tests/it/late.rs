//! Planning that has little time, or none: what exceeds the window is made to fit all the same, and
//! what could not be planned is rescued like any other refusal.

use std::sync::Arc;

use serde_json::json;

use crate::support::Baler;
use crate::support::Upstream;
use crate::support::agent;
use crate::support::json_answer;
use crate::support::message;
use crate::support::messages_of;
use crate::support::request;

/// A window that the conversations here exceed several times.
const POLICY: &str = "[[policy]]\nname = \"p\"\nwindow = 8000\nreserve = 500\n";

/// An upstream that refuses bodies above this length as too long.
async fn refusing_above(bytes: usize) -> (std::net::SocketAddr, crate::support::Log) {
    Upstream::automatic(move |body| {
        if body.len() <= bytes {
            return json_answer(r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#);
        }
        let error = json!({"error": {"type": "invalid_request_error",
            "code": "context_length_exceeded", "param": "messages", "message":
            "This model's maximum context length is 8000 tokens. However, your messages resulted \
            in 60000 tokens. Please reduce the length of the messages."}})
        .to_string();
        format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
            content-length: {}\r\n\r\n{error}",
            error.len()
        )
    })
    .await
}

/// A conversation of some 300 kB that no other is a prefix of.
fn cold(nth: usize) -> String {
    let mut messages = agent(150, 400);
    messages[0] = message("user", &format!("Task {nth}: find the cause."));
    request(&messages)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_over_the_window_fit_however_many_come_at_once() {
    let (upstream, log) = refusing_above(60_000).await;
    // The time of each is spent before its turn comes: the pool has as many threads as there are
    // processors.
    let settings = format!("limits.plan_timeout = \"1us\"\n{POLICY}");
    let baler = Arc::new(Baler::start(&settings, upstream).await);
    let asked: Vec<_> = (0..16)
        .map(|nth| {
            let baler = Arc::clone(&baler);
            tokio::spawn(async move { baler.chat(&cold(nth)).await })
        })
        .collect();
    for answer in asked {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.action(), "compacted");
    }
    assert_eq!(log.lock().unwrap().len(), 16, "none was refused first");
    assert_eq!(baler.metric("baler_plan_shortcuts_total").await, 16.0);
    assert_eq!(
        baler
            .metric("baler_fail_open_total{cause=\"deadline\"}")
            .await,
        0.0
    );
    assert!(
        baler
            .metric("baler_overhead_seconds_count{phase=\"queue\"}")
            .await
            >= 16.0
    );
}

#[tokio::test]
async fn a_shortcut_is_kept_like_any_compaction() {
    let (upstream, log) = refusing_above(60_000).await;
    let settings = format!("limits.plan_timeout = \"1us\"\n{POLICY}");
    let baler = Baler::start(&settings, upstream).await;
    let mut messages = agent(150, 400);
    assert_eq!(baler.chat(&request(&messages)).await.status, 200);
    messages.push(message("assistant", "The cause is a lock."));
    messages.push(message("user", "Which?"));
    let answer = baler.chat(&request(&messages)).await;
    assert_eq!(answer.action(), "replayed");
    let sent: Vec<Vec<String>> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| messages_of(body))
        .collect();
    assert!(sent[1].starts_with(&sent[0]), "the prefix stays");
}

#[tokio::test]
async fn what_could_not_be_planned_in_time_is_rescued_when_it_is_refused() {
    let (upstream, log) = refusing_above(60_000).await;
    let limits = "limits = { plan_timeout = \"1us\", plan_deadline = \"1us\" }";
    let settings = format!("{limits}\n{POLICY}");
    let baler = Baler::start(&settings, upstream).await;
    let answer = baler.chat(&cold(1)).await;
    assert_eq!((answer.status, answer.action()), (200, "rescued"));
    assert_eq!(log.lock().unwrap().len(), 2);
    assert_eq!(
        baler
            .metric("baler_fail_open_total{cause=\"deadline\"}")
            .await,
        1.0
    );
}

#[tokio::test]
async fn what_the_gate_let_through_is_rescued_when_it_is_refused() {
    let (upstream, log) = refusing_above(60_000).await;
    let policy = "[[policy]]\nname = \"p\"\nwindow = 1000000\nreserve = 500\n";
    let baler = Baler::start(policy, upstream).await;
    let answer = baler.chat(&cold(1)).await;
    assert_eq!((answer.status, answer.action()), (200, "rescued"));
    assert_eq!(log.lock().unwrap().len(), 2);
}
