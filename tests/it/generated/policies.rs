//! Generated policies, as TOML: a small window, any ladder, any options, whatever stays.

use proptest::prelude::*;

fn step() -> impl Strategy<Value = String> {
    let clear = (0..4_usize, any::<bool>(), 0..60_u64).prop_map(|(keep, inputs, least)| {
        let options = format!("keep = {keep}, clear_inputs = {inputs}, clear_at_least = {least}");
        format!("{{ clear_results = {{ {options} }} }}")
    });
    let clear_some = (1..5_u64).prop_map(|n| {
        format!("{{ clear_results = {{ keep = {n}, exclude_tools = [\"tool_0\"] }} }}")
    });
    let window = (1..7_u64, 0..3_usize).prop_map(|(n, unit)| {
        let unit = ["turns", "exchanges", "messages"][unit];
        format!("{{ sliding_window = {{ {unit} = {n} }} }}")
    });
    let trim = (1..200_u64, any::<[bool; 3]>()).prop_map(|(size, [skip, outline, sample])| {
        let (head, tail) = (size / 3, size / 4);
        let truncate = format!("truncate = {{ size = {size}, head = {head}, tail = {tail} }}");
        let outline = if outline { ", outline = {}" } else { "" };
        let sample = if sample {
            ", sample = { items = 2, pick = \"spread\" }"
        } else {
            ""
        };
        format!("{{ trim_results = {{ skip_small = {skip}, {truncate}{outline}{sample} }} }}")
    });
    let fixed = proptest::sample::select(vec![
        "\"dedupe\"",
        "{ dedupe = { blocks = false, older_than = 3 } }",
        "\"minify\"",
        "{ minify = { json = false, tools = [\"tool_0\"] } }",
        "{ trim_results = { truncate = { unit = \"tokens\", size = 30, head = 10, tail = 10 } } }",
        "{ trim_results = { truncate = false, sample = { items = 2 }, skip_small = false } }",
        "{ clear_results = { keep = 1, clear_inputs = [\"*_1\"], text = \"gone: {tool}\" } }",
        "{ collapse_errors = { text = \"[no: {error}]\" } }",
        "\"strip\"",
        "\"collapse_errors\"",
        "\"coalesce\"",
        "{ coalesce = { tool_call_limit = 2, output_limit = 1, chars = 40 } }",
        "\"digest\"",
        "{ digest = { exclude_tools = [\"tool_1\"], older_than = 2 } }",
        "{ webhook = { url = \"http://127.0.0.1:1/\" } }",
        "\"token_budget\"",
        "{ token_budget = { budget = { ratio = 0.3 }, threshold = 0.9 } }",
    ]);
    prop_oneof![
        1 => clear,
        1 => clear_some,
        1 => window,
        1 => trim,
        14 => fixed.prop_map(str::to_owned),
    ]
}

fn trigger() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("{ ratio = 0.8 }"),
        1 => Just("{ ratio = 0.9, messages = 12 }"),
        1 => Just("{ turns = 8 }"),
        1 => Just("{ tool_uses = 6 }"),
        1 => Just("{ when = \"total_tokens > budget * 0.7 && messages.size() > 6\" }"),
    ]
}

/// The newest part that stays: in any unit, in several, in none.
fn keep() -> impl Strategy<Value = String> {
    let tokens = prop_oneof![10..400_u64, Just(20_000)];
    let keep = prop_oneof![
        2 => tokens.prop_map(|tokens| (tokens, 0, 0)),
        2 => (0..4_u64).prop_map(|turns| (0, turns, 0)),
        2 => (0..5_u64).prop_map(|exchanges| (0, 0, exchanges)),
        1 => (0..200_u64, 0..3_u64, 0..4_u64),
    ];
    keep.prop_map(|(tokens, turns, exchanges)| {
        format!("{{ tokens = {tokens}, turns = {turns}, exchanges = {exchanges} }}")
    })
}

/// What stays wherever it stands: by its place, by the tool that was called, by its text.
fn pin() -> impl Strategy<Value = String> {
    let tools = prop_oneof![
        4 => Just(""),
        1 => Just(", tools = [\"old\"]"),
        1 => Just(", tools = [\"tool_1\", \"nobody\"]"),
        1 => Just(", tools = [\"*_0\"]"),
    ];
    let text = prop_oneof![
        4 => Just(""),
        1 => Just(", text = \"(?i)digest\""),
        1 => Just(", text = \"^[a-f]\""),
        1 => Just(", text = \"(lorem ipsum dolor sit amet ){20}\""),
    ];
    (any::<bool>(), tools, text)
        .prop_map(|(first, tools, text)| format!("{{ first_user = {first}{tools}{text} }}"))
}

/// A policy of which the last step often makes a fit possible; a ladder may also lack it.
pub fn policy() -> impl Strategy<Value = String> {
    let roles = prop_oneof![3 => Just("auto"), 1 => Just("alternate")];
    let gain = prop_oneof![Just("{ ratio = 0.1 }"), Just("{ tokens = 0 }")];
    let ladder = proptest::collection::vec(step(), 0..4);
    let marks = (trigger(), keep(), pin(), gain, roles);
    (256..1_500_u64, ladder, marks).prop_map(|(window, mut ladder, marks)| {
        if window % 3 != 0 {
            ladder.push("\"token_budget\"".to_owned());
        }
        let (trigger, keep, pin, gain, roles) = marks;
        let ladder = ladder.join(", ");
        [
            "[[policy]]".to_owned(),
            format!("window = {window}"),
            "reserve = 64".to_owned(),
            format!("roles = \"{roles}\""),
            format!("trigger = {trigger}"),
            format!("keep = {keep}"),
            format!("min_gain = {gain}"),
            format!("pin = {pin}"),
            format!("ladder = [{ladder}]\n"),
        ]
        .join("\n")
    })
}
