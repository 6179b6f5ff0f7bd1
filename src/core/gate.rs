//! The cheap gate: a proof, from the length of a body alone, that no trigger can fire when it is counted.
//!
//! A token covers at least one byte, and every token that counting adds around a message, a name or a call has JSON
//! bytes of its own: a body of text has fewer tokens than bytes. Images, audio and files cost tokens that have no bytes,
//! so a body that may hold any is never let through.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::policy::{Budget, Policy};
use super::size::scale;

/// The least bytes of a message in a list: braces, a role, a comma.
const LEAST_MESSAGE_BYTES: u64 = 10;

/// Whether no trigger of `policy` can fire for a body of these bytes.
#[must_use]
pub fn nothing_can_trigger(body: &[u8], policy: &Policy, budget: &Budget) -> bool {
    let bytes = body.len() as u64;
    let trigger = &policy.trigger;
    let idle = policy.idle.map(|idle| idle.ratio);
    let out_of_reach = policy.when.is_none()
        && idle.is_none_or(|ratio| bytes < scale(budget.room, ratio))
        && trigger.ratio.is_none_or(|ratio| bytes < scale(budget.room, ratio))
        && trigger.tokens.is_none_or(|tokens| bytes < tokens)
        && [trigger.messages, trigger.turns].into_iter().flatten().all(|count| bytes < count.saturating_mul(LEAST_MESSAGE_BYTES));
    out_of_reach && bytes < budget.room && !may_hold_media(body)
}

/// Whether a body may hold parts that are no text. Their field names could be spelled with escapes, so an escape that
/// stands for a letter or a sign of plain ASCII counts as well.
fn may_hold_media(body: &[u8]) -> bool {
    static MEDIA: LazyLock<[Finder<'static>; 3]> = LazyLock::new(|| ["\"image_url\"", "\"input_audio\"", "\"file\""].map(Finder::new));
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u00"));
    MEDIA.iter().any(|finder| finder.find(body).is_some())
        || ESCAPE.find_iter(body).any(|at| matches!(body.get(at + 4), Some(b'5' | b'6' | b'7')))
}
