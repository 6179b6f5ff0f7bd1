//! What the lines of a full digest are worth besides their words: by what they are, how new they
//! are, and who said them.

use super::weight::Weighed;
use super::weights::{cost, line as lines_by};
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::lists::{is_label, is_numbered_or_bullet};
use crate::core::strategy::digest::said::answers::asked;
use crate::core::strategy::digest::texts::mail::is_sender;
use crate::core::strategy::digest::texts::printed::{describes_column, is_row_count, is_rule};
use crate::core::text::{
    Speech, corrects, decides, greets_by_name, is_question, limits, only_serves, proposes, sums_up,
    tells_of_failure, waits,
};
use crate::core::{Cancel, Cancelled};

/// The longest line of a call that is a command (bytes).
const COMMAND_BYTES: usize = 90;

/// Sentences that a correction is told by.
const CORRECTED: usize = 3;

/// What a line's score has besides that of its words.
#[derive(Clone, Copy)]
pub(in super::super) struct Worth {
    /// Added to that of its words.
    pub own: f32,
    /// The least value of a sentence or a line of text.
    pub least: f32,
    pub factor: f32,
    /// The weight of its words in the newest messages.
    pub topic: f32,
}

impl Worth {
    /// `age` is the number of later entries.
    fn of(line: &DigestLine, age: usize, all: usize, around: Around) -> Self {
        let part = line.weighed_as();
        let Form { own, said, factor } = form_of(line, around);
        let fresh = match part {
            Part::Argument => lines_by::FRESH_ARGUMENT,
            Part::Text if !line.is_printed_row => lines_by::FRESH_TEXT,
            Part::Call => lines_by::FRESH_CALL,
            Part::Member | Part::Row | Part::Text => lines_by::FRESH_MEMBER,
            _ => 0.0,
        } * 0.5_f32.powf(age as f32 / lines_by::HALF_LIFE);
        let tokens = line.text.len() as f32 / cost::BYTES_PER_TOKEN;
        // In what the user answers, short lines are crumbs without the others: there, what a line
        // has of names and numbers counts besides its length.
        let (least, answered) = match line.standing {
            Standing::Answered => (0.0, (tokens + lines_by::ANSWER) * said),
            _ => ((tokens + lines_by::SENTENCE) * said, 0.0),
        };
        let newer = match part {
            Part::User => 1.0 + lines_by::NEWER * (1.0 - 2.0 * age as f32 / all as f32),
            _ => 1.0,
        };
        Worth {
            least,
            own: own + answered + tokens * fresh,
            factor: factor * newer,
            topic: around.topic,
        }
    }
}

/// What a line says with those around it: the head of the list that it is an item of, the sentences
/// before it.
#[derive(Clone, Copy)]
struct Around {
    /// It demands or refuses.
    demanded: bool,
    /// It is asked for.
    asked: bool,
    /// It, or a sentence shortly before it in the message, takes back what was said before.
    corrects: bool,
    /// It has what the model found.
    finds: bool,
    /// It is an item of a list.
    listed: bool,
    /// One of its words may report a failure, or sum up what was done.
    may_report: bool,
    /// The factor of a sentence of a page that limits something.
    limiting: f32,
    /// The weight of its words in the newest messages.
    topic: f32,
}

/// What the form of a text makes of a line.
struct Form {
    /// Added to the score of its words.
    own: f32,
    /// The worth of a token as a part of a sentence.
    said: f32,
    factor: f32,
}

fn form_of(line: &DigestLine, around: Around) -> Form {
    let part = line.weighed_as();
    let may_sum_up = part == Part::Text && line.standing != Standing::Alike;
    let sums_up = may_sum_up && around.may_report && sums_up(&line.text);
    let fails = || around.may_report && tells_of_failure(&line.text);
    let own = match part {
        Part::Call if is_command(&line.text) => lines_by::COMMAND,
        Part::Call => lines_by::CALL,
        Part::Record => {
            let scalars = |beginning: &str| line.text.matches(beginning).count();
            let told = scalars(": ").saturating_sub(scalars(": null"));
            lines_by::RECORD * told.min(lines_by::MOST) as f32
        }
        Part::Row if line.standing == Standing::Own && line.depth == 1 => {
            lines_by::RECORD * lines_by::MOST as f32
        }
        Part::Text if sums_up => lines_by::SUMS_UP,
        _ => lines_by::OTHER,
    };
    let by_part = match part {
        _ if line.is_code && !fails() => lines_by::CODE,
        Part::User if line.standing == Standing::Pasted => lines_by::PASTED,
        Part::User => lines_by::USER,
        Part::Assistant => lines_by::MODEL,
        Part::Argument => lines_by::WRITTEN,
        Part::Text if is_rule(&line.text) || is_row_count(&line.text) => 0.0,
        Part::Text if line.is_printed_row && describes_column(&line.text) => lines_by::DESCRIBES,
        Part::Text if sums_up => lines_by::OUTCOME,
        Part::Text if fails() => lines_by::FAILURE,
        Part::Text if is_sender(&line.text) => lines_by::SENDER,
        Part::Text if line.standing == Standing::Prose => of_prose(line, around.limiting),
        Part::Text if line.standing == Standing::Conclusion => {
            of_prose(line, around.limiting) * lines_by::CONCLUSION
        }
        _ => 1.0,
    };
    let by_standing = match line.standing {
        Standing::Alike => lines_by::ALIKE,
        Standing::Stale | Standing::Replaced => lines_by::STALE,
        Standing::Beside => lines_by::BESIDE,
        Standing::Gone | Standing::Repeated | Standing::Told => 0.0,
        _ => 1.0,
    };
    Form {
        own,
        said: of_sentence(line, around),
        factor: by_part * by_standing,
    }
}

/// The factor of a sentence of a page, or of what somebody wrote in a record, as in a mail. Of one
/// that limits something it is `limiting`.
fn of_prose(line: &DigestLine, limiting: f32) -> f32 {
    let is_of_record = line.depth > 1;
    let by_place = match is_of_record {
        true => lines_by::IN_RECORD,
        false => 1.0,
    };
    let limiting = if is_of_record {
        lines_by::LIMITS
    } else {
        limiting
    };
    by_place * if limits(&line.text) { limiting } else { 1.0 }
}

/// The part of all that pages and mails are.
pub(in super::super) fn part_of_prose(lines: &[DigestLine]) -> f32 {
    let (mut prose, mut all) = (0, 1);
    for line in lines {
        let bytes = line.text.len() + 1;
        all += bytes;
        if matches!(line.standing, Standing::Prose | Standing::Conclusion) {
            prose += bytes;
        }
    }
    prose as f32 / all as f32
}

/// The factor of a sentence of a page that limits something: where there is much else, pages are
/// what one works with, and where there is little, they are what one decides by.
fn limiting_in(lines: &[DigestLine]) -> f32 {
    let are_most = pages_are_most(part_of_prose(lines));
    lines_by::LIMITS + (lines_by::LIMITS_OF_PAGES - lines_by::LIMITS) * are_most
}

/// How far pages and mails, as a part of all, are most of what there is: from 0 to 1.
pub(in super::super) fn pages_are_most(part: f32) -> f32 {
    let (few, most) = lines_by::PAGES;
    ((part - few) / (most - few)).clamp(0.0, 1.0)
}

/// The worth of a sentence, per token, by what it is for.
fn of_sentence(line: &DigestLine, around: Around) -> f32 {
    let by_speech = || match Speech::of(&line.text) {
        _ if around.demanded => lines_by::DEMANDS,
        Speech::Demands | Speech::Plain if line.part == Part::User && around.corrects => {
            lines_by::DEMANDS * lines_by::CORRECTS
        }
        Speech::Demands if line.part == Part::User && is_question(&line.text) => {
            lines_by::DEMANDS * lines_by::ANSWERED_SINCE
        }
        Speech::Demands if line.part == Part::User && decides(&line.text) => {
            lines_by::DEMANDS * lines_by::DECIDES
        }
        Speech::Plain if line.part == Part::User && decides(&line.text) => {
            lines_by::DECIDES_PLAINLY
        }
        Speech::Demands if line.part == Part::User => lines_by::DEMANDS,
        Speech::Polite => lines_by::POLITE,
        _ => 1.0,
    };
    let is_told = around.finds || matches!(line.standing, Standing::Edge | Standing::Answered);
    let factor = match line.part {
        _ if line.is_code || line.standing == Standing::Pasted => return 0.0,
        Part::User if around.listed => by_speech().max(lines_by::LISTED),
        Part::User => by_speech(),
        Part::Assistant if !is_told => return 0.0,
        Part::Assistant if around.asked => lines_by::QUESTION,
        Part::Assistant if line.standing == Standing::Edge && waits(&line.text) => {
            lines_by::QUESTION
        }
        Part::Assistant if greets_by_name(&line.text) || only_serves(&line.text) => {
            lines_by::POLITE
        }
        Part::Assistant if proposes(&line.text) => lines_by::PROPOSES,
        Part::Assistant if line.replies => lines_by::REPLIES,
        Part::Assistant => by_speech(),
        _ => return 0.0,
    };
    lines_by::SAID * factor
}

/// One per line.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn worths(
    lines: &[DigestLine],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<Vec<Worth>, Cancelled> {
    let mut age = lines.iter().filter(|line| line.depth == 0).count();
    let all = age.max(1);
    let mut worths = Vec::with_capacity(lines.len());
    let around = demanded(lines).into_iter().zip(asked(lines, cancel)?);
    let limiting = limiting_in(lines);
    // Sentences up to which what was taken back is told anew.
    let mut corrected: usize = 0;
    for (at, (line, (demanded, asked))) in lines.iter().zip(around).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        age -= usize::from(line.depth == 0);
        corrected = match line.depth {
            _ if line.part == Part::User && corrects(&line.text) => CORRECTED,
            0 => 0,
            _ => corrected.saturating_sub(1),
        };
        let weight = of.lines.get(at);
        let (mut may_report, mut topic) = (false, 0.0);
        for (_, word) in weight
            .into_iter()
            .flat_map(|weight| of.words_at(&weight.words))
        {
            may_report |= word.reports;
            topic += word.topic;
        }
        let around = Around {
            demanded,
            asked,
            corrects: corrected > 0,
            listed: line.within.is_some() && is_numbered_or_bullet(&line.text),
            finds: weight.is_some_and(|weight| weight.finds),
            may_report,
            limiting,
            topic,
        };
        worths.push(Worth::of(line, age, all, around));
    }
    Ok(worths)
}

/// Whether each line is below the head of one of the user's lists that demands or refuses, as
/// `Do not order:` does.
fn demanded(lines: &[DigestLine]) -> Vec<bool> {
    let mut demanded = vec![false; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        let Some(head) = line.within.and_then(|above| at.checked_sub(above)) else {
            continue;
        };
        let of_head = demanded.get(head).copied().unwrap_or_default();
        let demands = of_head
            || lines.get(head).is_some_and(|head| {
                head.part == Part::User
                    && is_label(&head.text)
                    && Speech::of(&head.text) == Speech::Demands
            });
        if let Some(this) = demanded.get_mut(at) {
            *this = demands && line.part == Part::User;
        }
    }
    demanded
}

/// Whether the line of a call is a short command: its first argument has several words.
fn is_command(head: &str) -> bool {
    let first = head
        .split_once('(')
        .and_then(|(_, rest)| rest.split(", ").next());
    head.len() <= COMMAND_BYTES && first.is_some_and(|first| first.contains(' '))
}
