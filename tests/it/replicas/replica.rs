//! A replica as a value: the core, and a ledger of its own. In front of it, an upstream that counts
//! otherwise than Baler does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use baler::core::Cancel;
use baler::core::conversation::{Fingerprint, Measure, ratio, scale};
use baler::core::edit::assemble;
use baler::core::models::ModelFacts;
use baler::core::planner::{
    Basis, Counting, Lesson, LiveFacts, ModelCalibration, Plan, Planner, PriorUsage, RefusedList,
    Seeds, Session,
};
use baler::core::policy::{Policy, RequestFacts};
use baler::core::strategy::ExternalInputs;
use baler::core::tokens::{Encoding, FactorStep};
use baler::ledger::{Bounds, Memory};
use baler::observe::Metrics;

use crate::invariants::DIALECT;
use crate::support::messages_of;

/// An upstream with a window, that counts `factor` tokens where Baler counts one; `uneven` more or
/// less for a message, according to its content; and `hidden` ones in every prompt.
#[derive(Debug, Clone, Copy)]
pub struct Upstream {
    pub window: u64,
    pub factor: f64,
    pub uneven: f64,
    pub hidden: u64,
}

impl Upstream {
    /// Prompt tokens of a list of messages.
    pub fn count(&self, list: &[String], measures: &Measures) -> u64 {
        let of = |raw: &String| {
            let known = measures.of(raw);
            let place = f64::from(known.fingerprint.0[0]) / 127.5 - 1.0;
            // Code and records are what tokenizers differ in most, and a conversation is all alike.
            let kind = if raw.contains("\"tool\"") { 0.5 } else { -0.5 };
            scale(
                known.tokens * 1_000,
                self.factor * (1.0 + self.uneven * (place * 0.5 + kind)),
            )
        };
        self.hidden + list.iter().map(of).sum::<u64>() / 1_000
    }
}

/// Measures of messages, shared by all replicas of a thread: they are the same everywhere.
#[derive(Default)]
pub struct Measures(RefCell<HashMap<String, Measure>>);

impl Measures {
    fn of(&self, raw: &str) -> Measure {
        if let Some(known) = self.0.borrow().get(raw) {
            return *known;
        }
        let measure = DIALECT.measure(raw, Encoding::O200K).unwrap();
        self.0.borrow_mut().insert(raw.to_owned(), measure);
        measure
    }
}

/// What became of a request.
pub struct Served {
    /// The messages that the upstream answered.
    pub list: Vec<String>,
    /// Times that it refused the request as too long first.
    pub refused: usize,
    /// Whether it was refused for good.
    pub lost: bool,
    /// Whether more was sent than the policy's budget, by the upstream's own count.
    pub over: bool,
    /// What the answer's `x-baler-usage` would say, were it known before the body.
    pub told: PriorUsage,
}

pub struct Replica {
    memory: Memory,
    /// Of the text that it writes.
    version: u32,
}

/// The key of the one model.
fn model() -> Fingerprint {
    Fingerprint::of(b"model")
}

fn checkpoint_seed(version: u32, window: u64, step: FactorStep) -> Fingerprint {
    let version = version.to_le_bytes();
    let window = window.to_le_bytes();
    Fingerprint::of_parts(&[b"checkpoint", &version, &window, &[step.number()]])
}

/// A list that was planned, and what it takes to learn from its usage.
struct Planned {
    plan: Plan,
    lesson: Lesson,
    list: Vec<String>,
}

impl Replica {
    /// One that knows nothing.
    pub fn fresh() -> Self {
        Self::of_version(0)
    }

    /// The same, that writes the text of this version.
    pub fn of_version(version: u32) -> Self {
        let hour = Duration::from_secs(3_600);
        let bounds = Bounds {
            bytes: 64 << 20,
            messages: 1_024,
            lifetime: hour,
            window_lifetime: hour,
        };
        Replica {
            memory: Memory::new(bounds, Arc::new(Metrics::new().unwrap())),
            version,
        }
    }

    /// Serves a request: plans it, sends it, plans it again where it is refused, and learns.
    pub fn serve(
        &self,
        body: &str,
        policy: &Policy,
        prior: Option<PriorUsage>,
        (upstream, measures): (&Upstream, &Measures),
    ) -> Served {
        let mut planned = self.plan(body, policy, measures, (prior, None));
        let mut tokens = upstream.count(&planned.list, measures);
        let mut refused = 0;
        while tokens > upstream.window && refused < 2 {
            refused += 1;
            if upstream.window < policy.window_for(&ModelFacts::default()) {
                self.memory.keep_window(model(), upstream.window);
            }
            self.learn(&planned, tokens);
            if refused == 2 {
                break;
            }
            let estimate = planned.plan.estimate;
            let list = RefusedList {
                list: estimate.key,
                tokens: tokens.max(upstream.window),
                counted: estimate.counted,
            };
            planned = self.plan(body, policy, measures, (prior, Some(list)));
            tokens = upstream.count(&planned.list, measures);
        }
        let messages = messages_of(body.as_bytes()).len();
        let estimate = planned.plan.estimate;
        let told = PriorUsage {
            messages,
            prompt_tokens: tokens,
            counted: Some(estimate.counted),
        };
        let lost = refused == 2;
        if !lost {
            self.learn(&planned, tokens);
            self.memory.served(&model(), tokens);
        }
        Served {
            refused,
            lost,
            over: planned.plan.fits && tokens > planned.plan.budget.prompt,
            list: planned.list,
            told,
        }
    }

    fn learn(&self, planned: &Planned, tokens: u64) {
        let estimate = planned.plan.estimate;
        let (prefix, evidence) = planned.lesson.learn(tokens, estimate.counted);
        self.memory.keep_evidence(prefix, evidence);
        self.memory.keep_usage(estimate.key, tokens);
        self.memory.calibrate(model(), tokens, estimate.counted);
    }

    /// As a run of planning in the proxy does it, for policies that ask nobody else.
    fn plan(
        &self,
        body: &str,
        policy: &Policy,
        measures: &Measures,
        (prior, refused): (Option<PriorUsage>, Option<RefusedList>),
    ) -> Planned {
        let counting = Counting {
            encoding: Encoding::O200K,
            message: &|raw| Ok(measures.of(raw)),
            fixed: &|_| 3,
        };
        let (cancel, request) = (Cancel::default(), RequestFacts::default());
        let outline = DIALECT.outline(body.as_bytes()).unwrap();
        let session = Session::open(DIALECT, outline, &counting, &cancel).unwrap();
        let learned: ModelCalibration = self.memory.learned(&model(), policy.calibration_factor);
        let window = learned.narrowed(policy.window_for(&ModelFacts::default()));
        let external = ExternalInputs {
            answers: &[],
            summaries: None,
        };
        let live = LiveFacts {
            learned,
            prior,
            refused,
            ..LiveFacts::default()
        };
        let prefixes = session.checkpoint_keys(&Fingerprint::of(b"conversation"));
        let elsewhere = Lesson::elsewhere(learned.factor, prior, &prefixes, body.len());
        let unknown = ModelFacts::default();
        let mut lesson = Lesson::of(&prefixes, self.memory.evidence(&prefixes), elsewhere).unwrap();
        let mut plan = lesson
            .plan(|step, basis| {
                let seeds = Seeds {
                    checkpoint: checkpoint_seed(self.version, window, step),
                    usage: Fingerprint::of(b"usage"),
                };
                let planner = Planner {
                    step,
                    goes_on: basis != Basis::Derived,
                    ..Planner::new(policy, (&unknown, window), &request, seeds, &cancel)
                };
                let known_by = match basis {
                    Basis::Derived => seeds.checkpoint,
                    Basis::Sent(before) => checkpoint_seed(self.version, window, before),
                };
                let keys = session.checkpoint_keys(&known_by);
                let known = self.memory.longest_checkpoint(&keys);
                let derived = planner.derive(&session, known.as_ref(), &external)?;
                let keys = derived.usage_keys(&planner, &session);
                let known = self.memory.known_usage(&keys, false);
                planner.decide(&session, derived, (&keys, &known), &external, live)
            })
            .unwrap();
        if let Some((key, checkpoint)) = plan.checkpoint.take() {
            self.memory.keep_checkpoint(key, Arc::new(checkpoint), true);
        }
        let sent = assemble(body, &session.render(&plan.edits));
        Planned {
            list: messages_of(sent.as_bytes()),
            plan,
            lesson,
        }
    }
}

/// Rewrites per 100 requests that follow another one of their conversation.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub requests: usize,
    pub followed: usize,
    pub rewrites: usize,
    pub refused: usize,
    pub lost: usize,
    pub over: usize,
}

impl Tally {
    pub fn per_100(&self) -> f64 {
        100.0 * ratio(self.rewrites as u64, self.followed as u64)
    }

    /// Takes note of a request, and of the list that was sent before it.
    pub fn add(&mut self, before: Option<&[String]>, served: &Served) {
        self.requests += 1;
        self.refused += served.refused;
        self.lost += usize::from(served.lost);
        self.over += usize::from(served.over);
        if let Some(before) = before {
            self.followed += 1;
            self.rewrites += usize::from(!served.list.starts_with(before));
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            refused,
            lost,
            over,
            ..
        } = self;
        write!(f, "| {:5.1} ({refused}/{lost}/{over})", self.per_100())
    }
}
