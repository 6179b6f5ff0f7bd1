//! Triggers as CEL expressions: a pure function of a read-only view of the request.
//!
//! Amounts of tokens are doubles, so that an expression can contain shares of them (`total_tokens >
//! budget * 0.8`); CEL itself never mixes whole numbers and doubles in arithmetic.

use std::collections::HashMap;
use std::panic::catch_unwind;

use cel::{Context, ExecutionError, Program, Value};

use crate::core::conversation::{MessageKind, as_float, ratio};

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

/// The fields of an element of `messages`.
const FIELDS: [&str; 6] = ["seq", "role", "tokens", "tool", "kind", "chars"];
/// The macros that bind a name to the elements of a list.
const MACROS: [&str; 5] = ["all(", "exists(", "exists_one(", "map(", "filter("];

/// A compiled expression.
pub struct Condition {
    program: Program,
    text: Box<str>,
    reads_messages: bool,
    reads_tools: bool,
    reads_headers: bool,
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Condition")
    }
}

/// The view of one message that an expression has.
#[derive(Debug, Clone, Copy)]
pub struct SeenMessage<'v> {
    /// The index in the client's list, from 0.
    pub seq: usize,
    /// The wire format's word for its role.
    pub role: &'static str,
    /// Its prompt tokens.
    pub tokens: u64,
    /// The name of the tool that it answers for, or that its first call calls; empty without one,
    /// and where [`Condition::reads_tools`] says that nobody asks.
    pub tool: &'v str,
    /// Its kind.
    pub kind: MessageKind,
    /// Characters of its texts and of its calls' arguments.
    pub chars: u64,
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
    pub messages: &'v dyn Fn() -> Vec<SeenMessage<'v>>,
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
        if let Some(field) = unknown_field(text) {
            return Err(format!(
                "names \"{field}\" of a message; known here: {}",
                FIELDS.join(", ")
            ));
        }
        let condition = Condition {
            program,
            text: text.into(),
            reads_messages,
            reads_tools: reads_messages && names_field(text, "tool"),
            reads_headers,
        };
        condition.try_out()?;
        Ok(condition)
    }

    /// Evaluates the expression on requests of several sizes.
    fn try_out(&self) -> Result<(), String> {
        for (tokens, count) in [(0, 0), (1, 1), (90_000, 40), (1_000_000, 200)] {
            let kinds = [
                ("system", MessageKind::Text, ""),
                ("user", MessageKind::Text, ""),
                ("assistant", MessageKind::Call, "read_file"),
                ("tool", MessageKind::Result, "read_file"),
            ];
            let messages = || {
                (0..count)
                    .zip(kinds.into_iter().cycle())
                    .map(|(seq, (role, kind, tool))| SeenMessage {
                        seq,
                        role,
                        tokens: tokens / (count as u64 + 1),
                        tool,
                        kind,
                        chars: tokens * 4 / (count as u64 + 1),
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

    /// Whether the expression reads the tools of messages.
    #[must_use]
    pub fn reads_tools(&self) -> bool {
        self.reads_tools
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// The problem, in words: a missing key, a type that does not fit, a number that overflows. No
    /// word of it comes from the request.
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
            Err(error) => Err(self.problem(&error)),
        }
    }

    /// An error in words, without the values that it came of: those are the request's.
    fn problem(&self, error: &ExecutionError) -> String {
        match error {
            ExecutionError::NoSuchKey(key) if self.text.contains(key.as_str()) => {
                format!("{MISSING} \"{key}\"")
            }
            ExecutionError::NoSuchKey(_) => MISSING.to_owned(),
            ExecutionError::UndeclaredReference(name) => format!("there is no \"{name}\""),
            ExecutionError::NoSuchOverload(overload) => overload.to_string(),
            ExecutionError::NotSupportedAsMethod { method, target } => {
                format!("{method}() is not for a {}", target.type_of())
            }
            ExecutionError::ValuesNotComparable(one, other) => format!(
                "a {} cannot be compared with a {}",
                one.type_of(),
                other.type_of()
            ),
            ExecutionError::UnsupportedBinaryOperator(operator, one, other) => format!(
                "{operator} does not take a {} and a {}",
                one.type_of(),
                other.type_of()
            ),
            ExecutionError::UnsupportedIndex(index, of) => {
                format!("a {} has no {} as an index", of.type_of(), index.type_of())
            }
            ExecutionError::UnsupportedTargetType { target } => {
                format!("a function does not take a {}", target.type_of())
            }
            ExecutionError::InvalidArgumentCount { expected, actual } => {
                format!("a function takes {expected} arguments and not {actual}")
            }
            ExecutionError::FunctionError { function, .. } => format!("{function}() failed"),
            ExecutionError::Overflow(operator, ..) => format!("{operator} overflows"),
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
                "divides by zero".to_owned()
            }
            ExecutionError::IndexOutOfBounds(_) => "an index is beyond its list".to_owned(),
            _ => "cannot be evaluated".to_owned(),
        }
    }
}

/// The beginning of the error for a missing key.
const MISSING: &str = "there is no key";

fn shown(seen: SeenMessage<'_>, tokens: Value) -> Value {
    let seq = Value::Int(i64::try_from(seen.seq).unwrap_or(i64::MAX));
    let members: HashMap<&str, Value> = [
        ("seq", seq),
        ("role", Value::from(seen.role)),
        ("tokens", tokens),
        ("tool", Value::from(seen.tool)),
        ("kind", Value::from(seen.kind.as_str())),
        ("chars", Value::Float(as_float(seen.chars))),
    ]
    .into_iter()
    .collect();
    Value::Map(members.into())
}

/// The first name that is neither a variable nor bound by a macro of the expression itself
/// (`messages.all(m, …)`).
fn unknown<'n>(names: &[&'n str], text: &str) -> Option<&'n str> {
    let bound = |name: &str| {
        MACROS.iter().any(|open| {
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

/// The first field that the text names of a message and that messages do not have: `m.rol` where
/// `m` is bound to `messages`, or `messages[0].rol`. At run time every evaluation would fail.
fn unknown_field(text: &str) -> Option<String> {
    let text = without_strings(text);
    let mut owners: Vec<String> = vec!["]".to_owned()];
    for open in MACROS {
        let lists = text.match_indices(open).filter(|(at, _)| {
            let before = text.get(..*at).unwrap_or_default().trim_end();
            before.ends_with("messages.") || before.ends_with(").") || before.ends_with("].")
        });
        owners.extend(lists.map(|(at, _)| {
            let rest = text.get(at + open.len()..).unwrap_or_default().trim_start();
            word(rest).to_owned()
        }));
    }
    text.match_indices('.').find_map(|(at, _)| {
        let owner = text.get(..at)?.trim_end();
        let field = text.get(at + 1..)?.trim_start();
        let name = word(field);
        let is_call = field.get(name.len()..)?.trim_start().starts_with('(');
        let of_message = owners.iter().any(|name| {
            let before = owner.strip_suffix(name.as_str());
            match before {
                Some(before) if name == "]" => is_element(before),
                Some(before) => !before.ends_with(is_part_of_word),
                None => false,
            }
        });
        let known = FIELDS.contains(&name) || is_call || name.is_empty();
        (of_message && !known).then(|| name.to_owned())
    })
}

/// Whether an expression may name this field of anything: behind a dot, or as an index.
fn names_field(text: &str, field: &str) -> bool {
    text.match_indices(field).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default().trim_end();
        let indexes = before.strip_suffix(['"', '\'']);
        indexes.is_some_and(|before| before.trim_end().ends_with('['))
            || before.ends_with(['.', '?'])
    })
}

/// Whether a text that ends before `]` ends with an index into `messages`.
fn is_element(before: &str) -> bool {
    let list = before.rsplit_once('[').map(|(list, _)| list.trim_end());
    list.is_some_and(|list| list.ends_with("messages"))
}

fn is_part_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// The identifier at the beginning of a text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

/// The text with blanks in the place of its quoted strings.
fn without_strings(text: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    text.chars()
        .map(|c| match quote {
            Some(open) => {
                if c == open && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && !escaped;
                '_'
            }
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                escaped = false;
                '_'
            }
            None => c,
        })
        .collect()
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
                    tool: "",
                    kind: MessageKind::Text,
                    chars: 20,
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
            ("messages.exists(m, m.rol == 'user')", "names \"rol\""),
            (
                "messages.filter(m, m.tokens > 5.0).all(m, m.content == 'x')",
                "\"content\"",
            ),
            (
                "messages.size() > 500 && messages[0].content == 'x'",
                "\"content\"",
            ),
            (&"x".repeat(3_000), "longer"),
        ] {
            let refused = Condition::compile(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
        for text in [
            "messages.exists(m, m.role == 'tool' && m.tokens > 2000.0)",
            "messages.filter(m, m.role == 'tool').size() > 10",
            "headers['x-team'] == 'a' && occupancy > 0.5",
            "messages.exists(m, m.role.startsWith('t')) && model != 'm.rol'",
            "messages.size() > 3 && messages[2].role == 'user'",
            "model.startsWith('gpt') && total_tokens > 1000",
            "messages.exists(m, m.tool == 'shell' && m.kind == 'result' && m.chars > 40000.0)",
        ] {
            Condition::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn the_names_of_tools_are_asked_for_only_where_they_are_read() {
        for (text, reads) in [
            ("messages.exists(m, m.tool == 'shell')", true),
            ("messages.exists(m, m[\"tool\"] == 'shell')", true),
            ("messages.exists(m, m.role == 'tool')", false),
            ("messages.size() > 3", false),
        ] {
            let condition = Condition::compile(text).unwrap();
            assert_eq!(condition.reads_tools(), reads, "{text}");
        }
    }

    #[test]
    fn an_error_has_no_word_of_the_request() {
        let request = RequestFacts {
            model: "private-model".to_owned(),
            headers: [("x-team".to_owned(), "secret-value".to_owned())].into(),
        };
        for (text, why) in [
            ("headers[model] == 'x'", "there is no key"),
            ("headers['x-plan'] == 'x'", "there is no key \"x-plan\""),
            (
                "'x-team' in headers && int(headers['x-team']) > 3",
                "int() failed",
            ),
            ("'x-team' in headers && headers['x-team'] > 3", ""),
            ("'x-team' in headers && headers['x-team'] + 3 > 5", ""),
        ] {
            let condition = Condition::compile(text).unwrap();
            let error = condition
                .evaluate(&ConditionView {
                    total_tokens: 900,
                    budget: 1_000,
                    window: 1_200,
                    messages: &Vec::new,
                    request: &request,
                })
                .expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
            assert!(
                !error.contains("secret") && !error.contains("private"),
                "{text}: {error}"
            );
        }
    }
}
