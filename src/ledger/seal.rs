//! Keys of stored entries, and their sealing.
//!
//! INVARIANT: a store holds nothing that can be read without the tenant's credentials. Keys are
//! keyed hashes; the content is sealed by a key that is derived from the ledger's secret, the
//! tenant's credentials and the entry's own key.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use crate::core::conversation::Fingerprint;
use crate::ledger::entry::{Entry, Kind};

/// The version of everything that is stored. It enters the keys, so that two versions live side by
/// side in one store, and is the first byte of each entry.
pub(super) const VERSION: u8 = 1;

/// Whose entry it is, and the group of entries that are looked up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Fingerprint of the credentials.
    pub tenant: Fingerprint,
    /// What all entries of a conversation, or of a model, have in common: a cluster keeps a group
    /// on one server, so that one round trip finds all of them.
    pub group: Fingerprint,
}

const LABEL: usize = 16;
const GROUP: usize = 8;
const DIGEST: usize = 32;

/// The key of an entry in a store: the tenant's label, the group, and the digest of kind, tenant
/// and the entry's own fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StoreKey(pub(super) [u8; StoreKey::LENGTH]);

impl StoreKey {
    pub(super) const LENGTH: usize = LABEL + GROUP + DIGEST;

    /// The label of its tenant, its group and its digest.
    pub(super) fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        let (label, rest) = self.0.split_at(LABEL);
        let (group, digest) = rest.split_at(GROUP);
        (label, group, digest)
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreKey")
    }
}

/// The keys that follow from the ledger's secret.
pub struct Secrets {
    tenant: [u8; 32],
    label: [u8; 32],
    group: [u8; 32],
    id: [u8; 32],
    sealing: Salt,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Why stored bytes are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// Written by another version of Baler.
    Version,
    /// Not sealed by this tenant with this secret for this key, or damaged.
    Sealed,
    /// Its lifetime is over.
    Expired,
}

/// An entry with everything that stands in the clear around it.
#[derive(Debug, Clone)]
pub(super) struct Sealed {
    pub key: StoreKey,
    pub blob: Vec<u8>,
}

/// Bytes before the nonce: version, kind, generation, and the end of the lifetime in seconds.
const HEADER: usize = 11;

/// The header of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: u8,
    /// Of entries that are never changed: how often one took the place of another.
    pub generation: u8,
    /// Seconds since the epoch.
    pub expires: u64,
}

impl Header {
    /// The header of stored bytes.
    pub(super) fn of(blob: &[u8]) -> Result<Self, Unusable> {
        let Some(([version, kind, generation], rest)) = blob.split_first_chunk::<3>() else {
            return Err(Unusable::Sealed);
        };
        if *version != VERSION {
            return Err(Unusable::Version);
        }
        let expires = rest.first_chunk::<8>().ok_or(Unusable::Sealed)?;
        Ok(Header {
            kind: *kind,
            generation: *generation,
            expires: u64::from_le_bytes(*expires),
        })
    }

    fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let (first, expires) = bytes.split_at_mut(3);
        first.copy_from_slice(&[VERSION, self.kind, self.generation]);
        expires.copy_from_slice(&self.expires.to_le_bytes());
        bytes
    }
}

impl Secrets {
    /// The keys that follow from a secret.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        let key = |purpose: &str| blake3::derive_key(purpose, secret);
        Secrets {
            tenant: key("baler ledger 1 tenants"),
            label: key("baler ledger 1 labels"),
            group: key("baler ledger 1 groups"),
            id: key("baler ledger 1 entries"),
            sealing: Salt::new(HKDF_SHA256, &key("baler ledger 1 sealing")),
        }
    }

    /// Keys of this process alone.
    #[must_use]
    pub fn random() -> Self {
        Self::new(&crate::random::bytes::<32>())
    }

    /// The key of the tenants' fingerprints.
    #[must_use]
    pub fn tenant_key(&self) -> [u8; 32] {
        self.tenant
    }

    /// The label of all entries of a tenant.
    pub(super) fn label(&self, tenant: &Fingerprint) -> [u8; LABEL] {
        let mut label = [0; LABEL];
        let hash = blake3::keyed_hash(&self.label, &tenant.0);
        label.copy_from_slice(
            hash.as_bytes()
                .first_chunk::<LABEL>()
                .unwrap_or(&[0; LABEL]),
        );
        label
    }

    /// The key of an entry.
    pub(super) fn key(&self, scope: &Scope, kind: Kind, id: &Fingerprint) -> StoreKey {
        let hash = |key: &[u8; 32], parts: &[&[u8]]| {
            let mut hasher = blake3::Hasher::new_keyed(key);
            for part in parts {
                hasher.update(part);
            }
            hasher.finalize()
        };
        let tenant = &scope.tenant.0;
        let group = hash(&self.group, &[tenant, &scope.group.0]);
        let digest = hash(&self.id, &[&[VERSION, kind as u8], tenant, &id.0]);
        let mut key = [0; StoreKey::LENGTH];
        let parts = self.label(&scope.tenant).into_iter();
        let parts = parts.chain(group.as_bytes().iter().copied().take(GROUP));
        let parts = parts.chain(digest.as_bytes().iter().copied());
        for (slot, byte) in key.iter_mut().zip(parts) {
            *slot = byte;
        }
        StoreKey(key)
    }

    /// The key that one entry is sealed by: no other entry has it.
    fn sealing_key(&self, tenant: &Fingerprint, key: &StoreKey) -> Option<LessSafeKey> {
        let extracted = self.sealing.extract(&tenant.0);
        let info: [&[u8]; 2] = [b"baler ledger entry", &key.0];
        let expanded = extracted.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(expanded)))
    }

    /// Seals an entry, to be forgotten after `lifetime`. `None` for one that cannot be written
    /// down.
    pub(super) fn seal(
        &self,
        (scope, id): (&Scope, &Fingerprint),
        entry: &Entry,
        generation: u8,
        lifetime: Duration,
    ) -> Option<Sealed> {
        let kind = entry.kind();
        let key = self.key(scope, kind, id);
        let header = Header {
            kind: kind as u8,
            generation,
            expires: now().saturating_add(lifetime.as_secs()),
        };
        let nonce: [u8; NONCE_LEN] = crate::random::bytes();
        let mut content = entry.encode()?;
        let tag = self
            .sealing_key(&scope.tenant, &key)?
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                aad(&key, header),
                &mut content,
            )
            .ok()?;
        let mut blob = Vec::with_capacity(HEADER + NONCE_LEN + content.len() + tag.as_ref().len());
        blob.extend_from_slice(&header.bytes());
        blob.extend_from_slice(&nonce);
        blob.extend_from_slice(&content);
        blob.extend_from_slice(tag.as_ref());
        Some(Sealed { key, blob })
    }

    /// Opens what was stored under `key`.
    pub(super) fn open(
        &self,
        tenant: &Fingerprint,
        key: &StoreKey,
        blob: &[u8],
    ) -> Result<(Entry, Header), Unusable> {
        let header = Header::of(blob)?;
        let kind = Kind::of(header.kind).ok_or(Unusable::Version)?;
        let rest = blob.get(HEADER..).ok_or(Unusable::Sealed)?;
        let (nonce, content) = rest
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(Unusable::Sealed)?;
        let mut content = content.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let sealing = self.sealing_key(tenant, key).ok_or(Unusable::Sealed)?;
        let plain = sealing
            .open_in_place(nonce, aad(key, header), &mut content)
            .map_err(|_| Unusable::Sealed)?;
        if header.expires <= now() {
            return Err(Unusable::Expired);
        }
        let entry = Entry::decode(kind, plain).ok_or(Unusable::Version)?;
        Ok((entry, header))
    }
}

/// What is vouched for without being sealed: the key and the header.
fn aad(key: &StoreKey, header: Header) -> Aad<[u8; StoreKey::LENGTH + HEADER]> {
    let mut bytes = [0; StoreKey::LENGTH + HEADER];
    let (first, last) = bytes.split_at_mut(StoreKey::LENGTH);
    first.copy_from_slice(&key.0);
    last.copy_from_slice(&header.bytes());
    Aad::from(bytes)
}

/// Seconds since the epoch.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn scope(tenant: &[u8], group: &[u8]) -> Scope {
        Scope {
            tenant: Fingerprint::of(tenant),
            group: Fingerprint::of(group),
        }
    }

    fn usage() -> Entry {
        Entry::Usage(Fingerprint::of(b"list"), 4_711)
    }

    #[test]
    fn only_the_tenant_with_the_secret_opens_an_entry_and_only_where_it_was_put() {
        let (secrets, others) = (Secrets::new(b"one"), Secrets::new(b"another"));
        let (a, b) = (scope(b"a", b"x"), scope(b"b", b"x"));
        let id = Fingerprint::of(b"id");
        let Sealed { key, blob } = secrets.seal((&a, &id), &usage(), 3, LONG).unwrap();
        assert_eq!(key, secrets.key(&a, Kind::Usage, &id));
        let (entry, header) = secrets.open(&a.tenant, &key, &blob).unwrap();
        assert_eq!((entry, header.generation), (usage(), 3));
        let elsewhere = secrets.key(&a, Kind::Usage, &Fingerprint::of(b"other"));
        for opened in [
            secrets.open(&b.tenant, &key, &blob),
            others.open(&a.tenant, &key, &blob),
            secrets.open(&a.tenant, &elsewhere, &blob),
        ] {
            assert_eq!(opened.unwrap_err(), Unusable::Sealed);
        }
        let again = secrets.seal((&a, &id), &usage(), 3, LONG).unwrap();
        assert_ne!(again.blob, blob, "equal entries do not look alike");
    }

    #[test]
    fn no_byte_of_an_entry_can_be_changed_and_unknown_versions_are_told_apart() {
        let secrets = Secrets::new(b"secret");
        let (scope, id) = (scope(b"a", b"x"), Fingerprint::of(b"id"));
        let Sealed { key, blob } = secrets.seal((&scope, &id), &usage(), 0, LONG).unwrap();
        for at in 0..blob.len() {
            let mut changed = blob.clone();
            changed[at] ^= 1;
            let opened = secrets.open(&scope.tenant, &key, &changed);
            assert!(opened.is_err(), "byte {at}");
            if at == 0 {
                assert_eq!(opened.unwrap_err(), Unusable::Version);
            }
        }
        for length in 0..blob.len() {
            assert!(secrets.open(&scope.tenant, &key, &blob[..length]).is_err());
        }
    }

    #[test]
    fn what_is_over_its_lifetime_is_not_opened() {
        let secrets = Secrets::new(b"secret");
        let (scope, id) = (scope(b"a", b"x"), Fingerprint::of(b"id"));
        let sealed = secrets.seal((&scope, &id), &usage(), 0, Duration::ZERO);
        let Sealed { key, blob } = sealed.unwrap();
        let opened = secrets.open(&scope.tenant, &key, &blob);
        assert_eq!(opened.unwrap_err(), Unusable::Expired);
    }

    #[test]
    fn a_tenant_is_found_by_its_label_and_a_conversation_by_its_group() {
        let secrets = Secrets::new(b"secret");
        let key = |scope: &Scope, id: &[u8]| secrets.key(scope, Kind::Usage, &Fingerprint::of(id));
        let (one, other) = (scope(b"a", b"x"), scope(b"a", b"y"));
        assert_eq!(key(&one, b"1").parts().0, secrets.label(&one.tenant));
        assert_eq!(key(&one, b"1").parts().0, key(&other, b"1").parts().0);
        assert_eq!(key(&one, b"1").parts().1, key(&one, b"2").parts().1);
        assert_ne!(key(&one, b"1").parts().1, key(&other, b"1").parts().1);
        let stranger = scope(b"b", b"x");
        assert_ne!(key(&one, b"1").parts().0, key(&stranger, b"1").parts().0);
        assert_ne!(key(&one, b"1").parts().1, key(&stranger, b"1").parts().1);
    }

    proptest! {
        #[test]
        fn any_differing_bit_of_tenant_entry_or_secret_changes_the_whole_key(
            tenant in any::<[u8; 32]>(),
            id in any::<[u8; 32]>(),
            secret in any::<[u8; 32]>(),
            bit in 0_usize..256,
        ) {
            let flipped = |bytes: [u8; 32]| {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            };
            let digest = |secret: [u8; 32], tenant: [u8; 32], kind: Kind, id: [u8; 32]| {
                let scope = Scope { tenant: Fingerprint(tenant), group: Fingerprint(tenant) };
                Secrets::new(&secret).key(&scope, kind, &Fingerprint(id)).parts().2.to_vec()
            };
            let key = digest(secret, tenant, Kind::Checkpoint, id);
            for other in [
                digest(flipped(secret), tenant, Kind::Checkpoint, id),
                digest(secret, flipped(tenant), Kind::Checkpoint, id),
                digest(secret, tenant, Kind::Checkpoint, flipped(id)),
                digest(secret, tenant, Kind::Summary, id),
            ] {
                let same = key.iter().zip(&other).filter(|(one, other)| one == other);
                prop_assert!(same.count() < 8);
            }
        }
    }
}
