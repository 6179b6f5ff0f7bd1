//! Texts that operators and clients write: configuration, conditions, headers, stored usage.

use std::io::Write;

use baler::config::{self, Sources};
use baler::core::planner::PriorUsage;
use baler::core::policy::Condition;

use super::{fuzz, seeds};

#[test]
fn any_configuration_is_read_or_every_problem_has_a_key() {
    let mut all = seeds("../config", ".toml");
    all.extend(seeds("../config/examples", ".toml"));
    all.extend(seeds("fuzz-seeds/configuration", ""));
    fuzz(&all, |input| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(input).unwrap();
        let sources = Sources {
            file: Some(file.path().to_owned()),
            ..Sources::default()
        };
        match config::load(&sources) {
            Ok(config) => assert!(!config.policies.is_empty(), "the built-in one is there"),
            Err(problems) => {
                assert!(!problems.0.is_empty());
                assert!(problems.0.iter().all(|problem| !problem.what.is_empty()));
            }
        }
    });
}

#[test]
fn any_condition_is_compiled_or_refused_and_decides_or_fails() {
    fuzz(&seeds("fuzz-seeds/conditions", ""), |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return;
        };
        // The parser recurses: longer expressions are not what operators write.
        if text.len() > 2_000 {
            return;
        }
        if let Ok(condition) = Condition::compile(text) {
            let _ = condition.reads_headers();
        }
    });
}

#[test]
fn any_usage_that_a_client_brings_is_read_or_not() {
    fuzz(&seeds("fuzz-seeds/usage", ""), |input| {
        let text = String::from_utf8_lossy(input);
        if let Some(prior) = PriorUsage::parse(&text) {
            assert_eq!(PriorUsage::parse(&prior.to_string()), Some(prior));
            assert!(prior.prompt_tokens > 0 && prior.messages > 0);
        }
    });
}

#[test]
fn a_seed_of_every_kind_is_a_good_one() {
    for seed in seeds("fuzz-seeds/conditions", "") {
        let text = String::from_utf8(seed).unwrap();
        Condition::compile(text.trim()).unwrap();
    }
    for seed in seeds("fuzz-seeds/usage", "") {
        assert!(PriorUsage::parse(&String::from_utf8(seed).unwrap()).is_some());
    }
}
