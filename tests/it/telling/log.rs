//! What the log says, of the program as users run it.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::support::{Client, Nobody, Upstream, agent, json_answer, message, request, within};

/// The message of a request's line.
const REQUEST: &str = "request";

/// A Baler with JSON lines, and the lines that it has not said yet.
struct Logging {
    _child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    data: std::net::SocketAddr,
    _config: tempfile::NamedTempFile,
}

impl Logging {
    async fn start(toml: &str, upstream: &str) -> Self {
        let config = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(config.path(), toml).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_baler"))
            .env_clear()
            .args(["serve", "--log-format", "json", "--log-level", "debug"])
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--upstream", upstream, "--config"])
            .arg(config.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut logging = Logging {
            _child: child,
            lines,
            data: "127.0.0.1:0".parse().unwrap(),
            _config: config,
        };
        let listening = logging.until("listening on").await.pop().unwrap();
        let text = listening["message"].as_str().unwrap();
        let address = text.split("http://").nth(1).unwrap().split('/').next();
        logging.data = address.unwrap().parse().unwrap();
        logging.until("policy ").await;
        logging
    }

    /// The lines up to the one whose message begins so, which is the last.
    async fn until(&mut self, message: &str) -> Vec<Value> {
        let mut seen: Vec<Value> = Vec::new();
        loop {
            let line = within(self.lines.next_line()).await.unwrap();
            let line = line.expect("it goes on");
            let line: Value = serde_json::from_str(&line).expect(&line);
            let said = line["message"].as_str().unwrap_or_default().to_owned();
            seen.push(line);
            let is_it = match message {
                REQUEST => said == REQUEST,
                message => said.starts_with(message),
            };
            if is_it {
                return seen;
            }
        }
    }

    async fn post(&self, path: &str, body: &str) -> crate::support::Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        within(async {
            let client = Client::send(self.data, &head, body.as_bytes()).await;
            client.answer().await
        })
        .await
    }

    async fn chat(&self, body: &str) -> crate::support::Answer {
        self.post("/v1/chat/completions", body).await
    }
}

const POLICY: &str = "[[policy]]\nname = \"small\"\nwindow = 4000\nreserve = 1000\n";

#[tokio::test]
async fn one_line_a_request_at_debug_and_one_a_compaction_at_info() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req_77\r\n\
        content-length: 2\r\n\r\n{}";
    let (address, _) = Upstream::automatic(move |_| answer.to_owned()).await;
    let toml = format!("log.model = true\n{POLICY}");
    let mut baler = Logging::start(&toml, &format!("http://{address}/v1")).await;
    let all = agent(16, 200);
    for (end, compacts) in [(10, false), (30, true), (32, false)] {
        let body = request(&all[..end]).replace("test-model", "gpt-4o-2024 x");
        assert_eq!(baler.chat(&body).await.status, 200);
        let lines = baler.until(REQUEST).await;
        assert_eq!(lines.len(), 1 + usize::from(compacts), "{lines:?}");
        let told = lines.last().unwrap();
        assert_eq!(told["level"], "DEBUG");
        assert_eq!(told["endpoint"], "chat");
        assert_eq!(told["stream"], json!(false));
        assert_eq!(told["upstream_request_id"], "req_77");
        assert_eq!(told["model"], "gpt-4o");
        assert_eq!(told["model_name"], "gpt-4o-2024_x");
        assert!(told["took_ms"].is_number() && told["tokens_before"].is_u64());
        let Some(made) = lines.first().filter(|_| compacts) else {
            continue;
        };
        assert_eq!(
            (&made["message"], &made["level"]),
            (&json!("compaction"), &json!("INFO"))
        );
        for name in [
            "tokens_before",
            "tokens_after",
            "messages_before",
            "messages_after",
        ] {
            assert!(
                made[name].is_u64() && made[name] == told[name],
                "{name} {made}"
            );
        }
        assert!(made["took_ms"].is_number(), "{made}");
        assert_eq!(made["reason"], "ratio");
        let steps = made["steps"].as_array().unwrap();
        let digest = steps
            .iter()
            .find(|step| step["strategy"] == "digest")
            .unwrap();
        assert!(digest["counts"]["lines"].is_u64(), "{digest}");
        assert!(made["strategies"].as_str().unwrap().contains("digest"));
    }
}

#[tokio::test]
async fn the_first_failure_of_a_policys_expression_is_told_with_its_cause() {
    let (address, _) = Upstream::agreeable().await;
    let policy = |name: &str| {
        format!(
            "[[policy]]\nname = \"{name}\"\nmodels = [\"{name}-*\"]\n\
             trigger = {{ when = \"headers['x-plan'] == 'small'\" }}\n"
        )
    };
    let toml = policy("one") + &policy("other");
    let mut baler = Logging::start(&toml, &format!("http://{address}/v1")).await;
    let mut told = Vec::new();
    for model in ["one-a", "one-b", "other-a", "one-a", "other-a"] {
        let body = request(&agent(3, 20)).replace("test-model", model);
        baler.chat(&body).await;
        let lines = baler.until(REQUEST).await;
        let failed = lines.iter().filter(|line| {
            let said = line["message"].as_str().unwrap_or_default();
            said.starts_with("the policy's expression (trigger.when) failed")
        });
        told.extend(failed.cloned());
    }
    let account: Vec<_> = told
        .iter()
        .map(|line| {
            (
                line["level"].as_str().unwrap(),
                line["policy"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(account, [("WARN", "one"), ("WARN", "other")], "{told:?}");
    assert_eq!(told[0]["cause"], "there is no key \"x-plan\"");
}

#[tokio::test]
async fn a_compaction_tells_the_account_of_its_summary_and_a_failed_one_status_and_address() {
    let broken = std::sync::atomic::AtomicBool::new(true);
    let (address, _) = Upstream::automatic(move |body| {
        if !String::from_utf8_lossy(body).contains("inside <summary> tags") {
            return json_answer(r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#);
        }
        if broken.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        let text =
            "<summary>\n## Goal\nFind the answer.\n## Progress\nFiles were read.\n</summary>";
        json_answer(
            &json!({"choices": [{"message": {"role": "assistant", "content": text},
                "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}})
            .to_string(),
        )
    })
    .await;
    let toml = format!(
        "[limits]\nplan_timeout = \"9s\"\n[summarizer]\nwindow = 100000\nmax_share = 1.0\n{POLICY}\
         keep = {{ tokens = 0, exchanges = 1 }}\n\
         ladder = [{{ summarize = {{ wait = \"10s\" }} }}, \"token_budget\"]\n"
    );
    let url = format!("http://{address}/v1");
    let mut baler = Logging::start(&toml, &url).await;
    // The first conversation's summary fails; the second one's is made, from its beginning.
    let [mut failed, mut account] = [None, None];
    for end in (20..=60).step_by(2).cycle().take(252) {
        let mut all = agent(30, 200);
        if failed.is_some() {
            all[1] = message("user", "Find another answer.");
        }
        assert_eq!(baler.chat(&request(&all[..end])).await.status, 200);
        for line in baler.until(REQUEST).await {
            if line["message"] == "summary" && line["level"] == "WARN" {
                failed = Some(line);
            } else if line["message"] == "compaction" && line["summary"] == "ready" {
                account = Some(line);
            }
        }
        if failed.is_some() && account.is_some() {
            break;
        }
    }
    let failed = failed.expect("a summary that was refused is a warning");
    assert_eq!(failed["status"], json!(404), "{failed}");
    assert_eq!(failed["address"], format!("{url}/chat/completions"));
    assert_eq!(failed["policy"], "small");
    assert_eq!(failed["summarizer"], "default");
    assert!(failed["id"].as_str().is_some_and(|id| !id.is_empty()));
    let account = account.expect("a summary was used");
    for name in [
        "messages_summarized",
        "messages_kept",
        "generation",
        "files",
        "summary_tokens",
        "summary_chars",
        "summarizer_calls",
        "summarizer_prompt_tokens",
        "summarizer_completion_tokens",
        "summarizer_ms",
    ] {
        assert!(account[name].is_u64(), "{name} in {account}");
    }
    assert!(account["split_turn"].is_boolean() && account["incremental"].is_boolean());
}

#[tokio::test]
async fn a_webhook_that_fails_is_a_warning_with_its_address() {
    let (upstream, _) = Upstream::agreeable().await;
    let refusal = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    let (refusing, _) = Upstream::automatic(move |_| refusal.to_owned()).await;
    let nobody = Nobody::there();
    let gone = nobody.address;
    for (service, outcome, status) in [
        (refusing, "status", json!(503)),
        (gone, "unreachable", Value::Null),
    ] {
        // On a busy machine, a plan that is late would leave the webhook out.
        let toml = format!(
            "limits.plan_timeout = \"9s\"\n{POLICY}keep = {{ tokens = 0, exchanges = 2 }}\n\
             ladder = [{{ webhook = {{ url = \"http://{service}/compact?key=canary\" }} }}, \
             \"token_budget\"]\n"
        );
        let mut baler = Logging::start(&toml, &format!("http://{upstream}/v1")).await;
        assert_eq!(baler.chat(&request(&agent(14, 200))).await.status, 200);
        let lines = baler.until(REQUEST).await;
        let told = lines
            .iter()
            .find(|line| line["message"] == "webhook called");
        let told = told.expect("a failure is logged");
        assert_eq!(told["level"], "WARN");
        assert_eq!(told["outcome"], outcome);
        assert_eq!(told["policy"], "small");
        assert_eq!(told["address"], format!("http://{service}/compact"));
        assert_eq!(told["status"], status, "{told}");
        assert_eq!(
            told["cause"].is_string(),
            outcome == "unreachable",
            "{told}"
        );
        assert!(told["took_ms"].is_number());
        let all = format!("{lines:?}");
        assert!(!all.contains("canary"), "{all}");
    }
}

/// A server without TLS, which answers a handshake as HTTP servers do.
async fn refusing() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut hello = [0; 1024];
            let _ = stream.read(&mut hello).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    address
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_told_with_host_phase_and_cause() {
    // A server without TLS, and one whose certificate nobody vouches for.
    let plain = refusing().await;
    let (port, _ca) = crate::tls::self_signed(false).await;
    for (url, phase, cause) in [
        ("http://127.0.0.1:1/v1".to_owned(), "connect", "refused"),
        ("http://no-such-host.invalid/v1".to_owned(), "dns", ""),
        (format!("https://127.0.0.1:{}/v1", plain.port()), "tls", ""),
        (
            format!("https://localhost:{port}/v1"),
            "tls",
            "UnknownIssuer",
        ),
    ] {
        let mut baler = Logging::start("", &url).await;
        let answer = baler.chat(&request(&[message("user", "my secret")])).await;
        assert_eq!(answer.status, 502);
        let code = format!("upstream_unreachable_{phase}");
        assert_eq!(answer.json()["error"]["code"], code.as_str(), "{url}");
        let told = baler.until("cannot connect").await.pop().unwrap();
        assert_eq!(
            (&told["level"], &told["phase"]),
            (&json!("WARN"), &json!(phase))
        );
        let host = url.split('/').nth(2).unwrap();
        assert_eq!(told["host"], host);
        let words = told["cause"].as_str().unwrap();
        assert!(!words.is_empty() && words.contains(cause), "{told}");
        let request = baler.until(REQUEST).await.pop().unwrap();
        assert_eq!(request["level"], "WARN", "a 502 is a warning");
    }
}

#[tokio::test]
async fn an_api_that_passes_uncompacted_is_told_once() {
    let (address, _) = Upstream::agreeable().await;
    let mut baler = Logging::start("", &format!("http://{address}/v1")).await;
    for (path, endpoint) in [("/v1/responses", "responses"), ("/v1/messages", "messages")] {
        for first in [true, false] {
            assert_eq!(baler.post(path, "{\"input\":\"hi\"}").await.status, 200);
            let lines = baler.until(REQUEST).await;
            let request = lines.last().unwrap();
            let told: Vec<&Value> = lines
                .iter()
                .filter(|line| line["level"] == "WARN" && line["endpoint"] == endpoint)
                .collect();
            assert_eq!(told.len(), usize::from(first), "{lines:?}");
            let says = |line: &&Value| {
                line["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("chat completions"))
            };
            assert!(told.iter().all(says), "{told:?}");
            assert_eq!(request["endpoint"], endpoint);
        }
    }
}
