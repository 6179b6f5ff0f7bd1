//! The conversation of an agent, the same in every run, and the planner's work on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use baler::config::{Sources, load};
use baler::core::Cancel;
use baler::core::conversation::{Fingerprint, Measure};
use baler::core::edit::{Checkpoint, Piece};
use baler::core::models::ModelFacts;
use baler::core::planner::{
    Counting, KnownCheckpoint, KnownUsage, LiveFacts, Plan, Planner, Seeds, Session,
};
use baler::core::policy::{Policy, RequestFacts};
use baler::core::strategy::{ExternalInputs, Report};
use baler::core::tokens::Encoding;
use baler::core::wire::Dialect;
use baler::core::wire::chat::Chat;

/// As in `baler` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub(crate) const DIALECT: Dialect = Dialect::ChatCompletions;
pub(crate) const ENCODING: Encoding = Encoding::O200K;

/// A policy with this ladder (the default one when empty) and window.
pub(crate) fn policy(ladder: &[&str], window: u64) -> Policy {
    let ladder =
        (!ladder.is_empty()).then(|| ladder.iter().map(|name| (*name).to_owned()).collect());
    let sources = Sources {
        ladder,
        ..Sources::default()
    };
    let mut policies = load(&sources).unwrap().policies;
    let mut policy = Arc::into_inner(policies.remove(0)).unwrap();
    policy.window = baler::core::policy::Window::Tokens(window);
    policy
}

/// Words that vary, the same in every run.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn line(&mut self, number: usize) -> String {
        const VERBS: [&str; 6] = ["reads", "writes", "opens", "returns", "checks", "keeps"];
        const NAMES: [&str; 8] = [
            "request",
            "ledger",
            "window",
            "upstream",
            "cursor",
            "record",
            "session_id",
            "config",
        ];
        let (verb, name, other) = (
            VERBS[self.next() as usize % 6],
            NAMES[self.next() as usize % 8],
            NAMES[self.next() as usize % 8],
        );
        match self.next() % 4 {
            0 => format!(
                "src/{name}/{other}_{}.rs:{number}: fn {verb}_{name}(id: u64) -> {other} {{",
                self.next() % 400
            ),
            1 => format!(
                "2026-04-0{} 12:{:02}:07 INFO {name} {verb} the {other} id={:06}",
                1 + self.next() % 9,
                number % 60,
                self.next() % 1_000_000
            ),
            2 => format!(
                "    let {name} = self.{other}.{verb}({});",
                self.next() % 10_000
            ),
            _ => format!(
                "the {name} {verb} what the {other} needs, and then some more of it follows"
            ),
        }
    }
}

/// A body: one task, then `exchanges` calls whose results have about `bytes` each.
pub(crate) fn agent(exchanges: usize, bytes: usize) -> String {
    let mut words = Words(7);
    let mut messages = vec![
        r#"{"role":"system","content":"You are an agent."}"#.to_owned(),
        r#"{"role":"user","content":"Find the defect and mend it."}"#.to_owned(),
    ];
    for exchange in 0..exchanges.max(2) {
        let mut text = String::new();
        let mut number = 0;
        while text.len() < bytes {
            number += 1;
            text.push_str(&words.line(number));
            text.push('\n');
        }
        let path = serde_json::to_string(&format!(
            "{{\"path\":\"src/file_{}.rs\"}}",
            words.next() % 500
        ))
        .unwrap();
        messages.push(format!(
            concat!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{exchange}","#,
                r#""type":"function","function":{{"name":"read","arguments":{path}}}}}]}}"#,
            ),
            exchange = exchange,
            path = path,
        ));
        let content = serde_json::to_string(&text).unwrap();
        messages.push(format!(
            r#"{{"role":"tool","tool_call_id":"call_{exchange}","content":{content}}}"#
        ));
    }
    format!(
        r#"{{"model":"gpt-4o","messages":[{}]}}"#,
        messages.join(",")
    )
}

pub(crate) fn measured(body: &str) -> Vec<Measure> {
    Chat::parse(body.as_bytes())
        .unwrap()
        .messages
        .iter()
        .map(|message| DIALECT.measure(message.raw, ENCODING).unwrap())
        .collect()
}

pub(crate) type Checkpoints = RefCell<HashMap<Fingerprint, Arc<Checkpoint>>>;

fn seeds() -> Seeds {
    Seeds {
        checkpoint: Fingerprint::of(b"checkpoint"),
        usage: Fingerprint::of(b"usage"),
    }
}

/// A session whose messages were all measured before.
fn session<'b>(body: &'b str, measures: &[Measure]) -> Session<'b> {
    let known = RefCell::new(measures.iter());
    let counting = Counting {
        encoding: ENCODING,
        message: &|_| Ok(*known.borrow_mut().next().unwrap()),
        fixed: &|outline| DIALECT.count_fixed(outline, ENCODING),
    };
    let outline = DIALECT.outline(body.as_bytes()).unwrap();
    Session::open(DIALECT, outline, &counting, &Cancel::default()).unwrap()
}

pub(crate) fn planned(
    body: &str,
    measures: &[Measure],
    policy: &Policy,
    checkpoints: &Checkpoints,
) -> (Plan, Vec<Piece>) {
    let session = session(body, measures);
    let (request, cancel, external) = (
        RequestFacts::default(),
        Cancel::default(),
        ExternalInputs::default(),
    );
    let unknown = ModelFacts::default();
    let model = (&unknown, policy.window_for(&unknown));
    let planner = Planner::new(policy, model, &request, seeds(), &cancel);
    let keys = session.checkpoint_keys(&planner.seeds.checkpoint);
    let known = keys.iter().rev().find_map(|key| {
        let checkpoint = Arc::clone(checkpoints.borrow().get(&key.prefix)?);
        Some(KnownCheckpoint {
            messages: key.messages,
            checkpoint,
        })
    });
    let derived = planner.derive(&session, known.as_ref(), &external).unwrap();
    let keys = derived.usage_keys(&planner, &session);
    let (unknown, live) = (KnownUsage::default(), LiveFacts::default());
    let plan = planner
        .decide(&session, derived, (&keys, &unknown), &external, live)
        .unwrap();
    assert!(plan.edited() && plan.fits);
    let pieces = session.render(&plan.edits);
    (plan, pieces)
}

pub(crate) fn compacted(body: &str, measures: &[Measure], policy: &Policy, target: u64) {
    let session = session(body, measures);
    let (request, cancel) = (RequestFacts::default(), Cancel::default());
    let planner = Planner::new(
        policy,
        (&ModelFacts::default(), 128_000),
        &request,
        seeds(),
        &cancel,
    );
    let compacted = planner.compact_to(&session, target, target, &ExternalInputs::default());
    let (_, reports) = compacted.unwrap();
    let acted = |report: &Report| report.strategy == "digest" && report.acted();
    assert!(reports.iter().any(acted), "{reports:?}");
}
