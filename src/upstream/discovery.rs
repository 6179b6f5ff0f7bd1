//! What the upstream says of its models' windows: who asks, when, with which credentials, and what is kept of the answer.
//! Reading an answer is `core::discovery`; which figure counts is the policy's (`Policy::window_by`).
//!
//! A request that needs a window never waits for it: it is decided about with what is known, and a task of its own asks
//! for the next ones. Baler has no key, so the task asks with the credentials of the request that it was started for.
//!
//! INVARIANT: a window is part of what derived decisions stand on, and a change of it makes conversations lose their
//! checkpoints (never their validity). So a figure stays until another one replaces it: failures and lists that do not
//! name the model any more change nothing; within `LIFETIME` a figure only narrows; it widens with a later answer.
//! A new process decides its first requests by the table, and by the upstream from the first answer on.
//!
//! What one credential's list teaches holds for all: a list may be cut to what a key may use, but a model's window is the
//! server's and not the key's. Which models exist for whom is never shown to anybody.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::http::{HeaderMap, StatusCode};
use hyper::{Method, Request};

use crate::background::Background;
use crate::core::conversation::Fingerprint;
use crate::core::wire::model_list::{self, Listing};
use crate::observe::{Metrics, discovery_ended, unknown_model, unknown_models_are_many};
use crate::upstream::{Outgoing, Upstream};

/// A figure younger than this is not asked for again.
const LIFETIME: Duration = Duration::from_secs(600);
/// Between two calls, whoever wants them: credentials may be many.
const PACE: Duration = Duration::from_secs(10);
/// Until the next call after the upstream failed; doubled for each failure in a row, up to [`LIFETIME`].
const FIRST_RETRY: Duration = Duration::from_secs(30);
/// For one call, connecting and the answer's last byte included.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer; the largest public list has less than a tenth of it.
const MAX_BYTES: usize = 4 << 20;
/// Models whose window is kept; later ones are not.
const MAX_MODELS: usize = model_list::MAX_ENTRIES;
/// Credentials of which is kept when they asked last.
const MAX_TENANTS: usize = 256;
/// Unknown models that are named in the log.
const MAX_TOLD: usize = 256;
/// Bytes of a model's name in the log.
const TOLD_BYTES: usize = 96;

/// What is known of one upstream's windows. There is one a process, as there is one upstream.
#[derive(Debug)]
pub struct Windows {
    /// Whether the upstream is asked at all.
    discovers: bool,
    known: RwLock<Known>,
    schedule: Mutex<Schedule>,
    /// Whether an answer came, or a failure: before, nobody can say that the upstream does not know a model.
    heard: AtomicBool,
    /// Names of unknown models that were told.
    told: Mutex<HashSet<String>>,
    metrics: Arc<Metrics>,
    /// Those who ask.
    pub background: Background,
}

/// A context length, and when the upstream said so.
#[derive(Debug, Clone, Copy)]
struct Figure {
    tokens: u64,
    since: Instant,
}

#[derive(Debug, Default)]
struct Known {
    models: HashMap<String, Figure>,
    /// Of an upstream that answers to any name.
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
        // Unlike a name, "whatever you call it" does not outlive the answer that says otherwise.
        self.any = listing.any.map(|tokens| newer(self.any, tokens));
    }
}

/// When the upstream may be asked again.
#[derive(Debug, Default)]
struct Schedule {
    running: bool,
    /// Nobody asks before.
    not_before: Option<Instant>,
    /// Failures of the upstream in a row.
    failures: u32,
    /// These credentials do not ask before: their list is known, or they get none.
    asked: HashMap<Fingerprint, Instant>,
}

impl Schedule {
    /// Whether these credentials may ask now; if so, nobody else may until [`Schedule::ended`].
    fn claim(&mut self, tenant: &Fingerprint, now: Instant) -> bool {
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

    fn ended(&mut self, tenant: Fingerprint, outcome: Outcome, now: Instant) {
        self.running = false;
        self.not_before = Some(now + PACE);
        if outcome.is_the_upstreams_fault() {
            self.not_before = Some(now + (FIRST_RETRY * (1 << self.failures.min(5))).min(LIFETIME));
            self.failures += 1;
        } else {
            self.failures = 0;
            self.asked.insert(tenant, now + LIFETIME);
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// With at least one window.
    Answered,
    /// With a list that names none: OpenAI's, for one.
    NoWindows,
    /// These credentials may not ask.
    Refused,
    Unreachable,
    Status,
    Broken,
    TooLarge,
    NotModels,
    Timeout,
    /// Baler stops: of this nobody is told.
    Stopped,
}

impl Outcome {
    /// Label value.
    fn as_str(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::NoWindows => "no_windows",
            Outcome::Refused => "refused",
            Outcome::Unreachable => "unreachable",
            Outcome::Status => "status",
            Outcome::Broken => "broken",
            Outcome::TooLarge => "too_large",
            Outcome::NotModels => "not_models",
            Outcome::Timeout => "timeout",
            Outcome::Stopped => "stopped",
        }
    }

    fn is_the_upstreams_fault(self) -> bool {
        !matches!(
            self,
            Outcome::Answered | Outcome::NoWindows | Outcome::Refused
        )
    }
}

/// The right to ask, which one task has at a time. What ends without an outcome has failed.
#[derive(Debug)]
pub struct Claim {
    windows: Arc<Windows>,
    tenant: Fingerprint,
    outcome: Outcome,
}

impl Drop for Claim {
    fn drop(&mut self) {
        locked(&self.windows.schedule).ended(self.tenant, self.outcome, Instant::now());
        if self.outcome == Outcome::Stopped {
            return;
        }
        self.windows.heard.store(true, Ordering::Relaxed);
        let known = self
            .windows
            .known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .models
            .len();
        discovery_ended(
            &self.windows.metrics,
            self.outcome.as_str(),
            !self.outcome.is_the_upstreams_fault(),
            known,
        );
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these protect is written whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Windows {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(discovers: bool, metrics: Arc<Metrics>) -> Self {
        Windows {
            discovers,
            known: RwLock::default(),
            schedule: Mutex::default(),
            heard: AtomicBool::new(false),
            told: Mutex::default(),
            metrics,
            background: Background::default(),
        }
    }

    /// What the upstream says of this model, tokens.
    #[must_use]
    pub fn discovered(&self, model: Option<&str>) -> Option<u64> {
        self.discovers
            .then(|| self.figure(model))?
            .map(|figure| figure.tokens)
    }

    /// What is known of it, and since when.
    fn figure(&self, model: Option<&str>) -> Option<Figure> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(model)
    }

    /// The right to ask the upstream now, when what it says of this model is not known or old.
    #[must_use]
    pub fn claim(self: &Arc<Self>, model: Option<&str>, tenant: Fingerprint) -> Option<Claim> {
        let now = Instant::now();
        let fresh = || {
            self.figure(model)
                .is_some_and(|figure| now.saturating_duration_since(figure.since) < LIFETIME)
        };
        if !self.discovers
            || self.background.is_closing()
            || fresh()
            || !locked(&self.schedule).claim(&tenant, now)
        {
            return None;
        }
        Some(Claim {
            windows: Arc::clone(self),
            tenant,
            outcome: Outcome::Stopped,
        })
    }

    /// Says once of a model that nobody knows which window it is given. A client chooses names: they are bounded in length
    /// and number, and have no characters that a log could mistake for its own.
    pub fn log_unknown_once(&self, policy: &str, model: Option<&str>, window: u64) {
        let Some(model) = model.filter(|_| !self.discovers || self.heard.load(Ordering::Relaxed))
        else {
            return;
        };
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.:/@+".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name: String = model.chars().take(TOLD_BYTES).map(plain).collect();
        let mut told = locked(&self.told);
        if told.len() < MAX_TOLD && told.insert(name.clone()) {
            unknown_model(policy, &name, window);
            if told.len() == MAX_TOLD {
                unknown_models_are_many(MAX_TOLD);
            }
        }
    }
}

impl Claim {
    /// Asks, with these headers and no others, and keeps what was learned.
    pub async fn ask(mut self, upstream: &Upstream, credentials: HeaderMap) {
        let asked = tokio::time::timeout(DEADLINE, ask(upstream, credentials)).await;
        self.outcome = match asked.unwrap_or(Err(Outcome::Timeout)) {
            Err(outcome) => outcome,
            Ok(listing) => {
                let outcome = if listing.windows.is_empty() {
                    Outcome::NoWindows
                } else {
                    Outcome::Answered
                };
                self.windows
                    .known
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .learn(listing, Instant::now());
                outcome
            }
        };
    }
}

async fn ask(upstream: &Upstream, credentials: HeaderMap) -> Result<Listing, Outcome> {
    let mut request = Request::new(Outgoing::pieces(Vec::new()));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = upstream
        .uri("/v1/models")
        .map_err(|_| Outcome::Unreachable)?;
    *request.headers_mut() = credentials;
    let (response, _place) = upstream
        .send(request)
        .await
        .map_err(|_| Outcome::Unreachable)?;
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(Outcome::Refused),
        status if !status.is_success() => return Err(Outcome::Status),
        _ => {}
    }
    let body = Limited::new(response.into_body(), MAX_BYTES)
        .collect()
        .await;
    let body = body
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                Outcome::TooLarge
            } else {
                Outcome::Broken
            }
        })?
        .to_bytes();
    // A long list takes milliseconds, which requests on this thread would wait for.
    let read = tokio::task::spawn_blocking(move || model_list::read(&body)).await;
    read.ok().flatten().ok_or(Outcome::NotModels)
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
            schedule.claim(&ALICE, start)
                && !schedule.claim(&ALICE, start)
                && !schedule.claim(&BOB, start)
        );
        schedule.ended(ALICE, Outcome::Answered, start);
        assert!(
            !schedule.claim(&BOB, start + PACE / 2),
            "the pace holds for all"
        );
        assert!(
            !schedule.claim(&ALICE, start + LIFETIME - PACE),
            "her list is known"
        );
        assert!(
            schedule.claim(&BOB, start + PACE),
            "his may name other models"
        );
        schedule.ended(BOB, Outcome::Refused, start + PACE);
        assert!(
            !schedule.claim(&BOB, start + LIFETIME),
            "a key that may not ask is not tried again soon"
        );
        assert!(schedule.claim(&ALICE, start + LIFETIME));
    }

    #[test]
    fn failures_are_retried_ever_more_seldom() {
        let (mut schedule, mut now) = (Schedule::default(), Instant::now());
        for seconds in [30, 60, 120, 240, 480, 600, 600, 600] {
            assert!(schedule.claim(&ALICE, now));
            schedule.ended(ALICE, Outcome::Status, now);
            now += Duration::from_secs(seconds);
            assert!(
                !schedule.claim(&BOB, now - Duration::from_secs(1)),
                "{seconds}"
            );
        }
        assert!(schedule.claim(&BOB, now));
        schedule.ended(BOB, Outcome::NoWindows, now);
        assert!(
            schedule.claim(&ALICE, now + PACE),
            "an answer ends the waiting"
        );
        schedule.ended(ALICE, Outcome::Timeout, now);
        assert!(schedule.claim(&ALICE, now + FIRST_RETRY));
    }

    #[test]
    fn credentials_without_end_are_bounded_and_forgotten_in_time() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let mut now = start;
        for n in 0..MAX_TENANTS + 10 {
            let tenant = Fingerprint::of(&n.to_le_bytes());
            if schedule.claim(&tenant, start) {
                schedule.ended(tenant, Outcome::Answered, start - PACE);
            }
            now = start;
        }
        assert_eq!(schedule.asked.len(), MAX_TENANTS);
        assert!(!schedule.claim(&ALICE, now) && !schedule.running);
        assert!(schedule.claim(&ALICE, now + LIFETIME));
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
