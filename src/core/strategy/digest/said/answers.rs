//! What answers need: "yes" says nothing without the question, and "2" nothing without the list.

use std::ops::Range;

use super::choices::item_of;
use super::items::{
    LAST_SENTENCES, MOST_SENTENCES, note_numbered, note_older_choice, note_other_choices,
    tell_chosen,
};
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing, entry_from};
use crate::core::strategy::digest::lists::is_numbered_or_bullet;
use crate::core::strategy::digest::weigh::weights::word as words_by;
use crate::core::text::{REFUSALS, asks, is_question, refers_back, sentences, shape, words_of};
use crate::core::{Cancel, Cancelled};

/// The longest answer that says nothing without its question (characters).
const ANSWER_CHARS: usize = 14;
/// The words of a question that says nothing without the sentence before.
const SHORT_QUESTION: usize = 3;
/// The same of one that begins with such a word (characters).
const CONSENT_CHARS: usize = 32;
/// The same of one that begins with a word for what was asked about (characters), and words that
/// are as often for what the answer itself is about.
const REFERS_CHARS: usize = 90;
const OF_TALK: [&str; 7] = ["he", "she", "it", "they", "this", "that", "the"];
const CONSENTS: [&str; 27] = [
    "correct",
    "da",
    "evet",
    "go",
    "hayır",
    "ja",
    "nein",
    "nie",
    "no",
    "non",
    "não",
    "ok",
    "okay",
    "oui",
    "right",
    "si",
    "sim",
    "sure",
    "sí",
    "tak",
    "wait",
    "yes",
    "да",
    "нет",
    "네",
    "はい",
    "いいえ",
];
/// Lines of code that one answer is to.
const MOST_CODE: usize = 12;
/// So many messages of the user may answer a list by a letter. It bounds how often one is looked
/// through.
const OLDER_ANSWERS: usize = 4;

/// The beginning of an answer, and the end of what is answered, in which it is looked for whether
/// something is agreed to or asked (bytes).
const AGREES_BYTES: usize = 256;
/// So many texts of the model are looked through for what it proposed, and the fewest items of it.
const OLDER_OFFERS: usize = 8;
const LEAST_OFFERED: usize = 2;
/// The longest offer that is still what he agreed to once something was looked up since (bytes).
const SHORT_OFFER_BYTES: usize = 320;

/// What the model said last, where nothing was done since, is what the user's newest message
/// answers: "yes" says nothing without it. Where it only asks for more, he still answers what it
/// said before: what it offered is what that is for.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn note_answered(
    lines: &mut [DigestLine],
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let Some(newest) = entry_before(lines, lines.len()) else {
        return Ok(());
    };
    mark_answered(lines, newest..lines.len());
    if !only_asks(lines.get(newest..).unwrap_or_default(), cancel)? {
        return Ok(());
    }
    let is_of = |at: &usize, part| lines.get(*at).is_some_and(|line| line.part == part);
    let user = entry_before(lines, newest).filter(|at| is_of(at, Part::User));
    let before = user.and_then(|user| Some(entry_before(lines, user)?..user));
    if let Some(before) = before.filter(|before| is_of(&before.start, Part::Assistant)) {
        mark_answered(lines, before);
    }
    Ok(())
}

/// What the user agrees to with his newest message, where nothing that stays besides the digest
/// asks for it: what the model proposed as a list before it was asked about something else. Where
/// it has looked something up since, only in short: what it found may matter more.
/// `said` is what stays of what the parties said, newest first, and whether by the user.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn note_agreed(
    lines: &mut [DigestLine],
    said: &[(bool, String)],
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let newest = said.first().filter(|(is_user, _)| *is_user);
    let agrees = newest.is_some_and(|(_, text)| {
        let first = text
            .get(..text.floor_char_boundary(AGREES_BYTES))
            .unwrap_or_default();
        let mut clauses = first.split(['.', ',', ';', '!', '\n']).map(str::trim);
        clauses.any(|clause| agrees(without_speaker(clause)))
    });
    let is_open = |(is_user, text): &(bool, String)| {
        let from = text.ceil_char_boundary(text.len().saturating_sub(AGREES_BYTES));
        let end = text.get(from..).unwrap_or_default();
        !is_user && sentences(end).any(asks)
    };
    // Where something was changed since, what that was is told.
    let is_answered = |line: &DigestLine| line.standing == Standing::Answered;
    let is_past = |line: &DigestLine| {
        (line.user_below && line.changes) || (is_answered(line) && asks(&line.text))
    };
    if !agrees || said.iter().any(is_open) || lines.iter().any(is_past) {
        return Ok(());
    }
    let below = lines.iter().position(|line| line.user_below);
    let mut end = below.unwrap_or(lines.len());
    for _ in 0..OLDER_OFFERS {
        cancel.check_budget()?;
        let of_model = |line: &DigestLine| line.depth == 0 && line.part == Part::Assistant;
        let Some(begin) = lines
            .get(..end)
            .and_then(|before| before.iter().rposition(of_model))
        else {
            break;
        };
        let entry = entry_from(lines, begin);
        let text = lines.get(entry.clone()).unwrap_or_default();
        let items = text.iter().filter(|line| is_numbered_or_bullet(&line.text));
        if text.iter().any(|line| asks(&line.text)) {
            let bytes: usize = text.iter().map(|line| line.text.len()).sum();
            let is_offer = match (items.count(), below) {
                (items, None) => items >= LEAST_OFFERED,
                (items, Some(_)) => items > 0 && bytes <= SHORT_OFFER_BYTES,
            };
            if is_offer {
                mark_answered(lines, entry);
            }
            break;
        }
        end = begin;
    }
    Ok(())
}

/// Whether a clause agrees to something and refuses nothing.
fn agrees(clause: &str) -> bool {
    let mut words = words_of(clause).map(str::to_lowercase);
    is_bare(clause, false) && !words.any(|word| REFUSALS.contains(word.as_str()))
}

/// A sentence without the time and the name that stand before what is said in a chat:
/// `[09:39] anna: go on`.
fn without_speaker(sentence: &str) -> &str {
    let stamped = sentence
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    let text = stamped.map_or(sentence, |(_, text)| text);
    let named = text
        .split_once(": ")
        .filter(|(name, _)| !name.contains(' '));
    named.map_or(text, |(_, text)| text)
}

/// Where the last entry before a line begins.
fn entry_before(lines: &[DigestLine], end: usize) -> Option<usize> {
    lines.get(..end)?.iter().rposition(|line| line.depth == 0)
}

fn mark_answered(lines: &mut [DigestLine], entry: Range<usize>) {
    for line in lines.get_mut(entry).into_iter().flatten() {
        if line.part == Part::Assistant && line.standing != Standing::Repeated {
            line.standing = Standing::Answered;
        }
    }
}

/// Whether a question says nothing without the sentence before it: `Apply?`, `Shall I?`
pub(in super::super) fn asks_in_short(sentence: &str) -> bool {
    is_question(sentence) && sentence.split_whitespace().count() <= SHORT_QUESTION
}

/// Whether what the model said asks for more and tells nothing by a name or a number.
fn only_asks(said: &[DigestLine], cancel: &Cancel) -> Result<bool, Cancelled> {
    let asked = asked(said, cancel)?;
    let tells = |line: &DigestLine| {
        let mut words = words_of(&line.text);
        words.any(|word| shape(word) >= words_by::TELLING)
    };
    let is_said = said
        .first()
        .is_some_and(|line| line.part == Part::Assistant);
    let mut said = said.iter().zip(&asked);
    Ok(is_said && asked.contains(&true) && said.all(|(line, asked)| *asked || !tells(line)))
}

/// Whether each line of the model's asks for something, or is below the head of a list that does.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn asked(
    lines: &[DigestLine],
    cancel: &Cancel,
) -> Result<Vec<bool>, Cancelled> {
    let mut asked = vec![false; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if line.part != Part::Assistant {
            continue;
        }
        let head = line.within.and_then(|above| at.checked_sub(above));
        let of_head = head.is_some_and(|head| asked.get(head) == Some(&true));
        if let Some(this) = asked.get_mut(at) {
            *this = of_head || asks(&line.text);
        }
    }
    Ok(asked)
}

/// What the user chose by its number says nothing without the item of the list that he was shown,
/// and a short answer nothing without the question.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn note_choices(
    lines: &mut [DigestLine],
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    // The lines of the last message of the model before, and of the last one with a list.
    let mut offered = 0..0;
    let (mut listed, mut since) = (0..0, 0);
    for at in 0..lines.len() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let Some(line) = lines.get(at).filter(|line| line.depth == 0) else {
            continue;
        };
        let end = entry_from(lines, at).end;
        match line.part {
            Part::Assistant => {
                offered = at..end;
                let said = lines.get(offered.clone()).unwrap_or_default();
                if said.iter().any(|line| is_numbered_or_bullet(&line.text)) {
                    (listed, since) = (offered.clone(), 0);
                }
            }
            Part::User => {
                let asked = lines.get(offered.clone()).unwrap_or_default();
                let is_short = is_bare(&line.text, end == at + 1);
                let chosen = chosen_by(lines, at..end, asked);
                // `Please confirm.` behind a question says nothing without it.
                let last =
                    |is_it: fn(&str) -> bool| asked.iter().rposition(|line| is_it(&line.text));
                let question = || last(is_question).or_else(|| last(asks));
                let question = || Some((at, is_short.then(question).flatten()?));
                if let Some((by, place)) = chosen.or_else(question) {
                    let code = tell_asked_about(lines, offered.start + place..offered.end);
                    if let Some(line) = lines.get_mut(by) {
                        line.within = Some(by - offered.start - place - code);
                        // The same answer to another question is another answer.
                        line.standing = Standing::Usual;
                    }
                }
                note_other_choices(lines, at..end, (offered.clone(), chosen));
                since += 1;
                if chosen.is_none() && offered != listed && since <= OLDER_ANSWERS {
                    note_older_choice(lines, at..end, listed.clone());
                }
                let has_items = |range: &Range<usize>| {
                    let shown = lines.get(range.clone()).unwrap_or_default();
                    shown.iter().any(|line| is_numbered_or_bullet(&line.text))
                };
                let shown = Some(offered.clone()).filter(has_items);
                let shown = shown.or((since <= OLDER_ANSWERS).then(|| listed.clone()));
                note_numbered(lines, at..end, shown.unwrap_or_default());
                tell_chosen(lines, (offered, at..end), chosen, cancel)?;
                offered = 0..0;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What was asked about may be a block of code below the question, as `Please confirm:` has it: the
/// answer needs all of it. Returns its lines.
fn tell_asked_about(lines: &mut [DigestLine], asked: Range<usize>) -> usize {
    let mut asked = lines.get_mut(asked).into_iter().flatten();
    if asked
        .next()
        .is_none_or(|question| !question.text.ends_with(':'))
    {
        return 0;
    }
    let mut code = 0;
    for line in asked.take_while(|line| line.is_code).take(MOST_CODE) {
        (line.standing, line.within) = (Standing::Edge, Some(1));
        code += 1;
    }
    code
}

/// Whether an answer says nothing without its question, given its first sentence: `Yes.`,
/// `No, only the first two`.
fn is_bare(sentence: &str, is_all: bool) -> bool {
    let length = sentence.chars().count();
    let word = sentence.split(|c: char| !c.is_alphanumeric()).next();
    let consents = word.is_some_and(|word| CONSENTS.contains(&word.to_lowercase().as_str()));
    let is_of_talk =
        word.is_some_and(|word| OF_TALK.iter().any(|of| word.eq_ignore_ascii_case(of)));
    let refers = refers_back(sentence) && length <= REFERS_CHARS && !is_of_talk;
    (is_all && length <= ANSWER_CHARS) || (consents && length <= CONSENT_CHARS) || refers
}

/// The line of an answer that chooses by a number, a letter or a place, and which of the lines
/// that were shown: the last, since he may have changed his mind within it.
fn chosen_by(
    lines: &[DigestLine],
    answer: Range<usize>,
    shown: &[DigestLine],
) -> Option<(usize, usize)> {
    let last = answer.clone().skip(1).rev().take(LAST_SENTENCES);
    // An item of his own list is within that.
    let is_own = |at: &usize| lines.get(*at).is_some_and(|line| line.within.is_some());
    // `So B.` may stand between what is refused and what goes with it.
    let is_short = |at: &usize| {
        let line = lines.get(*at);
        line.is_some_and(|line| line.text.chars().count() <= CONSENT_CHARS)
    };
    let others = answer.clone().skip(1).take(MOST_SENTENCES).filter(is_short);
    let looked_at = last.chain([answer.start]).chain(others.rev());
    let mut looked_at = looked_at.filter(|at| *at == answer.start || !is_own(at));
    looked_at.find_map(|at| Some((at, item_of(shown, &lines.get(at)?.text)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_need_what_they_answer() {
        let said = |part, depth, text| DigestLine::new(part, depth, text);
        let mut lines = vec![
            said(Part::Assistant, 0, "Two are left:"),
            said(Part::Assistant, 1, "1. HAT1"),
            said(Part::Assistant, 1, "2. HAT2"),
            said(Part::User, 0, "2, but in economy."),
            said(Part::Assistant, 0, "Is it for you?"),
            said(Part::Assistant, 1, "I ask for the name."),
            said(Part::Call, 0, "look_up()"),
            said(Part::User, 0, "Yes."),
            said(Part::User, 0, "No."),
        ];
        note_choices(&mut lines, &Cancel::default()).unwrap();
        let within: Vec<Option<usize>> = lines.iter().map(|line| line.within).collect();
        let none = None;
        assert_eq!(
            within,
            [none, none, none, Some(1), none, none, none, Some(3), none]
        );
    }

    /// The lines of an offer that ends with a list, and of an answer.
    fn offered(items: &[&str], answer: &[&str]) -> Vec<DigestLine> {
        let of = |part, at: usize, text: &&str| DigestLine::new(part, u8::from(at > 0), text);
        let mut lines = vec![DigestLine::new(Part::Assistant, 0, "These are left:")];
        for (at, item) in items.iter().enumerate() {
            let mut line = of(Part::Assistant, 1, item);
            line.within = Some(at + 1);
            lines.push(line);
        }
        for at in [0, items.len()] {
            lines[at].standing = Standing::Edge;
        }
        let answer = answer.iter().enumerate();
        lines.extend(answer.map(|(at, text)| of(Part::User, at, text)));
        lines
    }

    #[test]
    fn the_item_that_was_chosen_stands_for_its_list() {
        let numbered = [
            "1. Norte, jueves 13",
            "2. Norte, lunes 17",
            "3. Centro, lunes 17",
        ];
        let lettered = [
            "a) Dra. Ochoa, jueves",
            "b) Dra. Ochoa, viernes",
            "c) Dr. Goñi, lunes",
        ];
        let bullets = ["- am 20., 10:40", "- am 20., 12:20", "- am 27., 11:20"];
        for (items, answer, chosen) in [
            (
                numbered,
                &["El lunes 17 en el Norte, por favor."][..],
                Some(1),
            ),
            (numbered, &["El jueves 13 me va bien."], Some(0)),
            (numbered, &["La 2.", "No, espere, la primera."], Some(0)),
            (numbered, &["La 2."], Some(1)),
            (lettered, &["Con la doctora Ochoa, la b."], Some(1)),
            (bullets, &["Das zweite, bitte."], Some(1)),
            (bullets, &["Danke, ich rufe wieder an."], None),
        ] {
            let mut lines = offered(&items, answer);
            note_choices(&mut lines, &Cancel::default()).unwrap();
            let edges: Vec<usize> = (0..items.len())
                .filter(|at| lines[at + 1].standing == Standing::Edge)
                .collect();
            assert_eq!(edges, chosen.into_iter().collect::<Vec<_>>(), "{answer:?}");
        }
    }

    #[test]
    fn the_second_best_choice_does_not_take_the_place_of_the_best() {
        let items = ["1. Lattice 14", "2. Kestrel 15", "3. Moraine 13"];
        let answer = ["The second, if Ann agrees.", "Otherwise the first."];
        let mut lines = offered(&items, &answer);
        lines[3].standing = Standing::Usual;
        note_choices(&mut lines, &Cancel::default()).unwrap();
        assert_eq!(lines[5].within, Some(4), "the first");
        assert_eq!(lines[2].standing, Standing::Edge, "the second");
    }

    #[test]
    fn the_item_that_was_chosen_is_told_where_a_question_stands_behind_the_list() {
        let items = ["1. Hotel Alster, 0.6 km", "2. Pension Elbe, 1.6 km"];
        let mut lines = offered(&items, &["Die Pension Elbe bitte, für zwei."]);
        lines[2].standing = Standing::Usual;
        let mut question = DigestLine::new(Part::Assistant, 1, "Welches nehmen Sie?");
        question.standing = Standing::Edge;
        lines.insert(3, question);
        note_choices(&mut lines, &Cancel::default()).unwrap();
        let told: Vec<bool> = lines
            .iter()
            .map(|line| line.standing == Standing::Edge)
            .collect();
        assert_eq!(told, [true, false, true, true, false]);
    }

    #[test]
    fn who_changes_his_mind_answers_by_what_he_said_last() {
        let mut lines = offered(
            &["1. on the 13th", "2. on the 14th"],
            &["The second.", "No!", "Then the first."],
        );
        note_choices(&mut lines, &Cancel::default()).unwrap();
        let within: Vec<Option<usize>> = lines[3..].iter().map(|line| line.within).collect();
        assert_eq!(within, [None, None, Some(4)]);
    }

    #[test]
    fn an_option_may_be_chosen_by_its_letter_some_messages_later() {
        let items = ["A. Tokyo, Osaka", "B. Tokyo, Hakone", "C. Tokyo, Kanazawa"];
        let answers = |answer: &str| {
            let mut lines = offered(&items, &["B? But are there stairs?"]);
            lines.push(DigestLine::new(Part::Assistant, 0, "There are, in Hakone."));
            lines.push(DigestLine::new(Part::User, 0, answer));
            note_choices(&mut lines, &Cancel::default()).unwrap();
            lines.last().and_then(|line| line.within)
        };
        assert_eq!(answers("Ambil C saja."), Some(3));
        assert_eq!(answers("Not C."), None);
        assert_eq!(answers("2 rooms, please."), None);
        let roman = ["i. Aoi, by the metro", "ii. Hachijo, by the station"];
        let mut lines = offered(&roman, &["ii ya, near the train."]);
        note_choices(&mut lines, &Cancel::default()).unwrap();
        assert_eq!(lines[3].within, Some(1));
    }

    #[test]
    fn an_answer_that_stands_for_something_needs_its_question() {
        let mut lines = vec![
            DigestLine::new(
                Part::Assistant,
                0,
                "And the pillowcases, to the Mastercard?",
            ),
            DigestLine::new(
                Part::User,
                0,
                "Esas sí, porque la compra la pagué con ella.",
            ),
        ];
        note_choices(&mut lines, &Cancel::default()).unwrap();
        assert_eq!(lines[1].within, Some(1));
    }
}
