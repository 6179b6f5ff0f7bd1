//! `[[policy]]`.

use std::sync::Arc;

use std::collections::BTreeMap;

use globset::{Glob, GlobSet};

use crate::config::raw;
use crate::config::resolve::check::Check;
use crate::core::conversation::Fingerprint;
use crate::core::models::Prices;
use crate::core::policy::{Condition, Delivery, Matcher, Policy, Trigger, Window};

impl Check<'_> {
    /// All policies, and a last one for all requests where none of them is.
    pub(super) fn policies(
        &mut self,
        written: &[raw::Policy],
        summarizers: &raw::Summarizers,
    ) -> Vec<Arc<Policy>> {
        let mut policies = Vec::with_capacity(written.len() + 1);
        for (at, policy) in written.iter().enumerate() {
            if let Some(name) = &policy.summarizer {
                self.summarizer_name(&format!("policy.{at}.summarizer"), name, summarizers);
            }
            policies.extend(self.policy(&format!("policy.{at}"), policy).map(Arc::new));
            let mut earlier = written.iter().take(at);
            if earlier.any(|earlier| earlier.name == policy.name) {
                let unnamed = policy.name == raw::Policy::default().name;
                let way_out = if unnamed {
                    ", as of every policy without one: give it a name of its own"
                } else {
                    ""
                };
                self.fail(
                    &format!("policy.{at}.name"),
                    format_args!(
                        "\"{}\" is the name of an earlier policy{way_out}",
                        policy.name
                    ),
                );
            }
        }
        if !written.iter().any(is_for_everything) {
            let mut last = raw::Policy::default();
            if written.iter().any(|policy| policy.name == last.name) {
                last.name = "built-in".to_owned();
            }
            policies.extend(self.policy("policy", &last).map(Arc::new));
        }
        policies
    }

    fn policy(&mut self, key: &str, raw: &raw::Policy) -> Option<Policy> {
        let problems = self.problems();
        self.name(&format!("{key}.name"), &raw.name);
        self.window(key, raw);
        self.marks(key, raw);
        self.idle_and_prices(key, raw);
        self.ladder(&format!("{key}.ladder"), raw);
        let when = raw.trigger.as_ref().and_then(|given| given.when.as_deref());
        let when = self.condition(&format!("{key}.trigger.when"), when);
        let matcher = self.matcher(key, raw);
        (self.problems() == problems).then(|| Policy {
            name: raw.name.clone(),
            identity: identity(raw),
            window: raw.window,
            default_window: raw.default_window,
            calibration_factor: raw.calibration_factor.unwrap_or(1.0),
            reserve: raw.reserve,
            trigger: trigger(raw),
            when,
            idle: raw.idle_trigger,
            break_even: raw.break_even,
            prices: raw.prices,
            roles: raw.roles,
            target: raw.target,
            min_gain: raw.min_gain,
            keep: raw.keep.unwrap_or(raw::DEFAULT_KEEP),
            least_keep: raw.keep.unwrap_or_default(),
            pin: raw.pin.clone(),
            failures: raw.failures.clone(),
            ladder: raw.ladder.clone(),
            delivery: delivery(raw, matcher),
        })
    }

    pub(super) fn name(&mut self, key: &str, name: &str) {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            self.fail(
                key,
                format_args!("\"{name}\" is not made of lower-case letters, digits, - and _"),
            );
        }
    }

    fn window(&mut self, key: &str, raw: &raw::Policy) {
        if let Window::Tokens(tokens) = raw.window {
            self.at_least(&format!("{key}.window"), tokens, 256);
        }
        self.at_least(&format!("{key}.default_window"), raw.default_window, 256);
        if let Some(factor) = raw.calibration_factor {
            self.factor(&format!("{key}.calibration_factor"), factor);
        }
    }

    /// High and low mark, and what lies between.
    fn marks(&mut self, key: &str, raw: &raw::Policy) {
        let trigger = trigger(raw);
        if let Some(ratio) = trigger.ratio {
            self.share(&format!("{key}.trigger.ratio"), ratio);
        }
        let counts = [
            ("tokens", trigger.tokens),
            ("messages", trigger.messages),
            ("turns", trigger.turns),
            ("tool_uses", trigger.tool_uses),
        ];
        for (name, limit) in counts {
            if let Some(limit) = limit {
                self.at_least(&format!("{key}.trigger.{name}"), limit, 1);
            }
        }
        let window = match raw.window {
            Window::Tokens(tokens) => tokens,
            Window::Auto => raw.default_window,
        };
        let prompt = window.saturating_sub(raw.reserve.min(window / 4));
        let Some(high) = trigger.high(window, prompt) else {
            return;
        };
        let low = raw.target.map(|target| target.of(prompt));
        if let Some(low) = low.filter(|low| *low >= high) {
            self.fail(
                &format!("{key}.target"),
                format_args!(
                    "is not below the trigger: {low} tokens and {high} tokens in a window of \
                     {window}; without a target, five eighths of the trigger are left"
                ),
            );
        }
        let gain = raw.min_gain.map(|gain| gain.of(prompt));
        if let Some(gain) = gain.filter(|gain| *gain >= high) {
            self.fail(
                &format!("{key}.min_gain"),
                format_args!(
                    "is not below the trigger: no list of {high} tokens (in a window of {window}) \
                     can save {gain}"
                ),
            );
        }
    }

    fn idle_and_prices(&mut self, key: &str, raw: &raw::Policy) {
        if let Some(idle) = raw.idle_trigger {
            self.share(&format!("{key}.idle_trigger.ratio"), idle.ratio);
            self.longer_than_nothing(&format!("{key}.idle_trigger.after"), idle.after);
            if let Some(high) = trigger(raw).ratio.filter(|high| idle.ratio >= *high) {
                self.fail(
                    &format!("{key}.idle_trigger.ratio"),
                    format_args!("{} is not below trigger.ratio, {high}", idle.ratio),
                );
            }
        }
        let Some(Prices {
            cache_read,
            cache_write,
        }) = raw.prices
        else {
            return;
        };
        for (name, price) in [("cache_read", cache_read), ("cache_write", cache_write)] {
            if !(0.0..=100.0).contains(&price) {
                self.fail(
                    &format!("{key}.prices.{name}"),
                    format_args!("{price} is not between 0 and 100 times the uncached price"),
                );
            }
        }
    }

    fn condition(&mut self, key: &str, text: Option<&str>) -> Option<Condition> {
        let text = text?;
        Condition::compile(text)
            .map_err(|why| self.fail(key, format_args!("\"{text}\" {why}")))
            .ok()
    }

    fn matcher(&mut self, key: &str, raw: &raw::Policy) -> Matcher {
        let mut headers = Vec::with_capacity(raw.headers.len());
        for (name, pattern) in &raw.headers {
            let key = format!("{key}.headers.{name}");
            let name = self.header_name(&key, name);
            match Glob::new(pattern) {
                Ok(glob) => {
                    headers.extend(name.map(|name| (name.to_string(), glob.compile_matcher())));
                }
                Err(error) => self.fail(&key, error),
            }
        }
        if raw.models.is_empty() {
            self.fail(
                &format!("{key}.models"),
                "is empty: leave the key out for all models, or name those that the policy is for",
            );
        }
        Matcher {
            models: self.globs_or_any(&format!("{key}.models"), &raw.models),
            paths: self.globs_or_any(&format!("{key}.paths"), &raw.paths),
            headers,
        }
    }

    /// Globs of which a request must match one; `None` when they match everything.
    fn globs_or_any(&mut self, key: &str, patterns: &[String]) -> Option<GlobSet> {
        if patterns.iter().any(|pattern| pattern == "*") {
            None
        } else {
            self.globs(key, patterns)
        }
    }
}

fn is_for_everything(policy: &raw::Policy) -> bool {
    policy.models.iter().any(|pattern| pattern == "*")
        && policy.paths.is_empty()
        && policy.headers.is_empty()
}

/// When a policy acts: as given, else as by default.
pub(super) fn trigger(raw: &raw::Policy) -> Trigger {
    raw.trigger
        .as_ref()
        .map_or(Trigger::DEFAULT, |given| Trigger {
            ratio: given.ratio,
            small_window_ratio: None,
            tokens: given.tokens,
            messages: given.messages,
            turns: given.turns,
            tool_uses: given.tool_uses,
        })
}

fn delivery(raw: &raw::Policy, matcher: Matcher) -> Delivery {
    let without_ladder = raw::Policy {
        ladder: Vec::new(),
        ..raw.clone()
    };
    Delivery {
        matcher,
        selectable: raw.selectable,
        mode: raw.mode,
        summarizer: raw.summarizer.clone(),
        include_usage: raw.include_usage,
        on_unfit: raw.on_unfit,
        on_error: raw.on_error,
        rescue: raw.rescue,
        fit_output: raw.fit_output,
        options: serde_json::to_string(&without_ladder).unwrap_or_default(),
    }
}

/// Fingerprint of all keys that decide a plan. The name, the matcher, and whether the policy is
/// selectable or asks for usage do not.
fn identity(raw: &raw::Policy) -> Fingerprint {
    let plain = raw::Policy {
        name: String::new(),
        models: Vec::new(),
        paths: Vec::new(),
        headers: BTreeMap::new(),
        selectable: false,
        include_usage: false,
        ..raw.clone()
    };
    // These types always serialise; if that were to change, policies with different names would
    // share nothing.
    Fingerprint::of(&serde_json::to_vec(&plain).unwrap_or_else(|_| raw.name.clone().into_bytes()))
}
