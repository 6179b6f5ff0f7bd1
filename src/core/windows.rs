//! The context windows of well-known models, for policies whose `window` is `auto`.

/// Model name prefixes and their context length in tokens, from the makers' documentation; the longest prefix wins.
const WINDOWS: [(&str, u64); 34] = [
    ("gpt-3.5-turbo", 16_385),
    ("gpt-4", 8_192),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-1106", 128_000),
    ("gpt-4-0125", 128_000),
    ("gpt-4-32k", 32_768),
    ("gpt-4o", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4.5", 128_000),
    ("gpt-5", 400_000),
    ("gpt-5-chat", 128_000),
    ("gpt-oss", 131_072),
    ("o1", 200_000),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("claude", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini-1.5-flash", 1_048_576),
    ("gemini-2", 1_048_576),
    ("gemini-3", 1_048_576),
    ("deepseek-chat", 128_000),
    ("deepseek-reasoner", 128_000),
    ("mistral-large", 128_000),
    ("mistral-small", 128_000),
    ("codestral", 256_000),
    ("llama-3.1", 131_072),
    ("llama-3.3", 131_072),
    ("llama3-8b-8192", 8_192),
    ("llama3-70b-8192", 8_192),
    ("grok-3", 131_072),
    ("grok-4", 256_000),
    ("kimi-k2", 262_144),
];

/// The window of a model, by the longest known prefix of its name, a maker's path (`openai/gpt-4o`) left out.
#[must_use]
pub fn known(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model);
    WINDOWS.iter().filter(|(prefix, _)| name.starts_with(prefix)).max_by_key(|(prefix, _)| prefix.len()).map(|(_, window)| *window)
}

#[cfg(test)]
mod tests {
    use super::known;

    #[test]
    fn the_longest_prefix_wins() {
        assert_eq!(known("gpt-4o-2024-08-06"), Some(128_000));
        assert_eq!(known("gpt-4-0613"), Some(8_192));
        assert_eq!(known("openai/gpt-4.1-mini"), Some(1_047_576));
        assert_eq!(known("smollm2"), None);
    }
}
