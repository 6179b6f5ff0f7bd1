//! Cache marks of clients: they move on from request to request, and the API allows four.

use serde_json::{Value, json};

use super::super::support::{Baler, Upstream, words};

const MARK: &str = "cache_control";

/// The list of an agent after so many steps, with marks on the instruction and on the newest three
/// results, as clients of such APIs set them.
fn list(steps: usize) -> Vec<Value> {
    let marked = |text: &str| json!([{"type": "text", "text": text, MARK: {"type": "ephemeral"}}]);
    let mut all = vec![
        json!({"role": "system", "content": marked("You are an agent.")}),
        json!({"role": "user", "content": "Find the answer."}),
    ];
    for step in 0..steps {
        let id = format!("call_{step}");
        let call = json!({"id": id, "type": "function",
            "function": {"name": "read", "arguments": format!("{{\"n\":{step}}}")}});
        let text = words(step, 60);
        let content = if step + 3 >= steps {
            marked(&text)
        } else {
            json!(text)
        };
        all.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        all.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
    }
    all
}

fn marks(body: &[u8]) -> usize {
    String::from_utf8_lossy(body).matches(MARK).count()
}

async fn never_more_marks_than_the_clients(ladder: &str) {
    let (address, log) = Upstream::agreeable().await;
    let toml = format!(
        "[[policy]]\nname = \"p\"\nwindow = 2500\nkeep = {{ tokens = 100 }}\nladder = [{ladder}]\n"
    );
    let baler = Baler::start(&toml, address).await;
    let (mut compacted, mut replayed) = (0, 0);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for steps in 1..60 {
        let body = json!({"model": "m", "messages": list(steps)}).to_string();
        let answer = baler.chat(&body).await;
        compacted += usize::from(answer.action() == "compacted");
        replayed += usize::from(answer.action() == "replayed");
        let got = log.lock().unwrap().last().unwrap().1.clone();
        let (own, now) = (marks(body.as_bytes()), marks(&got));
        assert!(now <= own && now <= 4, "{ladder}, {steps}: {now} of {own}");
        assert!(
            now >= own.min(3),
            "{ladder}, {steps}: {now}: kept messages keep theirs"
        );
        sent.push(got);
    }
    assert!(
        compacted > 1 && replayed > 10,
        "{ladder}: {compacted}, {replayed}"
    );

    // A process that never saw the conversation sends the same bytes.
    let fresh = Baler::start(&toml, address).await;
    for steps in [20, 40, 59] {
        let body = json!({"model": "m", "messages": list(steps)}).to_string();
        fresh.chat(&body).await;
        let got = log.lock().unwrap().last().unwrap().1.clone();
        assert_eq!(
            String::from_utf8_lossy(&got),
            String::from_utf8_lossy(&sent[steps - 1]),
            "{ladder}, {steps}"
        );
    }
}

#[tokio::test]
async fn a_digest_never_makes_more_marks_than_the_client_has() {
    never_more_marks_than_the_clients(r#""digest""#).await;
}

#[tokio::test]
async fn a_transcript_never_makes_more_marks_than_the_client_has() {
    never_more_marks_than_the_clients(r#""coalesce""#).await;
}

#[tokio::test]
async fn placeholders_never_make_more_marks_than_the_client_has() {
    never_more_marks_than_the_clients(r#"{ clear_results = { keep = 2 } }, "digest""#).await;
}
