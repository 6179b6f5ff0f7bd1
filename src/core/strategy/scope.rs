//! The limits of a step: tools by name, and messages older than the newest n.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::{BlockId, Entry, Exchange};
use crate::core::edit::{Draft, Zone};
use crate::core::text::NamePatterns;

/// Limits that every step has. The default limits nothing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// Only exchanges, or results, of tools with such a name; empty for all. `*` and `?` are wild.
    pub tools: NamePatterns,
    /// Not those of tools with such a name.
    pub exclude_tools: NamePatterns,
    /// Not the newest so many messages of the conversation.
    pub older_than: usize,
}

impl Scope {
    /// The exchanges of the span that the step may touch as a whole, oldest first.
    pub(super) fn span(&self, draft: &Draft<'_>) -> Vec<Exchange> {
        let mut span = draft.in_zone(Zone::Span);
        span.retain(|exchange| self.covers_all_of(draft, exchange));
        span
    }

    /// Whether the limits leave an exchange as a whole to the step, wherever it stands.
    pub(super) fn covers_all_of(&self, draft: &Draft<'_>, exchange: &Exchange) -> bool {
        let messages = draft.conversation().messages;
        let mut names = exchange.of(messages).iter().flat_map(names_called);
        self.is_old(draft, exchange.end)
            && match (self.tools(), self.excluded()) {
                (None, None) => true,
                (Some(tools), None) => names.any(|name| tools.is_match(name)),
                (None, Some(excluded)) => !names.any(|name| excluded.is_match(name)),
                (Some(tools), Some(excluded)) => {
                    let names: Vec<&str> = names.collect();
                    names.iter().any(|name| tools.is_match(name))
                        && !names.iter().any(|name| excluded.is_match(name))
                }
            }
    }

    /// The tool results of the span that the step may touch, oldest first, each with its exchange.
    pub(super) fn results(&self, draft: &Draft<'_>) -> Vec<(Exchange, BlockId)> {
        let mut results = draft.results(draft.in_zone(Zone::Span));
        results.retain(|(exchange, id)| self.covers(draft, exchange, *id));
        results
    }

    /// Patterns of tools that are named and excluded at once.
    pub fn tools_also_excluded(&self) -> impl Iterator<Item = &str> {
        let excluded = |tool: &&str| self.exclude_tools.iter().any(|other| other == *tool);
        self.tools.iter().filter(excluded)
    }

    fn tools(&self) -> Option<&NamePatterns> {
        Some(&self.tools).filter(|patterns| !patterns.is_empty())
    }

    fn excluded(&self) -> Option<&NamePatterns> {
        Some(&self.exclude_tools).filter(|patterns| !patterns.is_empty())
    }

    /// Whether the step may touch a result.
    pub(super) fn covers(&self, draft: &Draft<'_>, exchange: &Exchange, id: BlockId) -> bool {
        if !self.is_old(draft, id.at() + 1) {
            return false;
        }
        if self.tools().is_none() && self.excluded().is_none() {
            return true;
        }
        let messages = draft.conversation().messages;
        let result = messages
            .get(id.at())
            .and_then(|entry| entry.result(id.block));
        let Some(name) = result.and_then(|result| exchange.tool_of(messages, result)) else {
            return self.tools().is_none();
        };
        let matches = |tools: &NamePatterns| tools.is_match(&name);
        self.tools().is_none_or(matches) && !self.excluded().is_some_and(matches)
    }

    /// Whether a part that ends before message `end` is older than the newest messages that are
    /// left alone.
    fn is_old(&self, draft: &Draft<'_>, end: usize) -> bool {
        end.saturating_add(self.older_than) <= draft.conversation().messages.len()
    }
}

/// Whether an exchange is among some that are sorted by their place.
pub(super) fn is_among(sorted: &[Exchange], exchange: &Exchange) -> bool {
    sorted
        .binary_search_by_key(&exchange.first, |other| other.first)
        .is_ok()
}

/// The names of the tools that a message calls.
fn names_called<'e>(entry: &'e Entry<'_>) -> impl Iterator<Item = &'e str> {
    entry
        .calls()
        .filter(|call| call.legacy.is_none() || !call.name.is_empty())
        .map(|call| call.name.as_ref())
}
