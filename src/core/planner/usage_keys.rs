//! The keys of usage: what may have been reported for prefixes of the list that is sent.

use super::chains::{Over, is_request_point};
use super::input::{CheckpointKey, UsageKey};
use super::planner::Planner;
use super::session::Session;
use crate::core::conversation::PrefixHash;
use crate::core::edit::{Edit, fingerprints_of, sent_size_of};

/// The keys of usage for prefixes of the list that `edits` leave; of the client's own list without
/// edits.
pub(super) fn usage_keys(
    planner: &Planner<'_>,
    session: &Session<'_>,
    edits: Option<&[Edit]>,
) -> Vec<UsageKey> {
    let measures = session.measures();
    let is_kept = |edit: &Edit| matches!(edit, Edit::Keep);
    let Some(edits) = edits.filter(|edits| !edits.iter().all(is_kept)) else {
        return usage_keys_of_all(planner, session);
    };
    let mut hash = PrefixHash::new(&planner.seeds.usage);
    let mut keys = Vec::with_capacity(measures.len() / 2 + 1);
    let mut counted = session.fixed_tokens();
    for (at, measure) in measures.iter().enumerate() {
        let edit = edits.get(at).unwrap_or(&Edit::Keep);
        fingerprints_of(measure, edit).for_each(|fingerprint| hash.push(fingerprint));
        counted += sent_size_of(measure, edit).tokens;
        if is_request_point(measures, at + 1) {
            keys.push(UsageKey {
                messages: at + 1,
                list: hash.digest(),
                counted,
            });
        }
    }
    keys
}

/// The same of the client's own list.
fn usage_keys_of_all(planner: &Planner<'_>, session: &Session<'_>) -> Vec<UsageKey> {
    let mut measures = session.measures().iter();
    let (mut messages, mut counted) = (0, session.fixed_tokens());
    let points = session.points(&planner.seeds.usage, Over::All).into_iter();
    let key = |point: CheckpointKey| {
        let new = measures.by_ref().take(point.messages - messages);
        counted += new.map(|measure| measure.tokens).sum::<u64>();
        messages = point.messages;
        UsageKey {
            messages,
            list: point.prefix,
            counted,
        }
    };
    points.map(key).collect()
}
