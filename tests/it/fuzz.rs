//! Fuzzing on stable Rust: seeds that are checked in, mutated byte by byte. One second a target;
//! with `BALER_LONG` five minutes, or as many seconds as `BALER_FUZZ_SECONDS` says.

mod bytes;
mod headers;
mod text;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestError, TestRunner};

use crate::support::long;

/// One change of an input.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// A part of the input once more, elsewhere.
    Repeat(Index, Index, usize),
    /// A part of another seed.
    Splice(Index, Index, Index, usize),
    Truncate(Index),
}

/// Pieces that parsers care about.
const PIECES: [&str; 24] = [
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "-1",
    "1e999",
    "[]",
    "{}",
    "\"\"",
    "\r\n",
    "data: ",
    "\u{feff}",
    "\0",
    "18446744073709551616",
    "<|im_start|>",
    "</conversation_digest>",
    "\"role\":\"tool\"",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::Flip(at, byte)),
        (place(), vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (place(), proptest::sample::select(&PIECES[..]))
            .prop_map(|(at, piece)| Mutation::Insert(at, piece.as_bytes().to_vec())),
        (place(), 1..60_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (place(), place(), 1..300_usize)
            .prop_map(|(from, to, length)| Mutation::Repeat(from, to, length)),
        (place(), place(), place(), 1..300_usize)
            .prop_map(|(seed, from, to, length)| Mutation::Splice(seed, from, to, length)),
        place().prop_map(Mutation::Truncate),
    ]
}

fn part(bytes: &[u8], from: &Index, length: usize) -> Vec<u8> {
    let from = from.index(bytes.len() + 1);
    bytes[from..(from + length).min(bytes.len())].to_vec()
}

impl Mutation {
    fn apply(&self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let insert = |input: &mut Vec<u8>, at: &Index, bytes: Vec<u8>| {
            let at = at.index(input.len() + 1);
            input.splice(at..at, bytes);
        };
        match self {
            Mutation::Flip(at, byte) if !input.is_empty() => {
                let at = at.index(input.len());
                input[at] ^= byte;
            }
            Mutation::Flip(..) => {}
            Mutation::Insert(at, bytes) => insert(input, at, bytes.clone()),
            Mutation::Remove(at, length) => {
                let at = at.index(input.len() + 1);
                input.drain(at..(at + length).min(input.len()));
            }
            Mutation::Repeat(from, to, length) => {
                let bytes = part(input, from, *length);
                insert(input, to, bytes);
            }
            Mutation::Splice(seed, from, to, length) => {
                let other: &Vec<u8> = seed.get(seeds);
                let bytes = part(other, from, *length);
                insert(input, to, bytes);
            }
            Mutation::Truncate(at) => input.truncate(at.index(input.len() + 1)),
        }
    }
}

/// Inputs between two looks at the clock.
const BATCH: u32 = 50;

/// The time for mutated inputs of one target.
fn time() -> Duration {
    let seconds = std::env::var("BALER_FUZZ_SECONDS").ok();
    let usual = if long() { 300 } else { 1 };
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(usual))
}

fn seed_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// The files of a folder of `tests` with this ending.
fn seeds(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let folder = seed_folder(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// Runs `check` on the seeds themselves, then on mutated ones, and prints how many. A failure is
/// shrunk, and shown with its input.
fn fuzz(seeds: &[Vec<u8>], check: impl Fn(&[u8])) {
    fuzz_cases(u32::MAX, seeds, check);
}

/// The same with this many cases at most.
fn fuzz_cases(most: u32, seeds: &[Vec<u8>], check: impl Fn(&[u8])) {
    seeds.iter().for_each(|seed| check(seed));
    let input = (any::<Index>(), vec(mutation(), 1..8)).prop_map(|(seed, mutations)| {
        let mut input = seed.get(seeds).clone();
        mutations
            .iter()
            .for_each(|mutation| mutation.apply(&mut input, seeds));
        input
    });
    let config = Config {
        cases: BATCH,
        failure_persistence: None,
        ..Config::default()
    };
    let mut draws = TestRunner::new(config.clone());
    let (began, time, mut tried) = (Instant::now(), time(), 0);
    while tried < most && (tried == 0 || began.elapsed() < time) {
        // A runner ends with its cases: each batch has one, with draws of its own.
        let mut runner = TestRunner::new_with_rng(config.clone(), draws.new_rng());
        let result = runner.run(&input, |input| {
            check(&input);
            Ok(())
        });
        if let Err(TestError::Fail(reason, input)) = result {
            panic!("{reason}\ninput: {:?}", String::from_utf8_lossy(&input));
        }
        tried += BATCH;
    }
    let name = std::thread::current();
    println!("{}: {tried} inputs", name.name().unwrap_or_default());
}
