//! How large a list is for the upstream.

use std::time::Duration;

use crate::core::conversation::Measure;
use crate::core::conversation::{Fingerprint, PrefixHash};
use crate::core::conversation::{Size, ratio, scale};
use crate::core::edit::Edit;
use crate::core::edit::{MeasuredConversation, fingerprints_of, size_of_edited, tokens_of};
use crate::core::planner::derive::is_request_point;
use crate::core::planner::{LiveFacts, Lookup, PriorUsage};

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
    /// Of these, tokens of messages that are text and nothing else: what any upstream counts, whatever it makes of media,
    /// reasoning and schemas.
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
        let plain = measures
            .iter()
            .map(|measure| plain_tokens_of(measure, &Edit::Keep))
            .sum();
        let counted = fixed_tokens + measures.iter().map(|measure| measure.tokens).sum::<u64>();
        UsageEstimate {
            key: chain(seed, measures.iter().map(|measure| &measure.digest)),
            counted,
            plain,
            reported: None,
        }
    }

    /// Whether the upstream seems to have cut the prompt before the model saw it, as Ollama does without a word: it `reported`
    /// less than half of the plain text alone, at `factor` of its tokens per token of ours. Such a report is about another
    /// prompt than the one that was sent.
    #[must_use]
    pub fn looks_truncated(&self, reported: u64, factor: f64) -> bool {
        // What a hidden prompt of the upstream's own adds to short prompts makes the factor too large for long ones.
        self.plain >= LONG && reported.saturating_mul(2) < scale(self.plain, factor.min(1.0))
    }
}

/// Tokens of what is sent for an original message, if it is plain text.
fn plain_tokens_of(measure: &Measure, edit: &Edit) -> u64 {
    // What stands for a message that is none may still hold some of what it held.
    if measure.is_plain || matches!(edit, Edit::Stand(_)) {
        tokens_of(measure, edit)
    } else {
        0
    }
}

/// How large an edited list is: what the upstream reported for its longest known prefix, and counts for the rest, in the
/// upstream's tokens as far as it is known how it counts.
pub(super) struct Estimate {
    /// The size.
    pub size: Size,
    /// What it was made from.
    pub known: UsageEstimate,
    /// Time since the longest known prefix was last sent.
    pub silence: Option<Duration>,
}

impl Estimate {
    /// Estimates the list that `edits` leave (all of it without edits), which was counted as `counted`.
    pub(super) fn of(
        measures: &[Measure],
        edits: Option<&[Edit]>,
        counted: Size,
        fixed_tokens: u64,
        seed: Fingerprint,
        lookup: &Lookup<'_>,
        now: &LiveFacts,
    ) -> Self {
        let mut chain = PrefixHash::new(&seed);
        // Where the edited list could have ended as a request: messages, its digest there, and the tokens counted up to there.
        let mut points = Vec::with_capacity(measures.len() / 2 + 1);
        let (mut tokens, mut plain) = (fixed_tokens, 0);
        for (at, measure) in measures.iter().enumerate() {
            let edit = edits.and_then(|edits| edits.get(at)).unwrap_or(&Edit::Keep);
            fingerprints_of(measure, edit).for_each(|digest| chain.push(digest));
            tokens += tokens_of(measure, edit);
            plain += plain_tokens_of(measure, edit);
            if is_request_point(measures, at + 1) {
                points.push((at + 1, chain.digest(), tokens));
            }
        }
        let known = points.iter().rev().find_map(|(messages, key, counted)| {
            let prompt_tokens =
                (lookup.usage)(key).or_else(|| told(now.prior?, *messages, *counted))?;
            Some(PriorUsage {
                messages: *messages,
                prompt_tokens,
                counted: Some(*counted),
            })
        });
        let silence = points
            .iter()
            .rev()
            .find_map(|(_, key, _)| (lookup.silence)(key));
        let (reported, rest) = match known {
            Some(PriorUsage {
                prompt_tokens,
                counted: prefix,
                ..
            }) => (
                prompt_tokens,
                counted.tokens.saturating_sub(prefix.unwrap_or(0)),
            ),
            None => (0, counted.tokens),
        };
        let live = (reported + scale(rest, now.learned.factor)).max(now.overflow.unwrap_or(0));
        Estimate {
            size: Size {
                tokens: live,
                ..counted
            },
            known: UsageEstimate {
                key: chain.digest(),
                counted: counted.tokens,
                plain,
                reported: known,
            },
            silence,
        }
    }

    /// The same circumstances with other edits, for which nothing was reported yet: counts, scaled by how the upstream's
    /// count of this conversation compares with ours.
    pub(super) fn after_edits(
        &self,
        conversation: &MeasuredConversation<'_>,
        edits: &[Edit],
        seed: Fingerprint,
    ) -> Self {
        let counted = size_of_edited(conversation, edits);
        let key = chain(
            &seed,
            conversation
                .measures
                .iter()
                .zip(edits)
                .flat_map(|(measure, edit)| fingerprints_of(measure, edit)),
        );
        let plain = conversation
            .measures
            .iter()
            .zip(edits)
            .map(|(measure, edit)| plain_tokens_of(measure, edit))
            .sum();
        Estimate {
            size: Size {
                tokens: self.to_reported(counted.tokens).min(self.size.tokens),
                ..counted
            },
            known: UsageEstimate {
                key,
                counted: counted.tokens,
                plain,
                reported: None,
            },
            silence: None,
        }
    }

    /// Upstream tokens as counted ones: smaller where the upstream counts more than we do, never larger.
    pub(super) fn to_counted(&self, tokens: u64) -> u64 {
        scale(tokens, 1.0 / self.factor().max(1.0))
    }

    /// Counted tokens as upstream ones.
    pub(super) fn to_reported(&self, tokens: u64) -> u64 {
        scale(tokens, self.factor())
    }

    fn factor(&self) -> f64 {
        ratio(self.size.tokens, self.known.counted)
    }
}

/// The usage that a client tells, if it is about these first messages as they are sent.
fn told(prior: PriorUsage, messages: usize, counted: u64) -> Option<u64> {
    let of_this_list = match prior.counted {
        Some(then) => then == counted,
        None => (PLAUSIBLE.0..=PLAUSIBLE.1).contains(&ratio(prior.prompt_tokens, counted)),
    };
    (prior.messages == messages && prior.prompt_tokens > 0 && of_this_list)
        .then_some(prior.prompt_tokens)
}

/// Reported tokens per counted one that a client may tell without saying what was counted.
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
            // An upstream that counts less than we do, and one that seems to count more because of what it adds.
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
