//! The conversations that are played: a chat, an agent's run, a chat with images. There is no
//! randomness: every run is the same.

use serde_json::{Value, json};

/// Words that texts are made of.
const WORDS: [&str; 16] = [
    "order", "window", "travel", "report", "answer", "table", "green", "seven", "market", "letter",
    "river", "signal", "paper", "engine", "corner", "budget",
];
/// Tokens of an image of low detail.
const IMAGE_TOKENS: u64 = 85;

/// A kind of conversation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Script {
    Chat,
    Agent,
    Images,
}

impl Script {
    pub(super) const ALL: [Script; 3] = [Script::Chat, Script::Agent, Script::Images];

    /// Its name in a sentence.
    pub(super) fn title(self) -> &'static str {
        match self {
            Script::Chat => "a chat",
            Script::Agent => "an agent's run",
            Script::Images => "a chat with images",
        }
    }

    /// The messages that each of so many requests adds, of about `tokens` each time.
    pub(super) fn messages(self, requests: u64, tokens: u64) -> Vec<Vec<String>> {
        let mut all = vec![vec![
            json!({"role": "system", "content": "You are a helpful assistant."}).to_string(),
            json!({"role": "user", "content": "Help me to plan my work."}).to_string(),
        ]];
        all.extend((1..requests).map(|nth| {
            let added = self.turn(nth, tokens);
            added.iter().map(Value::to_string).collect()
        }));
        all
    }

    fn turn(self, nth: u64, tokens: u64) -> Vec<Value> {
        let half = tokens / 2;
        match self {
            Script::Chat => vec![
                json!({"role": "assistant", "content": prose(nth * 2, half)}),
                json!({"role": "user", "content": prose(nth * 2 + 1, half)}),
            ],
            Script::Agent => {
                let id = format!("call_{nth}");
                let arguments = json!({"path": format!("src/part_{nth}.rs")}).to_string();
                vec![
                    json!({"role": "assistant", "content": null, "tool_calls": [{
                        "id": id, "type": "function",
                        "function": {"name": "read_file", "arguments": arguments}}]}),
                    json!({"role": "tool", "tool_call_id": id, "content": result(nth, tokens)}),
                ]
            }
            Script::Images => {
                let url = format!("https://example.com/photo-{nth}.png");
                vec![
                    json!({"role": "assistant", "content": prose(nth, half)}),
                    json!({"role": "user", "content": [
                        {"type": "text", "text": prose(nth, half.saturating_sub(IMAGE_TOKENS))},
                        {"type": "image_url", "image_url": {"url": url, "detail": "low"}}]}),
                ]
            }
        }
    }
}

/// The request with these messages, which are separated by commas.
pub(super) fn request(messages: &str) -> String {
    format!(r#"{{"model":"","messages":[{messages}]}}"#)
}

/// Sentences of about so many tokens.
fn prose(seed: u64, tokens: u64) -> String {
    let mut text = format!("Part {seed}: the price is {} EUR.", 100 + seed * 37 % 900);
    for at in 0..tokens.saturating_sub(12) {
        let end = if at % 14 == 13 { "." } else { "" };
        text.push(' ');
        text.push_str(word(seed * 7 + at * 3 + at * at * seed));
        text.push_str(end);
    }
    text
}

/// Lines of code of about so many tokens.
fn result(seed: u64, tokens: u64) -> String {
    let mut text = String::new();
    for line in 0..(tokens / 12).max(1) {
        let (a, b) = (word(seed + line * 5), word(seed * 3 + line));
        text.push_str(&format!(
            "let {a}_{line} = {b}(&{a}, {})?;\n",
            seed * 31 + line
        ));
    }
    text
}

fn word(at: u64) -> &'static str {
    let at = usize::try_from(at % WORDS.len() as u64).unwrap_or(0);
    WORDS.get(at).copied().unwrap_or_default()
}
