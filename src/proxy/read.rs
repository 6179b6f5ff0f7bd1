//! What comes from the client: permits, the limited read of a body, and the wishes in its headers.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::EXPECT;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Limits;
use crate::core::planner::PriorUsage;
use crate::proxy::error::ProxyError;

/// Memory is handed out in pieces of this many bytes.
const UNIT_BYTES: usize = 1_024;
/// Capacity reserved at once for a body whose length was announced; an announcement costs its sender nothing.
const FIRST_CAPACITY: usize = 256 * 1_024;

/// How long the rest of a body that was refused is read and thrown away.
const LINGER: Duration = Duration::from_secs(2);

/// The bounds that all requests share.
#[derive(Debug)]
pub(super) struct Admission {
    in_flight: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    body_bytes: usize,
    body_timeout: Duration,
    gauge: IntGauge,
}

/// A request's place among those in flight. Lives in the answer's body, so that streams count until they end.
#[derive(Debug)]
pub struct Permit {
    _in_flight: OwnedSemaphorePermit,
    gauge: IntGauge,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// A body in memory, and its share of the memory that bodies may take.
#[derive(Debug)]
pub(super) struct BufferedBody {
    /// The bytes.
    pub bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

impl Admission {
    /// Bounds from the configuration; `gauge` shows the requests in flight.
    #[must_use]
    pub(super) fn new(limits: &Limits, gauge: IntGauge) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Admission {
            in_flight: permits(limits.in_flight),
            memory: permits(limits.memory_bytes / UNIT_BYTES),
            body_bytes: limits.body_bytes,
            body_timeout: limits.body_timeout,
            gauge,
        }
    }

    /// A place among the requests in flight.
    ///
    /// # Errors
    /// [`ProxyError::Overloaded`] when all are taken.
    pub(super) fn admit(&self) -> Result<Permit, ProxyError> {
        let permit = Arc::clone(&self.in_flight)
            .try_acquire_owned()
            .map_err(|_| ProxyError::Overloaded)?;
        self.gauge.inc();
        Ok(Permit {
            _in_flight: permit,
            gauge: self.gauge.clone(),
        })
    }

    /// Reads a body of limited length in limited time.
    ///
    /// # Errors
    /// [`ProxyError`]: too long, too slow, broken off, or no memory left.
    pub(super) async fn read(
        &self,
        mut body: Incoming,
        headers: &HeaderMap,
    ) -> Result<BufferedBody, ProxyError> {
        let read = tokio::time::timeout(self.body_timeout, self.collect(&mut body))
            .await
            .unwrap_or(Err(ProxyError::BodyTimeout));
        if let Err(ProxyError::BodyTooLarge | ProxyError::OutOfMemory) = read
            && !headers.contains_key(EXPECT)
        {
            // A client that is still writing would see its connection reset, and not the refusal. One that waits to be
            // told to go on is not.
            let rest = async { while let Some(Ok(_)) = body.frame().await {} };
            let _ = tokio::time::timeout(LINGER, rest).await;
        }
        read
    }

    async fn collect(&self, body: &mut Incoming) -> Result<BufferedBody, ProxyError> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > self.body_bytes {
            return Err(ProxyError::BodyTooLarge);
        }
        let mut memory = self.reserve(announced.max(UNIT_BYTES))?;
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| ProxyError::BodyBroken)?.into_data() else {
                continue;
            };
            let length = first.as_ref().map_or(0, Bytes::len).max(rest.len()) + data.len();
            if length > self.body_bytes {
                return Err(ProxyError::BodyTooLarge);
            }
            let held = memory.num_permits() * UNIT_BYTES;
            if length > held {
                // Grown by doubling, so that a body of unknown length asks seldom.
                memory.merge(self.reserve(length.max(held * 2).min(self.body_bytes) - held)?);
            }
            // A body that comes in one piece is not copied.
            match first.take() {
                None if rest.is_empty() => first = Some(data),
                None => rest.extend_from_slice(&data),
                Some(piece) => {
                    rest.reserve(announced.clamp(length, FIRST_CAPACITY.max(length)));
                    rest.extend_from_slice(&piece);
                    rest.extend_from_slice(&data);
                }
            }
        }
        Ok(BufferedBody {
            bytes: first.unwrap_or_else(|| rest.freeze()),
            _memory: memory,
        })
    }

    fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ProxyError> {
        let units =
            u32::try_from(bytes.div_ceil(UNIT_BYTES)).map_err(|_| ProxyError::OutOfMemory)?;
        Arc::clone(&self.memory)
            .try_acquire_many_owned(units)
            .map_err(|_| ProxyError::OutOfMemory)
    }
}

/// What a request's own headers ask of Baler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModeOverride {
    /// Nothing.
    None,
    /// `x-baler-mode: off`
    Off,
    /// `x-baler-mode: observe`
    Observe,
    /// `x-baler-mode: force`
    Force,
}

/// Header names that speak to Baler and go no further.
pub(super) const POLICY: &str = "x-baler-policy";
pub(super) const MODE: &str = "x-baler-mode";
pub(super) const REQUEST_ID: &str = "x-baler-request-id";
pub(super) const USAGE: &str = "x-baler-usage";

/// Reads `x-baler-mode`; an unknown word asks for nothing.
#[must_use]
pub(super) fn mode_override(headers: &HeaderMap) -> ModeOverride {
    match headers
        .get(MODE)
        .map(|value| value.as_bytes().to_ascii_lowercase())
        .as_deref()
    {
        Some(b"off") => ModeOverride::Off,
        Some(b"observe") => ModeOverride::Observe,
        Some(b"force") => ModeOverride::Force,
        _ => ModeOverride::None,
    }
}

/// The usage that the client brings along from an answer before.
#[must_use]
pub(super) fn prior(headers: &HeaderMap) -> Option<PriorUsage> {
    PriorUsage::parse(headers.get(USAGE)?.to_str().ok()?)
}

/// The client's own id for the request if it is plain and short, else a new one: 128 random bits.
#[must_use]
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let plain = |id: &&str| {
        !id.is_empty()
            && id.len() <= 64
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    match headers
        .get(REQUEST_ID)
        .and_then(|id| id.to_str().ok())
        .filter(plain)
    {
        Some(id) => id.to_owned(),
        None => crate::random::id(),
    }
}
