//! From the steps of a ladder as written to the steps that run.

use crate::config::raw;
use crate::config::raw::Step as Written;
use crate::config::resolve::Check;
use crate::core::policy::Webhook;
use crate::core::strategy::{
    ClearResults, Coalesce, Dedupe, Minify, Outline, Pick, Sample, Scope, SlidingWindow, Step,
    Strategy, Strip, TokenBudget, TrimResults, Truncate,
};

/// Messages beside those of a window that stay as a rule: instructions, the task, the last user message.
const BESIDE_A_WINDOW: u64 = 3;

impl Check<'_> {
    /// Resolves a policy's ladder; its webhooks are put behind `webhooks`.
    pub(super) fn ladder(
        &mut self,
        key: &str,
        policy: &raw::Policy,
        webhooks: &mut Vec<Webhook>,
    ) -> Vec<Step> {
        let mut ladder = Vec::with_capacity(policy.ladder.len());
        let summarizes = |step: &&Written| matches!(step, Written::Summarize(_));
        if policy.ladder.iter().filter(summarizes).count() > 1 {
            self.fail(
                key,
                "summarize stands in it twice; it prepares one summary of a conversation",
            );
        }
        for (at, written) in policy.ladder.iter().enumerate() {
            let key = format!("{key}.{at}.{}", written.name());
            let scope = written.scope();
            let scope = Scope {
                tools: self.globs(&format!("{key}.tools"), scope.tools),
                exclude_tools: self.globs(&format!("{key}.exclude_tools"), scope.exclude_tools),
                older_than: usize::try_from(scope.older_than)
                    .unwrap_or(usize::MAX / 2)
                    .min(usize::MAX / 2),
            };
            if let Some(strategy) = self.strategy(&key, written, policy, webhooks) {
                let options = serde_json::to_string(written).unwrap_or_default();
                ladder.push(Step {
                    strategy,
                    scope,
                    options,
                });
            }
        }
        ladder
    }

    fn strategy(
        &mut self,
        key: &str,
        written: &Written,
        policy: &raw::Policy,
        webhooks: &mut Vec<Webhook>,
    ) -> Option<Strategy> {
        Some(match written {
            Written::Dedupe(raw) => Strategy::Dedupe(Dedupe { blocks: raw.blocks }),
            Written::Minify(raw) => Strategy::Minify(Minify {
                json: raw.json,
                text: raw.text,
            }),
            Written::TrimResults(raw) => Strategy::TrimResults(self.trim_results(key, raw)),
            Written::ClearResults(raw) => Strategy::ClearResults(ClearResults {
                keep: raw.keep,
                keep_tokens: raw.keep_tokens,
                clear_inputs: raw.clear_inputs,
                clear_at_least: raw.clear_at_least,
            }),
            Written::Strip(raw) => Strategy::Strip(Strip {
                images: raw.images,
                audio: raw.audio,
                files: raw.files,
                reasoning: raw.reasoning,
            }),
            Written::CollapseErrors(_) => Strategy::CollapseErrors,
            Written::Coalesce(raw) => Strategy::Coalesce(Coalesce {
                tool_call_limit: raw.tool_call_limit,
                output_limit: raw.output_limit,
                items: raw.items,
                argument_chars: raw.argument_chars,
                chars: raw.chars,
            }),
            Written::Digest(_) => Strategy::Digest,
            Written::Summarize(raw) => Strategy::Summarize(Box::new(self.summarize(key, raw)?)),
            Written::SlidingWindow(raw) => {
                Strategy::SlidingWindow(self.sliding_window(key, raw, policy)?)
            }
            Written::TokenBudget(raw) => {
                if !(raw.threshold > 0.0 && raw.threshold.is_finite()) {
                    self.fail(
                        &format!("{key}.threshold"),
                        format_args!("{} is not above 0", raw.threshold),
                    );
                }
                let budget = match raw.budget {
                    Some(budget) => Some(self.amount(&format!("{key}.budget"), budget)?),
                    None => None,
                };
                Strategy::TokenBudget(TokenBudget {
                    budget,
                    threshold: raw.threshold,
                })
            }
            Written::Webhook(raw) => {
                let url = self.webhook_url(&format!("{key}.url"), &raw.url);
                let timeout = self.duration(&format!("{key}.timeout"), &raw.timeout);
                let max_bytes = self.size(&format!("{key}.max_bytes"), raw.max_bytes, 64);
                webhooks.push(Webhook {
                    url: url?,
                    timeout: timeout?,
                    max_bytes,
                });
                Strategy::Webhook(webhooks.len() - 1)
            }
        })
    }

    fn trim_results(&mut self, key: &str, raw: &raw::TrimResults) -> TrimResults {
        let truncate = raw.truncate;
        if truncate.head.saturating_add(truncate.tail) > truncate.size {
            self.fail(
                &format!("{key}.truncate"),
                "head and tail together are more than size",
            );
        }
        for (name, value) in [
            ("outline.items", raw.outline.map(|outline| outline.items)),
            ("outline.depth", raw.outline.map(|outline| outline.depth)),
            ("outline.chars", raw.outline.map(|outline| outline.chars)),
            ("sample.items", raw.sample.map(|sample| sample.items)),
        ] {
            if value == Some(0) {
                self.fail(&format!("{key}.{name}"), "0 would show nothing; at least 1");
            }
        }
        TrimResults {
            skip_small: raw.skip_small,
            truncate: Truncate {
                tokens: truncate.unit == raw::Unit::Tokens,
                size: truncate.size,
                head: truncate.head,
                tail: truncate.tail,
            },
            // No JSON is nested deeper than the parser goes.
            outline: raw.outline.map(|outline| Outline {
                items: outline.items,
                depth: outline.depth.min(128),
                chars: outline.chars,
            }),
            sample: raw.sample.map(|sample| Sample {
                items: sample.items,
                pick: match sample.pick {
                    raw::Pick::First => Pick::First,
                    raw::Pick::Last => Pick::Last,
                    raw::Pick::Spread => Pick::Spread,
                },
            }),
        }
    }

    fn sliding_window(
        &mut self,
        key: &str,
        raw: &raw::SlidingWindow,
        policy: &raw::Policy,
    ) -> Option<SlidingWindow> {
        let trigger = &policy.trigger;
        let mut too_close = |name: &str, trigger: Option<u64>, window: u64, beside: u64| {
            if let Some(trigger) =
                trigger.filter(|trigger| *trigger <= window.saturating_add(beside))
            {
                let what = format!(
                    "the trigger at {trigger} {name} leaves no room above a window of {window} and what stays beside it: \
                     every request would be compacted again"
                );
                self.fail(key, what);
            }
        };
        match (raw.turns, raw.exchanges, raw.messages) {
            (Some(0), ..) | (_, Some(0), _) | (.., Some(0)) => {
                self.fail(key, "0 would keep nothing; at least 1");
                None
            }
            (Some(turns), None, None) => {
                too_close("turns", trigger.turns, turns, 1);
                Some(SlidingWindow::Turns(turns))
            }
            (None, Some(exchanges), None) => {
                too_close("messages", trigger.messages, exchanges, BESIDE_A_WINDOW);
                Some(SlidingWindow::Exchanges(exchanges))
            }
            (None, None, messages) => {
                let messages = messages.unwrap_or(20);
                too_close("messages", trigger.messages, messages, BESIDE_A_WINDOW);
                Some(SlidingWindow::Messages(messages))
            }
            _ => {
                self.fail(key, "takes one of turns, exchanges and messages");
                None
            }
        }
    }

    /// An address that can be posted to. It is not shown in errors: it may hold a secret.
    fn webhook_url(&mut self, key: &str, text: &str) -> Option<String> {
        let uri = text.parse::<hyper::Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
        });
        if uri.is_none() {
            self.fail(
                key,
                "not an http or https URL such as http://127.0.0.1:9000/compact",
            );
        }
        uri.map(|_| text.to_owned())
    }
}
