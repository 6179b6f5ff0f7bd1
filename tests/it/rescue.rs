//! What the upstream refuses as too long is made smaller and sent once more, before the client saw
//! anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::Baler;
use crate::support::Upstream;
use crate::support::agent;
use crate::support::json_answer;
use crate::support::message;
use crate::support::messages_of;
use crate::support::request;

/// Far too large a window, and marks that are not reached.
const POLICY: &str = "[[policy]]\nname = \"p\"\nwindow = 200000\nreserve = 1000\n";

/// An answer of this status.
fn answer(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// What vLLM says of a window of 4,096 tokens.
fn too_long(prompt: u64) -> String {
    let said = format!(
        "This model's maximum context length is 4096 tokens. However, you requested {prompt} \
        tokens ({prompt} in the messages, 0 in the completion). Please reduce the length of the \
        messages or completion."
    );
    let body = json!({"object": "error", "message": said, "type": "BadRequestError",
        "param": null, "code": 400})
    .to_string();
    answer("400 Bad Request", "application/json", &body)
}

/// Tokens of a body by a rough count that only has to tell long from short.
fn roughly(body: &[u8]) -> u64 {
    (body.len() / 5) as u64
}

/// An upstream of a window of 4,096 tokens.
async fn small_window() -> (std::net::SocketAddr, crate::support::Log) {
    Upstream::automatic(|body| {
        let tokens = roughly(body);
        if tokens > 4_096 {
            too_long(tokens)
        } else {
            json_answer(
                &json!({"choices": [{"message": {"role": "assistant", "content": "ok"}}],
                    "usage": {"prompt_tokens": tokens}})
                .to_string(),
            )
        }
    })
    .await
}

#[tokio::test]
async fn a_request_that_is_too_long_is_served_within_the_same_request() {
    let (upstream, log) = small_window().await;
    let baler = Baler::start(POLICY, upstream).await;
    let messages = agent(60, 100);
    let served = baler.chat(&request(&messages)).await;
    assert_eq!(
        (served.status, served.action()),
        (200, "rescued"),
        "{}",
        served.text()
    );
    let sent: Vec<Vec<u8>> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| body.clone())
        .collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(
        sent[0],
        request(&messages).into_bytes(),
        "what was refused was the client's own"
    );
    assert!(roughly(&sent[1]) <= 4_096);
    // Head and last message stay what they were.
    let (all, kept) = (messages_of(&sent[0]), messages_of(&sent[1]));
    assert_eq!(kept[..2], all[..2]);
    assert_eq!(kept.last(), all.last());
    assert!(
        served.header("x-baler-tokens").ends_with("window=4096"),
        "{}",
        served.header("x-baler-tokens")
    );
    assert_eq!(
        baler
            .metric("baler_rescues_total{outcome=\"rescued\"}")
            .await,
        1.0
    );
    assert_eq!(
        baler.metric("baler_overflows_total{kind=\"prompt\"}").await,
        1.0
    );
}

#[tokio::test]
async fn the_window_is_remembered_and_the_next_turns_never_overflow() {
    let (upstream, log) = small_window().await;
    let baler = Baler::start(POLICY, upstream).await;
    let mut messages = agent(60, 100);
    assert_eq!(baler.chat(&request(&messages)).await.action(), "rescued");
    for turn in 0..40 {
        messages.extend(
            agent(1, 150)
                .into_iter()
                .skip(2)
                .map(|m| m.replace("call_0", &format!("again_{turn}"))),
        );
        let served = baler.chat(&request(&messages)).await;
        assert_eq!(served.status, 200, "turn {turn}: {}", served.text());
        assert!(
            ["replayed", "compacted"].contains(&served.action()),
            "turn {turn}: {}",
            served.action()
        );
        baler
            .metric_reaches("baler_usage_learned_total", f64::from(turn) + 2.0)
            .await;
    }
    let refused = log
        .lock()
        .unwrap()
        .iter()
        .filter(|(_, body)| roughly(body) > 4_096)
        .count();
    assert_eq!(refused, 1, "only the first");
    // Another conversation knows it as well.
    let other: Vec<String> = agent(60, 100)
        .into_iter()
        .map(|message| message.replace("river", "brook"))
        .collect();
    assert_eq!(baler.chat(&request(&other)).await.action(), "compacted");
}

#[tokio::test]
async fn an_error_that_is_the_first_event_of_a_stream_is_rescued_too() {
    let (upstream, log) = Upstream::automatic(|body| {
        let event = if roughly(body) > 4_096 {
            concat!(
                r#"{"error":{"message":"request (6000 tokens) exceeds the available context size "#,
                r#"(4096 tokens), try increasing it","type":"exceed_context_size_error","#,
                r#""n_prompt_tokens":6000,"n_ctx":4096,"code":400}}"#,
            )
        } else {
            r#"{"choices":[{"delta":{"content":"fine"}}]}"#
        };
        answer(
            "200 OK",
            "text/event-stream",
            &format!("data: {event}\n\ndata: [DONE]\n\n"),
        )
    })
    .await;
    let baler = Baler::start(POLICY, upstream).await;
    let served = baler.chat(&request(&agent(60, 100))).await;
    assert_eq!((served.status, served.action()), (200, "rescued"));
    assert_eq!(
        served.text(),
        "data: {\"choices\":[{\"delta\":{\"content\":\"fine\"}}]}\n\ndata: [DONE]\n\n"
    );
    assert_eq!(log.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn other_errors_pass_untouched_and_are_not_tried_again() {
    let limited = concat!(
        r#"{"error":{"message":"Rate limit reached: request too large for gpt-4o on tokens per "#,
        r#"min (TPM): Limit 30000, Requested 41000.","type":"tokens","#,
        r#""code":"rate_limit_exceeded"}}"#,
    );
    for (status, body) in [
        ("429 Too Many Requests", limited),
        (
            "413 Payload Too Large",
            r#"{"error":{"message":"Request body exceeds 32 MB"}}"#,
        ),
        (
            "400 Bad Request",
            concat!(
                r#"{"error":{"message":"Invalid schema for function 'x'","#,
                r#""code":"invalid_function_parameters"}}"#,
            ),
        ),
        ("500 Internal Server Error", "<html>broken</html>"),
    ] {
        let (upstream, log) =
            Upstream::automatic(move |_| answer(status, "application/json", body)).await;
        let baler = Baler::start(POLICY, upstream).await;
        let passed = baler.chat(&request(&agent(20, 100))).await;
        assert_eq!(passed.text(), body);
        assert_eq!(passed.action(), "none");
        assert_eq!(log.lock().unwrap().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn where_the_second_try_fails_too_the_client_gets_the_upstreams_own_error() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (upstream, log) =
        Upstream::automatic(move |body| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => too_long(roughly(body)),
            _ => answer(
                "400 Bad Request",
                "application/json",
                r#"{"error":{"message":"second","code":"context_length_exceeded"}}"#,
            ),
        })
        .await;
    let baler = Baler::start(POLICY, upstream).await;
    let failed = baler.chat(&request(&agent(60, 100))).await;
    assert_eq!(failed.status, 400);
    assert_eq!(failed.json()["error"]["message"], "second");
    assert_ne!(failed.action(), "rescued");
    assert_eq!(log.lock().unwrap().len(), 2, "tried once more, and no more");
    assert_eq!(
        baler
            .metric("baler_rescues_total{outcome=\"failed\"}")
            .await,
        1.0
    );
}

#[tokio::test]
async fn where_the_upstream_is_gone_at_the_second_try_its_refusal_is_told_as_it_was() {
    let upstream = Upstream::start().await;
    let baler = Baler::start(POLICY, upstream.address).await;
    let body = request(&agent(60, 100));
    let asked = async move {
        let mut received = upstream.next().await;
        // From here on nobody listens.
        drop(upstream);
        let refusal = too_long(roughly(&received.body));
        received.stream.write_all(refusal.as_bytes()).await.unwrap();
    };
    let (refused, ()) = tokio::join!(baler.chat(&body), asked);
    assert_eq!((refused.status, refused.action()), (400, "none"));
    assert!(refused.text().contains("This model's maximum"));
    assert_eq!(
        baler
            .metric("baler_rescues_total{outcome=\"failed\"}")
            .await,
        1.0
    );
}

#[tokio::test]
async fn a_request_that_is_planned_twice_is_counted_once() {
    let (upstream, _) = small_window().await;
    // Too long for the gate, and below the trigger.
    let policy = POLICY.replace("200000", "20000");
    let baler = Baler::start(&policy, upstream).await;
    let served = baler.chat(&request(&agent(60, 100))).await;
    assert_eq!((served.status, served.action()), (200, "rescued"));
    assert_eq!(baler.sum("baler_checkpoint_lookups_total", &[]).await, 1.0);
    assert_eq!(baler.sum("baler_unfit_total", &[]).await, 0.0);
}

#[tokio::test]
async fn what_cannot_be_made_smaller_is_refused_by_the_upstream_or_by_policy() {
    for (more, expected) in [
        ("", "This model's maximum"),
        ("on_unfit = \"reject\"\n", "x-baler"),
    ] {
        let (upstream, log) = small_window().await;
        let baler = Baler::start(&format!("{POLICY}{more}"), upstream).await;
        let alone = [message("user", &crate::support::words(1, 6_000))];
        let refused = baler.chat(&request(&alone)).await;
        assert_eq!(refused.status, 400);
        if expected == "x-baler" {
            assert_eq!(refused.json()["error"]["code"], "context_unfit");
            assert!(!refused.headers("x-baler-error").is_empty());
        } else {
            assert!(refused.text().contains(expected), "{}", refused.text());
        }
        assert_eq!(log.lock().unwrap().len(), 1, "nothing was sent again");
    }
}

#[tokio::test]
async fn a_policy_may_leave_overflows_to_the_client_but_learns_the_window() {
    let (upstream, log) = small_window().await;
    let baler = Baler::start(&format!("{POLICY}rescue = false\n"), upstream).await;
    let body = request(&agent(60, 100));
    let refused = baler.chat(&body).await;
    assert_eq!((refused.status, log.lock().unwrap().len()), (400, 1));
    assert_eq!(
        baler.chat(&body).await.action(),
        "compacted",
        "the next request knows better"
    );
    assert_eq!(
        baler.metric("baler_rescues_total{outcome=\"off\"}").await,
        1.0
    );
}

#[tokio::test]
async fn observing_and_opting_out_leave_the_upstreams_error_alone() {
    for (headers, counted) in [
        ("x-baler-mode: observe\r\n", 1.0),
        ("x-baler-mode: off\r\n", 0.0),
    ] {
        let (upstream, log) = small_window().await;
        let baler = Baler::start(POLICY, upstream).await;
        let body = request(&agent(60, 100));
        let refused = baler.chat_with(&body, headers).await;
        assert_eq!(
            (refused.status, log.lock().unwrap().len()),
            (400, 1),
            "{headers}"
        );
        assert!(refused.text().contains("4096 tokens"), "{headers}");
        // What is only observed is told of: it is what a policy would have prevented.
        let overflows = baler.metric("baler_overflows_total{kind=\"prompt\"}").await;
        let off = baler.metric("baler_rescues_total{outcome=\"off\"}").await;
        assert_eq!((overflows, off), (counted, counted), "{headers}");
        let again = baler.chat_with(&body, headers).await;
        let learned = again.header("x-baler-tokens").ends_with("window=4096");
        assert_eq!(learned, counted > 0.0, "{headers}: {}", again.head);
    }
}

#[tokio::test]
async fn an_overflow_without_any_figure_is_rescued_by_halving_what_was_sent() {
    let (upstream, log) = Upstream::automatic(|body| {
        if roughly(body) > 4_096 {
            answer(
                "400 Bad Request",
                "application/json",
                concat!(
                    r#"{"error":{"message":"Please reduce the length of the messages or "#,
                    r#"completion.","type":"invalid_request_error","#,
                    r#""code":"context_length_exceeded"}}"#,
                ),
            )
        } else {
            json_answer(r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#)
        }
    })
    .await;
    let baler = Baler::start(POLICY, upstream).await;
    let served = baler.chat(&request(&agent(60, 100))).await;
    assert_eq!(
        (served.status, served.action()),
        (200, "rescued"),
        "{}",
        served.text()
    );
    assert_eq!(log.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_reply_that_asks_for_too_much_gets_a_lower_limit_where_the_policy_says_so() {
    // A prompt of 1,000 tokens is all right, and 4,000 more for the reply are not.
    let over = |body: &[u8]| {
        let asked = serde_json::from_slice::<serde_json::Value>(body).unwrap()["max_tokens"]
            .as_u64()
            .unwrap();
        (asked + 1_000 > 4_096).then(|| {
            let said = format!(
                "This model's maximum context length is 4096 tokens. However, you requested {} \
                tokens (1000 in the messages, {asked} in the completion). Please reduce the \
                length of the messages or completion.",
                1_000 + asked
            );
            answer(
                "400 Bad Request",
                "application/json",
                &json!({"error": {"message": said,
                "code": "context_length_exceeded"}})
                .to_string(),
            )
        })
    };
    let body = |limit: u64| {
        request(&agent(10, 60)).replace("\"x\":1e2", &format!("\"max_tokens\":{limit} ,\"x\":1e2"))
    };
    let (upstream, log) =
        Upstream::automatic(move |body| over(body).unwrap_or_else(|| json_answer("{}"))).await;
    let baler = Baler::start(&format!("{POLICY}fit_output = true\n"), upstream).await;
    let served = baler.chat(&body(4_000)).await;
    assert_eq!(
        (served.status, served.action()),
        (200, "rescued"),
        "{}",
        served.text()
    );
    let sent = log.lock().unwrap()[1].1.clone();
    assert_eq!(
        String::from_utf8(sent).unwrap(),
        body(3_096),
        "nothing else was changed"
    );
}

#[tokio::test]
async fn what_a_stream_was_asked_beyond_its_clients_wishes_is_asked_again_and_taken_out() {
    let (upstream, log) = Upstream::automatic(|body| {
        if roughly(body) > 4_096 {
            return too_long(roughly(body));
        }
        let content = r#"{"choices":[{"delta":{"content":"fine"}}]}"#;
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":3000}}"#;
        answer(
            "200 OK",
            "text/event-stream",
            &format!("data: {content}\n\ndata: {usage}\n\ndata: [DONE]\n\n"),
        )
    })
    .await;
    let baler = Baler::start(&format!("{POLICY}include_usage = true\n"), upstream).await;
    let body = request(&agent(60, 100)).replace("\"x\":1e2", "\"stream\":true");
    let served = baler.chat(&body).await;
    assert_eq!(
        (served.status, served.action()),
        (200, "rescued"),
        "{}",
        served.text()
    );
    assert_eq!(
        served.text(),
        "data: {\"choices\":[{\"delta\":{\"content\":\"fine\"}}]}\n\ndata: [DONE]\n\n"
    );
    let sent = String::from_utf8(log.lock().unwrap()[1].1.clone()).unwrap();
    assert!(sent.contains("\"include_usage\":true"), "{sent}");
}
