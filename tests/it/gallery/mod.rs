//! A gallery of digests: eleven kinds of conversations, made up for this purpose and the same in
//! every run, and what `baler compact --target-ratio 0.3` makes of each. To be read as the model
//! that must go on: is everything there that the next step needs?

mod people;
mod work;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::corpus::{folder, shown};
use crate::support::{message, messages_of, request};

/// A conversation in the making.
struct Chat {
    messages: Vec<String>,
    calls: usize,
}

impl Chat {
    fn new(system: &str) -> Self {
        Chat {
            messages: vec![message("system", system)],
            calls: 0,
        }
    }

    fn user(&mut self, text: &str) -> &mut Self {
        self.messages.push(message("user", text));
        self
    }

    fn assistant(&mut self, text: &str) -> &mut Self {
        self.messages.push(message("assistant", text));
        self
    }

    /// A call and its result: text, or JSON as tools write it.
    fn call(&mut self, name: &str, arguments: &Value, result: &Value) -> &mut Self {
        self.calls += 1;
        let id = format!("call_{:03}", self.calls);
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        let text = match result {
            Value::String(text) => text.clone(),
            json => serde_json::to_string_pretty(json).unwrap(),
        };
        self.messages.extend([
            json!({"role": "assistant", "content": null, "tool_calls": [call]}).to_string(),
            json!({"role": "tool", "tool_call_id": id, "content": text}).to_string(),
        ]);
        self
    }
}

/// The same conversation by an agent that does not use the API's calls: the model writes them into
/// its text, and what they gave comes as the user's next message.
fn in_text(chat: &Chat) -> Chat {
    let mut messages = Vec::new();
    for raw in &chat.messages {
        let read: Value = serde_json::from_str(raw).unwrap();
        let text = read["content"].as_str().unwrap_or_default();
        messages.push(match (&read["tool_calls"][0]["function"], &read["role"]) {
            (Value::Object(call), _) => {
                let arguments: Value =
                    serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
                let call = json!({"name": call["name"], "arguments": arguments});
                message("assistant", &format!("<tool_call>\n{call}\n</tool_call>"))
            }
            (_, Value::String(role)) if role == "tool" => {
                let given = format!("<tool_response>\n{text}\n</tool_response>");
                message("user", &given)
            }
            _ => raw.clone(),
        });
    }
    Chat {
        messages,
        calls: chat.calls,
    }
}

/// The same numbers every time, that follow no pattern: the `n`th below `limit`.
fn number(n: usize, limit: usize) -> usize {
    let mixed = (n as u64 + 1).wrapping_mul(6_364_136_223_846_793_005) ^ 0x9e37_79b9;
    usize::try_from(mixed.wrapping_mul(1_442_695_040_888_963_407) >> 33).unwrap() % limit
}

/// The `n`th of some words.
fn pick<'w>(words: &[&'w str], n: usize) -> &'w str {
    words[n % words.len()]
}

fn compacted(body: &str) -> String {
    let mut baler = Command::new(env!("CARGO_BIN_EXE_baler"))
        .env_clear()
        .args(["compact", "--target-ratio", "0.3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = baler.stdin.take().unwrap();
    input.write_all(body.as_bytes()).unwrap();
    drop(input);
    let done = baler.wait_with_output().unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn eleven_kinds_of_conversations_become_these_digests() {
    let gallery = [
        ("airline", people::airline()),
        ("shop", people::shop()),
        ("travel-chinese", people::travel()),
        ("names-of-the-world", people::guests()),
        ("planning-in-prose", people::planning()),
        ("coding", work::coding()),
        ("coding-in-text", in_text(&work::coding())),
        ("logs", work::logs()),
        ("sql", work::sql()),
        ("browsing", work::browsing()),
        ("research", work::research()),
    ];
    for (name, chat) in gallery {
        let body = request(&chat.messages);
        let sent = compacted(&body);
        assert_eq!(sent, compacted(&body), "{name}: deterministic");
        let messages = messages_of(sent.as_bytes());
        let digests = messages
            .iter()
            .filter(|raw| raw.contains("<conversation_digest>"));
        assert_eq!(digests.count(), 1, "{name}");
        assert_eq!(messages.last(), chat.messages.last(), "{name}");
        insta::with_settings!({ snapshot_path => folder().join("snapshots"),
            prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("gallery-{name}"), shown(&sent));
        });
    }
}
