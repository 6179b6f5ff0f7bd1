//! What the metrics say, held against what was sent.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Answer, Baler, Upstream, agent, json_answer, message, request};

/// A window of 4,000 tokens that acts at 80 % of 3,000 and goes down to half.
const POLICY: &str = "[[policy]]\nname = \"small\"\nwindow = 4000\nreserve = 1000\n";

fn usage(prompt: u64, cached: u64) -> String {
    json_answer(&format!(
        concat!(
            r#"{{"choices":[{{"message":{{"role":"assistant","content":"ok"}}}}],"#,
            r#""usage":{{"prompt_tokens":{prompt},"completion_tokens":3,"total_tokens":{total},"#,
            r#""prompt_tokens_details":{{"cached_tokens":{cached}}}}}}}"#,
        ),
        prompt = prompt,
        total = prompt + 3,
        cached = cached,
    ))
}

/// The estimated prompt tokens that an answer's header states: before and after.
fn tokens(answer: &Answer) -> [u64; 2] {
    let header = answer.header("x-baler-tokens").to_owned();
    ["before=", "after="].map(|name| {
        let mut parts = header.split("; ");
        let value = parts.find_map(|part| part.strip_prefix(name)).unwrap();
        value.parse().unwrap()
    })
}

fn removed(answer: &Answer) -> f64 {
    let [before, after] = tokens(answer);
    (before - after) as f64
}

#[tokio::test]
async fn observed_traffic_never_counts_as_saved() {
    let (address, _) = Upstream::automatic(|_| usage(3_900, 0)).await;
    let baler = Baler::start(&format!("{POLICY}mode = \"observe\"\n"), address).await;
    let all = agent(16, 200);
    for end in [30, 32, 34] {
        let answer = baler.chat(&request(&all[..end])).await;
        assert_eq!(answer.action(), "observed");
    }
    let counted = [("endpoint", "chat"), ("action", "observed")];
    baler
        .sum_reaches("baler_requests_total", &counted, 3.0)
        .await;
    let observed = [("mode", "observe")];
    let enforced = [("mode", "enforce")];
    for name in [
        "baler_prompt_tokens_removed_total",
        "baler_compaction_tokens_removed_total",
        "baler_strategy_tokens_removed_total",
        "baler_compactions_total",
        "baler_compaction_steps_total",
    ] {
        assert!(baler.sum(name, &observed).await > 0.0, "{name}");
        assert_eq!(baler.sum(name, &enforced).await, 0.0, "{name}");
    }
    assert_eq!(baler.sum("baler_tokens_saved_net_total", &[]).await, 0.0);
    assert_eq!(baler.sum("baler_reread_tokens_total", &[]).await, 0.0);
}

#[tokio::test]
async fn tokens_removed_read_again_and_saved_net_are_what_was_sent() {
    // The prompt cache holds 1,500 tokens of every request, but 100 of one just compacted.
    let requests = AtomicU64::new(0);
    let (address, _) = Upstream::automatic(move |_| {
        let cached = match requests.fetch_add(1, Ordering::Relaxed) {
            2 => 100,
            _ => 1_500,
        };
        usage(1_900, cached)
    })
    .await;
    let baler = Baler::start(POLICY, address).await;
    let all = agent(20, 200);
    let mut answers = Vec::new();
    for (nth, end) in [20, 22, 30, 32].into_iter().enumerate() {
        answers.push(baler.chat(&request(&all[..end])).await);
        baler
            .metric_reaches("baler_usage_learned_total", (nth + 1) as f64)
            .await;
    }
    let actions: Vec<&str> = answers.iter().map(Answer::action).collect();
    assert_eq!(actions, ["none", "none", "compacted", "replayed"]);
    let (compacted, replayed) = (removed(&answers[2]), removed(&answers[3]));
    let policy = [("policy", "small"), ("model", "other"), ("mode", "enforce")];
    let sum = async |name: &str| baler.sum(name, &policy).await;
    let each = sum("baler_prompt_tokens_removed_total").await;
    assert_eq!(each, compacted + replayed, "with every request");
    let once = sum("baler_compaction_tokens_removed_total").await;
    assert!(once > 0.0);
    let by_strategy = baler.sum("baler_strategy_tokens_removed_total", &[]).await;
    assert_eq!(once, by_strategy, "what the steps removed together");
    assert_eq!(baler.sum("baler_reread_tokens_total", &[]).await, 1_400.0);
    let net = baler.sum("baler_tokens_saved_net_total", &[]).await;
    let owed = baler.sum("baler_tokens_owed", &[]).await;
    assert_eq!(net - owed, compacted + replayed - 1_400.0);
    for (action, cached) in [
        ("none", 3_000.0),
        ("compacted", 100.0),
        ("replayed", 1_500.0),
    ] {
        let labels = [("action", action), ("kind", "cached"), ("policy", "small")];
        let counted = baler.sum("baler_upstream_tokens_total", &labels).await;
        assert_eq!(counted, cached, "{action}");
    }
}

#[tokio::test]
async fn models_go_by_the_names_of_the_table_and_no_client_makes_a_label() {
    let (address, _) = Upstream::automatic(|_| usage(8, 0)).await;
    let toml = "[[policy]]\nname = \"own\"\nmodels = [\"our-*\"]\n";
    let baler = Baler::start(toml, address).await;
    let ask = async |model: &str| {
        let body = request(&[message("user", "hi")]).replace("test-model", model);
        assert_eq!(baler.chat(&body).await.status, 200);
    };
    for model in ["gpt-4o-2024-08-06", "openai/gpt-4o", "our-7b", "x-1", "x-2"] {
        ask(model).await;
    }
    let count = |text: String| text.lines().count();
    for (model, answers) in [("gpt-4o", 2.0), ("our-*", 1.0), ("other", 2.0)] {
        let labels = [("model", model), ("kind", "prompt")];
        let least = answers * 8.0;
        baler
            .sum_reaches("baler_upstream_tokens_total", &labels, least)
            .await;
        assert_eq!(
            baler.sum("baler_upstream_tokens_total", &labels).await,
            least
        );
    }
    let before = count(baler.probe("/metrics").await.text());
    for nth in 0..40 {
        ask(&format!("made-up-{nth}")).await;
    }
    assert_eq!(count(baler.probe("/metrics").await.text()), before);
}

#[tokio::test]
async fn everything_known_is_there_at_zero_and_promtool_is_silent() {
    let limited = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
    let (address, _) = Upstream::automatic(move |_| limited.to_owned()).await;
    let baler = Baler::start(POLICY, address).await;
    let fresh = baler.probe("/metrics").await.text();
    for series in [
        "baler_requests_total{action=\"none\",endpoint=\"chat\",status=\"429\"} 0",
        "baler_requests_total{action=\"none\",endpoint=\"responses\",status=\"2xx\"} 0",
        "baler_compactions_total{mode=\"enforce\",policy=\"small\",reason=\"ratio\"} 0",
        "baler_tokens_saved_net_total{policy=\"small\"} 0",
        "baler_summarizer_tokens_total{kind=\"prompt\",policy=\"small\"} 0",
        "baler_upstream_tokens_total{action=\"compacted\",kind=\"cached\",model=\"other\",\
         policy=\"small\"} 0",
        "baler_request_seconds_count{action=\"rescued\",endpoint=\"chat\"} 0",
        "baler_refusals_total{kind=\"upstream_unreachable_tls\"} 0",
        "baler_plans_in_flight 0",
        "process_open_fds ",
        "process_resident_memory_bytes ",
        "gen_ai_client_operation_duration_seconds_count{error_type=\"\",\
         gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"openai\",\
         gen_ai_request_model=\"other\",server_address=\"127.0.0.1\",",
    ] {
        assert!(fresh.contains(series), "{series}");
    }
    assert_eq!(baler.chat(&request(&agent(2, 20))).await.status, 429);
    let limited = [("endpoint", "chat"), ("status", "429")];
    baler
        .sum_reaches("baler_requests_total", &limited, 1.0)
        .await;
    let text = baler.probe("/metrics").await.text();
    assert_eq!(
        baler
            .sum("baler_requests_total", &[("status", "4xx")])
            .await,
        0.0
    );
    let failed = [("error_type", "429")];
    let failed = baler.sum("gen_ai_client_operation_duration_seconds_count", &failed);
    assert_eq!(failed.await, 1.0);
    for text in [fresh, text] {
        let Ok(mut promtool) = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
        else {
            eprintln!("SKIPPED: promtool is not here; Debian's package prometheus has it");
            return;
        };
        let mut input = promtool.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        let said = promtool.wait_with_output().unwrap();
        let words = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.success() && words.is_empty(), "{words}");
    }
}

#[tokio::test]
async fn names_of_the_conventions_for_generative_ai_are_there() {
    let (address, _) = Upstream::automatic(|_| usage(900, 64)).await;
    let baler = Baler::start("", address).await;
    let body = request(&[message("user", "hi")]).replace("test-model", "gpt-4o-mini");
    assert_eq!(baler.chat(&body).await.status, 200);
    let model = ("gen_ai_request_model", "gpt-4o-mini");
    let done = [model, ("error_type", "")];
    let duration = "gen_ai_client_operation_duration_seconds_count";
    baler.sum_reaches(duration, &done, 1.0).await;
    for (kind, sum) in [("input", 900.0), ("output", 3.0)] {
        let labels = [model, ("gen_ai_token_type", kind)];
        let name = "gen_ai_client_token_usage_sum";
        assert_eq!(baler.sum(name, &labels).await, sum, "{kind}");
    }
    // The boundaries of the conventions.
    let text = baler.probe("/metrics").await.text();
    for boundary in ["le=\"4\"", "le=\"67108864\"", "le=\"81.92\"", "le=\"0.01\""] {
        let has = |line: &str| line.starts_with("gen_ai_") && line.contains(boundary);
        assert!(text.lines().any(has), "{boundary}");
    }
}

#[tokio::test]
async fn apis_that_pass_uncompacted_count_under_endpoints_of_their_own() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    for (path, endpoint) in [
        ("/v1/responses", "responses"),
        ("/v1/messages", "messages"),
        ("/v1/threads/t/messages", "other"),
        ("/v1/embeddings", "other"),
    ] {
        let labels = [("endpoint", endpoint), ("status", "2xx")];
        let before = baler.sum("baler_requests_total", &labels).await;
        let answer = baler.chat_to(path, "{\"input\":\"hi\"}", "").await;
        assert_eq!(answer.status, 200);
        assert!(!answer.head.contains("x-baler-action"), "{path}");
        let after = before + 1.0;
        baler
            .sum_reaches("baler_requests_total", &labels, after)
            .await;
    }
}

#[tokio::test]
async fn response_headers_can_be_turned_off() {
    let (address, _) = Upstream::agreeable().await;
    let toml = "listen.response_headers = false\n";
    let body = request(&[message("user", "hi")]);
    for (url, status) in [
        (format!("http://{address}/v1"), 200),
        ("http://127.0.0.1:1/v1".to_owned(), 502),
    ] {
        let silent = Baler::start_for(toml, &url).await;
        let answer = silent.chat(&body).await;
        assert_eq!(answer.status, status);
        let head = answer.head.to_ascii_lowercase();
        assert!(
            !head.contains("x-baler") && !head.contains("server-timing"),
            "{head}"
        );
        let telling = Baler::start_for("", &url).await;
        assert!(telling.chat(&body).await.head.contains("x-baler-action"));
    }
}
