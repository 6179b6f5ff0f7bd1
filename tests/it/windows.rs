//! Whose word counts for the window of a request's model, and how the upstream is asked for it.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use crate::support::Baler;
use crate::support::Client;
use crate::support::Upstream;
use crate::support::json_answer;
use crate::support::message;
use crate::support::request;
use crate::support::until;
use crate::support::within;

const ON: &str = "[upstream]\ndiscover_windows = true\n";
const LIST: &str = concat!(
    r#"{"object":"list","data":[{"id":"test-model","max_model_len":40000},{"id":"gpt-4o","#,
    r#""max_model_len":30000}]}"#,
);
/// Time that Baler grants the upstream for a list of its models.
const CALL_GIVEN_UP_AFTER: Duration = Duration::from_secs(10);
const ANSWERED: &str = "baler_discovery_total{outcome=\"answered\"}";

fn chat_answer() -> String {
    json_answer(r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#)
}

/// Asked for its models, and not for a completion.
fn is_discovery(head: &str) -> bool {
    head.starts_with("GET /v1/models HTTP/1.1\r\n")
}

/// What an upstream does when it is asked for its models.
#[derive(Clone)]
enum Models {
    Answer(String),
    /// Nothing comes until the connection is closed.
    Silence,
}

/// The heads of the calls for models.
type Calls = Arc<Mutex<Vec<String>>>;

/// An upstream that answers chats, and calls for its models as told.
async fn upstream(models: Models) -> (std::net::SocketAddr, Calls) {
    let upstream = Upstream::start().await;
    let (address, calls) = (upstream.address, Calls::default());
    let kept = Arc::clone(&calls);
    tokio::spawn(async move {
        loop {
            let mut got = upstream.next().await;
            let (models, calls) = (models.clone(), Arc::clone(&calls));
            tokio::spawn(async move {
                if !is_discovery(&got.head) {
                    got.send(&chat_answer().replacen("\r\n", "\r\nconnection: close\r\n", 1))
                        .await;
                    return;
                }
                calls.lock().unwrap().push(got.head.clone());
                match models {
                    Models::Answer(answer) => drop(
                        tokio::io::AsyncWriteExt::write_all(&mut got.stream, answer.as_bytes())
                            .await,
                    ),
                    Models::Silence => got.closed().await,
                }
            });
        }
    });
    (address, kept)
}

async fn listing() -> (std::net::SocketAddr, Calls) {
    upstream(Models::Answer(json_answer(LIST).replacen(
        "\r\n",
        "\r\nconnection: close\r\n",
        1,
    )))
    .await
}

fn asks(model: &str) -> String {
    request(&[message("user", "hi")]).replace("test-model", model)
}

/// The window that a request was decided by.
async fn window(baler: &Baler, model: &str) -> u64 {
    window_with(baler, model, "").await
}

async fn window_with(baler: &Baler, model: &str, headers: &str) -> u64 {
    let answer = baler.chat_with(&asks(model), headers).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
        .header("x-baler-tokens")
        .split("window=")
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn the_policys_number_then_the_upstreams_then_the_tables_then_the_default() {
    let (address, calls) = listing().await;
    let policies = "[[policy]]\nname = \"fixed\"\nmodels = [\"fixed-*\", \"gpt-4o\"]\n\
        headers = { x-fixed = \"*\" }\nwindow = 5000\n\
                    [[policy]]\nname = \"auto\"\ndefault_window = 7000\n";
    let baler = Baler::start(&format!("{ON}{policies}"), address).await;
    let fixed = "x-fixed: 1\r\n";

    // A policy that says a number needs nobody else.
    assert_eq!(window_with(&baler, "gpt-4o", fixed).await, 5_000);
    assert_eq!(baler.metric("baler_windows_discovered").await, 0.0);
    assert!(calls.lock().unwrap().is_empty());

    // What is not known yet is not waited for.
    assert_eq!(window(&baler, "gpt-4o").await, 128_000, "the table");
    baler.metric_reaches(ANSWERED, 1.0).await;
    assert_eq!(
        window(&baler, "gpt-4o").await,
        30_000,
        "the upstream, over the table"
    );
    assert_eq!(
        window(&baler, "test-model").await,
        40_000,
        "the upstream, over the default"
    );
    assert_eq!(
        window(&baler, "gpt-4.1").await,
        1_047_576,
        "the table, over the default"
    );
    assert_eq!(window(&baler, "nobody-knows").await, 7_000);
    assert_eq!(
        window_with(&baler, "gpt-4o", fixed).await,
        5_000,
        "the policy, over the upstream"
    );
    assert_eq!(baler.metric("baler_windows_discovered").await, 2.0);
    assert_eq!(calls.lock().unwrap().len(), 1);
}

/// The window is not only shown: a conversation that the table's would hold is compacted in the
/// discovered one.
#[tokio::test]
async fn a_discovered_window_decides() {
    let (address, _) = upstream(Models::Answer(json_answer(
        r#"{"data":[{"id":"gpt-4o","max_model_len":2000}]}"#,
    )))
    .await;
    let baler = Baler::start(ON, address).await;
    let long = request(&crate::support::agent(30, 100)).replace("test-model", "gpt-4o");
    assert_eq!(baler.chat(&long).await.action(), "none");
    baler.metric_reaches(ANSWERED, 1.0).await;
    assert_eq!(baler.chat(&long).await.action(), "compacted");
    assert_eq!(
        baler.chat(&long).await.action(),
        "replayed",
        "it is stable from then on"
    );
}

#[tokio::test]
async fn a_llama_cpp_server_with_one_model_is_believed_whatever_clients_call_it() {
    let list = concat!(
        r#"{"data":[{"id":"smollm2.gguf","owned_by":"llamacpp","meta":{"n_ctx":512,"#,
        r#""n_ctx_train":8192}}]}"#,
    );
    let (address, _) = upstream(Models::Answer(json_answer(list))).await;
    let baler = Baler::start(ON, address).await;
    window(&baler, "gpt-4o").await;
    baler.metric_reaches(ANSWERED, 1.0).await;
    assert_eq!(
        (
            window(&baler, "gpt-4o").await,
            window(&baler, "smollm2.gguf").await
        ),
        (512, 512)
    );
}

#[tokio::test]
async fn nothing_is_asked_unless_it_is_wanted_and_of_use() {
    let (address, log) = Upstream::agreeable().await;
    let policies = "[[policy]]\nname = \"off\"\nheaders = { x-off = \"*\" }\nmode = \"off\"\n\
                    [[policy]]\nname = \"fixed\"\nheaders = { x-fixed = \"*\" }\nwindow = 5000\n";
    let silent = Baler::start(policies, address).await;
    let curious = Baler::start(&format!("{ON}{policies}"), address).await;
    silent.chat(&asks("gpt-4o")).await;
    for headers in [
        "x-off: 1\r\n",
        "x-fixed: 1\r\n",
        "x-baler-mode: off\r\n",
        "content-encoding: gzip\r\n",
    ] {
        curious.chat_with(&asks("gpt-4o"), headers).await;
    }
    // What is no chat is not looked at. The next call proves that this one was the first.
    let get = "GET /v1/models HTTP/1.1\r\nhost: x\r\nx-mine: 1\r\nconnection: close\r\n\r\n";
    assert_eq!(
        within(async { Client::send(curious.data, get, b"").await.answer().await })
            .await
            .status,
        200
    );
    assert_eq!(curious.metric("baler_windows_discovered").await, 0.0);
    curious.chat(&asks("gpt-4o")).await;
    curious
        .metric_reaches("baler_discovery_total{outcome=\"not_models\"}", 1.0)
        .await;
    let gets = log
        .lock()
        .unwrap()
        .iter()
        .filter(|(head, _)| is_discovery(head))
        .map(|(head, _)| head.contains("x-mine"))
        .collect::<Vec<_>>();
    assert_eq!(gets, [true, false]);
}

#[tokio::test]
async fn the_call_carries_the_requests_credentials_and_nothing_else_of_it() {
    let (address, calls) = listing().await;
    let baler = Baler::start(ON, address).await;
    let headers = "Authorization: Bearer key\r\nOpenAI-Organization: org\r\nCookie: a=1\r\n\
        Proxy-Authorization: Basic x\r\nUser-Agent: sdk\r\nX-Team: secret\r\n\
        Traceparent: 00-1\r\nAccept-Encoding: gzip\r\nX-Baler-Request-Id: mine\r\n";
    baler.chat_with(&asks("m"), headers).await;
    baler.metric_reaches(ANSWERED, 1.0).await;
    let calls = calls.lock().unwrap();
    let mut lines: Vec<String> = calls[0]
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "authorization: bearer key",
            "cookie: a=1",
            &format!("host: {address}"),
            "openai-organization: org"
        ]
    );
}

#[tokio::test]
async fn many_requests_at_once_cause_one_call() {
    let (address, calls) = upstream(Models::Silence).await;
    let baler = Baler::start(ON, address).await;
    let bodies: Vec<String> = (0..20).map(|n| asks(&format!("model-{n}"))).collect();
    let answers = futures_util::future::join_all(bodies.iter().map(|body| baler.chat(body))).await;
    assert!(
        answers.iter().all(|answer| answer.status == 200),
        "nobody waits for a call that never ends"
    );
    until(async || !calls.lock().unwrap().is_empty()).await;
    baler.chat(&asks("model-0")).await;
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_failing_call_harms_nothing_and_is_not_made_again_with_every_request() {
    let huge = format!(
        r#"{{"data":[{{"id":"test-model","context_length":30000,"x":"{}"}}]}}"#,
        "x".repeat(10 << 20)
    );
    let cases = [
        (
            "status",
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
        ),
        (
            "status",
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
                .to_owned(),
        ),
        (
            "refused",
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
        ),
        (
            "not_models",
            json_answer("<html>not what you asked for</html>"),
        ),
        (
            "no_windows",
            json_answer(r#"{"object":"list","data":[{"id":"test-model","object":"model"}]}"#),
        ),
        ("too_large", json_answer(&huge)),
        (
            "broken",
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"data\":[".to_owned(),
        ),
        ("unreachable", "no HTTP at all\r\n\r\n".to_owned()),
    ];
    for (outcome, answer) in cases {
        let (address, calls) = upstream(Models::Answer(answer)).await;
        let baler = Baler::start(ON, address).await;
        assert_eq!(window(&baler, "test-model").await, 128_000);
        baler
            .metric_reaches(
                &format!("baler_discovery_total{{outcome=\"{outcome}\"}}"),
                1.0,
            )
            .await;
        for _ in 0..5 {
            assert_eq!(window(&baler, "test-model").await, 128_000, "{outcome}");
        }
        assert_eq!(calls.lock().unwrap().len(), 1, "{outcome}");
    }
}

#[tokio::test]
async fn a_call_that_never_ends_does_not_hold_up_the_end_of_baler() {
    let (address, calls) = upstream(Models::Silence).await;
    let mut baler = Baler::start(ON, address).await;
    baler.chat(&asks("m")).await;
    until(async || !calls.lock().unwrap().is_empty()).await;
    baler.stop.cancel();
    let limit = CALL_GIVEN_UP_AFTER / 2;
    tokio::time::timeout(limit, &mut baler.running)
        .await
        .expect("it ends before the call would be given up")
        .unwrap()
        .unwrap();
}

/// The lines of a Baler that was asked for these models, up to its end.
async fn log_of(models: &[String], discover: bool) -> Vec<String> {
    let (address, _) = upstream(Models::Answer(json_answer(LIST))).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_baler"));
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command.envs([
        ("BALER_LISTEN__ADDRESS", "127.0.0.1:0"),
        ("BALER_ADMIN__ADDRESS", "127.0.0.1:0"),
    ]);
    command
        .env("BALER_UPSTREAM__URL", format!("http://{address}/v1"))
        .env("BALER_UPSTREAM__DISCOVER_WINDOWS", discover.to_string());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen
        .iter()
        .all(|line: &String| !line.contains("policy default"))
    {
        seen.push(
            within(lines.next_line())
                .await
                .unwrap()
                .expect("it logs where it listens"),
        );
    }
    let listening = seen
        .iter()
        .find(|line| line.contains("listening on"))
        .unwrap();
    let data = listening
        .split("http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    for (at, model) in models.iter().enumerate() {
        let body = format!(
            r#"{{"model":{},"messages":[{}]}}"#,
            serde_json::to_string(model).unwrap(),
            message("user", "canary-content")
        );
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: canary-key\r\n\
            content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        assert_eq!(
            within(async {
                Client::send(data, &head, body.as_bytes())
                    .await
                    .answer()
                    .await
            })
            .await
            .status,
            200
        );
        while discover && at == 0 && !seen.iter().any(|line| line.contains("asked the upstream")) {
            seen.push(within(lines.next_line()).await.unwrap().unwrap());
        }
    }
    child.start_kill().unwrap();
    let mut rest = String::new();
    lines.into_inner().read_to_string(&mut rest).await.unwrap();
    seen.extend(rest.lines().map(str::to_owned));
    seen
}

#[tokio::test]
async fn an_unknown_model_is_told_once_by_its_name_alone() {
    let hostile = format!(
        "evil\n\u{1b}[31m ERROR all is lost \u{202e}{}",
        "x".repeat(10_000)
    );
    let models = [
        "unknown-1",
        "gpt-4o",
        "unknown-1",
        "org/unknown:2",
        "unknown-1",
        &hostile,
        &hostile,
    ]
    .map(str::to_owned);
    let log = log_of(&models, false).await;
    let told: Vec<&String> = log
        .iter()
        .filter(|line| line.contains("is not known"))
        .collect();
    assert_eq!(told.len(), 3, "{log:?}");
    assert!(
        told[0].contains("WARN") && told[0].contains("unknown-1") && told[0].contains("128000"),
        "{told:?}"
    );
    assert!(
        told[1].contains("org/unknown:2") && told[2].contains("evil__"),
        "{told:?}"
    );
    assert!(
        told.iter().all(|line| line.len() < 500
            && line.is_ascii()
            && !line.contains("canary")
            && !line.contains('\u{1b}')),
        "{told:?}"
    );
}

#[tokio::test]
async fn unknown_models_without_end_are_told_of_in_a_last_line() {
    let models: Vec<String> = (0..300).map(|n| format!("unknown-{n}")).collect();
    let log = log_of(&models, false).await;
    assert_eq!(
        log.iter()
            .filter(|line| line.contains("is not known"))
            .count(),
        256
    );
    assert_eq!(
        log.iter()
            .filter(|line| line.contains("many unknown models"))
            .count(),
        1
    );
    assert!(
        log.last().unwrap().contains("many unknown models"),
        "{:?}",
        log.last()
    );
}

#[tokio::test]
async fn what_the_upstream_may_still_tell_is_not_called_unknown() {
    let models = ["test-model", "test-model", "unknown-1", "unknown-1"].map(str::to_owned);
    let log = log_of(&models, true).await;
    let told: Vec<&String> = log
        .iter()
        .filter(|line| line.contains("is not known"))
        .collect();
    assert!(told.len() == 1 && told[0].contains("unknown-1"), "{log:?}");
}

#[tokio::test]
async fn check_says_what_is_known_before_any_request() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let policies = "[[policy]]\nname = \"a\"\nmodels = [\"gpt-4o\", \"my-model\", \"qwen*\"]\n\
        [[policy]]\nname = \"b\"\nwindow = 5000\n";
    let explained = async |toml: &str| {
        std::fs::write(file.path(), toml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_baler"));
        let output = within(
            command
                .env_clear()
                .arg("check")
                .arg(file.path())
                .arg("--explain")
                .output(),
        )
        .await
        .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = explained(policies).await;
    assert!(
        text.contains(
            "\n  window of gpt-4o: 128000 (from the table)\n  window of my-model: 128000 \
            (not known: default_window)\n"
        ),
        "{text}"
    );
    assert!(
        !text.contains("window of qwen") && !text.contains("list of models"),
        "{text}"
    );
    let policy_b = text
        .split("policy b:")
        .nth(1)
        .unwrap()
        .split("policy default:")
        .next()
        .unwrap();
    assert!(!policy_b.contains("window by model"), "{text}");
    let text = explained(&format!("{ON}{policies}")).await;
    assert!(
        text.contains(
            "window by model: that in the API's list of models, fetched with the first \
        request; else that in the table"
        ),
        "{text}"
    );
}
