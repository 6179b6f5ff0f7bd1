//! Each counter against the other: tiktoken-rs is the reference for the vocabularies that the crate
//! `tiktoken` counts with, and the other way round.

use std::panic::catch_unwind;
use std::sync::LazyLock;

use baler::core::tokens::{Encoding, Vocabulary};
use baler::core::wire::chat::{HARMONY_TOKENS, count_fixed, count_message};
use proptest::prelude::*;

static P50K: LazyLock<tiktoken::CoreBpe> = LazyLock::new(tiktoken::encoding::p50k_base);
static R50K: LazyLock<tiktoken::CoreBpe> = LazyLock::new(tiktoken::encoding::r50k_base);

const VOCABULARIES: [Vocabulary; 4] = [
    Vocabulary::O200k,
    Vocabulary::Cl100k,
    Vocabulary::P50k,
    Vocabulary::R50k,
];

fn reference(vocabulary: Vocabulary, text: &str) -> u64 {
    let tokens = match vocabulary {
        Vocabulary::O200k => tiktoken_rs::o200k_base_singleton().count_ordinary(text),
        Vocabulary::Cl100k => tiktoken_rs::cl100k_base_singleton().count_ordinary(text),
        Vocabulary::P50k => P50K.count(text),
        Vocabulary::R50k => R50K.count(text),
    };
    tokens as u64
}

fn same(text: &str) {
    for vocabulary in VOCABULARIES {
        assert_eq!(
            vocabulary.count(text),
            reference(vocabulary, text),
            "{vocabulary:?} of {text:?}"
        );
    }
}

#[test]
fn long_texts_that_tiktoken_rs_takes_in_pieces_count_the_same() {
    let text = "Some words,  and\n\n\tothers: don't \u{3000} 12345 漢字仮名!? ".repeat(4_000);
    for vocabulary in [Vocabulary::P50k, Vocabulary::R50k] {
        assert_eq!(
            vocabulary.count(&text),
            reference(vocabulary, &text),
            "{vocabulary:?}"
        );
    }
}

#[test]
fn two_megabytes_of_white_space_are_counted_without_a_panic() {
    for unit in [" ", "\u{3000}"] {
        let text = unit.repeat(2_000_000 / unit.len());
        for vocabulary in [Vocabulary::P50k, Vocabulary::R50k] {
            let counted = vocabulary.count(&text);
            assert!(
                (1..=text.len() as u64).contains(&counted),
                "{vocabulary:?} of {unit:?}: {counted}"
            );
        }
        // A cut inside a run costs a token or two.
        let (counted, exact) = (Vocabulary::P50k.count(&text), P50K.count(&text) as u64);
        assert!(
            (exact..exact + text.len() as u64 / 32_768 + 2).contains(&counted),
            "{unit:?}: {counted}, not {exact}"
        );
    }
}

/// Blanks of several kinds before words, numbers, marks and signs.
const HARD: &str = concat!(
    "([ \\t\\n\\r\u{b}\u{c}\u{1c}\u{85}\u{a0}\u{3000}]{0,3}( {1,90}|\n{1,20}| \n )?",
    "('s|'LL|don't|[A-Z]{1,3}[a-z]{0,4}|[0-9]{1,5}|[!?/.{}\"-]{1,4}|\u{0}|",
    "漢字|é|🎉|\u{200d}|<\\|endoftext\\|>)){0,30}"
);

proptest! {
    #[test]
    fn any_text(text in "\\PC{0,200}") {
        same(&text);
    }

    #[test]
    fn text_that_regular_expressions_disagree_about(text in HARD) {
        same(&text);
    }
}

#[test]
fn hostile_runs_are_counted_without_a_panic() {
    for unit in [
        " ",
        "a",
        "!?",
        "QUJDREVGR0hJ",
        "漢字仮名",
        "👩\u{200d}👧🎉",
        "\n",
        "7",
        " \n\t",
        "\0",
        "<|endoftext|>",
    ] {
        same(&unit.repeat(10_000 / unit.len()));
        // Of longer ones parts are counted.
        let text = unit.repeat(100_000 / unit.len());
        for vocabulary in VOCABULARIES {
            let (found, truth) = (vocabulary.count(&text), reference(vocabulary, &text));
            let off = found.abs_diff(truth);
            assert!(
                off <= 2 + truth / 200,
                "{vocabulary:?} of {unit:?}: {found}, {truth}"
            );
        }
        let long = unit.repeat(1_600_000 / unit.len());
        assert!(
            catch_unwind(|| Encoding::O200K.count(&long)).is_ok(),
            "{unit:?}"
        );
    }
}

/// One schema inside a tool, and the texts that it says: each must be in the count.
#[derive(Debug, Clone)]
struct Nested {
    schema: serde_json::Value,
    says: Vec<String>,
}

fn nested() -> impl Strategy<Value = Nested> {
    let description = prop_oneof![
        Just(None),
        "[A-Za-z][A-Za-z0-9 ,é漢]{0,40}\\.?".prop_map(Some)
    ];
    let kind = prop::sample::select(vec![
        serde_json::json!("string"),
        serde_json::json!(["integer", "null"]),
        serde_json::Value::Null,
    ]);
    let item = prop_oneof![
        "\\PC{1,12}".prop_map(serde_json::Value::from),
        any::<i32>().prop_map(serde_json::Value::from)
    ];
    let items = prop::collection::vec(item, 0..4);
    let leaf = (description.clone(), kind, items).prop_map(|(description, kind, items)| {
        let mut says: Vec<String> = description.iter().cloned().collect();
        says.extend(items.iter().map(|item| {
            item.as_str()
                .map_or_else(|| item.to_string(), str::to_owned)
        }));
        let mut schema = serde_json::Map::new();
        schema
            .extend(description.map(|description| ("description".to_owned(), description.into())));
        schema.extend((!kind.is_null()).then(|| ("type".to_owned(), kind)));
        schema.extend((!items.is_empty()).then(|| ("enum".to_owned(), items.into())));
        Nested {
            schema: schema.into(),
            says,
        }
    });
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let maps = [
            "properties",
            "$defs",
            "definitions",
            "patternProperties",
            "dependentSchemas",
        ];
        let lists = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
        let ones = [
            "items",
            "additionalProperties",
            "not",
            "contains",
            "if",
            "else",
            "unevaluatedProperties",
        ];
        let named = prop::collection::btree_map("[a-zA-Z][a-zA-Z0-9_]{0,14}", inner.clone(), 1..4);
        let into = |key: &str,
                    value: serde_json::Value,
                    description: Option<String>,
                    mut says: Vec<String>| {
            let mut schema = serde_json::json!({ key: value });
            if let Some(description) = description {
                schema["description"] = description.clone().into();
                says.push(description);
            }
            Nested { schema, says }
        };
        prop_oneof![
            (
                prop::sample::select(maps.to_vec()),
                named,
                description.clone()
            )
                .prop_map(move |(key, members, description)| {
                    let says = members
                        .iter()
                        .flat_map(|(name, member)| member.says.iter().chain([name]))
                        .cloned()
                        .collect();
                    let members = members
                        .into_iter()
                        .map(|(name, member)| (name, member.schema))
                        .collect::<serde_json::Map<_, _>>();
                    into(key, members.into(), description, says)
                }),
            (
                prop::sample::select(lists.to_vec()),
                prop::collection::vec(inner.clone(), 1..4),
                description.clone()
            )
                .prop_map(move |(key, variants, description)| {
                    let says = variants
                        .iter()
                        .flat_map(|variant| variant.says.clone())
                        .collect();
                    into(
                        key,
                        variants.into_iter().map(|variant| variant.schema).collect(),
                        description,
                        says,
                    )
                }),
            (
                prop::sample::select(ones.to_vec()),
                inner,
                description.clone()
            )
                .prop_map(move |(key, only, description)| into(
                    key,
                    only.schema,
                    description,
                    only.says
                )),
        ]
    })
}

proptest! {
    /// A prompt that was counted too small is refused: nothing that a schema says may be left out,
    /// however deep it stands.
    #[test]
    fn a_tool_costs_at_least_the_names_descriptions_and_values_inside_of_it(
        parameters in nested(),
        name in "[a-z_]{1,20}",
        description in "[A-Z][a-z ]{0,60}\\.?",
        model in prop::sample::select(vec!["gpt-4o", "gpt-4"]),
    ) {
        let encoding = Encoding::for_model(model);
        let fixed = |tools: serde_json::Value| {
            let body = serde_json::json!({"model": model, "messages": [{"role": "user",
                "content": ""}], "tools": tools}).to_string();
            count_fixed(&baler::core::wire::chat::Chat::parse(body.as_bytes()).unwrap().outline,
                encoding)
        };
        let mut function = serde_json::json!({"name": name, "description": description});
        let tool = |function: &serde_json::Value| fixed(serde_json::json!([{"type": "function",
            "function": function}]));
        let bare = tool(&function);
        prop_assert!(bare >= encoding.count(&name) + encoding.count(&description));
        function["parameters"] = parameters.schema;
        let (tokens, said) = (tool(&function) - bare,
            parameters.says.iter().map(|text| encoding.count(text)).sum::<u64>());
        prop_assert!(tokens >= said, "{} tokens, {} of what is said in {}", tokens, said, function);
    }
}

/// A JSON value as schemas have them, and as nobody would write them.
fn schema() -> impl Strategy<Value = serde_json::Value> {
    let word = prop_oneof![
        Just(String::new()),
        "[a-z]{1,8}",
        "\\PC{0,12}",
        Just("object".to_owned()),
        Just("a longer description.".to_owned())
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (0_i64..20).prop_map(Into::into),
        word.prop_map(serde_json::Value::from)
    ];
    let keys = [
        "type",
        "properties",
        "items",
        "enum",
        "anyOf",
        "$defs",
        "description",
        "default",
        "required",
        "name",
        "function",
        "parameters",
        "additionalProperties",
        "minimum",
        "x",
        "",
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::vec((prop::sample::select(keys.to_vec()), inner), 0..6).prop_map(
                |members| members
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            ),
        ]
    })
}

/// A piece of reasoning as providers write it, and with what they never write in it.
fn thought() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof![
        "\\PC{0,20}".prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
        any::<u32>().prop_map(Into::into)
    ];
    let key = prop::sample::select(vec![
        "text",
        "summary",
        "thinking",
        "data",
        "signature",
        "type",
    ]);
    prop::collection::btree_map(key, text, 0..4).prop_map(|piece| serde_json::json!(piece))
}

proptest! {
    /// What the gate's proof stands on.
    #[test]
    fn no_schema_has_more_tokens_than_bytes(
        schemas in prop::collection::vec(schema(), 0..5),
        field in prop::sample::select(vec!["tools", "functions", "tool_choice", "function_call",
            "response_format"]),
        model in prop::sample::select(vec!["gpt-4o", "gpt-4", "gpt-oss-20b", "claude-3"]),
    ) {
        let value = match schemas.as_slice() {
            [only] => only.clone(),
            _ => serde_json::Value::from(schemas),
        };
        let body = serde_json::json!({"model": model, "messages": [{"role": "user",
            "content": ""}], field: value}).to_string();
        let chat = baler::core::wire::chat::Chat::parse(body.as_bytes()).unwrap();
        let encoding = Encoding::for_model(model);
        let messages = chat.messages.iter();
        let tokens = count_fixed(&chat.outline, encoding)
            + messages.map(|entry| count_message(entry.raw, encoding).unwrap()).sum::<u64>();
        prop_assert!(tokens <= body.len() as u64 + HARMONY_TOKENS, "{} tokens of {}", tokens, body);
    }

    /// The same of what a model thought, whatever stands in its fields.
    #[test]
    fn no_reasoning_has_more_tokens_than_bytes(
        pieces in prop::collection::vec((
            prop::sample::select(vec!["reasoning_content", "reasoning", "reasoning_details",
                "thinking", "thinking_blocks"]),
            prop_oneof![schema(), prop::collection::vec(thought(),
                0..5).prop_map(serde_json::Value::from)],
        ), 0..5),
    ) {
        let mut message = serde_json::json!({"role": "assistant", "content": "x"});
        for (field, value) in pieces {
            message[field] = value;
        }
        let raw = message.to_string();
        for encoding in [Encoding::O200K, Encoding::CL100K] {
            let tokens = count_message(&raw, encoding).unwrap();
            prop_assert!(tokens <= raw.len() as u64, "{} tokens of {}", tokens, raw);
        }
    }

    #[test]
    fn whatever_stands_in_a_part_is_counted_without_a_panic(part in schema(),
        key in prop::sample::select(vec!["image_url", "input_audio", "file", "text"])) {
        let raw = serde_json::json!({"role": "user", "content": [{"type": key,
            key: part}]}).to_string();
        for model in ["gpt-4o", "gpt-4.1-mini", "claude-3", "gemini-2.5-pro"] {
            prop_assert!(count_message(&raw, Encoding::for_model(model)).unwrap() < 1_000_000);
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_not_counted_as_text() {
    let data = "QUJD".repeat(100_000);
    for part in [
        format!(
            concat!(
                r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","#,
                r#""data":"{data}"}}}}"#,
            ),
            data = data,
        ),
        format!(r#"{{"type":"video_url","video_url":{{"url":"data:video/mp4;base64,{data}"}}}}"#),
        format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),
        format!(r#"{{"type":"file","file":{{"file_data":"data:application/pdf;base64,{data}"}}}}"#),
        format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"mp3"}}}}"#),
    ] {
        let raw = format!(r#"{{"role":"user","content":[{part}]}}"#);
        let tokens = count_message(&raw, Encoding::O200K).unwrap();
        assert!(
            (10..10_000).contains(&tokens),
            "{tokens} for {}",
            &part[..60]
        );
    }
    // Text that stands in such a part is text.
    let text = format!(
        concat!(
            r#"{{"role":"user","content":[{{"type":"document","source":{{"type":"text","#,
            r#""data":"{}"}}}}]}}"#,
        ),
        "word ".repeat(3_000)
    );
    assert!(count_message(&text, Encoding::O200K).unwrap() >= 3_000);
}

#[test]
fn real_conversations_count_the_same() {
    let file = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/traces/coding-session.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        eprintln!(
            "SKIPPED: coding-session.jsonl is not here; counts are compared on generated text only"
        );
        return;
    };
    for piece in text.split("\\n") {
        same(piece);
    }
}
