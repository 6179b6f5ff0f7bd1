//! `baler check` plays policies: each over synthetic conversations, with warnings, in figures,
//! about what its operator would not expect. Nothing is sent anywhere.

mod conversation;
mod keys;
mod run;

use std::ops::RangeInclusive;

use crate::config::{Config, DEFAULT_SUMMARIZER};
use crate::core::budget::Budget;
use crate::core::models::ModelFacts;
use crate::core::policy::{Mode, Policy};
use crate::core::strategy::{Step, Strategy};
use conversation::Script;
use run::Played;

/// Requests of a conversation that is played.
const REQUESTS: RangeInclusive<u64> = 120..=600;
/// A conversation grows to so many times the size at which its policy acts.
const GROWTH: u64 = 3;
/// Compactions of one request in so many are too frequent.
const TOO_FREQUENT: usize = 4;

/// What an operator would not expect of these policies, a sentence each.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = keys::of_config(config);
    for (at, policy) in config.policies.iter().enumerate() {
        let before = config.policies.iter().take(at);
        let mut all = keys::of_policy(policy);
        all.extend(
            before
                .filter(|earlier| earlier.delivery.matcher.is_for_everything())
                .filter(|_| !policy.delivery.selectable)
                .map(|earlier| {
                    let name = &earlier.name;
                    format!("no request comes to it: {name} stands before it and matches all")
                })
                .take(1),
        );
        if policy.delivery.mode != Mode::Off {
            all.extend(of_play(policy));
        }
        let named = |text: String| format!("policy {}: {text}", policy.name);
        warnings.extend(all.into_iter().map(named));
    }
    warnings.extend(of_summarizers(config));
    warnings
}

/// Summarisers that nobody asks, and policies that ask another than one may think.
fn of_summarizers(config: &Config) -> Vec<String> {
    let summarizers = &config.summarizers;
    let asking: Vec<&Policy> = config
        .policies
        .iter()
        .map(|policy| -> &Policy { policy })
        .filter(|policy| policy.summarize().is_some())
        .collect();
    let mut found = Vec::new();
    for summarizer in summarizers.all().filter(|summarizer| summarizer.is_given) {
        let name = &summarizer.name;
        if asking.is_empty() {
            found.push("[summarizer]: no policy has the step summarize".to_owned());
            break;
        }
        if !asking
            .iter()
            .any(|policy| summarizers.of(policy).name == *name)
        {
            found.push(format!(
                "summarizer {name}: no policy with the step summarize asks it"
            ));
        }
    }
    if !summarizers.default.is_given && !summarizers.others.is_empty() {
        let unnamed = asking
            .iter()
            .filter(|policy| policy.delivery.summarizer.is_none());
        found.extend(unnamed.map(|policy| {
            format!(
                "policy {}: summarize asks the upstream itself, since the policy names no \
                 summarizer and none is called {DEFAULT_SUMMARIZER}",
                policy.name
            )
        }));
    }
    found
}

/// Surprises of a policy that is played.
fn of_play(policy: &Policy) -> Vec<String> {
    let window = policy.window_for(&ModelFacts::default());
    let budget = policy.budget(window);
    let (requests, tokens) = lengths(policy, budget);
    let played: Vec<Played> = Script::ALL
        .iter()
        .map(|script| Played::new(policy, &script.messages(requests, tokens), window))
        .collect();
    let mut found = Vec::new();
    let compactions: usize = played.iter().map(Played::compactions).sum();
    let most = requests * tokens;
    if compactions == 0 {
        found.push(format!(
            "never acts in a chat, an agent's run and a chat with images of up to {most} tokens \
             each (window {window})"
        ));
    }
    for (script, played) in Script::ALL.iter().zip(&played) {
        if played.unfit > 0 {
            found.push(format!(
                "{} of {} requests in {} do not fit the window of {window}, whatever the ladder \
                 does",
                played.unfit,
                played.requests,
                script.title()
            ));
        }
        let (times, after) = (played.compactions(), played.requests_after_first());
        if times > 1 && times * TOO_FREQUENT > after {
            found.push(format!(
                "compacts {} of {after} requests in {}: each time the upstream reads anew what it \
                 had cached; a lower target, a larger min_gain or a stronger ladder help",
                times,
                script.title()
            ));
        }
    }
    if compactions > 0 {
        found.extend(of_summaries(policy, &played, compactions));
        found.extend(of_steps(policy, &played));
    }
    found
}

/// Requests to play, and tokens by which each is longer than the one before.
fn lengths(policy: &Policy, budget: Budget) -> (u64, u64) {
    let counts = [
        policy.trigger.messages,
        policy.trigger.turns.map(|turns| turns * 2),
        policy.trigger.tool_uses.map(|calls| calls * 2),
    ];
    // A request adds two messages.
    let by_count = counts.into_iter().flatten().max().unwrap_or(0) / 2;
    let requests = (by_count * GROWTH).clamp(*REQUESTS.start(), *REQUESTS.end());
    let high = policy.trigger.high(budget.window, budget.prompt);
    let high = high.unwrap_or(budget.prompt);
    (requests, (high * GROWTH / requests).max(16))
}

fn of_summaries(policy: &Policy, played: &[Played], compactions: usize) -> Option<String> {
    policy.summarize()?;
    let asked: usize = played.iter().map(|played| played.summaries).sum();
    let used = played.iter().any(|played| played.acted("summarize"));
    (!used).then(|| {
        format!(
            "summarize: of {asked} summaries none was ready at any of {compactions} compactions"
        )
    })
}

/// Steps that no conversation came to. The last ones of a ladder that drop messages are a safety
/// net: it is well that nothing comes to them.
fn of_steps(policy: &Policy, played: &[Played]) -> Vec<String> {
    let is_net = |step: &Step| {
        matches!(
            step.strategy,
            Strategy::TokenBudget(_) | Strategy::SlidingWindow(_)
        )
    };
    let net = policy.ladder.iter().rev().take_while(|step| is_net(step));
    let all = policy.ladder.len() - net.count();
    let ladder = policy.ladder.iter().take(all).enumerate();
    let missed = ladder.filter(|(at, _)| !played.iter().any(|played| played.reached(*at)));
    missed
        .map(|(at, step)| {
            format!(
                "step {}, {}, is never reached: the steps before it always come to the target",
                at + 1,
                step.strategy.name()
            )
        })
        .collect()
}
