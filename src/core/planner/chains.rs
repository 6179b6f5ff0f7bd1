//! The chains over the messages of a conversation, whose links are the keys of its prefixes. Of a
//! conversation that grows only what is new is hashed.

use std::sync::{Mutex, PoisonError};

use super::input::CheckpointKey;
use crate::core::conversation::{Fingerprint, Measure, PrefixHash, Speaker};

/// Chains that are remembered of one opening, those that were asked for last: of checkpoints, of
/// reports, of usage, and of checkpoints by another step.
const REMEMBERED: usize = 4;

/// The messages that a chain goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// All of them.
    All,
    /// All but instructions.
    Said,
}

/// One chain, as far as it was followed.
#[derive(Debug, Clone)]
struct Chain {
    seed: Fingerprint,
    over: Over,
    hash: PrefixHash,
    /// Messages that it has gone over.
    messages: usize,
    /// Of fewer messages: whether all of them were a request depends on the next one.
    points: Vec<CheckpointKey>,
}

impl Chain {
    fn new(seed: Fingerprint, over: Over) -> Self {
        Chain {
            hash: PrefixHash::new(&seed),
            messages: 0,
            points: Vec::new(),
            seed,
            over,
        }
    }

    fn here(&self) -> CheckpointKey {
        CheckpointKey {
            messages: self.messages,
            prefix: self.hash.digest(),
        }
    }

    /// Goes on to the first `end` messages.
    fn follow(&mut self, measures: &[Measure], end: usize) {
        let new = measures.get(self.messages..end).unwrap_or_default();
        for measure in new {
            if self.messages > 0 && is_request_point(measures, self.messages) {
                self.points.push(self.here());
            }
            if self.over == Over::All || !measure.speaker.is_instruction() {
                self.hash.push(&measure.fingerprint);
            }
            self.messages += 1;
        }
    }

    /// The same chain without the points on its way.
    fn tip(&self) -> Self {
        Chain {
            hash: self.hash.clone(),
            points: Vec::new(),
            ..*self
        }
    }

    /// All points of the whole list.
    fn finish(mut self, measures: &[Measure]) -> Vec<CheckpointKey> {
        self.points
            .reserve_exact(measures.len() / 2 + 1 - self.messages / 2);
        self.follow(measures, measures.len());
        self.points.push(self.here());
        self.points
    }

    /// The last of these points.
    fn end(mut self, measures: &[Measure]) -> CheckpointKey {
        self.follow(measures, measures.len());
        self.here()
    }
}

/// The chains over the messages that a body begins with, as far as earlier requests followed them.
#[derive(Debug, Default)]
pub struct Chains {
    /// The messages.
    messages: usize,
    known: Mutex<Vec<Chain>>,
}

impl Chains {
    /// Those over so many messages, of which `before` are known.
    #[must_use]
    pub fn new(messages: usize, before: Option<&Chains>) -> Self {
        let known = before.map(|before| {
            let known = before.known.lock();
            known.unwrap_or_else(PoisonError::into_inner).clone()
        });
        Chains {
            messages,
            known: known.unwrap_or_default().into(),
        }
    }

    /// The points of a list that begins with these messages, shortest first; the last one is the
    /// list itself.
    pub(super) fn points(
        &self,
        seed: &Fingerprint,
        over: Over,
        measures: &[Measure],
    ) -> Vec<CheckpointKey> {
        self.known_chain(seed, over, measures, Chain::clone)
            .finish(measures)
    }

    /// The last of these points.
    pub(super) fn end(
        &self,
        seed: &Fingerprint,
        over: Over,
        measures: &[Measure],
    ) -> CheckpointKey {
        self.known_chain(seed, over, measures, Chain::tip)
            .end(measures)
    }

    /// What is wanted of the chain over these messages, which is remembered.
    fn known_chain(
        &self,
        seed: &Fingerprint,
        over: Over,
        measures: &[Measure],
        wanted: fn(&Chain) -> Chain,
    ) -> Chain {
        // A chain is put back whole.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_asked = |chain: &Chain| chain.seed == *seed && chain.over == over;
        let asked = known.iter().position(is_asked).map(|at| known.remove(at));
        let asked = asked.filter(|chain| chain.messages <= measures.len());
        let mut chain = asked.unwrap_or_else(|| Chain::new(*seed, over));
        chain.follow(measures, self.messages.min(measures.len()));
        if known.len() >= REMEMBERED {
            known.remove(0);
        }
        let taken = wanted(&chain);
        known.push(chain);
        taken
    }
}

/// The points of a list of which nothing is known.
pub(super) fn points(seed: &Fingerprint, over: Over, measures: &[Measure]) -> Vec<CheckpointKey> {
    Chain::new(*seed, over).finish(measures)
}

/// The last of these points.
pub(super) fn end(seed: &Fingerprint, over: Over, measures: &[Measure]) -> CheckpointKey {
    Chain::new(*seed, over).end(measures)
}

/// Whether the first `length` messages were once, or are now, a request of their own.
pub(super) fn is_request_point(measures: &[Measure], length: usize) -> bool {
    measures
        .get(length)
        .is_none_or(|next| next.speaker == Speaker::Assistant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::conversation::{MessageKind, Shape};

    fn list(speakers: &[Speaker]) -> Vec<Measure> {
        let measure = |(at, speaker): (usize, &Speaker)| Measure {
            speaker: *speaker,
            role: "user",
            fingerprint: Fingerprint::of(&at.to_le_bytes()),
            tokens: 1,
            is_plain: true,
            shape: Shape {
                kind: MessageKind::Text,
                calls: 0,
                chars: 1,
            },
        };
        speakers.iter().enumerate().map(measure).collect()
    }

    #[test]
    fn a_known_chain_says_what_a_new_one_says() {
        use Speaker::{Assistant, Instruction, User};
        let all = list(&[
            Instruction,
            User,
            Assistant,
            User,
            User,
            Assistant,
            Instruction,
            User,
            Assistant,
            User,
        ]);
        let seeds = [b"a", b"b", b"c", b"d", b"e"].map(|seed| Fingerprint::of(seed));
        for first in 1..all.len() {
            let chains = Chains::new(first, None);
            for length in first..=all.len() {
                let measures = all.get(..length).unwrap();
                let longer = Chains::new(length, Some(&chains));
                for (seed, over) in seeds
                    .iter()
                    .flat_map(|seed| [(seed, Over::All), (seed, Over::Said)])
                {
                    let afresh = points(seed, over, measures);
                    assert_eq!(chains.points(seed, over, measures), afresh);
                    assert_eq!(longer.points(seed, over, measures), afresh);
                    let last = *afresh.last().unwrap();
                    assert_eq!(chains.end(seed, over, measures), last);
                    assert_eq!(end(seed, over, measures), last);
                    assert_eq!(last.messages, length);
                }
                assert!(chains.known.lock().unwrap().len() <= REMEMBERED);
            }
        }
    }
}
