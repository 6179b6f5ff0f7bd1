//! Calls that are made in texts, of agents that do not use the API's calls: what a command gave
//! comes as the user's next message, but is no word of the user's. It is told as a call with its
//! result.

use std::borrow::Cow;

use super::passages::parted;

use crate::core::conversation::{Block, Call, Entry, Speaker, Text, ToolResult};
use crate::core::edit::is_synthetic;
use crate::core::json::write_string;
use crate::core::wire::in_text::{
    Command, begins_as_output, commands_in, is_reminder, responses, said_in, without_interruption,
    without_label, without_state,
};

/// Bytes of a message by which it is known as an output.
const OPENING_BYTES: usize = 240;

/// A call that a text makes.
#[derive(Debug)]
pub(in super::super) struct TextCall {
    name: String,
    /// JSON in a text, as it is spelled in JSON.
    arguments: String,
    /// The text of its result, as it is spelled in JSON.
    output: Option<String>,
}

impl TextCall {
    fn new(command: Command) -> Self {
        TextCall {
            arguments: spelled(&command.arguments),
            name: command.name,
            output: None,
        }
    }

    pub(in super::super) fn call(&self) -> Call<'_> {
        Call {
            id: Cow::Borrowed(""),
            name: Cow::Borrowed(&self.name),
            arguments: Some(Text::new(&self.arguments)),
            legacy: None,
        }
    }

    pub(in super::super) fn result(&self) -> Option<ToolResult<'_>> {
        self.output.as_ref().map(|output| ToolResult {
            answers: None,
            name: None,
            raw: Some(output),
            texts: vec![Text::new(output)],
            media: Vec::new(),
            parts: 1,
            legacy: false,
        })
    }
}

fn spelled(text: &str) -> String {
    let mut spelled = String::new();
    write_string(text, &mut spelled);
    spelled
}

/// Whether message `at` is what a command in the text of the message before it gave.
pub(in super::super) fn is_output(messages: &[Entry<'_>], at: usize) -> bool {
    let begins = |entry: &Entry<'_>| {
        let opening = entry.raw_texts().next();
        let opening = opening.and_then(|text| text.opening(OPENING_BYTES));
        opening.is_some_and(|text| begins_as_output(&text))
    };
    let is_it = |entry: &&Entry<'_>| entry.speaker == Speaker::User && begins(entry);
    let before = at.checked_sub(1).and_then(|before| messages.get(before));
    messages.get(at).filter(is_it).is_some()
        && before.is_some_and(|entry| {
            entry.speaker == Speaker::Assistant
                && !entry.is_call()
                && !is_synthetic(entry)
                && !commands_in(&entry.texts().join("\n")).is_empty()
        })
}

/// The calls whose output message `at` is, each with its own; none where it is something else.
pub(in super::super) fn calls_before(messages: &[Entry<'_>], at: usize) -> Vec<TextCall> {
    let mut calls = calls_without_output(messages, at);
    if calls.is_empty() {
        return calls;
    }
    let (output, _) = output_of(messages, at, &calls);
    let each = responses(&output);
    let spelled = |text: &str| Some(spelled(text.trim_matches(['\n', '\r'])));
    if each.len() == calls.len() {
        for (call, output) in calls.iter_mut().zip(each) {
            call.output = spelled(output);
        }
    } else if let Some(last) = calls.last_mut() {
        last.output = spelled(without_label(&output));
    }
    calls
}

/// The same, oldest first, without what they gave.
pub(in super::super) fn calls_without_output(messages: &[Entry<'_>], at: usize) -> Vec<TextCall> {
    if !is_output(messages, at) {
        return Vec::new();
    }
    let commands = commands_in(&text_of(messages, at - 1)).into_iter();
    commands.map(TextCall::new).collect()
}

/// What the output in message `at` of these calls is, and what the user said in it.
fn output_of(messages: &[Entry<'_>], at: usize, calls: &[TextCall]) -> (String, Vec<String>) {
    let tool = match calls {
        [only] => only.name.as_str(),
        _ => "",
    };
    let texts = messages.get(at).map(Entry::texts).unwrap_or_default();
    let (mut output, mut said) = (Vec::new(), Vec::new());
    for text in &texts {
        let text = without_state(text);
        match said_in(&text, tool) {
            Some((words, rest)) => {
                output.push(rest.to_owned());
                said.push(words.to_owned());
            }
            None => output.push(text.into_owned()),
        }
    }
    output.retain(|text| !text.trim().is_empty());
    (output.join("\n"), said)
}

/// What the user said in message `at`, which is his or an output that passes it on.
pub(in super::super) fn words_of_user(messages: &[Entry<'_>], at: usize) -> Vec<String> {
    let calls = calls_without_output(messages, at);
    if !calls.is_empty() {
        return output_of(messages, at, &calls).1;
    }
    if !is_of_user(messages, at) {
        return Vec::new();
    }
    let texts = messages.get(at).map(Entry::texts).unwrap_or_default();
    let texts = texts.iter().map(|text| {
        let text = without_state(text);
        let text = without_interruption(&text);
        parted(text).map_or_else(|| text.to_owned(), |(said, _)| said)
    });
    texts.filter(|text| !text.is_empty()).collect()
}

/// The passages that an application put beside what the user says in message `at`.
pub(in super::super) fn passages_of_user(messages: &[Entry<'_>], at: usize) -> Vec<String> {
    if !is_of_user(messages, at) || !calls_without_output(messages, at).is_empty() {
        return Vec::new();
    }
    let texts = messages.get(at).map(Entry::texts).unwrap_or_default();
    let passages = texts.iter().map(|text| {
        let text = without_state(text);
        parted(&text).map(|(_, passages)| passages.to_owned())
    });
    passages.flatten().collect()
}

/// Whether the user says something in message `at`: no output of a command comes in his name, nor
/// what an agent reminds of, or notes alone.
pub(in super::super) fn is_of_user(messages: &[Entry<'_>], at: usize) -> bool {
    let Some(entry) = messages
        .get(at)
        .filter(|entry| entry.speaker == Speaker::User)
    else {
        return false;
    };
    let begins = |text: Text<'_>| {
        text.opening(OPENING_BYTES)
            .is_some_and(|text| is_reminder(&text))
    };
    let calls = calls_without_output(messages, at);
    if !calls.is_empty() {
        return !output_of(messages, at, &calls).1.is_empty();
    }
    let is_noted = |text: Text<'_>| {
        let text = text.opening(OPENING_BYTES);
        text.is_some_and(|text| without_interruption(&text).is_empty())
    };
    let has_others = !entry
        .blocks
        .iter()
        .all(|block| matches!(block, Block::Text(_)));
    let mut texts = entry.raw_texts().peekable();
    let is_reminder = texts.peek().copied().is_some_and(begins);
    let is_note = texts.peek().is_some() && !has_others && texts.all(is_noted);
    !is_reminder && !is_note
}

fn text_of(messages: &[Entry<'_>], at: usize) -> String {
    let texts = messages.get(at).map(Entry::texts).unwrap_or_default();
    texts.join("\n")
}

/// A text that makes calls, without them.
pub(in super::super) fn words_beside(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut from = 0;
    for Command { range, .. } in commands_in(text) {
        words.push_str(text.get(from..range.start).unwrap_or_default());
        from = range.end.max(from);
    }
    words.push_str(text.get(from..).unwrap_or_default());
    words
}
