//! The texts that stay beside the digest: what they say need not be told, and what they are about
//! is wanted.

use std::borrow::Cow;

use super::policy_keys::keys_in;
use crate::core::conversation::{Exchange, Speaker};
use crate::core::edit::Draft;
use crate::core::strategy::digest::calls::in_text::{is_output, words_of_user};
use crate::core::strategy::maps::Set;
use crate::core::strategy::scope::is_among;
use crate::core::{Cancel, Cancelled};

/// The newest exchanges, whose texts show the present subject of the conversation.
const RECENT: usize = 3;

/// The text that stays besides the digest.
#[derive(Debug, Default)]
pub(in crate::core::strategy) struct Context {
    /// Results of calls, and other texts that nobody said.
    pub texts: Vec<String>,
    /// What the parties said, and whether it was the user: newest exchange first.
    pub said: Vec<(bool, String)>,
    /// Arguments of calls.
    pub calls: Vec<String>,
    /// Keys that the instructions name: what a policy turns on.
    pub keys: Set<String>,
    /// The newest texts: the present topic of the conversation.
    pub recent: Vec<String>,
    /// The user's newest message.
    pub said_last: Vec<String>,
    /// The newest text is the result of a call: the model is at what it said before.
    pub is_at_work: bool,
}

impl Context {
    /// Adds what a party said in the next older exchange.
    pub(in super::super) fn note_said(&mut self, is_user: bool, texts: Vec<String>) {
        if is_user && self.said_last.is_empty() {
            self.said_last.clone_from(&texts);
        }
        self.said
            .extend(texts.into_iter().map(|text| (is_user, text)));
    }
}

/// The texts that stay when `condensed` go.
///
/// # Errors
/// [`Cancelled`], also once there is no time left for a choice.
pub(in crate::core::strategy) fn context_besides(
    draft: &Draft<'_>,
    condensed: &[Exchange],
    cancel: &Cancel,
) -> Result<Context, Cancelled> {
    let mut context = Context::default();
    let messages = draft.conversation().messages;
    let stay: Vec<Exchange> = draft
        .remaining()
        .map(|(exchange, _)| exchange)
        .filter(|exchange| !is_among(condensed, exchange))
        .collect();
    for (age, exchange) in stay.iter().rev().enumerate() {
        cancel.check_budget()?;
        for entry in (exchange.first..exchange.end).flat_map(|at| draft.entries(at)) {
            let texts = entry.texts().into_iter().map(Cow::into_owned);
            let calls = entry.calls().filter(|call| call.legacy.is_none());
            let arguments = calls.filter_map(|call| call.arguments?.decode());
            let texts: Vec<String> = texts.collect();
            if age == 0 {
                context.is_at_work = entry.speaker == Speaker::Tool;
            }
            if entry.speaker == Speaker::Instruction {
                context
                    .keys
                    .extend(texts.iter().flat_map(|text| keys_in(text)));
            }
            let arguments: Vec<String> = arguments.map(Cow::into_owned).collect();
            if age < RECENT {
                let recent = texts.iter().chain(&arguments);
                context.recent.extend(recent.cloned());
            }
            if is_output(messages, exchange.first) {
                context.texts.extend(texts);
                context.note_said(true, words_of_user(messages, exchange.first));
            } else if entry.speaker == Speaker::Tool {
                context.texts.extend(texts);
            } else {
                context.note_said(entry.speaker == Speaker::User, texts);
            }
            context.calls.extend(arguments);
        }
    }
    Ok(context)
}
