//! Recorded conversations, where they are at hand: an addition to those of [`crate::realistic`].

use std::path::PathBuf;

use crate::costs::{Counts, Played, WINDOWS, play};
pub use crate::costs::{body, request_points};
use crate::support::{long, messages_of};

/// The conversations of a file, each a list of raw messages; `None`, loudly, where the file is not.
pub fn conversations(name: &str) -> Option<Vec<Vec<String>>> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/traces")
        .join(name);
    let Ok(text) = std::fs::read_to_string(&file) else {
        eprintln!("SKIPPED: {name} is not here; the invariants are not checked on it");
        return None;
    };
    let lines = text.lines();
    Some(lines.map(|line| messages_of(line.as_bytes())).collect())
}

/// Plays the conversations of a file: all of them where time is no matter, else the first few.
fn played(name: &str) -> Option<[Played; WINDOWS.len()]> {
    let conversations = conversations(name)?;
    let (take, fresh) = if long() { (usize::MAX, 1) } else { (3, 10) };
    let mut counts = Counts::default();
    Some(WINDOWS.map(|window| {
        let mut sum = Played::default();
        for messages in conversations.iter().take(take) {
            sum += play(messages, window, fresh, &mut counts);
        }
        sum.report(name, window);
        sum
    }))
}

#[test]
fn the_invariants_hold_and_compacting_pays_on_recorded_conversations() {
    let names = [
        "airline-agent.jsonl",
        "coding-agent.jsonl",
        "coding-session.jsonl",
    ];
    let all: Vec<[Played; WINDOWS.len()]> = std::thread::scope(|scope| {
        let playing = names.map(|name| scope.spawn(move || played(name)));
        let all = playing.map(|thread| thread.join().unwrap());
        all.into_iter().flatten().collect()
    });
    if all.is_empty() {
        return;
    }
    for (at, window) in WINDOWS.into_iter().enumerate() {
        let mut sum = Played::default();
        all.iter().for_each(|played| sum += played[at]);
        // A few conversations are no sample; whether compacting pays on them all, all must say.
        if long() {
            sum.must_pay("all that fit 128k", window);
        }
    }
}

/// Digests that a later step of the same compaction drops are not written when a walk ends: it went
/// back to before them, to where no process that saw all requests had been.
#[test]
fn a_walk_whose_digest_was_dropped_ends_where_it_is() {
    let Some(conversations) = conversations("coding-agent.jsonl") else {
        return;
    };
    play(&conversations[37][..64], 2_048, 1, &mut Counts::default());
}
