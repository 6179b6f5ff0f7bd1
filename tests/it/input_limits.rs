//! Models that take shorter prompts than their window.

use std::process::Command;

use crate::support::{Baler, Upstream, agent, json_answer};

/// Fires at 0.99 of what the prompt may take: by window and reserve at 32,187 tokens; where the
/// longest input counts, 30,720 for this model, at 30,412.
const POLICY: &str = "[[policy]]\nname = \"p\"\nreserve = 256\nbreak_even = false\n\
    trigger = { ratio = 0.99 }\nladder = [\"token_budget\"]\n";

/// The number of tokens, and what was done, for the first list that is as long as fires where the
/// longest input counts.
async fn sent(baler: &Baler, model: &str) -> (u64, String) {
    for steps in 90.. {
        let list = agent(steps, 280).join(",");
        let body = format!(r#"{{"model":"{model}","messages":[{list}]}}"#);
        let answer = baler.chat(&body).await;
        let tokens = answer.header("x-baler-tokens");
        let before = tokens.strip_prefix("before=").unwrap();
        let before: u64 = before.split(';').next().unwrap().parse().unwrap();
        if before >= 30_412 {
            return (before, answer.action().to_owned());
        }
    }
    unreachable!("the list grows")
}

#[tokio::test]
async fn what_the_prompt_may_take_is_the_longest_input_where_that_is_less() {
    let said = r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#;
    for (window, model, acts) in [
        ("\"auto\"", "qwen-max", true),
        ("32768", "qwen-max", true),
        // The same window without a known limit.
        ("32768", "another", false),
        // Another deployment than the one that the table knows.
        ("32769", "qwen-max", false),
    ] {
        let (upstream, _) = Upstream::automatic(move |_| json_answer(said)).await;
        let baler = Baler::start(&format!("{POLICY}window = {window}\n"), upstream).await;
        let (before, action) = sent(&baler, model).await;
        assert!(before < 32_000, "{before}");
        let expected = if acts { "compacted" } else { "none" };
        assert_eq!(action, expected, "{window} {model}: {before} tokens");
    }
}

fn explained(toml: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_baler"))
        .env_clear()
        .args(["check", "--explain"])
        .arg(file.path())
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn check_tells_the_longest_input() {
    let text = explained("[[policy]]\nname = \"five\"\nmodels = [\"gpt-5\"]\n");
    for line in [
        "window 400000, room for the prompt 272000 (the longest input of gpt-5 is 272000)",
        "window of gpt-5: 400000 (from the table); prompts of at most 272000",
        "acts at 217600 tokens, and above 272000 tokens anyway; down to 136000 tokens",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
    let text = explained("[[policy]]\nname = \"two\"\nmodels = [\"gpt-5-mini\", \"gpt-4o\"]\n");
    for line in [
        "window of gpt-5-mini: 400000 (from the table); prompts of at most 272000\n",
        "window of gpt-4o: 128000 (from the table)\n",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
}
