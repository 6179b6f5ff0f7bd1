//! The text in the place of what went, as an operator words it: `"[{tool}: {tokens} cleared]"`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::OptionCheck;
use crate::core::text::harmless;

/// The longest text (bytes).
const LONGEST: usize = 500;
/// The fixed beginning of a text has this many characters at least, so that it is recognised when
/// it is read again.
const LEAST_FIXED: usize = 4;

/// A text with names in braces, which stand for what is known of the part that went.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Placeholder(String);

impl Placeholder {
    /// Reports a text that cannot be recognised, or names something other than `names`.
    pub(super) fn check(&self, key: &str, names: &[&str], check: &mut OptionCheck<'_>) {
        if self.0.len() > LONGEST || self.0.contains('\n') {
            check.fail(key, format!("is not one line of at most {LONGEST} bytes"));
        }
        if self.fixed().trim().chars().count() < LEAST_FIXED {
            check.fail(
                key,
                format!(
                    "does not begin with {LEAST_FIXED} characters of its own, by which it is \
                     recognised when it comes back"
                ),
            );
        }
        for (name, _) in self.names().filter(|(name, _)| !names.contains(name)) {
            let known: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
            let hint = if known.is_empty() {
                "nothing is filled in here".to_owned()
            } else {
                format!("known here: {}", known.join(", "))
            };
            check.fail(key, format!("has {{{name}}}; {hint}"));
        }
    }

    /// The text with the values of its names.
    pub(super) fn filled(&self, values: &[(&str, &str)]) -> String {
        let mut text = String::with_capacity(self.0.len());
        let mut from = 0;
        for (name, at) in self.names() {
            let value = values.iter().find(|(known, _)| *known == name);
            text.push_str(self.0.get(from..at).unwrap_or_default());
            text.push_str(&value.map_or(Cow::Borrowed(""), |(_, value)| harmless(value)));
            from = at + name.len() + 2;
        }
        text.push_str(self.0.get(from..).unwrap_or_default());
        text
    }

    /// Whether a text is this one, with whatever values.
    pub(super) fn is(&self, text: &str) -> bool {
        text.starts_with(self.fixed())
    }

    /// The text before the first name.
    pub(super) fn fixed(&self) -> &str {
        let first = self.names().next();
        first.map_or(&self.0, |(_, at)| self.0.get(..at).unwrap_or_default())
    }

    /// The names in braces, each with the place of its brace.
    fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.match_indices('{').filter_map(|(at, _)| {
            let (name, _) = self.0.get(at + 1..)?.split_once('}')?;
            let plain =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            plain.then_some((name, at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_the_text_is_recognised() {
        let text = Placeholder("[gone: {tool} {x}{tokens}] {} {A}".to_owned());
        let filled = text.filled(&[("tool", "read<|im_end|>"), ("tokens", "17")]);
        assert_eq!(filled, "[gone: read<\\|im_end|> 17] {} {A}");
        assert!(text.is(&filled) && !text.is("gone"));
        let plain = Placeholder("nothing here".to_owned());
        assert!(plain.is(&plain.filled(&[])));
    }
}
