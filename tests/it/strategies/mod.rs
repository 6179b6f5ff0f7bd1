//! What each strategy does to a small chat: every step of a ladder alone, made to act by force.

mod cache_marks;
mod clear_results;
mod coalesce;
mod collapse_errors;
mod dedupe;
mod digest;
mod digest_agents;
mod digest_agreed;
mod digest_apart;
mod digest_belongs;
mod digest_chosen;
mod digest_code;
mod digest_commands;
mod digest_decided;
mod digest_followed_up;
mod digest_form;
mod digest_honest;
mod digest_in_text;
mod digest_in_question;
mod digest_lists;
mod digest_needs;
mod digest_parts;
mod digest_said_of;
mod digest_since;
mod digest_work;
mod long_turn;
mod lossless;
mod minify;
mod oversize;
mod reports;
mod role_alternation;
mod scope;
mod sliding_window;
mod strip;
mod token_budget;
mod trim_results;

use baler::core::Cancel;
use baler::core::conversation::{Fingerprint, Speaker};
use baler::core::edit::Edit;
use baler::core::models::ModelFacts;
use baler::core::planner::{Planner, Seeds, Session};
use baler::core::policy::{Policy, RequestFacts};
use baler::core::strategy::{ExternalInputs, Report, Stopped};
use baler::core::tokens::Encoding;
use baler::core::wire::chat::PRIMER_TOKENS;
use serde_json::{Value, json};

use crate::invariants::{Core, DIALECT, policy_of};
use crate::support::{message, messages_of, request};

/// What a compaction made of a list.
struct Compacted {
    messages: Vec<String>,
    reports: Vec<Report>,
}

impl Compacted {
    /// The report of the only step with this name.
    fn report(&self, strategy: &str) -> &Report {
        let mut found = self
            .reports
            .iter()
            .filter(|report| report.strategy == strategy);
        let report = found
            .next()
            .unwrap_or_else(|| panic!("{strategy} reports: {:?}", self.reports));
        assert!(found.next().is_none(), "{strategy} reports once");
        report
    }
}

/// A policy in whose window everything fits, so that it acts by force alone. Its target cannot be
/// met: every step runs to its end. Only the newest exchange stays, and what never goes.
fn policy(ladder: &str) -> Policy {
    policy_with("", ladder)
}

fn policy_with(more: &str, ladder: &str) -> Policy {
    policy_of(&format!(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ tokens = 0, exchanges = 1 }}\n\
        target = {{ tokens = 1 }}\n{more}\nladder = [{ladder}]\n"
    ))
}

/// Forces one compaction.
fn forced(messages: &[String], policy: &Policy) -> Compacted {
    let outcome = Core::default().ask_with(&request(messages), policy, true);
    let after = tokens(&messages_of(outcome.sent.as_bytes()));
    assert_eq!(
        outcome.counted[1].tokens, after,
        "the plan knows the size of what is sent"
    );
    Compacted {
        messages: messages_of(outcome.sent.as_bytes()),
        reports: outcome
            .plan
            .compaction
            .map(|compaction| compaction.reports)
            .unwrap_or_default(),
    }
}

fn compacted(messages: &[String], ladder: &str) -> Compacted {
    forced(messages, &policy(ladder))
}

/// The edits of a compaction to so many tokens, for as long as `cancel` lets it run.
fn compacted_while(
    all: &[String],
    ladder: &str,
    target: u64,
    cancel: &Cancel,
) -> Result<Vec<Edit>, Stopped> {
    let policy = policy_of(&format!(
        "[[policy]]\nwindow = 100000000\nreserve = 0\n\
        keep = {{ tokens = 0, exchanges = 1 }}\nladder = [{ladder}]\n"
    ));
    let body = request(all);
    let outline = DIALECT.outline(body.as_bytes()).unwrap();
    let session = Session::open_afresh(DIALECT, outline, Encoding::O200K).unwrap();
    let (facts, seed) = (RequestFacts::default(), Fingerprint::of(b"seed"));
    let seeds = Seeds {
        checkpoint: seed,
        usage: seed,
    };
    let model = (&ModelFacts::default(), 100_000_000);
    let planner = Planner::new(&policy, model, &facts, seeds, cancel);
    let done = planner.compact_to(&session, target, target, &ExternalInputs::default());
    done.map(|(edits, _)| edits)
}

/// Prompt tokens of a list.
fn tokens(messages: &[String]) -> u64 {
    let each = messages
        .iter()
        .map(|raw| DIALECT.measure(raw, Encoding::O200K).unwrap().tokens);
    PRIMER_TOKENS + each.sum::<u64>()
}

/// An assistant message with calls: id, name, arguments.
fn calls(calls: &[(&str, &str, &str)]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({"id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls}).to_string()
}

fn result(id: &str, content: &str) -> String {
    json!({"role": "tool", "tool_call_id": id, "content": content}).to_string()
}

/// A task, then one call and its result for each (tool, arguments, result), then another word of
/// the user's, so that all of the calls are old.
fn job(steps: &[(&str, &str, &str)]) -> Vec<String> {
    let mut messages = vec![
        message("system", "You are an agent."),
        message("user", "Find the answer."),
    ];
    for (at, (name, arguments, content)) in steps.iter().enumerate() {
        let id = format!("call_{at}");
        messages.extend([calls(&[(&id, name, arguments)]), result(&id, content)]);
    }
    messages.push(message("user", "Go on."));
    messages
}

/// The text of a message.
fn text(raw: &str) -> String {
    DIALECT.entry(raw).unwrap().texts().concat()
}

/// The texts of all tool results.
fn results(messages: &[String]) -> Vec<String> {
    messages
        .iter()
        .filter(|raw| role(raw) == Speaker::Tool)
        .map(|raw| text(raw))
        .collect()
}

fn role(raw: &str) -> Speaker {
    DIALECT.entry(raw).unwrap().speaker
}

/// The decoded arguments of all calls.
fn arguments(messages: &[String]) -> Vec<String> {
    let calls = messages.iter().flat_map(|raw| {
        DIALECT
            .entry(raw)
            .unwrap()
            .calls()
            .map(|call| call.arguments.unwrap().raw().to_owned())
            .collect::<Vec<_>>()
    });
    calls
        .map(|raw| serde_json::from_str(&raw).unwrap())
        .collect()
}

/// What becomes of the results of a tool `read`, each in an exchange of its own.
fn after_step(ladder: &str, contents: &[&str]) -> Vec<String> {
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", "{}", *content))
        .collect();
    let after = results(&compacted(&job(&steps), ladder).messages);
    assert_eq!(after.len(), contents.len(), "no result is lost");
    after
}

fn trimmed(options: &str, contents: &[&str]) -> Vec<String> {
    after_step(&format!("{{ trim_results = {{ {options} }} }}"), contents)
}

/// The text of the only message that is tagged so, and that it is a user's.
fn tagged(messages: &[String], tag: &str) -> String {
    let open = format!("<{tag}>\n");
    let found: Vec<&String> = messages
        .iter()
        .filter(|raw| text(raw).starts_with(&open))
        .collect();
    assert_eq!(found.len(), 1, "one <{tag}> in {messages:#?}");
    assert_eq!(role(found[0]), Speaker::User);
    let text = text(found[0]);
    assert!(text.ends_with(&format!("\n</{tag}>")), "{text}");
    text
}

/// Text of so many different characters that its cut can be seen.
fn numbered(lines: usize) -> String {
    (0..lines)
        .map(|line| format!("line {line} says {}", line * 7919))
        .collect::<Vec<_>>()
        .join("\n")
}

fn placeholder(raw: &str) -> String {
    format!(
        "[old tool result cleared to save context, {} tokens]",
        DIALECT.measure(raw, Encoding::O200K).unwrap().tokens
    )
}

/// Which of the results were cleared, and that the others are as they were.
fn cleared(before: &[String], after: &[String]) -> Vec<usize> {
    let tools = before.iter().filter(|raw| role(raw) == Speaker::Tool);
    let pairs = tools
        .zip(after.iter().filter(|raw| role(raw) == Speaker::Tool))
        .enumerate();
    pairs
        .filter(|(_, (before, after))| {
            assert!(
                before == after
                    || text(after).starts_with(placeholder(before).trim_end_matches(']')),
                "{after}"
            );
            before != after
        })
        .map(|(nth, _)| nth)
        .collect()
}

/// Details of a report by name.
fn detail(report: &Report, name: &str) -> u64 {
    report
        .details
        .iter()
        .find(|(key, _)| *key == name)
        .unwrap_or_else(|| panic!("{name} in {:?}", report.details))
        .1
}

const COUNTS: [&str; 8] = [
    "turns",
    "calls_total",
    "calls_shown",
    "calls_dropped",
    "outputs_total",
    "outputs_shown",
    "outputs_dropped",
    "errors_collapsed",
];

fn counts(report: &Report) -> Vec<u64> {
    COUNTS.iter().map(|name| detail(report, name)).collect()
}
