//! What a conversation costs with Baler and without: the invariants on every turn of it, how often
//! it is rewritten, and whether compacting pays. First on conversations made from seeds;
//! [`crate::traces`] plays recorded ones.

use std::collections::HashMap;

use baler::core::conversation::scale;
use baler::core::models::Prices;
use baler::core::policy::price;
use baler::core::tokens::Encoding;
use serde_json::json;

use crate::invariants::{Core, DIALECT, check_turn, policy_of};
use crate::realistic;
use crate::support::{message, messages_of};

/// Prices of a provider that discounts cached tokens, as most do.
const PRICES: Prices = Prices {
    cache_read: 0.1,
    cache_write: 1.0,
};

/// Windows that are far too small for most conversations.
pub const WINDOWS: [u64; 5] = [2_048, 4_096, 8_192, 16_384, 32_768];

pub fn body(messages: &[String]) -> String {
    let messages = messages.join(",");
    format!(r#"{{"model":"gpt-4o","messages":[{messages}]}}"#)
}

/// Lengths of a conversation at which a request was made.
pub fn request_points(messages: &[String]) -> Vec<usize> {
    let asks = |at: &usize| {
        messages[*at].contains(r#""role": "assistant""#)
            || messages[*at].contains(r#""role":"assistant""#)
    };
    (1..messages.len())
        .filter(asks)
        .chain([messages.len()])
        .collect()
}

/// Counts messages, each once.
#[derive(Default)]
pub struct Counts(HashMap<String, u64>);

impl Counts {
    fn of(&mut self, body: &str) -> Vec<(String, u64)> {
        let count = |raw: &String| DIALECT.measure(raw, Encoding::O200K).unwrap().tokens;
        messages_of(body.as_bytes())
            .into_iter()
            .map(|raw| (raw.clone(), *self.0.entry(raw).or_insert_with_key(count)))
            .collect()
    }
}

/// The bill of requests: with Baler, and of the same requests as they came.
#[derive(Default)]
struct Bill {
    with: f64,
    without: f64,
    before: [Vec<(String, u64)>; 2],
}

impl Bill {
    fn add(&mut self, sent: Vec<(String, u64)>, came: Vec<(String, u64)>) {
        self.with += price(&self.before[0], &sent, PRICES);
        self.without += price(&self.before[1], &came, PRICES);
        self.before = [sent, came];
    }
}

/// What became of a conversation, or of several.
#[derive(Default, Clone, Copy)]
pub struct Played {
    pub requests: usize,
    pub rewrites: usize,
    pub unfit: usize,
    /// Rewrites as a share of those that the marks allow, at worst.
    pub share: f64,
    /// The bill, in uncached prompt tokens, of conversations that a model with a window of 128k
    /// could have seen whole.
    pub with: f64,
    pub without: f64,
}

impl std::ops::AddAssign for Played {
    fn add_assign(&mut self, other: Played) {
        self.requests += other.requests;
        self.rewrites += other.rewrites;
        self.unfit += other.unfit;
        self.share = self.share.max(other.share);
        self.with += other.with;
        self.without += other.without;
    }
}

impl Played {
    /// Prints the figures, and fails where a conversation was rewritten too often.
    pub fn report(&self, name: &str, window: u64) {
        println!(
            "{name}, window {window}: {} requests, {} rewrites (at worst {:.2} of what the marks \
            allow), {} unfit",
            self.requests, self.rewrites, self.share, self.unfit
        );
        self.print_bill(name, window);
        assert!(
            self.rewrites * 3 < self.requests || window < 8_192,
            "{name}: {} rewrites in {} requests",
            self.rewrites,
            self.requests
        );
        assert!(
            self.share <= 1.0 || window < 8_192,
            "{name}: a conversation was rewritten too often in a window of {window}"
        );
    }

    /// Fails where compacting costs more than it saves.
    #[track_caller]
    pub fn must_pay(&self, name: &str, window: u64) {
        self.print_bill(name, window);
        assert!(
            self.with < self.without,
            "compacting must pay: {name} in a window of {window}"
        );
    }

    fn print_bill(&self, name: &str, window: u64) {
        let (with, without) = (self.with, self.without);
        let ratio = with / without;
        println!("{name}, window {window}: cost {with:.0} against {without:.0}: {ratio:.2}");
    }
}

/// Plays every request of a conversation through a core that sees them all: the invariants on every
/// turn, and what a core that saw none makes of every `fresh`-th one.
pub fn play(messages: &[String], window: u64, fresh: usize, counts: &mut Counts) -> Played {
    let policy = policy_of(&format!("[[policy]]\nwindow = {window}\n"));
    let budget = policy.budget(window);
    let gap = scale(budget.prompt, 0.8) - budget.target;
    let core = Core::with_prices(Some(PRICES));
    let (mut played, mut bill) = (Played::default(), Bill::default());
    let (mut earlier, mut before, mut arrived) = (None::<String>, Vec::new(), 0);
    for (turn, length) in request_points(messages).into_iter().enumerate() {
        let body = body(&messages[..length]);
        let outcome = core.ask(&body, &policy);
        check_turn(&body, &policy, &outcome, &mut before);
        let list = messages_of(outcome.sent.as_bytes()).join("\0");
        if let (Some(earlier), None) = (&earlier, &outcome.plan.compaction) {
            assert!(list.starts_with(earlier), "I5");
        }
        earlier = Some(list);
        if turn % fresh == fresh - 1 {
            let ignorant = Core::with_prices(core.prices).ask(&body, &policy);
            assert_eq!(
                ignorant.sent, outcome.sent,
                "a fresh core, {length} messages"
            );
        }
        played.requests += 1;
        played.rewrites += usize::from(outcome.plan.compaction.is_some());
        played.unfit += usize::from(!outcome.plan.fits);
        arrived = outcome.counted[0].tokens;
        bill.add(counts.of(&outcome.sent), counts.of(&body));
    }
    played.share = played.rewrites as f64 / (arrived as f64 / gap as f64 + 1.0);
    if arrived <= 128_000 {
        (played.with, played.without) = (bill.with, bill.without);
    }
    played
}

/// On purpose the same in every profile: an assertion that a build leaves out is none.
#[test]
fn compacting_pays_on_conversations_made_from_seeds() {
    let all = realistic::all();
    let mut counts = Counts::default();
    for window in WINDOWS {
        let mut sum = Played::default();
        for made in &all {
            let played = play(&made.messages, window, 8, &mut counts);
            played.report(&made.name, window);
            sum += played;
        }
        assert!(sum.rewrites > 3, "something was compacted in {window}");
        sum.must_pay("all of them", window);
    }
}

/// A long message of the user's that stays in its place leaves each digest a small room: at every
/// turn, a replica that saw nothing decides as one that saw all.
#[test]
fn replicas_agree_where_a_long_message_leaves_digests_little_room() {
    let step = |at: usize| {
        let call = json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": format!("c{at}"), "type": "function",
            "function": {"name": "look", "arguments": format!("{{\"page\":{at}}}")},
        }]});
        let text: String = (0..12)
            .map(|n| format!("row {n} of page {at} is {}\n", at * n))
            .collect();
        let result = json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": text});
        [call.to_string(), result.to_string()]
    };
    let mut counts = Counts::default();
    for words in [1_000, 1_600, 2_200, 2_800] {
        let mut messages = vec![message("system", "You look at pages.")];
        messages.push(message("user", "Look at the first pages."));
        messages.extend((0..12).flat_map(step));
        messages.push(message("user", &"and go on ".repeat(words / 3)));
        messages.extend((12..60).flat_map(step));
        let played = play(&messages, 8_192, 1, &mut counts);
        assert!(played.rewrites > 1, "{words}: {}", played.rewrites);
    }
}

#[test]
fn a_bill_that_grows_is_noticed() {
    let played = Played {
        with: 2.0,
        without: 1.0,
        ..Played::default()
    };
    let noticed = std::panic::catch_unwind(|| played.must_pay("dearer", 4_096));
    assert!(noticed.is_err());
}
