//! How Baler learns how full the window is: how the upstream counts, and what it reported across
//! Baler's own compactions.

use serde_json::json;

use crate::support::Baler;
use crate::support::Upstream;
use crate::support::agent;
use crate::support::json_answer;
use crate::support::message;
use crate::support::messages_of;
use crate::support::request;
use baler::core::tokens::Encoding;
use baler::core::wire::chat::Chat;
use baler::core::wire::chat::{count_fixed, count_message};

const POLICY: &str =
    "[[policy]]\nname = \"p\"\nmodels = [\"test-*\"]\nwindow = 8000\nreserve = 0\n";

/// What we count for a body.
fn counted(body: &[u8]) -> u64 {
    let chat = Chat::parse(body).unwrap();
    count_fixed(&chat.outline, Encoding::O200K)
        + chat
            .messages
            .iter()
            .map(|message| count_message(message.raw, Encoding::O200K).unwrap())
            .sum::<u64>()
}

/// An upstream that counts half as much again as we do.
async fn thorough() -> (std::net::SocketAddr, crate::support::Log) {
    Upstream::automatic(|body| {
        let usage = json!({"prompt_tokens": counted(body) * 3 / 2, "completion_tokens": 1});
        json_answer(
            &json!({"choices": [{"message": {"role": "assistant", "content": "ok"}}],
            "usage": usage})
            .to_string(),
        )
    })
    .await
}

/// `after` of `x-baler-tokens`.
fn estimate(answer: &crate::support::Answer) -> u64 {
    let header = answer.header("x-baler-tokens");
    header
        .split("after=")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn how_the_upstream_counts_is_learned_shown_and_used_for_what_is_new() {
    let (upstream, _) = thorough().await;
    let baler = Baler::start(POLICY, upstream).await;
    let conversation = |n: u32| {
        request(&[
            message("system", &format!("You are agent {n}.")),
            message("user", &"some words to count. ".repeat(300)),
        ])
    };
    let first = baler.chat(&conversation(0)).await;
    let real = counted(conversation(0).as_bytes()) * 3 / 2;
    assert_eq!(
        estimate(&first),
        counted(conversation(0).as_bytes()),
        "nothing is known yet"
    );
    baler.metric_reaches("baler_usage_learned_total", 1.0).await;
    let other = baler.chat(&conversation(1)).await;
    assert!(
        estimate(&other).abs_diff(real) * 50 < real,
        "{} of {real}: another conversation is estimated as the upstream counts",
        estimate(&other)
    );
    baler.metric_reaches("baler_usage_learned_total", 2.0).await;
    let factor = baler
        .metric("baler_calibration_factor{model=\"test-*\",policy=\"p\"}")
        .await;
    assert!((factor - 1.5).abs() < 0.01, "{factor}");
    // The first estimate was a third off, the second was right: both are told.
    assert_eq!(
        baler
            .metric("baler_estimate_error_ratio_count{policy=\"p\"}")
            .await,
        2.0
    );
    assert_eq!(
        baler
            .metric("baler_estimate_error_ratio_bucket{policy=\"p\",le=\"0.02\"}")
            .await,
        1.0
    );
    assert_eq!(
        baler
            .metric("baler_estimate_error_ratio_bucket{policy=\"p\",le=\"0.5\"}")
            .await,
        2.0
    );
    assert_eq!(
        baler
            .metric("baler_window_tokens{model=\"test-*\",policy=\"p\"}")
            .await,
        8_000.0
    );
}

#[tokio::test]
async fn estimates_stay_near_the_reports_across_compactions_and_nothing_overflows() {
    let (upstream, log) = thorough().await;
    let baler = Baler::start(POLICY, upstream).await;
    let all = agent(120, 150);
    let (mut compacted, mut worst) = (0, 0.0_f64);
    for turn in 1..=118_u32 {
        let body = request(&all[..2 + 2 * turn as usize]);
        let answer = baler.chat(&body).await;
        baler
            .metric_reaches("baler_usage_learned_total", f64::from(turn))
            .await;
        compacted += u32::from(answer.action() == "compacted");
        let sent = log.lock().unwrap().last().unwrap().1.clone();
        let reported = counted(&sent) * 3 / 2;
        assert!(reported <= 8_000, "turn {turn}: {reported}");
        if turn > 3 {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let error = estimate(&answer).abs_diff(reported) as f64 / reported as f64;
            worst = worst.max(error);
        }
    }
    assert!(compacted >= 3, "{compacted}");
    assert!(worst < 0.02, "{worst}");
}

#[tokio::test]
async fn what_is_unknown_teaches_nothing() {
    for usage in [
        r#"{"prompt_tokens":0}"#,
        r#"{"prompt_tokens":-1}"#,
        "null",
        r#"{"prompt_tokens":"many"}"#,
        "{}",
    ] {
        let (upstream, _) = Upstream::automatic(move |_| {
            json_answer(&format!(r#"{{"choices":[],"usage":{usage}}}"#))
        })
        .await;
        let baler = Baler::start(POLICY, upstream).await;
        let messages = agent(10, 100);
        for _ in 0..2 {
            let answer = baler.chat(&request(&messages)).await;
            assert_eq!(
                estimate(&answer),
                counted(request(&messages).as_bytes()),
                "{usage}"
            );
        }
        assert_eq!(
            baler.metric("baler_usage_learned_total").await,
            0.0,
            "{usage}"
        );
    }
}

#[tokio::test]
async fn tools_are_part_of_the_estimate() {
    let (upstream, log) = Upstream::agreeable().await;
    let baler = Baler::start(POLICY, upstream).await;
    let tools = json!([{"type": "function", "function": {"name": "f",
        "description": "words ".repeat(400), "parameters": {"type": "object"}}}]);
    let body = request(&agent(3, 100)).replace("\"x\":1e2", &format!("\"tools\":{tools}"));
    let answer = baler.chat(&body).await;
    assert!(estimate(&answer) > counted(request(&agent(3, 100)).as_bytes()) + 400);
    let sent = log.lock().unwrap()[0].1.clone();
    assert_eq!(messages_of(&sent).len(), 8);
}

/// An upstream that cuts prompts to so many tokens and says nothing of it, as Ollama does.
async fn cutting(window: u64) -> std::net::SocketAddr {
    let answer = move |body: &[u8]| {
        let usage = json!({"prompt_tokens": counted(body).min(window), "completion_tokens": 1});
        json_answer(
            &json!({"choices": [{"message": {"role": "assistant", "content": "ok"}}],
            "usage": usage})
            .to_string(),
        )
    };
    Upstream::automatic(answer).await.0
}

#[tokio::test]
async fn a_prompt_that_was_cut_without_a_word_is_told_and_teaches_nothing() {
    let toml = "[[policy]]\nname = \"p\"\nmodels = [\"test-*\"]\nwindow = 100000\nreserve = 0\n";
    let baler = Baler::start(toml, cutting(1_000).await).await;
    let all = agent(40, 150);
    // What fits is learned as ever.
    let short = request(&all[..4]);
    assert!((100..900).contains(&counted(short.as_bytes())));
    baler.chat(&short).await;
    baler.metric_reaches("baler_usage_learned_total", 1.0).await;
    for (turn, length) in [50, 60, 70].into_iter().enumerate() {
        let body = request(&all[..length]);
        assert!(counted(body.as_bytes()) > 2_500);
        let answer = baler.chat(&body).await;
        assert_eq!(
            estimate(&answer),
            counted(body.as_bytes()),
            "what was reported for less is not believed"
        );
        baler
            .metric_reaches("baler_truncations_suspected_total", (turn + 1) as f64)
            .await;
    }
    assert_eq!(baler.metric("baler_usage_learned_total").await, 1.0);
    assert_eq!(
        baler
            .metric("baler_calibration_factor{model=\"test-*\",policy=\"p\"}")
            .await,
        1.0
    );
}

#[tokio::test]
async fn a_header_that_tells_of_a_cut_prompt_is_not_handed_to_the_client() {
    let (address, _) = Upstream::automatic(|_| {
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-prompt-tokens: 900\r\n\
        content-length: 2\r\n\r\n{}"
            .to_owned()
    })
    .await;
    let baler = Baler::start("[[policy]]\nname = \"p\"\nwindow = 100000\n", address).await;
    let all = agent(40, 100);
    for length in [8, 80] {
        let answer = baler.chat(&request(&all[..length])).await;
        assert!(
            answer
                .header("x-baler-usage")
                .starts_with("prompt_tokens=900; messages=8; "),
            "the longer list is not told of"
        );
    }
    baler
        .metric_reaches("baler_truncations_suspected_total", 1.0)
        .await;
}

#[tokio::test]
async fn what_vendors_count_otherwise_is_no_cut_prompt() {
    // Llama's images are one token each, schemas for constrained decoding and the reasoning of
    // earlier turns are none.
    let image = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
    let images = json!([{"role": "user", "content": vec![image; 9]}]);
    let thoughts = json!([{"role": "user", "content": "Why?"}, {"role": "assistant",
        "content": "So.", "reasoning_content": "because ".repeat(3_000)}, {"role": "user",
        "content": "Oh."}]);
    let question = json!([{"role": "user", "content": "Who?"}]);
    let format = json!({"type": "json_schema", "json_schema": {"name": "n",
        "schema": {"type": "object", "description": "words ".repeat(3_000)}}});
    let (upstream, _) =
        Upstream::automatic(|_| json_answer("{\"usage\":{\"prompt_tokens\":50}}")).await;
    let baler = Baler::start("[[policy]]\nname = \"p\"\nwindow = 100000\n", upstream).await;
    for (learned, body) in [
        json!({"messages": images}),
        json!({"messages": thoughts}),
        json!({"messages": question, "response_format": format}),
    ]
    .iter()
    .enumerate()
    {
        assert!(counted(body.to_string().as_bytes()) > 2_500);
        baler.chat(&body.to_string()).await;
        baler
            .metric_reaches("baler_usage_learned_total", (learned + 1) as f64)
            .await;
    }
    assert_eq!(baler.metric("baler_truncations_suspected_total").await, 0.0);
}
