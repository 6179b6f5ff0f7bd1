//! What keeps the summariser within bounds: one preparation of a conversation at a time, few at once, a breaker for a
//! summariser that fails, peace for a conversation that it fails on, and a limit of calls and of tokens.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::config;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::{as_float, scale};

/// Tenants, failures and breakers that are remembered; with more, the oldest knowledge goes.
const MOST: usize = 16_384;
/// Over which calls are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// Why a summary is not made now; the label of `baler_summaries_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// It is there, or a longer or shorter one is being made.
    Known,
    /// It failed just now.
    Failed,
    /// The summariser failed too often in a row.
    Breaker,
    /// As many as allowed are being made.
    Busy,
    /// As many as allowed are being made for this tenant.
    TenantBusy,
    /// Too many calls in the last minute.
    Rate,
    /// Summaries have cost this tenant enough.
    Share,
    /// Baler stops.
    Stopping,
}

impl Skipped {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Skipped::Known => "known",
            Skipped::Failed => "failed_before",
            Skipped::Breaker => "breaker",
            Skipped::Busy => "busy",
            Skipped::TenantBusy => "tenant_busy",
            Skipped::Rate => "rate",
            Skipped::Share => "share",
            Skipped::Stopping => "stopping",
        }
    }
}

/// A preparation that runs.
#[derive(Debug)]
struct InFlight {
    tenant: Fingerprint,
    prefixes: Vec<Fingerprint>,
    over: watch::Receiver<()>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Breaker {
    failures: u32,
    /// Nobody asks before.
    not_before: Option<Instant>,
}

/// Tokens of one tenant.
#[derive(Debug, Default, Clone, Copy)]
struct Spending {
    forwarded: u64,
    spent: u64,
}

/// The bounds and what counts against them.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    flights: HashMap<Fingerprint, InFlight>,
    failed: HashMap<Fingerprint, Instant>,
    breakers: HashMap<Fingerprint, Breaker>,
    calls: VecDeque<Instant>,
    spending: HashMap<Fingerprint, Spending>,
}

/// Who wants which summary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation<'w> {
    pub key: Fingerprint,
    pub prefixes: &'w [Fingerprint],
    pub tenant: Fingerprint,
    /// Who is asked: the failures of one are not another's.
    pub summarizer: Fingerprint,
    /// Tokens that it will take, about.
    pub tokens: u64,
    /// Tokens that summaries may cost before anything was forwarded.
    pub allowance: u64,
}

impl Limiter {
    pub(super) fn is_running(&self, key: &Fingerprint) -> bool {
        self.flights.contains_key(key)
    }

    pub(super) fn has_failed(&self, key: &Fingerprint) -> bool {
        self.failed
            .get(key)
            .is_some_and(|until| Instant::now() < *until)
    }

    /// Where to wait for a preparation that runs for this prefix, a shorter one, or a longer one.
    pub(super) fn running(&self, reservation: &Reservation<'_>) -> Option<watch::Receiver<()>> {
        let same = |(key, flight): (&Fingerprint, &InFlight)| {
            let related = *key == reservation.key
                || reservation.prefixes.contains(key)
                || flight.prefixes.contains(&reservation.key);
            related.then(|| flight.over.clone())
        };
        self.flights.iter().find_map(same)
    }

    /// Takes a place for a preparation; who holds the sender has it until [`Bounds::ended`].
    pub(super) fn begin(
        &mut self,
        reservation: &Reservation<'_>,
        config: &config::Summarizer,
    ) -> Result<watch::Sender<()>, Skipped> {
        let now = Instant::now();
        let of_tenant = self
            .flights
            .values()
            .filter(|flight| flight.tenant == reservation.tenant)
            .count();
        let Spending { forwarded, spent } = self
            .spending
            .get(&reservation.tenant)
            .copied()
            .unwrap_or_default();
        match () {
            () if self.has_failed(&reservation.key) => return Err(Skipped::Failed),
            () if self.flights.len() >= config.concurrency => return Err(Skipped::Busy),
            () if of_tenant >= config.concurrency_per_tenant => return Err(Skipped::TenantBusy),
            () if as_float(spent.saturating_add(reservation.tokens))
                > as_float(forwarded) * config.max_share + as_float(reservation.allowance) =>
            {
                return Err(Skipped::Share);
            }
            () => {}
        }
        if let Some(breaker) = self.breakers.get_mut(&reservation.summarizer)
            && let Some(not_before) = breaker.not_before
        {
            if now < not_before {
                return Err(Skipped::Breaker);
            }
            // One may try; whether others may follow, its outcome says.
            breaker.not_before = Some(now + config.breaker_pause);
        }
        let (sender, over) = watch::channel(());
        self.flights.insert(
            reservation.key,
            InFlight {
                tenant: reservation.tenant,
                prefixes: reservation.prefixes.to_vec(),
                over,
            },
        );
        Ok(sender)
    }

    /// Counts one call, if one more is allowed this minute.
    pub(super) fn call(&mut self, config: &config::Summarizer) -> Result<(), Skipped> {
        let now = Instant::now();
        while self
            .calls
            .front()
            .is_some_and(|then| now.saturating_duration_since(*then) >= MINUTE)
        {
            self.calls.pop_front();
        }
        if self.calls.len() >= config.calls_per_minute {
            return Err(Skipped::Rate);
        }
        self.calls.push_back(now);
        Ok(())
    }

    /// Gives the place back. `fine`: whether a summary came of it; `None` when that says nothing about the summariser.
    pub(super) fn ended(
        &mut self,
        reservation: &Reservation<'_>,
        fine: Option<bool>,
        config: &config::Summarizer,
    ) {
        let now = Instant::now();
        self.flights.remove(&reservation.key);
        match fine {
            Some(true) => drop(self.breakers.remove(&reservation.summarizer)),
            Some(false) => {
                bounded(&mut self.failed, |until| now < *until);
                self.failed
                    .insert(reservation.key, now + config.failure_lifetime);
                bounded(&mut self.breakers, |breaker| {
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
        self.spending_of(tenant, |spending| {
            spending.forwarded = spending.forwarded.saturating_add(tokens)
        });
    }

    /// A tenant's summary cost tokens.
    pub(super) fn spent(&mut self, tenant: Fingerprint, tokens: u64) {
        self.spending_of(tenant, |spending| {
            spending.spent = spending.spent.saturating_add(tokens)
        });
    }

    fn spending_of(&mut self, tenant: Fingerprint, change: impl FnOnce(&mut Spending)) {
        bounded(&mut self.spending, |_| false);
        let spending = self.spending.entry(tenant).or_default();
        change(spending);
        // What was long ago counts less and less.
        if spending.forwarded > FORGET {
            *spending = Spending {
                forwarded: scale(spending.forwarded, 0.5),
                spent: scale(spending.spent, 0.5),
            };
        }
    }

    /// Summarisers that are left alone now.
    pub(super) fn open_breakers(&self) -> usize {
        let now = Instant::now();
        self.breakers
            .values()
            .filter(|breaker| breaker.not_before.is_some_and(|until| now < until))
            .count()
    }
}

/// Forwarded tokens from which on the past is halved.
const FORGET: u64 = 100_000_000;

/// Makes room in a map that is full: what does not matter any more goes, or all of it.
fn bounded<T>(map: &mut HashMap<Fingerprint, T>, matters: impl Fn(&T) -> bool) {
    if map.len() >= MOST {
        map.retain(|_, value| matters(value));
    }
    if map.len() >= MOST {
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
        let (config, mut bounds) = (config(), Limiter::default());
        for nth in 0..config.breaker_failures {
            let reservation = reservation(&format!("prefix {nth}"), &format!("tenant {nth}"));
            bounds.begin(&reservation, &config).unwrap();
            bounds.ended(&reservation, Some(false), &config);
        }
        let another = reservation("another", "a");
        assert_eq!(
            bounds.begin(&another, &config).err(),
            Some(Skipped::Breaker)
        );
        assert_eq!(bounds.open_breakers(), 1);
        tokio::time::advance(config.breaker_pause).await;
        bounds.begin(&another, &config).unwrap();
        assert_eq!(
            bounds.begin(&reservation("second", "b"), &config).err(),
            Some(Skipped::Breaker),
            "one tries, the others wait"
        );
        bounds.ended(&another, Some(false), &config);
        assert_eq!(
            bounds.begin(&reservation("second", "b"), &config).err(),
            Some(Skipped::Breaker),
            "one failure is enough now"
        );
        tokio::time::advance(config.breaker_pause).await;
        bounds.begin(&reservation("second", "b"), &config).unwrap();
        bounds.ended(&reservation("second", "b"), Some(true), &config);
        bounds.begin(&reservation("third", "c"), &config).unwrap();
        bounds.begin(&reservation("fourth", "d"), &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_that_failed_has_peace_for_a_while() {
        let (config, mut bounds) = (config(), Limiter::default());
        let reservation = reservation("prefix", "a");
        bounds.begin(&reservation, &config).unwrap();
        bounds.ended(&reservation, Some(false), &config);
        assert!(bounds.has_failed(&reservation.key));
        assert_eq!(
            bounds.begin(&reservation, &config).err(),
            Some(Skipped::Failed)
        );
        tokio::time::advance(config.failure_lifetime).await;
        assert!(!bounds.has_failed(&reservation.key));
        bounds.begin(&reservation, &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn places_calls_and_tokens_are_limited() {
        let (config, mut bounds) = (
            config::Summarizer {
                concurrency: 3,
                ..config()
            },
            Limiter::default(),
        );
        for nth in 0..config.concurrency_per_tenant {
            bounds
                .begin(&reservation(&format!("a {nth}"), "a"), &config)
                .unwrap();
        }
        assert_eq!(
            bounds.begin(&reservation("a more", "a"), &config).err(),
            Some(Skipped::TenantBusy)
        );
        bounds.begin(&reservation("b", "b"), &config).unwrap();
        assert_eq!(
            bounds.begin(&reservation("c", "c"), &config).err(),
            Some(Skipped::Busy)
        );
        bounds.ended(&reservation("b", "b"), None, &config);

        bounds.call(&config).unwrap();
        tokio::time::advance(MINUTE / 2).await;
        bounds.call(&config).unwrap();
        assert_eq!(bounds.call(&config), Err(Skipped::Rate));
        tokio::time::advance(MINUTE / 2).await;
        bounds.call(&config).unwrap();
        assert_eq!(bounds.call(&config), Err(Skipped::Rate));

        bounds.spent(key("d"), 200);
        bounds.forwarded(key("d"), 100);
        assert_eq!(
            bounds.begin(&reservation("d", "d"), &config).err(),
            Some(Skipped::Share)
        );
        bounds.forwarded(key("d"), 100_000);
        bounds.begin(&reservation("d", "d"), &config).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn of_one_conversation_one_summary_is_made_at_a_time() {
        let (config, mut bounds) = (config(), Limiter::default());
        let shorter = reservation("shorter", "a");
        let sender = bounds.begin(&shorter, &config).unwrap();
        let prefixes = [key("other"), key("shorter")];
        let longer = Reservation {
            prefixes: &prefixes,
            ..reservation("longer", "a")
        };
        let mut over = bounds.running(&longer).unwrap();
        bounds.ended(&shorter, Some(true), &config);
        let _longer = bounds.begin(&longer, &config).unwrap();
        assert!(
            bounds.running(&shorter).is_some(),
            "and the other way round"
        );
        bounds.ended(&longer, Some(true), &config);
        drop(sender);
        assert!(over.changed().await.is_err());
        assert!(bounds.running(&longer).is_none());
    }
}
