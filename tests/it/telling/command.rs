//! What `baler compact` says about its work.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::{Nobody, agent, message, messages_of, request, within, words};

/// Runs `baler compact` with a configuration; returns its output and its report.
async fn compact(toml: &str, flags: &[&str], input: &str) -> (String, String) {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), toml).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_baler"))
        .env_clear()
        .args(["compact", "--config"])
        .arg(config.path())
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let done = within(child.wait_with_output()).await.unwrap();
    assert!(done.status.success());
    (
        String::from_utf8(done.stdout).unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    )
}

const POLICY: &str = "[[policy]]\nname = \"small\"\nwindow = 4000\nreserve = 1000\n";

#[tokio::test]
async fn nothing_to_do_has_its_real_reason() {
    let run = request(&agent(14, 200));
    let cases = [
        (String::new(), run.clone(), "below_trigger"),
        (
            format!("{POLICY}min_gain = {{ tokens = 2500 }}\n"),
            request(&agent(13, 200)),
            "below_min_gain",
        ),
        (
            POLICY.to_owned(),
            request(&[message("user", &words(1, 5_000))]),
            "unfit",
        ),
    ];
    for (toml, input, reason) in cases {
        let (out, report) = compact(&toml, &[], &input).await;
        assert_eq!(out.trim_end(), input, "{report}");
        let expected = format!("nothing to do ({reason}: ");
        assert!(report.contains(&expected), "{reason} in {report}");
    }
    let (_, report) = compact("", &["--target-tokens", "1000000"], &run).await;
    assert!(
        report.contains("nothing to do (no more than 1000000"),
        "{report}"
    );
}

#[tokio::test]
async fn explain_accounts_for_each_message() {
    let messages = agent(16, 200);
    let input = request(&messages);
    let (out, report) = compact(POLICY, &["--explain"], &input).await;
    let sent = messages_of(out.trim_end().as_bytes());
    let mut lines = report.lines();
    let first = lines.next().unwrap();
    assert!(first.contains("policy small, ratio: "), "{report}");
    let rows: Vec<&str> = lines.skip(1).collect();
    assert_eq!(
        rows.len(),
        messages.len(),
        "a line for each message\n{report}"
    );
    let (mut kept, mut replaced, mut dropped) = (0, 0, 0);
    let (mut before, mut after) = (0, 0);
    for (nth, row) in rows.iter().enumerate() {
        let mut words = row.split_whitespace();
        assert_eq!(words.next().unwrap(), (nth + 1).to_string(), "{row}");
        let role = words.next().unwrap();
        assert!(
            messages[nth].contains(&format!("\"role\":\"{role}\"")),
            "{row}"
        );
        let number = |word: Option<&str>| word.unwrap().parse::<u64>().unwrap();
        before += number(words.next());
        assert_eq!(words.next(), Some("->"));
        after += number(words.next());
        match words.next().unwrap().trim_end_matches(':') {
            "kept" => {
                kept += 1;
                assert!(sent.contains(&messages[nth]), "{row}");
            }
            "replaced" => {
                replaced += 1;
                assert!(
                    row.contains(" by ") && !sent.contains(&messages[nth]),
                    "{row}"
                );
            }
            "dropped" => {
                dropped += 1;
                assert!(row.contains("-> 0"), "{row}");
            }
            other => panic!("{other} in {row}"),
        }
    }
    assert!(kept > 0 && replaced > 0 && dropped > 0, "{report}");
    assert!(after < before, "{report}");
    let (_, brief) = compact(POLICY, &[], &input).await;
    assert_eq!(brief.lines().count(), 1, "{brief}");
}

#[tokio::test]
async fn a_target_may_have_a_unit() {
    let input = request(&agent(14, 200));
    let (plain, _) = compact("", &["--target-tokens", "2000"], &input).await;
    let (amount, report) = compact("", &["--target-tokens", "2k"], &input).await;
    assert!(plain.trim_end() != input && plain == amount, "{report}");
}

#[tokio::test]
async fn a_summariser_that_cannot_be_reached_is_told_with_the_cause() {
    let nobody = Nobody::there();
    let gone = nobody.address;
    let toml = format!(
        "upstream.url = \"http://{gone}/v1\"\n[summarizer]\nwindow = 100000\n{POLICY}\
         keep = {{ tokens = 0, exchanges = 1 }}\n\
         ladder = [\"summarize\", \"token_budget\"]\n"
    );
    let input = request(&agent(30, 200));
    let (_, report) = compact(&toml, &["--target-tokens", "1500"], &input).await;
    assert!(report.contains("unreachable"), "{report}");
    assert!(
        report.contains("refused"),
        "the words of the system: {report}"
    );
}
