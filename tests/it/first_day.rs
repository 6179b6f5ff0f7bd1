//! The first day with Baler: it does what the configuration says, and says what it does.

use baler::config::{Problems, Sources, load};
use baler::core::budget::Budget;
use baler::core::planner::Plan;
use baler::core::policy::{Mode, Reason, Window};

use crate::invariants::{Core, NONE_READY, policy_of};
use crate::support::{agent, message, messages_of, request};

fn with_env(env: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Sources {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sources {
        env: env.iter().map(owned).collect(),
        flags: flags
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect(),
        ..Sources::default()
    }
}

#[test]
fn the_default_policy_can_be_set_by_variables_and_flags() {
    let env = [
        ("BALER_POLICY__MODE", "observe"),
        ("BALER_POLICY__WINDOW", "128k"),
        ("BALER_POLICY__LADDER", "digest,token_budget"),
        ("BALER_POLICY__MODELS", "gpt-*, o1"),
        ("BALER_LIMITS__BODY_BYTES", "16MiB"),
    ];
    let config = load(&with_env(&env, &[])).unwrap();
    let policy = &config.policies[0];
    assert_eq!(config.policies.len(), 2, "and the one for all others");
    let matches = |model: &str| policy.matches(Some(model), "/v1/chat/completions", |_| None);
    assert!(matches("gpt-4o") && matches("o1") && !matches("o3"));
    assert_eq!(policy.delivery.mode, Mode::Observe);
    assert_eq!(policy.window, Window::Tokens(128_000));
    assert_eq!(policy.ladder.len(), 2);
    assert_eq!(config.limits.body_bytes, 16 << 20);
    // Flags are stronger.
    let config = load(&with_env(&env, &[("policy.mode", "off")])).unwrap();
    assert_eq!(config.policies[0].delivery.mode, Mode::Off);
    let Problems(problems) = load(&with_env(&[("BALER_POLICY__MODE", "shadow")], &[])).unwrap_err();
    let text = problems[0].to_string();
    assert!(
        text.contains("observe") && text.contains("(BALER_POLICY__MODE)"),
        "{text}"
    );
}

#[test]
fn what_serve_would_refuse_is_refused_at_once() {
    for (name, value, key) in [
        ("BALER_UPSTREAM__CA_FILE", "/nope.pem", "upstream.ca_file"),
        ("BALER_UPSTREAM__URL", "http://x:99999/v1", "upstream.url"),
        (
            "BALER_UPSTREAM__URL",
            "http://x/v1/chat/completions",
            "upstream.url",
        ),
        ("BALER_LOG__LEVEL", "loud", "log.level"),
    ] {
        let Problems(problems) = load(&with_env(&[(name, value)], &[])).expect_err(value);
        assert_eq!(problems[0].key, key, "{value}");
    }
    let config = load(&with_env(&[("BALER_LOG__LEVEL", "WARNING")], &[])).unwrap();
    assert_eq!(config.log_level, "warn");
}

/// A chat of `count` messages of some 100 tokens, behind a system message.
fn chat(count: usize) -> Vec<String> {
    let mut messages = vec![message("system", "You help.")];
    messages.extend((0..count).map(|at| {
        let speaker = if at % 2 == 0 { "user" } else { "assistant" };
        message(speaker, &format!("m{at} {}", "word ".repeat(95)))
    }));
    messages
}

/// Plans the requests of a growing conversation: at each its plan, the tokens of the client's list,
/// and the messages that are sent.
fn walk(policy: &str, core: &Core, all: &[String], mut each: impl FnMut(&Plan, u64, usize)) {
    let policy = policy_of(policy);
    for end in 1..=all.len() {
        if all[end - 1].contains(r#""role":"assistant""#) || all[end - 1].contains("\"system\"") {
            continue;
        }
        let outcome = core.ask(&request(&all[..end]), &policy);
        let left = usize::try_from(outcome.counted[1].messages).unwrap();
        each(&outcome.plan, outcome.counted[0].tokens, left);
    }
}

/// The first compaction of a growing chat: tokens before, and messages after.
fn first_compaction(policy: &str, most: usize) -> Option<(u64, usize)> {
    let mut first = None;
    walk(
        policy,
        &Core::default(),
        &chat(most),
        |plan, tokens, left| {
            if plan.compaction.is_some() {
                first = first.or(Some((tokens, left)));
            }
        },
    );
    first
}

#[test]
fn a_trigger_in_tokens_fires_where_it_says() {
    for more in ["", "target = { tokens = 4000 }\n"] {
        let policy = format!("[[policy]]\ntrigger = {{ tokens = 10000 }}\n{more}");
        let (tokens, _) = first_compaction(&policy, 130).expect("it fires");
        assert!((10_000..=10_500).contains(&tokens), "{more}: {tokens}");
    }
}

#[test]
fn what_is_not_given_follows_from_the_trigger() {
    let budget = |toml: &str, window| {
        let Budget {
            target, min_gain, ..
        } = policy_of(toml).budget(window);
        (target, min_gain)
    };
    // Room for the prompt: 111,616 of 128,000, and 6,144 of 8,192.
    assert_eq!(budget("[[policy]]\n", 128_000), (55_808, 11_161));
    assert_eq!(budget("[[policy]]\n", 8_192), (3_072, 614));
    let tokens = "[[policy]]\ntrigger = { tokens = 10000 }\n";
    assert_eq!(budget(tokens, 128_000), (6_250, 1_250));
    let ratio = "[[policy]]\ntrigger = { ratio = 0.4 }\n";
    assert_eq!(budget(ratio, 128_000), (27_904, 5_580));
    let target = "[[policy]]\ntrigger = { tokens = 10000 }\ntarget = { tokens = 4000 }\n";
    assert_eq!(budget(target, 128_000), (4_000, 2_000));
}

#[test]
fn a_target_above_the_trigger_is_refused() {
    let refused = |toml: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), toml).unwrap();
        let sources = Sources {
            file: Some(file.path().to_owned()),
            ..Sources::default()
        };
        let Problems(problems) = load(&sources).expect_err(toml);
        problems[0].to_string()
    };
    let mixed = refused("[[policy]]\ntrigger = { tokens = 10000 }\ntarget = { ratio = 0.5 }\n");
    assert!(mixed.contains("not below the trigger"), "{mixed}");
    let zero = refused("[[policy]]\ntrigger = { tokens = 0 }\n");
    assert!(zero.contains("policy.0.trigger.tokens"), "{zero}");
}

#[test]
fn a_window_keeps_what_it_says_besides_the_head() {
    let policy = "[[policy]]\nwindow = 20000\nladder = [{ sliding_window = { messages = 20 } }]\n";
    let (_, left) = first_compaction(policy, 400).expect("it fires");
    // Twenty, the system message, and the pinned first message of the user's.
    assert_eq!(left, 22);
}

#[test]
fn the_keep_of_a_policy_is_a_minimum() {
    let policy = "[[policy]]\nwindow = 20000\nkeep = { messages = 15 }\n\
        ladder = [{ sliding_window = { messages = 4 } }]\n";
    let (_, left) = first_compaction(policy, 400).expect("it fires");
    assert_eq!(left, 17);
}

#[test]
fn several_turns_lie_between_two_compactions_whatever_triggers_and_whatever_the_steps_do() {
    let triggers = [
        "trigger = { messages = 12 }",
        "trigger = { turns = 5 }",
        "trigger = { tool_uses = 8 }",
        "trigger = { tokens = 3000 }",
        "trigger = { ratio = 0.3 }",
        "trigger = { when = \"messages.exists(m, m.role == 'tool')\" }",
        "trigger = { when = \"total_tokens > 2000.0\" }",
    ];
    let ladders = [
        "[\"minify\"]",
        "[{ clear_results = { keep = 1 } }]",
        "[\"trim_results\"]",
        "[\"collapse_errors\", { sliding_window = { messages = 6 } }]",
        "[{ coalesce = {} }]",
        "[\"digest\", \"token_budget\"]",
    ];
    for (trigger, ladder) in triggers.iter().flat_map(|t| ladders.map(|l| (*t, l))) {
        for all in [chat(80), agent(60, 120)] {
            let policy =
                format!("[[policy]]\nwindow = 40000\nreserve = 0\n{trigger}\nladder = {ladder}\n");
            let mut at = Vec::new();
            let mut requests = 0;
            walk(&policy, &Core::default(), &all, |plan, _, _| {
                requests += 1;
                if plan.compaction.is_some() {
                    at.push(requests);
                }
            });
            let nearest = at.windows(2).map(|pair| pair[1] - pair[0]).min();
            assert!(
                nearest.is_none_or(|apart| apart >= 3),
                "{trigger} {ladder}: compactions at requests {at:?}"
            );
        }
    }
}

#[test]
fn a_trigger_by_calls_fires_where_it_says_and_comes_down_to_five_eighths() {
    let policy = "[[policy]]\ntrigger = { tool_uses = 16 }\nladder = [\"token_budget\"]\n";
    let mut fired = Vec::new();
    walk(policy, &Core::default(), &agent(60, 60), |plan, _, _| {
        if let Some(made) = &plan.compaction {
            fired.push((made.reason, plan.before.tool_uses, plan.after.tool_uses));
        }
    });
    assert_eq!(
        fired.first(),
        Some(&(Reason::ToolUses, 16, 10)),
        "{fired:?}"
    );
    // Six more calls fill it again.
    let at: Vec<u64> = fired.iter().map(|(_, before, _)| *before).collect();
    assert_eq!(at[..3], [16, 22, 28], "{fired:?}");
}

#[test]
fn clearing_answers_a_trigger_by_calls_although_the_calls_stay() {
    let policy = "[[policy]]\ntrigger = { tool_uses = 16 }\nladder = [\"clear_results\"]\n";
    let policy = policy_of(policy);
    let all = agent(60, 60);
    let core = Core::default();
    let mut cleared = Vec::new();
    for calls in 1..=40 {
        let outcome = core.ask(&request(&all[..2 + 2 * calls]), &policy);
        cleared.push(outcome.sent.matches("[old tool result cleared").count());
    }
    assert_eq!(
        cleared[..16],
        [&[0; 15][..], &[6][..]].concat(),
        "{cleared:?}"
    );
    // As many stay in full as the target says, and each time six more were called.
    assert_eq!(cleared[20..23], [6, 12, 12], "{cleared:?}");
    assert_eq!(cleared[27..29], [18, 18], "{cleared:?}");
}

/// A conversation with calls of two tools under one id, and an image.
fn with_tools_and_an_image() -> Vec<String> {
    let call = |id: &str, tool: &str| {
        format!(
            concat!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","#,
                r#""type":"function","function":{{"name":"{tool}","arguments":"{{}}"}}}}]}}"#
            ),
            id = id,
            tool = tool
        )
    };
    let result = |id: &str, text: &str| {
        format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#)
    };
    let image = concat!(
        r#"{"role":"user","content":[{"type":"text","text":"see"},"#,
        r#"{"type":"image_url","image_url":{"url":"http://x/a.png"}}]}"#
    );
    vec![
        message("system", "You help."),
        message("user", "Look."),
        call("a", "shell"),
        result("a", &"long \\n".repeat(90)),
        // The same id again, as weak clients do it.
        call("a", "read_file"),
        result("a", "short"),
        image.to_owned(),
        message("assistant", "Done."),
        message("user", "Go on."),
    ]
}

#[test]
fn expressions_see_tools_kinds_and_lengths_of_messages() {
    let all = with_tools_and_an_image();
    let fires = |when: &str| {
        let toml = format!(
            "[[policy]]\ntrigger = {{ when = \"{when}\" }}\npin = {{ first_user = false }}\n\
             ladder = [{{ sliding_window = {{ messages = 1 }} }}]\n"
        );
        Core::default()
            .ask(&request(&all), &policy_of(&toml))
            .plan
            .compaction
            .is_some()
    };
    for (when, expected) in [
        (
            "messages.exists(m, m.tool == 'shell' && m.kind == 'result' && m.chars == 540.0)",
            true,
        ),
        (
            "messages.exists(m, m.tool == 'shell' && m.chars > 540.0)",
            false,
        ),
        (
            "messages[5].tool == 'read_file' && messages[4].tool == 'read_file'",
            true,
        ),
        (
            "messages[2].kind == 'call' && messages[2].tool == 'shell'",
            true,
        ),
        (
            "messages[6].kind == 'image' && messages[6].chars == 3.0",
            true,
        ),
        ("messages[7].kind == 'text' && messages[7].tool == ''", true),
        ("messages.filter(m, m.kind == 'result').size() == 3", false),
    ] {
        // Earlier request points are shorter than some of these indexes: they fail there.
        assert_eq!(
            fires(&format!("messages.size() > 8 && {when}")),
            expected,
            "{when}"
        );
    }
}

#[test]
fn a_summary_is_prepared_before_whichever_trigger_fires() {
    for trigger in [
        "trigger = { tokens = 4000 }",
        "trigger = { messages = 40 }",
        "trigger = { turns = 20 }",
        "trigger = { tool_uses = 20 }",
        "trigger = { ratio = 0.3 }",
        "trigger = { ratio = 0.9 }",
        "trigger = { when = \"messages.size() > 40\" }",
    ] {
        let policy = format!(
            "[[policy]]\nwindow = 16000\nreserve = 0\n{trigger}\nladder = [\"summarize\"]\n"
        );
        let (mut prepared, mut requests, mut fired) = (None, 0, None);
        // None of them is ready, so that nothing is compacted before the walk's end.
        walk(
            &policy,
            &Core::with_summaries(Some(NONE_READY)),
            &if trigger.contains("tool_uses") {
                agent(75, 100)
            } else {
                chat(150)
            },
            |plan, _, _| {
                requests += 1;
                if plan.pending_summary.is_some() {
                    prepared = prepared.or(Some(requests));
                }
                if plan.compaction.is_some() || plan.deferred.is_some() || !plan.fits {
                    fired = fired.or(Some(requests));
                }
            },
        );
        let prepared = prepared.unwrap_or_else(|| panic!("{trigger}: never"));
        assert!(
            fired.is_none_or(|fired| prepared + 2 <= fired),
            "{trigger}: prepared at {prepared}, fired at {fired:?}"
        );
    }
}

#[test]
fn what_cannot_fit_is_not_mangled_for_a_little() {
    // A question that alone exceeds the window, behind a few old results.
    let mut all = agent(4, 60);
    all.push(message("assistant", "Done."));
    all.push(message("user", &"a question ".repeat(4_000)));
    let policy = policy_of("[[policy]]\nwindow = 4000\nreserve = 0\n");
    let outcome = Core::default().ask(&request(&all), &policy);
    assert!(!outcome.plan.fits);
    assert_eq!(outcome.sent, request(&all), "the client's bytes go");
}

#[test]
fn a_call_without_a_result_is_left_alone_and_the_rest_is_compacted() {
    let mut all = agent(40, 120);
    // In the middle, a call of two of which one was never answered.
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"read","arguments":"{}"}},
        {"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"a","content":"half of it"}"#;
    let go_on = message("user", "Go on without it.");
    let broken = [calls.to_owned(), result.to_owned(), go_on];
    all.splice(22..22, broken.clone());
    all.extend([message("assistant", "Done."), message("user", "And now?")]);
    let policy = policy_of("[[policy]]\nwindow = 4000\nreserve = 0\n");
    let outcome = Core::default().ask(&request(&all), &policy);
    assert!(outcome.plan.fits && outcome.plan.compaction.is_some());
    let sent = messages_of(outcome.sent.as_bytes());
    let at = sent.iter().position(|message| *message == broken[0]);
    let at = at.expect("it is there, byte for byte");
    assert_eq!(sent[at + 1], broken[1]);
    // A result without a call is another matter: the list goes as it came.
    let mut orphan = agent(40, 120);
    orphan.insert(2, result.to_owned());
    let outcome = Core::default().ask(&request(&orphan), &policy);
    assert_eq!(outcome.sent, request(&orphan));
}
