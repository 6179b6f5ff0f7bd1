//! `strip`: old media become stubs, old reasoning goes.

use baler::core::Cancel;
use baler::core::conversation::Fingerprint;
use baler::core::edit::{Edit, assemble};
use baler::core::models::{Family, ModelFacts};
use baler::core::planner::{Planner, Seeds, Session};
use baler::core::policy::RequestFacts;
use baler::core::strategy::ExternalInputs;
use baler::core::tokens::Encoding;

use crate::invariants::DIALECT;
use crate::support::{message, messages_of, request, words};

use super::{calls, compacted, policy, result, tokens};

#[test]
fn old_images_audio_and_files_become_text() {
    let image = concat!(
        r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"},"#,
        r#""cache_control":{"type":"ephemeral","ttl":"1h"}}"#,
    );
    let audio = r#"{"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}"#;
    let file = r#"{"type":"file","file":{"file_id":"file-1"}}"#;
    let text = r#"{"type":"text","text":"See these.","cache_control":{"type":"ephemeral"}}"#;
    let with = |parts: &[&str]| {
        format!(
            r#"{{"role":"user","name":"ann","content":[{}]}}"#,
            parts.join(", ")
        )
    };
    let all = vec![
        message("user", "Hello."),
        with(&[text, image, audio, file]),
        message("assistant", "Nice."),
        with(&[image]),
    ];
    let stub =
        |what: &str| format!(r#"{{"type":"text","text":"[{what} removed to save context]"}}"#);
    let image_stub = concat!(
        r#"{"type":"text","text":"[image removed to save context]","#,
        r#""cache_control":{"type":"ephemeral","ttl":"1h"}}"#,
    );
    // A stub may take more tokens than its part did: it is the message as a whole that must become
    // smaller.
    for (options, parts) in [
        ("", [text, image_stub, &stub("audio"), &stub("file")]),
        (
            "images = false",
            [text, image, &stub("audio"), &stub("file")],
        ),
        ("audio = false", [text, image_stub, audio, &stub("file")]),
        ("files = false", [text, image_stub, &stub("audio"), file]),
    ] {
        let after = compacted(&all, &format!("{{ strip = {{ {options} }} }}"));
        assert_eq!(after.messages[1], with(&parts), "{options}");
        assert_eq!(
            [&after.messages[0], &after.messages[2], &after.messages[3]],
            [&all[0], &all[2], &all[3]],
            "the newest image stays"
        );
    }
    assert_eq!(
        compacted(
            &all,
            "{ strip = { images = false, audio = false, files = false } }"
        )
        .messages,
        all
    );
}

#[test]
fn a_stub_names_its_file_and_can_be_worded() {
    let data = words(5, 200);
    let file = format!(
        concat!(
            r#"{{"type":"file","file":{{"filename":"a<|im_end|>.pdf","#,
            r#""file_data":"data:application/pdf;base64,{data}"}}}}"#
        ),
        data = data
    );
    let all = vec![
        message("user", "Hello."),
        format!(r#"{{"role":"user","content":[{file}]}}"#),
        message("assistant", "Nice."),
        message("user", "And?"),
    ];
    for (options, stub) in [
        ("", "[file removed to save context: a<\\\\|im_end|>.pdf]"),
        (
            "text = \"[gone: {kind} {file}]\"",
            "[gone: file a<\\\\|im_end|>.pdf]",
        ),
    ] {
        let after = compacted(&all, &format!("{{ strip = {{ {options} }} }}"));
        let expected =
            format!(r#"{{"role":"user","content":[{{"type":"text","text":"{stub}"}}]}}"#);
        assert_eq!(after.messages[1], expected, "{options}");
    }
    let digest = compacted(&all, "\"coalesce\"").messages.concat();
    assert!(digest.contains("[file: a<\\\\|im_end|>.pdf]"), "{digest}");
}

/// Two turns, a call in each, every assistant message with what was thought.
fn thoughtful() -> Vec<String> {
    let thought = words(4, 40);
    let thinks = |raw: &str, field: &str| {
        format!(
            r#"{},"{field}":"{thought}"}}"#,
            raw.strip_suffix('}').unwrap()
        )
    };
    vec![
        message("user", "First question."),
        thinks(&calls(&[("a", "read", "{}")]), "reasoning_content"),
        result("a", "found"),
        thinks(&message("assistant", "First answer."), "reasoning_content"),
        thinks(
            &thinks(&message("assistant", "And more."), "reasoning"),
            "thinking_blocks",
        ),
        message("user", "Second question."),
        thinks(&calls(&[("b", "read", "{}")]), "reasoning_content"),
        result("b", "found"),
        thinks(&calls(&[("c", "read", "{}")]), "reasoning_content"),
        result("c", "found"),
    ]
}

/// The messages that still tell what was thought.
fn thinking(messages: &[String]) -> Vec<usize> {
    (0..messages.len())
        .filter(|at| messages[*at].contains("\"reasoning") || messages[*at].contains("\"thinking"))
        .collect()
}

#[test]
fn old_reasoning_goes_and_that_of_the_current_turn_stays() {
    let all = thoughtful();
    assert_eq!(thinking(&all), [1, 3, 4, 6, 8]);
    let after = compacted(&all, r#""strip""#);
    assert_eq!(thinking(&after.messages), [6, 8]);
    assert_eq!(
        after.messages[1],
        calls(&[("a", "read", "{}")]),
        "nothing else of the message changes"
    );
    assert_eq!(after.messages[3], message("assistant", "First answer."));
    assert_eq!(
        compacted(&all, "{ strip = { reasoning = false } }").messages,
        all
    );
}

#[test]
fn families_that_want_reasoning_back_keep_it_with_calls() {
    let (all, policy) = (thoughtful(), policy(r#""strip""#));
    let body = request(&all);
    let outline = DIALECT.outline(body.as_bytes()).unwrap();
    let session = Session::open_afresh(DIALECT, outline, Encoding::O200K).unwrap();
    for (wants_reasoning, left) in [(true, vec![1, 6, 8]), (false, vec![6, 8])] {
        let seed = Fingerprint::of(b"seed");
        let seeds = Seeds {
            checkpoint: seed,
            usage: seed,
        };
        let (request, cancel) = (RequestFacts::default(), Cancel::default());
        let planner = Planner {
            family: Family {
                alternates: false,
                wants_reasoning,
            },
            ..Planner::new(
                &policy,
                (&ModelFacts::default(), 100_000),
                &request,
                seeds,
                &cancel,
            )
        };
        let external = ExternalInputs::default();
        let target = tokens(&all) - 1;
        let (edits, _) = planner
            .compact_to(&session, target, target, &external)
            .unwrap();
        let sent = messages_of(assemble(&body, &session.render(&edits)).as_bytes());
        assert_eq!(thinking(&sent), left, "wants it: {wants_reasoning}");
        assert!(
            !edits
                .iter()
                .any(|edit| matches!(edit, Edit::Drop | Edit::Stand(_)))
        );
    }
}
