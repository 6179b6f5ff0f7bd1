//! `policy.ladder`: the options of each step check themselves; here is what concerns several steps
//! or the network.

use crate::config::raw;
use crate::config::resolve::check::{Check, has_credentials, http_uri};
use crate::config::resolve::policy::trigger;
use crate::core::strategy::{OptionCheck, Strategy, TriggerLimits};

impl Check<'_> {
    pub(super) fn ladder(&mut self, key: &str, policy: &raw::Policy) {
        let summaries = policy
            .ladder
            .iter()
            .filter(|step| matches!(step.strategy, Strategy::Summarize(_)));
        if summaries.count() > 1 {
            self.fail(
                key,
                "contains summarize twice; only one summary of a conversation is prepared",
            );
        }
        let trigger = trigger(policy);
        let trigger = TriggerLimits {
            ratio: trigger.ratio,
            messages: trigger.messages,
            turns: trigger.turns,
        };
        for (at, step) in policy.ladder.iter().enumerate() {
            let key = format!("{key}.{at}.{}", step.strategy.name());
            let mut report = |option: &str, problem: String| {
                if option.is_empty() {
                    self.fail(&key, problem);
                } else {
                    self.fail(&format!("{key}.{option}"), problem);
                }
            };
            step.strategy
                .check(&mut OptionCheck::new(trigger, &mut report));
            if let Strategy::Webhook(webhook) = &step.strategy
                && http_uri(&webhook.url).is_none_or(|url| has_credentials(&url))
            {
                // The text is not shown: it may hold a secret.
                report(
                    "url",
                    "not an http or https URL without credentials, such as \
                     http://127.0.0.1:9000/compact"
                        .to_owned(),
                );
            }
        }
    }
}
