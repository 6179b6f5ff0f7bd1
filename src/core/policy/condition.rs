//! Triggers as CEL expressions: a pure function of a read-only view of the request.
//!
//! Amounts of tokens are doubles, so that shares of them can be written (`total_tokens > budget * 0.8`); CEL itself never
//! mixes whole numbers and doubles in arithmetic.

use std::collections::HashMap;
use std::panic::catch_unwind;

use cel::{Context, Program, Value};

use crate::core::conversation::{as_float, ratio};

/// The longest expression (bytes).
const LONGEST: usize = 2_048;
/// What an expression may name.
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
        f.write_str("When")
    }
}

/// What an expression sees of one message.
#[derive(Debug, Clone, Copy)]
pub struct SeenMessage {
    /// Its place in the client's list, from 0.
    pub seq: usize,
    /// The wire format's word for its role.
    pub role: &'static str,
    /// Its prompt tokens.
    pub tokens: u64,
}

/// What an expression sees of a request.
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
    /// What the request said of itself.
    pub request: &'v RequestFacts,
}

/// What an expression may know of a request beside its messages.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// Its model.
    pub model: String,
    /// Its headers, names in lower case; those with credentials left out.
    pub headers: HashMap<String, String>,
}

impl Condition {
    /// Compiles an expression and tries it on requests of several kinds.
    ///
    /// # Errors
    /// What is wrong with it: too long, no CEL, an unknown name, a type that does not fit.
    pub fn compile(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} bytes"));
        }
        // The parser is not ours: whatever it makes of a text, a configuration is refused with words.
        let program = catch_unwind(|| Program::compile(text))
            .map_err(|_| "is no CEL expression".to_owned())?
            .map_err(|errors| {
                format!(
                    "is no CEL expression: {}",
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
        let when = Condition {
            program,
            reads_messages,
            reads_headers,
        };
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
            // A key that one request lacks another may have; what is wrong with a type is wrong with all of them.
            if let Err(error) = when.evaluate(&view)
                && !error.starts_with(MISSING)
            {
                return Err(error);
            }
        }
        Ok(when)
    }

    /// Whether it reads the request's headers, which no other replica can know of an earlier request.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// What went wrong, in words: a missing key, a type that does not fit, a number that overflows.
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

/// How the error of a key that is not there begins.
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

/// The first name that is neither a variable nor bound by a macro of the expression itself (`messages.all(m, …)`).
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
    fn what_cannot_work_is_refused_at_once() {
        for (text, why) in [
            ("total_tokens >", "no CEL"),
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
