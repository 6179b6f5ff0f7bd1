//! The invariants of the design, as properties over generated chats.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use baler::core::Cancel;
use baler::core::conversation::Fingerprint;
use baler::core::conversation::Measure;
use baler::core::conversation::Size;
use baler::core::conversation::{Kind, Role, group};
use baler::core::edit::{Checkpoint, Edit};
use baler::core::edit::{MeasuredConversation, size_of_edited};
use baler::core::edit::{assemble, render, validate};
use baler::core::models::Prices;
use baler::core::planner::gate;
use baler::core::planner::{LiveFacts, Lookup, Plan, PlanInput, Seeds, plan};
use baler::core::policy::Policy;
use baler::core::policy::RequestFacts;
use baler::core::strategy::{ExternalInputs, OVERSIZE};
use baler::core::summary::{Spent, State, Summaries, Summary};
use baler::core::tokens::Encoding;
use baler::core::wire::chat::Chat;
use baler::core::wire::chat::count_fixed;
use baler::core::wire::chat::measure as measure_of;
use proptest::prelude::*;

use crate::generated::conversation;
use crate::generated::policy;
use crate::support::config;
use crate::support::messages_of;

/// The core with a ledger of its own.
#[derive(Default)]
pub struct Core {
    checkpoints: RefCell<HashMap<Fingerprint, Arc<Checkpoint>>>,
    pub usage: RefCell<HashMap<Fingerprint, u64>>,
    measures: RefCell<HashMap<String, Measure>>,
    pub prices: Option<Prices>,
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
        let chat = Chat::parse(body.as_bytes()).unwrap();
        let exchanges = group(&chat.messages).unwrap();
        let encoding = Encoding::O200K;
        let measure = |raw: &str, fresh: &dyn Fn() -> Measure| {
            *self
                .measures
                .borrow_mut()
                .entry(raw.to_owned())
                .or_insert_with(fresh)
        };
        let measures: Vec<Measure> = chat
            .messages
            .iter()
            .map(|message| measure(message.raw, &|| measure_of(message, encoding)))
            .collect();
        let conversation = MeasuredConversation {
            messages: &chat.messages,
            measures: &measures,
            exchanges: &exchanges,
            fixed_tokens: count_fixed(&chat.outline, encoding),
            encoding,
            family: policy.family_for(None),
        };
        let request = RequestFacts::default();
        let state = |prefix: &Fingerprint| match prefix.0[0].wrapping_add(self.summaries?) % 4 {
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
        };
        let summaries = self
            .summaries
            .map(|_| Summaries::new(&measures, Fingerprint::of(b"summary"), &state, false));
        let input = PlanInput {
            window: policy.window_for(None),
            prices: self.prices,
            request: &request,
            outside: ExternalInputs {
                answers: &[],
                summaries: summaries.as_ref(),
            },
            now: LiveFacts {
                force,
                ..LiveFacts::default()
            },
        };
        let seeds = Seeds {
            checkpoint: Fingerprint::of(b"checkpoint"),
            usage: Fingerprint::of(b"usage"),
        };
        let lookup = Lookup {
            checkpoint: &|prefix| self.checkpoints.borrow().get(prefix).cloned(),
            usage: &|list| self.usage.borrow().get(list).copied(),
            silence: &|_| None,
        };
        let mut plan = plan(
            &conversation,
            policy,
            input,
            seeds,
            &lookup,
            &Cancel::default(),
        )
        .unwrap();
        validate(&chat.messages, &plan.edits).unwrap();
        let sent = assemble(body, &render(&chat, &plan.edits));
        let counted = [
            size_of_edited(&conversation, &vec![Edit::Keep; measures.len()]),
            size_of_edited(&conversation, &plan.edits),
        ];
        if let Some((key, checkpoint)) = plan.record.take() {
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

/// The policy that `toml` describes.
pub fn policy_of(toml: &str) -> Policy {
    let mut policies = config(toml, "http://127.0.0.1:1/v1").policies;
    Arc::into_inner(policies.remove(0)).unwrap()
}

/// I1 to I4 and I7 for one request and what became of it.
pub fn check(body: &str, policy: &Policy, outcome: &Outcome) {
    check_edits(body, policy, outcome);
    let [before, _] = outcome.counted;
    if before.tokens <= outcome.plan.budget.room
        && policy
            .trigger
            .fires(before, outcome.plan.budget.room)
            .is_none()
    {
        assert!(
            policy.when.is_some() || outcome.plan.compaction.is_none(),
            "I4: below the trigger nothing new is done"
        );
    }
}

/// The same for a request that may have been compacted for another reason than its size.
fn check_edits(body: &str, policy: &Policy, outcome: &Outcome) {
    let Outcome {
        plan,
        sent,
        counted: [before, after],
    } = outcome;
    let original = Chat::parse(body.as_bytes()).unwrap();
    let result = Chat::parse(sent.as_bytes()).expect("I2: still a chat");
    let exchanges = group(&original.messages).unwrap();
    group(&result.messages).expect("I2: calls and results match");

    // I1
    if !plan.edited() {
        assert_eq!(sent, body, "I1: not compacted, not a byte changed");
    }
    let (first, last) = (
        original.span(original.messages[0].raw),
        original.span(original.messages.last().unwrap().raw),
    );
    assert!(
        sent.starts_with(&body[..first.start]) && sent.ends_with(&body[last.end..]),
        "I1: what stands around the list"
    );
    let kept: Vec<&str> = original
        .messages
        .iter()
        .zip(&plan.edits)
        .filter(|(_, edit)| **edit == Edit::Keep)
        .map(|(message, _)| message.raw)
        .collect();
    let mut sent_messages = result.messages.iter().map(|message| message.raw);
    for message in kept {
        assert!(
            sent_messages.any(|sent| sent == message),
            "I1: kept messages byte for byte and in order"
        );
    }

    // I2
    for (message, edit) in original.messages.iter().zip(&plan.edits) {
        for new in edit.new_messages() {
            let new = baler::core::wire::chat::Message::parse(&new.json).expect("I2: a message");
            match edit {
                Edit::Stand(_) => assert!(
                    matches!(new.role, Role::User | Role::Assistant),
                    "I2: nothing synthetic instructs"
                ),
                _ => assert_eq!(new.role, message.role, "I2: roles are as they were"),
            }
            assert!(new.content.is_some() || new.is_call(), "I2: not empty");
            let valid = |call: &baler::core::wire::chat::Call<'_>| {
                let arguments: String =
                    serde_json::from_str(call.arguments.unwrap_or("\"{}\"")).unwrap();
                serde_json::from_str::<serde_json::Value>(&arguments).is_ok()
            };
            for (call, original) in new.calls.iter().zip(&message.calls) {
                assert!(valid(call) || !valid(original), "I2: arguments stay JSON");
            }
        }
    }

    // I3
    let stays = |at: usize| assert_eq!(plan.edits[at], Edit::Keep, "I3: message {at} of {body}");
    let last_user = original
        .messages
        .iter()
        .rposition(|message| message.role == Role::User);
    let first_user = original
        .messages
        .iter()
        .position(|message| message.role == Role::User)
        .filter(|_| policy.pin.first_user);
    last_user.into_iter().chain(first_user).for_each(stays);
    original
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| message.role.is_instruction())
        .for_each(|(at, _)| stays(at));
    let newest = exchanges
        .iter()
        .rev()
        .find(|exchange| exchange.kind != Kind::Instruction)
        .unwrap();
    for at in newest.first..newest.end {
        let cut = matches!(&plan.edits[at], Edit::Replace(new) if new.json.contains("of this tool result removed") || new.json.contains("of this argument removed"));
        assert!(
            plan.edits[at] == Edit::Keep || cut,
            "I3: the newest exchange stays, its results cut at worst"
        );
    }

    // I4
    assert!(
        after.tokens <= before.tokens,
        "I4: the estimate never rises"
    );
    assert!(plan.after.tokens <= plan.before.tokens);

    // I7
    let can_drop = policy
        .ladder
        .iter()
        .any(|step| step.strategy.name() == "token_budget");
    if can_drop && !plan.fits {
        let edited = |at: usize| plan.edits[at] != Edit::Keep;
        let fixed = exchanges.iter().all(|exchange| {
            let dropped = matches!(plan.edits[exchange.first], Edit::Drop | Edit::Stand(_));
            let head = matches!(exchange.kind, Kind::Instruction | Kind::Other | Kind::User);
            dropped
                || head
                || exchange == newest
                || edited(exchange.first + 1)
                || small(&original, exchange)
        });
        assert!(fixed, "I7: what does not fit has nothing left to give");
    }
}

fn small(chat: &Chat<'_>, exchange: &baler::core::conversation::Exchange) -> bool {
    chat.messages[exchange.first..exchange.end]
        .iter()
        .all(|message| measure_of(message, Encoding::O200K).tokens < 700)
}

/// The messages of a body as one text, without what follows them.
fn list(body: &str) -> String {
    messages_of(body.as_bytes()).join("\u{0}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn summaries_break_none_of_them_and_are_cut_between_exchanges(
        conversation in conversation(), toml in policy(), at in 0.1..0.79_f64, keep in 0..400_u64, salt in any::<u8>()
    ) {
        let step = format!("ladder = [{{ summarize = {{ prepare_at = {at}, keep = {{ tokens = {keep} }}, max_tokens = 64 }} }}, ");
        let policy = policy_of(&toml.replacen("ladder = [", &step, 1));
        let core = Core { summaries: Some(salt), ..Core::default() };
        let mut earlier: Option<String> = None;
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let outcome = core.ask(&body, &policy);
            check_edits(&body, &policy, &outcome);
            if let (Some(earlier), None) = (&earlier, &outcome.plan.compaction) {
                prop_assert!(list(&outcome.sent).starts_with(earlier), "I5: the prefix stays");
            }
            earlier = Some(list(&outcome.sent));
            // What comes back from a client that keeps what was sent is not summarised again.
            let again = Core::default().ask(&outcome.sent, &policy);
            prop_assert!(outcome.plan.compaction.is_none() || !outcome.plan.fits || again.plan.compaction.is_none() || again.counted[1].tokens < again.counted[0].tokens);

            let Some(due) = &outcome.plan.due else { continue };
            let chat = Chat::parse(body.as_bytes()).unwrap();
            let exchanges = group(&chat.messages).unwrap();
            let behind = exchanges.iter().find(|exchange| exchange.first == due.covered);
            prop_assert!(due.covered > 0 && behind.is_some(), "never inside an exchange, never all of it");
            let untouched = |edit: &Edit| !matches!(edit, Edit::Drop | Edit::Stand(_));
            prop_assert!(outcome.plan.edits[due.covered..].iter().all(untouched), "covers all that is gone");
            prop_assert!(due.earlier.as_ref().is_none_or(|(covered, _)| *covered < due.covered));
            prop_assert_eq!(due.edits.len(), due.covered);
        }
    }

    #[test]
    fn i1_to_i5_and_i7_hold_on_every_turn(conversation in conversation(), toml in policy()) {
        let policy = policy_of(&toml);
        let core = Core::default();
        let mut earlier: Option<String> = None;
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let outcome = core.ask(&body, &policy);
            check(&body, &policy, &outcome);
            // I5
            if let (Some(earlier), None) = (&earlier, &outcome.plan.compaction) {
                prop_assert!(list(&outcome.sent).starts_with(earlier), "I5: the prefix stays");
            }
            earlier = Some(list(&outcome.sent));
        }
    }

    #[test]
    fn a_fresh_core_comes_to_the_same_bytes(conversation in conversation(), toml in policy()) {
        let policy = policy_of(&toml);
        let lived = Core::default();
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let sent = lived.ask(&body, &policy).sent;
            prop_assert_eq!(&Core::default().ask(&body, &policy).sent, &sent);
            prop_assert_eq!(&lived.ask(&body, &policy).sent, &sent, "and so does the same request again");
        }
    }

    #[test]
    fn i6_compacting_what_was_compacted_changes_nothing(conversation in conversation(), toml in policy()) {
        let policy = policy_of(&toml);
        let body = conversation.body(conversation.exchanges.len());
        let first = Core::default().ask(&body, &policy);
        let cut = first.plan.compaction.as_ref().is_some_and(|compaction| compaction.reports.iter().any(|report| report.strategy == OVERSIZE && report.acted()));
        // A list that still triggers because of what must stay is the hard case; it is not left out.
        let second = Core::default().ask(&first.sent, &policy);
        // What did not fit may lose more: the second walk meets at its earlier points what the first one came to at its end.
        if cut || !first.plan.fits {
            prop_assert!(second.counted[1].tokens <= first.counted[1].tokens);
        } else {
            prop_assert_eq!(second.sent, first.sent);
        }
    }

    #[test]
    fn the_gate_lets_nothing_through_that_would_trigger(conversation in conversation(), toml in policy()) {
        let policy = policy_of(&toml);
        for length in 1..=conversation.exchanges.len() {
            let body = conversation.body(length);
            if gate::nothing_can_trigger(body.as_bytes(), &policy, &policy.budget(policy.window_for(None)), 1.0) {
                let outcome = Core::default().ask(&body, &policy);
                prop_assert!(!outcome.plan.edited());
                prop_assert!(outcome.counted[0].tokens <= body.len() as u64, "a token has a byte at least");
            }
        }
    }

    #[test]
    fn reported_usage_forces_and_never_breaks(conversation in conversation(), toml in policy(), factor in 1..40_u64) {
        let policy = policy_of(&toml);
        let core = Core::default();
        let mut earlier: Option<String> = None;
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let outcome = core.ask(&body, &policy);
            check_edits(&body, &policy, &outcome);
            if let (Some(earlier), None) = (&earlier, &outcome.plan.compaction) {
                prop_assert!(list(&outcome.sent).starts_with(earlier), "I5 with a ledger that knows usage");
            }
            earlier = Some(list(&outcome.sent));
            core.usage.borrow_mut().insert(outcome.plan.estimate.key, outcome.counted[1].tokens * factor / 10 + 1);
        }
    }

    #[test]
    fn forcing_and_going_on_keeps_the_prefix(conversation in conversation(), toml in policy()) {
        let policy = policy_of(&toml);
        let core = Core::default();
        let points = conversation.request_points();
        let middle = points[points.len() / 2];
        let forced = core.ask_with(&conversation.body(middle), &policy, true);
        check_edits(&conversation.body(middle), &policy, &forced);
        let later = core.ask(&conversation.body(conversation.exchanges.len()), &policy);
        if later.plan.compaction.is_none() {
            prop_assert!(list(&later.sent).starts_with(&list(&forced.sent)));
        }
    }

    #[test]
    fn i8_no_bytes_make_the_core_panic(mut bytes in conversation().prop_map(|c| c.body(c.exchanges.len()).into_bytes()), cuts in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6), toml in policy()) {
        for (at, byte) in &cuts {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let policy = policy_of(&toml);
        let _ = baler::core::wire::chat::peek_model(&bytes);
        let _ = gate::nothing_can_trigger(&bytes, &policy, &policy.budget(4_000), 1.0);
        if let Ok(chat) = Chat::parse(&bytes)
            && group(&chat.messages).is_ok()
        {
            let body = std::str::from_utf8(&bytes).unwrap();
            let outcome = Core::default().ask(body, &policy);
            check(body, &policy, &outcome);
        }
    }

    #[test]
    fn i8_arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Chat::parse(&bytes);
        let _ = baler::core::wire::chat::peek_model(&bytes);
        let _ = baler::core::wire::chat::Usage::find(&bytes);
    }
}
