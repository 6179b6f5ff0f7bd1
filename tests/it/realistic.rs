//! Conversations like those that clients have, made from a seed: an agent that reads and edits
//! files and runs commands, a service that looks records up, and long talk. The same in every run
//! and on every machine.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::generated::chat::messages;
use crate::generated::view::{Block, Call, Exchange, Said, Speaker, Text};

/// A conversation with a name; its messages as raw JSON.
pub struct Realistic {
    pub name: String,
    pub messages: Vec<String>,
}

/// The conversations that tests play: from several kB to 200 kB, each kind in several lengths.
pub fn all() -> Vec<Realistic> {
    let mut all = Vec::new();
    for (seed, steps) in [(11, 25), (12, 60), (13, 110)] {
        all.push(named("agent", steps, &agent(seed, steps)));
    }
    for (seed, turns) in [(21, 10), (22, 40), (23, 90)] {
        all.push(named("service", turns, &service(seed, turns)));
    }
    for (seed, turns) in [(31, 12), (32, 60), (33, 110)] {
        all.push(named("talk", turns, &talk(seed, turns)));
    }
    all
}

fn named(kind: &str, length: usize, exchanges: &[Exchange]) -> Realistic {
    Realistic {
        name: format!("{kind}-{length}"),
        messages: exchanges.iter().flat_map(messages).collect(),
    }
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn sentence(&mut self) -> String {
        let (subject, verb) = (self.pick(&SUBJECTS), self.pick(&VERBS));
        let (object, manner) = (self.pick(&OBJECTS), self.pick(&MANNERS));
        let mut sentence = format!("{subject} {verb} {object} {manner}");
        if self.below(3) == 0 {
            let (verb, object) = (self.pick(&VERBS), self.pick(&OBJECTS));
            sentence.push_str(&format!(", and later {verb} {object}"));
        }
        sentence + "."
    }

    fn sentences(&mut self, count: usize) -> String {
        let sentences: Vec<String> = (0..count).map(|_| self.sentence()).collect();
        sentences.join(" ")
    }
}

const SUBJECTS: [&str; 12] = [
    "The harbour master",
    "A committee of three",
    "Our neighbour",
    "The night train",
    "Every second letter",
    "The old bridge",
    "Her first report",
    "The city archive",
    "A former student",
    "The weather service",
    "The second violin",
    "Nobody in the village",
];
const VERBS: [&str; 10] = [
    "mentions",
    "replaces",
    "describes",
    "carries",
    "questions",
    "repairs",
    "follows",
    "misplaces",
    "measures",
    "defends",
];
const OBJECTS: [&str; 12] = [
    "the lighthouse of 1874",
    "a crate of instruments",
    "the missing ledger",
    "the road to the quarry",
    "an unsigned contract",
    "the northern windows",
    "a recipe for ink",
    "the council's answer",
    "two broken clocks",
    "the map of the delta",
    "a box of seeds",
    "the longest winter",
];
const MANNERS: [&str; 8] = [
    "without a word about the cost",
    "as the minutes of May show",
    "because the tide was late",
    "in the presence of witnesses",
    "although it had rained for weeks",
    "before anyone could object",
    "with more patience than skill",
    "on behalf of the owners",
];

fn says(speaker: Speaker, text: String) -> Exchange {
    Exchange::of(Said::new(speaker, vec![Block::Text(Text::plain(text))]))
}

/// A call with a word before it, and its result.
fn called(at: usize, word: &str, tool: &str, arguments: &Value, result: String) -> Exchange {
    let id = format!("call_{at:04}");
    let call = Block::Call(Call::new(&id, tool, arguments));
    let blocks = vec![Block::Text(Text::plain(result))];
    Exchange {
        messages: vec![
            Said::new(
                Speaker::Assistant,
                vec![Block::Text(Text::plain(word)), call],
            ),
            Said::new(Speaker::Tool, vec![Block::Result { id, blocks }]),
        ],
        legacy: false,
    }
}

/// An agent at work on a code base: one task, a second word of the user's now and then.
fn agent(seed: u64, steps: usize) -> Vec<Exchange> {
    let mut dice = Dice(seed);
    let mut files = BTreeMap::new();
    let task =
        "The importer drops the last row of every file. Find out why, mend it, and add a test.";
    let mut all = vec![
        says(
            Speaker::System,
            format!("You are a careful programmer. {}", dice.sentences(12)),
        ),
        says(Speaker::User, task.to_owned()),
    ];
    for step in 0..steps {
        let path = format!("src/{}/{}.rs", dice.pick(&ROOMS), dice.pick(&NOUNS));
        let version = *files.entry(path.clone()).or_insert(1);
        all.push(match dice.below(10) {
            0..4 => called(
                step,
                "I look at the file.",
                "read_file",
                &json!({ "path": path }),
                source(&path, version),
            ),
            4..6 => {
                files.insert(path.clone(), version + 1);
                let (old, new) = (line(&path, version), line(&path, version + 1));
                let arguments = json!({ "path": path, "old": old, "new": new });
                let result = format!("{path}: 1 replacement made, version {}", version + 1);
                called(step, "This line is wrong.", "edit_file", &arguments, result)
            }
            6..9 => {
                let arguments = json!({ "command": "cargo test --quiet" });
                let result = test_run(&mut dice, step, &path);
                called(step, "Now the tests.", "run_command", &arguments, result)
            }
            _ => {
                let arguments = json!({ "pattern": dice.pick(&NOUNS), "path": "src" });
                let result = matches(&mut dice);
                called(step, "Where else is it used?", "search", &arguments, result)
            }
        });
        if step % 20 == 19 {
            let nth = step / 20 + 1;
            all.push(says(Speaker::Assistant, format!("Part {nth} is done.")));
            let wish = format!("Good. Do the same for the exporter, case {}.", 100 + step);
            all.push(says(Speaker::User, wish));
        }
    }
    all
}

const ROOMS: [&str; 4] = ["import", "export", "store", "report"];
const NOUNS: [&str; 5] = ["reader", "row", "header", "buffer", "totals"];

/// The line of a file that its version decides.
fn line(path: &str, version: u32) -> String {
    let name = path.len() * 37 % 101;
    format!("    let last_{name} = rows.len().saturating_sub({version});")
}

fn source(path: &str, version: u32) -> String {
    let mut dice = Dice(path.bytes().map(u64::from).sum());
    let mut text = format!("//! {}\n\nuse std::io;\n\n", dice.sentence());
    for nth in 0..8 + dice.below(10) {
        let (noun, other) = (dice.pick(&NOUNS), dice.pick(&NOUNS));
        let number = dice.below(9_000);
        text.push_str(&format!(
            "/// {}\npub fn {noun}_{nth}(input: &str) -> io::Result<usize> {{\n",
            dice.sentence()
        ));
        text.push_str(&format!("    let {other} = parse_{other}(input)?;\n"));
        text.push_str(&format!("    if {other}.len() > {number} {{\n"));
        text.push_str("        return Err(io::Error::other(\"too many rows\"));\n    }\n");
        if nth == 3 {
            text.push_str(&(line(path, version) + "\n"));
        }
        text.push_str(&format!("    Ok({other}.len() + {nth})\n}}\n\n"));
    }
    text
}

fn test_run(dice: &mut Dice, step: usize, path: &str) -> String {
    let mut text = String::from("running 24 tests\n");
    for nth in 0..24 {
        let (room, noun) = (dice.pick(&ROOMS), dice.pick(&NOUNS));
        let outcome = if nth == 17 && !step.is_multiple_of(3) {
            "FAILED"
        } else {
            "ok"
        };
        text.push_str(&format!("test {room}::{noun}_{nth} ... {outcome}\n"));
    }
    if !step.is_multiple_of(3) {
        let (left, right) = (dice.below(500), dice.below(500));
        let line = 10 + dice.below(80);
        text.push_str(&format!(
            "\n---- row_17 stdout ----\nthread 'row_17' panicked at {path}:{line}:9:\n"
        ));
        text.push_str(&format!(
            "assertion `left == right` failed\n  left: {left}\n right: {right}\n\n"
        ));
        text.push_str("test result: FAILED. 23 passed; 1 failed; 0 ignored\n");
        return text + "error: test failed, to rerun pass `--lib`\n";
    }
    text + "\ntest result: ok. 24 passed; 0 failed; 0 ignored\n"
}

fn matches(dice: &mut Dice) -> String {
    (0..6 + dice.below(20))
        .map(|_| {
            let (room, noun) = (dice.pick(&ROOMS), dice.pick(&NOUNS));
            let (line, other) = (1 + dice.below(400), dice.pick(&NOUNS));
            format!("src/{room}/{noun}.rs:{line}:    let {noun} = self.{other}.next();\n")
        })
        .collect()
}

/// A service desk: every turn looks records up, and ends in an answer.
fn service(seed: u64, turns: usize) -> Vec<Exchange> {
    let mut dice = Dice(seed);
    let rules = dice.sentences(25);
    let mut all = vec![says(
        Speaker::System,
        format!("You work at the service desk of a shop. {rules}"),
    )];
    for turn in 0..turns {
        let order = format!("#W{:07}", 1_000_000 + dice.below(8_999_999));
        let user = format!("user_{:03}", dice.below(40));
        all.push(says(
            Speaker::User,
            format!("Where is order {order}? {}", dice.sentence()),
        ));
        let details = json!({ "order_id": order });
        let found = record(&mut dice, &order, &user);
        all.push(called(
            turn * 2,
            "One moment.",
            "get_order_details",
            &details,
            found,
        ));
        if dice.below(2) == 0 {
            let arguments = json!({ "user_id": user });
            let found = customer(&mut dice, &user);
            all.push(called(
                turn * 2 + 1,
                "And your data.",
                "get_user_details",
                &arguments,
                found,
            ));
        }
        let day = 1 + dice.below(28);
        all.push(says(
            Speaker::Assistant,
            format!(
                "Order {order} arrives on 2026-05-{day:02}. {}",
                dice.sentences(2)
            ),
        ));
    }
    all
}

fn record(dice: &mut Dice, order: &str, user: &str) -> String {
    let items: Vec<Value> = (0..1 + dice.below(5))
        .map(|_| {
            json!({
                "item_id": format!("{:010}", dice.below(2_000_000_000)),
                "name": dice.pick(&["Desk lamp", "Kettle", "Backpack", "Keyboard",
                    "Jigsaw puzzle"]),
                "price": format!("{}.{:02}", 5 + dice.below(300), dice.below(100)),
                "options": { "colour": dice.pick(&["black", "white", "red"]), "warranty": null },
                "available": dice.below(4) > 0,
            })
        })
        .collect();
    let total = format!("{}.{:02}", 20 + dice.below(900), dice.below(100));
    let tracking = format!("{:012}", dice.below(2_000_000_000));
    serde_json::to_string_pretty(&json!({
        "order_id": order,
        "user_id": user,
        "status": dice.pick(&["pending", "delivered", "processed", "cancelled"]),
        "items": items,
        "payment": { "method": dice.pick(&["gift_card", "credit_card"]), "amount": total },
        "tracking": tracking,
    }))
    .unwrap()
}

fn customer(dice: &mut Dice, user: &str) -> String {
    json!({
        "user_id": user,
        "email": format!("{user}@example.com"),
        "address": { "street": format!("{} Oak Lane", 1 + dice.below(900)),
            "zip": dice.below(99_999) },
        "orders": (0..dice.below(6)).map(|_| format!("#W{}",
            dice.below(9_999_999))).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Two who talk at length, and no tools.
fn talk(seed: u64, turns: usize) -> Vec<Exchange> {
    let mut dice = Dice(seed);
    let mut all = vec![says(
        Speaker::System,
        format!("You help with a novel. {}", dice.sentences(6)),
    )];
    for turn in 0..turns {
        let wish = dice.sentences(3);
        all.push(says(
            Speaker::User,
            format!(
                "Chapter {}, scene {}: {wish} Go on.",
                turn / 5 + 1,
                turn % 5 + 1
            ),
        ));
        let paragraphs: Vec<String> = (0..2 + dice.below(3))
            .map(|_| {
                let count = 4 + dice.below(5);
                dice.sentences(count)
            })
            .collect();
        all.push(says(Speaker::Assistant, paragraphs.join("\n\n")));
    }
    all
}

#[test]
fn they_are_the_same_every_time_and_of_all_lengths() {
    let (once, again) = (all(), all());
    assert!(
        once.iter()
            .zip(&again)
            .all(|(a, b)| a.messages == b.messages)
    );
    let sizes: Vec<usize> = once
        .iter()
        .map(|made| made.messages.iter().map(String::len).sum())
        .collect();
    println!("{sizes:?} bytes");
    assert!(
        sizes.iter().all(|size| (4_000..250_000).contains(size)),
        "{sizes:?}"
    );
    assert!(sizes.iter().any(|size| *size > 150_000), "{sizes:?}");
}
