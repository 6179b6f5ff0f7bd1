//! How upstreams report that a request is too long for its model.
//!
//! There is no standard: vendors differ in status, envelope and wording, and the wording changes
//! between versions. `envelope` opens the envelope, `phrases` is a table of wordings, `wording`
//! reads a message by it, and this module weighs the findings. A message may quote what the user
//! wrote. So only messages in their own places are read, only their beginnings, and only if nothing
//! before the wording complains of something else. Rate limits, quotas and bodies of too many bytes
//! are not overflows.
//!
//! Must not know of retries, nor of anything else that is known of a model.

mod envelope;
mod figures;
mod kind;
mod phrases;
mod wording;

use envelope::ErrorReport;
use figures::Figures;

pub use kind::{Kind, Prompt};
pub(in crate::core) use phrases::patterns;

/// An upstream's report of a request that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow {
    /// The part that was too long, as far as it is known.
    pub kind: Kind,
    /// The limit in the message, tokens: a plausible one that nothing else in the message
    /// contradicts.
    pub window: Option<u64>,
    /// Whether `window` limits the prompt alone, so that the answer needs no room in it. Taking it
    /// for the whole window errs on the safe side.
    pub input_only: bool,
    /// The size of the prompt, by the upstream's own count.
    pub prompt: Option<Prompt>,
    /// The length of the answer that the request asked for, tokens.
    pub output_tokens: Option<u64>,
}

impl Overflow {
    /// An overflow of which nothing else is known.
    #[must_use]
    pub fn unspecified() -> Self {
        weigh(&[Kind::Prompt], &Figures::default())
    }
}

/// The overflow that a whole answer reports. The body may also be an error under status 200.
#[must_use]
pub fn in_answer(status: u16, body: &[u8]) -> Option<Overflow> {
    if status < 400 {
        return in_event(body);
    }
    // Cerebras sends no more than this. Servers that limit bytes send a page or a sentence along.
    if status == 413 && body.trim_ascii().is_empty() {
        return Some(Overflow::unspecified());
    }
    judge(status, &envelope::read(body)?)
}

/// The overflow that the data of a stream's event reports, where the event is an error under status
/// 200.
#[must_use]
pub fn in_event(data: &[u8]) -> Option<Overflow> {
    let report = envelope::read_error(data)?;
    judge(report.status.unwrap_or(200), &report)
}

fn judge(status: u16, report: &ErrorReport) -> Option<Overflow> {
    let statuses = [Some(status), report.status];
    if statuses.contains(&Some(429)) || report.codes.iter().any(|code| wording::other_code(code)) {
        return None;
    }
    if report.texts.iter().any(|text| wording::other_error(text)) {
        return None;
    }
    let bad_request = statuses
        .iter()
        .flatten()
        .any(|status| matches!(status, 400 | 413 | 422));
    let mut figures = Figures::default();
    let mut kinds = Vec::new();
    for code in &report.codes {
        if wording::overflow_code(code, bad_request) {
            kinds.push(Kind::Prompt);
        }
    }
    if let (Some(window), Some(prompt)) = (&report.n_ctx, &report.n_prompt_tokens) {
        kinds.push(Kind::Prompt);
        figures.window(window, false);
        figures.prompt(prompt, true);
    }
    for text in &report.texts {
        wording::read(text, bad_request, &mut kinds, &mut figures);
    }
    (!kinds.is_empty()).then(|| weigh(&kinds, &figures))
}

/// Figures are more reliable than words: the same sentence is sent for a long prompt and for a
/// large output limit.
fn weigh(kinds: &[Kind], figures: &Figures) -> Overflow {
    let window = figures.agreed_window();
    let prompt = figures.whole_prompt();
    let output_tokens = figures.output;
    let by_words = *[Kind::Total, Kind::Prompt]
        .iter()
        .find(|kind| kinds.contains(kind))
        .unwrap_or(&Kind::Output);
    let kind = match (window, prompt, output_tokens) {
        (Some(window), Some(prompt), _) if prompt.tokens >= window => Kind::Prompt,
        (Some(window), Some(prompt), Some(output))
            if prompt.tokens.saturating_add(output) > window =>
        {
            Kind::Total
        }
        (Some(window), None, Some(output)) if output >= window => Kind::Output,
        _ => by_words,
    };
    Overflow {
        kind,
        window,
        input_only: window.is_some() && figures.input_only,
        prompt,
        output_tokens,
    }
}
