//! The invariants of the design, as properties over generated chats.

mod core;
mod protected;

use std::sync::Arc;

use baler::core::conversation::{Call, Content, Exchange, Kind, Speaker, group};
use baler::core::edit::Edit;
use baler::core::models::ModelFacts;
use baler::core::planner::Deferred;
use baler::core::planner::gate::{self, Glance};
use baler::core::policy::Policy;
use baler::core::strategy::Step;
use baler::core::tokens::{Encoding, FactorStep};
use baler::core::wire::Dialect;
use baler::core::wire::chat::Chat;
use proptest::prelude::*;
use proptest::sample::Index;

pub use self::core::{Core, NONE_READY, Outcome};
use self::protected::{Before, Place, is_synthetic, last_user, pinned};

use crate::generated::conversation;
use crate::generated::policy;
use crate::support::config;
use crate::support::long;
use crate::support::message;
use crate::support::messages_of;

/// The wire format of all chats here.
pub const DIALECT: Dialect = Dialect::ChatCompletions;

/// The policy that `toml` describes.
pub fn policy_of(toml: &str) -> Policy {
    let mut policies = config(toml, "http://127.0.0.1:1/v1").policies;
    Arc::into_inner(policies.remove(0)).unwrap()
}

/// I1 to I4 and I7 for one request and what became of it.
pub fn check(body: &str, policy: &Policy, outcome: &Outcome) {
    check_edits(body, policy, outcome);
    let [before, _] = outcome.counted;
    let budget = outcome.plan.budget;
    if before.tokens <= budget.prompt && policy.trigger.fires(before, &budget).is_none() {
        assert!(
            policy.when.is_some() || outcome.plan.compaction.is_none(),
            "I4: below the trigger nothing new is done"
        );
    }
}

/// Whether there was no room for the transcript that a compaction made.
fn transcript_had_to_go(outcome: &Outcome) -> bool {
    let mut reports = outcome.plan.compaction.iter().flat_map(|c| &c.reports);
    reports.any(|report| report.strategy == "coalesce" && report.acted())
        && !outcome.sent.contains("<conversation_transcript>")
}

/// The same for a request that may have been compacted for another reason than its size.
fn check_edits(body: &str, policy: &Policy, outcome: &Outcome) {
    let original = Chat::parse(body.as_bytes()).unwrap();
    let exchanges = group(&original.messages).unwrap();
    let request = Checked {
        body,
        policy,
        outcome,
        original: &original,
        exchanges: &exchanges,
    };
    request.i1_bytes();
    request.i2_validity();
    request.i3_head_pins_and_newest();
    request.i4_estimate();
    request.i7_fit();
}

/// The most that the message of a step takes which stands for next to nothing, such as a transcript
/// of a few short messages.
const WRITTEN_TOKENS: u64 = 150;

/// A request and what became of it.
struct Checked<'a> {
    body: &'a str,
    policy: &'a Policy,
    outcome: &'a Outcome,
    original: &'a Chat<'a>,
    exchanges: &'a [Exchange],
}

impl Checked<'_> {
    fn i1_bytes(&self) {
        let (plan, sent) = (&self.outcome.plan, &self.outcome.sent);
        if !plan.edited() {
            assert_eq!(sent, self.body, "I1: not compacted, not a byte changed");
        }
        let messages = &self.original.messages;
        let first = self.original.span(messages[0].raw);
        let last = self.original.span(messages.last().unwrap().raw);
        assert!(
            sent.starts_with(&self.body[..first.start]) && sent.ends_with(&self.body[last.end..]),
            "I1: what stands around the list"
        );
        let result = Chat::parse(sent.as_bytes()).expect("I2: still a chat");
        let mut sent = result.messages.iter().map(|message| message.raw);
        for (message, edit) in messages.iter().zip(&plan.edits) {
            assert!(
                *edit != Edit::Keep || sent.any(|raw| raw == message.raw),
                "I1: kept messages byte for byte and in order"
            );
        }
    }

    fn i2_validity(&self) {
        let result = Chat::parse(self.outcome.sent.as_bytes()).expect("I2: still a chat");
        let after = group(&result.messages).expect("I2: calls and results match");
        let unanswered = |exchanges: &[Exchange]| {
            let of_kind = exchanges.iter().filter(|e| e.kind == Kind::Unanswered);
            of_kind.count()
        };
        assert_eq!(
            unanswered(&after),
            unanswered(self.exchanges),
            "I2: every call has its answers, but for those that had none"
        );
        let valid = |call: &Call<'_>| {
            let arguments: String =
                serde_json::from_str(call.arguments.map_or("\"{}\"", |text| text.raw())).unwrap();
            serde_json::from_str::<serde_json::Value>(&arguments).is_ok()
        };
        for (message, edit) in self.original.messages.iter().zip(&self.outcome.plan.edits) {
            for new in edit.new_messages() {
                let new = DIALECT.entry(&new.json).expect("I2: a message");
                match edit {
                    Edit::Stand(_) => assert!(
                        matches!(new.speaker, Speaker::User | Speaker::Assistant),
                        "I2: nothing synthetic instructs"
                    ),
                    _ => assert_eq!(new.speaker, message.speaker, "I2: roles are as they were"),
                }
                let says = new.content != Content::Absent;
                assert!(says || new.is_call(), "I2: not empty");
                for (call, original) in new.calls().zip(message.calls()) {
                    assert!(valid(call) || !valid(original), "I2: arguments stay JSON");
                }
            }
        }
    }

    /// Instructions, the first user message where it is pinned, the last one, pinned exchanges, and
    /// the newest.
    fn i3_head_pins_and_newest(&self) {
        let messages = &self.original.messages;
        let edits = &self.outcome.plan.edits;
        let newest = self.newest();
        let first_user = messages
            .iter()
            .position(|message| message.speaker == Speaker::User)
            .filter(|_| self.policy.pin.first_user);
        let last_user = last_user(self.original);
        for exchange in self.exchanges {
            let at = exchange.first;
            let synthetic = is_synthetic(&messages[at]);
            let head = messages[at].speaker.is_instruction()
                || (first_user == Some(at) && !synthetic)
                || last_user == Some(at)
                || (!synthetic && pinned(self.original, exchange, self.policy));
            for (at, edit) in (exchange.first..exchange.end).zip(&edits[exchange.first..]) {
                let kept = *edit == Edit::Keep || exchange == newest && is_cut(edit);
                assert!(
                    kept || !(head || exchange == newest),
                    "I3: message {at} stays: {}",
                    self.body
                );
            }
        }
    }

    fn newest(&self) -> &Exchange {
        let instruction = |exchange: &&Exchange| exchange.kind == Kind::Instruction;
        let newest = self
            .exchanges
            .iter()
            .rev()
            .find(|exchange| !instruction(exchange));
        newest.unwrap()
    }

    fn i4_estimate(&self) {
        let [before, after] = self.outcome.counted;
        let plan = &self.outcome.plan;
        assert!(
            after.tokens <= before.tokens && plan.after.tokens <= plan.before.tokens,
            "I4: the estimate never rises"
        );
    }

    /// The list as `edits` left it, with the numbers of this request, put into tokens as they are
    /// counted.
    fn before<'b>(&'b self, edits: &'b [Edit]) -> Before<'b> {
        let plan = &self.outcome.plan;
        let counted = self.outcome.counted[1].tokens;
        let to_counted = |tokens: u64| tokens * counted / plan.after.tokens.max(1);
        let (target, room) = (plan.budget.target, plan.budget.prompt);
        let fixed = DIALECT.count_fixed(&self.original.outline, Encoding::O200K);
        let numbers = (
            target.max(to_counted(target)),
            room.max(to_counted(room)),
            fixed,
        );
        Before::of(self.original, self.exchanges, self.policy, edits, numbers)
    }

    /// Where a ladder that may drop everything does not make it fit, nothing is left but what must
    /// not go: head, pins, the tail within `keep`, and what stands for older messages.
    fn i7_fit(&self) {
        // Held against what is left, the tail reaches as far as it did at any time before.
        self.i7_given(&self.outcome.plan.edits);
    }

    fn i7_given(&self, before: &[Edit]) {
        let plan = &self.outcome.plan;
        let drops = |step: &Step| step.strategy.name() == "token_budget";
        if plan.fits || !self.policy.ladder.iter().any(drops) {
            return;
        }
        let places = self.before(before).places();
        if plan.deferred == Some(Deferred::BelowMinGain) {
            return self.gives_little(&places);
        }
        // What a step writes may take as much as the little that it stands for.
        let left = self.left_to_give(&places);
        let fillers = self.least_worth_dropping() * left.len() as u64;
        if self.writes() && left.iter().sum::<u64>() <= WRITTEN_TOKENS + fillers {
            return;
        }
        let least = self.least_worth_dropping();
        for (exchange, place) in self.exchanges.iter().zip(places) {
            let gone = matches!(plan.edits[exchange.first], Edit::Drop | Edit::Stand(_));
            let tokens = (exchange.first..exchange.end).map(|at| {
                DIALECT
                    .measure(self.original.messages[at].raw, Encoding::O200K)
                    .unwrap()
                    .tokens
            });
            assert!(
                gone || place != Place::Span || tokens.sum::<u64>() < least,
                "I7: what does not fit has nothing left to give, but message {} of {}\n{:?}",
                exchange.first,
                self.body,
                plan.edits
            );
            for at in exchange.first..exchange.end {
                // Media in a result cannot be cut.
                let results = self.original.messages[at].results();
                let text: String = results.flat_map(|(_, result)| result.decoded()).collect();
                let large = Encoding::O200K.count(&text) >= 700;
                assert!(
                    !(place == Place::Tail && large) || plan.edits[at] != Edit::Keep,
                    "I7: a large result is not cut"
                );
            }
        }
    }

    /// Whether a step of the ladder writes text of its own.
    fn writes(&self) -> bool {
        let writes = ["coalesce", "digest", "summarize"];
        let mut steps = self.policy.ladder.iter();
        steps.any(|step| writes.contains(&step.strategy.name()))
    }

    /// Tokens that are left of each exchange which may go.
    fn left_to_give(&self, places: &[Place]) -> Vec<u64> {
        let plan = &self.outcome.plan;
        let tokens_of = |(exchange, _): (&Exchange, &Place)| -> u64 {
            let messages = &self.original.messages[exchange.first..exchange.end];
            let measured = messages
                .iter()
                .zip(&plan.edits[exchange.first..exchange.end]);
            measured
                .filter(|(_, edit)| **edit == Edit::Keep)
                .map(|(entry, _)| DIALECT.measure(entry.raw, Encoding::O200K).unwrap().tokens)
                .sum()
        };
        let span = self.exchanges.iter().zip(places);
        span.filter(|(_, place)| **place == Place::Span)
            .map(tokens_of)
            .collect()
    }

    /// What does not fit and could give less than the minimum gain goes as it came: no more is left
    /// that may go than that, the one exchange that a ladder leaves, and what a filler takes. How
    /// much a step gives that writes text of its own is for that step to say.
    fn gives_little(&self, places: &[Place]) {
        let plan = &self.outcome.plan;
        let left = self.left_to_give(places);
        let largest = left.iter().max().copied().unwrap_or(0);
        let fillers = self.least_worth_dropping() * left.len() as u64;
        if self.writes() {
            return;
        }
        let givable: u64 = left.iter().sum();
        assert!(
            givable <= plan.budget.min_gain + largest + fillers,
            "I7: {givable} tokens could go, more than the minimum gain of {}: {}\n{:?}",
            plan.budget.min_gain,
            self.body,
            plan.edits
        );
    }

    /// Tokens of an exchange that is worth dropping. Where roles must alternate, a filler may have
    /// to take its place: a short task before a pinned answer and another user message is replaced
    /// by something longer, and stays.
    fn least_worth_dropping(&self) -> u64 {
        if self.policy.family_for(&ModelFacts::default()).alternates {
            let filler = message("user", "[earlier messages were condensed]");
            DIALECT.measure(&filler, Encoding::O200K).unwrap().tokens + 1
        } else {
            0
        }
    }

    /// I3 for the tail and I7, exactly: given what became of the messages of this list before.
    fn check_given(&self, before: &[Edit]) {
        let plan = &self.outcome.plan;
        self.i7_given(before);
        let Some(compaction) = &plan.compaction else {
            assert_eq!(plan.edits, before, "nothing moves without a compaction");
            return;
        };
        let places = self.before(before).for_reason(compaction.reason).places();
        for (exchange, place) in self.exchanges.iter().zip(places) {
            let (was, is) = (&before[exchange.first..], &plan.edits[exchange.first..]);
            for ((at, was), edit) in (exchange.first..exchange.end).zip(was).zip(is) {
                let kept = edit == was || place == Place::Tail && is_cut(edit);
                assert!(
                    kept || matches!(place, Place::Span | Place::Condensed),
                    "I3: message {at} is {place:?} and stays: {}",
                    self.body
                );
            }
        }
    }
}

/// Checks a turn of a conversation that was seen from its start; `before` is what became of its
/// messages up to then.
pub fn check_turn(body: &str, policy: &Policy, outcome: &Outcome, before: &mut Vec<Edit>) {
    check(body, policy, outcome);
    let original = Chat::parse(body.as_bytes()).unwrap();
    let exchanges = group(&original.messages).unwrap();
    before.resize(original.messages.len(), Edit::Keep);
    let request = Checked {
        body,
        policy,
        outcome,
        original: &original,
        exchanges: &exchanges,
    };
    request.check_given(before);
    before.clone_from(&outcome.plan.edits);
}

/// Whether an edit is the one exception for what alone is too much: a result or an argument that
/// was cut, and says so, or that lost blanks.
fn is_cut(edit: &Edit) -> bool {
    let marks = ["of this tool result removed", "of this argument removed"];
    matches!(edit, Edit::Replace(new) if marks.iter().any(|mark| new.json.contains(mark)))
}

/// The messages of a body as one text, without what follows them.
fn list(body: &str) -> String {
    messages_of(body.as_bytes()).join("\u{0}")
}

/// Cases of each property; more where time is no matter.
fn cases() -> u32 {
    if long() { 4_096 } else { 192 }
}

/// I5: the messages of a body begin with those of the body before it, unless something was
/// compacted.
fn i5_prefix(earlier: &mut Option<String>, outcome: &Outcome) {
    let sent = list(&outcome.sent);
    if let (Some(earlier), None) = (&earlier, &outcome.plan.compaction) {
        assert!(sent.starts_with(earlier.as_str()), "I5: the prefix stays");
    }
    *earlier = Some(sent);
}

/// A summary that is to be made covers whole exchanges, and all that is gone.
fn check_due(body: &str, plan: &baler::core::planner::Plan) {
    let Some(due) = &plan.pending_summary else {
        return;
    };
    let chat = Chat::parse(body.as_bytes()).unwrap();
    let exchanges = group(&chat.messages).unwrap();
    let next = exchanges
        .iter()
        .find(|exchange| exchange.first == due.covered);
    assert!(
        due.covered > 0 && next.is_some(),
        "never inside an exchange, never all of it"
    );
    let untouched = |edit: &Edit| !matches!(edit, Edit::Drop | Edit::Stand(_));
    assert!(
        plan.edits[due.covered..].iter().all(untouched),
        "covers all that is gone"
    );
    let earlier = due.earlier.as_ref();
    assert!(earlier.is_none_or(|(covered, _)| *covered < due.covered));
    assert_eq!(due.edits.len(), due.covered);
}

/// A body in which some bytes are others.
fn mangled() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    let cuts = proptest::collection::vec((any::<Index>(), any::<u8>()), 0..6);
    (conversation(), cuts).prop_map(|(conversation, cuts)| {
        let mut bytes = conversation.body(conversation.exchanges.len()).into_bytes();
        for (at, byte) in cuts {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

/// Where a `summarize` step begins to prepare, what it keeps, and which prefixes have a summary.
fn summarizing() -> impl proptest::strategy::Strategy<Value = (String, u8)> {
    (policy(), 0.1..0.79_f64, 0..400_u64, any::<u8>()).prop_map(|(toml, at, keep, salt)| {
        let options = format!("prepare_at = {at}, keep = {{ tokens = {keep} }}, max_tokens = 64");
        let step = format!("ladder = [{{ summarize = {{ {options} }} }}, ");
        (toml.replacen("ladder = [", &step, 1), salt)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    })]

    #[test]
    fn summaries_break_none_of_them_and_are_cut_between_exchanges(
        conversation in conversation(), (toml, salt) in summarizing()
    ) {
        let policy = policy_of(&toml);
        let core = Core::with_summaries(Some(salt));
        let mut earlier = None;
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let outcome = core.ask(&body, &policy);
            check_edits(&body, &policy, &outcome);
            i5_prefix(&mut earlier, &outcome);
            // What comes back from a client that keeps what was sent is not summarised again.
            let again = Core::default().ask(&outcome.sent, &policy);
            let smaller = again.counted[1].tokens < again.counted[0].tokens;
            let settled = outcome.plan.compaction.is_none() || !outcome.plan.fits;
            prop_assert!(settled || again.plan.compaction.is_none() || smaller);
            check_due(&body, &outcome.plan);
        }
    }

    #[test]
    fn i1_to_i5_and_i7_hold_on_every_turn(conversation in conversation(), toml in policy()) {
        let policy = policy_of(&toml);
        let core = Core::default();
        let (mut earlier, mut before) = (None, Vec::new());
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let outcome = core.ask(&body, &policy);
            check_turn(&body, &policy, &outcome, &mut before);
            i5_prefix(&mut earlier, &outcome);
        }
    }

    #[test]
    fn a_fresh_core_comes_to_the_same_bytes(
        conversation in conversation(), toml in policy(), factor in 1.0..2.0_f64
    ) {
        let policy = policy_of(&toml);
        let step = FactorStep::nearest(factor);
        let fresh = || Core::by_step(step);
        let lived = fresh();
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let sent = lived.ask(&body, &policy).sent;
            prop_assert_eq!(&fresh().ask(&body, &policy).sent, &sent);
            prop_assert_eq!(&lived.ask(&body, &policy).sent, &sent, "asked once more");
        }
    }

    #[test]
    fn i6_compacting_what_was_compacted_changes_nothing(
        conversation in conversation(), toml in policy()
    ) {
        let policy = policy_of(&toml);
        let body = conversation.body(conversation.exchanges.len());
        let first = Core::default().ask(&body, &policy);
        // A list that still triggers because of what must stay is the hard case, and not left out.
        let second = Core::default().ask(&first.sent, &policy);
        prop_assert!(second.counted[1].tokens <= first.counted[1].tokens);
        // Three exemptions, each with its counter-example. What did not fit may lose more: a
        // transcript stays where the request does not fit without it either; sent again, the walk
        // meets it at an earlier point, where the request fits without it, and drops it. And what
        // was weighed and found not worth it is weighed anew: `coalesce` retells from the originals
        // what `token_budget` had dropped, which gains too little; a list that comes back without
        // these originals makes a shorter transcript, which gains enough. And where there is no
        // room for a transcript, the question that the list begins with comes back; sent again,
        // there is room for one of the question alone.
        if first.plan.fits && first.plan.deferred.is_none() && !transcript_had_to_go(&first) {
            prop_assert_eq!(second.sent, first.sent);
        }
    }

    #[test]
    fn the_gate_lets_nothing_through_that_would_trigger(
        conversation in conversation(), toml in policy()
    ) {
        let policy = policy_of(&toml);
        let budget = policy.budget(policy.window_for(&ModelFacts::default()));
        let mut text = None;
        for length in 1..=conversation.exchanges.len() {
            let body = conversation.body(length);
            // What passed before is known to be text.
            let glance = Glance { body: body.as_bytes(), text: text.as_ref() };
            if gate::nothing_can_trigger(DIALECT, glance, &policy, &budget, 1.0) {
                text = DIALECT.outline(body.as_bytes()).unwrap().opening(body.len());
                let outcome = Core::default().ask(&body, &policy);
                prop_assert!(!outcome.plan.edited());
                prop_assert!(outcome.counted[0].tokens <= body.len() as u64, "a byte a token");
            }
        }
    }

    #[test]
    fn reported_usage_forces_and_never_breaks(
        conversation in conversation(), toml in policy(), factor in 1..40_u64
    ) {
        let policy = policy_of(&toml);
        let core = Core::default();
        let mut earlier = None;
        for length in conversation.request_points() {
            let body = conversation.body(length);
            let outcome = core.ask(&body, &policy);
            check_edits(&body, &policy, &outcome);
            i5_prefix(&mut earlier, &outcome);
            let reported = outcome.counted[1].tokens * factor / 10 + 1;
            core.usage.borrow_mut().insert(outcome.plan.estimate.key, reported);
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
    fn i8_no_bytes_make_the_core_panic(bytes in mangled(), toml in policy()) {
        let policy = policy_of(&toml);
        let _ = DIALECT.peek_model(&bytes, None);
        let (glance, budget) = (Glance::of(&bytes), policy.budget(4_000));
        let _ = gate::nothing_can_trigger(DIALECT, glance, &policy, &budget, 1.0);
        if let Ok(chat) = Chat::parse(&bytes)
            && group(&chat.messages).is_ok()
        {
            let body = std::str::from_utf8(&bytes).unwrap();
            let outcome = Core::default().ask(body, &policy);
            check(body, &policy, &outcome);
        }
    }

    #[test]
    fn i8_a_body_that_goes_on_from_an_opening_is_read_as_if_it_were_new(
        conversation in conversation(), within in any::<Index>(), bytes in mangled()
    ) {
        let body = conversation.body(conversation.exchanges.len());
        let outline = DIALECT.outline(body.as_bytes()).unwrap();
        if let Some(opening) = outline.opening(within.index(body.len())) {
            let (begun, own) = body.as_bytes().split_at(opening.end());
            // As it goes on, and as it does not: with the end of another body, valid or not.
            let at = bytes.len() * 2 / 3;
            for rest in [own, &bytes, &bytes[at..], &bytes[..at], b"]}"] {
                let goes_on = [begun, rest].concat();
                let by_opening = DIALECT.resume(&goes_on, Some(&opening));
                let afresh = DIALECT.outline(&goes_on);
                prop_assert_eq!(format!("{by_opening:?}"), format!("{afresh:?}"));
                let model = DIALECT.peek_model(&goes_on, Some(&opening));
                prop_assert_eq!(model, DIALECT.peek_model(&goes_on, None));
            }
        }
    }

    #[test]
    fn i8_arbitrary_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..400)
    ) {
        let _ = Chat::parse(&bytes);
        let _ = DIALECT.peek_model(&bytes, None);
        let _ = DIALECT.usage(&bytes);
    }
}
