//! The core's own time, without any I/O: prints medians and fails where a promise is not kept.
//!
//! Run with `cargo bench`. One thread; each figure is the median of several runs in this process.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a program for developers: it prints, and stops where something is not as it must be"
)]

mod agent;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::{ENCODING, agent, compacted, measured, planned, policy};

const RUNS: usize = 9;

fn main() {
    ENCODING.load();
    let mut kept = true;

    println!("view, plan and render, counts cached");
    let body = agent(1_000, 3_850);
    let measures = measured(&body);
    let tokens: u64 = measures.iter().map(|measure| measure.tokens).sum();
    println!(
        "  a conversation of {tokens} tokens, {} messages, {:.1} MB",
        measures.len(),
        body.len() as f64 / 1e6
    );
    let checkpoints = RefCell::new(HashMap::new());
    let default = policy(&[], 128_000);
    let mut plan = planned(&body, &measures, &default, &checkpoints).0;
    if let Some((key, checkpoint)) = plan.checkpoint.take() {
        checkpoints.borrow_mut().insert(key, Arc::new(checkpoint));
    }
    let replay = median(|| drop(planned(&body, &measures, &default, &checkpoints)));
    kept &= within(
        "the next request of it (a checkpoint is replayed)",
        replay,
        Some(40),
    );
    let none = RefCell::new(HashMap::new());
    let drops = policy(&["clear_results", "token_budget"], 1_200_000);
    let cleared = median(|| drop(planned(&body, &measures, &drops, &none)));
    kept &= within(
        "compacted now, by clear_results and token_budget",
        cleared,
        Some(40),
    );
    let fresh = median(|| drop(planned(&body, &measures, &default, &none)));
    kept &= within(
        "never seen before, in a window of 128,000: all its compactions derived again",
        fresh,
        None,
    );

    println!("the digest, by the size of the tool results it is made of");
    let mut per_byte = Vec::new();
    for bytes in [10_000, 100_000, 400_000, 1_000_000, 10_000_000] {
        let body = agent(bytes / 4_000, 3_850);
        let measures = measured(&body);
        let total: u64 = measures.iter().map(|measure| measure.tokens).sum();
        let digest = policy(&["digest"], 128_000);
        let time = median(|| compacted(&body, &measures, &digest, total / 4));
        per_byte.push(time.as_secs_f64() / bytes as f64);
        kept &= within(
            &format!("{:>6} kB", bytes / 1_000),
            time,
            (bytes == 400_000).then_some(50),
        );
    }
    let growth = per_byte[4] / per_byte[1];
    println!("  time per byte at 10 MB, as a multiple of that at 100 kB: {growth:.2}");
    kept &= growth < 3.0;

    if !kept {
        eprintln!("a promise was not kept");
        std::process::exit(1);
    }
}

fn within(what: &str, time: Duration, limit_ms: Option<u128>) -> bool {
    let limit = limit_ms.map_or_else(String::new, |limit| format!(" (at most {limit})"));
    println!("  {:>9.3} ms  {what}{limit}", time.as_secs_f64() * 1e3);
    limit_ms.is_none_or(|limit| time.as_millis() <= limit)
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[RUNS / 2]
}
