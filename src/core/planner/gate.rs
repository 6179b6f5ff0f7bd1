//! The cheap gate: a proof, from the length of a body alone, that no trigger can fire when it is
//! counted.
//!
//! A token covers at least one byte, and every token that counting adds around a message, a name, a
//! call or a parameter of a tool has JSON bytes of its own: a body of text has fewer tokens than
//! bytes, apart from the header of a template. Images, audio and files cost tokens that have no
//! bytes, so a body that may hold any never passes the gate; nor does one that asks for a longer
//! reply than the reserve, which leaves less for the prompt than the budget does. The proof takes
//! into account that an upstream counts more tokens than Baler does.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::core::budget::Budget;
use crate::core::conversation::scale;
use crate::core::policy::Policy;
use crate::core::wire::Dialect;
use crate::core::wire::chat::Opening;

/// The beginning of an escape that may stand for an ASCII letter or sign.
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u00"));

/// The least bytes of a message in a list: braces, a role, a comma.
const LEAST_MESSAGE_BYTES: u64 = 10;

/// A body, and the messages that it begins with and that are known to be text.
#[derive(Debug, Clone, Copy)]
pub struct Glance<'b> {
    /// All of it.
    pub body: &'b [u8],
    /// Nothing up to the end of it is media.
    pub text: Option<&'b Opening>,
}

impl<'b> Glance<'b> {
    /// A body of which nothing is known.
    #[must_use]
    pub fn of(body: &'b [u8]) -> Self {
        Glance { body, text: None }
    }

    /// What media are searched in. No marker of theirs lies across the end of a message.
    fn not_known(&self) -> &'b [u8] {
        let known = self.text.map_or(0, Opening::end);
        self.body.get(known..).unwrap_or_default()
    }

    /// What fields of the request are searched in.
    fn around_messages(&self) -> [&'b [u8]; 2] {
        let head = self.text.map_or(0, Opening::start);
        [self.body.get(..head).unwrap_or_default(), self.not_known()]
    }
}

/// Whether no trigger of `policy` can fire for a body, sent to an upstream that counts `factor`
/// tokens where Baler counts one.
#[must_use]
pub fn nothing_can_trigger(
    dialect: Dialect,
    glance: Glance<'_>,
    policy: &Policy,
    budget: &Budget,
    factor: f64,
) -> bool {
    let body = glance.body;
    let bytes = scale(body.len() as u64 + dialect.header_tokens(), factor.max(1.0));
    let trigger = &policy.trigger;
    let idle = policy.idle.map(|idle| idle.ratio);
    // A summary is prepared when the conversation comes near the trigger.
    let prepares = policy.summarize().map(|(_, options)| options.prepare_at);
    let prepares_at = prepares.map(|share| trigger.prepares_at_counts(share));
    let has_no_arrival = |least: u64| (body.len() as u64) < least;
    let out_of_reach = policy.when.is_none()
        && policy.least_arrival().is_none_or(has_no_arrival)
        && idle.is_none_or(|ratio| bytes < scale(budget.prompt, ratio))
        && prepares.is_none_or(|share| bytes < trigger.prepares_at(budget, share))
        && prepares_at.is_none_or(|[messages, turns, tool_uses]| {
            bytes_reach_none(bytes, [messages, turns]) && has_fewer_calls(body, tool_uses)
        })
        && trigger
            .ratio_in(budget.window)
            .is_none_or(|ratio| bytes < scale(budget.prompt, ratio))
        && trigger.tokens.is_none_or(|tokens| bytes < tokens)
        && bytes_reach_none(bytes, [trigger.messages, trigger.turns])
        && has_fewer_calls(body, trigger.tool_uses);
    out_of_reach
        && bytes < budget.prompt
        && !may_hold_media(dialect, glance.not_known())
        && !may_ask_for_more_than(
            dialect,
            budget.window.saturating_sub(budget.prompt),
            glance.around_messages(),
        )
}

/// Whether a list of so many bytes has fewer messages than any of these counts.
fn bytes_reach_none(bytes: u64, counts: [Option<u64>; 2]) -> bool {
    let mut counts = counts.into_iter().flatten();
    counts.all(|count| bytes < count.saturating_mul(LEAST_MESSAGE_BYTES))
}

/// Whether a body has fewer calls than this: each of them, and each message, has its own brace.
fn has_fewer_calls(body: &[u8], limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| (memchr::memchr_iter(b'{', body).count() as u64) < limit)
}

/// Whether a body may hold parts that are not text. Their field names could be spelled with
/// escapes, so an escape that stands for an ASCII letter or sign counts as well.
fn may_hold_media(dialect: Dialect, body: &[u8]) -> bool {
    dialect
        .media_markers()
        .iter()
        .any(|marker| marker.find(body).is_some())
        || ESCAPE
            .find_iter(body)
            .any(|at| matches!(body.get(at + 4), Some(b'5' | b'6' | b'7')))
}

/// Whether a body may ask for a reply of more than `reserve` tokens.
fn may_ask_for_more_than(dialect: Dialect, reserve: u64, parts: [&[u8]; 2]) -> bool {
    let asks = |part: &[u8], key: &Finder<'_>| {
        key.find_iter(part).any(|at| {
            let rest = part.get(at + key.needle().len()..).unwrap_or_default();
            asked(rest).is_none_or(|tokens| tokens > reserve)
        })
    };
    let mut keys = dialect.output_limit_keys().iter();
    keys.any(|key| parts.iter().any(|part| asks(part, key)))
}

/// The whole number that follows a key, when it is nothing else.
fn asked(after_key: &[u8]) -> Option<u64> {
    let value = after_key
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii_start();
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (number, rest) = value.split_at_checked(digits)?;
    let ends = matches!(rest.trim_ascii_start().first(), Some(b',' | b'}'));
    std::str::from_utf8(number)
        .ok()
        .filter(|_| ends)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    fn passes(body: &str, factor: f64) -> bool {
        let policy = load(&Sources::default()).unwrap().policies.remove(0);
        let budget = policy.budget(8_000);
        nothing_can_trigger(
            Dialect::default(),
            Glance::of(body.as_bytes()),
            &policy,
            &budget,
            factor,
        )
    }

    #[test]
    fn a_reply_of_more_than_the_reserve_does_not_pass_the_gate() {
        let body = |more: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"say \"max_tokens\": 9999"}}]{more}}}"#
            )
        };
        for (more, through) in [
            ("", true),
            (r#","max_tokens":2000"#, true),
            (r#","max_tokens" : 2001 "#, false),
            (r#","max_completion_tokens":7999,"n":1"#, false),
            (r#","max_tokens":2e3"#, false),
            (r#","max_tokens":null"#, false),
            (r#","max_tokens":99999999999999999999999"#, false),
        ] {
            assert_eq!(passes(&body(more), 1.0), through, "{more}");
        }
    }

    #[test]
    fn an_upstream_that_counts_more_makes_the_gate_narrower() {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#,
            "word ".repeat(400)
        );
        assert!(passes(&body, 1.0));
        assert!(passes(&body, 0.5));
        assert!(!passes(&body, 3.0));
    }
}
