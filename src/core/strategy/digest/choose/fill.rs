//! The body of a digest that fills its budget: lines are chosen, written and counted, and chosen
//! again until little of the budget is left.

use super::text_tokens::TextTokens;
use crate::core::Cancelled;
use crate::core::conversation::Author;
use crate::core::edit::{Draft, Replacement, Tag};
use crate::core::strategy::digest::body::write::body;
use crate::core::strategy::digest::choose::Choice;
use crate::core::strategy::digest::line::DigestLine;

/// Tokens of the target that may stay unused, and the part of it: one in so many.
const SLACK_TOKENS: u64 = 4;
const SLACK_SHARE: u64 = 400;
/// Attempts to meet the target.
const TRIES: usize = 8;

/// The digest of `lines` that fills `budget`, and the number of its lines.
pub(in super::super) fn filled(
    mut choice: Choice<'_>,
    lines: &[DigestLine],
    budget: u64,
    draft: &Draft<'_>,
    tokens: &TextTokens,
) -> Result<Option<(Replacement, usize)>, Cancelled> {
    let written = |body: &str| draft.written(Author::User, &Tag::Digest.text(body));
    let Some(sizes) = LineTokens::in_frame(tokens, written) else {
        return Ok(None);
    };
    let Some((body, tokens)) = chosen(&mut choice, lines, budget, &sizes)? else {
        return Ok(None);
    };
    let text = Tag::Digest.text(&body.join("\n"));
    let new = draft.written_in(tokens, Author::User, &text);
    Ok(Some((new, body.len())))
}

/// The body of the lines that fill `budget`, and the tokens of a message with it.
fn chosen(
    choice: &mut Choice<'_>,
    lines: &[DigestLine],
    budget: u64,
    sizes: &LineTokens<'_>,
) -> Result<Option<(Vec<String>, u64)>, Cancelled> {
    let Some(mut room) = budget.checked_sub(sizes.empty) else {
        return Ok(None);
    };
    choice.restart(room)?;
    let slack = SLACK_TOKENS.max(budget / SLACK_SHARE);
    let mut best = None;
    for _ in 0..TRIES {
        let body = body(lines, &choice.taken);
        if body.is_empty() {
            break;
        }
        let tokens = sizes.of(&body);
        // As a rule, lines take less together than the sum of their own tokens.
        if tokens <= budget {
            best = Some((body, tokens));
            if budget - tokens < slack || !choice.extend(budget - tokens)? {
                break;
            }
        } else if best.is_some() {
            break;
        } else {
            // Headings and marks are not among the costs of lines.
            let Some(less) = room.checked_sub((tokens - budget).max(room / 16 + 1)) else {
                break;
            };
            room = less;
            choice.restart(room)?;
        }
    }
    Ok(best)
}

/// The tokens of a digest, counted line by line, each with the blank ones below it. Today's
/// vocabularies split a text after the end of a line, so that the sum is what the whole takes, or,
/// where some join line breaks with what the next line begins with, a little more.
struct LineTokens<'k> {
    of_texts: &'k TextTokens,
    /// Tokens of a message without any.
    empty: u64,
    /// Tokens besides the lines of one that has some.
    frame: u64,
}

impl<'k> LineTokens<'k> {
    /// `written` gives the message of a body.
    fn in_frame(
        of_texts: &'k TextTokens,
        written: impl Fn(&str) -> Option<Replacement>,
    ) -> Option<Self> {
        let mut sizes = LineTokens {
            of_texts,
            empty: written("")?.tokens,
            frame: 0,
        };
        let line = "x".to_owned();
        let all = written(&line)?.tokens;
        sizes.frame = all.saturating_sub(sizes.of(&[line]));
        Some(sizes)
    }

    fn of(&self, body: &[String]) -> u64 {
        let mut tokens = self.frame;
        let mut text = String::new();
        let mut at = 0;
        while at < body.len() {
            let below = body.get(at + 1..).unwrap_or_default();
            let blank = below.iter().take_while(|line| line.trim().is_empty());
            let end = at + 1 + blank.count();
            text.clear();
            for line in body.get(at..end).unwrap_or_default() {
                text.push_str(line);
                text.push('\n');
            }
            tokens += self.of_texts.of(&Tag::inside(&text));
            at = end;
        }
        tokens
    }
}
