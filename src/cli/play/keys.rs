//! Keys that do not have the effect that their operator would expect: they are no mistakes, and no
//! conversation has to be played to find them.

use crate::config::raw::DEFAULT_KEEP;
use crate::config::{Config, DEFAULT_RESERVE, StoreUrl};
use crate::core::policy::{Policy, Window};
use crate::core::strategy::Strategy;

/// Keys outside of policies.
pub(super) fn of_config(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    if config.chat_suffixes.is_empty() {
        found.push(
            "route.chat_suffixes is empty: no request is inspected, and nothing is compacted"
                .to_owned(),
        );
    }
    // A configuration may be checked on another machine than the one that it is for.
    if let StoreUrl::Redb(file) = &config.ledger.store
        && let Some(folder) = file.parent()
        && !folder.is_dir()
    {
        found.push(format!(
            "ledger.url: there is no directory {}, and Baler makes none: serve would not start \
             here",
            folder.display()
        ));
    }
    found
}

/// Amounts of tokens that a window is too small for.
fn of_window(policy: &Policy) -> Vec<String> {
    let Window::Tokens(window) = policy.window else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let most = window / 4;
    if policy.reserve > most && policy.reserve != DEFAULT_RESERVE {
        found.push(format!(
            "reserve is {} tokens, and no more than a quarter of the window counts: {most}",
            policy.reserve
        ));
    }
    let budget = policy.budget(window);
    if let Some(tokens) = policy
        .trigger
        .tokens
        .filter(|tokens| *tokens > budget.prompt)
    {
        found.push(format!(
            "trigger.tokens is {tokens}, and the window leaves {} for the prompt: above that the \
             policy acts anyway",
            budget.prompt
        ));
    }
    let (keep, most) = (policy.keep.tokens, budget.target / 3);
    if keep > most && keep != DEFAULT_KEEP.tokens {
        found.push(format!(
            "keep.tokens is {keep}, and no more than a third of what the head leaves of the target \
             counts: {most} at most"
        ));
    }
    found
}

/// Options of a policy without the effect that one would expect.
pub(super) fn of_policy(policy: &Policy) -> Vec<String> {
    let mut found = of_window(policy);
    if let (Some(name), None) = (&policy.delivery.summarizer, policy.summarize()) {
        found.push(format!(
            "summarizer = \"{name}\" has no effect: the ladder has no step summarize"
        ));
    }
    for step in &policy.ladder {
        let name = step.strategy.name();
        if let Strategy::Minify(minify) = &step.strategy
            && !minify.json
            && !minify.text
        {
            found.push("minify does nothing: json and text are both off".to_owned());
        }
        if let Strategy::TrimResults(trim) = &step.strategy
            && trim.newest
            && step.scope.older_than > 0
        {
            found.push(
                "trim_results.newest has no effect: older_than leaves the newest alone".to_owned(),
            );
        }
        for tool in step.scope.tools_also_excluded() {
            found.push(format!(
                "{name} never acts on \"{tool}\", which stands in tools and in exclude_tools"
            ));
        }
    }
    found
}
