//! The numbers in an error, and which of them are believed.

use std::ops::RangeInclusive;

use regex::Captures;

use crate::core::wire::overflow::kind::Prompt as PromptSize;

/// Windows that are believed, tokens.
const WINDOWS: RangeInclusive<u64> = 1_000..=20_000_000;

/// The numbers that an error names.
#[derive(Debug, Default)]
pub(super) struct Figures {
    window: Option<u64>,
    contradicted: bool,
    pub(super) input_only: bool,
    prompt: Option<PromptSize>,
    total: Option<PromptSize>,
    pub(super) output: Option<u64>,
}

impl Figures {
    /// Notes the numbers of a match, by the names of their groups.
    pub(super) fn note(&mut self, captures: &Captures<'_>) {
        let exact = captures.name("loose").is_none();
        let get = |name| captures.name(name).map(|number| number.as_str());
        for (name, input_only) in [("window", false), ("input", true)] {
            if let Some(number) = get(name) {
                self.window(number, input_only);
            }
        }
        if let Some(number) = get("prompt") {
            self.prompt(number, exact);
        }
        let total = get("total")
            .and_then(count)
            .map(|tokens| PromptSize { tokens, exact });
        self.total = self.total.or(total);
        self.output = self.output.or(get("output").and_then(count));
    }

    /// Notes a window. Two that differ contradict each other.
    pub(super) fn window(&mut self, number: &str, input_only: bool) {
        let Some(window) = count(number).filter(|window| WINDOWS.contains(window)) else {
            return;
        };
        self.contradicted |= self.window.is_some_and(|known| known != window);
        self.window = Some(window);
        self.input_only |= input_only;
    }

    /// Notes the prompt's size; the first one counts.
    pub(super) fn prompt(&mut self, number: &str, exact: bool) {
        self.prompt = self
            .prompt
            .or(count(number).map(|tokens| PromptSize { tokens, exact }));
    }

    /// The window, if all mentions of it agree.
    pub(super) fn agreed_window(&self) -> Option<u64> {
        self.window.filter(|_| !self.contradicted)
    }

    /// The size of the prompt with the tools, which some upstreams list apart: a total less the
    /// answer includes them.
    pub(super) fn whole_prompt(&self) -> Option<PromptSize> {
        let rest = |total: PromptSize| {
            Some(PromptSize {
                tokens: total.tokens.checked_sub(self.output?)?,
                ..total
            })
        };
        self.total
            .and_then(rest)
            .filter(|prompt| prompt.tokens > 0)
            .or(self.prompt)
    }
}

/// The number that a text spells; `None` if it cannot be a count of tokens.
fn count(number: &str) -> Option<u64> {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    digits
        .parse()
        .ok()
        .filter(|count| (1..=u64::from(u32::MAX)).contains(count))
}
