//! The core with a ledger of its own: what tests ask for a plan.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use baler::core::Cancel;
use baler::core::conversation::{Fingerprint, Measure, Size};
use baler::core::edit::{Checkpoint, Edit, assemble, sent_size_of_edited, validate};
use baler::core::models::{ModelFacts, Prices};
use baler::core::planner::{
    Counting, KnownCheckpoint, KnownUsage, LiveFacts, Plan, Planner, Seeds, Session,
};
use baler::core::policy::{Policy, RequestFacts};
use baler::core::strategy::ExternalInputs;
use baler::core::summary::{Spent, State, Summaries, Summary};
use baler::core::tokens::{Encoding, FactorStep};

use super::DIALECT;

/// The core with a ledger of its own.
#[derive(Default)]
pub struct Core {
    checkpoints: RefCell<HashMap<Fingerprint, Arc<Checkpoint>>>,
    pub usage: RefCell<HashMap<Fingerprint, u64>>,
    measures: RefCell<HashMap<String, Measure>>,
    pub prices: Option<Prices>,
    /// The step of derived decisions.
    pub step: FactorStep,
    /// Whether some prefixes have a summary: which ones, this number and their digest say.
    pub summaries: Option<u8>,
}

/// What became of a request.
pub struct Outcome {
    pub plan: Plan,
    /// The body that is sent.
    pub sent: String,
    /// Size of the client's list and of what is sent, counted afresh.
    pub counted: [Size; 2],
}

impl Core {
    /// One that knows what cached tokens cost.
    pub fn with_prices(prices: Option<Prices>) -> Self {
        Core {
            prices,
            ..Core::default()
        }
    }

    /// One whose upstream counts more than it does, as far as this step says.
    pub fn by_step(step: FactorStep) -> Self {
        Core {
            step,
            ..Core::default()
        }
    }

    /// One for which some prefixes have a summary.
    pub fn with_summaries(summaries: Option<u8>) -> Self {
        Core {
            summaries,
            ..Core::default()
        }
    }

    pub fn ask(&self, body: &str, policy: &Policy) -> Outcome {
        self.ask_with(body, policy, false)
    }

    pub fn ask_with(&self, body: &str, policy: &Policy, force: bool) -> Outcome {
        let encoding = Encoding::O200K;
        let counting = Counting {
            encoding,
            message: &|raw| {
                if let Some(known) = self.measures.borrow().get(raw) {
                    return Ok(*known);
                }
                let measure = DIALECT.measure(raw, encoding)?;
                self.measures.borrow_mut().insert(raw.to_owned(), measure);
                Ok(measure)
            },
            fixed: &|outline| DIALECT.count_fixed(outline, encoding),
        };
        let cancel = Cancel::default();
        let outline = DIALECT.outline(body.as_bytes()).unwrap();
        let session = Session::open(DIALECT, outline, &counting, &cancel).unwrap();
        let seeds = Seeds {
            checkpoint: Fingerprint::of(b"checkpoint"),
            usage: Fingerprint::of(b"usage"),
        };
        let request = RequestFacts::default();
        let unknown = ModelFacts::default();
        let model = (&unknown, policy.window_for(&unknown));
        let planner = Planner {
            prices: self.prices,
            step: self.step,
            ..Planner::new(policy, model, &request, seeds, &cancel)
        };
        let summaries = self.summaries.map(|salt| {
            let keys = session.summary_keys(&Fingerprint::of(b"summary"));
            let states = keys.iter().map(|key| made_up_state(key, salt)).collect();
            Summaries::new(keys, states, false)
        });
        let external = ExternalInputs {
            answers: &[],
            summaries: summaries.as_ref(),
        };

        let known = session
            .checkpoint_keys(&seeds.checkpoint)
            .into_iter()
            .rev()
            .find_map(|key| {
                let checkpoint = Arc::clone(self.checkpoints.borrow().get(&key.prefix)?);
                Some(KnownCheckpoint {
                    messages: key.messages,
                    checkpoint,
                })
            });
        let derived = planner.derive(&session, known.as_ref(), &external).unwrap();
        let keys = derived.usage_keys(&planner, &session);
        let usage = self.usage.borrow();
        let reported = keys
            .iter()
            .rev()
            .find_map(|k| Some((k.messages, *usage.get(&k.list)?)));
        let known = KnownUsage {
            reported,
            silence: None,
        };
        let live = LiveFacts {
            force,
            ..LiveFacts::default()
        };
        let mut plan = planner
            .decide(&session, derived, (&keys, &known), &external, live)
            .unwrap();

        if let Ok(conversation) = session.conversation(planner.family) {
            validate(DIALECT, conversation.messages, &plan.edits).unwrap();
        }
        let sent = assemble(body, &session.render(&plan.edits));
        let size =
            |edits: &[Edit]| sent_size_of_edited(session.measures(), session.fixed_tokens(), edits);
        let counted = [size(&vec![Edit::Keep; session.len()]), size(&plan.edits)];
        if let Some((key, checkpoint)) = plan.checkpoint.take() {
            self.checkpoints
                .borrow_mut()
                .insert(key, Arc::new(checkpoint));
        }
        Outcome {
            plan,
            sent,
            counted,
        }
    }
}

/// The state of the summary of a prefix: some are ready, some are not.
/// With this number no prefix has a summary.
pub const NONE_READY: u8 = u8::MAX;

fn made_up_state(prefix: &Fingerprint, salt: u8) -> Option<State> {
    match prefix.0[0].wrapping_add(salt) % 4 {
        _ if salt == NONE_READY => None,
        0 => Some(State::Ready(Arc::new(Summary {
            text: format!("What was said up to here, {prefix:?}.").into(),
            tokens: 12,
            generation: 1,
            incremental: false,
            split: false,
            spent: Spent::default(),
        }))),
        1 if prefix.0[1].is_multiple_of(16) => Some(State::Running),
        2 if prefix.0[1].is_multiple_of(4) => Some(State::Failed),
        _ => None,
    }
}
