//! How large a list is for the upstream.

use super::input::{KnownUsage, LiveFacts, PriorUsage, UsageKey};
use super::session::Session;
use crate::core::conversation::{Fingerprint, Measure, PrefixHash, Size, ratio, scale};
use crate::core::edit::{Edit, MeasuredConversation, fingerprints_of, sent_size_of};

/// The digest of a whole list.
fn chain<'d>(seed: &Fingerprint, messages: impl Iterator<Item = &'d Fingerprint>) -> Fingerprint {
    let mut chain = PrefixHash::new(seed);
    messages.for_each(|message| chain.push(message));
    chain.digest()
}

/// The parts of an estimate, and what it takes to learn from what the upstream will report.
#[derive(Debug, Clone, Copy)]
pub struct UsageEstimate {
    /// The key that the usage of the list is kept under.
    pub key: Fingerprint,
    /// Tokens counted for the whole list.
    pub counted: u64,
    /// Of these, tokens of messages that are text and nothing else: what any upstream counts,
    /// whatever it makes of media, reasoning and schemas.
    pub plain: u64,
    /// What was reported for the longest known prefix of it: nothing, when there is none.
    pub reported: Option<PriorUsage>,
}

/// Plain tokens of a prompt that is long enough to be cut.
const LONG: u64 = 2_000;

impl UsageEstimate {
    /// A client's own list as it came, when nothing was reported for it.
    #[must_use]
    pub fn of_all(seed: &Fingerprint, measures: &[Measure], fixed_tokens: u64) -> Self {
        let tokens = |measure: &Measure| measure.tokens;
        let plain = measures.iter().filter(|measure| measure.is_plain);
        UsageEstimate {
            key: chain(seed, measures.iter().map(|measure| &measure.fingerprint)),
            counted: fixed_tokens + measures.iter().map(tokens).sum::<u64>(),
            plain: plain.map(tokens).sum(),
            reported: None,
        }
    }

    /// Whether the upstream seems to have cut the prompt before the model saw it, as Ollama does
    /// without a word: it `reported` less than half of the plain text alone, at `factor` of its
    /// tokens per token of ours. Such a report is about another prompt than the one that was sent.
    #[must_use]
    pub fn looks_truncated(&self, reported: u64, factor: f64) -> bool {
        // What a hidden prompt of the upstream's own adds to short prompts makes the factor too
        // large for long ones.
        self.plain >= LONG && reported.saturating_mul(2) < scale(self.plain, factor.min(1.0))
    }
}

/// Whether what is sent for an original message is plain text. What replaces a message that is none
/// may still hold some of what it held.
fn is_plain(measure: &Measure, edit: &Edit) -> bool {
    measure.is_plain || matches!(edit, Edit::Stand(_))
}

/// The counted size of the list that `edits` leave, with `fixed_tokens` besides the messages, and
/// its tokens that are plain text.
fn counted(measures: &[Measure], fixed_tokens: u64, edits: Option<&[Edit]>) -> (Size, u64) {
    let mut counted = Size {
        tokens: fixed_tokens,
        ..Size::default()
    };
    let mut plain = 0;
    for (at, measure) in measures.iter().enumerate() {
        let edit = edits.and_then(|edits| edits.get(at)).unwrap_or(&Edit::Keep);
        let sent = sent_size_of(measure, edit);
        counted += sent;
        if is_plain(measure, edit) {
            plain += sent.tokens;
        }
    }
    (counted, plain)
}

/// How large the list to be sent is: the upstream's usage for its longest known prefix, and counts
/// for the rest, in the upstream's tokens as far as its factor is known.
pub(super) struct Estimate {
    /// The size, to decide by.
    pub size: Size,
    /// Its tokens without regard to what the client says of its usage, to report and to count.
    trusted: u64,
    /// Its parts.
    pub known: UsageEstimate,
}

impl Estimate {
    /// Estimates the list that `edits` leave (the client's own list without edits). `keys` are its
    /// usage keys, `known` is what the ledger knows of them.
    pub(super) fn of(
        session: &Session<'_>,
        edits: Option<&[Edit]>,
        keys: &[UsageKey],
        known: &KnownUsage,
        live: &LiveFacts,
    ) -> Self {
        let (counted, plain) = counted(session.measures(), session.fixed_tokens(), edits);
        // The whole list is a request, so that its key is the last one.
        let key = keys.last().map_or(Fingerprint([0; 32]), |key| key.list);
        let refused = live.refused.filter(|refused| refused.counted > 0);
        let refused_factor = refused.map_or(0.0, |refused| ratio(refused.tokens, refused.counted));
        let factor = live.learned.factor.max(refused_factor);
        let at_least = live.refused.filter(|refused| refused.list == key);
        let by = |reported: Option<PriorUsage>, factor: f64| {
            let (prompt_tokens, covered) = reported.map_or((0, 0), |usage| {
                (usage.prompt_tokens, usage.counted.unwrap_or(0))
            });
            let rest = counted.tokens.saturating_sub(covered);
            let estimated = prompt_tokens.saturating_add(scale(rest, factor));
            estimated.max(at_least.map_or(0, |refused| refused.tokens))
        };
        // INVARIANT: what a client says of its usage can make a compaction happen earlier. It never
        // prevents one, and it counts for no more than the body can hold: a token of text takes a
        // byte at least.
        let trusted = by(longest_reported(keys, known, None), factor);
        let most = (session.outline().body.len() as u64).saturating_add(counted.tokens);
        let prior = live.prior.filter(|prior| prior.prompt_tokens <= most);
        let reported = longest_reported(keys, known, prior);
        let told = prior
            .filter(|prior| reported.is_some_and(|reported| reported.messages == prior.messages));
        // A replica that knows nothing else knows how the upstream counted what it is told of.
        let told = told.and_then(|prior| Some(ratio(prior.prompt_tokens, prior.counted?)));
        let factor = factor.max(told.unwrap_or(0.0).min(PLAUSIBLE.1));
        Estimate {
            size: Size {
                tokens: by(reported, factor).min(most).max(trusted),
                ..counted
            },
            trusted,
            known: UsageEstimate {
                key,
                counted: counted.tokens,
                plain,
                reported,
            },
        }
    }

    /// The same with other edits, for which nothing was reported yet: counts, scaled by how the
    /// upstream's count of this conversation compares with ours.
    pub(super) fn after_edits(
        &self,
        conversation: &MeasuredConversation<'_>,
        edits: &[Edit],
        seed: Fingerprint,
    ) -> Self {
        let (measures, fixed_tokens) = (conversation.measures, conversation.fixed_tokens);
        let (counted, plain) = counted(measures, fixed_tokens, Some(edits));
        let edited = measures.iter().zip(edits);
        let fingerprints = edited.flat_map(|(measure, edit)| fingerprints_of(measure, edit));
        let trusted = scale(counted.tokens, ratio(self.trusted, self.known.counted));
        Estimate {
            size: Size {
                tokens: self.to_reported(counted.tokens).min(self.size.tokens),
                ..counted
            },
            trusted: trusted.min(self.trusted),
            known: UsageEstimate {
                key: chain(&seed, fingerprints),
                counted: counted.tokens,
                plain,
                reported: None,
            },
        }
    }

    /// The sizes to report of a list before and after edits, when it was of this size without the
    /// edits: both without regard to what the client says of its usage, and made alike.
    pub(super) fn reported_sizes(&self, before: Size) -> (Size, Size) {
        let removed = before.tokens.saturating_sub(self.known.counted);
        let factor = ratio(self.trusted, self.known.counted);
        let tokens = |tokens: u64, size: Size| Size { tokens, ..size };
        let before = tokens(self.trusted.saturating_add(scale(removed, factor)), before);
        (before, tokens(self.trusted, self.size))
    }

    /// Counted tokens as upstream ones.
    pub(super) fn to_reported(&self, tokens: u64) -> u64 {
        scale(tokens, self.factor())
    }

    /// Tokens by the upstream's count for each of ours.
    pub(super) fn factor(&self) -> f64 {
        ratio(self.size.tokens, self.known.counted)
    }
}

/// The usage for the longest prefix, by the ledger or by the client itself.
fn longest_reported(
    keys: &[UsageKey],
    known: &KnownUsage,
    prior: Option<PriorUsage>,
) -> Option<PriorUsage> {
    keys.iter().rev().find_map(|key| {
        let of_ledger = known
            .reported
            .filter(|(messages, _)| *messages == key.messages);
        let prompt_tokens = match of_ledger {
            Some((_, prompt_tokens)) => prompt_tokens,
            None => from_client(prior?, key)?,
        };
        let counted = Some(key.counted);
        Some(PriorUsage {
            messages: key.messages,
            prompt_tokens,
            counted,
        })
    })
}

/// The usage that a client carries, if it is about the prefix of this key as it is sent.
fn from_client(prior: PriorUsage, key: &UsageKey) -> Option<u64> {
    let of_this_list = match prior.counted {
        Some(then) => then == key.counted,
        None => {
            let factor = ratio(prior.prompt_tokens, key.counted);
            (PLAUSIBLE.0..=PLAUSIBLE.1).contains(&factor)
        }
    };
    let applies = prior.messages == key.messages && prior.prompt_tokens > 0 && of_this_list;
    applies.then_some(prior.prompt_tokens)
}

/// Reported tokens per counted one that a client is believed.
const PLAUSIBLE: (f64, f64) = (0.5, 3.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_less_than_half_of_a_long_text_is_about_a_prompt_that_was_cut() {
        let known = |counted, plain| UsageEstimate {
            key: Fingerprint::of(b"list"),
            counted,
            plain,
            reported: None,
        };
        for (plain, reported, factor, cut) in [
            (10_000, 4_096, 1.0, true),
            (10_000, 4_999, 1.0, true),
            (10_000, 5_000, 1.0, false),
            // Short prompts are not cut, and media, reasoning and schemas are no measure.
            (1_999, 1, 1.0, false),
            (2_000, 999, 1.0, true),
            (0, 1, 1.0, false),
            // An upstream that counts less than we do, and one that seems to count more because of
            // what it adds.
            (10_000, 4_000, 0.7, false),
            (10_000, 3_000, 0.7, true),
            (10_000, 13_000, 3.0, false),
            (u64::MAX, u64::MAX, 1.0, false),
        ] {
            assert_eq!(
                known(20_000, plain).looks_truncated(reported, factor),
                cut,
                "{reported} of {plain} at {factor}"
            );
        }
    }
}
