//! A store that fails: no client sees an error, nobody waits for longer than the deadline, once,
//! and it is used again when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::server::Server;
use super::{force, key, last, overhead, prefix, secret_file, talk, toml};
use crate::support::Baler;
use crate::support::Upstream;
use crate::support::request;
use crate::support::until;

/// The deadline of these tests.
const DEADLINE: Duration = Duration::from_millis(200);

struct Outage {
    server: Server,
    baler: Arc<Baler>,
    _secret: tempfile::NamedTempFile,
}

async fn outage(options: &[&str]) -> Option<Outage> {
    let server = Server::start_with(options)?;
    let secret = secret_file();
    let toml = toml(&server.url(), Some(secret.path()), "");
    let toml = toml.replace("\"2s\"", &format!("\"{}ms\"", DEADLINE.as_millis()));
    let (upstream, _log) = Upstream::agreeable().await;
    let baler = Arc::new(Baler::start(&toml, upstream).await);
    Some(Outage {
        server,
        baler,
        _secret: secret,
    })
}

impl Outage {
    async fn lookups(&self, result: &str) -> f64 {
        let series = format!("baler_ledger_lookups_total{{result=\"{result}\",store=\"redis\"}}");
        self.baler.metric(&series).await
    }

    async fn is_open(&self) -> bool {
        self.baler.metric("baler_ledger_breaker_open").await > 0.0
    }

    async fn until_open(&self, open: bool) {
        until(async || self.is_open().await == open).await;
    }

    /// A conversation that was compacted, as its next replica sees it: whether the store had it.
    async fn is_shared(&self, name: &str) -> bool {
        let all = talk(name, 12, 60);
        let answer = self
            .baler
            .chat_with(&request(&all[..20]), &force("a"))
            .await;
        assert_eq!(answer.status, 200);
        self.baler.metric_ends("baler_ledger_writes_waiting").await;
        self.server
            .names()
            .iter()
            .any(|name| name.starts_with("baler:"))
    }
}

/// Requests of conversations that nobody knows, four at a time, until told to stop. The longest
/// that one of them waited for Baler, milliseconds.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<tokio::task::JoinHandle<f64>>,
}

impl Load {
    fn on(baler: &Arc<Baler>) -> Self {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let clients = (0..4).map(|client| {
            let (baler, stop, done) = (Arc::clone(baler), Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(async move {
                let (mut longest, mut nth) = (0.0_f64, 0);
                while !stop.load(Ordering::Relaxed) {
                    nth += 1;
                    let all = talk(&format!("load {client} {nth}"), 6, 20);
                    let answer = baler.chat_with(&request(&all), &force("a")).await;
                    longest = longest.max(overhead(&answer));
                    assert_eq!(answer.status, 200, "{}", answer.head);
                    assert!(!answer.action().contains("failed"), "{}", answer.head);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                longest
            })
        });
        let clients = clients.collect();
        Load {
            stop,
            done,
            clients,
        }
    }

    /// Waits for so many more answers.
    async fn more(&self, count: usize) {
        let until_then = self.done.load(Ordering::Relaxed) + count;
        until(async || self.done.load(Ordering::Relaxed) >= until_then).await;
    }

    /// The number of answers, and the longest that one waited for Baler, milliseconds.
    async fn end(self) -> (usize, f64) {
        self.stop.store(true, Ordering::Relaxed);
        let mut longest = 0.0_f64;
        for client in self.clients {
            longest = longest.max(client.await.unwrap());
        }
        (self.done.load(Ordering::Relaxed), longest)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_and_starts_under_load_costs_no_client_an_error() {
    let Some(mut outage) = outage(&[]).await else {
        return;
    };
    assert!(outage.is_shared("before").await);
    let load = Load::on(&outage.baler);
    for _ in 0..3 {
        load.more(20).await;
        outage.server.kill();
        outage.until_open(true).await;
        load.more(20).await;
        assert!(outage.server.run(), "the port is still free");
        outage.until_open(false).await;
    }
    let (requests, longest) = load.end().await;
    println!("killed and started 3 times: {requests} requests, the longest waited {longest} ms");
    assert!(outage.is_shared("after").await, "it is used again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_costs_the_deadline_once() {
    let Some(outage) = outage(&[]).await else {
        return;
    };
    assert!(outage.is_shared("before").await);
    let load = Load::on(&outage.baler);
    for _ in 0..2 {
        load.more(20).await;
        outage.server.signal("STOP");
        outage.until_open(true).await;
        load.more(40).await;
        outage.server.signal("CONT");
        outage.until_open(false).await;
    }
    // The same by its own command.
    load.more(20).await;
    let address = outage.server.address;
    let sleeping = tokio::task::spawn_blocking(move || {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"DEBUG SLEEP 1\r\n").unwrap();
    });
    sleeping.await.unwrap();
    outage.until_open(true).await;
    load.more(20).await;
    outage.until_open(false).await;
    let (requests, longest) = load.end().await;
    let timeouts = outage.lookups("timeout").await;
    println!(
        "hung 3 times: {requests} requests, {timeouts} of them waited for the deadline of \
         {DEADLINE:?}, the longest waited {longest} ms"
    );
    // Four clients, and each was waiting at most once when it hung.
    assert!((1.0..=12.0).contains(&timeouts), "{timeouts}");
    assert!(outage.lookups("skipped").await > 0.0, "others did not wait");
    assert!(outage.is_shared("after").await, "it is used again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_emptied_costs_another_compaction_at_most() {
    let Some(outage) = outage(&[]).await else {
        return;
    };
    let load = Load::on(&outage.baler);
    load.more(20).await;
    outage.server.command(&["FLUSHALL"]);
    load.more(20).await;
    let (requests, longest) = load.end().await;
    println!("emptied: {requests} requests, the longest waited {longest} ms");
    assert!(outage.is_shared("after").await);
    assert!(!outage.is_open().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_full_refuses_writes_and_costs_nothing_else() {
    let Some(outage) = outage(&["--maxmemory", "3mb"]).await else {
        return;
    };
    // Everything that is left of it.
    outage
        .server
        .command(&["DEBUG", "POPULATE", "40000", "other", "100"]);
    let load = Load::on(&outage.baler);
    load.more(40).await;
    let failed = "baler_ledger_writes_total{result=\"failed\"}";
    outage.baler.metric_reaches(failed, 1.0).await;
    outage.server.command(&["FLUSHALL"]);
    outage.until_open(false).await;
    load.more(10).await;
    let (requests, longest) = load.end().await;
    println!("full: {requests} requests, the longest waited {longest} ms");
    outage.until_open(false).await;
    assert!(outage.is_shared("after").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_it_starts_and_serves() {
    let Some(mut server) = Server::start() else {
        return;
    };
    server.kill();
    let secret = secret_file();
    let toml = toml(&server.url(), Some(secret.path()), "");
    let (upstream, _log) = Upstream::agreeable().await;
    let baler = Baler::start(&toml, upstream).await;
    let all = talk("table", 12, 60);
    let answer = baler.chat_with(&request(&all[..20]), &force("a")).await;
    assert_eq!((answer.status, answer.action()), (200, "compacted"));
    let answer = baler.chat_with(&request(&all[..22]), &key("a")).await;
    assert_eq!(answer.action(), "replayed", "by local memory");
    assert!(server.run());
    // What waited is written.
    baler.metric_ends("baler_ledger_writes_waiting").await;
    assert!(server.entries() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_asked_is_asked_with_the_next_request() {
    let Some(server) = Server::start() else {
        return;
    };
    let secret = secret_file();
    let toml = toml(&server.url(), Some(secret.path()), "").replace("\"2s\"", "\"200ms\"");
    let (upstream, log) = Upstream::agreeable().await;
    let (first, second) = (
        Baler::start(&toml, upstream).await,
        Baler::start(&toml, upstream).await,
    );
    let all = talk("table", 14, 60);
    let answer = first.chat_with(&request(&all[..20]), &force("a")).await;
    assert_eq!(answer.action(), "compacted");
    let sent = last(&log);
    first.metric_ends("baler_ledger_writes_waiting").await;
    server.signal("STOP");
    // One waits for the deadline, the other one does not.
    for end in [22, 24] {
        let answer = second.chat_with(&request(&all[..end]), &key("a")).await;
        assert_eq!(answer.action(), "none", "{end}");
    }
    server.signal("CONT");
    second.metric_ends("baler_ledger_breaker_open").await;
    let answer = second.chat_with(&request(&all[..26]), &key("a")).await;
    assert_eq!(answer.action(), "replayed");
    assert!(last(&log).starts_with(prefix(&sent)));
}
