//! Answers of calls that change something: whether they say that it was done. A refusal in words
//! of its own looks like any other text, and a thing that was not changed must not be told as if.

use super::encoded::ResultText;
use super::records::acknowledges;
use crate::core::json::Json;
use crate::core::strategy::digest::calls::made::Made;
use crate::core::strategy::digest::calls::names::is_among;
use crate::core::strategy::digest::json_form::is_id;
use crate::core::text::{CONFIRMS, DECLINES, REFUSALS, tells_of_failure};

/// The longest text that is an answer (bytes), and the most members of an object that is no record.
const ANSWER_BYTES: usize = 240;
const MOST_MEMBERS: usize = 4;
/// The letters by which a refusal is what was asked for: `declined` by `decline_offer`.
const STEM: usize = 4;
/// Members that say what came of a call, in small letters.
const OUTCOMES: [&str; 11] = [
    "answer",
    "code",
    "message",
    "msg",
    "outcome",
    "response",
    "result",
    "resultado",
    "state",
    "status",
    "warning",
];
/// Words of members that count what was done.
const COUNTS: [&str; 9] = [
    "affected", "applied", "changed", "count", "matched", "modified", "rowcount", "rows", "updated",
];
/// What a code of a refusal is no less than, as of HTTP.
const LEAST_REFUSAL: f64 = 400.0;
/// What begins as a refusal, and is none.
const NO_ERROR: [&str; 5] = [
    "no content",
    "no error",
    "no problem",
    "keine fehler",
    "sin errores",
];
/// Other words of answers that do not say that it was done.
const DOUBTS: [&str; 8] = [
    "approval",
    "impossibile",
    "impossible",
    "queued",
    "timeout",
    "unable",
    "unchanged",
    "unverändert",
];
/// Parts of answers in scripts that put no blanks between words.
const REFUSES_UNSPACED: [&str; 10] = [
    "不",
    "没",
    "未",
    "失敗",
    "失败",
    "できません",
    "ません",
    "거부",
    "실패",
    "없",
];

/// What the answer of a call that is to change something says of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Answer {
    /// Nothing against it.
    Done,
    /// Something that may mean that it was not done.
    Doubtful,
    /// That it was refused.
    Declined,
}

impl Answer {
    pub(in super::super) fn of(answer: &ResultText<'_>, made: &Made) -> Self {
        match &answer.json {
            Some(Json::Object(members)) => of_object(members, made),
            Some(_) => Answer::Done,
            None => of_text(&answer.content, made),
        }
    }
}

fn of_object(members: &[(String, Json)], made: &Made) -> Answer {
    let is_given = |member: &(String, Json)| !is_id(&member.0) && made.arguments.contains(member);
    let confirms = |member: &(String, Json)| acknowledges(&member.0, &member.1) || is_given(member);
    if members.iter().any(confirms) {
        return Answer::Done;
    }
    let is_short = members.len() <= MOST_MEMBERS;
    let answer = |(key, value): &(String, Json)| match value {
        Json::String(text) if is_among(&OUTCOMES, key) || !key.is_ascii() => of_text(text, made),
        Json::Bool(false) if is_short => Answer::Doubtful,
        Json::Bool(true) if words_in(key).any(|word| DOUBTS.contains(&word)) => Answer::Doubtful,
        Json::Number(number) => {
            let number: f64 = number.parse().unwrap_or_default();
            let is_count = words_in(key).any(|word| is_among(&COUNTS, word));
            let is_code = is_among(&OUTCOMES, key) && number >= LEAST_REFUSAL;
            let is_none = is_count && number == 0.0 && !key.contains("err");
            match is_none || is_code {
                true => Answer::Doubtful,
                false => Answer::Done,
            }
        }
        _ => Answer::Done,
    };
    let mut worst = Answer::Done;
    for member in members {
        match answer(member) {
            Answer::Done => {}
            Answer::Declined => return Answer::Declined,
            Answer::Doubtful => worst = Answer::Doubtful,
        }
    }
    worst
}

fn of_text(text: &str, made: &Made) -> Answer {
    if text.len() > ANSWER_BYTES {
        return Answer::Done;
    }
    let lower = text.to_lowercase();
    let first = words_in(&lower).next().unwrap_or_default();
    // `Denied regions saved.` refuses nothing.
    let behind = lower.split_once(first).map_or("", |(_, behind)| behind);
    let ends = !behind.trim_start().starts_with(char::is_alphanumeric);
    if DECLINES.contains(first) && ends && !is_asked_for(first, made) {
        return Answer::Declined;
    }
    let is_no_error = NO_ERROR.iter().any(|known| lower.contains(known));
    let refuses = words_in(&lower).any(|word| {
        let is_report = DECLINES.contains(word) || tells_of_failure(word);
        REFUSALS.contains(word)
            || DOUBTS.contains(&word)
            || (is_report && !is_asked_for(word, made))
    });
    let refuses = refuses || REFUSES_UNSPACED.iter().any(|part| lower.contains(part));
    match refuses && !is_no_error {
        true => Answer::Doubtful,
        false => Answer::Done,
    }
}

/// Whether a word of a refusal is what the call was to come to: by its tool, as `reject_leave`, or
/// by what it was given, as a status.
fn is_asked_for(word: &str, made: &Made) -> bool {
    let stem = word.get(..STEM).unwrap_or(word);
    let has = |text: &str| words_in(&text.to_lowercase()).any(|word| word.starts_with(stem));
    let is_given = |value: &Json| matches!(value, Json::String(text) if has(text));
    word.len() >= STEM && (has(made.tool()) || made.arguments.iter().any(|(_, v)| is_given(v)))
}

/// Whether a short text says that something was done.
pub(in super::super) fn says_done(text: &str) -> bool {
    text.len() <= ANSWER_BYTES
        && !tells_of_failure(text)
        && words_in(&text.to_lowercase()).any(|word| CONFIRMS.contains(word))
        && !words_in(&text.to_lowercase()).any(|word| REFUSALS.contains(word))
}

fn words_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tool: &str, given: &str, text: &str) -> Answer {
        let Some(Json::Object(arguments)) = Json::parse(given) else {
            panic!("no object: {given}")
        };
        Answer::of(&ResultText::of(text), &Made::new(tool, arguments))
    }

    #[test]
    fn answers_say_whether_it_was_done() {
        use Answer::{Declined, Done, Doubtful};
        for (text, expected) in [
            (r#"{"ok":true}"#, Done),
            (r#"{"status":"updated","id":7}"#, Done),
            (r#"{"data":{"success":true},"errors":[]}"#, Done),
            (r#"{"id":"A-1","limit":9}"#, Done),
            (r#"{"updated":1}"#, Done),
            (r#"{"status":200}"#, Done),
            ("Address changed to 5 Elm Street.", Done),
            ("The record was updated. No errors.", Done),
            ("Denied regions saved: RU.", Doubtful),
            ("修改成功", Done),
            ("", Done),
            ("204 No Content", Done),
            ("Cannot update: locked.", Doubtful),
            (r#"{"needs_approval":true}"#, Doubtful),
            (r#"{"message":"unchanged"}"#, Doubtful),
            (r#"{"status":"declined"}"#, Declined),
            (r#"{"결과":"실패","현재한도":2000000}"#, Declined),
            ("Abgelehnt: keine Berechtigung", Declined),
            ("Refusé : droits insuffisants", Declined),
            ("Sorry, this account is closed.", Declined),
            (r#"{"code":409,"message":"version conflict"}"#, Doubtful),
            (r#"{"updated":0}"#, Doubtful),
            (r#"{"erfolg":false,"grund":"x"}"#, Doubtful),
            ("This has not been changed.", Doubtful),
            ("The address could not be updated: access denied", Doubtful),
        ] {
            assert_eq!(
                answer("set_limit", r#"{"limit":9}"#, text),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_refusal_that_was_asked_for_is_none() {
        for (tool, given, text) in [
            (
                "update_loan",
                r#"{"status":"declined"}"#,
                r#"{"id":"L-1","status":"declined"}"#,
            ),
            ("respond", r#"{"response":"declined"}"#, "Declined."),
            (
                "reject_leave",
                r#"{"leave_id":2}"#,
                r#"{"leave_id":2,"status":"rejected"}"#,
            ),
            ("decline_offer", r#"{"id":"O-1"}"#, "Declined: O-1"),
        ] {
            assert_eq!(answer(tool, given, text), Answer::Done, "{tool}");
        }
    }
}
