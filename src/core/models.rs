//! What is known of well-known models: context windows, prices of the prompt cache, and what their families want on the
//! wire.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What a model's family wants of a message list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Family {
    /// User and assistant take turns, tool exchanges aside; two user messages in a row are refused.
    pub alternates: bool,
    /// Reasoning fields on messages with calls must be sent back.
    pub wants_reasoning: bool,
}

/// Prices of prompt tokens, as multiples of an uncached one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Of a token read from the prompt cache.
    pub cache_read: f64,
    /// Of a token that is written to it.
    pub cache_write: f64,
}

/// What is known of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Context length, tokens.
    pub window: u64,
    /// The longest answer, tokens.
    pub max_output: Option<u64>,
    /// Prices, where its maker discounts cached tokens.
    pub prices: Option<Prices>,
}

/// One line a model: what its name begins with, its context length and longest answer in tokens, the prices of cached
/// tokens as multiples of uncached ones, and where the figures are from. The longest prefix wins.
const TABLE: &str = include_str!("models.csv");

static MODELS: LazyLock<HashMap<&str, Model>> = LazyLock::new(|| TABLE.lines().skip(1).filter_map(line).collect());

fn line(line: &str) -> Option<(&str, Model)> {
    let mut cells = line.split(',').map(str::trim);
    let (prefix, window) = (cells.next()?, cells.next()?.parse().ok()?);
    let max_output = cells.next()?.parse().ok();
    let price = |cell: &str| cell.parse::<f64>().ok();
    let (cache_read, cache_write) = (price(cells.next()?), price(cells.next()?));
    let prices = cache_read.map(|cache_read| Prices { cache_read, cache_write: cache_write.unwrap_or(1.0) });
    Some((prefix, Model { window, max_output, prices }))
}

const ALTERNATES: Family = Family { alternates: true, wants_reasoning: false };
const REASONS: Family = Family { alternates: false, wants_reasoning: true };

/// Families whose chat templates or servers are particular, from the templates and the makers' documentation.
const FAMILIES: [(&str, Family); 22] = [
    ("mistral", ALTERNATES),
    ("open-mi", ALTERNATES),
    ("mixtral", ALTERNATES),
    ("ministral", ALTERNATES),
    ("magistral", ALTERNATES),
    ("codestral", ALTERNATES),
    ("devstral", ALTERNATES),
    ("pixtral", ALTERNATES),
    ("gemma", ALTERNATES),
    ("gemma-4", Family { alternates: false, wants_reasoning: true }),
    ("gemma4", Family { alternates: false, wants_reasoning: true }),
    ("llama-2", ALTERNATES),
    ("llama2", ALTERNATES),
    ("codellama", ALTERNATES),
    ("sonar", ALTERNATES),
    ("deepseek", REASONS),
    ("kimi", REASONS),
    ("glm", REASONS),
    ("minimax", REASONS),
    ("gpt-oss", REASONS),
    ("gemini", REASONS),
    ("qwen", REASONS),
];

/// The part of a model's name that counts, in lower case: a maker's path (`openai/gpt-4o`) left out, and Bedrock's
/// regions and makers (`us.anthropic.claude-…`), which are words of letters alone.
pub(super) fn plain(model: &str) -> String {
    let mut name = model.rsplit('/').next().unwrap_or(model);
    while let Some((_, rest)) = name.split_once('.').filter(|(word, _)| word.bytes().all(|b| b.is_ascii_alphabetic())) {
        name = rest;
    }
    name.to_ascii_lowercase()
}

/// Bytes of the longest prefix in the table. A client chooses its model's name, and may choose a long one.
static LONGEST: LazyLock<usize> = LazyLock::new(|| MODELS.keys().map(|prefix| prefix.len()).max().unwrap_or(0));

/// What is known of a model, by the longest known prefix of its name.
#[must_use]
pub fn known(model: &str) -> Option<Model> {
    let name = plain(model);
    (1..=name.len().min(*LONGEST)).rev().find_map(|length| MODELS.get(name.get(..length)?).copied())
}

/// Whether a model lets itself be told a temperature: OpenAI's reasoning models refuse any but their own.
#[must_use]
pub fn takes_temperature(model: &str) -> bool {
    let name = plain(model);
    !["o1", "o3", "o4", "gpt-5"].iter().any(|prefix| name.starts_with(prefix))
}

/// What a model's family wants, as far as known.
#[must_use]
pub fn family(model: &str) -> Family {
    let name = plain(model);
    let known = FAMILIES.iter().filter(|(prefix, _)| name.starts_with(prefix)).max_by_key(|(prefix, _)| prefix.len());
    known.map_or_else(Family::default, |(_, family)| *family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_can_be_read() {
        let lines = TABLE.lines().skip(1).count();
        assert!(lines > 100 && MODELS.len() == lines, "{} of {lines}", MODELS.len());
        for (prefix, model) in MODELS.iter() {
            assert!(*prefix == plain(prefix) && !prefix.is_empty(), "{prefix}");
            assert!((1_000..20_000_000).contains(&model.window), "{prefix}");
            assert!(model.prices.is_none_or(|prices| prices.cache_read <= 1.0 && prices.cache_write >= 1.0), "{prefix}");
        }
    }

    #[test]
    fn a_name_of_a_megabyte_is_looked_up_at_once() {
        let began = std::time::Instant::now();
        assert_eq!(known(&"x".repeat(1 << 20)), None);
        assert_eq!(known(&"a.".repeat(1 << 19)), None);
        assert!(known(&format!("gpt-4o-{}", "x".repeat(1 << 20))).is_some());
        assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[test]
    fn families_are_known_by_name() {
        assert!(family("mistralai/Mistral-Small-3.2").alternates && family("gemma-3-27b").alternates);
        assert!(!family("gemma-4-31b").alternates && !family("gpt-4o").alternates);
        assert!(family("deepseek-chat").wants_reasoning);
    }

    #[test]
    fn the_longest_prefix_wins() {
        let window = |name| known(name).map(|model| model.window);
        assert_eq!(window("gpt-4o-2024-08-06"), Some(128_000));
        assert_eq!(window("gpt-4-0613"), Some(8_192));
        assert_eq!(window("openai/gpt-4.1-mini"), Some(1_047_576));
        assert_eq!(window("us.anthropic.claude-sonnet-4-20250514-v1:0"), Some(200_000));
        assert_eq!(window("bedrock/meta.llama3-1-70b-instruct-v1:0"), Some(131_072));
        assert_eq!(window("amazon.nova-pro-v1:0"), Some(300_000));
        assert_eq!((window("..."), window(""), window("a.")), (None, None, None));
        assert_eq!(window("smollm2"), None);
    }
}
