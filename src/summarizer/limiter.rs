//! Keeps the summariser within its limits: one preparation per conversation at a time, few at once,
//! a breaker for a summariser that fails, a pause for a conversation whose summary failed, and a
//! bound on calls and on tokens.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::config;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::{as_float, scale};
use crate::observe::event::SkipReason;

/// Tenants, failures and breakers that are remembered; beyond that, the oldest knowledge goes.
const MAX_REMEMBERED: usize = 16_384;
/// The period that calls are counted over.
const MINUTE: Duration = Duration::from_secs(60);
/// Forwarded tokens of a tenant from which on its past is halved.
const HALVE_AT_TOKENS: u64 = 100_000_000;

/// A preparation that runs.
#[derive(Debug)]
struct InFlight {
    tenant: Fingerprint,
    prefixes: Vec<Fingerprint>,
    finished: watch::Receiver<()>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Breaker {
    failures: u32,
    /// No call before this time.
    not_before: Option<Instant>,
}

/// Tokens of one tenant.
#[derive(Debug, Default, Clone, Copy)]
struct Spending {
    forwarded: u64,
    spent: u64,
}

/// The limits, and everything that counts against them.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    in_flight: HashMap<Fingerprint, InFlight>,
    failed: HashMap<Fingerprint, Instant>,
    breakers: HashMap<Fingerprint, Breaker>,
    calls: VecDeque<Instant>,
    spending: HashMap<Fingerprint, Spending>,
}

/// A summary that is wanted, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation<'w> {
    pub key: Fingerprint,
    pub prefixes: &'w [Fingerprint],
    pub tenant: Fingerprint,
    /// The summariser to be called: the failures of one are not another's.
    pub summarizer: Fingerprint,
    /// Tokens that the summary will cost, about.
    pub tokens: u64,
    /// Tokens that summaries may cost before anything was forwarded.
    pub allowance: u64,
}

impl Limiter {
    pub(super) fn is_running(&self, key: &Fingerprint) -> bool {
        self.in_flight.contains_key(key)
    }

    pub(super) fn has_failed(&self, key: &Fingerprint) -> bool {
        self.failed
            .get(key)
            .is_some_and(|until| Instant::now() < *until)
    }

    /// Signals the end of a preparation that runs for this prefix, a shorter one, or a longer one.
    pub(super) fn running(&self, reservation: &Reservation<'_>) -> Option<watch::Receiver<()>> {
        let related = |(key, running): (&Fingerprint, &InFlight)| {
            let related = *key == reservation.key
                || reservation.prefixes.contains(key)
                || running.prefixes.contains(&reservation.key);
            related.then(|| running.finished.clone())
        };
        self.in_flight.iter().find_map(related)
    }

    /// Takes a place for a preparation. The holder of the sender has it until [`Limiter::ended`].
    pub(super) fn begin(
        &mut self,
        reservation: &Reservation<'_>,
        config: &config::Summarizer,
    ) -> Result<watch::Sender<()>, SkipReason> {
        self.check_limits(reservation, config)?;
        let now = Instant::now();
        if let Some(breaker) = self.breakers.get_mut(&reservation.summarizer)
            && let Some(not_before) = breaker.not_before
        {
            if now < not_before {
                return Err(SkipReason::Breaker);
            }
            // One preparation may try; its outcome decides whether others may follow.
            breaker.not_before = Some(now + config.breaker_pause);
        }
        let (sender, finished) = watch::channel(());
        self.in_flight.insert(
            reservation.key,
            InFlight {
                tenant: reservation.tenant,
                prefixes: reservation.prefixes.to_vec(),
                finished,
            },
        );
        Ok(sender)
    }

    fn check_limits(
        &self,
        reservation: &Reservation<'_>,
        config: &config::Summarizer,
    ) -> Result<(), SkipReason> {
        let of_tenant = self
            .in_flight
            .values()
            .filter(|running| running.tenant == reservation.tenant)
            .count();
        let Spending { forwarded, spent } = self
            .spending
            .get(&reservation.tenant)
            .copied()
            .unwrap_or_default();
        let cost = as_float(spent.saturating_add(reservation.tokens));
        let share = as_float(forwarded) * config.max_share + as_float(reservation.allowance);
        if self.has_failed(&reservation.key) {
            Err(SkipReason::FailedBefore)
        } else if self.in_flight.len() >= config.concurrency {
            Err(SkipReason::Busy)
        } else if of_tenant >= config.concurrency_per_tenant {
            Err(SkipReason::TenantBusy)
        } else if cost > share {
            Err(SkipReason::Share)
        } else {
            Ok(())
        }
    }

    /// Counts one call; false when no further call is allowed this minute.
    pub(super) fn take_call(&mut self, config: &config::Summarizer) -> bool {
        let now = Instant::now();
        while self
            .calls
            .front()
            .is_some_and(|then| now.saturating_duration_since(*then) >= MINUTE)
        {
            self.calls.pop_front();
        }
        let allowed = self.calls.len() < config.calls_per_minute;
        if allowed {
            self.calls.push_back(now);
        }
        allowed
    }

    /// Gives the place back. `succeeded`: whether a summary was made; `None` when the outcome is
    /// not the summariser's fault nor its merit.
    pub(super) fn ended(
        &mut self,
        reservation: &Reservation<'_>,
        succeeded: Option<bool>,
        config: &config::Summarizer,
    ) {
        let now = Instant::now();
        self.in_flight.remove(&reservation.key);
        match succeeded {
            Some(true) => drop(self.breakers.remove(&reservation.summarizer)),
            Some(false) => {
                make_room(&mut self.failed, |until| now < *until);
                self.failed
                    .insert(reservation.key, now + config.failure_lifetime);
                make_room(&mut self.breakers, |breaker| {
                    breaker.not_before.is_some_and(|until| now < until)
                });
                let breaker = self.breakers.entry(reservation.summarizer).or_default();
                breaker.failures = breaker.failures.saturating_add(1);
                if breaker.failures >= config.breaker_failures {
                    breaker.not_before = Some(now + config.breaker_pause);
                }
            }
            None => {}
        }
    }

    /// Tokens of a tenant went to the upstream.
    pub(super) fn forwarded(&mut self, tenant: Fingerprint, tokens: u64) {
        self.update_spending(tenant, |spending| {
            spending.forwarded = spending.forwarded.saturating_add(tokens);
        });
    }

    /// A tenant's summary cost tokens.
    pub(super) fn spent(&mut self, tenant: Fingerprint, tokens: u64) {
        self.update_spending(tenant, |spending| {
            spending.spent = spending.spent.saturating_add(tokens);
        });
    }

    fn update_spending(&mut self, tenant: Fingerprint, change: impl FnOnce(&mut Spending)) {
        make_room(&mut self.spending, |_| false);
        let spending = self.spending.entry(tenant).or_default();
        change(spending);
        // The distant past counts less and less.
        if spending.forwarded > HALVE_AT_TOKENS {
            *spending = Spending {
                forwarded: scale(spending.forwarded, 0.5),
                spent: scale(spending.spent, 0.5),
            };
        }
    }

    /// Summarisers that are not called for now.
    pub(super) fn open_breakers(&self) -> usize {
        let now = Instant::now();
        self.breakers
            .values()
            .filter(|breaker| breaker.not_before.is_some_and(|until| now < until))
            .count()
    }
}

/// Makes room in a map that is full: entries that no longer matter go, or all of them.
fn make_room<T>(map: &mut HashMap<Fingerprint, T>, matters: impl Fn(&T) -> bool) {
    if map.len() >= MAX_REMEMBERED {
        map.retain(|_, value| matters(value));
    }
    if map.len() >= MAX_REMEMBERED {
        map.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> config::Summarizer {
        config::Summarizer {
            calls_per_minute: 2,
            ..config::load(&config::Sources::default())
                .unwrap()
                .summarizer
        }
    }

    fn key(name: &str) -> Fingerprint {
        Fingerprint::of(name.as_bytes())
    }

    fn reservation<'w>(name: &str, tenant: &str) -> Reservation<'w> {
        Reservation {
            key: key(name),
            prefixes: &[],
            tenant: key(tenant),
            summarizer: key("summarizer"),
            tokens: 100,
            allowance: 150,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_summariser_that_fails_is_left_alone_and_tried_again_by_one() {
        let (config, mut limiter) = (config(), Limiter::default());
        for nth in 0..config.breaker_failures {
            let reservation = reservation(&format!("prefix {nth}"), &format!("tenant {nth}"));
            limiter.begin(&reservation, &config).unwrap();
            limiter.ended(&reservation, Some(false), &config);
        }
        let another = reservation("another", "a");
        assert_eq!(
            limiter.begin(&another, &config).err(),
            Some(SkipReason::Breaker)
        );
        assert_eq!(limiter.open_breakers(), 1);
        tokio::time::advance(config.breaker_pause).await;
        limiter.begin(&another, &config).unwrap();
        assert_eq!(
            limiter.begin(&reservation("second", "b"), &config).err(),
            Some(SkipReason::Breaker),
            "one tries, the others wait"
        );
        limiter.ended(&another, Some(false), &config);
        assert_eq!(
            limiter.begin(&reservation("second", "b"), &config).err(),
            Some(SkipReason::Breaker),
            "one failure is enough now"
        );
        tokio::time::advance(config.breaker_pause).await;
        limiter.begin(&reservation("second", "b"), &config).unwrap();
        limiter.ended(&reservation("second", "b"), Some(true), &config);
        limiter.begin(&reservation("third", "c"), &config).unwrap();
        limiter.begin(&reservation("fourth", "d"), &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_that_failed_is_left_alone_for_a_while() {
        let (config, mut limiter) = (config(), Limiter::default());
        let reservation = reservation("prefix", "a");
        limiter.begin(&reservation, &config).unwrap();
        limiter.ended(&reservation, Some(false), &config);
        assert!(limiter.has_failed(&reservation.key));
        assert_eq!(
            limiter.begin(&reservation, &config).err(),
            Some(SkipReason::FailedBefore)
        );
        tokio::time::advance(config.failure_lifetime).await;
        assert!(!limiter.has_failed(&reservation.key));
        limiter.begin(&reservation, &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn places_calls_and_tokens_are_limited() {
        let (config, mut limiter) = (
            config::Summarizer {
                concurrency: 3,
                ..config()
            },
            Limiter::default(),
        );
        for nth in 0..config.concurrency_per_tenant {
            limiter
                .begin(&reservation(&format!("a {nth}"), "a"), &config)
                .unwrap();
        }
        assert_eq!(
            limiter.begin(&reservation("a more", "a"), &config).err(),
            Some(SkipReason::TenantBusy)
        );
        limiter.begin(&reservation("b", "b"), &config).unwrap();
        assert_eq!(
            limiter.begin(&reservation("c", "c"), &config).err(),
            Some(SkipReason::Busy)
        );
        limiter.ended(&reservation("b", "b"), None, &config);

        assert!(limiter.take_call(&config));
        tokio::time::advance(MINUTE / 2).await;
        assert!(limiter.take_call(&config));
        assert!(!limiter.take_call(&config));
        tokio::time::advance(MINUTE / 2).await;
        assert!(limiter.take_call(&config));
        assert!(!limiter.take_call(&config));

        limiter.spent(key("d"), 200);
        limiter.forwarded(key("d"), 100);
        assert_eq!(
            limiter.begin(&reservation("d", "d"), &config).err(),
            Some(SkipReason::Share)
        );
        limiter.forwarded(key("d"), 100_000);
        limiter.begin(&reservation("d", "d"), &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn of_one_conversation_one_summary_is_made_at_a_time() {
        let (config, mut limiter) = (config(), Limiter::default());
        let shorter = reservation("shorter", "a");
        let sender = limiter.begin(&shorter, &config).unwrap();
        let prefixes = [key("other"), key("shorter")];
        let longer = Reservation {
            prefixes: &prefixes,
            ..reservation("longer", "a")
        };
        let mut finished = limiter.running(&longer).unwrap();
        limiter.ended(&shorter, Some(true), &config);
        let _longer = limiter.begin(&longer, &config).unwrap();
        assert!(
            limiter.running(&shorter).is_some(),
            "and the other way round"
        );
        limiter.ended(&longer, Some(true), &config);
        drop(sender);
        assert!(finished.changed().await.is_err());
        assert!(limiter.running(&longer).is_none());
    }
}
