//! What a digest tells of commands: what was written and is there no longer, in which order things
//! were changed, what was not run, and the numbers of lines.

use serde_json::json;

use super::digest_since::told;

/// So many lines of a text that nothing else says.
fn lines(name: &str, count: usize) -> String {
    let line = |n: usize| {
        format!(
            "{name}_{n} = compute_{name}({}, \"part {n}\")",
            n * 37 % 101
        )
    };
    (1..=count).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_script_that_was_removed_is_not_told_as_if_it_was_there() {
    let write = format!("cat <<'EOF' > probe/try_it.py\n{}\nEOF", lines("probe", 30));
    let keep = format!("cat <<'EOF' > src/kept.py\n{}\nEOF", lines("kept", 30));
    for remove in ["rm probe/try_it.py", "cd /repo && rm -rf probe/"] {
        let calls = [
            ("bash", json!({ "command": write }), json!("")),
            ("bash", json!({ "command": keep }), json!("")),
            ("bash", json!({ "command": remove }), json!("removed")),
        ];
        let digest = told(900, &calls);
        assert!(!digest.contains("probe_7"), "{digest}");
        assert!(digest.contains("kept_7"), "{digest}");
        let all_of_it = |line: &&str| line.contains("> probe/try_it.py");
        let mut shown = digest.lines().filter(all_of_it);
        assert!(
            shown.all(|line| line.ends_with(", removed since")),
            "{digest}"
        );
    }
}

#[test]
fn commands_that_change_something_are_told_in_their_order() {
    let set = |from: &str, to: &str| {
        let sets = format!("s/LIMIT = {from}/LIMIT = {to}/");
        json!({ "command": format!("sed -i '{sets}' conf.py") })
    };
    let calls = [
        ("bash", set("9", "40"), json!("")),
        ("bash", set("40", "9"), json!("")),
        ("bash", set("9", "40"), json!("")),
        (
            "bash",
            json!({"command": "cat conf.py"}),
            json!("LIMIT = 40"),
        ),
        (
            "bash",
            json!({"command": "cat conf.py"}),
            json!("LIMIT = 40"),
        ),
    ];
    let digest = told(900, &calls);
    let set: Vec<&str> = digest
        .lines()
        .filter(|line| line.contains("sed -i"))
        .collect();
    let to: Vec<bool> = set.iter().map(|line| line.contains("= 40/'")).collect();
    assert_eq!(to, [true, false, true], "{digest}");
    // What was looked at twice is told once.
    assert!(digest.contains("cat conf.py) ×2"), "{digest}");
}

#[test]
fn a_call_that_was_not_run_because_of_its_form_failed() {
    let refusal = "Please always provide EXACTLY ONE action in triple backticks, found 2.\n\n\
        Please format your action as shown in <response_example>.";
    let insert = |n: u32| json!({"command": format!("sed -i '{n}i import os' conf.py")});
    let calls = [
        ("bash", insert(3), json!(refusal)),
        ("bash", insert(4), json!("inserted one line")),
    ];
    let digest = told(420, &calls);
    let of = |n: u32| {
        digest
            .lines()
            .find(|line| line.contains(&format!("'{n}i import")))
    };
    assert!(of(3).is_none_or(|line| line.contains("failed")), "{digest}");
    assert!(
        of(4).is_some_and(|line| !line.contains("failed")),
        "{digest}"
    );
}

#[test]
fn the_number_of_a_line_is_that_of_its_file() {
    let named: String = (0..40)
        .map(|n| match n {
            20 => "def settle_invoice(invoice_id, amount_cents):\n".to_owned(),
            21 => "    ledger.post(invoice_id, amount_cents)\n".to_owned(),
            22 => "    audit.note(\"settled\", invoice_id)\n".to_owned(),
            23 => "    return Receipt(invoice_id, amount_cents)\n".to_owned(),
            n => format!("# filler comment number {n} of this part\n"),
        })
        .collect();
    let wrapped = format!("<returncode>0</returncode>\n<output>\n{named}</output>");
    let told_of = |command: &str, gave: &str| {
        let call = ("bash", json!({"command": command}), json!(gave));
        let edit = json!({"path": "pay.py", "note": "settle_invoice(invoice_id, amount_cents)"});
        told(
            260,
            &[call, ("review", edit, json!("settle_invoice is next"))],
        )
    };
    let at = |digest: &str| {
        let mut marks = digest
            .lines()
            .filter_map(|line| line.trim().strip_prefix("… line "));
        marks
            .next()
            .map(|mark| mark.trim_end_matches(':').to_owned())
    };
    for (command, gave, number) in [
        ("sed -n '530,569p' pay.py", &named, Some("550")),
        (
            "cd /repo && sed -n '530,569p' pay.py",
            &wrapped,
            Some("550"),
        ),
        ("cat pay.py", &wrapped, Some("21")),
        ("grep -n settle -r . | sort", &named, None),
    ] {
        let digest = told_of(command, gave);
        assert!(digest.contains("def settle_invoice"), "{digest}");
        let found = at(&digest);
        assert_eq!(found.as_deref(), number, "{command} {digest}");
    }
}
