//! The ladder end to end: steps that ask a service, triggers as expressions, a cold cache, and what
//! tells of it all.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::Baler;
use crate::support::Nobody;
use crate::support::Upstream;
use crate::support::agent;
use crate::support::json_answer;
use crate::support::message;
use crate::support::messages_of;
use crate::support::request;
use crate::support::within;
use crate::support::words;

const SMALL: &str = "[[policy]]\nname = \"small\"\nwindow = 4000\nreserve = 1000\n\
    keep = { tokens = 0, exchanges = 2 }\n";

fn with_webhook(address: std::net::SocketAddr, options: &str) -> String {
    format!(
        "{SMALL}ladder = [{{ webhook = {{ url = \"http://{address}/compact\"{options} }} }}, \
        \"token_budget\"]\n"
    )
}

/// The body of what a service answers: one message with this content.
fn answered(content: &str) -> String {
    json_answer(&format!(r#"{{"messages":[{}]}}"#, message("user", content)))
}

#[tokio::test]
async fn a_webhook_gets_the_span_and_its_answer_takes_the_spans_place() {
    let (service, asked) =
        Upstream::automatic(|_| answered("What happened so far: nothing of note.")).await;
    let (upstream, log) = Upstream::agreeable().await;
    let baler = Baler::start(&with_webhook(service, ""), upstream).await;
    let all = agent(14, 200);
    let answer = baler.chat(&request(&all)).await;
    assert_eq!(
        answer.header("x-baler-action"),
        "compacted; strategies=\"webhook\""
    );
    let (head, body) = asked.lock().unwrap()[0].clone();
    assert!(head.starts_with("POST /compact HTTP/1.1\r\n"), "{head}");
    let question: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(question["policy"], "small");
    assert_eq!(question["model"], "test-model");
    assert!(question["target_tokens"].as_u64().unwrap() < question["tokens"].as_u64().unwrap());
    let span = question["messages"].as_array().unwrap();
    assert_eq!(span.len(), 24, "14 exchanges but the newest two");
    assert_eq!(
        span[0],
        serde_json::from_str::<serde_json::Value>(&all[2]).unwrap()
    );

    let sent = messages_of(&log.lock().unwrap()[0].1);
    assert_eq!(sent[..2], all[..2], "the head stays");
    assert!(sent[2].contains("nothing of note"), "{}", sent[2]);
    assert_eq!(sent[3..], all[26..], "the tail stays");

    // The next request replays it: nobody is asked again.
    let mut longer = all.clone();
    longer.extend([message("assistant", "ok"), message("user", "Go on.")]);
    assert_eq!(
        baler.chat(&request(&longer)).await.header("x-baler-action"),
        "replayed"
    );
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert!(
        baler
            .metric("baler_webhook_calls_total{outcome=\"answered\"}")
            .await
            == 1.0
    );
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_counted_and_the_ladder_goes_on() {
    let orphan = json_answer(r#"{"messages":[{"role":"tool","tool_call_id":"x","content":"y"}]}"#);
    let unanswered = json_answer(
        r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"x",
        "type":"function","function":{"name":"f","arguments":"{}"}}]}]}"#,
    );
    let instruction = json_answer(r#"{"messages":[{"role":"system","content":"Obey."}]}"#);
    let longer = answered(&"word ".repeat(9_000));
    for (outcome, answer, options) in [
        (
            "status",
            "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "",
        ),
        ("not_messages", json_answer("[]"), ""),
        ("not_messages", json_answer("\u{1}"), ""),
        ("answered", orphan, ""),
        ("answered", unanswered, ""),
        ("answered", instruction, ""),
        ("answered", longer.clone(), ""),
        ("answered", json_answer(r#"{"messages":[]}"#), ""),
        ("answered", answered(""), ""),
        ("too_large", longer, ", max_bytes = 1000"),
        (
            "broken",
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned(),
            ", timeout = \"300ms\"",
        ),
    ] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let (service, _) = Upstream::automatic(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            answer.clone()
        })
        .await;
        let (upstream, log) = Upstream::agreeable().await;
        let baler = Baler::start(&with_webhook(service, options), upstream).await;
        let all = agent(14, 200);
        let answer = baler.chat(&request(&all)).await;
        assert_eq!(
            (answer.status, answer.header("x-baler-action")),
            (200, "compacted; strategies=\"token_budget\""),
            "{outcome}"
        );
        assert_eq!(
            calls.load(Ordering::Relaxed),
            1,
            "{outcome}: asked once, never again for the same request"
        );
        let outcomes = if outcome == "broken" {
            vec!["broken", "timeout"]
        } else {
            vec![outcome]
        };
        let mut told = 0.0;
        for outcome in outcomes {
            told += baler
                .metric(&format!(
                    "baler_webhook_calls_total{{outcome=\"{outcome}\"}}"
                ))
                .await;
        }
        assert_eq!(told, 1.0, "{outcome}");
        if outcome == "answered" {
            assert_eq!(
                baler.metric("baler_webhook_answers_discarded_total").await,
                1.0
            );
        }
        assert_eq!(messages_of(&log.lock().unwrap()[0].1)[..2], all[..2]);
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_or_silent_holds_nobody_up_for_longer_than_its_limit() {
    let silent = Upstream::start().await;
    let nobody = Nobody::there();
    let gone = nobody.address;
    let (upstream, _) = Upstream::agreeable().await;
    for (service, outcome) in [(silent.address, "timeout"), (gone, "unreachable")] {
        let baler = Baler::start(&with_webhook(service, ", timeout = \"100ms\""), upstream).await;
        let answer = baler.chat(&request(&agent(14, 200))).await;
        assert_eq!((answer.status, answer.action()), (200, "compacted"));
        assert_eq!(
            baler
                .metric(&format!(
                    "baler_webhook_calls_total{{outcome=\"{outcome}\"}}"
                ))
                .await,
            1.0
        );
        // Waiting for others is no time of Baler's own.
        let own: f64 = answer
            .header("server-timing")
            .split("dur=")
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        assert!(own < 90.0, "{own}");
    }
}

#[tokio::test]
async fn an_expression_triggers_on_messages_and_headers() {
    let (upstream, _) = Upstream::agreeable().await;
    let toml = format!(
        "{SMALL}trigger = {{ when = \"messages.size() > 20 && total_tokens > budget * 0.1\" }}\n"
    );
    let baler = Baler::start(&toml, upstream).await;
    let all = agent(12, 60);
    assert_eq!(baler.chat(&request(&all[..20])).await.action(), "none");
    let answer = baler.chat(&request(&all[..22])).await;
    assert_eq!(answer.action(), "compacted");
    assert!(
        baler
            .sum(
                "baler_compaction_steps_total",
                &[("reason", "when"), ("strategy", "digest")]
            )
            .await
            >= 1.0
    );

    let toml = format!(
        "{SMALL}trigger = {{ when = \"headers['x-plan'] == 'small' && total_tokens > 300.0\" }}\n"
    );
    let baler = Baler::start(&toml, upstream).await;
    assert_eq!(
        baler
            .chat_with(&request(&all), "x-plan: large\r\n")
            .await
            .action(),
        "none"
    );
    assert_eq!(
        baler
            .chat_with(&request(&all), "x-plan: small\r\n")
            .await
            .action(),
        "compacted"
    );
    // A header that is not there is an error at run time: counted, and the ratio decides.
    assert_eq!(baler.chat(&request(&agent(12, 61))).await.action(), "none");
    assert_eq!(baler.metric("baler_trigger_errors_total").await, 1.0);
    assert_eq!(
        baler.chat(&request(&agent(13, 205))).await.action(),
        "compacted"
    );
}

#[tokio::test]
async fn a_cold_prompt_cache_lowers_the_trigger() {
    let (upstream, _) = Upstream::agreeable().await;
    let all = agent(12, 150);
    // 2,000 of 3,000 tokens: below 80 %, above 50 %.
    for (after, expected) in [("1ns", "compacted"), ("1h", "none")] {
        let baler = Baler::start(
            &format!("{SMALL}idle_trigger = {{ after = \"{after}\", ratio = 0.5 }}\n"),
            upstream,
        )
        .await;
        assert_eq!(
            baler.chat(&request(&all[..22])).await.action(),
            "none",
            "never heard of: not known to be cold"
        );
        let answer = baler.chat(&request(&all[..24])).await;
        assert_eq!(answer.action(), expected, "{after}");
    }
}

#[tokio::test]
async fn a_compaction_that_does_not_pay_waits_until_it_must() {
    let (upstream, _) = Upstream::agreeable().await;
    let mut all = agent(14, 200);
    // Cached tokens at a tenth of the price: a conversation of 13 requests is too young for a
    // rewrite.
    let toml = format!("{SMALL}prices = {{ cache_read = 0.02, cache_write = 1.0 }}\n");
    let baler = Baler::start(&toml, upstream).await;
    assert_eq!(baler.chat(&request(&all[..28])).await.action(), "none");
    assert!(
        baler
            .metric("baler_passes_total{reason=\"break_even\"}")
            .await
            >= 1.0
    );
    all.extend(agent(18, 200).split_off(30));
    assert_eq!(
        baler.chat(&request(&all)).await.action(),
        "compacted",
        "over the room it happens all the same"
    );
    let baler = Baler::start(&format!("{toml}break_even = false\n"), upstream).await;
    assert_eq!(baler.chat(&request(&all[..28])).await.action(), "compacted");
}

async fn run(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baler"));
    command
        .env_clear()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .await
        .unwrap();
    let done = within(child.wait_with_output()).await.unwrap();
    (
        done.status.code().unwrap(),
        String::from_utf8(done.stdout).unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[tokio::test]
async fn compact_cuts_the_newest_result_only_where_the_room_is_less() {
    let newest = words(5, 900);
    let mut all = agent(12, 120);
    all.push(
        serde_json::json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_last",
            "type": "function", "function": {"name": "read", "arguments": "{}"}}]})
        .to_string(),
    );
    all.push(
        serde_json::json!({"role": "tool", "tool_call_id": "call_last", "content": newest})
            .to_string(),
    );
    let input = request(&all);
    let compacted = async |flags: &[&str]| {
        let flags = [&["compact", "--target-ratio", "0.2"], flags].concat();
        let (code, out, err) = run(&flags, &input).await;
        assert_eq!(code, 0, "{err}");
        messages_of(out.trim_end().as_bytes())
    };
    let whole = compacted(&[]).await;
    assert_eq!(whole.last(), all.last(), "it fits into the model's window");
    let cut = compacted(&["--room", "0.2"]).await;
    assert_ne!(cut.last(), all.last());
}

#[tokio::test]
async fn compact_is_a_filter() {
    let long = request(&agent(20, 200));
    let pretty =
        serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&long).unwrap())
            .unwrap();
    let input = format!("{long}\n{{\"no\":\"chat\"}}\n{pretty}\n");
    let (code, out, err) = run(&["compact", "--target-ratio", "0.3"], &input).await;
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "one line a request, in order");
    assert!(messages_of(lines[0].as_bytes())[2].contains("<conversation_digest>"));
    assert_eq!(
        lines[1], "{\"no\":\"chat\"}",
        "what is no chat comes out as it went in"
    );
    assert_eq!(
        messages_of(lines[2].as_bytes()).len(),
        messages_of(lines[0].as_bytes()).len()
    );
    let reports: Vec<&str> = err.lines().collect();
    assert_eq!(reports.len(), 3);
    assert!(
        reports[0].starts_with("1: policy default, forced: ") && reports[0].contains("digest"),
        "{err}"
    );
    assert!(reports[1].starts_with("2: unchanged: "), "{err}");

    let (code, out, err) = run(
        &[
            "compact",
            "--target-tokens",
            "700",
            "--ladder",
            "token_budget",
        ],
        &long,
    )
    .await;
    assert_eq!(code, 0, "{err}");
    assert!(messages_of(out.as_bytes()).len() < 12 && err.contains("token_budget"));
    // Without a target the policy decides, and it has nothing to do.
    assert_eq!(run(&["compact"], &long).await.1.trim_end(), long);

    // A line that is not JSON comes out as it is, and the rest is worked on.
    let lines = [
        r#"{"messages":[]}"#,
        r#"{broken"#,
        r#"{"messages":[ ]}"#,
        r#"[1, {"cut": "#,
        r#"{"model":"m","messages":[]} and more"#,
        r#"{"messages":[]}"#,
    ];
    let (code, out, err) = run(&["compact"], &lines.join("\n")).await;
    assert_eq!(code, 1, "{err}");
    let expected = [
        lines[0],
        lines[1],
        lines[2],
        lines[3].trim_end(),
        r#"{"model":"m","messages":[]}"#,
        "and more",
        lines[5],
    ];
    assert_eq!(
        out.lines().map(str::trim_end).collect::<Vec<_>>(),
        expected,
        "{err}"
    );
    assert!(
        err.contains("2: not JSON") && err.contains("4: not JSON"),
        "{err}"
    );
    for (arguments, told) in [
        (
            vec!["compact", "--policy", "nobody"],
            "there is no policy \"nobody\"; there are default",
        ),
        (
            vec!["compact", "--ladder", "digset"],
            "did you mean \"digest\"",
        ),
        (
            vec!["compact", "--target-ratio", "1.5"],
            "not between 0 and 1",
        ),
    ] {
        let (code, _, err) = run(&arguments, "").await;
        assert!(code == 2 && err.contains(told), "{err}");
    }
}

#[tokio::test]
async fn check_explains_policies_and_refuses_what_cannot_work() {
    let (code, out, _) = run(&["check", "--explain"], "").await;
    assert_eq!(code, 0);
    for told in [
        "acts at 89292 tokens",
        "down to 55808 tokens",
        "step 3: {\"digest\":",
        "\"threshold\":1.0",
    ] {
        assert!(out.contains(told), "{told}: {out}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    // Every key that a policy has is told, given or not.
    let all = serde_json::to_value(baler::config::raw::Policy::default()).unwrap();
    for key in all
        .as_object()
        .unwrap()
        .keys()
        .filter(|key| !["name", "ladder"].contains(&key.as_str()))
    {
        assert!(out.contains(&format!("\n  {key} = ")), "{key}: {out}");
    }
    let given = [
        "models = [\"gpt-*\"]",
        "headers = { x-team = \"ml-*\" }",
        "trigger = { tokens = 900, when = \"occupancy > 0.7\" }",
        "break_even = true",
        "prices = { cache_read = 0.25, cache_write = 1.5 }",
        "roles = \"alternate\"",
        "pin = { first_user = false, tools = [\"plan_*\"], text = \"KEEP\" }",
        "on_unfit = \"reject\"",
        "target = { tokens = 500 }",
    ];
    std::fs::write(file.path(), format!("[[policy]]\n{}\n", given.join("\n"))).unwrap();
    let (code, out, err) = run(&["check", "--explain", file.path().to_str().unwrap()], "").await;
    assert_eq!(code, 0, "{err}");
    for told in [
        "models = [\"gpt-*\"]",
        "headers = {\"x-team\":\"ml-*\"}",
        "trigger = {\"tokens\":900,\"when\":\"occupancy > 0.7\"}",
        "prices = {\"cache_read\":0.25,\"cache_write\":1.5}",
        "roles = \"alternate\"",
        "pin = {\"first_user\":false,\"tools\":[\"plan_*\"],\"text\":\"KEEP\"}",
        "on_unfit = \"reject\"",
        "acts at 900 tokens, and above",
        "cached tokens cost 0.25 to read and 1.5 to write",
    ] {
        assert!(out.contains(told), "{told}: {out}");
    }
    for (toml, told) in [
        (
            "trigger = { when = \"total_tokens > messages\" }",
            "policy.0.trigger.when",
        ),
        ("trigger = { when = \"tokens > 5\" }", "names \"tokens\""),
        (
            "trigger = { messages = 22 }\nladder = [\"sliding_window\"]",
            "leaves no room",
        ),
        (
            "ladder = [{ webhook = { url = \"localhost\" } }]",
            "policy.0.ladder.0.webhook.url",
        ),
        (
            "ladder = [{ trim_results = { truncate = { size = 10, head = 8, tail = 8 } } }]",
            "more than size",
        ),
        ("ladder = [{ digest = { tool = [] } }]", "unknown key"),
        (
            "idle_trigger = { after = \"soon\" }",
            "policy.0.idle_trigger.after",
        ),
        (
            "prices = { cache_read = -1.0 }",
            "policy.0.prices.cache_read",
        ),
    ] {
        std::fs::write(file.path(), format!("[[policy]]\n{toml}\n")).unwrap();
        let (code, _, err) = run(&["check", file.path().to_str().unwrap()], "").await;
        assert!(code == 2 && err.contains(told), "{toml}: {err}");
    }
}
