//! The table of known models: context windows, longest answers, and prices of the prompt cache.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prices of prompt tokens, as multiples of an uncached one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Price of a token that is read from the prompt cache.
    pub cache_read: f64,
    /// Price of a token that is written to the prompt cache.
    pub cache_write: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Prices {
            cache_read: 0.1,
            cache_write: 1.0,
        }
    }
}

/// What is known of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Context length, tokens.
    pub window: u64,
    /// The longest prompt, tokens, where it is less than the context length.
    pub max_input: Option<u64>,
    /// The longest answer, tokens.
    pub max_output: Option<u64>,
    /// Prices, if the provider discounts cached tokens.
    pub prices: Option<Prices>,
}

/// One line for each model: the prefix of its name; its context length, longest prompt (where that
/// is less) and longest answer in tokens; the prices of cached tokens as multiples of the price of
/// an uncached token; and the source of the figures. The longest matching prefix wins.
///
/// Sources: `LiteLLM` is the list of models and prices that comes with that release of it
/// (`model_prices_and_context_window.json`), an older one for retired models; `genai-prices` and
/// `models.dev` are lists of the same kind; `spelling` is another spelling of a name in this table;
/// `documentation` is the provider's documentation of the model, or its model card. A figure
/// without a source does not belong here: unknown models have the policy's `default_window`.
const TABLE: &str = include_str!("models.csv");

static MODELS: LazyLock<BTreeMap<&str, Model>> =
    LazyLock::new(|| TABLE.lines().skip(1).filter_map(line).collect());

fn line(line: &str) -> Option<(&str, Model)> {
    let mut cells = line.split(',').map(str::trim);
    let (prefix, window) = (cells.next()?, cells.next()?.parse().ok()?);
    let (max_input, max_output) = (cells.next()?.parse().ok(), cells.next()?.parse().ok());
    let price = |cell: &str| cell.parse::<f64>().ok();
    let (cache_read, cache_write) = (price(cells.next()?), price(cells.next()?));
    let prices = cache_read.map(|cache_read| Prices {
        cache_read,
        cache_write: cache_write.unwrap_or(1.0),
    });
    Some((
        prefix,
        Model {
            window,
            max_input,
            max_output,
            prices,
        },
    ))
}

/// The significant part of a model's name, in lower case. It leaves out a provider's path
/// (`openai/gpt-4o`) and Bedrock's regions and providers (`us.anthropic.claude-…`), which are words
/// of letters alone.
pub(in crate::core) fn plain(model: &str) -> String {
    let mut name = model.rsplit('/').next().unwrap_or(model);
    while let Some((_, rest)) = name
        .split_once('.')
        .filter(|(word, _)| word.bytes().all(|b| b.is_ascii_alphabetic()))
    {
        name = rest;
    }
    name.to_ascii_lowercase()
}

/// Length of the longest prefix in the table, in bytes. It bounds the look-up, because clients
/// choose the names of models and may send very long ones.
static LONGEST: LazyLock<usize> =
    LazyLock::new(|| MODELS.keys().map(|prefix| prefix.len()).max().unwrap_or(0));

/// The row with the longest prefix of the model's name.
#[must_use]
pub fn known(model: &str) -> Option<Model> {
    row(&plain(model)).map(|(_, known)| known)
}

/// The name that the table has for a model: one of a bounded set, whatever clients call it.
#[must_use]
pub fn table_name(model: &str) -> Option<&'static str> {
    row(&plain(model)).map(|(prefix, _)| prefix)
}

/// The row of a model by its [`plain`] name.
pub(super) fn row(name: &str) -> Option<(&'static str, Model)> {
    let longest = name.floor_char_boundary(*LONGEST);
    let mut name = name.get(..longest)?;
    loop {
        // The last entry that does not come after the name: a prefix of the name that is in the
        // table is a prefix of this entry as well.
        let up_to = (Bound::Unbounded, Bound::Included(name));
        let (prefix, known) = MODELS.range::<str, _>(up_to).next_back()?;
        if name.starts_with(prefix) {
            return Some((*prefix, *known));
        }
        let both = prefix.bytes().zip(name.bytes());
        name = name.get(..both.take_while(|(one, other)| one == other).count())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_can_be_read() {
        let lines = TABLE.lines().skip(1).count();
        assert!(
            lines > 100 && MODELS.len() == lines,
            "{} of {lines}",
            MODELS.len()
        );
        for (prefix, model) in MODELS.iter() {
            assert!(*prefix == plain(prefix) && !prefix.is_empty(), "{prefix}");
            assert!((1_000..20_000_000).contains(&model.window), "{prefix}");
            assert!(
                model.max_input.is_none_or(|input| input < model.window),
                "{prefix}"
            );
            assert!(
                model
                    .prices
                    .is_none_or(|prices| prices.cache_read <= 1.0 && prices.cache_write >= 1.0),
                "{prefix}"
            );
        }
    }

    const SOURCES: [&str; 5] = [
        "LiteLLM",
        "genai-prices",
        "models.dev",
        "spelling",
        "documentation",
    ];

    #[test]
    fn every_line_of_the_table_names_its_source() {
        for line in TABLE.lines().skip(1) {
            let source = line.rsplit(',').next().unwrap();
            let list = source.split(' ').next().unwrap();
            assert!(SOURCES.contains(&list), "{line}");
            if list == "spelling" {
                let known = MODELS
                    .iter()
                    .filter(|(prefix, _)| !line.starts_with(**prefix));
                let bare = |name: &str| name.replace(['-', '_', '.', ':'], "");
                let (name, window) = line.split_once(',').unwrap();
                let window: u64 = window.split(',').next().unwrap().parse().unwrap();
                let mut same = known.filter(|(prefix, _)| bare(prefix) == bare(name));
                assert!(same.any(|(_, model)| model.window == window), "{line}");
            }
        }
    }

    #[test]
    fn prompts_may_be_shorter_than_the_window() {
        let gpt_5 = known("gpt-5-2025-08-07").unwrap();
        assert_eq!((gpt_5.window, gpt_5.max_input), (400_000, Some(272_000)));
        assert_eq!(known("gpt-4o").unwrap().max_input, None);
    }

    #[test]
    fn a_name_of_a_megabyte_is_looked_up() {
        // With work for every pair of its bytes, this test would not end.
        assert_eq!(known(&"x".repeat(1 << 20)), None);
        assert_eq!(known(&"a.".repeat(1 << 19)), None);
        assert!(known(&format!("gpt-4o-{}", "x".repeat(1 << 20))).is_some());
    }

    #[test]
    fn the_longest_prefix_wins() {
        let window = |name| known(name).map(|model| model.window);
        assert_eq!(window("gpt-4o-2024-08-06"), Some(128_000));
        assert_eq!(window("gpt-4-0613"), Some(8_192));
        assert_eq!(window("openai/gpt-4.1-mini"), Some(1_047_576));
        assert_eq!(
            window("us.anthropic.claude-sonnet-4-20250514-v1:0"),
            Some(200_000)
        );
        assert_eq!(
            window("bedrock/meta.llama3-1-70b-instruct-v1:0"),
            Some(131_072)
        );
        assert_eq!(window("amazon.nova-pro-v1:0"), Some(300_000));
        assert_eq!(
            (window("..."), window(""), window("a.")),
            (None, None, None)
        );
        assert_eq!(window("smollm2"), None);
    }
}
