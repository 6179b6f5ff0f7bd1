//! The tables of the file: entries, their turns to leave, and how much there is.

use ::redb::{ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::ledger::seal::{Header, StoreKey, now};

/// Stored bytes by key.
pub(super) const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");
/// The keys by the end of their lifetime, the first to go first.
const EXPIRY: TableDefinition<'_, &[u8], ()> = TableDefinition::new("expiry");
/// How much there is.
const TOTALS: TableDefinition<'_, &str, u64> = TableDefinition::new("totals");
const COUNT: &str = "entries";
const BYTES: &str = "bytes";

/// Expired entries that one commit takes out.
const MAX_EXPIRED: usize = 4_096;
/// Bytes that an entry takes besides its own: its key, twice, and its place in the trees.
const ENTRY_BYTES: u64 = 3 * StoreKey::LENGTH as u64;
/// Why the database does not do what it is asked.
pub(in crate::ledger) type Failed = Box<::redb::Error>;

pub(super) fn failed(error: impl Into<::redb::Error>) -> Failed {
    Box::new(error.into())
}

/// Gives the bytes of every entry to `each`.
pub(in crate::ledger) fn each(
    transaction: &ReadTransaction,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Failed> {
    let entries = match transaction.open_table(ENTRIES) {
        Ok(entries) => entries,
        Err(::redb::TableError::TableDoesNotExist(_)) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries.iter().map_err(failed)? {
        let (_, blob) = entry.map_err(failed)?;
        each(blob.value());
    }
    Ok(())
}

/// The tables of one transaction, and how much they hold.
pub(in crate::ledger) struct Tables<'t> {
    entries: Table<'t, &'static [u8], &'static [u8]>,
    expiry: Table<'t, &'static [u8], ()>,
    totals: Table<'t, &'static str, u64>,
    count: u64,
    bytes: u64,
}

impl<'t> Tables<'t> {
    pub(in crate::ledger) fn open(transaction: &'t WriteTransaction) -> Result<Self, Failed> {
        let totals = transaction.open_table(TOTALS).map_err(failed)?;
        let total = |name| {
            let total = totals.get(name).map_err(failed)?;
            Ok::<_, Failed>(total.map_or(0, |total| total.value()))
        };
        let (count, bytes) = (total(COUNT)?, total(BYTES)?);
        Ok(Tables {
            entries: transaction.open_table(ENTRIES).map_err(failed)?,
            expiry: transaction.open_table(EXPIRY).map_err(failed)?,
            totals,
            count,
            bytes,
        })
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
        let found = self.entries.get(key).map_err(failed)?;
        Ok(found.map(|bytes| bytes.value().to_vec()))
    }

    pub(super) fn insert(&mut self, key: &[u8], blob: &[u8]) -> Result<(), Failed> {
        self.entries.insert(key, blob).map_err(failed)?;
        let turn = turn(key, blob);
        self.expiry.insert(turn.as_slice(), ()).map_err(failed)?;
        self.count += 1;
        self.bytes += blob.len() as u64 + ENTRY_BYTES;
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), Failed> {
        let removed = self.entries.remove(key).map_err(failed)?;
        let Some(blob) = removed.map(|bytes| bytes.value().to_vec()) else {
            return Ok(());
        };
        let turn = turn(key, &blob);
        self.expiry.remove(turn.as_slice()).map_err(failed)?;
        self.count = self.count.saturating_sub(1);
        let bytes = blob.len() as u64 + ENTRY_BYTES;
        self.bytes = self.bytes.saturating_sub(bytes);
        Ok(())
    }

    /// The first to go: when, and its key.
    fn first(&self) -> Result<Option<(u64, Vec<u8>)>, Failed> {
        let first = self.expiry.first().map_err(failed)?;
        Ok(first.and_then(|(turn, _)| {
            let (expires, key) = turn.value().split_first_chunk::<8>()?;
            Some((u64::from_be_bytes(*expires), key.to_vec()))
        }))
    }

    fn pop(&mut self, key: &[u8]) -> Result<(), Failed> {
        let before = self.count;
        self.remove(key)?;
        if self.count == before {
            // A turn without its entry: it must not come first for ever.
            self.expiry.pop_first().map_err(failed)?;
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
        let (count, bytes) = (self.count, self.bytes);
        self.totals.insert(COUNT, count).map_err(failed)?;
        self.totals.insert(BYTES, bytes).map_err(failed)?;
        Ok((count, bytes))
    }
}

/// The key of an entry's turn to leave: when, and which.
fn turn(key: &[u8], blob: &[u8]) -> Vec<u8> {
    let expires = Header::of(blob).map_or(0, |header| header.expires);
    let mut turn = expires.to_be_bytes().to_vec();
    turn.extend_from_slice(key);
    turn
}
