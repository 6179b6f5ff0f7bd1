//! The invariants over real agent conversations, where they are at hand.

use std::collections::HashMap;
use std::path::PathBuf;

use baler::core::conversation::scale;
use baler::core::models::Prices;
use baler::core::tokens::Encoding;
use baler::core::wire::chat::count_message;

use crate::invariants::Core;
use crate::invariants::check;
use crate::invariants::policy_of;
use crate::support::messages_of;

/// The conversations of a file, each a list of raw messages; `None`, loudly, where the file is not.
pub fn conversations(name: &str) -> Option<Vec<Vec<String>>> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/traces")
        .join(name);
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(
            text.lines()
                .map(|line| messages_of(line.as_bytes()))
                .collect(),
        ),
        Err(_) => {
            eprintln!(
                "SKIPPED: {name} is not here; the invariants are not checked on real conversations"
            );
            None
        }
    }
}

pub fn body(messages: &[String]) -> String {
    format!(
        r#"{{"model":"gpt-4o","messages":[{}]}}"#,
        messages.join(",")
    )
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

/// What a provider charges for a request, in uncached prompt tokens: a tenth for what it has cached of the request before,
/// which it knows in steps of 128 tokens from 1,024 on.
fn price(before: &[(String, u64)], now: &[(String, u64)]) -> f64 {
    let shared: u64 = before
        .iter()
        .zip(now)
        .take_while(|(a, b)| a.0 == b.0)
        .map(|(_, b)| b.1)
        .sum();
    let cached = if shared < 1_024 {
        0
    } else {
        shared / 128 * 128
    };
    let all: u64 = now.iter().map(|(_, tokens)| tokens).sum();
    cached as f64 * 0.1 + (all - cached) as f64
}

fn counted(body: &str, counts: &mut HashMap<String, u64>) -> Vec<(String, u64)> {
    let count = |raw: &String| count_message(raw, Encoding::O200K).unwrap();
    messages_of(body.as_bytes())
        .into_iter()
        .map(|raw| (raw.clone(), *counts.entry(raw).or_insert_with_key(count)))
        .collect()
}

/// Windows that are far too small for most of these conversations.
const WINDOWS: [u64; 5] = [2_048, 4_096, 8_192, 16_384, 32_768];

/// Plays every request of each conversation through a core that sees them all: the invariants on every turn, what a core
/// that saw none makes of every `fresh`-th one, the number of rewrites, and the cost beside that of not compacting.
fn play(name: &str) -> Option<Vec<[f64; 2]>> {
    let conversations = conversations(name)?;
    // A build for debugging takes a part of it.
    let (take, fresh) = if cfg!(debug_assertions) {
        (6, 5)
    } else {
        (usize::MAX, 1)
    };
    let mut sums = Vec::new();
    let mut counts = HashMap::new();
    for window in &WINDOWS {
        let policy = policy_of(&format!("[[policy]]\nwindow = {window}\n"));
        let budget = policy.budget(*window);
        let gap = scale(budget.room, 0.8) - budget.target;
        let (mut requests, mut rewrites, mut unfit, mut most) = (0, 0, 0, 0.0_f64);
        let (mut cost, mut cost_without) = (0.0, 0.0);
        for messages in conversations.iter().take(take) {
            let core = Core::with_prices(Some(Prices {
                cache_read: 0.1,
                cache_write: 1.0,
            }));
            let mut earlier: Option<String> = None;
            let (mut own, mut arrived, mut costs) = (0, 0, [0.0; 2]);
            let (mut sent_before, mut came_before) = (Vec::new(), Vec::new());
            for (turn, length) in request_points(messages).into_iter().enumerate() {
                let body = body(&messages[..length]);
                let outcome = core.ask(&body, &policy);
                check(&body, &policy, &outcome);
                let list = messages_of(outcome.sent.as_bytes()).join("\0");
                if let (Some(earlier), None) = (&earlier, &outcome.plan.compaction) {
                    assert!(list.starts_with(earlier), "I5 in {name}");
                }
                if turn % fresh == fresh - 1 {
                    let ignorant = Core::with_prices(core.prices);
                    assert_eq!(
                        ignorant.ask(&body, &policy).sent,
                        outcome.sent,
                        "a fresh core, {name}, {length} messages"
                    );
                }
                earlier = Some(list);
                own += usize::from(outcome.plan.compaction.is_some());
                unfit += usize::from(!outcome.plan.fits);
                requests += 1;
                arrived = outcome.counted[0].tokens;
                let (sent, came) = (
                    counted(&outcome.sent, &mut counts),
                    counted(&body, &mut counts),
                );
                costs = [
                    costs[0] + price(&sent_before, &sent),
                    costs[1] + price(&came_before, &came),
                ];
                (sent_before, came_before) = (sent, came);
            }
            let allowed = arrived as f64 / gap as f64 + 1.0;
            most = most.max(own as f64 / allowed);
            rewrites += own;
            if arrived <= 128_000 {
                cost += costs[0];
                cost_without += costs[1];
            }
        }
        println!(
            "{name}, window {window}: {requests} requests, {rewrites} rewrites (at worst {most:.2} of what a conversation may have), \
             {unfit} unfit, cost {cost:.0} against {cost_without:.0} without: {:.2}",
            cost / cost_without
        );
        assert!(
            rewrites * 3 < requests || *window < 8_192,
            "{name}: {rewrites} rewrites in {requests} requests"
        );
        assert!(
            most <= 1.0 || *window < 8_192,
            "{name}: a conversation was rewritten too often in a window of {window}"
        );
        sums.push([cost, cost_without]);
    }
    Some(sums)
}

#[test]
fn the_invariants_hold_and_compacting_pays_on_real_conversations() {
    let names = [
        "airline-agent.jsonl",
        "coding-agent.jsonl",
        "coding-session.jsonl",
    ];
    let sums = std::thread::scope(|scope| {
        let playing = names.map(|name| scope.spawn(move || play(name)));
        playing.map(|thread| thread.join().unwrap())
    });
    let all: Vec<Vec<[f64; 2]>> = sums.into_iter().flatten().collect();
    for at in 0..all.first().map_or(0, Vec::len) {
        let [cost, without] =
            [0, 1].map(|which| all.iter().map(|sums| sums[at][which]).sum::<f64>());
        let window = WINDOWS[at];
        println!(
            "all that fit 128k, window {window}: cost {cost:.0} against {without:.0} without compacting: {:.2}",
            cost / without
        );
        assert!(
            cost < without || cfg!(debug_assertions),
            "compacting must pay: {cost} against {without}"
        );
    }
}
