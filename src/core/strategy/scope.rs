//! The limits of a step: tools by name, and messages older than the newest n.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::{Exchange, Role};
use crate::core::edit::{Draft, Zone};
use crate::core::text::NamePatterns;
use crate::core::wire::chat::Message;

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
        let messages = draft.conversation().messages;
        let mut span = draft.standing(Zone::Span);
        span.retain(|exchange| {
            let calls = messages
                .get(exchange.first..exchange.end)
                .unwrap_or_default();
            let mut names = calls.iter().flat_map(names_called);
            self.is_old(draft, exchange.end)
                && match (self.tools(), self.excluded()) {
                    (None, None) => true,
                    (Some(tools), None) => names.any(|name| tools.is_match(&name)),
                    (None, Some(excluded)) => !names.any(|name| excluded.is_match(&name)),
                    (Some(tools), Some(excluded)) => {
                        let names: Vec<String> = names.collect();
                        names.iter().any(|name| tools.is_match(name))
                            && !names.iter().any(|name| excluded.is_match(name))
                    }
                }
        });
        span
    }

    /// The tool results of the span that the step may touch, oldest first, each with its exchange.
    pub(super) fn results(&self, draft: &Draft<'_>) -> Vec<(Exchange, usize)> {
        let messages = draft.conversation().messages;
        let mut results = Vec::new();
        for exchange in draft.standing(Zone::Span) {
            results.extend(
                (exchange.first..exchange.end)
                    .filter(|at| is_result(messages, *at))
                    .map(|at| (exchange, at)),
            );
        }
        results.retain(|(exchange, at)| self.covers(draft, exchange, *at));
        results
    }

    fn tools(&self) -> Option<&NamePatterns> {
        Some(&self.tools).filter(|patterns| !patterns.is_empty())
    }

    fn excluded(&self) -> Option<&NamePatterns> {
        Some(&self.exclude_tools).filter(|patterns| !patterns.is_empty())
    }

    /// Whether the step may touch the result at `at`.
    pub(super) fn covers(&self, draft: &Draft<'_>, exchange: &Exchange, at: usize) -> bool {
        if !self.is_old(draft, at + 1) {
            return false;
        }
        if self.tools().is_none() && self.excluded().is_none() {
            return true;
        }
        let Some(name) = name_of_result(draft.conversation().messages, exchange, at) else {
            return self.tools().is_none();
        };
        self.tools().is_none_or(|tools| tools.is_match(&name))
            && !self.excluded().is_some_and(|tools| tools.is_match(&name))
    }

    /// Whether what ends at `end` is older than the newest messages that are left alone.
    pub(super) fn is_old(&self, draft: &Draft<'_>, end: usize) -> bool {
        end.saturating_add(self.older_than) <= draft.conversation().messages.len()
    }
}

/// Whether a message is the result of a call.
pub(super) fn is_result(messages: &[Message<'_>], at: usize) -> bool {
    messages
        .get(at)
        .is_some_and(|message| matches!(message.role, Role::Tool | Role::Function))
}

/// The name of the tool whose result stands at `at`.
pub(super) fn name_of_result(
    messages: &[Message<'_>],
    exchange: &Exchange,
    at: usize,
) -> Option<String> {
    let (call, result) = (messages.get(exchange.first)?, messages.get(at)?);
    let called = call
        .calls
        .iter()
        .find(|call| Some(&call.id) == result.answers.as_ref())
        .map(|call| call.name.as_ref());
    called
        .map(str::to_owned)
        .or_else(|| result.name.as_deref().map(str::to_owned))
        .or_else(|| legacy_name(call))
}

fn names_called(message: &Message<'_>) -> Vec<String> {
    let calls = message.calls.iter().map(|call| call.name.to_string());
    calls.chain(legacy_name(message)).collect()
}

fn legacy_name(message: &Message<'_>) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Name {
        name: String,
    }
    serde_json::from_str::<Name>(message.function_call?)
        .ok()
        .map(|call| call.name)
}
