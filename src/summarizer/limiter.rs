//! Keeps the summariser within its limits: one preparation per conversation at a time, few at once,
//! a breaker for a summariser that fails, one for a tenant whose conversations fail, a pause for a
//! conversation whose summary failed, and a bound on calls and on tokens.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use quick_cache::unsync::Cache;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::{as_float, scale};
use crate::observe::event::SkipReason;

/// Tenants, failures and breakers that are remembered, of each so many; beyond that, those go that
/// were not used for longest.
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
pub(super) struct Limiter {
    in_flight: HashMap<Fingerprint, InFlight>,
    failed: Cache<Fingerprint, Instant>,
    /// Of services that could not be reached or were overloaded, whoever asked.
    breakers: Cache<Fingerprint, Breaker>,
    /// Of tenants at a service, for failures that have to do with what was asked: one tenant's
    /// conversations must not switch the summariser off for others.
    tenant_breakers: Cache<(Fingerprint, Fingerprint), Breaker>,
    /// The calls of the last minute, and for whom they were made.
    calls: VecDeque<(Instant, Fingerprint)>,
    spending: Cache<Fingerprint, Spending>,
}

impl Default for Limiter {
    fn default() -> Self {
        Limiter {
            in_flight: HashMap::new(),
            failed: Cache::new(MAX_REMEMBERED),
            breakers: Cache::new(MAX_REMEMBERED),
            tenant_breakers: Cache::new(MAX_REMEMBERED),
            calls: VecDeque::new(),
            spending: Cache::new(MAX_REMEMBERED),
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

/// How a preparation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// A summary was made.
    Made,
    /// The summariser could not be reached, was overloaded, or did not answer in time.
    Unavailable,
    /// It refused the request, or its answer was not accepted: it may well serve other tenants.
    Refused,
    /// No call was made, and none would help.
    Impossible,
    /// Neither its fault nor its merit.
    Neither,
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
        let of_service = self.breakers.get(&reservation.summarizer).copied();
        let of_tenant = self.tenant_breakers.get(&reservation.at_service()).copied();
        let is_open = |breaker: &Breaker| breaker.not_before.is_some_and(|until| now < until);
        if of_service.iter().chain(&of_tenant).any(is_open) {
            return Err(SkipReason::Breaker);
        }
        // One preparation may try; its outcome decides whether others may follow.
        let trying = |breaker: Breaker| Breaker {
            not_before: breaker.not_before.map(|_| now + config.breaker_pause),
            ..breaker
        };
        if let Some(breaker) = of_service {
            self.breakers
                .insert(reservation.summarizer, trying(breaker));
        }
        if let Some(breaker) = of_tenant {
            self.tenant_breakers
                .insert(reservation.at_service(), trying(breaker));
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

    /// Counts one call of a tenant's; false when no further call is allowed this minute, to anyone
    /// or to this tenant.
    pub(super) fn take_call(&mut self, tenant: Fingerprint, config: &config::Summarizer) -> bool {
        let now = Instant::now();
        while self
            .calls
            .front()
            .is_some_and(|(then, _)| now.saturating_duration_since(*then) >= MINUTE)
        {
            self.calls.pop_front();
        }
        let of_tenant = self.calls.iter().filter(|(_, caller)| *caller == tenant);
        let allowed = self.calls.len() < config.calls_per_minute
            && of_tenant.count() < config.calls_per_minute_per_tenant;
        if allowed {
            self.calls.push_back((now, tenant));
        }
        allowed
    }

    /// Gives the place back.
    pub(super) fn ended(
        &mut self,
        reservation: &Reservation<'_>,
        ended: Ended,
        config: &config::Summarizer,
    ) {
        let now = Instant::now();
        self.in_flight.remove(&reservation.key);
        let failed = |breaker: Option<&Breaker>| {
            let failures = breaker
                .map_or(0, |breaker| breaker.failures)
                .saturating_add(1);
            let opens = failures >= config.breaker_failures;
            Breaker {
                failures,
                not_before: opens.then(|| now + config.breaker_pause),
            }
        };
        let (service, tenant) = (reservation.summarizer, reservation.at_service());
        match ended {
            Ended::Made => {
                self.breakers.remove(&service);
                self.tenant_breakers.remove(&tenant);
            }
            Ended::Unavailable => {
                let breaker = failed(self.breakers.get(&service));
                self.breakers.insert(service, breaker);
            }
            Ended::Refused => {
                // It answered, so that it is there for others.
                self.breakers.remove(&service);
                let breaker = failed(self.tenant_breakers.get(&tenant));
                self.tenant_breakers.insert(tenant, breaker);
            }
            Ended::Impossible | Ended::Neither => {}
        }
        if !matches!(ended, Ended::Made | Ended::Neither) {
            let until = now + config.failure_lifetime;
            self.failed.insert(reservation.key, until);
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
        let mut spending = self.spending.get(&tenant).copied().unwrap_or_default();
        change(&mut spending);
        // The distant past counts less and less.
        if spending.forwarded > HALVE_AT_TOKENS {
            spending = Spending {
                forwarded: scale(spending.forwarded, 0.5),
                spent: scale(spending.spent, 0.5),
            };
        }
        self.spending.insert(tenant, spending);
    }

    /// Summarisers that are not called for now.
    pub(super) fn open_breakers(&self) -> usize {
        let now = Instant::now();
        self.breakers
            .iter()
            .filter(|(_, breaker)| breaker.not_before.is_some_and(|until| now < until))
            .count()
    }
}

impl Reservation<'_> {
    /// The key of the tenant at the service.
    fn at_service(&self) -> (Fingerprint, Fingerprint) {
        (self.summarizer, self.tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> config::Summarizer {
        config::Summarizer {
            calls_per_minute: 2,
            calls_per_minute_per_tenant: 2,
            ..config::load(&config::Sources::default())
                .unwrap()
                .summarizers
                .default
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
            limiter.ended(&reservation, Ended::Unavailable, &config);
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
        limiter.ended(&another, Ended::Unavailable, &config);
        assert_eq!(
            limiter.begin(&reservation("second", "b"), &config).err(),
            Some(SkipReason::Breaker),
            "one failure is enough now"
        );
        tokio::time::advance(config.breaker_pause).await;
        limiter.begin(&reservation("second", "b"), &config).unwrap();
        limiter.ended(&reservation("second", "b"), Ended::Made, &config);
        limiter.begin(&reservation("third", "c"), &config).unwrap();
        limiter.begin(&reservation("fourth", "d"), &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_that_failed_is_left_alone_for_a_while() {
        let (config, mut limiter) = (config(), Limiter::default());
        let reservation = reservation("prefix", "a");
        limiter.begin(&reservation, &config).unwrap();
        limiter.ended(&reservation, Ended::Unavailable, &config);
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
        limiter.ended(&reservation("b", "b"), Ended::Neither, &config);

        assert!(limiter.take_call(key("a"), &config));
        tokio::time::advance(MINUTE / 2).await;
        assert!(limiter.take_call(key("a"), &config));
        assert!(!limiter.take_call(key("a"), &config));
        tokio::time::advance(MINUTE / 2).await;
        assert!(limiter.take_call(key("a"), &config));
        assert!(!limiter.take_call(key("a"), &config));

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
        limiter.ended(&shorter, Ended::Made, &config);
        let _longer = limiter.begin(&longer, &config).unwrap();
        assert!(
            limiter.running(&shorter).is_some(),
            "and the other way round"
        );
        limiter.ended(&longer, Ended::Made, &config);
        drop(sender);
        assert!(finished.changed().await.is_err());
        assert!(limiter.running(&longer).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_of_one_tenants_conversations_do_not_stop_another() {
        let (config, mut limiter) = (config(), Limiter::default());
        for nth in 0..config.breaker_failures {
            let reservation = reservation(&format!("prefix {nth}"), "a");
            limiter.begin(&reservation, &config).unwrap();
            limiter.ended(&reservation, Ended::Refused, &config);
        }
        let own = reservation("another", "a");
        assert_eq!(
            limiter.begin(&own, &config).err(),
            Some(SkipReason::Breaker)
        );
        assert_eq!(limiter.open_breakers(), 0, "the summariser is there");
        let other = reservation("prefix", "b");
        limiter.begin(&other, &config).unwrap();
        limiter.ended(&other, Ended::Made, &config);
        assert_eq!(
            limiter.begin(&own, &config).err(),
            Some(SkipReason::Breaker),
            "which is no merit of the first"
        );
        tokio::time::advance(config.breaker_pause).await;
        limiter.begin(&own, &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_tenant_cannot_use_up_all_calls_of_a_minute() {
        let config = config::Summarizer {
            calls_per_minute: 3,
            ..config()
        };
        let mut limiter = Limiter::default();
        assert!(limiter.take_call(key("a"), &config));
        assert!(limiter.take_call(key("a"), &config));
        assert!(
            !limiter.take_call(key("a"), &config),
            "two of three are its share"
        );
        assert!(limiter.take_call(key("b"), &config));
        assert!(!limiter.take_call(key("b"), &config));
    }

    #[test]
    fn invented_tenants_do_not_make_the_debts_of_others_forgotten() {
        let (config, mut limiter) = (config(), Limiter::default());
        let debtor = reservation("prefix", "debtor");
        for _ in 0..3 {
            limiter.spent(debtor.tenant, 1_000);
            assert!(limiter.begin(&debtor, &config).is_err());
        }
        for nth in 0..2 * MAX_REMEMBERED {
            limiter.forwarded(key(&nth.to_string()), 1);
            if nth % 1_000 == 0 {
                assert_eq!(
                    limiter.begin(&debtor, &config).err(),
                    Some(SkipReason::Share)
                );
            }
        }
        assert!(limiter.spending.len() <= MAX_REMEMBERED);
    }
}
