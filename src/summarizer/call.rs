//! One call of the summariser: within a deadline, with one retry where that may help.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, RETRY_AFTER};

use crate::core::wire::overflow;
use crate::core::wire::own_call::Parameter;
use crate::observe::event::CallOutcome;
use crate::summarizer::OWN_DIALECT;

/// The wait before a retry, when the upstream asks for none.
const BACK_OFF: Duration = Duration::from_secs(1);
/// Bytes of an error's body that are read.
const ERROR_BYTES: usize = 64 * 1_024;

/// What the calls for one summary came to, for the log.
#[derive(Debug, Default)]
pub(super) struct CallTrace(Mutex<Last>);

/// The calls so far, and how the last one ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Last {
    /// Calls that were made, repeated ones included.
    pub tries: u64,
    /// The status of the last answer.
    pub status: Option<u16>,
    /// Why there was no connection.
    pub cause: Option<String>,
}

impl CallTrace {
    fn update(&self, change: impl FnOnce(&mut Last)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A call begins.
    pub(super) fn begins(&self) {
        self.update(|last| {
            *last = Last {
                tries: last.tries + 1,
                ..Last::default()
            }
        });
    }

    /// It was answered with this status.
    pub(super) fn answered(&self, status: u16) {
        self.update(|last| last.status = Some(status));
    }

    /// It did not come to a connection.
    pub(super) fn unreachable(&self, cause: String) {
        self.update(|last| last.cause = Some(cause));
    }

    /// The state now.
    pub(super) fn last(&self) -> Last {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// No connection.
    Unreachable,
    /// The connection or the body broke.
    Broken,
    /// Not in time.
    Timeout,
    /// 429, or 5xx; with the wait that the upstream asks for.
    Overloaded(Option<Duration>),
    /// The prompt is too long for it; with its window in tokens, where the error states it.
    TooLong(Option<u64>),
    /// It does not know a parameter.
    Parameter(Parameter),
    /// Another status.
    Refused,
    /// Not made: there were too many calls in the last minute.
    Rate,
    /// The answer exceeds the limit.
    TooLarge,
}

impl Failed {
    /// The outcome of a call that failed so.
    pub(super) fn outcome(&self) -> CallOutcome {
        match self {
            Failed::Unreachable => CallOutcome::Unreachable,
            Failed::Broken => CallOutcome::Broken,
            Failed::Timeout => CallOutcome::Timeout,
            Failed::Overloaded(_) => CallOutcome::Overloaded,
            Failed::TooLong(_) => CallOutcome::Overflow,
            Failed::Parameter(_) => CallOutcome::Parameter,
            Failed::Refused => CallOutcome::RefusedRequest,
            Failed::Rate => CallOutcome::Rate,
            Failed::TooLarge => CallOutcome::TooLarge,
        }
    }

    /// The wait before another try, where that may help.
    fn wait(&self) -> Option<Duration> {
        match self {
            Failed::Unreachable | Failed::Broken | Failed::Timeout => Some(BACK_OFF),
            Failed::Overloaded(asked) => Some(asked.unwrap_or(BACK_OFF)),
            _ => None,
        }
    }
}

/// Calls once, and once more after a wait, unless that is longer than `longest_wait` or would not
/// help. `report` gets the outcome and the time of each try.
pub(super) async fn with_retry<T, F: Future<Output = Result<T, Failed>>>(
    timeout: Duration,
    longest_wait: Duration,
    call: impl Fn() -> F,
    report: impl Fn(CallOutcome, Duration),
) -> Result<T, Failed> {
    let mut retried = false;
    loop {
        let began = tokio::time::Instant::now();
        let answered = tokio::time::timeout(timeout, call())
            .await
            .unwrap_or(Err(Failed::Timeout));
        let outcome = answered.as_ref().err().map(Failed::outcome);
        report(outcome.unwrap_or(CallOutcome::Answered), began.elapsed());
        let wait = answered
            .as_ref()
            .err()
            .and_then(Failed::wait)
            .filter(|wait| *wait <= longest_wait && !retried);
        let Some(wait) = wait else { return answered };
        tokio::time::sleep(wait).await;
        retried = true;
    }
}

/// The body of an answer, of at most `max_bytes`.
pub(super) async fn body(response: Response<Incoming>, max_bytes: usize) -> Result<Bytes, Failed> {
    let status = response.status();
    let wait = retry_after(response.headers());
    let limit = if status.is_success() {
        max_bytes
    } else {
        ERROR_BYTES
    };
    let collected = Limited::new(response.into_body(), limit)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    if status.is_success() {
        return match collected {
            Ok(body) => overflow::in_answer(status.as_u16(), &body)
                .map_or(Ok(body), |overflow| Err(Failed::TooLong(overflow.window))),
            Err(error) if error.is::<LengthLimitError>() => Err(Failed::TooLarge),
            Err(_) => Err(Failed::Broken),
        };
    }
    let body = collected.unwrap_or_default();
    Err(match status.as_u16() {
        status if let Some(overflow) = overflow::in_answer(status, &body) => {
            Failed::TooLong(overflow.window)
        }
        400 | 422 => {
            let parameter = OWN_DIALECT.refused_parameter(&body);
            parameter.map_or(Failed::Refused, Failed::Parameter)
        }
        408 | 425 | 429 | 500.. => Failed::Overloaded(wait),
        _ => Failed::Refused,
    })
}

/// The wait that an answer asks for: `retry-after-ms`, else `retry-after` in seconds. A date is
/// ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| {
        headers
            .get(name)?
            .to_str()
            .ok()?
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|number| (0.0..1e9).contains(number))
    };
    let milliseconds = number("retry-after-ms").map(|number| Duration::from_secs_f64(number / 1e3));
    milliseconds.or_else(|| number(RETRY_AFTER.as_str()).map(Duration::from_secs_f64))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// The result of calls that get one of `answers` per try, the number of tries, and the time it
    /// took.
    async fn tried(answers: Vec<Result<u8, Failed>>) -> (Result<u8, Failed>, usize, Duration) {
        let (left, tries, began) = (
            RefCell::new(answers),
            Cell::new(0),
            tokio::time::Instant::now(),
        );
        let call = || {
            let next = left.borrow_mut().remove(0);
            async {
                match next {
                    // An answer that never arrives.
                    Err(Failed::Timeout) => std::future::pending().await,
                    answer => answer,
                }
            }
        };
        let result = with_retry(
            Duration::from_secs(60),
            Duration::from_secs(20),
            call,
            |_, _| tries.set(tries.get() + 1),
        )
        .await;
        (result, tries.get(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_once_more() {
        assert_eq!(tried(vec![Ok(1)]).await, (Ok(1), 1, Duration::ZERO));
        assert_eq!(
            tried(vec![Err(Failed::Overloaded(None)), Ok(2)]).await,
            (Ok(2), 2, BACK_OFF)
        );
        assert_eq!(
            tried(vec![Err(Failed::Unreachable), Err(Failed::Broken)]).await,
            (Err(Failed::Broken), 2, BACK_OFF)
        );
        assert_eq!(
            tried(vec![Err(Failed::Timeout), Ok(2)]).await,
            (Ok(2), 2, Duration::from_secs(61))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_upstream_says_how_long_to_wait() {
        let wait = |seconds| Err(Failed::Overloaded(Some(Duration::from_secs(seconds))));
        assert_eq!(
            tried(vec![wait(7), Ok(2)]).await,
            (Ok(2), 2, Duration::from_secs(7))
        );
        assert_eq!(tried(vec![wait(21)]).await, (wait(21), 1, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_not_pass_is_not_tried_again() {
        for failed in [
            Failed::Refused,
            Failed::TooLarge,
            Failed::TooLong(None),
            Failed::Parameter(Parameter::Temperature),
        ] {
            assert_eq!(
                tried(vec![Err(failed.clone())]).await,
                (Err(failed), 1, Duration::ZERO)
            );
        }
    }

    #[test]
    fn headers_are_read_with_care() {
        let wait = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(wait("retry-after", "2"), Some(Duration::from_secs(2)));
        assert_eq!(
            wait("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        for nonsense in ["-1", "NaN", "inf", "1e300", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
    }
}
