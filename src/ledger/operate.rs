//! What operators do with a store, whether or not a Baler uses it: look at how much it holds, and
//! take out what belongs to a tenant, or everything.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ::redb::ReadableDatabase;
use ::redis::{FromRedisValue, RedisError, Value, cmd};
use futures_util::future::try_join_all;

use crate::config;
use crate::config::{RedisServers, StoreUrl, Topology};
use crate::core::conversation::Fingerprint;
use crate::ledger::entry::Kind;
use crate::ledger::redis::{Connection, Servers, pattern};
use crate::ledger::seal::Header;
use crate::ledger::{Secrets, redb, secret};

/// Names that a server is asked for at a time.
const PAGE: usize = 1_000;

/// How much a store holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Bytes of all entries, keys aside.
    pub bytes: u64,
    /// Bytes of the file, where there is one.
    pub file_bytes: Option<u64>,
}

impl Stats {
    /// Entries of all kinds.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.kinds.values().sum()
    }

    fn count(&mut self, blob: &[u8], bytes: u64) {
        let kind = Header::of(blob)
            .ok()
            .and_then(|header| Kind::of(header.kind));
        let name = match kind {
            Some(Kind::Checkpoint) => "checkpoints",
            Some(Kind::Summary) => "summaries",
            Some(Kind::Usage) => "usage",
            Some(Kind::Evidence) => "evidence",
            Some(Kind::Window) => "windows",
            Some(Kind::Calibration) => "calibrations",
            Some(Kind::Ungated) => "models with short compacted requests",
            None => "entries of another version",
        };
        *self.kinds.entry(name).or_default() += 1;
        self.bytes += bytes;
    }
}

/// The keys that follow from the secret of a store.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn secrets(config: &config::Ledger) -> io::Result<Secrets> {
    match (&config.secret, &config.store) {
        (Some(secret), _) => Ok(Secrets::new(secret.0.as_bytes())),
        (None, StoreUrl::Redb(path)) => {
            must_exist(&secret::beside(path))?;
            secret::of_file(config, path)
        }
        (None, _) => Err(io::Error::other("the ledger has no secret")),
    }
}

/// How much a store holds; `None` for the memory of a process, which nobody else sees.
///
/// # Errors
/// When the store cannot be read.
pub fn stats(config: &config::Ledger) -> io::Result<Option<Stats>> {
    match &config.store {
        StoreUrl::Memory => Ok(None),
        StoreUrl::Redb(path) => stats_of_file(path).map(Some),
        StoreUrl::Redis(servers) => {
            let counting = async {
                let mut stats = Stats::default();
                for mut node in nodes(servers, config.ca.as_deref()).await? {
                    count(&mut node, &mut stats).await?;
                }
                Ok(stats)
            };
            block_on(counting).map(Some)
        }
    }
}

/// Takes out every entry, or every entry of one tenant. Returns how many.
///
/// # Errors
/// When the store cannot be read or written.
pub fn purge(
    config: &config::Ledger,
    tenant: Option<(&Secrets, &Fingerprint)>,
) -> io::Result<Option<u64>> {
    let label = tenant.map(|(secrets, tenant)| secrets.label(tenant));
    let label = label.as_ref().map(<[u8; 16]>::as_slice);
    match &config.store {
        StoreUrl::Memory => Ok(None),
        StoreUrl::Redb(path) => purge_file(path, label.unwrap_or_default()).map(Some),
        StoreUrl::Redis(servers) => {
            let purging = async {
                let mut purged = 0;
                for mut node in nodes(servers, config.ca.as_deref()).await? {
                    purged += purge_node(&mut node, label).await?;
                }
                Ok(purged)
            };
            block_on(purging).map(Some)
        }
    }
}

fn must_exist(path: &Path) -> io::Result<()> {
    std::fs::metadata(path)
        .map(drop)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn stats_of_file(path: &Path) -> io::Result<Stats> {
    must_exist(path)?;
    let database = redb::attempt_to_open(path).map_err(io::Error::other)?;
    let transaction = database.begin_read().map_err(io::Error::other)?;
    let mut stats = Stats {
        file_bytes: Some(std::fs::metadata(path)?.len()),
        ..Stats::default()
    };
    redb::each(&transaction, |blob| stats.count(blob, blob.len() as u64))
        .map_err(io::Error::other)?;
    Ok(stats)
}

fn purge_file(path: &Path, label: &[u8]) -> io::Result<u64> {
    must_exist(path)?;
    let database = redb::attempt_to_open(path).map_err(io::Error::other)?;
    let transaction = database.begin_write().map_err(io::Error::other)?;
    let purged = {
        let mut tables = redb::Tables::open(&transaction).map_err(io::Error::other)?;
        let purged = tables.purge(label).map_err(io::Error::other)?;
        tables.save().map_err(io::Error::other)?;
        purged
    };
    transaction.commit().map_err(io::Error::other)?;
    Ok(purged)
}

/// A failure without what the server said: it may quote names.
fn told(error: &RedisError) -> io::Error {
    let code = error.code().unwrap_or_default();
    io::Error::other(format!("the store fails: {} {code}", error.category()))
}

fn block_on<T>(task: impl Future<Output = Result<T, RedisError>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(task).map_err(|error| told(&error))
}

/// A connection to each server that has entries of its own.
async fn nodes(servers: &RedisServers, ca: Option<&[u8]>) -> Result<Vec<Connection>, RedisError> {
    let connect = async |servers: RedisServers| {
        let ca = ca.map(<[u8]>::to_vec);
        Servers { servers, ca }.connect().await
    };
    if servers.topology != Topology::Cluster {
        return Ok(vec![connect(servers.clone()).await?]);
    }
    let mut any = None;
    let mut failed = None;
    let single = |node: (String, u16)| RedisServers {
        topology: Topology::Single,
        nodes: vec![node],
        ..servers.clone()
    };
    for node in &servers.nodes {
        match connect(single(node.clone())).await {
            Ok(connection) => {
                any = Some(connection);
                break;
            }
            Err(error) => failed = Some(error),
        }
    }
    let Some(mut any) = any else {
        let none = (::redis::ErrorKind::InvalidClientConfig, "no host");
        return Err(failed.unwrap_or_else(|| none.into()));
    };
    let list: String = any.ask(cmd("CLUSTER").arg("NODES")).await?;
    let mut connections = Vec::new();
    for node in list.lines().filter_map(master) {
        connections.push(connect(single(node)).await?);
    }
    Ok(connections)
}

/// The address of a master, in a line of `CLUSTER NODES`.
fn master(line: &str) -> Option<(String, u16)> {
    let mut words = line.split(' ').skip(1);
    let (address, flags) = (words.next()?, words.next()?);
    if !flags.split(',').any(|flag| flag == "master") {
        return None;
    }
    let (host, port) = address.split('@').next()?.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// Names on one server, page by page, each given to `each`.
async fn pages<F>(
    node: &mut Connection,
    label: Option<&[u8]>,
    mut each: F,
) -> Result<(), RedisError>
where
    F: AsyncFnMut(&mut Connection, Vec<Vec<u8>>) -> Result<(), RedisError>,
{
    let mut cursor: u64 = 0;
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern(label));
        scan.arg("COUNT").arg(PAGE);
        let answer: Value = node.ask(&scan).await?;
        let (next, names) = <(u64, Vec<Vec<u8>>)>::from_redis_value(answer)?;
        if !names.is_empty() {
            each(node, names).await?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

async fn count(node: &mut Connection, stats: &mut Stats) -> Result<(), RedisError> {
    pages(node, None, async |node, names| {
        let of_name = |name: Vec<u8>| {
            let mut node = node.clone();
            async move {
                let length: u64 = node.ask(cmd("STRLEN").arg(&name)).await?;
                let mut range = cmd("GETRANGE");
                let head: Vec<u8> = node.ask(range.arg(&name).arg(0).arg(15)).await?;
                Ok::<_, RedisError>((head, length))
            }
        };
        for (head, length) in try_join_all(names.into_iter().map(of_name)).await? {
            stats.count(&head, length);
        }
        Ok(())
    })
    .await
}

async fn purge_node(node: &mut Connection, label: Option<&[u8]>) -> Result<u64, RedisError> {
    let mut purged = 0;
    pages(node, label, async |node, names| {
        // One by one: in a cluster they belong to different slots.
        let unlink = |name: Vec<u8>| {
            let mut node = node.clone();
            async move { node.ask::<u64>(cmd("UNLINK").arg(name)).await }
        };
        let done = try_join_all(names.into_iter().map(unlink)).await?;
        purged += done.into_iter().sum::<u64>();
        Ok(())
    })
    .await?;
    Ok(purged)
}
