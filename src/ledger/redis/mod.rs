//! The store on a server: Redis, Valkey, and whatever speaks their protocol; alone, watched by
//! sentinels, or as a cluster.
//!
//! One thread has an event loop of its own with the connection. It connects again whenever the
//! connection breaks; meanwhile writes wait in their queue, and requests go on without the store.

mod connect;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::redis::{Cmd, FromRedisValue, RedisError, RedisResult, Value, cmd};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc, watch};

use crate::ledger::redis::connect::TIMEOUT;
use crate::ledger::seal::{Sealed, StoreKey, VERSION};
use crate::ledger::store::{Ask, Found, Landing, NewEntry, Queues, Write};
use crate::observe::event::{
    LedgerError, LedgerSize, LedgerUnreachable, StoreKind, StoreOperation, WriteResult,
};

pub(super) use connect::{Connection, Servers};

/// Time that the start waits for the first connection.
const FIRST: Duration = Duration::from_secs(2);
/// Time between two looks at a store that failed.
const PROBE: Duration = Duration::from_millis(500);
/// Time between two attempts to connect, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Time between two counts of what the server holds.
const COUNT: Duration = Duration::from_secs(15);
/// Writes that are under way at a time.
const BATCH: usize = 64;

/// Puts an entry in the place of an older generation of it; another one of the same or a later
/// generation stays, and is returned. The third byte of an entry is its generation.
const REPLACE: &str = "local known = redis.call('GET', KEYS[1]) \
    if known and string.byte(known, 3) >= tonumber(ARGV[2]) then return known end \
    redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3]) \
    return false";
/// Gives a lease back that is still this process's.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Starts the thread, and waits a little for its first connection.
///
/// # Errors
/// When the system has no thread to give.
pub(super) fn start(servers: Servers, landing: Landing, queues: Queues) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (ready, first) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("ledger".to_owned())
        .spawn(move || runtime.block_on(run(servers, landing, queues, ready)))?;
    // With or without: the breaker tells, and requests go on.
    let _ = first.recv_timeout(FIRST);
    Ok(())
}

async fn run(
    servers: Servers,
    landing: Landing,
    queues: Queues,
    ready: std::sync::mpsc::Sender<()>,
) {
    let (connected, connection) = watch::channel(None);
    let trouble = Arc::new(Notify::new());
    let shared = Shared {
        landing,
        connection,
        trouble,
        token: crate::random::id(),
    };
    let Queues { asks, writes } = queues;
    tokio::spawn(shared.clone().stay_connected(servers, connected, ready));
    let writing = tokio::spawn(shared.clone().write_all(writes));
    shared.answer_all(asks).await;
    // The queues are closed: what still waits is written, or nobody can tell of it any more.
    let _ = tokio::time::timeout(TIMEOUT, writing).await;
}

/// What the tasks of the thread share.
#[derive(Clone)]
struct Shared {
    landing: Landing,
    connection: watch::Receiver<Option<Connection>>,
    /// Something failed: the connection is to be looked at.
    trouble: Arc<Notify>,
    /// Tells the leases of this process from those of others.
    token: String,
}

impl Shared {
    fn current(&self) -> Option<Connection> {
        self.connection.borrow().clone()
    }

    /// Connects, and again whenever the connection broke.
    async fn stay_connected(
        self,
        servers: Servers,
        connected: watch::Sender<Option<Connection>>,
        ready: std::sync::mpsc::Sender<()>,
    ) {
        let mut pause = BACKOFF.0;
        let mut is_told = false;
        loop {
            match servers.connect().await {
                Ok(connection) => {
                    connected.send_replace(Some(connection.clone()));
                    self.landing.breaker.close();
                    let _ = ready.send(());
                    (pause, is_told) = (BACKOFF.0, false);
                    self.watch(connection).await;
                    connected.send_replace(None);
                    self.landing.breaker.open();
                }
                Err(error) => {
                    self.landing.breaker.open();
                    self.landing.failed(LedgerError::Unreachable);
                    let _ = ready.send(());
                    if !std::mem::replace(&mut is_told, true) {
                        LedgerUnreachable {
                            category: error.category(),
                            code: error.code(),
                        }
                        .emit();
                    }
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(BACKOFF.1);
                }
            }
        }
    }

    /// Looks after a connection until it is broken.
    async fn watch(&self, mut connection: Connection) {
        let mut count = tokio::time::interval(COUNT);
        loop {
            tokio::select! {
                () = self.trouble.notified() => {}
                () = tokio::time::sleep(PROBE) => {}
                _ = count.tick() => self.measure(&mut connection).await,
            }
            if !self.landing.breaker.is_open() {
                continue;
            }
            let mut ping = cmd("SET");
            // A server that was made a replica answers, and takes no writes.
            let probe = format!("baler:{VERSION}:probe");
            ping.arg(probe).arg("").arg("PX").arg(1);
            let answer = tokio::time::timeout(TIMEOUT, connection.ask::<Value>(&ping)).await;
            match answer {
                Ok(Ok(_)) => self.landing.breaker.close(),
                Ok(Err(error)) if is_busy(&error) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    async fn measure(&self, connection: &mut Connection) {
        let counted = async {
            let entries: u64 = connection.ask(&cmd("DBSIZE")).await?;
            let mut info = cmd("INFO");
            let memory: Value = connection.ask(info.arg("memory")).await?;
            RedisResult::Ok((entries, used_memory(&memory)))
        };
        // A user without the right to ask has no such figures.
        if let Ok(Ok((entries, bytes))) = tokio::time::timeout(TIMEOUT, counted).await {
            LedgerSize {
                store: StoreKind::Redis,
                entries,
                bytes,
            }
            .emit(&self.landing.metrics);
        }
    }

    async fn answer_all(&self, mut asks: mpsc::Receiver<Ask>) {
        while let Some(ask) = asks.recv().await {
            let (shared, connection) = (self.clone(), self.current());
            // Bounded by the breaker: once one of them fails, no more are asked.
            tokio::spawn(async move { shared.answer(ask, connection).await });
        }
    }

    async fn answer(&self, ask: Ask, connection: Option<Connection>) {
        match ask {
            Ask::Fetch(keys, reply) => {
                let _ = reply.send(self.fetch(connection, keys).await);
            }
            Ask::Lease(key, lifetime, reply) => {
                let milliseconds = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
                let mut set = cmd("SET");
                set.arg(lease_name(&key)).arg(&self.token);
                set.arg("NX").arg("PX").arg(milliseconds.max(1));
                let answer: Result<Option<String>, _> = self.command(connection, &set).await;
                let _ = reply.send(answer.map(|granted| granted.is_some()));
            }
            Ask::Release(key) => {
                let mut release = cmd("EVAL");
                release.arg(RELEASE).arg(1).arg(lease_name(&key));
                release.arg(&self.token);
                let _: Result<Value, _> = self.command(connection, &release).await;
            }
        }
    }

    /// All of these entries, in one round trip. A cluster has those of a group on one server, and
    /// gets a command for each group, all at once.
    async fn fetch(
        &self,
        connection: Option<Connection>,
        keys: Vec<StoreKey>,
    ) -> Result<Found, LedgerError> {
        let is_cluster = matches!(connection, Some(Connection::Cluster(_)));
        let of_one_server =
            |one: &StoreKey, other: &StoreKey| !is_cluster || one.parts().1 == other.parts().1;
        let groups = keys.chunk_by(of_one_server).map(|group| {
            let mut get = cmd("MGET");
            for key in group {
                get.arg(name(key));
            }
            let connection = connection.clone();
            async move { self.command::<Found>(connection, &get).await }
        });
        let mut found = Found::with_capacity(keys.len());
        for part in join_all(groups).await {
            found.extend(part?);
        }
        Ok(found)
    }

    async fn command<T: FromRedisValue>(
        &self,
        connection: Option<Connection>,
        command: &Cmd,
    ) -> Result<T, LedgerError> {
        let mut connection = connection.ok_or(LedgerError::Unreachable)?;
        connection.ask(command).await.map_err(|error| {
            self.trouble.notify_one();
            kind_of(&error)
        })
    }

    /// Writes what the queue holds, while there is a connection.
    async fn write_all(mut self, mut writes: mpsc::Receiver<Write>) {
        while let Some(first) = writes.recv().await {
            let (mut batch, mut waiting) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(write) = next {
                match write {
                    Write::Entry(new) => batch.push(new),
                    Write::Flush(reply) => waiting.push(reply),
                }
                next = (batch.len() < BATCH)
                    .then(|| writes.try_recv().ok())
                    .flatten();
            }
            let connection = match self.connection.wait_for(Option::is_some).await {
                Ok(connection) => connection.clone(),
                Err(_) => return,
            };
            if let Some(connection) = connection {
                let began = Instant::now();
                let writing = batch.iter().map(|new| self.write(connection.clone(), new));
                join_all(writing).await;
                self.landing.timed(StoreOperation::Write, began);
            }
            for reply in waiting {
                let _ = reply.send(());
            }
        }
    }

    async fn write(&self, mut connection: Connection, new: &NewEntry) {
        self.landing.left_queue(new);
        let Some(sealed) = self.landing.seal(new) else {
            self.landing.written(WriteResult::Failed, 1);
            return;
        };
        let first_wins = new.entry.kind().first_wins();
        let lifetime = self.landing.lifetime.as_secs();
        let result = match put(&mut connection, &sealed, new, lifetime).await {
            Ok(Some(winner)) if first_wins => {
                let wanted = (new.entry.kind(), new.id);
                self.landing.land(&new.scope, wanted, &winner);
                WriteResult::Lost
            }
            Ok(_) => WriteResult::Written,
            Err(error) => {
                self.landing.failed(kind_of(&error));
                // One that has no room still answers.
                if !is_busy(&error) {
                    self.landing.breaker.open();
                    self.trouble.notify_one();
                }
                WriteResult::Failed
            }
        };
        self.landing.written(result, 1);
    }
}

/// Writes an entry; one that was there first stays, and is returned.
async fn put(
    connection: &mut Connection,
    sealed: &Sealed,
    new: &NewEntry,
    lifetime: u64,
) -> RedisResult<Option<Vec<u8>>> {
    let key = name(&sealed.key);
    if new.entry.kind().first_wins() && new.generation > 0 {
        let mut replace = cmd("EVAL");
        replace.arg(REPLACE).arg(1).arg(&key).arg(&sealed.blob);
        replace.arg(new.generation).arg(lifetime);
        return connection.ask(&replace).await;
    }
    let mut set = cmd("SET");
    set.arg(&key).arg(&sealed.blob).arg("EX").arg(lifetime);
    if !new.entry.kind().first_wins() {
        let _: Value = connection.ask(&set).await?;
        return Ok(None);
    }
    let written: Option<String> = connection.ask(set.arg("NX")).await?;
    match written {
        Some(_) => Ok(None),
        None => connection.ask(cmd("GET").arg(&key)).await,
    }
}

/// The pattern of the names of all entries, or of those of one tenant.
pub(super) fn pattern(label: Option<&[u8]>) -> String {
    match label {
        None => format!("baler:{VERSION}:*"),
        Some(label) => format!("baler:{VERSION}:{}:*", URL_SAFE_NO_PAD.encode(label)),
    }
}

/// The name of an entry. A cluster keeps names with the same text in braces on one server.
fn name(key: &StoreKey) -> String {
    let (label, group, digest) = key.parts();
    let [label, group, digest] = [label, group, digest].map(|part| URL_SAFE_NO_PAD.encode(part));
    format!("baler:{VERSION}:{label}:{{{group}}}:{digest}")
}

/// The name of the lease for making an entry.
fn lease_name(key: &StoreKey) -> String {
    format!("{}:lease", name(key))
}

/// Whether a server is there and will do it later.
fn is_busy(error: &RedisError) -> bool {
    matches!(error.code(), Some("OOM" | "BUSY" | "LOADING"))
}

fn kind_of(error: &RedisError) -> LedgerError {
    if error.is_timeout() {
        LedgerError::Timeout
    } else if error.is_connection_refusal() || error.is_connection_dropped() {
        LedgerError::Unreachable
    } else if error.is_io_error() {
        LedgerError::Io
    } else {
        LedgerError::Refused
    }
}

/// The memory that servers say they use, in all.
fn used_memory(info: &Value) -> u64 {
    let of_text = |text: &str| {
        let mut lines = text.lines();
        let used = lines.find_map(|line| line.strip_prefix("used_memory:"));
        used.and_then(|used| used.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    match info {
        Value::BulkString(bytes) => of_text(&String::from_utf8_lossy(bytes)),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => of_text(text),
        Value::Array(values) => values.iter().map(used_memory).sum(),
        Value::Map(pairs) => pairs.iter().map(|(_, value)| used_memory(value)).sum(),
        _ => 0,
    }
}
