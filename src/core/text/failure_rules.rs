//! Signs of failure that an operator adds to the usual ones, by tool.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::{failure_line, is_failure, is_failure_as, tells_of_failure};
use super::operator_patterns::{CaselessPattern, TextPattern};
use crate::core::json::Json;

/// A sign of failure in the results of some tools.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureRule {
    /// The tool's name, in any case; `*` and `?` are wild. When not given: any tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<CaselessPattern>,
    /// A regular expression that matches in results that are failures.
    pub pattern: TextPattern,
}

/// The usual signs of failure, and those of a policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failures<'r> {
    rules: &'r [FailureRule],
}

impl<'r> Failures<'r> {
    /// The usual signs and these.
    #[must_use]
    pub fn new(rules: &'r [FailureRule]) -> Self {
        Failures { rules }
    }

    /// The signs in the results of a tool.
    #[must_use]
    pub fn of<'t>(self, tool: Option<&'t str>) -> ToolFailures<'t>
    where
        'r: 't,
    {
        ToolFailures {
            rules: self.rules,
            tool: tool.unwrap_or_default(),
        }
    }
}

/// The signs of failure in the results of one tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolFailures<'t> {
    rules: &'t [FailureRule],
    tool: &'t str,
}

impl<'t> ToolFailures<'t> {
    /// Whether a result is a failure.
    #[must_use]
    pub fn are(self, text: &str) -> bool {
        is_failure(text) || self.told_by_policy(text)
    }

    /// The same of a result that was read: `json` is what [`Json::parse`] made of it.
    #[must_use]
    pub(in crate::core) fn are_as(self, text: &str, json: Option<&Json>) -> bool {
        is_failure_as(text, json) || self.told_by_policy(text)
    }

    /// Whether a line of a failure reports it.
    #[must_use]
    pub fn tell(self, line: &str) -> bool {
        tells_of_failure(line) || self.told_by_policy(line)
    }

    /// Whether a policy's own sign is in a text.
    #[must_use]
    pub fn told_by_policy(self, text: &str) -> bool {
        self.patterns().any(|pattern| pattern.is_match(text))
    }

    /// The line of a failure that names the cause: where only a policy's pattern tells of it, the
    /// line in which that matches first.
    #[must_use]
    pub fn line(self, text: &str) -> Cow<'_, str> {
        if is_failure(text) {
            return failure_line(text);
        }
        let first = self
            .patterns()
            .filter_map(|pattern| pattern.find(text))
            .min();
        let Some(at) = first else {
            return failure_line(text);
        };
        let begin = text.get(..at).and_then(|before| before.rfind('\n'));
        let line = text.get(begin.map_or(0, |end| end + 1)..).unwrap_or(text);
        let mut lines = line.lines().filter(|line| !line.trim().is_empty());
        Cow::Borrowed(lines.next().unwrap_or(text))
    }

    fn patterns(self) -> impl Iterator<Item = &'t TextPattern> {
        let is_for = move |rule: &&FailureRule| {
            let tool = rule.tool.as_ref();
            tool.is_none_or(|tool| tool.is_match(self.tool))
        };
        self.rules.iter().filter(is_for).map(|rule| &rule.pattern)
    }
}
