//! What is said and by whom stays unreadable: in files, dumps, names, logs and metrics.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::server::Server;
use super::{POLICY, SECRET};
use crate::support::Client;
use crate::support::Upstream;
use crate::support::json_answer;
use crate::support::message;
use crate::support::request;
use crate::support::until;
use crate::support::words;

const PHRASE: &str = "xyzzy-plugh-4711";
const CREDENTIAL: &str = "sk-canary-0815";

/// Plays a conversation with the phrase everywhere, in a process of its own; what it logged and
/// counted.
async fn played(url: &str, secret: Option<&str>) -> String {
    let (upstream, log) = Upstream::automatic(|_| {
        let text = format!("<summary>\n{PHRASE}\n</summary>");
        let message = json!({"role": "assistant", "content": text});
        let usage = json!({
            "prompt_tokens": 4_000, "completion_tokens": 9, "total_tokens": 4_009,
        });
        let choices = json!([{"message": message, "finish_reason": "stop"}]);
        json_answer(&json!({"choices": choices, "usage": usage}).to_string())
    })
    .await;
    let mut config = tempfile::NamedTempFile::new().unwrap();
    let ladder = "ladder = [\"summarize\", \"digest\", \"token_budget\"]\n";
    write!(config, "[ledger]\nurl = \"{url}\"\n{POLICY}{ladder}").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_baler"));
    command.env_clear();
    if let Some(secret) = secret {
        command.env("BALER_LEDGER__SECRET", secret);
    }
    let mut child = command
        .args(["--config", config.path().to_str().unwrap()])
        .args(["--upstream", &format!("http://{upstream}/v1")])
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--log-level", "trace"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stderr.take().unwrap()));
    let mut seen = String::new();
    let (data, admin) = loop {
        let line = lines.next_line().await.unwrap().expect("it starts");
        seen += &format!("{line}\n");
        if let Some((_, rest)) = line.split_once("listening on http://") {
            let data = rest.split('/').next().unwrap().parse().unwrap();
            let (_, rest) = rest.split_once("http://").unwrap();
            break (data, rest.trim_end_matches(')').parse().unwrap());
        }
    };
    let said = format!("{PHRASE} {}", words(3, 200));
    let mut all = vec![message("system", PHRASE)];
    for turn in 0..30 {
        all.push(message("user", &format!("{turn} {said}")));
        all.push(message("assistant", &said));
    }
    for count in [10, 16, 20, 30] {
        let body = request(&all[..2 * count]);
        let head = format!(
            "POST /v1/chat/completions?key={CREDENTIAL} HTTP/1.1\r\nhost: x\r\n\
            content-type: application/json\r\ncontent-length: {}\r\n\
            authorization: Bearer {CREDENTIAL}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let answer = Client::send(data, &head, body.as_bytes())
            .await
            .answer()
            .await;
        assert_eq!(answer.status, 200);
    }
    let metrics = async || {
        let head = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        Client::send(admin, head, b"").await.answer().await.text()
    };
    until(async || {
        let text = metrics().await;
        text.contains("\nbaler_ledger_writes_waiting 0\n")
            && text.contains("\nbaler_usage_learned_total 4\n")
            && text.contains("\nbaler_summaries_running 0\n")
    })
    .await;
    seen += &metrics().await;
    child.start_kill().unwrap();
    let mut rest = String::new();
    lines.get_mut().read_to_string(&mut rest).await.unwrap();
    child.wait().await.unwrap();
    assert!(log.lock().unwrap().len() > 4, "a summary was made");
    seen + &rest
}

/// Neither phrase, credential nor secret is in there, in any common spelling.
#[track_caller]
fn tells_nothing(what: &str, bytes: &[u8]) {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let mut told: Vec<Vec<u8>> = Vec::new();
    for word in [PHRASE, CREDENTIAL, SECRET] {
        told.push(word.as_bytes().to_vec());
        let hex: String = word.bytes().map(|byte| format!("{byte:02x}")).collect();
        told.push(hex.into_bytes());
        let coded = STANDARD.encode(word);
        told.push(coded.trim_end_matches('=').as_bytes()[..16].to_vec());
    }
    // The words of the text, too.
    told.push(b"river stone".to_vec());
    told.push(b"conversation_".to_vec());
    for word in told {
        let found = bytes.windows(word.len()).any(|window| window == word);
        assert!(!found, "{what} has {}", String::from_utf8_lossy(&word));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("redb://{}", folder.path().join("ledger.redb").display());
    let seen = played(&url, Some(SECRET)).await;
    tells_nothing("the log, or a metric", seen.as_bytes());
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() > 4_096);
        tells_nothing(&path.display().to_string(), &bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_tells_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let seen = played(&server.url(), Some(SECRET)).await;
    tells_nothing("the log, or a metric", seen.as_bytes());
    assert!(server.entries() >= 5, "{:?}", server.names());
    tells_nothing("the names", server.names().join("\n").as_bytes());
    tells_nothing("the dump", &server.dump());
}
