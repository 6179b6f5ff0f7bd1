//! The ledger's stores: what outlives a process, what replicas share, and what a store that fails
//! costs.

mod bounds;
mod canary;
mod faults;
mod file;
mod fleets;
mod operate;
mod replicas;
mod server;
mod suite;

use std::net::SocketAddr;

use serde_json::json;

use crate::support::Answer;
use crate::support::Baler;
use crate::support::Log;
use crate::support::Upstream;
use crate::support::json_answer;
use crate::support::message;
use crate::support::within;
use crate::support::words;

/// The secret of the replicas.
pub const SECRET: &str = "c2VjcmV0LW9mLWFsbC1yZXBsaWNhcy1vZi10aGVzZS10ZXN0cw==";

/// A window of 8,000 tokens that acts at 80 % of 6,000 and goes down to half.
pub const POLICY: &str = "[[policy]]\nname = \"small\"\nwindow = 8000\nreserve = 2000\n";

/// A file with the secret. It is there as long as the value is.
pub fn secret_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), SECRET).unwrap();
    file
}

/// `[ledger]` for this store, and a policy with a small window. A deadline that a busy machine
/// keeps.
pub fn toml(url: &str, secret: Option<&std::path::Path>, more: &str) -> String {
    let secret = secret.map_or(String::new(), |file| {
        format!("secret_file = \"{}\"\n", file.display())
    });
    format!("[ledger]\nurl = \"{url}\"\ntimeout = \"2s\"\n{secret}{more}{POLICY}")
}

/// A conversation of turns, each a question and an answer of so many tokens. `name` makes it
/// another one.
pub fn talk(name: &str, turns: usize, tokens: usize) -> Vec<String> {
    let mut messages = vec![message("system", "You help.")];
    let seed = name.bytes().map(usize::from).sum::<usize>();
    for turn in 0..turns {
        let question = format!("{name}, question {turn}: {}", words(seed + turn, tokens));
        messages.push(message("user", &question));
        let answer = format!("answer {turn}: {}", words(seed + 7 * turn + 1, tokens));
        messages.push(message("assistant", &answer));
    }
    messages.pop();
    messages
}

/// The part of a sent body that later requests of the conversation begin with.
pub fn prefix(body: &[u8]) -> &[u8] {
    body.strip_suffix(br#"],"x":1e2}"#)
        .expect("as `request` makes it")
}

/// The body that arrived last.
pub fn last(log: &Log) -> Vec<u8> {
    log.lock()
        .unwrap()
        .last()
        .expect("something arrived")
        .1
        .clone()
}

/// An upstream that reports so many tokens per byte of the messages.
pub async fn counting(tokens_per_byte: f64) -> (SocketAddr, Log) {
    Upstream::automatic(move |body| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small"
        )]
        let tokens = (body.len() as f64 * tokens_per_byte) as u64;
        let answer = json!({
            "choices": [{"message": {"role": "assistant", "content": "ok"}}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1},
        });
        json_answer(&answer.to_string())
    })
    .await
}

/// Stops a Baler in an orderly way: what it recorded is written.
pub async fn stop(mut baler: Baler) {
    baler.stop.cancel();
    let running = std::mem::replace(&mut baler.running, tokio::spawn(std::future::pending()));
    within(running).await.unwrap().unwrap();
}

/// What is said, as an answer.
pub fn saying(text: &str) -> String {
    let message = json!({"role": "assistant", "content": text});
    json_answer(&json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string())
}

/// The time that a request waited for Baler, milliseconds.
pub fn overhead(answer: &Answer) -> f64 {
    let timing = answer.header("server-timing");
    timing.strip_prefix("baler;dur=").unwrap().parse().unwrap()
}

/// Header lines with a key.
pub fn key(name: &str) -> String {
    format!("authorization: Bearer {name}\r\n")
}

/// The same, and the wish to be compacted now.
pub fn force(name: &str) -> String {
    format!("{}x-baler-mode: force\r\n", key(name))
}
