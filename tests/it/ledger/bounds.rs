//! What stores take and what they cost, in figures: conversations without end, and the time of a
//! request with a server on loopback.

use std::sync::Arc;

use baler::config;
use baler::core::conversation::Fingerprint;
use baler::core::edit::{Checkpoint, Edit, Replacement};
use baler::ledger::{Ledger, Scope};
use baler::observe::Metrics;

use super::server::Server;
use super::{key, overhead, secret_file, talk, toml};
use crate::support::Baler;
use crate::support::Upstream;
use crate::support::long;
use crate::support::request;

/// Bounds of memory and of the file.
const MEMORY: u64 = 32 << 20;
const FILE: u64 = 64 << 20;
/// The server's own, as [`a_server_stays_within_its_own_bound`] sets it.
const SERVER: u64 = 64 << 20;

fn bounded(url: &str, secret: Option<&std::path::Path>) -> config::Ledger {
    let text = toml(url, secret, "");
    let mut ledger = crate::support::config(&text, "http://127.0.0.1:9/v1").ledger;
    (ledger.memory_bytes, ledger.max_bytes) = (MEMORY, FILE);
    ledger
}

/// The value of a series.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes"
)]
fn value(metrics: &Metrics, series: &str) -> u64 {
    let text = String::from_utf8(metrics.render()).unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok());
    value.unwrap() as u64
}

/// Passes conversations through a ledger, and prints what that took of its bounds. The most that
/// its store took, by `store`.
async fn pass(
    config: &config::Ledger,
    (name, bound): (&str, u64),
    store: impl Fn(&Metrics) -> u64,
) -> u64 {
    let metrics = Arc::new(Metrics::new().unwrap());
    let ledger = Ledger::open(config, Arc::clone(&metrics)).unwrap();
    let conversations: u64 = if long() { 1_000_000 } else { 8_000 };
    let (mut of_memory, mut of_store) = (0, 0);
    for nth in 0..conversations {
        let id = |part: &[u8]| Fingerprint::of_parts(&[&nth.to_le_bytes(), part]);
        let scope = Scope {
            tenant: Fingerprint::of(&(nth % 100).to_le_bytes()),
            group: id(b"group"),
        };
        let text = format!(
            "{nth} {}",
            "x".repeat(usize::try_from(nth * 37 % 2_000).unwrap())
        );
        let json = format!(r#"{{"role":"user","content":"{text}"}}"#);
        let new = Replacement::measured(json, 7, id(b"message"));
        let edits = [Edit::Drop, Edit::Stand([new].into()), Edit::Drop];
        let checkpoint = Checkpoint::from_edits(edits.into());
        ledger.keep_checkpoint(scope, id(b"prefix"), checkpoint, false);
        ledger.keep_usage(Some((scope, id(b"slot"))), id(b"list"), nth);
        ledger.visit(id(b"prefix"), Some(id(b"prefix")));
        if nth % 2_000 == 0 {
            ledger.flush().await;
            let memory = value(&metrics, "baler_ledger_bytes{store=\"memory\"} ");
            of_memory = of_memory.max(memory);
            of_store = of_store.max(store(&metrics));
        }
    }
    ledger.flush().await;
    let dropped = value(&metrics, "baler_ledger_writes_total{result=\"dropped\"} ");
    println!(
        "{conversations} conversations, {name}: at most {of_store} of {bound} bytes, and \
         {of_memory} of {MEMORY} bytes of memory in front of it; {dropped} writes dropped"
    );
    assert!(of_memory <= MEMORY);
    of_store
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_stays_within_its_bound() {
    let memory = |metrics: &Metrics| value(metrics, "baler_ledger_bytes{store=\"memory\"} ");
    pass(&bounded("memory", None), ("memory", MEMORY), memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_stays_within_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.redb");
    let config = bounded(&format!("redb://{}", file.display()), None);
    let length = |_: &Metrics| std::fs::metadata(&file).unwrap().len();
    let largest = pass(&config, ("file", FILE), length).await;
    assert!(largest <= FILE, "{largest} of {FILE}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stays_within_its_own_bound() {
    let options = ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    let Some(server) = Server::start_with(&options) else {
        return;
    };
    let secret = secret_file();
    let config = bounded(&server.url(), Some(secret.path()));
    let used = |_: &Metrics| {
        let info = server.command(&["INFO", "memory"]);
        let mut lines = info.lines();
        let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
        used.unwrap().trim().parse().unwrap()
    };
    let largest = pass(&config, ("Redis", SERVER), used).await;
    // The server frees memory when the next command comes.
    assert!(largest <= SERVER + (4 << 20), "{largest}");
}

/// The middle of the times that requests waited for Baler, milliseconds: the first of
/// conversations, and later ones.
async fn times(toml: &str) -> (f64, f64) {
    let (upstream, _log) = Upstream::agreeable().await;
    let baler = Baler::start(toml, upstream).await;
    let (mut first, mut later) = (Vec::new(), Vec::new());
    let conversations = if long() { 60 } else { 8 };
    for nth in 0..conversations {
        let all = talk(&format!("river {nth}"), 24, 60);
        for count in 20..=24 {
            let body = request(&all[..2 * count]);
            let answer = baler.chat_with(&body, &key("a")).await;
            assert_eq!(answer.status, 200);
            let times = if count == 20 { &mut first } else { &mut later };
            times.push(overhead(&answer));
        }
    }
    let middle = |times: &mut Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (middle(&mut first), middle(&mut later))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_request_with_a_server_on_loopback() {
    let Some(server) = Server::start() else {
        return;
    };
    let secret = secret_file();
    let folder = tempfile::tempdir().unwrap();
    let file = format!("redb://{}", folder.path().join("ledger.redb").display());
    let mut of_memory = None;
    for url in ["memory".to_owned(), file, server.url()] {
        let (first, later) = times(&toml(&url, Some(secret.path()), "")).await;
        let name = url.split(':').next().unwrap();
        let (alone, always) = *of_memory.get_or_insert((first, later));
        println!(
            "{name}: the first request of a conversation waits {first:.3} ms ({:+.3} against \
             memory, at most 1 wanted), later ones {later:.3} ms ({:+.3}, at most 0.1 wanted)",
            first - alone,
            later - always,
        );
    }
}
