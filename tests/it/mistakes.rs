//! Mistakes in the configuration: each is told once, in the operator's words, with its place.

use std::process::Command;

/// What `baler check` says of a file, by the lines of its standard error; the file is called `f`.
fn told(toml: &str, env: &[(&str, &str)], flags: &[&str]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_baler"))
        .env_clear()
        .envs(env.iter().copied())
        .args(["check", "--config"])
        .arg(file.path())
        .args(flags)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{toml}: {text}");
    let name = file.path().display().to_string();
    text.lines().map(|line| line.replace(&name, "f")).collect()
}

#[test]
fn each_mistake_is_one_line_with_key_place_and_what_to_write() {
    for (toml, line) in [
        (
            "[[policy]]\ntarget = 5\n",
            "policy.0.target: expected { tokens = 1000 } or { ratio = 0.5 }, got 5 (f:2)",
        ),
        (
            "[[policy]]\nname = \"gpt\"\n\ntrigger = 0.8\n",
            "policy.gpt.trigger: expected { ratio = 0.8 } or { tokens = 100000 }, got 0.8 (f:4)",
        ),
        (
            "[limits]\n# how many\nin_flight = -3\n",
            "limits.in_flight: expected a whole number such as 1000, \"128k\" or \"32MiB\", got -3 \
             (f:3)",
        ),
        (
            "[upstream]\nidle_timeout = 25\n",
            "upstream.idle_timeout: expected a duration such as \"500ms\", \"30s\" or \"10m\", \
             got 25 (f:2)",
        ),
        (
            "[upstream]\nidle_timeout = \"soon\"\n",
            "upstream.idle_timeout: \"soon\" is not a duration such as 500ms, 30s or 10m (f:2)",
        ),
        (
            "[policy]\nmode = \"off\"\n",
            "policy: expected a list of tables: write [[policy]] (f:1)",
        ),
        (
            "[[upstream]]\nurl = \"http://x\"\n",
            "upstream: expected a table of keys: write [upstream] (f:1)",
        ),
        (
            "policy = [\"gpt\"]\n",
            "policy.0: expected a table of keys; the value is not shown (f:1)",
        ),
        // What the program found by comparing keys has a line as well.
        (
            "[[policy]]\nname = \"a\"\nmodels = [\"a\"]\n[[policy]]\nname = \"b\"\n\
             trigger = { ratio = 0.5 }\ntarget = { ratio = 0.6 }\nwindow = 10000\nreserve = 0\n",
            "policy.b.target: is not below the trigger: 6000 tokens and 5000 tokens in a window of \
             10000; without a target, five eighths of the trigger are left (f:7)",
        ),
        (
            "[[policy]]\nname = \"a\"\nmodels = [\"a\"]\n[[policy]]\nname = \"a\"\n",
            "policy.1.name: \"a\" is the name of an earlier policy (f:5)",
        ),
        (
            "[[policy]]\nmodels = [\"a\"]\n[[policy]]\nwindow = 8000\n",
            "policy.1.name: \"default\" is the name of an earlier policy, as of every policy \
             without one: give it a name of its own (f:3)",
        ),
        (
            "[[policy]]\nmodels = []\n",
            "policy.0.models: is empty: leave the key out for all models, or name those that the \
             policy is for (f:2)",
        ),
        (
            "[limits]\nplan_timeout = \"20s\"\n",
            "limits.plan_timeout: 20s is longer than limits.plan_deadline, 10s: planning would be \
             given up before its quick steps begin (f:2)",
        ),
        (
            "[ledger]\nurl = \"redb:///tmp\"\n",
            "ledger.url: is a directory; redb needs the path of a file (f:2)",
        ),
        (
            "[[policy]]\nladder = [\n  \"dedupe\",\n  \
             { sliding_window = { turns = 1, messages = 2 } },\n]\n",
            "policy.0.ladder.1.sliding_window: takes one of turns, exchanges and messages (f:4)",
        ),
        (
            "[[summarizer]]\nname = \"eu\"\n[[summarizer]]\nname = \"us\"\nmax_bytes = 1\n",
            "summarizer.us.max_bytes: 1 is too small; at least 1024 (f:5)",
        ),
        // One mistake is one message: not also what follows from the default in its place.
        (
            "[[policy]]\ntrigger = { tokens = \"x\" }\ntarget = { tokens = 200000 }\n",
            "policy.0.trigger.tokens: expected a whole number such as 1000, \"128k\" or \"32MiB\", \
             got \"x\" (f:2)",
        ),
    ] {
        assert_eq!(told(toml, &[], &[]), [line], "{toml}");
    }
}

#[test]
fn a_mistake_in_a_variable_or_a_flag_has_its_name() {
    for (env, flags, line) in [
        (
            &[("BALER_POLICY__WINDOW", "100")][..],
            &[][..],
            "policy.0.window: 100 is too small; at least 256 (BALER_POLICY__WINDOW)",
        ),
        (
            &[],
            &["--window", "100"],
            "policy.0.window: 100 is too small; at least 256 (--window)",
        ),
        (
            &[],
            &["--listen", "nowhere"],
            "listen.address: \"nowhere\" is not an IP address with a port, such as 127.0.0.1:4141 \
             (--listen)",
        ),
        (
            &[("OPENAI_BASE_URL", "ftp://x")],
            &[],
            "upstream.url: not an http or https URL such as https://api.openai.com/v1 \
             (OPENAI_BASE_URL)",
        ),
        (
            &[("BALER_LISTEN__ADRESS", "127.0.0.1:1")],
            &[],
            "listen.adress: unknown key, did you mean \"address\"?; known here: address, workers, \
             auth_tokens_file, server_timing, response_headers (BALER_LISTEN__ADRESS)",
        ),
        (
            &[("BALER_LISTEN__ADDRESS", "4141")],
            &[],
            "listen.address: expected an IP address with a port, such as 127.0.0.1:4141, got 4141 \
             (BALER_LISTEN__ADDRESS)",
        ),
        (
            &[],
            &["--upstream", "localhost:8000"],
            "upstream.url: lacks its scheme, did you mean http://localhost:8000? (--upstream)",
        ),
        (
            &[("BALER_MODE", "observe")],
            &[],
            "BALER_MODE: no such variable; sections and keys are joined by two underscores: did \
             you mean BALER_POLICY__MODE? (environment)",
        ),
        (
            &[("BALER_POLICY_WINDOW", "8k")],
            &[],
            "BALER_POLICY_WINDOW: no such variable; sections and keys are joined by two \
             underscores: did you mean BALER_POLICY__WINDOW? (environment)",
        ),
        // Nothing is near: nothing is suggested.
        (
            &[("BALER_FOO", "1")],
            &[],
            "BALER_FOO: no such variable; sections and keys are joined by two underscores: for \
             example BALER_UPSTREAM__URL (environment)",
        ),
        (
            &[("BALER_VERSION", "1")],
            &[],
            "BALER_VERSION: no such variable; sections and keys are joined by two underscores: for \
             example BALER_UPSTREAM__URL (environment)",
        ),
    ] {
        assert_eq!(told("", env, flags), [line], "{env:?} {flags:?}");
    }
    let lines = told(
        "",
        &[("BALER_POLICY", "[{}]"), ("BALER_UPSTREAM", "x")],
        &[],
    );
    assert!(lines[0].contains("the default policy's keys, for example BALER_POLICY__MODE"));
    assert!(
        lines[1].contains("for example BALER_UPSTREAM__"),
        "{lines:?}"
    );
    // The strongest source counts: the file says something else.
    let env = [("BALER_POLICY__RESERVE", "many")];
    let lines = told("[[policy]]\nreserve = 5\n", &env, &[]);
    assert!(
        lines[0].ends_with("got \"many\" (BALER_POLICY__RESERVE)"),
        "{lines:?}"
    );
}

#[test]
fn a_second_file_is_not_ignored() {
    let output = Command::new(env!("CARGO_BIN_EXE_baler"))
        .env_clear()
        .args(["check", "one.toml", "--config", "two.toml"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("two configuration files are named, one.toml and two.toml"),
        "{text}"
    );
}

#[test]
fn an_empty_variable_with_the_file_is_none_and_an_empty_flag_is_a_mistake() {
    for (variable, flags, code) in [
        (Some(""), &[][..], 0),
        (None, &["--config", ""], 2),
        (Some("/no/such/file"), &[], 2),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_baler"))
            .env_clear()
            .envs(variable.map(|name| ("BALER_CONFIG", name)))
            .arg("check")
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{variable:?} {flags:?}: {text}"
        );
    }
}

#[test]
fn names_of_other_tools_get_a_hint() {
    for (toml, hint) in [
        (
            "[[policy]]\nmax_tokens = 5\n",
            "policy.0.max_tokens: unknown key, here it is trigger = { tokens = 100000 }",
        ),
        (
            "[[policy]]\ntrigger = { max_tokens = 5 }\n",
            "policy.0.trigger.max_tokens: unknown key, here it is tokens = 100000",
        ),
        (
            "[[policy]]\nwindow_size = 5\n",
            "unknown key, here it is window = 128000",
        ),
        (
            "[[policy]]\nladder = [{ sliding_window = { window_size = 5 } }]\n",
            "here it is messages = 20",
        ),
        (
            "[[policy]]\nkeep_last = 5\n",
            "here it is keep = { messages = 20 }",
        ),
        (
            "[[policy]]\nmode = \"shadow\"\n",
            "policy.0.mode: unknown value \"shadow\", here it is observe",
        ),
        (
            "[[policy]]\nladder = [{ clear_results = { clear_tool_inputs = true } }]\n",
            "here it is clear_inputs",
        ),
        (
            "[summarizer]\nbase_url = \"http://x\"\n",
            "summarizer.base_url: unknown key, here it is url",
        ),
    ] {
        let lines = told(toml, &[], &[]);
        assert_eq!(lines.len(), 1, "{toml}: {lines:?}");
        assert!(lines[0].contains(hint), "{toml}: {lines:?}");
    }
    let lines = told("[[policy]]\nzzz = 5\n", &[], &[]);
    assert!(
        lines[0].starts_with("policy.0.zzz: unknown key; known here: name,"),
        "{lines:?}"
    );
}
