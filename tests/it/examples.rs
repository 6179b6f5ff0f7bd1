//! The documents of the configuration: examples load, and every key and strategy is described.

use std::path::Path;

use baler::config::{Sources, load, raw};
use baler::core::strategy::{Step, Strategy};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

#[test]
fn every_example_loads() {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(Path::new(ROOT).join("config/examples")).unwrap() {
        let file = entry.unwrap().path();
        let sources = Sources {
            file: Some(file.clone()),
            ..Sources::default()
        };
        let config = load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        let text = std::fs::read_to_string(&file).unwrap();
        let written: raw::Raw = toml::from_str(&text).unwrap();
        assert!(!written.policy.is_empty(), "{}", file.display());
        assert!(config.policies.len() >= written.policy.len());
        found.push(file.file_stem().unwrap().to_string_lossy().into_owned());
    }
    found.sort();
    let expected = [
        "anthropic",
        "azure",
        "llama-cpp",
        "openai",
        "summarize",
        "teams",
        "vllm",
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_strategy_and_option_is_described() {
    let text = read("config/strategies.md");
    for name in Strategy::NAMES {
        let heading = format!("\n## {name}\n");
        let start = text.find(&heading).unwrap_or_else(|| panic!("{name}")) + heading.len();
        let section = text[start..].split("\n## ").next().unwrap();
        let step = serde_json::to_value(Step::named(name).unwrap()).unwrap();
        for option in step[name].as_object().unwrap().keys() {
            let place = if ["tools", "exclude_tools", "older_than"].contains(&option.as_str()) {
                &text
            } else {
                section
            };
            assert!(
                place.contains(&format!("| `{option}` |")),
                "{name}.{option}"
            );
        }
    }
}

#[test]
fn every_key_is_described() {
    let text = read("config/README.md");
    for key in raw::key_paths() {
        assert!(text.contains(&format!("`{key}`")), "{key}");
    }
    let policy = serde_json::to_value(raw::Policy::default()).unwrap();
    for key in policy.as_object().unwrap().keys() {
        assert!(text.contains(&format!("\n| `{key}` |")), "policy.{key}");
    }
}
