//! `baler compact`: the compaction core as a filter, for trying policies out and for measuring them.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::value::RawValue;

use super::{CompactFlags, EXIT_CONFIG, complain};
use crate::config::{self, Config, Sources};
use crate::core::Cancel;
use crate::core::chat::{Chat, group};
use crate::core::digest::Digest;
use crate::core::draft::{Subject, size_of_edited};
use crate::core::plan::Edit;
use crate::core::policy::{Policy, Reason};
use crate::core::render::{assemble, render, validate};
use crate::core::size::{Size, scale};
use crate::core::strategy::Report;
use crate::core::think::{Circumstances, Lookup, Moment, Seeds, compact_to, think};
use crate::core::tokens::{Encoding, Measure, count_fixed};
use crate::core::when::Request;

pub(super) fn run(flags: &CompactFlags) -> anyhow::Result<ExitCode> {
    let sources = Sources { file: flags.config.clone(), ladder: flags.ladder.clone(), ..Sources::default() };
    let config = match config::load(&sources) {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return Ok(ExitCode::from(EXIT_CONFIG));
        }
    };
    if flags.target_ratio.is_some_and(|ratio| !(ratio > 0.0 && ratio <= 1.0)) {
        complain("baler compact: --target-ratio is not between 0 and 1");
        return Ok(ExitCode::from(EXIT_CONFIG));
    }
    let named = match &flags.policy {
        Some(name) => match config.policies.iter().find(|policy| policy.name == *name) {
            Some(policy) => Some(policy),
            None => {
                let names: Vec<&str> = config.policies.iter().map(|policy| policy.name.as_str()).collect();
                complain(&format!("baler compact: there is no policy \"{name}\"; there are {}", names.join(", ")));
                return Ok(ExitCode::from(EXIT_CONFIG));
            }
        },
        None => None,
    };

    let mut input = String::new();
    match &flags.file {
        Some(file) => input = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
        None => drop(std::io::stdin().read_to_string(&mut input).context("cannot read standard input")?),
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let requests = serde_json::Deserializer::from_str(&input).into_iter::<&RawValue>();
    for (at, request) in requests.enumerate() {
        let number = at + 1;
        match request {
            Ok(request) => {
                let (body, report) = compacted(request.get(), &config, named, flags);
                // Between the tokens of a JSON text a line break is a blank; inside of them there is none.
                writeln!(out, "{}", body.replace(['\n', '\r'], " "))?;
                complain(&format!("{number}: {report}"));
            }
            Err(error) => {
                out.flush()?;
                complain(&format!("baler compact: request {number} is not JSON: {error}"));
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The request as it would be sent, and what happened to it.
fn compacted(body: &str, config: &Config, named: Option<&Policy>, flags: &CompactFlags) -> (String, String) {
    let unchanged = |why: &dyn std::fmt::Display| (body.to_owned(), format!("unchanged: {why}"));
    let chat = match Chat::parse(body.as_bytes()) {
        Ok(chat) => chat,
        Err(unreadable) => return unchanged(&unreadable),
    };
    let exchanges = match group(&chat.messages) {
        Ok(exchanges) => exchanges,
        Err(broken) => return unchanged(&broken),
    };
    let model = chat.outline.model.as_deref();
    let Some(policy) = named.or_else(|| config.policies.iter().find(|policy| policy.matches(model, "/v1/chat/completions", |_| None)))
    else {
        return unchanged(&"no policy matches");
    };
    let encoding = Encoding::for_model(model.unwrap_or_default());
    let measures: Vec<Measure> = chat.messages.iter().map(|message| Measure::of(message, encoding)).collect();
    let subject = Subject {
        messages: &chat.messages,
        measures: &measures,
        exchanges: &exchanges,
        fixed_tokens: count_fixed(&chat.outline, encoding),
        encoding,
        family: policy.family_for(model),
    };
    let request = Request { model: model.unwrap_or_default().to_owned(), ..Request::default() };
    let circumstances = Circumstances {
        window: policy.window_for(model),
        prices: policy.prices_for(model),
        request: &request,
        answers: &[],
        now: Moment { max_output_tokens: chat.outline.max_output_tokens, ..Moment::default() },
    };
    let before = size_of_edited(&subject, &vec![Edit::Keep; measures.len()]);
    let (edits, reason, reports) = match target(&subject, before, flags) {
        Some(target) => match compact_to(&subject, policy, target, &circumstances, &Cancel::default()) {
            Ok((edits, reports)) => (edits, Some(Reason::Forced), reports),
            Err(_) => return unchanged(&"stopped"),
        },
        None => {
            let seed = Digest::of(b"baler compact");
            let lookup = Lookup { checkpoint: &|_| None, usage: &|_| None, silence: &|_| None };
            match think(&subject, policy, circumstances, Seeds { checkpoint: seed, usage: seed }, &lookup, &Cancel::default()) {
                Ok(plan) => {
                    let (reason, reports) = plan.compaction.map_or((None, Vec::new()), |made| (Some(made.reason), made.reports));
                    (plan.edits, reason, reports)
                }
                Err(_) => return unchanged(&"stopped"),
            }
        }
    };
    if let Err(invalid) = validate(&chat.messages, &edits) {
        return unchanged(&invalid);
    }
    let after = size_of_edited(&subject, &edits);
    (assemble(body, &render(&chat, &edits)), told(&policy.name, reason, before, after, &reports))
}

/// The target in prompt tokens, when one was asked for.
fn target(subject: &Subject<'_>, before: Size, flags: &CompactFlags) -> Option<u64> {
    let ratio = match (flags.target_ratio, flags.target_tokens) {
        (Some(ratio), _) => ratio,
        (None, tokens) => return tokens,
    };
    let instructions = subject.measures.iter().take_while(|measure| measure.role.is_instruction());
    let fixed = subject.fixed_tokens + instructions.map(|measure| measure.tokens).sum::<u64>();
    Some(fixed + scale(before.tokens.saturating_sub(fixed), ratio))
}

fn told(policy: &str, reason: Option<Reason>, before: Size, after: Size, reports: &[Report]) -> String {
    let mut line = format!(
        "policy {policy}, {}: {} -> {} tokens, {} -> {} messages",
        reason.map_or("nothing to do", Reason::as_str),
        before.tokens,
        after.tokens,
        before.messages,
        after.messages
    );
    for report in reports {
        let _ = write!(line, "; {} {} -> {}", report.strategy, report.before.tokens, report.after.tokens);
    }
    line
}
