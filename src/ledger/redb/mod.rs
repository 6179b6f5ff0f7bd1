//! The store in a file: redb, an embedded database whose commits are atomic. A process that is
//! killed leaves the last commit, never half of an entry.
//!
//! One thread reads and one writes. Other processes may have the file open as well: the one that is
//! being replaced, and `baler ledger`.

mod tables;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::redb::backends::FileBackend;
use ::redb::{ConcurrencyMode, Database, DatabaseError, ReadableDatabase, StorageError};

use crate::ledger::redb::tables::{Failed, failed};
use crate::ledger::seal::{Header, StoreKey, now};
use crate::ledger::store::{Ask, Found, Landing, NewEntry, Queues, Write};
use crate::observe::event::{
    EvictionReason, LedgerError, LedgerEvicted, LedgerSetAside, LedgerSize, StoreKind,
    StoreOperation, WriteResult,
};

/// Part of the file that entries may take. The rest is for pages that are not full, for those of
/// the commits before, and for the trees.
const SHARE: u64 = 4;
/// Bytes of entries in one commit, at most, and their part of those in the file: what a commit
/// replaces is there until the next ones.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH_SHARE: u64 = 16;
/// Memory for pages.
const CACHE_BYTES: usize = 16 << 20;
/// Writes of one commit.
const BATCH: usize = 512;
/// Time between two attempts to open a file that failed.
const RETRY: Duration = Duration::from_secs(1);

pub(super) use tables::{Tables, each};

/// The file of a store.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub path: PathBuf,
    /// The most that it takes.
    pub max_bytes: u64,
}

/// The database, as long as it works.
#[derive(Clone, Default)]
struct Shared {
    database: Arc<Mutex<Option<Arc<Database>>>>,
    /// A look-up found the file damaged: the writer is to set it aside.
    is_damaged: Arc<AtomicBool>,
}

impl Shared {
    /// The open database.
    fn current(&self) -> Option<Arc<Database>> {
        self.lock().clone()
    }

    fn set(&self, database: Option<Arc<Database>>) {
        *self.lock() = database;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Database>>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the file and starts the threads.
///
/// # Errors
/// When the file cannot be opened for another reason than what is in it.
pub(super) fn start(file: File, landing: Landing, queues: Queues) -> io::Result<()> {
    let database = open(&file, &landing)?;
    let shared = Shared::default();
    shared.set(Some(Arc::new(database)));
    let Queues { mut asks, writes } = queues;
    let (reading, breaker) = (shared.clone(), Arc::clone(&landing.breaker));
    std::thread::Builder::new()
        .name("ledger-reader".to_owned())
        .spawn(move || {
            while let Some(ask) = asks.blocking_recv() {
                answer(&reading, ask);
            }
        })?;
    let writer = Writer {
        file,
        landing,
        shared,
        breaker,
        size: (0, 0),
    };
    std::thread::Builder::new()
        .name("ledger-writer".to_owned())
        .spawn(move || writer.run(writes))?;
    Ok(())
}

fn answer(shared: &Shared, ask: Ask) {
    match ask {
        Ask::Fetch(keys, reply) => {
            let database = shared.current().ok_or(LedgerError::Unreachable);
            let found = database.and_then(|database| {
                // INVARIANT: a damaged file may make redb panic; that costs this look-up.
                let read = catch_unwind(AssertUnwindSafe(|| read(&database, &keys)));
                match read {
                    Ok(Ok(found)) => Ok(found),
                    Ok(Err(error)) if is_damage(&error) => Err(LedgerError::Corrupt),
                    Ok(Err(_)) => Err(LedgerError::Io),
                    Err(_) => Err(LedgerError::Corrupt),
                }
            });
            if matches!(found, Err(LedgerError::Corrupt)) {
                shared.is_damaged.store(true, Ordering::Relaxed);
            }
            let _ = reply.send(found);
        }
        // One process has the summaries of its own; the one that it replaces is draining.
        Ask::Lease(_, _, reply) => drop(reply.send(Ok(true))),
        Ask::Release(_) => {}
    }
}

fn read(database: &Database, keys: &[StoreKey]) -> Result<Found, Failed> {
    let transaction = database.begin_read().map_err(failed)?;
    tables::read(&transaction, keys)
}

/// Whether the file itself is at fault.
fn is_damage(error: &::redb::Error) -> bool {
    use ::redb::Error;
    match error {
        Error::Corrupted(_) | Error::RepairAborted | Error::UpgradeRequired(_) => true,
        Error::TableTypeMismatch { .. } | Error::TypeDefinitionChanged { .. } => true,
        Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
        ),
        _ => false,
    }
}

/// Opens the file. One that is damaged is set aside, and a fresh one begun.
fn open(file: &File, landing: &Landing) -> io::Result<Database> {
    let mut attempt = attempt_to_open(&file.path);
    if attempt.as_ref().is_err_and(|error| is_damage(error)) {
        let aside = set_aside(&file.path)?;
        LedgerSetAside {
            file: &file.path,
            aside: &aside,
        }
        .emit(&landing.metrics);
        attempt = attempt_to_open(&file.path);
    }
    attempt.map_err(|error| {
        let path = file.path.display();
        io::Error::other(format!(
            "the ledger's file {path} cannot be opened: {error}"
        ))
    })
}

pub(super) fn attempt_to_open(path: &Path) -> Result<Database, Failed> {
    let opening = || {
        let mut builder = Database::builder();
        builder
            .set_cache_size(CACHE_BYTES)
            .set_concurrency_mode(ConcurrencyMode::MultiWriter);
        builder.create_with_backend(FileBackend::new(private_file(path)?)?)
    };
    // INVARIANT: bytes that are no database may make redb panic; they are damage like any other.
    let damaged = || StorageError::Corrupted("redb gave up".to_owned()).into();
    let opened: Result<Database, DatabaseError> =
        catch_unwind(AssertUnwindSafe(opening)).unwrap_or_else(|_| Err(damaged()));
    opened.map_err(failed)
}

/// Opens a file that only its owner may read, or makes it.
fn private_file(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Gives the file another name: `….corrupt-<seconds since the epoch>`.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".corrupt-{}", now()));
    let aside = PathBuf::from(name);
    std::fs::rename(path, &aside)?;
    Ok(aside)
}

/// Bytes that entries may take in a file of at most so many. redb doubles a file that is full, so
/// that its length is a power of two and a little for bookkeeping.
fn entry_bytes(max_bytes: u64) -> u64 {
    let mut length = 1 << 20;
    while 2 * length + length / 64 <= max_bytes {
        length *= 2;
    }
    length / SHARE
}

/// The thread that writes.
struct Writer {
    file: File,
    landing: Landing,
    shared: Shared,
    breaker: Arc<crate::ledger::breaker::Breaker>,
    /// Entries and their bytes.
    size: (u64, u64),
}

impl Writer {
    fn run(mut self, mut writes: tokio::sync::mpsc::Receiver<Write>) {
        self.commit(&[]);
        while let Some(first) = writes.blocking_recv() {
            let (mut batch, mut waiting) = (Vec::new(), Vec::new());
            let (mut bytes, mut next) = (0, Some(first));
            let most_bytes = BATCH_BYTES.min(entry_bytes(self.file.max_bytes) / BATCH_SHARE);
            while let Some(write) = next {
                match write {
                    Write::Entry(new) => {
                        self.landing.left_queue(&new);
                        bytes += new.entry.weight_bytes() as u64;
                        batch.push(new);
                    }
                    Write::Flush(reply) => waiting.push(reply),
                }
                next = (batch.len() < BATCH && bytes < most_bytes)
                    .then(|| writes.try_recv().ok())
                    .flatten();
            }
            if !batch.is_empty() {
                self.commit(&batch);
            }
            for reply in waiting {
                let _ = reply.send(());
            }
        }
    }

    /// Writes a batch, in one commit.
    fn commit(&mut self, batch: &[NewEntry]) {
        let began = Instant::now();
        if self.shared.is_damaged.swap(false, Ordering::Relaxed) {
            self.give_up(true);
        }
        let database = self.shared.current();
        let Some(database) = database.or_else(|| self.reopen(Duration::ZERO)) else {
            self.landing
                .written(WriteResult::Failed, batch.len() as u64);
            return;
        };
        // INVARIANT: a panic drops the transaction, which leaves the commit before.
        let done = catch_unwind(AssertUnwindSafe(|| self.write(&database, batch)));
        let error = match done {
            Ok(Ok(size)) => {
                self.size = size;
                self.breaker.close();
                self.landing.timed(StoreOperation::Write, began);
                self.measure();
                return;
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        let is_damaged = error.is_none_or(|error| is_damage(&error));
        self.landing.failed(if is_damaged {
            LedgerError::Corrupt
        } else {
            LedgerError::Io
        });
        self.landing
            .written(WriteResult::Failed, batch.len() as u64);
        drop(database);
        self.give_up(is_damaged);
        self.reopen(RETRY);
    }

    /// Closes the file; one that is damaged is set aside.
    fn give_up(&self, is_damaged: bool) {
        self.breaker.open();
        self.shared.set(None);
        if is_damaged && let Ok(aside) = set_aside(&self.file.path) {
            LedgerSetAside {
                file: &self.file.path,
                aside: &aside,
            }
            .emit(&self.landing.metrics);
        }
    }

    /// Opens the file again, after a pause.
    fn reopen(&self, pause: Duration) -> Option<Arc<Database>> {
        std::thread::sleep(pause);
        let database = Arc::new(open(&self.file, &self.landing).ok()?);
        self.shared.set(Some(Arc::clone(&database)));
        self.breaker.close();
        Some(database)
    }

    fn measure(&self) {
        let file = std::fs::metadata(&self.file.path);
        LedgerSize {
            store: StoreKind::Redb,
            entries: self.size.0,
            bytes: file.map_or(self.size.1, |file| file.len()),
        }
        .emit(&self.landing.metrics);
    }

    /// Writes a batch; the number of entries and their bytes afterwards.
    fn write(&self, database: &Database, batch: &[NewEntry]) -> Result<(u64, u64), Failed> {
        let transaction = database.begin_write().map_err(failed)?;
        let mut lost = Vec::new();
        let size = {
            let mut tables = Tables::open(&transaction)?;
            for new in batch {
                lost.extend(self.put(&mut tables, new)?);
            }
            let expired = tables.expire()?;
            let dropped = tables.shrink(entry_bytes(self.file.max_bytes))?;
            self.evicted(EvictionReason::Lifetime, expired);
            self.evicted(EvictionReason::Size, dropped);
            tables.save()?
        };
        transaction.commit().map_err(failed)?;
        let (all, lost_count) = (batch.len() as u64, lost.len() as u64);
        self.landing.written(WriteResult::Written, all - lost_count);
        self.landing.written(WriteResult::Lost, lost_count);
        for (new, winner) in lost {
            let wanted = (new.entry.kind(), new.id);
            self.landing.land(&new.scope, wanted, &winner);
        }
        Ok(size)
    }

    /// Puts an entry into the tables; another process's that was there first stays, and is
    /// returned.
    fn put<'n>(
        &self,
        tables: &mut Tables<'_>,
        new: &'n NewEntry,
    ) -> Result<Option<(&'n NewEntry, Vec<u8>)>, Failed> {
        let Some(sealed) = self.landing.seal(new) else {
            return Ok(None);
        };
        let key = sealed.key.0.as_slice();
        if let Some(old) = tables.get(key)? {
            let header = Header::of(&old);
            let stays = header
                .is_ok_and(|header| header.generation >= new.generation && header.expires > now());
            if stays && new.entry.kind().first_wins() {
                return Ok(Some((new, old)));
            }
            tables.remove(key)?;
        }
        tables.insert(key, &sealed.blob)?;
        Ok(None)
    }

    fn evicted(&self, reason: EvictionReason, entries: u64) {
        LedgerEvicted {
            store: StoreKind::Redb,
            reason,
            entries,
        }
        .emit(&self.landing.metrics);
    }
}
