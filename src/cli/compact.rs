//! `baler compact`: the planner as a filter, for trying policies out and for measuring them.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use serde_json::value::RawValue;

use super::{CompactFlags, EXIT_CONFIG, Room, account, complain, configuration_file, environment};
use crate::config::{self, Config, Sources};
use crate::core::Cancel;
use crate::core::conversation::{Fingerprint, Size, scale};
use crate::core::edit::{Edit, assemble, sent_size_of_edited, size_of_edited};
use crate::core::models::ModelFacts;
use crate::core::planner::{KnownUsage, LiveFacts, Planner, Seeds, Session};
use crate::core::policy::{Policy, Reason, RequestFacts};
use crate::core::strategy::{ExternalInputs, Need, Report, Stopped};
use crate::core::summary::{PendingSummary, Summaries};
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;
use crate::ledger::{Ledger, Scope};
use crate::observe::{self, Metrics};
use crate::summarizer::{DueSummary, Reserved, Summarizers, SummaryOrigin};
use crate::upstream::Upstream;

/// The wire format of the requests.
const DIALECT: Dialect = Dialect::ChatCompletions;
/// Tokens that a summariser may spend here: more than any summary takes.
const SUMMARY_ALLOWANCE_TOKENS: u64 = 50_000_000;

pub(super) fn run(flags: &CompactFlags) -> anyhow::Result<ExitCode> {
    let sources = Sources {
        file: configuration_file(flags.config.clone()),
        env: environment(),
        ladder: flags.ladder.clone(),
        flags: Vec::new(),
        may_loop: true,
    };
    let config = match config::load(&sources) {
        Ok(config) => config,
        Err(problems) => return Ok(refused(&problems.to_string())),
    };
    if flags
        .target_ratio
        .is_some_and(|ratio| !(ratio > 0.0 && ratio <= 1.0))
    {
        return Ok(refused("--target-ratio: not between 0 and 1"));
    }
    let named = match named_policy(&config, flags) {
        Ok(named) => named,
        Err(problem) => return Ok(refused(&problem)),
    };
    let input = input(flags)?;
    let summarizes = |policy: &Arc<Policy>| policy.summarize().is_some();
    let summaries = if config.policies.iter().any(summarizes) {
        // The report says that there is no summary; the warning says why.
        observe::init_logging(config.log_format, "warn");
        Some(ImmediateSummaries::new(&config)?)
    } else {
        None
    };
    let filter = Filter {
        config: &config,
        named,
        flags,
        summaries,
    };
    filter.run(&input)
}

/// The text of the file that the flags name, else of the standard input.
fn input(flags: &CompactFlags) -> anyhow::Result<String> {
    if let Some(file) = &flags.file {
        return std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()));
    }
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .context("cannot read standard input")?;
    Ok(input)
}

fn refused(problem: &str) -> ExitCode {
    complain(problem);
    ExitCode::from(EXIT_CONFIG)
}

/// The policy that the flags name, if they name one.
fn named_policy<'c>(
    config: &'c Config,
    flags: &CompactFlags,
) -> Result<Option<&'c Policy>, String> {
    let Some(name) = &flags.policy else {
        return Ok(None);
    };
    let mut policies = config.policies.iter().map(|policy| -> &Policy { policy });
    if let Some(policy) = policies.find(|policy| policy.name == *name) {
        return Ok(Some(policy));
    }
    let names: Vec<&str> = config
        .policies
        .iter()
        .map(|policy| policy.name.as_str())
        .collect();
    let names = names.join(", ");
    Err(format!(
        "--policy: there is no policy \"{name}\"; there are {names}"
    ))
}

/// Compacts requests, each as if it were the first of its conversation.
struct Filter<'c> {
    config: &'c Config,
    named: Option<&'c Policy>,
    flags: &'c CompactFlags,
    summaries: Option<ImmediateSummaries>,
}

/// One compaction.
struct Compacted {
    edits: Vec<Edit>,
    /// What was done, or why nothing was.
    what: String,
    reports: Vec<Report>,
}

impl Filter<'_> {
    /// Writes each request of `input` on a line of its own, compacted. A line that is not JSON
    /// comes out as it is, and the exit code tells.
    fn run(&self, input: &str) -> anyhow::Result<ExitCode> {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut rest = input;
        let (mut number, mut code) = (0, ExitCode::SUCCESS);
        while !rest.trim().is_empty() {
            let mut requests = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
            let (mut failed, mut done) = (None, 0);
            while let Some(request) = requests.next() {
                number += 1;
                match request {
                    Ok(request) => {
                        let (body, report) = self.compact(request.get());
                        // A line break between the tokens of a JSON text is white space; inside of
                        // them there is none.
                        writeln!(out, "{}", body.replace(['\n', '\r'], " "))?;
                        complain(&format!("{number}: {report}"));
                        done = requests.byte_offset();
                    }
                    Err(error) => failed = Some(error),
                }
            }
            let Some(error) = failed else { break };
            let (line, after) = line_at(rest, done);
            writeln!(out, "{line}")?;
            complain(&format!("{number}: not JSON: {error}"));
            code = ExitCode::FAILURE;
            rest = after;
        }
        out.flush()?;
        Ok(code)
    }

    /// The request as it would be sent, and a line that reports what was done.
    fn compact(&self, body: &str) -> (String, String) {
        self.try_compact(body)
            .unwrap_or_else(|why| (body.to_owned(), format!("unchanged: {why}")))
    }

    fn try_compact(&self, body: &str) -> Result<(String, String), String> {
        let outline = DIALECT
            .outline(body.as_bytes())
            .map_err(|error| error.to_string())?;
        let model = outline.model.as_deref().map(str::to_owned);
        let model = model.as_deref();
        let encoding = Encoding::for_model(model.unwrap_or_default());
        let session = Session::open_afresh(DIALECT, outline, encoding);
        let session = session.map_err(|error| error.to_string())?;
        let policy = self.policy_for(model).ok_or("no policy matches")?;
        let request = RequestFacts {
            model: model.unwrap_or_default().to_owned(),
            ..RequestFacts::default()
        };
        let seed = Fingerprint::of(b"baler compact");
        let seeds = Seeds {
            checkpoint: seed,
            usage: seed,
        };
        let cancel = Cancel::default();
        let known = ModelFacts::of(model);
        let window = policy.window_for(&known);
        let planner = Planner::new(policy, (&known, window), &request, seeds, &cancel);
        session
            .conversation(planner.family)
            .map_err(|error| error.to_string())?;

        let mut compacted = self.plan(&planner, &session, true);
        if let (Err(Stopped::Asks(need)), Some(summaries)) = (&compacted, &self.summaries) {
            if let (Need::Summary(pending), Some(_)) = (&**need, policy.summarize()) {
                summaries.make(pending, &planner, body, model);
            }
            compacted = self.plan(&planner, &session, false);
        }
        let Ok(Compacted {
            edits,
            what,
            reports,
        }) = compacted
        else {
            return Err("stopped".to_owned());
        };
        let size =
            |edits: &[Edit]| sent_size_of_edited(session.measures(), session.fixed_tokens(), edits);
        let sizes = [size(&vec![Edit::Keep; session.len()]), size(&edits)];
        let mut report = report(&policy.name, &what, sizes, &reports);
        if self.flags.explain {
            report.push('\n');
            report += &account::of_messages(DIALECT, session.measures(), &edits);
        }
        Ok((assemble(body, &session.render(&edits)), report))
    }

    fn policy_for(&self, model: Option<&str>) -> Option<&Policy> {
        let matches = |policy: &&Policy| policy.matches(model, "/v1/chat/completions", |_| None);
        let mut policies = self
            .config
            .policies
            .iter()
            .map(|policy| -> &Policy { policy });
        self.named.or_else(|| policies.find(matches))
    }

    fn plan(
        &self,
        planner: &Planner<'_>,
        session: &Session<'_>,
        may_ask: bool,
    ) -> Result<Compacted, Stopped> {
        let made = self
            .summaries
            .as_ref()
            .filter(|_| planner.policy.summarize().is_some());
        let summaries = made.map(|made| {
            let keys = session.summary_keys(&planner.seeds.checkpoint);
            let summarizer = made.summarizers.of(planner.policy);
            let state = |key| summarizer.state(&made.ledger, key);
            let states = keys.iter().map(state).collect();
            Summaries::new(keys, states, may_ask)
        });
        let external = ExternalInputs {
            answers: &[],
            summaries: summaries.as_ref(),
        };
        if let Some(Goal { target, room }) = goal(planner, session, self.flags) {
            let (edits, reports) = planner.compact_to(session, target, room, &external)?;
            let what = if reports.is_empty() {
                format!("nothing to do (no more than {target} tokens already)")
            } else {
                Reason::Forced.as_str().to_owned()
            };
            return Ok(Compacted {
                edits,
                what,
                reports,
            });
        }
        let derived = planner.derive(session, None, &external)?;
        let keys = derived.usage_keys(planner, session);
        let unknown = KnownUsage::default();
        let max_output_tokens = session.outline().max_output_tokens;
        let live = LiveFacts {
            max_output_tokens,
            ..LiveFacts::default()
        };
        let plan = planner.decide(session, derived, (&keys, &unknown), &external, live)?;
        let what = match &plan.compaction {
            Some(made) => made.reason.as_str().to_owned(),
            None => account::reason_for_nothing(&plan, made.is_some() && !may_ask),
        };
        Ok(Compacted {
            what,
            reports: plan.compaction.map_or_else(Vec::new, |made| made.reports),
            edits: plan.edits,
        })
    }
}

/// The rest of the line at `offset`, and what follows it.
fn line_at(text: &str, offset: usize) -> (&str, &str) {
    let text = text.get(offset..).unwrap_or_default().trim_start();
    text.split_once('\n').unwrap_or((text, ""))
}

/// Makes summaries at once: the command waits for them.
struct ImmediateSummaries {
    summarizers: Summarizers,
    upstream: Upstream,
    ledger: Ledger,
    runtime: tokio::runtime::Runtime,
    credentials: HeaderMap,
}

impl ImmediateSummaries {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let metrics = Arc::new(Metrics::new()?);
        let mut credentials = HeaderMap::new();
        // The key that an SDK would use.
        if let Ok(key) = std::env::var("OPENAI_API_KEY") {
            let value = HeaderValue::try_from(format!("Bearer {key}"))
                .context("OPENAI_API_KEY cannot stand in a header")?;
            credentials.insert(AUTHORIZATION, value);
        }
        Ok(ImmediateSummaries {
            summarizers: Summarizers::new(&config.summarizers, "upstream", &metrics),
            upstream: Upstream::new(&config.upstream)?,
            ledger: Ledger::in_memory(&config.ledger, Arc::clone(&metrics)),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            credentials,
        })
    }

    /// Makes a summary; it is in the ledger afterwards, if that succeeded.
    fn make(
        &self,
        pending: &PendingSummary,
        planner: &Planner<'_>,
        body: &str,
        model: Option<&str>,
    ) {
        let Some((_, options)) = planner.policy.summarize() else {
            return;
        };
        let Ok(uri) = self.upstream.uri(&DIALECT.own_path("")) else {
            return;
        };
        let origin = SummaryOrigin {
            body: Bytes::copy_from_slice(body.as_bytes()),
            uri,
            credentials: self.credentials.clone(),
            model: model.map(str::to_owned),
            tenant: Fingerprint::of(b""),
            window: planner.window,
            factor: 1.0,
            request: String::new(),
            policy: planner.policy.name.clone(),
        };
        // The command was asked for the summary: its cost is no matter here.
        let summarizer = self.summarizers.of(planner.policy);
        summarizer.forwarded(origin.tenant, SUMMARY_ALLOWANCE_TOKENS);
        let due = DueSummary {
            scope: Scope {
                tenant: origin.tenant,
                group: pending.key,
            },
            pending: pending.clone(),
        };
        if let Reserved::Lease(lease) = summarizer.reserve(&due, &origin, &self.ledger) {
            self.runtime
                .block_on(lease.run(&self.upstream, &self.ledger, options, &origin));
        }
    }
}

/// Where a compaction is to end, prompt tokens.
struct Goal {
    /// Where it is to come to.
    target: u64,
    /// What it must not exceed.
    room: u64,
}

/// The goal that the flags name, if they name one. Where they name a target only, the prompt may
/// take what it may in the proxy: what the model has not answered yet is cut for no other reason.
fn goal(planner: &Planner<'_>, session: &Session<'_>, flags: &CompactFlags) -> Option<Goal> {
    let room = flags.room.map(|room| match room {
        Room::Tokens(tokens) => tokens,
        Room::Ratio(ratio) => share(session, ratio),
    });
    let of_ratio = flags.target_ratio.map(|ratio| share(session, ratio));
    match (of_ratio.or(flags.target_tokens), room) {
        (Some(target), Some(room)) => Some(Goal {
            target: target.min(room),
            room,
        }),
        (Some(target), None) => Some(Goal {
            target,
            room: planner.budget().prompt.max(target),
        }),
        (None, Some(room)) => {
            let all = vec![Edit::Keep; session.len()];
            let before = size_of_edited(session.measures(), session.fixed_tokens(), &all);
            let is_due = before.tokens > room;
            let target = if is_due {
                planner.policy.target_in(room, room).min(room)
            } else {
                room
            };
            Some(Goal { target, room })
        }
        (None, None) => None,
    }
}

/// Prompt tokens of a list that is compacted to this share of what follows its leading
/// instructions.
fn share(session: &Session<'_>, ratio: f64) -> u64 {
    let measures = session.measures();
    let instructions = measures
        .iter()
        .take_while(|measure| measure.speaker.is_instruction());
    let kept: u64 = instructions.map(|measure| measure.tokens).sum();
    let fixed = session.fixed_tokens() + kept;
    let all = measures.iter().map(|measure| measure.tokens).sum::<u64>() + session.fixed_tokens();
    fixed + scale(all.saturating_sub(fixed), ratio)
}

fn report(policy: &str, what: &str, [before, after]: [Size; 2], reports: &[Report]) -> String {
    let mut line = format!(
        "policy {policy}, {what}: {} -> {} tokens, {} -> {} messages",
        before.tokens, after.tokens, before.messages, after.messages
    );
    let first = reports.first().map(|first| first.before.messages);
    if let Some(messages) = first.filter(|first| *first != before.messages) {
        // The planner walks the turns of a conversation, as the proxy saw them one by one.
        let _ = write!(line, "; at the turn of {messages} messages");
    }
    for report in reports {
        let (before, after) = (report.before.tokens, report.after.tokens);
        let _ = write!(line, "; {} {before} -> {after}", report.strategy);
        if report.strategy == "summarize" {
            let counts = report.details.iter().filter(|(_, count)| *count > 0);
            let counts: Vec<String> = counts
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            let _ = write!(line, " ({})", counts.join(", "));
        }
    }
    line
}
