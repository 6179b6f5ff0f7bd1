//! A conversation that outgrows its window: compacted once, then replayed; and who decides that it
//! is not.

use crate::support::Baler;
use crate::support::Client;
use crate::support::Upstream;
use crate::support::agent;
use crate::support::json_answer;
use crate::support::message;
use crate::support::messages_of;
use crate::support::request;
use crate::support::within;
use crate::support::words;

/// A window of 4,000 tokens that acts at 80 % of 3,000 and goes down to half.
const POLICY: &str = "[[policy]]\nname = \"small\"\nwindow = 4000\nreserve = 1000\n";

#[tokio::test]
async fn an_outgrown_conversation_is_compacted_once_and_then_replayed() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(POLICY, address).await;
    let all = agent(60, 200);
    let (mut actions, mut upstream_bodies) = (Vec::new(), Vec::new());
    // Every request an agent would make: after each result.
    for end in (2..=all.len()).step_by(2) {
        let body = request(&all[..end]);
        let answer = baler.chat(&body).await;
        assert_eq!(answer.status, 200);
        actions.push(answer.action().to_owned());
        let sent = log.lock().unwrap().last().unwrap().1.clone();
        let kept = messages_of(&sent);
        assert_eq!(kept[..2], all[..2], "the head stays");
        assert_eq!(kept.last(), all[..end].last(), "the newest message stays");
        let tail = br#"],"x":1e2}"#;
        assert!(
            sent.starts_with(br#"{"model":"test-model","temperature":0.50,"messages":["#)
                && sent.ends_with(tail)
        );
        upstream_bodies.push(sent[..sent.len() - tail.len()].to_vec());
    }
    let compactions = actions
        .iter()
        .filter(|action| *action == "compacted")
        .count();
    assert!((4..12).contains(&compactions), "{actions:?}");
    assert_eq!(actions[0], "none");
    for (turn, pair) in upstream_bodies.windows(2).enumerate() {
        if actions[turn + 1] != "compacted" {
            assert!(
                pair[1].starts_with(&pair[0]),
                "turn {turn}: the cached prefix stays byte for byte"
            );
        }
    }
    assert!(
        actions
            .iter()
            .filter(|action| *action == "replayed")
            .count()
            > 30,
        "{actions:?}"
    );
    assert!(
        baler
            .sum(
                "baler_compaction_steps_total",
                &[("reason", "ratio"), ("strategy", "digest")]
            )
            .await
            >= 1.0
    );
    assert!(
        baler
            .metric("baler_checkpoint_lookups_total{result=\"hit\"}")
            .await
            >= 30.0
    );
    assert!(
        baler
            .sum("baler_prompt_tokens_removed_total", &[("mode", "enforce")])
            .await
            > 1000.0
    );
}

#[tokio::test]
async fn a_process_that_never_saw_the_conversation_sends_the_same_bytes() {
    let (address, log) = Upstream::agreeable().await;
    let lived = Baler::start(POLICY, address).await;
    let all = agent(60, 200);
    for end in (2..=all.len()).step_by(2) {
        lived.chat(&request(&all[..end])).await;
        let sent = log.lock().unwrap().last().unwrap().1.clone();
        if end % 24 == 0 {
            let fresh = Baler::start(POLICY, address).await;
            fresh.chat(&request(&all[..end])).await;
            assert_eq!(
                log.lock().unwrap().last().unwrap().1,
                sent,
                "{end} messages"
            );
        }
    }
}

#[tokio::test]
async fn reported_usage_compacts_what_counting_would_let_pass() {
    // This upstream counts three tokens where Baler counts one.
    let (address, _) = Upstream::automatic(|body| {
        json_answer(&format!(
            "{{\"usage\":{{\"prompt_tokens\":{}}}}}",
            body.len() * 3 / 5
        ))
    })
    .await;
    let baler = Baler::start(POLICY, address).await;
    let all = agent(12, 100);
    let mut first = None;
    for end in (2..=all.len()).step_by(2) {
        let body = request(&all[..end]);
        let answer = baler.chat(&body).await;
        if answer.action() == "compacted" {
            first.get_or_insert(body.len());
        }
        baler
            .metric_reaches("baler_usage_learned_total", (end / 2) as f64)
            .await;
    }
    // 2,400 of its tokens are 4,000 bytes; by counts alone it would take some 12,000.
    let first = first.expect("it was compacted");
    assert!((3_000..7_000).contains(&first), "{first}");
}

#[tokio::test]
async fn observing_reports_and_changes_nothing() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(&format!("{POLICY}mode = \"observe\"\n"), address).await;
    let body = request(&agent(30, 200));
    let answer = baler.chat(&body).await;
    assert_eq!(answer.action(), "observed");
    assert_eq!(log.lock().unwrap()[0].1, body.as_bytes());
    let tokens = answer.header("x-baler-tokens");
    let number = |key: &str| {
        tokens
            .split("; ")
            .find_map(|part| part.strip_prefix(key)?.parse::<u64>().ok())
            .unwrap()
    };
    assert!(number("before=") > 2 * number("after="), "{tokens}");
}

#[tokio::test]
async fn a_request_may_opt_out_observe_or_force() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(POLICY, address).await;
    let large = request(&agent(30, 200));
    let answer = baler.chat_with(&large, "x-baler-mode: off\r\n").await;
    assert_eq!(answer.action(), "bypassed");
    assert_eq!(log.lock().unwrap().last().unwrap().1, large.as_bytes());
    let answer = baler.chat_with(&large, "x-baler-mode: observe\r\n").await;
    assert_eq!(answer.action(), "observed");
    assert_eq!(log.lock().unwrap().last().unwrap().1, large.as_bytes());

    // Far below the trigger, small enough for the gate; forced, and from then on replayed although
    // the gate would do.
    let small = agent(8, 40);
    let answer = baler
        .chat_with(&request(&small), "x-baler-mode: force\r\n")
        .await;
    assert_eq!(answer.action(), "compacted");
    let forced = messages_of(&log.lock().unwrap().last().unwrap().1);
    assert!(forced.len() < small.len() || forced != small);
    let mut longer = small.clone();
    longer.push(message("assistant", "Done."));
    longer.push(message("user", "Thanks."));
    let answer = baler.chat(&request(&longer)).await;
    assert_eq!(answer.action(), "replayed");
    let replayed = messages_of(&log.lock().unwrap().last().unwrap().1);
    assert_eq!(replayed[..1], forced[..1]);
    assert_eq!(replayed.len(), forced.len() + 2);
}

#[tokio::test]
async fn policies_match_by_model_path_and_header_and_only_selectable_ones_can_be_chosen() {
    let (address, _) = Upstream::agreeable().await;
    let toml = r#"
[[policy]]
name = "by-header"
headers = { x-team = "ml-*" }
[[policy]]
name = "by-path"
paths = ["/openai/**"]
[[policy]]
name = "by-model"
models = ["gpt-*", "o?"]
[[policy]]
name = "chosen"
models = ["never-matches"]
selectable = true
"#;
    let baler = Baler::start(toml, address).await;
    let body = |model: &str| {
        format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#)
    };
    for (model, headers, expected) in [
        ("gpt-4o", "", "by-model"),
        ("o3", "", "by-model"),
        ("o33", "", "default"),
        ("llama", "X-Team: ml-infra\r\n", "by-header"),
        ("llama", "X-Team: web\r\n", "default"),
        ("llama", "x-baler-policy: chosen\r\n", "chosen"),
        ("llama", "x-baler-policy: by-model\r\n", "default"),
    ] {
        let answer = baler.chat_with(&body(model), headers).await;
        assert_eq!(
            answer.header("x-baler-policy"),
            expected,
            "{model} {headers}"
        );
    }
    let body = body("llama");
    let head = format!(
        "POST /openai/deployments/d/chat/completions?api-version=1 HTTP/1.1\r\nhost: x\r\n\
        content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = within(async {
        Client::send(baler.data, &head, body.as_bytes())
            .await
            .answer()
            .await
    })
    .await;
    assert_eq!(answer.header("x-baler-policy"), "by-path");
    let metrics = baler.probe("/metrics").await.text();
    assert!(metrics.contains(
        "baler_prompt_tokens_total{mode=\"enforce\",model=\"gpt-*\",policy=\"by-model\",\
         stage=\"before\"}"
    ));
    assert!(
        !metrics.contains("llama"),
        "model names are not labels unless configured"
    );
}

#[tokio::test]
async fn tenants_share_nothing() {
    // One tenant's upstream usage must not make another's request compact.
    let (address, _) =
        Upstream::automatic(|_| json_answer(r#"{"usage":{"prompt_tokens":3500}}"#)).await;
    let baler = Baler::start(POLICY, address).await;
    let mut messages = agent(10, 100);
    baler
        .chat_with(&request(&messages), "authorization: Bearer one\r\n")
        .await;
    baler.metric_reaches("baler_usage_learned_total", 1.0).await;
    messages.extend([message("assistant", "ok"), message("user", "more")]);
    let body = request(&messages);
    for (headers, expected) in [
        ("authorization: Bearer two\r\n", "none"),
        ("", "none"),
        ("authorization: Bearer one\r\nopenai-project: p\r\n", "none"),
        ("authorization: Bearer one\r\n", "compacted"),
    ] {
        assert_eq!(
            baler.chat_with(&body, headers).await.action(),
            expected,
            "{headers}"
        );
    }
}

#[tokio::test]
async fn one_huge_newest_result_is_cut_to_fit() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(POLICY, address).await;
    let mut messages = agent(1, 10);
    messages.pop();
    messages.push(format!(
        r#"{{"role":"tool","tool_call_id":"call_0","name":"read","content":"START {} END"}}"#,
        words(1, 9_000)
    ));
    let answer = baler.chat(&request(&messages)).await;
    assert_eq!(answer.action(), "compacted");
    let sent = messages_of(&log.lock().unwrap()[0].1);
    assert_eq!(sent[..3], messages[..3]);
    assert!(
        sent[3].starts_with(
            r#"{"role":"tool","tool_call_id":"call_0","name":"read","content":"START "#
        ) && sent[3].contains("of this tool result removed")
            && sent[3].ends_with(" END\"}"),
        "{}",
        sent[3]
    );
    let after: u64 = answer
        .header("x-baler-tokens")
        .split("; ")
        .find_map(|part| part.strip_prefix("after=")?.parse().ok())
        .unwrap();
    assert!((500..3_000).contains(&after), "{after}");
}

#[tokio::test]
async fn what_cannot_fit_is_forwarded_or_refused() {
    let (address, log) = Upstream::agreeable().await;
    let body = request(&[message("user", &words(3, 5_000))]);
    let forward = Baler::start(POLICY, address).await;
    let answer = forward.chat(&body).await;
    assert_eq!((answer.status, answer.action()), (200, "none"));
    assert_eq!(log.lock().unwrap()[0].1, body.as_bytes());
    assert_eq!(forward.metric("baler_unfit_total").await, 1.0);
    let reject = Baler::start(&format!("{POLICY}on_unfit = \"reject\"\n"), address).await;
    let answer = reject.chat(&body).await;
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (400, "context_unfit")
    );
    assert_eq!(answer.json()["error"]["code"], "context_unfit");
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_encoded_body_and_a_policy_that_is_off_are_left_alone() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(
        "[[policy]]\nwindow = 300\nmodels = [\"off-*\"]\nmode = \"off\"\n\
            name = \"off\"\n[[policy]]\nwindow = 300\n",
        address,
    )
    .await;
    let body = request(&agent(10, 100));
    let answer = baler.chat_with(&body, "content-encoding: gzip\r\n").await;
    assert_eq!(answer.action(), "bypassed");
    let body = body.replace("test-model", "off-model");
    let answer = baler.chat(&body).await;
    assert_eq!(
        (answer.action(), answer.header("x-baler-policy")),
        ("bypassed", "off")
    );
    assert_eq!(log.lock().unwrap()[1].1, body.as_bytes());
}

#[tokio::test]
async fn counts_can_trigger_too() {
    let (address, log) = Upstream::agreeable().await;
    let toml = "[[policy]]\ntrigger = { messages = 30 }\n\
        ladder = [{ sliding_window = { exchanges = 4 } }]\n";
    let baler = Baler::start(toml, address).await;
    let all = agent(20, 5);
    assert_eq!(baler.chat(&request(&all[..28])).await.action(), "none");
    let answer = baler.chat(&request(&all[..30])).await;
    assert_eq!(answer.action(), "compacted");
    let sent = messages_of(&log.lock().unwrap()[1].1);
    assert_eq!(
        sent.len(),
        2 + 4 * 2,
        "the head, and four exchanges of two messages"
    );
    assert_eq!(sent[2..], all[22..30]);
    assert_eq!(
        baler
            .sum("baler_compactions_total", &[("reason", "messages")])
            .await,
        1.0
    );
}
