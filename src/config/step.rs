//! The steps of a policy's ladder as an operator writes them: a strategy's name, or a table of that name with options.

use schemars::JsonSchema;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// `policy.target`, `policy.min_gain`, `token_budget.budget`: one of the two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Amount {
    /// Share of window − reserve.
    pub ratio: Option<f64>,
    /// Tokens.
    pub tokens: Option<u64>,
}

/// What every step can be limited to.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// See `tools`.
    pub tools: &'a [String],
    /// See `exclude_tools`.
    pub exclude_tools: &'a [String],
    /// See `older_than`.
    pub older_than: u64,
}

/// Declares the options of a strategy with their defaults, and behind them those that every strategy has; then the enum
/// of all strategies.
macro_rules! steps {
    ($($(#[$doc:meta])* $variant:ident $name:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
            #[serde(default, deny_unknown_fields)]
            pub struct $variant {
                $($(#[$field_doc])* pub $field: $type,)*
                /// Only exchanges, or results, of tools so named; empty for all. `*` and `?` are wild.
                pub tools: Vec<String>,
                /// Not those of tools so named.
                pub exclude_tools: Vec<String>,
                /// Not the newest so many messages of the conversation.
                pub older_than: u64,
            }

            impl Default for $variant {
                fn default() -> Self {
                    $variant { $($field: $default,)* tools: Vec::new(), exclude_tools: Vec::new(), older_than: 0 }
                }
            }
        )*

        /// A step of `policy.ladder`: a name, or a table of that name with options.
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Step {
            $($(#[$doc])* $variant($variant),)*
        }

        /// The names there are.
        pub(super) const STEPS: &[&str] = &[$($name),*];

        impl Step {
            /// The strategy of this name, with its defaults.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Step::$variant($variant::default())),)*
                    _ => None,
                }
            }

            /// Its name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Step::$variant(_) => $name,)*
                }
            }

            /// What it is limited to.
            #[must_use]
            pub fn scope(&self) -> Scope<'_> {
                match self {
                    $(Step::$variant(step) => Scope {
                        tools: &step.tools,
                        exclude_tools: &step.exclude_tools,
                        older_than: step.older_than,
                    },)*
                }
            }

            fn read<'de, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Self, A::Error> {
                match name {
                    $($name => Ok(Step::$variant(map.next_value()?)),)*
                    _ => Err(de::Error::unknown_field(name, STEPS)),
                }
            }
        }
    };
}

steps! {
    /// Repeated results and blocks become a reference to their newest copy.
    Dedupe "dedupe" {
        /// Whether runs of lines are compared too, not only whole results.
        blocks: bool = true,
    }
    /// JSON results without white space, lists of like objects as tables; terminal noise goes from other results.
    Minify "minify" {
        /// Whether JSON is written shorter.
        json: bool = true,
        /// Whether terminal escapes, progress lines, trailing blanks and repeated lines go.
        text: bool = true,
    }
    /// Large tool results are cut, sampled or outlined.
    TrimResults "trim_results" {
        /// Results up to the size of `truncate` are left alone by every option here.
        skip_small: bool = true,
        /// The size from which on a result is large, and what stays of a large text.
        truncate: Truncate = Truncate::default(),
        /// Large JSON becomes an outline: type, length, keys, first items.
        outline: Option<Outline> = None,
        /// Of large lists only some items stay.
        sample: Option<Sample> = None,
    }
    /// Old tool results become a placeholder.
    ClearResults "clear_results" {
        /// The newest results that stay.
        keep: usize = 3,
        /// The newest results up to this many tokens stay too.
        keep_tokens: u64 = 0,
        /// Whether the arguments of calls whose results may be cleared become {}.
        clear_inputs: bool = false,
        /// Tokens that clearing must save, or nothing is cleared.
        clear_at_least: u64 = 0,
    }
    /// Old images, audio, files and reasoning go.
    Strip "strip" {
        /// Whether images become a text stub.
        images: bool = true,
        /// Whether audio becomes a text stub.
        audio: bool = true,
        /// Whether files become a text stub.
        files: bool = true,
        /// Whether reasoning fields go, where the model family allows it.
        reasoning: bool = true,
    }
    /// Failed calls that were overcome later shrink to a line.
    CollapseErrors "collapse_errors" {}
    /// Older turns become one user message: a transcript of what was asked, called and answered.
    Coalesce "coalesce" {
        /// The newest calls that are shown; the rest is counted.
        tool_call_limit: usize = 20,
        /// The newest outputs that are shown; the rest is counted.
        output_limit: usize = 15,
        /// Items shown of a list or object in arguments.
        items: usize = 3,
        /// Characters shown of a text in arguments.
        argument_chars: usize = 80,
        /// Characters shown of an output or a message.
        chars: usize = 400,
    }
    /// Older exchanges become an extract of what may be needed.
    Digest "digest" {}
    /// Older turns become a summary by a model, which is prepared before it is needed. See `[summarizer]`.
    Summarize "summarize" {
        /// What is not summarised: recent tokens (20000 in a window of 128000, less in smaller ones, when nothing is given
        /// here; at most half of the target), turns, or messages; whatever any of these asks for, in whole exchanges.
        keep: Recent = Recent::default(),
        /// Share of window − reserve from which on a summary is prepared in the background.
        prepare_at: f64 = 0.65,
        /// How long a request waits for a summary that is not ready; with "0s" the rest of the ladder acts at once.
        wait: String = "0s".to_owned(),
        /// The longest summary, tokens; at most a quarter of the target.
        max_tokens: u64 = 4_096,
        /// Updates after which a summary is made anew from the originals, where those fit the summariser's window.
        refresh_every: u32 = 4,
        /// Characters of a result, or of a call's arguments, that the summariser is shown.
        result_limit: usize = 2_000,
        /// Share of the target that Baler may add to a summary itself: lists of files, and an extract as `digest` makes it.
        facts: f64 = 0.1,
        /// Share of the identifiers and numbers of a summary that may stand nowhere in what it is about; above it the
        /// summary is thrown away.
        max_ungrounded: f64 = 0.3,
        /// Whose message the summary is: "user", "system" or "developer".
        role: SummaryRole = SummaryRole::User,
        /// Which calls read and change files, the first that fits; rules for the common agents' tools when not given.
        artifacts: Option<Vec<Artifact>> = None,
    }
    /// The newest turns, exchanges or messages stay: one of the three; 20 messages when none is given.
    SlidingWindow "sliding_window" {
        /// Turns that stay.
        turns: Option<u64> = None,
        /// Exchanges that stay.
        exchanges: Option<u64> = None,
        /// Messages that stay, rounded up to whole exchanges.
        messages: Option<u64> = None,
    }
    /// The oldest exchanges go until the rest fits.
    TokenBudget "token_budget" {
        /// Down to here; the policy's target when not given.
        budget: Option<Amount> = None,
        /// Share of the budget above which anything is done. Below 1 exchanges go down to this share of the budget.
        threshold: f64 = 1.0,
    }
    /// The span goes to a service of the operator's, whose answer takes its place when it is valid.
    Webhook "webhook" {
        /// Where it is posted.
        url: String = String::new(),
        /// Time for the answer.
        timeout: String = "2s".to_owned(),
        /// The longest answer, bytes.
        max_bytes: u64 = 1 << 20,
    }
}

/// `summarize.keep`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recent {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
    /// Messages.
    pub messages: Option<u64>,
}

/// `summarize.role`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SummaryRole {
    /// The user's, marked as data.
    User,
    /// The system's.
    System,
    /// The developer's.
    Developer,
}

/// An entry of `summarize.artifacts`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The tool's name, whatever its case; `*` and `?` are wild.
    pub tool: String,
    /// The argument that names the file, holds a list of files, or a patch; `a.b` is the member b of the argument a, `a|b`
    /// either of both.
    pub argument: String,
    /// "read" or "write".
    pub kind: Touch,
    /// Only calls with these arguments.
    #[serde(default)]
    pub when: std::collections::BTreeMap<String, String>,
}

/// `summarize.artifacts.kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Looks at it.
    Read,
    /// Makes, changes or removes it.
    Write,
}

/// `trim_results.truncate`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Truncate {
    /// Whether `size`, `head` and `tail` are characters or tokens.
    pub unit: Unit,
    /// Results above this are large.
    pub size: u64,
    /// What stays of a large text's beginning. Of JSON about head and tail together stay, in the same proportion, and
    /// with its marks never more than `size`: small members whole, the rest shortened. With 0 here and in `tail`
    /// nothing stays but the mark.
    pub head: u64,
    /// What stays of its end.
    pub tail: u64,
}

/// `trim_results.truncate.unit`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Characters.
    Chars,
    /// Tokens.
    Tokens,
}

/// `trim_results.outline`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outline {
    /// Items and keys shown at each level.
    pub items: usize,
    /// Levels shown.
    pub depth: usize,
    /// Characters above which the items are left out.
    pub chars: usize,
}

/// `trim_results.sample`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sample {
    /// Items that stay.
    pub items: usize,
    /// Which ones.
    pub pick: Pick,
}

/// `trim_results.sample.pick`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The first ones.
    First,
    /// The last ones.
    Last,
    /// Evenly spread, first and last among them.
    Spread,
}

impl Default for Truncate {
    fn default() -> Self {
        Truncate {
            unit: Unit::Chars,
            size: 4_000,
            head: 1_200,
            tail: 800,
        }
    }
}

impl Default for Outline {
    fn default() -> Self {
        Outline {
            items: 3,
            depth: 3,
            chars: 500,
        }
    }
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            items: 5,
            pick: Pick::First,
        }
    }
}

impl<'de> Deserialize<'de> for Step {
    /// Accepts a bare name as well as a table, and names the key where an option is wrong.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StepVisitor;
        impl<'de> Visitor<'de> for StepVisitor {
            type Value = Step;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a strategy's name, or a table of one with options")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Step, E> {
                Step::named(name).ok_or_else(|| E::unknown_variant(name, STEPS))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Step, A::Error> {
                let Some(name) = map.next_key::<String>()? else {
                    return Err(de::Error::invalid_length(0, &self));
                };
                let step = Step::read(&name, &mut map)?;
                match map.next_key::<String>()? {
                    None => Ok(step),
                    Some(_) => Err(de::Error::invalid_length(2, &"one strategy a table")),
                }
            }
        }
        deserializer.deserialize_any(StepVisitor)
    }
}
