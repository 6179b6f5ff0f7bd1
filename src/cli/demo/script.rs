//! The demo's conversation: an agent tracks the shipments of a warehouse with a tool. There is no
//! randomness: every run is the same.

use serde_json::{Value, json};

use crate::core::conversation::Speaker;
use crate::core::wire::chat::Chat;

/// Events that the log lines are made of.
const EVENTS: [&str; 8] = [
    "scanned at gate",
    "weight verified",
    "label reprinted",
    "held for customs",
    "released",
    "moved to bay",
    "loaded on truck",
    "delivered",
];

/// The first messages of the conversation.
pub(super) fn opening() -> Vec<Value> {
    vec![
        json!({
            "role": "system",
            "content": "You are a logistics agent. Use the tool track_shipment to look at each \
                shipment, note what is unusual, and answer the user's questions.",
        }),
        json!({
            "role": "user",
            "content": "Go through today's shipments, one by one, and tell me which of them are \
                late and why.",
        }),
    ]
}

/// The model's answer to a message list: usually the next call.
pub(super) fn reply(chat: &Chat<'_>) -> Value {
    // The number of the newest call is part of its id, so that dropped messages do not confuse the
    // script.
    let last = chat
        .messages
        .iter()
        .rev()
        .find_map(|message| {
            message
                .calls()
                .next()?
                .id
                .strip_prefix("call_")?
                .parse::<u32>()
                .ok()
        })
        .unwrap_or(0);
    let number = last + 1;
    let asked = chat
        .messages
        .last()
        .is_some_and(|message| message.speaker == Speaker::User);
    let note = if asked && last > 0 {
        "Shipment 3 is late because of customs; I go on with the next one."
    } else {
        "Looking at the next shipment."
    };
    json!({
        "role": "assistant",
        "content": note,
        "tool_calls": [{
            "id": format!("call_{number}"),
            "type": "function",
            "function": {
                "name": "track_shipment",
                "arguments": format!("{{\"shipment_id\": \"SH-{}\"}}", 48_000 + number * 37),
            },
        }],
    })
}

/// The messages that the application appends to the model's answer: the tool's result, and now and
/// then a question.
pub(super) fn next(turn: u32, answer: &Value) -> Vec<Value> {
    let id = answer
        .pointer("/tool_calls/0/id")
        .cloned()
        .unwrap_or(Value::Null);
    let mut lines = vec![format!(
        "shipment SH-{} route R{} priority {}",
        48_000 + turn * 37,
        turn % 9,
        if turn.is_multiple_of(3) {
            "express"
        } else {
            "standard"
        }
    )];
    for step in 0..18 {
        let event = EVENTS
            .get(((turn * 5 + step * 3) % 8) as usize)
            .copied()
            .unwrap_or_default();
        lines.push(format!(
            "2026-03-{:02} {:02}:{:02} {event} {} temp {}.{}C",
            1 + (turn + step) % 28,
            (step * 5 + turn) % 24,
            (turn * 17 + step * 11) % 60,
            (turn * 31 + step * 7) % 97,
            2 + step % 6,
            turn % 10
        ));
    }
    let mut messages =
        vec![json!({ "role": "tool", "tool_call_id": id, "content": lines.join("\n") })];
    if turn.is_multiple_of(8) {
        messages
            .push(json!({ "role": "assistant", "content": format!("{turn} shipments are done.") }));
        messages.push(json!({
            "role": "user",
            "content": format!(
                "Thanks. What did you find out about shipment {}? Then go on.",
                turn / 2 + 1
            ),
        }));
    }
    messages
}
