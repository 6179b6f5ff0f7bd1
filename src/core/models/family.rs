//! Requirements that families of models have on the wire.

use super::table::plain;

/// Requirements of a model family on a message list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Family {
    /// User and assistant messages must alternate, apart from tool exchanges. Two user messages in
    /// a row are refused.
    pub alternates: bool,
    /// Reasoning fields on messages with calls must be sent back.
    pub wants_reasoning: bool,
}

const ALTERNATES: Family = Family {
    alternates: true,
    wants_reasoning: false,
};

const REASONS: Family = Family {
    alternates: false,
    wants_reasoning: true,
};

/// Families with special requirements, taken from their chat templates and the providers'
/// documentation.
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
    (
        "gemma-4",
        Family {
            alternates: false,
            wants_reasoning: true,
        },
    ),
    (
        "gemma4",
        Family {
            alternates: false,
            wants_reasoning: true,
        },
    ),
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

/// The requirements of a model's family, by its [`plain`] name. The longest matching prefix wins;
/// unknown models have none.
pub(super) fn family(name: &str) -> Family {
    let known = FAMILIES
        .iter()
        .filter(|(prefix, _)| name.starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len());
    known.map_or_else(Family::default, |(_, family)| *family)
}

/// Whether a model accepts `temperature`. OpenAI's reasoning models refuse any value but their own.
#[must_use]
pub fn takes_temperature(model: &str) -> bool {
    let name = plain(model);
    !["o1", "o3", "o4", "gpt-5"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_name() {
        let family = |model| family(&plain(model));
        assert!(
            family("mistralai/Mistral-Small-3.2").alternates && family("gemma-3-27b").alternates
        );
        assert!(!family("gemma-4-31b").alternates && !family("gpt-4o").alternates);
        assert!(family("deepseek-chat").wants_reasoning);
    }
}
