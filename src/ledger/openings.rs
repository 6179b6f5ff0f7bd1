//! What is known of the openings of bodies, by tenant and exact bytes: where their messages stand,
//! their measures, and the chains over them. Of a conversation that grows only what is new is read.
//! Of this process only, like [`Measures`](super::Measures), and like them no tenant shares an
//! entry.
//!
//! A body is hashed from its beginning, and after each step the hash so far is the key of what lies
//! before. What is known is kept under the last of these keys; the next request of the conversation
//! has that key among its own. What lies behind it is read again.

use std::sync::Arc;

use highway::{HighwayHash, HighwayHasher};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::measures::{Digest, SecretKey};
use crate::core::conversation::{Fingerprint, Measure};
use crate::core::planner::Chains;
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;
use crate::core::wire::chat::{Opening, Outline};

/// The least bytes between two keys.
const LEAST_STEP: usize = 1_024;
/// What is read again of a body, at most, as a part of it.
const PART: usize = 32;
/// Messages that take as much memory as the bookkeeping of an entry, its chains included.
const BOOKKEEPING: u64 = 16;

/// A cache of openings, bounded by the number of their messages.
#[derive(Debug)]
pub struct Openings {
    known: Cache<Key, Arc<KnownOpening>, MessageCount>,
    key: SecretKey,
}

type Key = (Digest, Dialect);

#[derive(Debug, Clone)]
struct MessageCount;

impl Weighter<Key, Arc<KnownOpening>> for MessageCount {
    fn weight(&self, _: &Key, known: &Arc<KnownOpening>) -> u64 {
        known.opening.len() as u64 + BOOKKEEPING
    }
}

/// An opening, and what was found out about it.
#[derive(Debug)]
pub struct KnownOpening {
    /// Where its messages stand.
    pub opening: Opening,
    /// Whether it is known to hold no media.
    pub is_text: bool,
    encoding: Encoding,
    measures: Box<[Measure]>,
    /// The chains over its messages.
    chains: Arc<Chains>,
}

impl KnownOpening {
    /// The measures of its messages, if their tokens were counted in this encoding.
    #[must_use]
    pub fn measures(&self, encoding: Encoding) -> &[Measure] {
        if self.encoding == encoding {
            &self.measures
        } else {
            &[]
        }
    }
}

/// What is known of the beginning of one body.
#[derive(Debug, Clone, Default)]
pub struct Beginning {
    known: Option<Arc<KnownOpening>>,
    /// The last of the body's keys, and the bytes before it; none for a short body.
    last: Option<(Key, usize)>,
}

impl Beginning {
    /// The longest opening that is known.
    #[must_use]
    pub fn known(&self) -> Option<&KnownOpening> {
        self.known.as_deref()
    }

    /// Where its messages stand.
    #[must_use]
    pub fn opening(&self) -> Option<&Opening> {
        self.known().map(|known| &known.opening)
    }
}

impl Openings {
    /// A cache for openings of so many messages together.
    #[must_use]
    pub fn new(messages: u64) -> Self {
        let items = usize::try_from(messages / 64).unwrap_or(usize::MAX);
        Openings {
            known: Cache::with_weighter(items.max(16), messages, MessageCount),
            key: SecretKey::random(),
        }
    }

    /// What is known of the beginning of a tenant's body.
    #[must_use]
    pub fn of(&self, tenant: &Fingerprint, dialect: Dialect, body: &[u8]) -> Beginning {
        let mut hasher = HighwayHasher::new(self.key.of(tenant));
        let expected = (body.len() / LEAST_STEP).min(2 * PART);
        let (mut hashes, mut at) = (Vec::with_capacity(expected), 0);
        while let Some(step) = body.get(at..at + step_at(at)) {
            hasher.append(step);
            hashes.push(hasher.clone());
            at += step.len();
        }
        // Most requests go on from one that ended a step or two before: the keys of the steps
        // before it are not made.
        let key = |hash: HighwayHasher| (hash.finalize256(), dialect);
        let mut keys = hashes.into_iter().rev().map(key);
        let Some(last) = keys.next() else {
            return Beginning::default();
        };
        let known = || keys.find_map(|key| self.known.get(&key));
        Beginning {
            known: self.known.get(&last).or_else(known),
            last: Some((last, at)),
        }
    }

    /// Keeps what was found out about a body that begins so; `is_text` says that it holds no media.
    /// Returns what is known of the chains over its first messages.
    pub fn keep(
        &self,
        beginning: &Beginning,
        encoding: Encoding,
        (outline, measures): (&Outline<'_>, &[Measure]),
        is_text: bool,
    ) -> Option<Arc<Chains>> {
        let (key, within) = beginning.last?;
        let opening = outline.opening(within)?;
        let before = beginning.known();
        let says_it_all = before.filter(|known| {
            let is_as_long = known.opening.len() >= opening.len();
            is_as_long && known.encoding == encoding && (known.is_text || !is_text)
        });
        if let Some(known) = says_it_all {
            return Some(Arc::clone(&known.chains));
        }
        let measures = measures.get(..opening.len()).unwrap_or_default();
        let before = before.map(|known| &*known.chains);
        let chains = Arc::new(Chains::new(opening.len(), before));
        let known = KnownOpening {
            measures: measures.into(),
            opening,
            is_text,
            encoding,
            chains: Arc::clone(&chains),
        };
        self.known.insert(key, Arc::new(known));
        Some(chains)
    }
}

/// Bytes from a key at this place to the next one: a power of two, the same in all bodies.
fn step_at(place: usize) -> usize {
    let part = (place / PART).checked_ilog2().map_or(0, |log| 1 << log);
    part.max(LEAST_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Cancel;
    use crate::ledger::{Measures, Owner};

    const DIALECT: Dialect = Dialect::ChatCompletions;
    const ENCODING: Encoding = Encoding::O200K;

    fn body(messages: usize) -> String {
        let text = "word ".repeat(100);
        let message = |n: usize| format!(r#"{{"role":"user","content":"{n} {text}"}}"#);
        let list: Vec<_> = (0..messages).map(message).collect();
        format!(r#"{{"messages":[{}],"model":"m"}}"#, list.join(", "))
    }

    /// Reads a body as a request does. Says how many of its messages were known.
    fn read(openings: &Openings, measures: &Measures, tenant: &Fingerprint, body: &str) -> usize {
        let beginning = openings.of(tenant, DIALECT, body.as_bytes());
        let outline = DIALECT
            .resume(body.as_bytes(), beginning.opening())
            .unwrap();
        let afresh = DIALECT.outline(body.as_bytes()).unwrap();
        assert_eq!(outline.messages, afresh.messages);
        let owner = Owner {
            tenant,
            dialect: DIALECT,
            encoding: ENCODING,
        };
        let known = beginning.known();
        let first = known.map_or(&[][..], |known| known.measures(ENCODING));
        let all = measures.measure_all(owner, &outline, first, &Cancel::default());
        let all = all.unwrap();
        let expected = outline
            .messages
            .iter()
            .map(|raw| DIALECT.measure(raw, ENCODING));
        assert!(all.iter().copied().map(Ok).eq(expected));
        openings.keep(&beginning, ENCODING, (&outline, &all), false);
        first.len()
    }

    #[test]
    fn of_a_growing_conversation_only_what_is_new_is_read() {
        let (openings, measures) = (Openings::new(1_000), Measures::new(1_000));
        let tenant = Fingerprint::of(b"one");
        assert_eq!(read(&openings, &measures, &tenant, &body(1)), 0, "short");
        assert_eq!(read(&openings, &measures, &tenant, &body(1)), 0);
        assert_eq!(read(&openings, &measures, &tenant, &body(40)), 0);
        // The step before the end of the list lies in its last messages.
        let known = read(&openings, &measures, &tenant, &body(41));
        assert!((30..=40).contains(&known), "{known}");
        assert!(read(&openings, &measures, &tenant, &body(60)) >= known);
        assert!(read(&openings, &measures, &tenant, &body(61)) > 50);
        // Another conversation that begins alike goes on from where it differs.
        let other = body(61).replace("55 word", "55 other");
        let known = read(&openings, &measures, &tenant, &other);
        assert!((30..=55).contains(&known), "{known}");
        assert_eq!(
            read(&openings, &measures, &Fingerprint::of(b"other"), &body(61)),
            0
        );
    }

    #[test]
    fn openings_take_a_bounded_room() {
        let (openings, measures) = (Openings::new(200), Measures::new(1_000));
        for n in 0..50_u8 {
            read(&openings, &measures, &Fingerprint::of(&[n]), &body(40));
            assert!(openings.known.weight() <= 200);
        }
        assert!(openings.known.weight() > 100, "and it does keep some");
    }

    #[test]
    fn measures_are_those_of_their_encoding() {
        let (openings, measures) = (Openings::new(1_000), Measures::new(1_000));
        let tenant = Fingerprint::of(b"one");
        read(&openings, &measures, &tenant, &body(40));
        let beginning = openings.of(&tenant, DIALECT, body(40).as_bytes());
        let known = beginning.known().unwrap();
        assert!(known.measures(Encoding::CL100K).is_empty());
        assert_eq!(known.measures(ENCODING).len(), known.opening.len());
    }
}
