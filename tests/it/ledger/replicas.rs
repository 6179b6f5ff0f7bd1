//! Several replicas on one Redis: what they send is what one process would send.

use std::sync::Arc;

use baler::config;
use baler::ledger::operate;

use super::server::Server;
use super::{counting, force, key, last, prefix, saying, secret_file, talk, toml};
use crate::support::Baler;
use crate::support::Log;
use crate::support::Upstream;
use crate::support::request;

/// A store with its secret.
struct Fleet {
    server: Server,
    toml: String,
    _secret: tempfile::NamedTempFile,
}

impl Fleet {
    fn start(policy: &str) -> Option<Self> {
        let server = Server::start()?;
        let secret = secret_file();
        let toml = toml(&server.url(), Some(secret.path()), "");
        let toml = toml.replace("reserve = 2000\n", &format!("reserve = 2000\n{policy}"));
        Some(Fleet {
            server,
            toml,
            _secret: secret,
        })
    }

    async fn replicas(&self, count: usize, upstream: std::net::SocketAddr) -> Vec<Baler> {
        let mut replicas = Vec::new();
        for _ in 0..count {
            replicas.push(Baler::start(&self.toml, upstream).await);
        }
        replicas
    }

    /// Entries of a kind in the store.
    fn entries(&self, kind: &str) -> u64 {
        let config = self.config();
        // It has an event loop of its own.
        let count = std::thread::spawn(move || operate::stats(&config).unwrap().unwrap());
        let stats = count.join().unwrap();
        stats.kinds.get(kind).copied().unwrap_or(0)
    }

    fn config(&self) -> config::Ledger {
        crate::support::config(&self.toml, "http://127.0.0.1:9/v1").ledger
    }
}

/// Waits until a replica has written what it recorded, after it learned from so many answers.
async fn settled(baler: &Baler, learned: usize) {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let learned = learned as f64;
    baler
        .metric_reaches("baler_usage_learned_total", learned)
        .await;
    baler.metric_ends("baler_ledger_writes_waiting").await;
}

fn bodies(log: &Log) -> Vec<Vec<u8>> {
    let log = log.lock().unwrap();
    log.iter().map(|(_, body)| body.clone()).collect()
}

/// The actions and the bodies sent for conversations whose requests take turns, request `n` being
/// served by replica `n % replicas`.
async fn alternating(replicas: &[Baler], log: &Log, talks: &[Vec<String>]) -> Vec<String> {
    let mut actions = Vec::new();
    let mut learned = vec![0; replicas.len()];
    let mut nth = 0;
    for count in 1..=talks[0].len() / 2 {
        for (which, all) in talks.iter().enumerate() {
            let at = nth % replicas.len();
            let replica = &replicas[at];
            // A compaction that no replica could derive.
            let headers = if count == 12 && which == 0 {
                force("a")
            } else {
                key("a")
            };
            let answer = replica
                .chat_with(&request(&all[..2 * count]), &headers)
                .await;
            assert_eq!(answer.status, 200);
            actions.push(answer.action().to_owned());
            learned[at] += 1;
            settled(replica, learned[at]).await;
            nth += 1;
        }
        // The next round begins with the next replica.
        nth += usize::from(talks.len().is_multiple_of(replicas.len()));
    }
    assert_eq!(bodies(log).len(), actions.len());
    actions
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_that_alternate_are_sent_as_one_process_sends_them() {
    let talks: Vec<_> = ["river", "stone", "cloud"]
        .map(|name| talk(name, 30, 120))
        .into();
    let (upstream, of_one) = counting(0.33).await;
    let one = Baler::start(&super::toml("memory", None, ""), upstream).await;
    let expected = alternating(std::slice::from_ref(&one), &of_one, &talks).await;
    let compactions = expected.iter().filter(|action| *action == "compacted");
    assert!((3..30).contains(&compactions.count()), "{expected:?}");
    for count in [2, 3] {
        let Some(fleet) = Fleet::start("") else {
            return;
        };
        let (upstream, of_many) = counting(0.33).await;
        let replicas = fleet.replicas(count, upstream).await;
        let actions = alternating(&replicas, &of_many, &talks).await;
        assert_eq!(actions, expected, "{count} replicas");
        assert_eq!(bodies(&of_many), bodies(&of_one), "{count} replicas");
        for replica in &replicas {
            let hits = "baler_ledger_lookups_total{result=\"hit\",store=\"redis\"}";
            assert!(replica.metric(hits).await > 0.0);
            assert!(replica.metric("baler_ledger_breaker_open").await < 1.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_two_checkpoints_is_everyones_from_the_next_request_on() {
    let Some(fleet) = Fleet::start("") else {
        return;
    };
    let (upstream, log) = Upstream::agreeable().await;
    let replicas = Arc::new(fleet.replicas(3, upstream).await);
    let (rounds, mut lost, mut races) = (8_u64, 0.0, 0);
    for round in 0..rounds {
        let all = Arc::new(talk(&format!("race {round}"), 24, 100));
        let before = log.lock().unwrap().len();
        // The same messages, and room for another reply: other bytes for the same prefix.
        let racing = (0..3_usize).map(|at| {
            let (replicas, all) = (Arc::clone(&replicas), Arc::clone(&all));
            tokio::spawn(async move {
                let room = format!("\"max_tokens\":{},\"x\":1e2}}", 100 + 1_900 * at);
                let body = request(&all[..40]).replace("\"x\":1e2}", &room);
                let answer = replicas[at].chat_with(&body, &force("a")).await;
                // Whoever comes too late for the race finds the winner's.
                let is_compacted = answer.action() == "compacted";
                assert!(is_compacted || answer.action() == "replayed");
                u32::from(is_compacted)
            })
        });
        let mut racers = 0;
        for racer in racing.collect::<Vec<_>>() {
            racers += racer.await.unwrap();
        }
        let of_racers: Vec<_> = bodies(&log).split_off(before);
        let lost_before = std::mem::take(&mut lost);
        for replica in &*replicas {
            replica.metric_ends("baler_ledger_writes_waiting").await;
            let series = "baler_ledger_writes_total{result=\"lost\"}";
            lost += replica.metric(series).await;
        }
        // One that found the winner's, and has less room, builds on it: that is no race.
        if racers < 2 || lost - lost_before < f64::from(racers) - 1.5 {
            continue;
        }
        races += 1;
        let mut sent = Vec::new();
        for (at, replica) in replicas.iter().enumerate() {
            for count in [21, 22 + at % 2] {
                let body = request(&all[..2 * count]);
                let answer = replica.chat_with(&body, &key("a")).await;
                assert_eq!(answer.action(), "replayed", "round {round}");
                sent.push((count, last(&log)));
            }
        }
        let (_, first) = sent.iter().find(|(count, _)| *count == 21).unwrap();
        for (count, body) in &sent {
            assert!(
                body.starts_with(prefix(first)),
                "round {round}, turn {count}"
            );
        }
        let begins = |body: &Vec<u8>| {
            let end = body
                .windows(13)
                .position(|part| part == b"\"max_tokens\":")
                .unwrap();
            first.starts_with(&body[..end - 2])
        };
        assert!(
            of_racers.iter().any(begins),
            "they are the bytes of one of them"
        );
    }
    assert!(races > 0, "none of {rounds} rounds was a race");
    assert_eq!(fleet.entries("checkpoints"), rounds, "one each");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_race_make_one_summary() {
    let ladder =
        "ladder = [\"summarize\", \"token_budget\"]\nkeep = { tokens = 0, exchanges = 1 }\n";
    let Some(fleet) = Fleet::start(ladder) else {
        return;
    };
    let asked = Arc::new(tokio::sync::Semaphore::new(0));
    let counted = Arc::clone(&asked);
    let (upstream, log) = Upstream::automatic(move |body| {
        let is_for_summary = String::from_utf8_lossy(body).contains("inside <summary> tags");
        if !is_for_summary {
            return saying("ok");
        }
        counted.add_permits(1);
        saying("<summary>\nThe user asks questions.\n</summary>")
    })
    .await;
    let replicas = Arc::new(fleet.replicas(3, upstream).await);
    let all = Arc::new(talk("seven", 60, 60));
    // Up to where a summary is worth preparing, by turns.
    let mut count = 18;
    while asked.available_permits() == 0 {
        let racing = (0..3_usize).map(|at| {
            let (replicas, all) = (Arc::clone(&replicas), Arc::clone(&all));
            tokio::spawn(async move {
                let body = request(&all[..2 * count]);
                let answer = replicas[at].chat_with(&body, &key("a")).await;
                assert_eq!(answer.status, 200);
            })
        });
        for racer in racing.collect::<Vec<_>>() {
            racer.await.unwrap();
        }
        count += 1;
        assert!(count < 50, "no summary was ever due");
        // What is due is begun before the answer arrives.
        for replica in &*replicas {
            replica.metric_ends("baler_summaries_running").await;
        }
    }
    for replica in &*replicas {
        replica.metric_ends("baler_ledger_writes_waiting").await;
    }
    assert_eq!(asked.available_permits(), 1, "one summary for all");
    assert_eq!(fleet.entries("summaries"), 1);
    // Whoever compacts uses it.
    let mut used = 0;
    for end in count..60 {
        let replica = &replicas[end % 3];
        let answer = replica
            .chat_with(&request(&all[..2 * end]), &key("a"))
            .await;
        let sent = String::from_utf8_lossy(&last(&log)).into_owned();
        if answer.action() == "compacted" {
            assert!(sent.contains("The user asks questions."), "{sent}");
            used += 1;
            break;
        }
    }
    assert_eq!(used, 1);
    assert!(fleet.server.entries() > 0);
}
