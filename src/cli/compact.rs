//! `baler compact`: the compaction core as a filter, for trying policies out and for measuring them.

use crate::core::wire::chat::measure;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::process::ExitCode;

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use serde_json::value::RawValue;

use crate::cli::{CompactFlags, EXIT_CONFIG, complain, environment};
use crate::config;
use crate::config::{Config, Sources};
use crate::core::Cancel;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::Measure;
use crate::core::conversation::group;
use crate::core::conversation::{Size, scale};
use crate::core::edit::Edit;
use crate::core::edit::{MeasuredConversation, size_of_edited};
use crate::core::edit::{assemble, render, validate};
use crate::core::planner::{LiveFacts, Lookup, PlanInput, Seeds, compact_to, plan};
use crate::core::policy::RequestFacts;
use crate::core::policy::{Policy, Reason};
use crate::core::strategy::{ExternalInputs, Need, Report, Stopped};
use crate::core::summary::{Options, PendingSummary, Summaries};
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Chat;
use crate::core::wire::chat::count_fixed;
use crate::ledger::Ledger;
use crate::observe::Metrics;
use crate::summarizer::{Reserved, Summarizer, SummaryOrigin};
use crate::upstream::Upstream;

pub(super) fn run(flags: &CompactFlags) -> anyhow::Result<ExitCode> {
    let sources = Sources {
        file: flags.config.clone(),
        env: environment(),
        ladder: flags.ladder.clone(),
        flags: Vec::new(),
    };
    let config = match config::load(&sources) {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return Ok(ExitCode::from(EXIT_CONFIG));
        }
    };
    if flags
        .target_ratio
        .is_some_and(|ratio| !(ratio > 0.0 && ratio <= 1.0))
    {
        complain("baler compact: --target-ratio is not between 0 and 1");
        return Ok(ExitCode::from(EXIT_CONFIG));
    }
    let named = match &flags.policy {
        Some(name) => match config.policies.iter().find(|policy| policy.name == *name) {
            Some(policy) => Some(&**policy),
            None => {
                let names: Vec<&str> = config
                    .policies
                    .iter()
                    .map(|policy| policy.name.as_str())
                    .collect();
                complain(&format!(
                    "baler compact: there is no policy \"{name}\"; there are {}",
                    names.join(", ")
                ));
                return Ok(ExitCode::from(EXIT_CONFIG));
            }
        },
        None => None,
    };

    let mut input = String::new();
    match &flags.file {
        Some(file) => {
            input = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?
        }
        None => drop(
            std::io::stdin()
                .read_to_string(&mut input)
                .context("cannot read standard input")?,
        ),
    }
    let summarizes = |policy: &Policy| policy.summarize().is_some();
    let by_hand = if config.policies.iter().any(|policy| summarizes(policy)) {
        Some(ByHand::new(&config)?)
    } else {
        None
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let requests = serde_json::Deserializer::from_str(&input).into_iter::<&RawValue>();
    for (at, request) in requests.enumerate() {
        let number = at + 1;
        match request {
            Ok(request) => {
                let (body, report) =
                    compacted(request.get(), &config, named, flags, by_hand.as_ref());
                // Between the tokens of a JSON text a line break is a blank; inside of them there is none.
                writeln!(out, "{}", body.replace(['\n', '\r'], " "))?;
                complain(&format!("{number}: {report}"));
            }
            Err(error) => {
                out.flush()?;
                complain(&format!(
                    "baler compact: request {number} is not JSON: {error}"
                ));
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The request as it would be sent, and what happened to it.
fn compacted(
    body: &str,
    config: &Config,
    named: Option<&Policy>,
    flags: &CompactFlags,
    by_hand: Option<&ByHand>,
) -> (String, String) {
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
    let Some(policy) = named.or_else(|| {
        let mut policies = config.policies.iter().map(|policy| &**policy);
        policies.find(|policy| policy.matches(model, "/v1/chat/completions", |_| None))
    }) else {
        return unchanged(&"no policy matches");
    };
    let encoding = Encoding::for_model(model.unwrap_or_default());
    let measures: Vec<Measure> = chat
        .messages
        .iter()
        .map(|message| measure(message, encoding))
        .collect();
    let conversation = MeasuredConversation {
        messages: &chat.messages,
        measures: &measures,
        exchanges: &exchanges,
        fixed_tokens: count_fixed(&chat.outline, encoding),
        encoding,
        family: policy.family_for(model),
    };
    let request = RequestFacts {
        model: model.unwrap_or_default().to_owned(),
        ..RequestFacts::default()
    };
    let before = size_of_edited(&conversation, &vec![Edit::Keep; measures.len()]);
    let seed = Fingerprint::of(b"baler compact");
    let run = |may_ask: bool| {
        let state = |prefix: &Fingerprint| {
            by_hand.and_then(|by_hand| by_hand.summarizer.state(&by_hand.ledger, prefix))
        };
        let summarizes = by_hand.is_some() && policy.summarize().is_some();
        let summaries = summarizes.then(|| Summaries::new(&measures, seed, &state, may_ask));
        let input = PlanInput {
            window: policy.window_for(model),
            prices: policy.prices_for(model),
            request: &request,
            outside: ExternalInputs {
                answers: &[],
                summaries: summaries.as_ref(),
            },
            now: LiveFacts {
                max_output_tokens: chat.outline.max_output_tokens,
                ..LiveFacts::default()
            },
        };
        if let Some(target) = target(&conversation, before, flags) {
            let (edits, reports) =
                compact_to(&conversation, policy, target, &input, &Cancel::default())?;
            return Ok((edits, Some(Reason::Forced), reports));
        }
        let lookup = Lookup {
            checkpoint: &|_| None,
            usage: &|_| None,
            silence: &|_| None,
        };
        let plan = plan(
            &conversation,
            policy,
            input,
            Seeds {
                checkpoint: seed,
                usage: seed,
            },
            &lookup,
            &Cancel::default(),
        )?;
        let (reason, reports) = plan
            .compaction
            .map_or((None, Vec::new()), |made| (Some(made.reason), made.reports));
        Ok((plan.edits, reason, reports))
    };
    let ran = match (run(true), by_hand) {
        (Err(Stopped::Asks(asked)), Some(by_hand)) => {
            if let (Need::Summary(due), Some((_, options))) = (*asked, policy.summarize()) {
                by_hand.make(&due, options, body, model, policy.window_for(model));
            }
            run(false)
        }
        (ran, _) => ran,
    };
    let Ok((edits, reason, reports)) = ran else {
        return unchanged(&"stopped");
    };
    if let Err(invalid) = validate(&chat.messages, &edits) {
        return unchanged(&invalid);
    }
    let after = size_of_edited(&conversation, &edits);
    (
        assemble(body, &render(&chat, &edits)),
        told(&policy.name, reason, before, after, &reports),
    )
}

/// What it takes to have a summary made at once, while everybody waits.
struct ByHand {
    summarizer: Arc<Summarizer>,
    upstream: Upstream,
    ledger: Ledger,
    runtime: tokio::runtime::Runtime,
    credentials: HeaderMap,
}

impl ByHand {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let metrics = Arc::new(Metrics::new()?);
        let mut credentials = HeaderMap::new();
        // As an SDK would.
        if let Ok(key) = std::env::var("OPENAI_API_KEY") {
            let value = HeaderValue::try_from(format!("Bearer {key}"))
                .context("OPENAI_API_KEY cannot stand in a header")?;
            credentials.insert(AUTHORIZATION, value);
        }
        Ok(ByHand {
            summarizer: Arc::new(Summarizer::new(
                config.summarizer.clone(),
                "upstream",
                metrics,
            )),
            upstream: Upstream::new(&config.upstream)?,
            ledger: Ledger::new(
                config.ledger_bytes,
                config.ledger_messages,
                config.window_lifetime,
            ),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            credentials,
        })
    }

    /// Has a summary made; whether one was is to be seen in the ledger.
    fn make(
        &self,
        due: &PendingSummary,
        options: &Options,
        body: &str,
        model: Option<&str>,
        window: u64,
    ) {
        let Ok(uri) = self.upstream.uri("/v1/chat/completions") else {
            return;
        };
        let occasion = SummaryOrigin {
            body: Bytes::copy_from_slice(body.as_bytes()),
            uri,
            credentials: self.credentials.clone(),
            model: model.map(str::to_owned),
            tenant: Fingerprint::of(b""),
            window,
            factor: 1.0,
        };
        // Whoever runs it by hand wants it: what it costs is no matter here.
        self.summarizer.forwarded(occasion.tenant, ENOUGH_TOKENS);
        let reserved = self.summarizer.reserve(due, &occasion, &self.ledger);
        if let Reserved::Lease(lease) = reserved {
            self.runtime
                .block_on(lease.run(&self.upstream, &self.ledger, options, &occasion));
        }
    }
}

/// More than any summary takes.
const ENOUGH_TOKENS: u64 = 50_000_000;

/// The target in prompt tokens, when one was asked for.
fn target(
    conversation: &MeasuredConversation<'_>,
    before: Size,
    flags: &CompactFlags,
) -> Option<u64> {
    let ratio = match (flags.target_ratio, flags.target_tokens) {
        (Some(ratio), _) => ratio,
        (None, tokens) => return tokens,
    };
    let instructions = conversation
        .measures
        .iter()
        .take_while(|measure| measure.role.is_instruction());
    let fixed = conversation.fixed_tokens + instructions.map(|measure| measure.tokens).sum::<u64>();
    Some(fixed + scale(before.tokens.saturating_sub(fixed), ratio))
}

fn told(
    policy: &str,
    reason: Option<Reason>,
    before: Size,
    after: Size,
    reports: &[Report],
) -> String {
    let mut line = format!(
        "policy {policy}, {}: {} -> {} tokens, {} -> {} messages",
        reason.map_or("nothing to do", Reason::as_str),
        before.tokens,
        after.tokens,
        before.messages,
        after.messages
    );
    for report in reports {
        let _ = write!(
            line,
            "; {} {} -> {}",
            report.strategy, report.before.tokens, report.after.tokens
        );
        if report.strategy == "summarize" {
            let counts = report
                .details
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| format!("{name} {count}"));
            let _ = write!(line, " ({})", counts.collect::<Vec<_>>().join(", "));
        }
    }
    line
}
