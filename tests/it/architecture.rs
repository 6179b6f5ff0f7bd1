//! The rules of the house, read from the sources: what the core may know, who may import whom, and
//! how large things are.

mod imports;
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use self::imports::Crate;
use self::sources::{Source, root, rust_files, sources};

/// Fails with all `offences` at once.
#[track_caller]
fn none(rule: &str, offences: &[String]) {
    assert!(
        offences.is_empty(),
        "{rule}; {} offences:\n  {}",
        offences.len(),
        offences.join("\n  ")
    );
}

/// Field names of the JSON of chat completions.
const WIRE_NAMES: [&str; 27] = [
    "annotations",
    "arguments",
    "cache_control",
    "cached_tokens",
    "choices",
    "completion_tokens",
    "content",
    "finish_reason",
    "function_call",
    "image_url",
    "include_usage",
    "input_audio",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "parallel_tool_calls",
    "prompt_tokens",
    "prompt_tokens_details",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "role",
    "stream_options",
    "tool_call_id",
    "tool_calls",
    "tool_choice",
];

/// Words of Baler's own that are spelled like a field of the wire: where, the word, its meaning
/// there.
const OWN_WORDS: [(&str, &str, &str); 10] = [
    ("src/cli/check.rs", "messages", "a unit of triggers"),
    ("src/config/", "messages", "a key"),
    ("src/config/", "include_usage", "a key"),
    ("src/core/planner/", "messages", "a field of x-baler-usage"),
    (
        "src/core/planner/",
        "prompt_tokens",
        "a field of x-baler-usage",
    ),
    (
        "src/core/policy/",
        "messages",
        "a trigger, its reason, a variable of expressions",
    ),
    ("src/core/policy/", "role", "a variable of expressions"),
    ("src/core/strategy/", "messages", "an option"),
    ("src/core/strategy/", "max_tokens", "an option"),
    (
        "src/observe/event/",
        "messages",
        "an endpoint of another API",
    ),
];

/// The demo plays both a client and an upstream, and `check` a client: they speak what those speak.
fn may_spell_the_wire(path: &str) -> bool {
    path.starts_with("src/core/wire/")
        || path.starts_with("src/cli/demo/")
        || path == "src/cli/play/conversation.rs"
}

#[test]
fn field_names_of_the_wire_are_spelled_in_one_room() {
    let mut offences = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources("src") {
        if may_spell_the_wire(&source.path) {
            continue;
        }
        for (line, text) in source.literals() {
            for name in WIRE_NAMES {
                let own = |(path, word, _): &&(&str, &str, &str)| {
                    source.path.starts_with(path) && *word == name && text == name
                };
                if let Some((path, word, _)) = OWN_WORDS.iter().find(own) {
                    used.insert((*path, *word));
                } else if text == name || text.contains(&format!("\"{name}\"")) {
                    offences.push(format!("{}:{line}: {name:?}", source.path));
                }
            }
        }
    }
    none(
        "JSON field names of an API belong to src/core/wire",
        &offences,
    );
    let stale: Vec<String> = OWN_WORDS
        .iter()
        .filter(|(path, word, _)| !used.contains(&(*path, *word)))
        .map(|(path, word, _)| format!("{path}: {word:?}"))
        .collect();
    none("exceptions that nothing needs any more", &stale);
}

#[test]
fn no_type_outside_of_the_wire_is_read_from_its_json() {
    let an_option = |path: &str, field: &str| {
        ["messages", "max_tokens", "include_usage", "reasoning"].contains(&field)
            || path == "src/core/summary/options.rs" && field == "role"
    };
    let mut offences = Vec::new();
    for source in sources("src") {
        if may_spell_the_wire(&source.path) {
            continue;
        }
        for (line, field) in source.derived_fields() {
            if WIRE_NAMES.contains(&field.as_str()) && !an_option(&source.path, &field) {
                offences.push(format!("{}:{line}: a field `{field}`", source.path));
            }
        }
    }
    none(
        "types that derive Serialize or Deserialize and mirror the wire belong to src/core/wire",
        &offences,
    );
}

/// Other crates that the core may use. They compute; none of them reads, writes, waits, draws or
/// looks at a clock.
const PURE_CRATES: [&str; 26] = [
    "base64",
    "blake3",
    "brotli_decompressor",
    "bytes",
    "cel",
    "core",
    "flate2",
    "foldhash",
    "globset",
    "highway",
    "humantime",
    "imagesize",
    "memchr",
    "regex",
    "roxmltree",
    "ruzstd",
    "schemars",
    "serde",
    "serde_json",
    "saphyr_parser",
    "simdutf8",
    "std",
    "thiserror",
    "tiktoken",
    "tiktoken_rs",
    "alloc",
];

/// Modules of the standard library that do I/O, wait or start something, and types that read the
/// clock or are random.
const IMPURE_MODULES: [&str; 8] = [
    "env", "fs", "net", "os", "process", "thread", "path", "random",
];
const IMPURE_NAMES: [&str; 10] = [
    "Instant",
    "RandomState",
    "SystemTime",
    "UNIX_EPOCH",
    "dbg",
    "eprint",
    "eprintln",
    "print",
    "println",
    "stdout",
];

#[test]
fn the_core_does_no_io_and_reads_no_clock() {
    let dependencies: BTreeSet<String> = dependencies();
    let sources = core();
    let graph = Crate::of(&sources);
    let mut offences = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let mut found = BTreeSet::new();
        for path in graph.mentions_of(at) {
            let first = path[0].as_str();
            let foreign = dependencies.contains(first) && !PURE_CRATES.contains(&first);
            let impure = first == "std"
                && path
                    .get(1)
                    .is_some_and(|module| IMPURE_MODULES.contains(&module.as_str()));
            let io = first == "std" && path.get(1).is_some_and(|module| module == "io");
            let named = path
                .iter()
                .any(|segment| IMPURE_NAMES.contains(&segment.as_str()));
            // Readers of bytes in memory are what decoders are made of.
            if foreign || impure || named || io && !source.path.ends_with("wire/decode.rs") {
                found.insert(path.join("::"));
            }
        }
        offences.extend(found.iter().map(|path| format!("{}: {path}", source.path)));
    }
    none("the core computes, and nothing else", &offences);
}

/// The names of the crates that Baler depends on, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let names: BTreeSet<String> = manifest["dependencies"]
        .as_table()
        .unwrap()
        .keys()
        .map(|name| name.replace('-', "_"))
        .collect();
    assert!(names.contains("tokio"), "the manifest lists dependencies");
    names
}

fn core() -> Vec<Source> {
    sources("src/core")
}

/// The rooms of the core in the order of their declarations: each may import from those before it.
fn rooms(sources: &[Source]) -> Vec<String> {
    let list = sources
        .iter()
        .find(|source| source.path == "src/core/mod.rs")
        .expect("src/core/mod.rs lists the rooms");
    let rooms: Vec<String> = list
        .syntax
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Mod(room) => Some(room.ident.to_string()),
            _ => None,
        })
        .collect();
    assert!(rooms.len() > 8, "{rooms:?}");
    rooms
}

#[test]
fn rooms_of_the_core_import_from_those_above_them_only() {
    let sources = core();
    let rooms = rooms(&sources);
    let room_of = |path: &str| {
        let inner = path.strip_prefix("src/core/").unwrap();
        let room = inner.split('/').next().unwrap().trim_end_matches(".rs");
        rooms.iter().position(|known| known == room)
    };
    let graph = Crate::of(&sources);
    let mut offences = Vec::new();
    for (at, edges) in graph.edges().iter().enumerate() {
        let from = &sources[at].path;
        let Some(room) = room_of(from) else { continue };
        for (to, path) in edges {
            let Some(other) = room_of(&sources[*to].path) else {
                continue;
            };
            if other > room {
                offences.push(format!(
                    "{from} uses {path}, and {} is below {}",
                    rooms[other], rooms[room]
                ));
            }
        }
    }
    none(
        "rooms import from those above them in the list of src/core/mod.rs",
        &offences,
    );
}

#[test]
fn the_core_imports_nothing_from_the_shell() {
    let sources = core();
    let graph = Crate::of(&sources);
    let shell: BTreeSet<String> = std::fs::read_dir(root().join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .filter(|name| name != "core")
        .collect();
    let mut offences = BTreeSet::new();
    for (at, source) in sources.iter().enumerate() {
        for path in graph.crate_paths_of(at) {
            if path.first().is_some_and(|first| shell.contains(first)) {
                offences.insert(format!("{}: crate::{}", source.path, path.join("::")));
            }
        }
    }
    none(
        "the core knows nothing of what surrounds it",
        &offences.into_iter().collect::<Vec<_>>(),
    );
}

#[test]
fn no_files_of_the_core_import_each_other_in_a_circle() {
    let sources = core();
    let edges = Crate::of(&sources).edges();
    // Everything that a file uses, directly or through others.
    let reach: Vec<BTreeSet<usize>> = (0..edges.len())
        .map(|from| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(at) = open.pop() {
                open.extend(edges[at].keys().filter(|to| seen.insert(**to)));
            }
            seen
        })
        .collect();
    let mut circles: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, all) in reach.iter().enumerate() {
        let first = all
            .iter()
            .find(|other| reach[**other].contains(&at) && all.contains(&at));
        if let Some(first) = first {
            circles.entry(*first).or_default().push(at);
        }
    }
    let offences: Vec<String> = circles
        .values()
        .map(|files| {
            let mut text = format!("a circle of {} files", files.len());
            for from in files {
                for (to, path) in &edges[*from] {
                    if files.contains(to) {
                        text.push_str(&format!(
                            "\n    {} uses {path} of {}",
                            sources[*from].path, sources[*to].path
                        ));
                    }
                }
            }
            text
        })
        .collect();
    none("files of the core form no circles", &offences);
}

const MOST_LINES_OF_A_FUNCTION: usize = 60;
const MOST_PARAMETERS: usize = 5;
const MOST_LINES_OF_A_FILE: usize = 500;
const MOST_COLUMNS: usize = 100;

#[test]
fn functions_fit_a_screen_and_take_few_parameters() {
    let mut offences = Vec::new();
    for source in sources("src") {
        for function in source.functions() {
            let place = format!("{}:{}: {}", source.path, function.line, function.name);
            if function.lines > MOST_LINES_OF_A_FUNCTION {
                offences.push(format!("{place} has {} lines", function.lines));
            }
            if function.parameters > MOST_PARAMETERS && !function.reasoned {
                offences.push(format!("{place} has {} parameters", function.parameters));
            }
        }
    }
    none(
        "functions have at most 60 lines, and five parameters unless a reason is written beside \
        them",
        &offences,
    );
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut offences = Vec::new();
    for source in sources("src") {
        let lines = source.text.lines().count() - source.test_lines;
        if lines > MOST_LINES_OF_A_FILE {
            offences.push(format!("{} has {lines} lines without tests", source.path));
        }
        if !source.text.starts_with("//!") && !source.text.starts_with("#![doc = include_str!(") {
            offences.push(format!(
                "{} does not begin with its documentation",
                source.path
            ));
        }
    }
    none("files have at most 500 lines and begin with //!", &offences);
}

/// Looks for inputs that break something for as long as it is told.
const FUZZING: &str = "tests/it/fuzz.rs";

/// Tests wait for events, or look now and then by the one helper that does; they assert on no
/// clock.
#[test]
fn no_test_spins_or_holds_a_stopwatch() {
    let words = [
        ["yield", "_now"].concat(),
        ["sleep", "("].concat(),
        ["elapsed", "()"].concat(),
        ["Instant", "::now"].concat(),
        ["{}", " })"].concat(),
    ];
    let mut offences = Vec::new();
    for path in ["tests/it", "src"].into_iter().flat_map(rust_files) {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        let product = path.starts_with("src/");
        let tests = (1..)
            .zip(text.lines())
            .skip_while(|(_, line)| product && !line.starts_with("#[cfg(test)]"));
        for (line, content) in tests {
            let code = content.trim_start();
            let waits = code.starts_with("while let ") && code.contains(".await");
            let spins = code.starts_with("while ") && code.ends_with("{}") && !waits;
            // Product code takes the time from tokio, whose clock a test can stop; fuzzing ends by
            // the clock, and asserts nothing of it.
            let stopped = product && !content.contains("std::time::") || path == FUZZING;
            let found = words.iter().filter(|word| content.contains(*word));
            for word in found.filter(|_| !stopped) {
                offences.push(format!("{path}:{line}: {word}"));
            }
            if spins {
                offences.push(format!("{path}:{line}: an empty loop"));
            }
        }
    }
    none(
        "tests wait by `within` and `until`, and measure no time",
        &offences,
    );
}

#[test]
fn lines_have_at_most_a_hundred_columns() {
    let mut offences = Vec::new();
    let files = ["src", "tests"].into_iter().flat_map(rust_files);
    // The gallery consists of texts that people and tools said.
    for path in files.filter(|path| !path.starts_with("tests/it/gallery/")) {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        for (line, content) in (1..).zip(text.lines()) {
            let columns = content.chars().count();
            if columns > MOST_COLUMNS {
                offences.push(format!("{path}:{line}: {columns} columns"));
            }
        }
    }
    none("lines have at most 100 columns", &offences);
}
