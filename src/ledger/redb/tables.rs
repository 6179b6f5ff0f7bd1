//! The tables of the file: entries, their turns to leave, and how much there is.

use ::redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction,
};

use crate::ledger::seal::{Header, StoreKey, now};
use crate::ledger::store::Found;

/// Stored bytes by key, each with its number: entries are numbered as they come.
const ENTRIES: TableDefinition<'_, &[u8], (u64, &[u8])> = TableDefinition::new("entries");
/// The keys by the end of their lifetime and their number, the first to go first.
const TURNS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("turns");
/// How much there is.
const TOTALS: TableDefinition<'_, &str, u64> = TableDefinition::new("totals");
const COUNT: &str = "entries";
const BYTES: &str = "bytes";
const NEXT: &str = "next number";

/// Expired entries that one commit takes out.
const MAX_EXPIRED: usize = 4_096;
/// Bytes that an entry takes besides its own: its key, twice, and its place in the trees.
const ENTRY_BYTES: u64 = 3 * StoreKey::LENGTH as u64;
/// Why the database does not do what it is asked.
pub(in crate::ledger) type Failed = Box<::redb::Error>;

pub(super) fn failed(error: impl Into<::redb::Error>) -> Failed {
    Box::new(error.into())
}

/// The table of entries, to be read.
type Entries = ReadOnlyTable<&'static [u8], (u64, &'static [u8])>;

/// The entries of a transaction; `None` in a file that is new.
fn entries(transaction: &ReadTransaction) -> Result<Option<Entries>, Failed> {
    match transaction.open_table(ENTRIES) {
        Ok(entries) => Ok(Some(entries)),
        Err(::redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The bytes of these entries.
pub(super) fn read(transaction: &ReadTransaction, keys: &[StoreKey]) -> Result<Found, Failed> {
    let Some(entries) = entries(transaction)? else {
        return Ok(vec![None; keys.len()]);
    };
    let found = keys.iter().map(|key| {
        let found = entries.get(key.0.as_slice()).map_err(failed)?;
        Ok(found.map(|entry| entry.value().1.to_vec()))
    });
    found.collect()
}

/// Gives the bytes of every entry to `each`.
pub(in crate::ledger) fn each(
    transaction: &ReadTransaction,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Failed> {
    let Some(entries) = entries(transaction)? else {
        return Ok(());
    };
    for entry in entries.iter().map_err(failed)? {
        let (_, entry) = entry.map_err(failed)?;
        each(entry.value().1);
    }
    Ok(())
}

/// The tables of one transaction, and how much they hold.
pub(in crate::ledger) struct Tables<'t> {
    entries: Table<'t, &'static [u8], (u64, &'static [u8])>,
    turns: Table<'t, (u64, u64), &'static [u8]>,
    totals: Table<'t, &'static str, u64>,
    count: u64,
    bytes: u64,
    /// The number of the next entry.
    next: u64,
}

impl<'t> Tables<'t> {
    pub(in crate::ledger) fn open(transaction: &'t WriteTransaction) -> Result<Self, Failed> {
        let totals = transaction.open_table(TOTALS).map_err(failed)?;
        let total = |name| {
            let total = totals.get(name).map_err(failed)?;
            Ok::<_, Failed>(total.map_or(0, |total| total.value()))
        };
        let (count, bytes, next) = (total(COUNT)?, total(BYTES)?, total(NEXT)?);
        Ok(Tables {
            entries: transaction.open_table(ENTRIES).map_err(failed)?,
            turns: transaction.open_table(TURNS).map_err(failed)?,
            totals,
            count,
            bytes,
            next,
        })
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
        let found = self.entries.get(key).map_err(failed)?;
        Ok(found.map(|entry| entry.value().1.to_vec()))
    }

    pub(super) fn insert(&mut self, key: &[u8], blob: &[u8]) -> Result<(), Failed> {
        let number = self.next;
        self.entries.insert(key, (number, blob)).map_err(failed)?;
        let turn = (expires(blob), number);
        self.turns.insert(turn, key).map_err(failed)?;
        self.next += 1;
        self.count += 1;
        self.bytes += blob.len() as u64 + ENTRY_BYTES;
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), Failed> {
        let removed = self.entries.remove(key).map_err(failed)?;
        let removed = removed.map(|entry| {
            let (number, blob) = entry.value();
            ((expires(blob), number), blob.len() as u64)
        });
        let Some((turn, length)) = removed else {
            return Ok(());
        };
        self.turns.remove(turn).map_err(failed)?;
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(length + ENTRY_BYTES);
        Ok(())
    }

    /// The first to go: when, and its key.
    fn first(&self) -> Result<Option<(u64, Vec<u8>)>, Failed> {
        let first = self.turns.first().map_err(failed)?;
        Ok(first.map(|(turn, key)| (turn.value().0, key.value().to_vec())))
    }

    /// Takes out the first to go, whose key this is.
    fn pop(&mut self, key: &[u8]) -> Result<(), Failed> {
        let before = self.count;
        self.remove(key)?;
        if self.count == before {
            // A turn without its entry: it must not come first for ever.
            self.turns.pop_first().map_err(failed)?;
        }
        Ok(())
    }

    /// Takes out what is over its lifetime, as much as one commit should. Returns how many.
    pub(super) fn expire(&mut self) -> Result<u64, Failed> {
        let now = now();
        for expired in 0..MAX_EXPIRED {
            match self.first()? {
                Some((expires, key)) if expires <= now => self.pop(&key)?,
                _ => return Ok(expired as u64),
            }
        }
        Ok(MAX_EXPIRED as u64)
    }

    /// Takes out the oldest entries until they take at most `bytes`. Returns how many.
    pub(super) fn shrink(&mut self, bytes: u64) -> Result<u64, Failed> {
        let mut dropped = 0;
        while self.bytes > bytes {
            let Some((_, key)) = self.first()? else { break };
            self.pop(&key)?;
            dropped += 1;
        }
        Ok(dropped)
    }

    /// Takes out every entry whose key begins so. Returns how many.
    pub(in crate::ledger) fn purge(&mut self, label: &[u8]) -> Result<u64, Failed> {
        let mut purged = 0;
        loop {
            let next = {
                let mut range = self.entries.range(label..).map_err(failed)?;
                let next = range.next().transpose().map_err(failed)?;
                next.map(|(key, _)| key.value().to_vec())
                    .filter(|key| key.starts_with(label))
            };
            let Some(key) = next else { return Ok(purged) };
            self.remove(&key)?;
            purged += 1;
        }
    }

    /// Writes the totals down, and returns them.
    pub(in crate::ledger) fn save(mut self) -> Result<(u64, u64), Failed> {
        let (count, bytes, next) = (self.count, self.bytes, self.next);
        self.totals.insert(NEXT, next).map_err(failed)?;
        self.totals.insert(COUNT, count).map_err(failed)?;
        self.totals.insert(BYTES, bytes).map_err(failed)?;
        Ok((count, bytes))
    }
}

/// When an entry ends; at once for bytes that are none.
fn expires(blob: &[u8]) -> u64 {
    Header::of(blob).map_or(0, |header| header.expires)
}
