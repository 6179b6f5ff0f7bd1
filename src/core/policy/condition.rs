//! Triggers as CEL expressions: a pure function of a read-only view of the request.
//!
//! Amounts of tokens are doubles, so that an expression can contain shares of them (`total_tokens >
//! budget * 0.8`); CEL itself never mixes whole numbers and doubles in arithmetic.

use std::collections::HashMap;
use std::panic::catch_unwind;

use cel::{Context, Program, Value};

use crate::core::conversation::{as_float, ratio};

/// The longest expression (bytes).
const LONGEST: usize = 2_048;
/// The variables of an expression.
const VARIABLES: [&str; 7] = [
    "total_tokens",
    "budget",
    "window",
    "occupancy",
    "messages",
    "model",
    "headers",
];

/// A compiled expression.
pub struct Condition {
    program: Program,
    reads_messages: bool,
    reads_headers: bool,
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Condition")
    }
}

/// The view of one message that an expression has.
#[derive(Debug, Clone, Copy)]
pub struct SeenMessage {
    /// The index in the client's list, from 0.
    pub seq: usize,
    /// The wire format's word for its role.
    pub role: &'static str,
    /// Its prompt tokens.
    pub tokens: u64,
}

/// The view of a request that an expression has.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct ConditionView<'v> {
    /// Prompt tokens.
    pub total_tokens: u64,
    /// window − reserve.
    pub budget: u64,
    /// The context length.
    pub window: u64,
    /// The messages as they would be sent.
    pub messages: &'v dyn Fn() -> Vec<SeenMessage>,
    /// The request's model and headers.
    pub request: &'v RequestFacts,
}

/// The facts about a request besides its messages.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// The model.
    pub model: String,
    /// The headers, names in lower case; those with credentials left out.
    pub headers: HashMap<String, String>,
}

impl Condition {
    /// Compiles an expression and tries it on requests of several kinds.
    ///
    /// # Errors
    /// The problem, in words: too long, not CEL, an unknown name, a type that does not fit.
    pub fn compile(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} bytes"));
        }
        // The parser may panic; a configuration is refused with words all the same.
        let program = catch_unwind(|| Program::compile(text))
            .map_err(|_| "is not a CEL expression".to_owned())?
            .map_err(|errors| {
                format!(
                    "is not a CEL expression: {}",
                    errors.to_string().lines().next().unwrap_or_default()
                )
            })?;
        let (reads_messages, reads_headers) = {
            let references = program.references();
            if let Some(unknown) = unknown(&references.variables(), text) {
                return Err(format!(
                    "names \"{unknown}\"; known here: {}",
                    VARIABLES.join(", ")
                ));
            }
            (
                references.has_variable("messages"),
                references.has_variable("headers"),
            )
        };
        let condition = Condition {
            program,
            reads_messages,
            reads_headers,
        };
        condition.try_out()?;
        Ok(condition)
    }

    /// Evaluates the expression on requests of several sizes.
    fn try_out(&self) -> Result<(), String> {
        for (tokens, count) in [(0, 0), (1, 1), (90_000, 40), (1_000_000, 200)] {
            let roles = ["system", "user", "assistant", "tool"];
            let messages = || {
                (0..count)
                    .zip(roles.into_iter().cycle())
                    .map(|(seq, role)| SeenMessage {
                        seq,
                        role,
                        tokens: tokens / (count as u64 + 1),
                    })
                    .collect()
            };
            let view = ConditionView {
                total_tokens: tokens,
                budget: 100_000,
                window: 128_000,
                messages: &messages,
                request: &RequestFacts::default(),
            };
            // A key that one request lacks another may have; a type that does not fit is wrong for
            // all of them.
            if let Err(error) = self.evaluate(&view)
                && !error.starts_with(MISSING)
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether the expression reads the request's headers; no other replica knows those of an
    /// earlier request.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    /// Whether the expression reads the list of messages.
    #[must_use]
    pub fn reads_messages(&self) -> bool {
        self.reads_messages
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// The problem, in words: a missing key, a type that does not fit, a number that overflows.
    pub fn evaluate(&self, view: &ConditionView<'_>) -> Result<bool, String> {
        let mut context = Context::default();
        let number = |tokens: u64| Value::Float(as_float(tokens));
        context.add_variable_from_value("total_tokens", number(view.total_tokens));
        context.add_variable_from_value("budget", number(view.budget));
        context.add_variable_from_value("window", number(view.window));
        context.add_variable_from_value(
            "occupancy",
            Value::Float(ratio(view.total_tokens, view.budget)),
        );
        context.add_variable_from_value("model", view.request.model.clone());
        if self.reads_headers {
            context.add_variable_from_value("headers", view.request.headers.clone());
        }
        if self.reads_messages {
            let messages: Vec<Value> = (view.messages)()
                .into_iter()
                .map(|seen| shown(seen, number(seen.tokens)))
                .collect();
            context.add_variable_from_value("messages", messages);
        }
        match self.program.execute(&context) {
            Ok(Value::Bool(fires)) => Ok(fires),
            Ok(other) => Err(format!("gives a {} and not a truth value", other.type_of())),
            Err(cel::ExecutionError::NoSuchKey(key)) => Err(format!("{MISSING} \"{key}\"")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The beginning of the error for a missing key.
const MISSING: &str = "there is no key";

fn shown(seen: SeenMessage, tokens: Value) -> Value {
    let seq = Value::Int(i64::try_from(seen.seq).unwrap_or(i64::MAX));
    let members: HashMap<&str, Value> = [
        ("seq", seq),
        ("role", Value::from(seen.role)),
        ("tokens", tokens),
    ]
    .into_iter()
    .collect();
    Value::Map(members.into())
}

/// The first name that is neither a variable nor bound by a macro of the expression itself
/// (`messages.all(m, …)`).
fn unknown<'n>(names: &[&'n str], text: &str) -> Option<&'n str> {
    let bound = |name: &str| {
        ["all(", "exists(", "exists_one(", "map(", "filter("]
            .iter()
            .any(|open| {
                text.split(open).skip(1).any(|rest| {
                    rest.trim_start()
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.trim_start().starts_with(','))
                })
            })
    };
    let mut names: Vec<&str> = names.to_vec();
    names.sort_unstable();
    names
        .into_iter()
        .find(|name| !VARIABLES.contains(name) && !name.starts_with('@') && !bound(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(messages: usize) -> Result<bool, String> {
        let when =
            Condition::compile("total_tokens > budget * 0.8 && messages.size() > 20").unwrap();
        let list = || {
            (0..messages)
                .map(|seq| SeenMessage {
                    seq,
                    role: "user",
                    tokens: 5,
                })
                .collect()
        };
        when.evaluate(&ConditionView {
            total_tokens: 900,
            budget: 1_000,
            window: 1_200,
            messages: &list,
            request: &RequestFacts::default(),
        })
    }

    #[test]
    fn sees_tokens_and_messages() {
        assert_eq!(view(21), Ok(true));
        assert_eq!(view(20), Ok(false));
    }

    #[test]
    fn expressions_that_cannot_work_are_refused() {
        for (text, why) in [
            ("total_tokens >", "not a CEL"),
            ("tokens > 5", "names \"tokens\""),
            ("total_tokens > 5 && messages.size() > 'x'", ""),
            ("total_tokens", "truth value"),
            ("budget * 2 > total_tokens", ""),
            (&"x".repeat(3_000), "longer"),
        ] {
            let refused = Condition::compile(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
        for text in [
            "messages.exists(m, m.role == 'tool' && m.tokens > 2000.0)",
            "messages.filter(m, m.role == 'tool').size() > 10",
            "headers['x-team'] == 'a' && occupancy > 0.5",
            "model.startsWith('gpt') && total_tokens > 1000",
        ] {
            Condition::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
}
