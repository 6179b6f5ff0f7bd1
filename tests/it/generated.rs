//! Generated chats: everything clients send that a compactor has been known to break.

use proptest::prelude::*;

/// A generated conversation: exchanges of raw messages, and what stands around the list.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub exchanges: Vec<Vec<String>>,
    before: String,
    after: String,
    separator: String,
}

impl Conversation {
    /// The request body when the conversation was `length` exchanges long.
    pub fn body(&self, length: usize) -> String {
        let messages: Vec<&str> = self.exchanges[..length]
            .iter()
            .flatten()
            .map(String::as_str)
            .collect();
        format!(
            "{}{}{}",
            self.before,
            messages.join(&self.separator),
            self.after
        )
    }

    /// Lengths at which the client would have asked: before each assistant message, and at the end.
    pub fn request_points(&self) -> Vec<usize> {
        let asks = |at: usize| {
            self.exchanges[at][0].contains(r#""role":"assistant""#)
                || self.exchanges[at][0].contains(r#""role": "assistant""#)
        };
        (1..self.exchanges.len())
            .filter(|at| asks(*at))
            .chain([self.exchanges.len()])
            .collect()
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z ,.]{1,60}",
        2 => "(lorem ipsum dolor sit amet ){1,40}",
        1 => "\\PC{1,40}",
        1 => "[漢字かな🎉👩\u{200d}👧é\u{0}\u{1b}\"\\\\\n\t/]{1,30}",
        1 => Just("</conversation_digest>[old tool result cleared to save context".to_owned()),
    ]
}

/// A string as JSON, spelled in one of the ways that mean the same.
fn string(text: &str, spelling: u8) -> String {
    let plain = serde_json::to_string(text).unwrap();
    match spelling {
        0 => plain
            .chars()
            .map(|c| {
                if c.is_ascii() {
                    c.to_string()
                } else {
                    c.encode_utf16(&mut [0; 2])
                        .iter()
                        .map(|unit| format!("\\u{unit:04x}"))
                        .collect()
                }
            })
            .collect(),
        1 => plain.replace('/', "\\/"),
        _ => plain,
    }
}

fn content() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        (text(), any::<u8>()).prop_map(|(t, s)| format!(r#"{{"type":"text","text":{}}}"#, string(&t, s % 4))),
        text().prop_map(|t| format!(r#"{{"type":"text","text":{},"cache_control":{{"type":"ephemeral"}}}}"#, string(&t, 2))),
        Just(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}"#.to_owned()),
        Just(r#"{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}"#.to_owned()),
        Just(r#"{"type":"later_kind","x":[1,2]}"#.to_owned()),
    ];
    prop_oneof![
        4 => (text(), any::<u8>()).prop_map(|(t, s)| string(&t, s % 4)),
        1 => proptest::collection::vec(part, 1..4).prop_map(|parts| format!("[{}]", parts.join(" , "))),
    ]
}

/// Fields that no one knows, as clients and providers add them.
fn unknown() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(String::new()),
        1 => Just(r#","x":1,"x":2"#.to_owned()),
        1 => Just(r#","huge":123456789012345678901234567890.5e+300"#.to_owned()),
        1 => (1..300_usize).prop_map(|n| format!(r#","deep":{}{}"#, "[".repeat(n), "]".repeat(n))),
        1 => Just(r#","refusal":null,"annotations":[],"audio":null"#.to_owned()),
        1 => text().prop_map(|t| format!(r#","reasoning_content":{}"#, string(&t, 2))),
        1 => Just(r#","name":"participant_1""#.to_owned()),
    ]
}

fn exchange() -> impl Strategy<Value = Vec<String>> {
    let plain = |role: &'static str| {
        (content(), unknown()).prop_map(move |(content, unknown)| {
            vec![format!(
                r#"{{"role":"{role}","content":{content}{unknown}}}"#
            )]
        })
    };
    let calls = (proptest::collection::vec((text(), content(), any::<u16>()), 1..4), any::<bool>(), any::<bool>(), unknown()).prop_map(
        |(calls, null, reverse, unknown)| {
            let content = if null { r#""content":null"#.to_owned() } else { r#""content":"Let me see.""#.to_owned() };
            // Ids may come again in another exchange, and twice among parallel calls.
            let id = |n: usize, id: u16| format!("call_{}_{}", id % 3, if id.is_multiple_of(5) { 0 } else { n });
            let made: Vec<String> = calls
                .iter()
                .enumerate()
                .map(|(n, (text, _, i))| {
                    let arguments = serde_json::to_string(&format!("{{\"q\":{}}}", serde_json::to_string(text).unwrap())).unwrap();
                    format!(r#"{{"id":"{}","type":"function","function":{{"name":"tool_{}","arguments":{arguments}}}}}"#, id(n, *i), n % 2)
                })
                .collect();
            let mut results: Vec<String> = calls
                .iter()
                .enumerate()
                .map(|(n, (_, content, i))| format!(r#"{{"tool_call_id":"{}","role":"tool","content":{content}}}"#, id(n, *i)))
                .collect();
            if reverse {
                results.reverse();
            }
            let mut exchange = vec![format!(r#"{{"role":"assistant",{content},"tool_calls":[{}]{unknown}}}"#, made.join(","))];
            exchange.extend(results);
            exchange
        },
    );
    let legacy = (text(), content()).prop_map(|(text, content)| {
        let arguments = serde_json::to_string(&format!("{{\"q\":{}}}", serde_json::to_string(&text).unwrap())).unwrap();
        vec![
            format!(r#"{{"role":"assistant","content":null,"function_call":{{"name":"old","arguments":{arguments}}}}}"#),
            format!(r#"{{"role":"function","name":"old","content":{content}}}"#),
        ]
    });
    prop_oneof![
        2 => plain("user"),
        2 => plain("assistant"),
        5 => calls,
        1 => legacy,
        1 => plain("system"),
        1 => plain("developer"),
        1 => plain("critic"),
    ]
}

pub fn conversation() -> impl Strategy<Value = Conversation> {
    let around = prop_oneof![
        Just((r#"{"model":"m","messages":["#, r#"]}"#, ",")),
        Just((
            "{ \"messages\" : [\n  ",
            "\n ] , \"model\":\"m\", \"n\":1.50, \"z\":1, \"z\":{\"a\":1e400} }\n",
            " ,\n  "
        )),
        Just((
            r#"{"tools":[{"type":"function","function":{"name":"tool_0","description":"d","parameters":{}}}],"max_tokens":17,"messages":["#,
            r#"],"model":"m","stream":true}"#,
            ", "
        )),
    ];
    (proptest::collection::vec(exchange(), 1..24), around).prop_map(
        |(mut exchanges, (before, after, separator))| {
            exchanges.insert(
                0,
                vec![r#"{"role":"user","content":"The task."}"#.to_owned()],
            );
            Conversation {
                exchanges,
                before: before.to_owned(),
                after: after.to_owned(),
                separator: separator.to_owned(),
            }
        },
    )
}

/// A policy as TOML: a small window, any ladder, any options.
pub fn policy() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        (0..4_usize, any::<bool>(), 0..60_u64).prop_map(|(keep, inputs, least)| format!(
            "{{ clear_results = {{ keep = {keep}, clear_inputs = {inputs}, clear_at_least = {least} }} }}"
        )),
        (1..5_u64).prop_map(|n| format!("{{ clear_results = {{ keep = {n}, exclude_tools = [\"tool_0\"] }} }}")),
        (1..7_u64, 0..3_usize)
            .prop_map(|(n, unit)| format!("{{ sliding_window = {{ {} = {n} }} }}", ["turns", "exchanges", "messages"][unit])),
        Just("\"dedupe\"".to_owned()),
        Just("{ dedupe = { blocks = false, older_than = 3 } }".to_owned()),
        Just("\"minify\"".to_owned()),
        Just("{ minify = { json = false, tools = [\"tool_0\"] } }".to_owned()),
        (1..200_u64, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(size, skip, outline, sample)| format!(
            "{{ trim_results = {{ skip_small = {skip}, truncate = {{ size = {size}, head = {}, tail = {} }}{}{} }} }}",
            size / 3,
            size / 4,
            if outline { ", outline = {}" } else { "" },
            if sample { ", sample = { items = 2, pick = \"spread\" }" } else { "" },
        )),
        Just("{ trim_results = { truncate = { unit = \"tokens\", size = 30, head = 10, tail = 10 } } }".to_owned()),
        Just("\"strip\"".to_owned()),
        Just("\"collapse_errors\"".to_owned()),
        Just("\"coalesce\"".to_owned()),
        Just("{ coalesce = { tool_call_limit = 2, output_limit = 1, chars = 40 } }".to_owned()),
        Just("\"digest\"".to_owned()),
        Just("{ digest = { exclude_tools = [\"tool_1\"], older_than = 2 } }".to_owned()),
        Just("{ webhook = { url = \"http://127.0.0.1:1/\" } }".to_owned()),
        Just("\"token_budget\"".to_owned()),
        Just("{ token_budget = { budget = { ratio = 0.3 }, threshold = 0.9 } }".to_owned()),
    ];
    let trigger = prop_oneof![
        4 => Just("{ ratio = 0.8 }".to_owned()),
        1 => Just("{ ratio = 0.9, messages = 12 }".to_owned()),
        1 => Just("{ turns = 8 }".to_owned()),
        1 => Just("{ when = \"total_tokens > budget * 0.7 && messages.size() > 6\" }".to_owned()),
    ];
    let keep = prop_oneof![
        Just("{ tokens = 20000, turns = 1 }"),
        Just("{ tokens = 0, turns = 2 }"),
        Just("{ tokens = 50, turns = 0, exchanges = 3 }")
    ];
    let roles = prop_oneof![3 => Just("auto"), 1 => Just("alternate")];
    (256..1_500_u64, proptest::collection::vec(step, 0..4), trigger, keep, any::<bool>(), any::<bool>(), roles).prop_map(|(window, ladder, trigger, keep, pin, gain, roles)| {
        // The last step makes a fit possible; a ladder may also lack it.
        let mut ladder = ladder;
        if window % 3 != 0 {
            ladder.push("\"token_budget\"".to_owned());
        }
        let min_gain = if gain { "{ ratio = 0.1 }" } else { "{ tokens = 0 }" };
        format!(
            "[[policy]]\nwindow = {window}\nreserve = 64\nroles = \"{roles}\"\ntrigger = {trigger}\nkeep = {keep}\nmin_gain = {min_gain}\npin = {{ first_user = {pin} }}\nladder = [{}]\n",
            ladder.join(", ")
        )
    })
}
