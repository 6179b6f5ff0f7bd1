//! The context lengths that the upstream reports for its models: when it is asked, with which
//! credentials, and what is kept of its answer. Reading an answer is `core::wire::model_list`;
//! which figure counts is the policy's (`Policy::window_by`).
//!
//! A request that needs a window never waits for one: it is planned with what is known, and a
//! background task asks for the next ones. Baler has no key, so the task uses the credentials of
//! the request that started it.
//!
//! INVARIANT: a window is part of the basis of derived decisions, and a change of it makes
//! conversations lose their checkpoints (never their validity). So a figure stays until another one
//! replaces it: failures and lists that no longer name the model change nothing; within `LIFETIME`
//! a figure only narrows; a later answer may widen it. A new process decides its first requests by
//! the table, and by the upstream from the first answer on.
//!
//! The list that one credential gets holds for all: a list may be cut to what a key may use, but a
//! model's window belongs to the server and not to the key. Which models exist for which credential
//! is never shown to anybody.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::http::{HeaderMap, StatusCode};
use hyper::{Method, Request};

use crate::background::Background;
use crate::core::conversation::Fingerprint;
use crate::core::wire::model_list::{self, Listing};
use crate::observe::event::{DiscoveryEnded, DiscoveryOutcome, UnknownModel, UnknownModelsAreMany};
use crate::observe::{Metrics, plain_name};
use crate::upstream::{RequestBody, Upstream};

/// A figure younger than this is not asked for again.
const LIFETIME: Duration = Duration::from_secs(600);
/// Pause between two calls, whatever their credentials: credentials may be many.
const PACE: Duration = Duration::from_secs(10);
/// Pause after the upstream failed; doubled for each failure in a row, up to [`LIFETIME`].
const FIRST_RETRY: Duration = Duration::from_secs(30);
/// Time for one call, from connecting to the answer's last byte.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer; the largest public list has less than a tenth of it.
const MAX_BYTES: usize = 4 << 20;
/// Models whose window is kept; later ones are not.
const MAX_MODELS: usize = model_list::MAX_ENTRIES;
/// Credentials whose last call is remembered.
const MAX_TENANTS: usize = 256;
/// Unknown models that are named in the log.
const MAX_NAMED: usize = 256;

/// What is known of the windows of one upstream's models. A process has one upstream, so it has one
/// of these.
#[derive(Debug)]
pub struct Windows {
    /// Whether the upstream is asked at all.
    enabled: bool,
    known: RwLock<Known>,
    schedule: Mutex<Schedule>,
    /// Whether a call has ended: before that, it is open whether the upstream knows a model.
    has_asked: AtomicBool,
    /// Names of unknown models that were logged.
    named: Mutex<HashSet<String>>,
    metrics: Arc<Metrics>,
    /// The calls that run.
    pub background: Background,
}

/// A context length, and when the upstream reported it.
#[derive(Debug, Clone, Copy)]
struct Figure {
    tokens: u64,
    since: Instant,
}

#[derive(Debug, Default)]
struct Known {
    models: HashMap<String, Figure>,
    /// Of an upstream that accepts any model name.
    any: Option<Figure>,
}

impl Known {
    fn get(&self, model: Option<&str>) -> Option<Figure> {
        model
            .and_then(|model| self.models.get(model).copied())
            .or(self.any)
    }

    fn learn(&mut self, listing: Listing, now: Instant) {
        let newer = |old: Option<Figure>, tokens: u64| match old {
            Some(old) if now.saturating_duration_since(old.since) < LIFETIME => Figure {
                tokens: tokens.min(old.tokens),
                since: now,
            },
            _ => Figure { tokens, since: now },
        };
        for (name, tokens) in listing.windows {
            let old = self.models.get(&name).copied();
            if old.is_some() || self.models.len() < MAX_MODELS {
                self.models.insert(name, newer(old, tokens));
            }
        }
        // Unlike a name, "any name" does not outlive an answer without it.
        self.any = listing.any.map(|tokens| newer(self.any, tokens));
    }
}

/// When the upstream may be asked again.
#[derive(Debug, Default)]
struct Schedule {
    running: bool,
    /// No call before this time.
    not_before: Option<Instant>,
    /// Failures of the upstream in a row.
    failures: u32,
    /// No call with these credentials before this time: their list is known, or they get none.
    asked: HashMap<Fingerprint, Instant>,
}

impl Schedule {
    /// Whether a call with these credentials may begin now; if so, no other may until
    /// [`Schedule::ended`].
    fn begin(&mut self, tenant: &Fingerprint, now: Instant) -> bool {
        let early = |until: Option<&Instant>| until.is_some_and(|until| now < *until);
        if self.running || early(self.not_before.as_ref()) || early(self.asked.get(tenant)) {
            return false;
        }
        if self.asked.len() >= MAX_TENANTS {
            self.asked.retain(|_, until| now < *until);
        }
        self.running = self.asked.len() < MAX_TENANTS;
        self.running
    }

    /// A call ended; without an outcome when it was cut off.
    fn ended(&mut self, tenant: Fingerprint, outcome: Option<DiscoveryOutcome>, now: Instant) {
        self.running = false;
        self.not_before = Some(now + PACE);
        if outcome.is_none_or(DiscoveryOutcome::is_failure) {
            self.not_before = Some(now + (FIRST_RETRY * (1 << self.failures.min(5))).min(LIFETIME));
            self.failures += 1;
        } else {
            self.failures = 0;
            self.asked.insert(tenant, now + LIFETIME);
        }
    }
}

/// The right to ask the upstream, which one task has at a time.
#[derive(Debug)]
pub struct Lease {
    windows: Arc<Windows>,
    tenant: Fingerprint,
    /// Absent until the call ended: a task that Baler's shutdown cuts off reports nothing.
    outcome: Option<DiscoveryOutcome>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        locked(&self.windows.schedule).ended(self.tenant, self.outcome, Instant::now());
        let Some(outcome) = self.outcome else { return };
        self.windows.has_asked.store(true, Ordering::Relaxed);
        let known = self
            .windows
            .known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .models
            .len();
        DiscoveryEnded { outcome, known }.emit(&self.windows.metrics);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The values behind these locks are never left half-written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Windows {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(enabled: bool, metrics: Arc<Metrics>) -> Self {
        Windows {
            enabled,
            known: RwLock::default(),
            schedule: Mutex::default(),
            has_asked: AtomicBool::new(false),
            named: Mutex::default(),
            metrics,
            background: Background::default(),
        }
    }

    /// The context length that the upstream reports for this model, tokens.
    #[must_use]
    pub fn discovered(&self, model: Option<&str>) -> Option<u64> {
        if !self.enabled {
            return None;
        }
        self.figure(model).map(|figure| figure.tokens)
    }

    fn figure(&self, model: Option<&str>) -> Option<Figure> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(model)
    }

    /// The right to ask the upstream now, when its figure for this model is missing or old.
    #[must_use]
    pub fn lease(self: &Arc<Self>, model: Option<&str>, tenant: Fingerprint) -> Option<Lease> {
        let now = Instant::now();
        let fresh = || {
            self.figure(model)
                .is_some_and(|figure| now.saturating_duration_since(figure.since) < LIFETIME)
        };
        if !self.enabled
            || self.background.is_closing()
            || fresh()
            || !locked(&self.schedule).begin(&tenant, now)
        {
            return None;
        }
        Some(Lease {
            windows: Arc::clone(self),
            tenant,
            outcome: None,
        })
    }

    /// Logs once that a model's context length is not known. A client chooses names: they are
    /// bounded in length and number, and hold no characters that could be mistaken for the log's
    /// own.
    pub fn log_unknown_once(&self, policy: &str, model: Option<&str>, window: u64) {
        let may_still_learn = self.enabled && !self.has_asked.load(Ordering::Relaxed);
        let Some(model) = model.filter(|_| !may_still_learn) else {
            return;
        };
        let name = plain_name(model);
        let mut named = locked(&self.named);
        if named.len() < MAX_NAMED && named.insert(name.clone()) {
            UnknownModel {
                policy,
                model: &name,
                window,
            }
            .emit();
            if named.len() == MAX_NAMED {
                UnknownModelsAreMany { named: MAX_NAMED }.emit();
            }
        }
    }
}

impl Lease {
    /// Asks with these headers and no others, and keeps what was learned.
    pub async fn ask(mut self, upstream: &Upstream, credentials: HeaderMap) {
        let asked = tokio::time::timeout(DEADLINE, list_models(upstream, credentials)).await;
        let outcome = match asked.unwrap_or(Err(DiscoveryOutcome::Timeout)) {
            Err(outcome) => outcome,
            Ok(listing) => {
                let outcome = if listing.windows.is_empty() {
                    DiscoveryOutcome::NoWindows
                } else {
                    DiscoveryOutcome::Answered
                };
                self.windows
                    .known
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .learn(listing, Instant::now());
                outcome
            }
        };
        self.outcome = Some(outcome);
    }
}

async fn list_models(
    upstream: &Upstream,
    credentials: HeaderMap,
) -> Result<Listing, DiscoveryOutcome> {
    let mut request = Request::new(RequestBody::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = upstream
        .uri("/v1/models")
        .map_err(|_| DiscoveryOutcome::Unreachable)?;
    *request.headers_mut() = credentials;
    let (response, _slot) = upstream
        .send(request)
        .await
        .map_err(|_| DiscoveryOutcome::Unreachable)?;
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(DiscoveryOutcome::Refused),
        status if !status.is_success() => return Err(DiscoveryOutcome::Status),
        _ => {}
    }
    let body = Limited::new(response.into_body(), MAX_BYTES);
    let body: Bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(DiscoveryOutcome::TooLarge),
        Err(_) => return Err(DiscoveryOutcome::Broken),
    };
    // A long list takes milliseconds, which requests on this thread would wait for.
    let listing = tokio::task::spawn_blocking(move || model_list::read(&body)).await;
    listing.ok().flatten().ok_or(DiscoveryOutcome::NotModels)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Fingerprint = Fingerprint([1; 32]);
    const BOB: Fingerprint = Fingerprint([2; 32]);

    fn listing(windows: &[(&str, u64)]) -> Listing {
        Listing {
            windows: windows
                .iter()
                .map(|(name, tokens)| ((*name).to_owned(), *tokens))
                .collect(),
            any: None,
        }
    }

    #[test]
    fn one_call_at_a_time_then_each_credential_once_a_lifetime_at_a_pace() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        assert!(
            schedule.begin(&ALICE, start)
                && !schedule.begin(&ALICE, start)
                && !schedule.begin(&BOB, start)
        );
        schedule.ended(ALICE, Some(DiscoveryOutcome::Answered), start);
        assert!(
            !schedule.begin(&BOB, start + PACE / 2),
            "the pace holds for all"
        );
        assert!(
            !schedule.begin(&ALICE, start + LIFETIME - PACE),
            "her list is known"
        );
        assert!(
            schedule.begin(&BOB, start + PACE),
            "his may name other models"
        );
        schedule.ended(BOB, Some(DiscoveryOutcome::Refused), start + PACE);
        assert!(
            !schedule.begin(&BOB, start + LIFETIME),
            "a key that may not ask is not tried again soon"
        );
        assert!(schedule.begin(&ALICE, start + LIFETIME));
    }

    #[test]
    fn failures_are_retried_ever_more_seldom() {
        let (mut schedule, mut now) = (Schedule::default(), Instant::now());
        for seconds in [30, 60, 120, 240, 480, 600, 600, 600] {
            assert!(schedule.begin(&ALICE, now));
            schedule.ended(ALICE, Some(DiscoveryOutcome::Status), now);
            now += Duration::from_secs(seconds);
            assert!(
                !schedule.begin(&BOB, now - Duration::from_secs(1)),
                "{seconds}"
            );
        }
        assert!(schedule.begin(&BOB, now));
        schedule.ended(BOB, Some(DiscoveryOutcome::NoWindows), now);
        assert!(
            schedule.begin(&ALICE, now + PACE),
            "an answer ends the waiting"
        );
        schedule.ended(ALICE, Some(DiscoveryOutcome::Timeout), now);
        assert!(schedule.begin(&ALICE, now + FIRST_RETRY));
    }

    #[test]
    fn credentials_without_end_are_bounded_and_forgotten_in_time() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let mut now = start;
        for n in 0..MAX_TENANTS + 10 {
            let tenant = Fingerprint::of(&n.to_le_bytes());
            if schedule.begin(&tenant, start) {
                schedule.ended(tenant, Some(DiscoveryOutcome::Answered), start - PACE);
            }
            now = start;
        }
        assert_eq!(schedule.asked.len(), MAX_TENANTS);
        assert!(!schedule.begin(&ALICE, now) && !schedule.running);
        assert!(schedule.begin(&ALICE, now + LIFETIME));
    }

    #[test]
    fn a_figure_narrows_at_once_widens_in_time_and_outlives_its_absence() {
        let (mut known, start) = (Known::default(), Instant::now());
        let tokens = |known: &Known| known.get(Some("m")).map(|figure| figure.tokens);
        known.learn(listing(&[("m", 8_192)]), start);
        known.learn(listing(&[("m", 32_768)]), start + PACE);
        assert_eq!(tokens(&known), Some(8_192));
        known.learn(listing(&[("m", 4_096)]), start + PACE * 2);
        assert_eq!(tokens(&known), Some(4_096));
        known.learn(listing(&[("other", 1_000)]), start + PACE * 3);
        assert_eq!(tokens(&known), Some(4_096));
        known.learn(listing(&[("m", 32_768)]), start + PACE * 2 + LIFETIME);
        assert_eq!(tokens(&known), Some(32_768));
    }

    #[test]
    fn an_upstream_that_answers_to_any_name_is_believed_until_it_says_otherwise() {
        let (mut known, start) = (Known::default(), Instant::now());
        known.learn(
            Listing {
                any: Some(4_096),
                ..listing(&[("a.gguf", 4_096)])
            },
            start,
        );
        assert_eq!(
            known.get(Some("gpt-4o")).map(|figure| figure.tokens),
            Some(4_096)
        );
        assert!(known.get(None).is_some());
        known.learn(
            listing(&[("a.gguf", 4_096), ("b.gguf", 8_192)]),
            start + PACE,
        );
        assert!(known.get(Some("gpt-4o")).is_none() && known.get(Some("b.gguf")).is_some());
    }

    #[test]
    fn models_without_end_are_bounded() {
        let (mut known, now) = (Known::default(), Instant::now());
        for round in 0..3 {
            let windows = (0..MAX_MODELS - 1)
                .map(|n| (format!("{round}-{n}"), 8_192))
                .collect();
            known.learn(Listing { windows, any: None }, now);
        }
        assert_eq!(known.models.len(), MAX_MODELS);
    }
}
