//! What is known of well-known models: context windows, prices of the prompt cache, and what their families want on the
//! wire.

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

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// What the model's name begins with, a maker's path (`openai/gpt-4o`) left out.
    prefix: &'static str,
    /// Context length, tokens.
    pub window: u64,
    /// Prices, where its maker discounts cached tokens.
    pub prices: Option<Prices>,
    /// What its family wants.
    pub family: Family,
}

const fn model(prefix: &'static str, window: u64, cache_read: f64, cache_write: f64, family: Family) -> Model {
    let prices = if cache_read < 1.0 { Some(Prices { cache_read, cache_write }) } else { None };
    Model { prefix, window, prices, family }
}

const PLAIN: Family = Family { alternates: false, wants_reasoning: false };
const ALTERNATES: Family = Family { alternates: true, wants_reasoning: false };
const REASONS: Family = Family { alternates: false, wants_reasoning: true };

/// The longest prefix wins. A price of 1 for cached tokens means that none is known.
const MODELS: [Model; 42] = [
    model("gpt-3.5-turbo", 16_385, 1.0, 1.0, PLAIN),
    model("gpt-4", 8_192, 1.0, 1.0, PLAIN),
    model("gpt-4-turbo", 128_000, 1.0, 1.0, PLAIN),
    model("gpt-4-1106", 128_000, 1.0, 1.0, PLAIN),
    model("gpt-4-0125", 128_000, 1.0, 1.0, PLAIN),
    model("gpt-4-32k", 32_768, 1.0, 1.0, PLAIN),
    model("gpt-4o", 128_000, 0.5, 1.0, PLAIN),
    model("gpt-4.1", 1_047_576, 0.25, 1.0, PLAIN),
    model("gpt-4.5", 128_000, 0.5, 1.0, PLAIN),
    model("gpt-5", 400_000, 0.1, 1.0, PLAIN),
    model("gpt-5-chat", 128_000, 0.1, 1.0, PLAIN),
    model("gpt-oss", 131_072, 1.0, 1.0, PLAIN),
    model("o1", 200_000, 0.5, 1.0, PLAIN),
    model("o1-mini", 128_000, 0.5, 1.0, PLAIN),
    model("o1-preview", 128_000, 0.5, 1.0, PLAIN),
    model("o3", 200_000, 0.25, 1.0, PLAIN),
    model("o3-mini", 200_000, 0.5, 1.0, PLAIN),
    model("o4-mini", 200_000, 0.25, 1.0, PLAIN),
    model("claude", 200_000, 0.1, 1.25, PLAIN),
    model("gemini-1.5-pro", 2_097_152, 0.25, 1.0, PLAIN),
    model("gemini-1.5-flash", 1_048_576, 0.25, 1.0, PLAIN),
    model("gemini-2", 1_048_576, 0.25, 1.0, PLAIN),
    model("gemini-3", 1_048_576, 0.1, 1.0, PLAIN),
    model("gemma", 8_192, 1.0, 1.0, ALTERNATES),
    model("gemma-3", 131_072, 1.0, 1.0, ALTERNATES),
    model("gemma3", 131_072, 1.0, 1.0, ALTERNATES),
    model("deepseek", 128_000, 0.1, 1.0, REASONS),
    model("mistral", 32_768, 1.0, 1.0, ALTERNATES),
    model("mistral-large", 128_000, 1.0, 1.0, ALTERNATES),
    model("mistral-medium", 128_000, 1.0, 1.0, ALTERNATES),
    model("mistral-small", 128_000, 1.0, 1.0, ALTERNATES),
    model("mixtral", 32_768, 1.0, 1.0, ALTERNATES),
    model("ministral", 128_000, 1.0, 1.0, ALTERNATES),
    model("codestral", 256_000, 1.0, 1.0, ALTERNATES),
    model("devstral", 128_000, 1.0, 1.0, ALTERNATES),
    model("llama-3.1", 131_072, 1.0, 1.0, PLAIN),
    model("llama-3.3", 131_072, 1.0, 1.0, PLAIN),
    model("llama3-8b-8192", 8_192, 1.0, 1.0, PLAIN),
    model("llama3-70b-8192", 8_192, 1.0, 1.0, PLAIN),
    model("grok-3", 131_072, 0.25, 1.0, PLAIN),
    model("grok-4", 256_000, 0.25, 1.0, PLAIN),
    model("kimi-k2", 262_144, 0.25, 1.0, REASONS),
];

/// The line of a model, by the longest known prefix of its name, a maker's path (`openai/gpt-4o`) left out.
#[must_use]
pub fn known(model: &str) -> Option<&'static Model> {
    let name = model.rsplit('/').next().unwrap_or(model);
    MODELS.iter().filter(|model| name.starts_with(model.prefix)).max_by_key(|model| model.prefix.len())
}

#[cfg(test)]
mod tests {
    use super::known;

    #[test]
    fn the_longest_prefix_wins() {
        let window = |name| known(name).map(|model| model.window);
        assert_eq!(window("gpt-4o-2024-08-06"), Some(128_000));
        assert_eq!(window("gpt-4-0613"), Some(8_192));
        assert_eq!(window("openai/gpt-4.1-mini"), Some(1_047_576));
        assert_eq!(window("smollm2"), None);
    }
}
