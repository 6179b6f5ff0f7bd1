//! How fast tokens are counted and the size of a growing conversation is estimated: prints figures
//! and fails where a promise is not kept.
//!
//! Run with `cargo bench`. One thread; what is compared is measured in this process, by turns.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program for developers: it prints, and stops where something is not as it must be"
)]

use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baler::config::{Sources, load};
use baler::core::Cancel;
use baler::core::conversation::{Fingerprint, Measure};
use baler::core::models::ModelFacts;
use baler::core::planner::{Assessment, Counting, LiveFacts, Planner, Seeds, Session};
use baler::core::policy::{Policy, RequestFacts, Window};
use baler::core::tokens::Encoding;
use baler::core::wire::Dialect;
use baler::core::wire::chat::Outline;
use baler::core::wire::overflow::{in_answer, in_event};
use baler::ledger::{Bounds, Memory, Owner};
use baler::observe::Metrics;

/// As in `baler` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DIALECT: Dialect = Dialect::ChatCompletions;
const ENCODING: Encoding = Encoding::O200K;
const RUNS: usize = 5;
/// The promise, as a multiple of the reference's speed in the same run: what a shared machine takes
/// away, it takes from both.
const LEAST_SPEED: f64 = 3.0;
/// Turns of the growing conversation.
const TURNS: usize = 500;

fn main() {
    ENCODING.load();
    let counted = counting();
    let linear = hostile();
    let estimated = estimating();
    if !(counted && linear && estimated) {
        eprintln!("a promise was not kept");
        std::process::exit(1);
    }
}

/// Eight times the text must not take much more than eight times as long, whatever it is made of:
/// quadratic would be 64. The rest is for noise, and for caches that the long text does not fit in.
const MOST_GROWTH: u32 = 24;
const NOISE: Duration = Duration::from_millis(20);

/// Texts that regular expressions and parsers have been known to choke on.
fn hostile() -> bool {
    let counted = [
        " ",
        "a",
        "!?",
        "QUJDREVGR0hJ",
        "漢字仮名",
        "👩\u{200d}👧🎉",
        "\n",
        "7",
        " \n\t",
        "a\u{301}",
        "Zq9",
    ];
    let refused = [
        "7",
        "7,",
        "{",
        "{}",
        "{\\\"message\\\":1}",
        "prompt is too long ",
        "context length ",
        "exceeds ",
        "[",
        "a: ",
        "漢",
    ];
    let counting = counted.map(|unit| {
        grows_linearly(unit, 200_000, |text| {
            black_box(ENCODING.count(text));
        })
    });
    let reading = refused.map(|unit| {
        grows_linearly(unit, 8_192, |text| {
            let envelope = format!(r#"{{"error":{{"message":"{text}"}}}}"#);
            for body in [text, &envelope] {
                let _ = black_box(in_answer(400, body.as_bytes()));
                let _ = black_box(in_event(body.as_bytes()));
            }
        })
    });
    let kept = counting.iter().chain(&reading).all(|linear| *linear);
    println!("hostile texts: eight times the text takes some eight times as long: {kept}");
    kept
}

/// Compares the time of `work` on `bytes` of `unit`, and on eight times as many, each at best of
/// three.
fn grows_linearly(unit: &str, bytes: usize, mut work: impl FnMut(&str)) -> bool {
    let mut best = |bytes: usize| {
        let text = unit.repeat(bytes / unit.len());
        (0..3)
            .map(|_| timed(|| work(&text)).0)
            .min()
            .unwrap_or_default()
    };
    let (short, long) = (best(bytes), best(bytes * 8));
    let linear = long < short * MOST_GROWTH + NOISE;
    if !linear {
        println!("  {unit:?}: {short:?} for {bytes} bytes, {long:?} for eight times as many");
    }
    linear
}

/// Ours and the reference's speed over the same texts.
fn counting() -> bool {
    let reference = tiktoken_rs::o200k_base_singleton();
    let texts = texts();
    let bytes: usize = texts.iter().map(String::len).sum();
    println!(
        "counting {:.1} MB of messages, text by text, one thread",
        bytes as f64 / 1e6
    );
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let (time, tokens) = timed(|| texts.iter().map(|text| ENCODING.count(text)).sum::<u64>());
        ours.push(time);
        // The reference takes its time: it is asked once.
        if run == 0 {
            let (time, expected) = timed(|| {
                texts
                    .iter()
                    .map(|text| reference.encode_ordinary(text).len() as u64)
                    .sum::<u64>()
            });
            theirs.push(time);
            assert_eq!(tokens, expected, "the same count");
        }
    }
    let speed = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        bytes as f64 / 1e6 / times[times.len() / 2].as_secs_f64()
    };
    let (ours, theirs) = (speed(&mut ours), speed(&mut theirs));
    println!("  {ours:>8.1} MB/s  Baler");
    println!("  {theirs:>8.1} MB/s  tiktoken-rs, which counts the same");
    let ratio = ours / theirs;
    println!("  {ratio:>8.1}       times as fast (at least {LEAST_SPEED})");
    ratio >= LEAST_SPEED
}

/// The texts of real conversations, or where there are none, made-up ones.
fn texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        if entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            for line in std::fs::read_to_string(entry.path()).unwrap().lines() {
                collect(&serde_json::from_str(line).unwrap(), &mut texts);
            }
        }
    }
    if texts.is_empty() {
        eprintln!("SKIPPED: no real conversations at ../shared/traces; the texts are made up");
        texts = (0..2_000).map(|n| text(n, 3_000)).collect();
    }
    texts
}

/// All strings in a value.
fn collect(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        serde_json::Value::Object(members) => {
            members.values().for_each(|value| collect(value, texts))
        }
        _ => {}
    }
}

/// A text of about `bytes`, different for each number.
fn text(number: usize, bytes: usize) -> String {
    let words = [
        "request",
        "ledger",
        "the window",
        "upstream()",
        "cursor.next",
        "records",
        "session_id",
        "=> {",
        "\n    let",
        "2026-04-07",
    ];
    let mut text = String::new();
    let mut state = number as u64 + 1;
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push_str(words[usize::try_from(state >> 40).unwrap() % words.len()]);
        text.push_str(&format!(" {} ", state >> 54));
    }
    text
}

/// A conversation that grows by a turn each time: what the new messages cost, and what the known
/// ones do.
fn estimating() -> bool {
    println!(
        "estimating a conversation of {TURNS} turns that grows by two messages of 2 kB each time"
    );
    let bounds = Bounds {
        bytes: 64 << 20,
        messages: 100_000,
        lifetime: Duration::from_secs(60),
        window_lifetime: Duration::from_secs(60),
    };
    let ledger = Memory::new(bounds, Arc::new(Metrics::new().unwrap()));
    let mut policies = load(&Sources::default()).unwrap().policies;
    let mut policy: Policy = Arc::into_inner(policies.remove(0)).unwrap();
    policy.window = Window::Tokens(10_000_000);
    let mut messages = vec![r#"{"role":"system","content":"You are an agent."}"#.to_owned()];
    // Per turn: counting what is new; knowing again what is not (its bytes are hashed); chaining it
    // all up to an estimate.
    let mut times: Vec<[Duration; 3]> = Vec::with_capacity(TURNS);
    for turn in 0..TURNS {
        let known = messages.len();
        for role in ["user", "assistant"] {
            let content =
                serde_json::to_string(&text(turn * 2 + usize::from(role == "user"), 2_000))
                    .unwrap();
            messages.push(format!(r#"{{"role":"{role}","content":{content}}}"#));
        }
        let body = format!(
            r#"{{"model":"gpt-4o","messages":[{}]}}"#,
            messages.join(",")
        );
        let outline = Outline::parse(body.as_bytes()).unwrap();
        let measured = |raws: &[&str]| -> Vec<Measure> {
            raws.iter()
                .map(|raw| {
                    let owner = Owner {
                        tenant: &Fingerprint([0; 32]),
                        dialect: DIALECT,
                        encoding: ENCODING,
                    };
                    ledger.measures.measure(owner, raw).unwrap()
                })
                .collect()
        };
        let (knowing, mut measures) = timed(|| measured(&outline.messages[..known]));
        // The known messages push the vocabulary out of the processor's near caches; that is no
        // cost of counting.
        std::hint::black_box(ENCODING.count(&text(turn + 1_000_000, 4_000)));
        let (counting, new) = timed(|| measured(&outline.messages[known..]));
        measures.extend(new);
        let session = session(outline, &measures);
        let (chaining, assessment) = timed(|| assessed(&session, &ledger, &policy));
        ledger.keep_usage(assessment.estimate.key, assessment.size.tokens);
        times.push([counting, knowing, chaining]);
    }
    let part = |turns: std::ops::Range<usize>| {
        [0, 1, 2].map(|what| {
            let mut times: Vec<f64> = times[turns.clone()]
                .iter()
                .map(|times| times[what].as_secs_f64() * 1e6)
                .collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
    };
    println!(
        "  {:>10} {:>20} {:>20} {:>20}",
        "turns", "counting, us", "knowing again, us", "chaining, us"
    );
    let (early, late) = (part(100..200), part(TURNS - 100..TURNS));
    for (turns, [counting, knowing, chaining]) in [("100..200", early), ("400..500", late)] {
        println!("  {turns:>10} {counting:>20.1} {knowing:>20.1} {chaining:>20.1}");
    }
    let growth = late[0] / early[0];
    println!(
        "  what is new costs {growth:.2} times as much late as it does early (at most 2.5; the \
        conversation is three times as long)"
    );
    growth <= 2.5
}

/// A session whose messages were all measured before.
fn session<'b>(outline: Outline<'b>, measures: &[Measure]) -> Session<'b> {
    let known = RefCell::new(measures.iter());
    let counting = Counting {
        encoding: ENCODING,
        message: &|_| Ok(*known.borrow_mut().next().unwrap()),
        fixed: &|outline| DIALECT.count_fixed(outline, ENCODING),
    };
    Session::open(DIALECT, outline, &counting, &Cancel::default()).unwrap()
}

fn assessed(session: &Session<'_>, ledger: &Memory, policy: &Policy) -> Assessment {
    let seed = Fingerprint::of(b"usage");
    let seeds = Seeds {
        checkpoint: seed,
        usage: seed,
    };
    let (request, cancel) = (RequestFacts::default(), Cancel::default());
    let planner = Planner::new(
        policy,
        (&ModelFacts::default(), 10_000_000),
        &request,
        seeds,
        &cancel,
    );
    let keys = planner.usage_keys(session);
    let known = ledger.known_usage(&keys, false);
    planner.assess(session, (&keys, &known), &LiveFacts::default())
}

fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let result = run();
    (began.elapsed(), result)
}
