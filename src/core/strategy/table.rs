//! The table of strategies. Everything that must name every strategy is made from it: [`Strategy`],
//! names, reading, writing, the JSON schema, checks and dispatch.

use std::collections::HashMap;
use std::sync::LazyLock;

use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::{Error, MapAccess};
use serde::ser::{SerializeMap, Serializer};

use super::keys::{SCOPE_KEYS, StepTable, field_names};
use super::need::Stopped;
use super::options::{OptionCheck, Options, Run};
use super::report::Done;
use super::scope::Scope;
use super::{
    clear_results, coalesce, collapse_errors, dedupe, digest, minify, sliding_window, strip,
    summarize, token_budget, trim_results, webhook,
};
use crate::core::edit::Draft;

macro_rules! strategies {
    ($($variant:ident: $options:ty),+ $(,)?) => {
        /// A strategy with its options.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Strategy {
            $(
                #[doc = concat!("See [`", stringify!($options), "`].")]
                $variant($options),
            )+
        }

        impl Strategy {
            /// The names that a ladder may contain.
            pub const NAMES: &[&str] = &[$(<$options>::NAME),+];

            /// The names of each strategy's own counts, in the order of [`Strategy::NAMES`].
            pub const COUNTS: &[(&str, &[&str])] = &[$((<$options>::NAME, <$options>::COUNTS)),+];

            /// The strategy with this name, with default options.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                $(
                    if name == <$options>::NAME {
                        return Some(Strategy::$variant(<$options>::default()));
                    }
                )+
                None
            }

            /// The name in configuration, logs and metrics.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Strategy::$variant(_) => <$options>::NAME,)+
                }
            }

            /// Whether it runs even when the time for planning is spent.
            pub(super) fn is_quick(&self) -> bool {
                match self {
                    $(Strategy::$variant(_) => <$options>::QUICK,)+
                }
            }

            /// The names of the strategy's own counts, in the order of its reports.
            pub(super) fn counts(&self) -> &'static [&'static str] {
                match self {
                    $(Strategy::$variant(_) => <$options>::COUNTS,)+
                }
            }

            /// Reports every problem of the options.
            pub fn check(&self, check: &mut OptionCheck<'_>) {
                match self {
                    $(Strategy::$variant(options) => Options::check(options, check),)+
                }
            }

            /// Whether the options say what the step keeps, so that the policy's `keep` is not
            /// its default.
            pub(in crate::core) fn keeps_its_own(&self) -> bool {
                match self {
                    $(Strategy::$variant(options) => Options::keeps_its_own(options),)+
                }
            }

            pub(super) fn apply(
                &self,
                run: &Run<'_>,
                draft: &mut Draft<'_>,
            ) -> Result<Done, Stopped> {
                match self {
                    $(Strategy::$variant(options) => Options::apply(options, run, draft),)+
                }
            }

            /// Reads the options of the strategy with this name from the next value of `map`, and
            /// the keys of the scope out of the same table.
            pub(super) fn read<'de, A: MapAccess<'de>>(
                name: &str,
                map: &mut A,
            ) -> Result<(Self, Scope), A::Error> {
                $(
                    if name == <$options>::NAME {
                        let known = KNOWN.get(name).map_or(&[][..], Vec::as_slice);
                        let table = StepTable::<$options>::of(<$options>::NAME, known);
                        let (options, scope) = map.next_value_seed(table)?;
                        return Ok((Strategy::$variant(options), scope));
                    }
                )+
                Err(A::Error::unknown_field(name, Strategy::NAMES))
            }

            /// Writes name, options and scope as the table that [`Strategy::read`] reads.
            pub(super) fn write<S: Serializer>(
                &self,
                scope: &Scope,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(1))?;
                match self {
                    $(
                        Strategy::$variant(options) => {
                            map.serialize_entry(<$options>::NAME, &Scoped { options, scope })?;
                        }
                    )+
                }
                map.end()
            }

            /// Name and option keys of every strategy.
            fn fields() -> Vec<(&'static str, &'static [&'static str])> {
                vec![$((<$options>::NAME, field_names::<$options>())),+]
            }

            /// Name and JSON schema of every strategy's options.
            pub(super) fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
                vec![$((
                    <$options>::NAME,
                    <$options as schemars::JsonSchema>::json_schema(generator),
                )),+]
            }
        }
    };
}

strategies! {
    Dedupe: dedupe::Dedupe,
    Minify: minify::Minify,
    TrimResults: trim_results::TrimResults,
    ClearResults: clear_results::ClearResults,
    Strip: strip::Strip,
    CollapseErrors: collapse_errors::CollapseErrors,
    Coalesce: coalesce::Coalesce,
    Digest: digest::Digest,
    Summarize: summarize::Summarize,
    SlidingWindow: sliding_window::SlidingWindow,
    TokenBudget: token_budget::TokenBudget,
    Webhook: webhook::Webhook,
}

/// For each strategy the keys of its table, those of the scope last.
static KNOWN: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    Strategy::fields()
        .into_iter()
        .map(|(name, fields)| (name, [fields, SCOPE_KEYS].concat()))
        .collect()
});

/// Options and scope in one table.
#[derive(Serialize)]
struct Scoped<'a, O> {
    #[serde(flatten)]
    options: &'a O,
    #[serde(flatten)]
    scope: &'a Scope,
}
