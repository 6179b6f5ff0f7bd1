//! Names that other tools use, and how Baler says it.

/// The table or step that a name stands in (empty: any), the name with `-` in the place of `_`, and
/// what to write instead. The first row that fits counts.
const FOREIGN: [(&str, &str, &str); 62] = [
    ("trigger", "max-tokens", "tokens = 100000"),
    ("trigger", "max-messages", "messages = 40"),
    ("trigger", "fraction", "ratio = 0.8"),
    ("trigger", "threshold", "ratio = 0.8, or tokens = 100000"),
    ("target", "max-tokens", "tokens = 50000"),
    ("target", "fraction", "ratio = 0.5"),
    ("keep", "last", "exchanges = 3, messages = 10, or turns = 3"),
    ("sliding_window", "window-size", "messages = 20"),
    ("sliding_window", "max-messages", "messages = 20"),
    ("sliding_window", "keep-last", "messages = 20"),
    ("sliding_window", "keep-last-n", "messages = 20"),
    (
        "sliding_window",
        "keep",
        "messages = 20, turns = 5, or exchanges = 10",
    ),
    ("clear_results", "keep-last", "keep = 3"),
    ("clear_results", "keep-last-n", "keep = 3"),
    ("token_budget", "max-tokens", "budget = { tokens = 50000 }"),
    (
        "summarize",
        "trigger",
        "prepare_at = 0.65, and trigger of the policy",
    ),
    ("summarizer", "base-url", "url"),
    ("summarizer", "api-base", "url"),
    (
        "summarizer",
        "api-key",
        "api_key_file, or api_key_env with the name of a variable",
    ),
    ("summarizer", "prompt", "prompt_file"),
    ("upstream", "base-url", "url"),
    ("upstream", "api-base", "url"),
    (
        "upstream",
        "api-key",
        "nothing: the client's own key passes through",
    ),
    (
        "upstream",
        "timeout",
        "response_timeout, connect_timeout or idle_timeout",
    ),
    ("listen", "host", "address = \"127.0.0.1:4141\""),
    ("listen", "port", "address = \"127.0.0.1:4141\""),
    ("listen", "bind", "address = \"127.0.0.1:4141\""),
    ("admin", "host", "address = \"127.0.0.1:4142\""),
    ("admin", "port", "address = \"127.0.0.1:4142\""),
    ("", "max-tokens", "trigger = { tokens = 100000 }"),
    (
        "",
        "max-tokens-before-summary",
        "trigger = { tokens = 100000 }",
    ),
    ("", "threshold", "trigger = { ratio = 0.8 }"),
    ("", "threshold-tokens", "trigger = { tokens = 100000 }"),
    ("", "compact-threshold", "trigger = { tokens = 100000 }"),
    ("", "high-water", "trigger = { ratio = 0.8 }"),
    ("", "low-water", "target = { ratio = 0.5 }"),
    ("", "max-messages", "trigger = { messages = 40 }"),
    ("", "messages-to-keep", "keep = { messages = 20 }"),
    ("", "preserve-recent", "keep = { turns = 3 }"),
    ("", "keep-recent", "keep = { turns = 3 }"),
    ("", "keep-recent-tokens", "keep = { tokens = 20000 }"),
    ("", "max-context-tokens", "window = 128000"),
    ("", "max-context-length", "window = 128000"),
    ("", "max-model-len", "window = 128000"),
    ("", "context-window", "window = 128000"),
    ("", "context-length", "window = 128000"),
    ("", "max-input-tokens", "window = 128000"),
    ("", "num-ctx", "window = 128000"),
    ("", "n-ctx", "window = 128000"),
    (
        "",
        "window-size",
        "window = 128000, or a step { sliding_window = { messages = 20 } }",
    ),
    (
        "",
        "keep-last",
        "keep = { messages = 20 }, or keep = 3 of clear_results",
    ),
    (
        "",
        "keep-last-n",
        "keep = { messages = 20 }, or keep = 3 of clear_results",
    ),
    ("", "clear-tool-inputs", "clear_inputs"),
    ("", "println-limit", "output_limit"),
    ("", "strategies", "ladder"),
    ("", "strategy", "ladder"),
    ("", "enabled", "mode = \"enforce\" or \"off\""),
    ("", "shadow", "observe"),
    ("", "dry-run", "observe"),
    ("", "audit", "observe"),
    ("", "clear-tool-uses", "clear_results"),
    ("", "distributed", "spread"),
];

/// How Baler says what other tools call `name`, in the table or step that `path` ends in.
pub(super) fn said_here(name: &str, path: &[String]) -> Option<&'static str> {
    let name = name.replace('_', "-");
    let is_index = |part: &&String| part.bytes().all(|b| b.is_ascii_digit());
    let place = path.iter().rev().find(|part| !is_index(part));
    let fits = |wanted: &str| wanted.is_empty() || place.is_some_and(|place| place == wanted);
    let mut known = FOREIGN.iter();
    known
        .find(|(wanted, foreign, _)| *foreign == name && fits(wanted))
        .map(|(_, _, here)| *here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_said_by_the_place_that_it_stands_in() {
        let path = |parts: &[&str]| {
            parts
                .iter()
                .map(|part| (*part).to_owned())
                .collect::<Vec<_>>()
        };
        for (name, at, here) in [
            (
                "max-tokens",
                &["policy", "0"][..],
                "trigger = { tokens = 100000 }",
            ),
            ("max-tokens", &["policy", "0", "trigger"], "tokens = 100000"),
            (
                "window_size",
                &["policy", "0", "ladder", "1", "sliding_window"],
                "messages = 20",
            ),
            ("shadow", &["policy", "0", "mode"], "observe"),
            (
                "clear_tool_inputs",
                &["policy", "0", "ladder", "0", "clear_results"],
                "clear_inputs",
            ),
        ] {
            assert_eq!(said_here(name, &path(at)), Some(here), "{name} in {at:?}");
        }
        assert_eq!(said_here("nonsense", &[]), None);
        assert_eq!(said_here("timeout", &path(&["listen"])), None);
    }
}
