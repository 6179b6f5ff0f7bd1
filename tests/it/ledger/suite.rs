//! The same over every store: what the next process, or the next replica, finds.

use serde_json::json;

use super::server::Server;
use super::{SECRET, counting, force, key, last, prefix, saying, secret_file, stop, talk, toml};
use crate::support::Baler;
use crate::support::Log;
use crate::support::Upstream;
use crate::support::json_answer;
use crate::support::request;

/// A store, and what must live as long as it does.
struct Under {
    url: String,
    secret: tempfile::NamedTempFile,
    /// Whether another process finds what one wrote.
    outlives: bool,
    _server: Option<Server>,
    _folder: Option<tempfile::TempDir>,
}

impl Under {
    fn memory() -> Option<Self> {
        Some(Under {
            url: "memory".to_owned(),
            secret: secret_file(),
            outlives: false,
            _server: None,
            _folder: None,
        })
    }

    #[expect(clippy::unnecessary_wraps, reason = "one of three")]
    fn redb() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        Some(Under {
            url: format!("redb://{}", folder.path().join("ledger.redb").display()),
            secret: secret_file(),
            outlives: true,
            _server: None,
            _folder: Some(folder),
        })
    }

    fn redis() -> Option<Self> {
        let server = Server::start()?;
        Some(Under {
            url: server.url(),
            secret: secret_file(),
            outlives: true,
            _server: Some(server),
            _folder: None,
        })
    }

    fn toml(&self, more: &str) -> String {
        toml(&self.url, Some(self.secret.path()), more)
    }

    /// The process that serves from now on: another one, unless nothing outlives a process.
    async fn next(&self, baler: Baler, more: &str, upstream: std::net::SocketAddr) -> Baler {
        if !self.outlives {
            return baler;
        }
        stop(baler).await;
        Baler::start(&self.toml(more), upstream).await
    }
}

/// Each of these for each of the stores.
macro_rules! over_every_store {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(under) = super::Under::memory() { super::$test(under).await; }
            })+
        }
        mod redb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(under) = super::Under::redb() { super::$test(under).await; }
            })+
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(under) = super::Under::redis() { super::$test(under).await; }
            })+
        }
    };
}

over_every_store! {
    a_forced_compaction_is_replayed,
    what_a_refusal_taught_is_known,
    usage_forces_as_in_one_process,
    a_summary_is_used,
    nobody_else_finds_it,
    a_named_tenant_may_change_its_key,
}

/// The beginning of a conversation, in so many turns.
fn turns(all: &[String], count: usize) -> String {
    request(&all[..2 * count])
}

async fn a_forced_compaction_is_replayed(under: Under) {
    let (upstream, log) = Upstream::agreeable().await;
    let baler = Baler::start(&under.toml(""), upstream).await;
    let all = talk("river", 12, 60);
    let answer = baler.chat_with(&turns(&all, 10), &force("a")).await;
    assert_eq!(answer.action(), "compacted");
    let first = last(&log);
    // Nothing but the ledger can know of it.
    let baler = under.next(baler, "", upstream).await;
    let answer = baler.chat_with(&turns(&all, 11), &key("a")).await;
    assert_eq!(answer.action(), "replayed");
    assert!(last(&log).starts_with(prefix(&first)), "the same bytes");
    let baler = under.next(baler, "", upstream).await;
    let answer = baler.chat_with(&turns(&all, 12), &key("a")).await;
    assert_eq!(answer.action(), "replayed");
    assert!(last(&log).starts_with(prefix(&first)));
    let lookups = |store: &str, result: &str| {
        format!("baler_ledger_lookups_total{{result=\"{result}\",store=\"{store}\"}}")
    };
    if under.outlives {
        let store = under.url.split(':').next().unwrap();
        assert!(baler.metric(&lookups(store, "hit")).await >= 1.0);
        assert!(baler.metric(&lookups("memory", "miss")).await >= 1.0);
    }
}

async fn what_a_refusal_taught_is_known(under: Under) {
    let refuses_above = 12_000;
    let (upstream, log) = Upstream::automatic(move |body| {
        if body.len() > refuses_above {
            let message = "This model's maximum context length is 2000 tokens. However, your \
                           messages resulted in 2600 tokens.";
            let error = json!({"error": {"message": message, "type": "invalid_request_error",
                "code": "context_length_exceeded"}});
            let error = error.to_string();
            return format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
                content-length: {}\r\n\r\n{error}",
                error.len()
            );
        }
        json_answer(r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#)
    })
    .await;
    let baler = Baler::start(&under.toml(""), upstream).await;
    let all = talk("stone", 20, 60);
    let answer = baler.chat_with(&turns(&all, 18), &key("a")).await;
    assert_eq!((answer.status, answer.action()), (200, "rescued"));
    let first = last(&log);
    let baler = under.next(baler, "", upstream).await;
    let before = log.lock().unwrap().len();
    let answer = baler.chat_with(&turns(&all, 19), &key("a")).await;
    assert_eq!((answer.status, answer.action()), (200, "replayed"));
    assert!(last(&log).starts_with(prefix(&first)));
    assert_eq!(
        log.lock().unwrap().len(),
        before + 1,
        "nothing is refused again"
    );
    assert!(answer.header("x-baler-tokens").contains("window=2000"));
}

/// What was done with each request of a conversation, each served by the next process.
async fn played(under: &Under, all: &[String], restarts: bool) -> (Vec<String>, Log) {
    // More than is counted: only what was reported forces a compaction in time.
    let (upstream, log) = counting(0.33).await;
    let mut baler = Baler::start(&under.toml(""), upstream).await;
    let mut actions = Vec::new();
    for count in 1..=all.len() / 2 {
        let answer = baler.chat_with(&turns(all, count), &key("a")).await;
        assert_eq!(answer.status, 200);
        actions.push(answer.action().to_owned());
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let learned = if restarts { 1.0 } else { count as f64 };
        baler
            .metric_reaches("baler_usage_learned_total", learned)
            .await;
        if restarts {
            baler = under.next(baler, "", upstream).await;
        }
    }
    (actions, log)
}

async fn usage_forces_as_in_one_process(under: Under) {
    let all = talk("cloud", 30, 120);
    let one = Under::memory().unwrap();
    let (of_one, sent_by_one) = played(&one, &all, false).await;
    let (of_many, sent_by_many) = played(&under, &all, under.outlives).await;
    assert_eq!(of_many, of_one);
    assert!(
        of_one.iter().any(|action| action == "compacted"),
        "{of_one:?}"
    );
    let bodies = |log: &Log| -> Vec<Vec<u8>> {
        let log = log.lock().unwrap();
        log.iter().map(|(_, body)| body.clone()).collect()
    };
    assert_eq!(bodies(&sent_by_many), bodies(&sent_by_one));
}

async fn a_summary_is_used(under: Under) {
    const SUMMARY: &str = "<summary>\nThe user asks questions about words.\n</summary>";
    let (upstream, log) = Upstream::automatic(|body| {
        let text = String::from_utf8_lossy(body);
        saying(if text.contains("inside <summary> tags") {
            SUMMARY
        } else {
            "ok"
        })
    })
    .await;
    let ladder = "reserve = 2000\nladder = [\"summarize\", \"token_budget\"]\n\
                  keep = { tokens = 0, exchanges = 1 }\n";
    let toml = under.toml("").replace("reserve = 2000\n", ladder);
    let baler = Baler::start(&toml, upstream).await;
    let all = talk("seven", 40, 60);
    // Long enough to prepare a summary, and not to need it yet.
    let mut count = 20;
    while baler.metric("baler_summaries_running").await
        + baler
            .metric("baler_summaries_total{outcome=\"made\",summarizer=\"default\"}")
            .await
        < 1.0
    {
        let answer = baler.chat_with(&turns(&all, count), &key("a")).await;
        assert_eq!(answer.action(), "none", "turn {count}");
        count += 1;
    }
    baler
        .metric_reaches(
            "baler_summaries_total{outcome=\"made\",summarizer=\"default\"}",
            1.0,
        )
        .await;
    let baler = if under.outlives {
        stop(baler).await;
        Baler::start(&toml, upstream).await
    } else {
        baler
    };
    while count <= 40 {
        let answer = baler.chat_with(&turns(&all, count), &key("a")).await;
        if answer.action() == "compacted" {
            let sent = log.lock().unwrap();
            let is_chat = |(_, body): &&(String, Vec<u8>)| {
                !String::from_utf8_lossy(body).contains("inside <summary> tags")
            };
            let body = &sent.iter().rfind(is_chat).unwrap().1;
            let text = String::from_utf8_lossy(body);
            assert!(
                text.contains("The user asks questions about words."),
                "{text}"
            );
            return;
        }
        count += 1;
    }
    panic!("it was never compacted");
}

async fn nobody_else_finds_it(under: Under) {
    let (upstream, log) = Upstream::agreeable().await;
    let baler = Baler::start(&under.toml(""), upstream).await;
    let all = talk("paper", 12, 60);
    let answer = baler.chat_with(&turns(&all, 10), &force("a")).await;
    assert_eq!(answer.action(), "compacted");
    let baler = under.next(baler, "", upstream).await;
    let body = turns(&all, 11);
    for others in [
        key("b"),
        String::new(),
        format!("{}openai-project: p\r\n", key("a")),
        "api-key: a\r\n".to_owned(),
    ] {
        let answer = baler.chat_with(&body, &others).await;
        assert_eq!(answer.action(), "none", "{others}");
        assert_eq!(last(&log), body.as_bytes());
    }
    // Another secret is another ledger.
    if under.outlives {
        std::fs::write(under.secret.path(), SECRET.to_uppercase()).unwrap();
        let stranger = under.next(baler, "", upstream).await;
        assert_eq!(stranger.chat_with(&body, &key("a")).await.action(), "none");
        std::fs::write(under.secret.path(), SECRET).unwrap();
        let baler = under.next(stranger, "", upstream).await;
        let answer = baler.chat_with(&body, &key("a")).await;
        assert_eq!(answer.action(), "replayed");
    }
}

async fn a_named_tenant_may_change_its_key(under: Under) {
    let more = "tenant = { headers = [\"x-team\"] }\n";
    let (upstream, _log) = Upstream::agreeable().await;
    let baler = Baler::start(&under.toml(more), upstream).await;
    let all = talk("green", 12, 60);
    let of = |team: &str, name: &str| format!("x-team: {team}\r\n{}", key(name));
    let forced = format!("x-team: blue\r\n{}", force("monday"));
    let answer = baler.chat_with(&turns(&all, 10), &forced).await;
    assert_eq!(answer.action(), "compacted");
    let baler = under.next(baler, more, upstream).await;
    let body = turns(&all, 11);
    for (headers, action) in [
        (of("red", "monday"), "none"),
        (key("monday"), "none"),
        (of("blue", "tuesday"), "replayed"),
    ] {
        assert_eq!(
            baler.chat_with(&body, &headers).await.action(),
            action,
            "{headers}"
        );
    }
}
