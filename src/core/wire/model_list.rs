//! Reads context lengths from a list of models (`GET /v1/models`). Servers agree on the list, but
//! not on the fields of its entries.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::json::Json;

/// Largest number of entries that are read. The largest public lists have some hundreds.
pub const MAX_ENTRIES: usize = 4_096;
/// Longest name of a model that is kept, bytes.
const MAX_NAME_BYTES: usize = 256;
/// Plausible context lengths, tokens. The lower bound is that of a policy's window, because
/// llama.cpp is really run with `-c 512`. Some lists state 0, 1 or -1 for an unknown length, and
/// figures above the upper bound are mistakes.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 256..=20_000_000;

/// Paths of the fields that hold a context length. If an entry has several, the smallest counts:
/// the loaded or served length never exceeds the possible one, and a window that is too small costs
/// less than one that is too large. `n_ctx_train` is left out, because it is a property of the
/// model and not of the server.
const FIELDS: [&[&str]; 10] = [
    &["max_model_len"],                  // vLLM, SGLang
    &["context_length"],                 // OpenRouter, Together, llama-swap
    &["top_provider", "context_length"], // OpenRouter
    &["context_window"],                 // Groq
    &["max_context_length"],             // Mistral, LM Studio
    &["loaded_context_length"],          // LM Studio
    &["n_ctx"],                          // llama.cpp's bindings
    &["meta", "n_ctx"],                  // llama.cpp
    &["meta", "context_length"],         // llama-swap and other routers
    &["metadata", "context_length"],     // DeepInfra
];

/// The context lengths that an upstream's list states.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Context length in tokens, by the name that requests use.
    pub windows: HashMap<String, u64>,
    /// Context length for any name: llama.cpp with a single model answers to every name.
    pub any: Option<u64>,
}

/// The object around a list: `data` for OpenAI, `models` for others.
#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow, default)]
    data: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    models: Option<Vec<&'a RawValue>>,
}

/// Reads an answer. `None` if it is not a list of models. Entries without a usable figure are
/// skipped.
#[must_use]
pub fn read(body: &[u8]) -> Option<Listing> {
    let entries: Vec<&RawValue> = if body.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice(body).ok()?
    } else {
        let wrapped: Wrapped<'_> = serde_json::from_slice(body).ok()?;
        wrapped.data.or(wrapped.models)?
    };
    let alone = entries.len() == 1;
    let mut listing = Listing::default();
    // An adapter that vLLM serves on top of a model has the window of that model, but its entry
    // does not state it.
    let mut heirs: Vec<(String, String)> = Vec::new();
    for entry in entries
        .iter()
        .take(MAX_ENTRIES)
        .filter_map(|raw| Json::parse(raw.get()))
    {
        match (window(&entry), text(entry.get("parent"))) {
            (Some(window), _) => {
                names(&entry).for_each(|name| learn(&mut listing, name, window));
                if alone && text(entry.get("owned_by")) == Some("llamacpp") {
                    listing.any = Some(window);
                }
            }
            (None, Some(parent)) => {
                heirs.extend(names(&entry).map(|name| (name.to_owned(), parent.to_owned())))
            }
            (None, None) => {}
        }
    }
    for (name, parent) in heirs {
        if let Some(window) = listing.windows.get(&parent).copied() {
            learn(&mut listing, &name, window);
        }
    }
    Some(listing)
}

/// Records a window. A name that occurs twice gets the smaller one.
fn learn(listing: &mut Listing, name: &str, window: u64) {
    if let Some(known) = listing.windows.get_mut(name) {
        *known = window.min(*known);
    } else if listing.windows.len() < MAX_ENTRIES {
        listing.windows.insert(name.to_owned(), window);
    }
}

fn window(entry: &Json) -> Option<u64> {
    let figures = FIELDS
        .iter()
        .filter_map(|path| number(path.iter().try_fold(entry, |value, key| value.get(key))?));
    figures.filter(|figure| PLAUSIBLE.contains(figure)).min()
}

fn number(value: &Json) -> Option<u64> {
    match value {
        Json::Number(spelling) => spelling.parse().ok(),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The names that requests may use for a model. A `name` next to an `id` is for people and is
/// ignored.
fn names(entry: &Json) -> impl Iterator<Item = &str> {
    let name = text(entry.get("id"))
        .or_else(|| text(entry.get("name")))
        .or_else(|| text(entry.get("model")));
    let aliases: &[Json] = match entry.get("aliases") {
        Some(Json::List(aliases)) => aliases,
        _ => &[],
    };
    let named = name
        .into_iter()
        .chain(aliases.iter().filter_map(|alias| text(Some(alias))));
    named.filter(|name| !name.is_empty() && name.len() <= MAX_NAME_BYTES)
}

fn text(value: Option<&Json>) -> Option<&str> {
    match value {
        Some(Json::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(body: &str) -> Vec<(String, u64)> {
        let mut windows: Vec<_> = read(body.as_bytes()).unwrap().windows.into_iter().collect();
        windows.sort();
        windows
    }

    /// A server, its answer, and the windows in it.
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, u64)]);

    /// The shapes of servers' answers, shortened.
    #[test]
    fn every_servers_shape_is_read() {
        let cases: [Case<'_>; 13] = [
            (
                "vLLM with an adapter",
                r#"{"object":"list","data":[
                    {"id":"Qwen/Qwen2.5-7B-Instruct","object":"model","created":1731000000,
                    "owned_by":"vllm","root":"Qwen/Qwen2.5-7B-Instruct","parent":null,
                    "max_model_len":32768,"permission":[{"id":"modelperm-1"}]},
                    {"id":"sql-lora","object":"model","created":1731000000,"owned_by":"vllm",
                    "root":"/lora","parent":"Qwen/Qwen2.5-7B-Instruct","max_model_len":null,
                    "permission":[]}]}"#,
                &[("Qwen/Qwen2.5-7B-Instruct", 32_768), ("sql-lora", 32_768)],
            ),
            (
                "llama.cpp: what the server allows, not what the model was trained for",
                r#"{"models":[{"name":"smollm2","model":"smollm2","modified_at":"","type":"model",
                "details":{"parent_model":"","format":"gguf"}}],"object":"list","data":[
                    {"id":"smollm2","aliases":["smollm2","tiny"],"tags":[],"object":"model",
                    "architecture":{"input_modalities":["text"]},"created":1795259514,
                    "owned_by":"llamacpp","meta":{"vocab_type":2,"n_vocab":49152,"n_ctx":512,
                    "n_ctx_train":8192,"n_embd":576,"n_params":134515008,"size":96576768,
                    "ftype":"Q4_1"}}]}"#,
                &[("smollm2", 512), ("tiny", 512)],
            ),
            (
                "llama.cpp, an older one",
                concat!(
                    r#"{"object":"list","data":[{"id":"old.gguf","object":"model","#,
                    r#""created":1,"owned_by":"llamacpp","meta":{"n_ctx_train":8192}}]}"#
                ),
                &[],
            ),
            (
                "OpenRouter",
                r#"{"data":[{"id":"deepseek/deepseek-chat",
                "canonical_slug":"deepseek/deepseek-chat-v3","name":"DeepSeek: Chat",
                "context_length":163840,"architecture":{"tokenizer":"DeepSeek"},
                "top_provider":{"context_length":131072,"max_completion_tokens":16384,
                "is_moderated":false}},
                    {"id":"openrouter/auto","context_length":2000000,
                    "top_provider":{"context_length":null}}]}"#,
                &[
                    ("deepseek/deepseek-chat", 131_072),
                    ("openrouter/auto", 2_000_000),
                ],
            ),
            (
                "Groq",
                r#"{"object":"list","data":[{"id":"llama-3.3-70b-versatile","object":"model",
                "created":1733447754,"owned_by":"Meta","active":true,"context_window":131072,
                "public_apps":null,"max_completion_tokens":32768},
                    {"id":"whisper-large-v3","object":"model","owned_by":"OpenAI",
                    "context_window":448,"max_completion_tokens":448}]}"#,
                &[
                    ("llama-3.3-70b-versatile", 131_072),
                    ("whisper-large-v3", 448),
                ],
            ),
            (
                "Mistral",
                concat!(
                    r#"{"object":"list","data":[{"id":"mistral-small-2506","#,
                    r#""object":"model","owned_by":"mistralai","#,
                    r#""capabilities":{"completion_chat":true},"#,
                    r#""name":"mistral-small-2506","max_context_length":131072,"#,
                    r#""aliases":["mistral-small-latest"],"type":"base"}]}"#
                ),
                &[
                    ("mistral-small-2506", 131_072),
                    ("mistral-small-latest", 131_072),
                ],
            ),
            (
                "LM Studio",
                r#"{"object":"list","data":[{"id":"qwen2.5-7b-instruct","object":"model",
                "type":"llm","state":"loaded","max_context_length":32768,
                "loaded_context_length":4096},
                    {"id":"gemma-3-4b","object":"model","type":"vlm","state":"not-loaded",
                    "max_context_length":131072}]}"#,
                &[("gemma-3-4b", 131_072), ("qwen2.5-7b-instruct", 4_096)],
            ),
            (
                "Together: a bare list",
                r#"[{"id":"meta-llama/Llama-3.3-70B-Instruct-Turbo","object":"model","type":"chat",
                "display_name":"Llama 3.3","context_length":131072,"config":{"stop":[]},
                "pricing":{"input":0.88}},
                    {"id":"black-forest-labs/FLUX.1","type":"image","context_length":0}]"#,
                &[("meta-llama/Llama-3.3-70B-Instruct-Turbo", 131_072)],
            ),
            (
                "llama-swap",
                concat!(
                    r#"{"data":[{"id":"coder","object":"model","owned_by":"llama-swap","#,
                    r#""context_length":65536}],"object":"list"}"#
                ),
                &[("coder", 65_536)],
            ),
            (
                "DeepInfra",
                concat!(
                    r#"{"object":"list","data":[{"id":"a/b","#,
                    r#""metadata":{"context_length":40960,"max_tokens":40960}}]}"#
                ),
                &[("a/b", 40_960)],
            ),
            (
                "models, named",
                r#"{"models":[{"name":"m","context_length":"8192"}]}"#,
                &[("m", 8_192)],
            ),
            (
                "OpenAI lists no windows",
                concat!(
                    r#"{"object":"list","data":[{"id":"gpt-4o","object":"model","#,
                    r#""created":1715367049,"owned_by":"system"}]}"#
                ),
                &[],
            ),
            (
                "neither does Ollama",
                concat!(
                    r#"{"object":"list","data":[{"id":"llama3.2:latest","#,
                    r#""object":"model","created":1,"owned_by":"library"}]}"#
                ),
                &[],
            ),
        ];
        for (server, body, expected) in cases {
            let expected: Vec<(String, u64)> = expected
                .iter()
                .map(|(name, window)| ((*name).to_owned(), *window))
                .collect();
            assert_eq!(windows(body), expected, "{server}");
        }
    }

    #[test]
    fn one_model_of_llama_cpp_answers_to_any_name() {
        let entry = |name: &str, owner: &str| {
            format!(r#"{{"id":"{name}","owned_by":"{owner}","meta":{{"n_ctx":4096}}}}"#)
        };
        let any = |entries: &[String]| {
            read(format!(r#"{{"data":[{}]}}"#, entries.join(",")).as_bytes())
                .unwrap()
                .any
        };
        assert_eq!(any(&[entry("a", "llamacpp")]), Some(4_096));
        assert_eq!(
            any(&[entry("a", "llamacpp"), entry("b", "llamacpp")]),
            None,
            "a router chooses by name"
        );
        assert_eq!(
            any(&[entry("a", "vllm")]),
            None,
            "vLLM refuses names that it does not know"
        );
    }

    #[test]
    fn implausible_entries_are_skipped() {
        let body = r#"{"data":[1,null,"x",[],{},{"id":7,"context_length":8192},{"id":"a",
        "context_length":-1},{"id":"b","context_length":1e400},
            {"id":"c","context_length":255},{"id":"d","context_length":20000001},{"id":"e",
            "context_length":{"max":8192}},{"id":"","context_length":8192},
            {"id":"f","context_length":99999999999999999999999},{"id":"g","aliases":"h",
            "context_length":8192},{"id":"i","parent":"nobody"},
            {"id":"twice","context_length":8192},{"id":"twice","context_length":4096},{"id":"j",
            "parent":"j"}]}"#;
        assert_eq!(
            windows(body),
            [("g".to_owned(), 8_192), ("twice".to_owned(), 4_096)]
        );
        for body in [
            "",
            "null",
            "7",
            "{}",
            r#"{"error":{"message":"no"}}"#,
            r#"{"data":{"id":"a"}}"#,
            "<html>",
            "[1",
            "\u{0}",
            &"[".repeat(100_000),
        ] {
            assert_eq!(read(body.as_bytes()), None, "{body:.20}");
        }
        assert_eq!(read(b"{\"data\":[]}\xff"), None);
    }

    #[test]
    fn a_list_without_end_and_a_name_without_end_are_bounded() {
        let entries: Vec<String> = (0..MAX_ENTRIES * 2)
            .map(|n| format!(r#"{{"id":"m{n}","context_length":8192,"aliases":["a{n}"]}}"#))
            .collect();
        let long = format!(
            r#"{{"id":"{}","context_length":8192}}"#,
            "x".repeat(MAX_NAME_BYTES + 1)
        );
        let listing = read(format!("[{long},{}]", entries.join(",")).as_bytes()).unwrap();
        assert_eq!(listing.windows.len(), MAX_ENTRIES);
        assert!(listing.windows.keys().all(|name| name.len() < 10));
    }
}
