//! What the core's work costs in instructions, over fixed inputs. Runs each piece of work once, in
//! `counted`: a simulator of a processor (`tests/bench/count`) counts what happens in there. Alone
//! it only shows that the work is done.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a program for developers: it prints, and stops where something is not as it must be"
)]

mod agent;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use agent::{DIALECT, ENCODING, agent, compacted, measured, planned, policy};
use baler::core::planner::gate;
use baler::core::text::Failures;

/// About the bytes of the bodies that the load tests send.
const SMALL: usize = 15_000;
const LARGE: usize = 500_000;
const RESULT: usize = 3_850;
/// Rows of a list, and sentences.
const ROWS: usize = 6_000;

fn main() {
    ENCODING.load();
    let (small, large) = (agent(SMALL / 4_000, RESULT), agent(LARGE / 4_000, RESULT));
    let measures = measured(&large);
    let tokens: u64 = measures.iter().map(|measure| measure.tokens).sum();
    let default = policy(&[], 128_000);
    // A window in which the large conversation is compacted, several times.
    let narrow = policy(&[], tokens / 4);
    let digest = policy(&["digest"], 128_000);
    let none = RefCell::new(HashMap::new());
    let known = RefCell::new(HashMap::new());
    let mut plan = planned(&large, &measures, &narrow, &none).0;
    if let Some((key, checkpoint)) = plan.checkpoint.take() {
        known.borrow_mut().insert(key, Arc::new(checkpoint));
    }

    counted("gate", &mut || {
        let budget = default.budget(128_000);
        let passes = gate::nothing_can_trigger(
            DIALECT,
            gate::Glance::of(small.as_bytes()),
            &default,
            &budget,
            1.0,
        );
        assert!(black_box(passes));
    });
    counted("outline", &mut || {
        drop(black_box(DIALECT.outline(large.as_bytes()).unwrap()));
    });
    let begun = DIALECT.outline(large.as_bytes()).unwrap();
    let opening = begun.opening(large.len() - RESULT).unwrap();
    counted("resume", &mut || {
        let outline = DIALECT.resume(large.as_bytes(), Some(&opening));
        assert_eq!(
            black_box(outline).unwrap().messages.len(),
            begun.messages.len()
        );
    });
    counted("measure", &mut || {
        black_box(measured(&large));
    });
    counted("replay", &mut || {
        black_box(planned(&large, &measures, &narrow, &known));
    });
    counted("derive", &mut || {
        black_box(planned(&large, &measures, &narrow, &none));
    });
    // Lines as of a test runner, with signs that are not ASCII's.
    let log = "  ✓ reads the configuration (3 ms) → 12 “values”\n".repeat(RESULT / 50);
    counted("signs", &mut || {
        assert!(!black_box(Failures::default().of(None).are(&log)));
    });
    counted("digest", &mut || {
        compacted(&large, &measures, &digest, tokens / 4);
    });
    // A list of like rows: each that is chosen makes all others worth less.
    let rows: Vec<String> = (0..ROWS)
        .map(|n| format!(r#"{{"x":{},"y":{}}}"#, n * 37 % 1_009, n * 53 % 2_003))
        .collect();
    let points = format!("[{}]", rows.join(","));
    let call = concat!(
        r#""content":null,"tool_calls":[{"id":"call_1","type":"function","#,
        r#""function":{"name":"points","arguments":"{}"}}]"#
    );
    let listed = answered(call, Some(&points));
    // Sentences that say nothing without the one before.
    let said: String = (0..ROWS).map(|n| format!("Apply {n}? ")).collect();
    let asked = answered(
        &format!(r#""content":{}"#, serde_json::to_string(&said).unwrap()),
        None,
    );
    for (case, body) in [("rows", listed), ("sentences", asked)] {
        let measures = measured(&body);
        let tokens: u64 = measures.iter().map(|measure| measure.tokens).sum();
        counted(case, &mut || {
            compacted(&body, &measures, &digest, tokens * 2 / 5);
        });
    }
}

/// A body in which the model said this, a tool answered, if it was called, and the user goes on.
fn answered(said: &str, result: Option<&str>) -> String {
    let user = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let result = result.map(|text| {
        let text = serde_json::to_string(text).unwrap();
        format!(r#"{{"role":"tool","tool_call_id":"call_1","content":{text}}}"#)
    });
    let mut messages = vec![user("Begin."), format!(r#"{{"role":"assistant",{said}}}"#)];
    messages.extend(result);
    messages.extend([
        user("Good."),
        r#"{"role":"assistant","content":"Yes."}"#.to_owned(),
        user("Go on."),
    ]);
    format!(
        r#"{{"model":"gpt-4o","messages":[{}]}}"#,
        messages.join(",")
    )
}

/// What is counted is what happens in here, a case after the other; the script looks for this name.
#[inline(never)]
fn counted(case: &str, work: &mut dyn FnMut()) {
    work();
    println!("{case}");
}
