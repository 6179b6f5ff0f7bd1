//! `baler check` plays every policy, and warns of what its operator would not expect.

use std::process::Command;

/// The warnings of `check` about a configuration.
fn warnings(toml: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_baler"))
        .env_clear()
        .arg("check")
        .arg(file.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let problems = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{toml}: {problems}");
    let of_line = |line: &str| line.strip_prefix("warning: ").map(str::to_owned);
    text.lines().filter_map(of_line).collect()
}

#[test]
fn a_policy_that_does_what_one_expects_has_no_warning() {
    for toml in [
        "",
        "[[policy]]\nwindow = 32000\n",
        "[[policy]]\ntrigger = { tokens = 10000 }\n",
        "[[policy]]\ntrigger = { messages = 40 }\nladder = [\"digest\"]\n",
        "[[policy]]\nwindow = 16000\nladder = [\"summarize\", \"token_budget\"]\n",
        "[[policy]]\nmode = \"off\"\nladder = [\"minify\"]\n",
        "[[summarizer]]\nname = \"eu\"\n[[summarizer]]\n\
         [[policy]]\nname = \"a\"\nmodels = [\"a\"]\nwindow = 16000\n\
         ladder = [\"summarize\", \"token_budget\"]\n\
         [[policy]]\nwindow = 16000\nladder = [\"summarize\", \"token_budget\"]\n\
         summarizer = \"eu\"\n",
    ] {
        assert_eq!(warnings(toml), [""; 0], "{toml}");
    }
}

#[test]
fn what_one_would_not_expect_is_told_in_figures() {
    for (toml, expected) in [
        // Nothing in these conversations can be cleared, and no message is dropped.
        (
            "[[policy]]\nwindow = 16000\nladder = [{ clear_results = { tools = [\"nope\"] } }]\n",
            "policy default: never acts in a chat, an agent's run and a chat with images",
        ),
        (
            "[[policy]]\nwindow = 16000\nladder = [\"clear_results\"]\n",
            "requests in a chat do not fit the window of 16000, whatever the ladder does",
        ),
        (
            "[[policy]]\nname = \"all\"\n[[policy]]\nname = \"gpt\"\nmodels = [\"gpt-*\"]\n",
            "policy gpt: no request comes to it: all stands before it",
        ),
        (
            "[[policy]]\nwindow = 16000\nladder = [\"token_budget\", \"digest\"]\n",
            "step 2, digest, is never reached",
        ),
        (
            "[[policy]]\nwindow = 16000\nreserve = 9000\n",
            "no more than a quarter of the window counts: 4000",
        ),
        (
            "[[policy]]\nwindow = 16000\ntrigger = { tokens = 15000 }\n",
            "trigger.tokens is 15000, and the window leaves 12000 for the prompt",
        ),
        (
            "[[policy]]\nwindow = 16000\nkeep = { tokens = 9000 }\n",
            "keep.tokens is 9000, and no more than a third of what the head leaves of the target",
        ),
        (
            "[route]\nchat_suffixes = []\n",
            "route.chat_suffixes is empty: no request is inspected",
        ),
        (
            "[ledger]\nurl = \"redb:///no/such/folder/ledger.redb\"\n",
            "ledger.url: there is no directory /no/such/folder, and Baler makes none",
        ),
        (
            "[[policy]]\nladder = [{ minify = { json = false, text = false } }, \"digest\"]\n",
            "minify does nothing",
        ),
        (
            "[[policy]]\nladder = [{ digest = { tools = [\"read\"], \
             exclude_tools = [\"read\"] } }, \"token_budget\"]\n",
            "never acts on \"read\"",
        ),
        (
            "[[policy]]\nladder = [{ trim_results = { newest = true, older_than = 4 } }, \
             \"digest\"]\n",
            "trim_results.newest has no effect",
        ),
        (
            "[summarizer]\nmodel = \"small\"\n",
            "[summarizer]: no policy has the step summarize",
        ),
        (
            "[[summarizer]]\n[[summarizer]]\nname = \"eu\"\n\
             [[policy]]\nwindow = 16000\nladder = [\"summarize\"]\n",
            "summarizer eu: no policy with the step summarize asks it",
        ),
        (
            "[[summarizer]]\nname = \"us\"\n[[summarizer]]\nname = \"eu\"\n\
             [[policy]]\nwindow = 16000\nladder = [\"summarize\"]\n",
            "policy default: summarize asks the upstream itself",
        ),
        (
            "[[summarizer]]\nname = \"eu\"\n[[policy]]\nsummarizer = \"eu\"\n",
            "policy default: summarizer = \"eu\" has no effect",
        ),
        (
            "[[policy]]\nwindow = 16000\ntrigger = { tokens = 8000 }\ntarget = { tokens = 7900 }\n\
             min_gain = { tokens = 10 }\nladder = [\"token_budget\"]\n",
            "the upstream reads anew",
        ),
    ] {
        let found = warnings(toml);
        assert!(
            found.iter().any(|warning| warning.contains(expected)),
            "{toml}: {found:#?}"
        );
    }
}
