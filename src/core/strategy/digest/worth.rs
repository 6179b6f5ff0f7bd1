//! What the lines of a full digest are worth besides their words: by what they are, how new they
//! are, and who said them.

use super::answers::asked;
use super::line::{DigestLine, Part, Standing};
use super::lists::is_label;
use super::printed::is_rule;
use super::weigh::STRIDE;
use super::weights::{cost, line as lines_by};
use crate::core::text::{
    Speech, greets_by_name, limits, only_serves, proposes, sums_up, tells_of_failure,
};
use crate::core::{Cancel, Cancelled};

/// The longest line of a call that is a command (bytes).
const COMMAND_BYTES: usize = 90;

/// What a line's score has besides that of its words.
#[derive(Clone, Copy)]
pub(super) struct Worth {
    /// Added to that of its words.
    pub own: f32,
    /// The least value of a sentence or a line of text.
    pub least: f32,
    pub factor: f32,
}

impl Worth {
    /// `age` is the number of later entries.
    fn of(line: &DigestLine, age: usize, by_list: ByList) -> Self {
        let part = line.weighed_as();
        let Form { own, said, factor } = form_of(line, by_list);
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
        Worth {
            least,
            own: own + answered + tokens * fresh,
            factor,
        }
    }
}

/// What a line says with the head of the list that it is an item of.
#[derive(Clone, Copy)]
struct ByList {
    /// It demands or refuses.
    demanded: bool,
    /// It is asked for.
    asked: bool,
}

/// What the form of a text makes of a line.
struct Form {
    /// Added to the score of its words.
    own: f32,
    /// The worth of a token as a part of a sentence.
    said: f32,
    factor: f32,
}

fn form_of(line: &DigestLine, by_list: ByList) -> Form {
    let part = line.weighed_as();
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
        _ => lines_by::OTHER,
    };
    let by_part = match part {
        Part::User => lines_by::USER,
        Part::Assistant => lines_by::MODEL,
        Part::Argument => lines_by::WRITTEN,
        Part::Text if is_rule(&line.text) => 0.0,
        Part::Text if sums_up(&line.text) => lines_by::OUTCOME,
        Part::Text if tells_of_failure(&line.text) => lines_by::FAILURE,
        Part::Text if line.standing == Standing::Prose => of_prose(line),
        _ => 1.0,
    };
    let by_standing = match line.standing {
        Standing::Alike => lines_by::ALIKE,
        Standing::Stale => lines_by::STALE,
        Standing::Repeated | Standing::Told => 0.0,
        _ => 1.0,
    };
    Form {
        own,
        said: of_sentence(line, by_list),
        factor: by_part * by_standing,
    }
}

/// The factor of a sentence of a page, or of what somebody wrote in a record, as in a mail.
fn of_prose(line: &DigestLine) -> f32 {
    let by_place = if line.depth > 1 {
        lines_by::IN_RECORD
    } else {
        1.0
    };
    by_place
        * if limits(&line.text) {
            lines_by::LIMITS
        } else {
            1.0
        }
}

/// The worth of a sentence, per token, by what it is for.
fn of_sentence(line: &DigestLine, by_list: ByList) -> f32 {
    let by_speech = || match Speech::of(&line.text) {
        _ if by_list.demanded => lines_by::DEMANDS,
        Speech::Demands if line.part == Part::User => lines_by::DEMANDS,
        Speech::Polite => lines_by::POLITE,
        _ => 1.0,
    };
    let is_told = matches!(line.standing, Standing::Edge | Standing::Answered);
    let factor = match line.part {
        Part::User => by_speech(),
        Part::Assistant if !is_told => return 0.0,
        Part::Assistant if by_list.asked => lines_by::QUESTION,
        Part::Assistant if greets_by_name(&line.text) || only_serves(&line.text) => {
            lines_by::POLITE
        }
        Part::Assistant if proposes(&line.text) => lines_by::PROPOSES,
        Part::Assistant => by_speech(),
        _ => return 0.0,
    };
    lines_by::SAID * factor
}

/// One per line.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn worths(lines: &[DigestLine], cancel: &Cancel) -> Result<Vec<Worth>, Cancelled> {
    let mut age = lines.iter().filter(|line| line.depth == 0).count();
    let mut worths = Vec::with_capacity(lines.len());
    let by_list = demanded(lines).into_iter().zip(asked(lines, cancel)?);
    for (at, (line, (demanded, asked))) in lines.iter().zip(by_list).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        age -= usize::from(line.depth == 0);
        worths.push(Worth::of(line, age, ByList { demanded, asked }));
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
