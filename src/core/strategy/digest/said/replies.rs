//! Which sentence of what the model said answers the user: the one that has most of his words. It
//! is seldom the first or the last.

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::maps::Set;
use crate::core::text::{Stem, stem_of, words_of};
use crate::core::{Cancel, Cancelled};

/// Words of a message that are looked at, and of a sentence.
const MOST_WORDS: usize = 240;
const MOST_OF_SENTENCE: usize = 60;
/// The fewest words of the user's that such a sentence has.
const LEAST_SHARED: usize = 2;

/// Marks the sentences of the model that answer what the user said before.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn note_replies(
    lines: &mut [DigestLine],
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let mut asked: Set<Stem> = Set::default();
    let mut at = 0;
    while let Some(entry) = lines.get_mut(at..).filter(|rest| !rest.is_empty()) {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let part = entry.first().map(|line| line.part);
        let next = entry.iter().skip(1).position(|line| line.depth == 0);
        let length = next.map_or(entry.len(), |more| more + 1);
        let entry = entry.get_mut(..length).unwrap_or_default();
        match part {
            Some(Part::User) => {
                let words = entry
                    .iter()
                    .flat_map(|line| words_of(&line.text).filter_map(stem_of));
                asked = words.take(MOST_WORDS).collect();
            }
            Some(Part::Assistant) if !asked.is_empty() => note_reply(entry, &asked),
            _ => {}
        }
        at += length;
    }
    Ok(())
}

fn note_reply(said: &mut [DigestLine], asked: &Set<Stem>) {
    let is_told = |line: &&mut DigestLine| {
        let is_said = matches!(line.standing, Standing::Usual | Standing::Edge) && !line.is_code;
        is_said && line.within.is_none()
    };
    let mut best: Option<(usize, &mut DigestLine)> = None;
    for line in said.iter_mut().filter(is_told) {
        let stems = words_of(&line.text)
            .take(MOST_OF_SENTENCE)
            .filter_map(stem_of);
        let mut found: Vec<Stem> = Vec::new();
        for stem in stems.filter(|stem| asked.contains(stem)) {
            if !found.contains(&stem) {
                found.push(stem);
            }
        }
        let shared = found.len();
        if shared >= LEAST_SHARED && best.as_ref().is_none_or(|(most, _)| shared > *most) {
            best = Some((shared, line));
        }
    }
    if let Some((_, line)) = best {
        line.standing = Standing::Edge;
        line.replies = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_that_has_the_words_of_the_question_is_the_reply() {
        let said = |part, depth, text| DigestLine::new(part, depth, text);
        let mut lines = vec![
            said(Part::User, 0, "Who was refused at half term last year?"),
            said(Part::Call, 0, "list_requests(year=2025)"),
            said(Part::Assistant, 0, "The message is sent."),
            said(
                Part::Assistant,
                1,
                "Last year Callum was refused at half term.",
            ),
            said(Part::Assistant, 1, "Callum comes first this time."),
            said(Part::User, 0, "Thanks."),
            said(Part::Assistant, 0, "You are welcome, last year or this."),
        ];
        note_replies(&mut lines, &Cancel::default()).unwrap();
        let replies: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].replies).collect();
        assert_eq!(replies, [3]);
        assert_eq!(lines[3].standing, Standing::Edge);
    }
}
