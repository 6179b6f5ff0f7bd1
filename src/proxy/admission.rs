//! Admission: the permits of requests in flight, and the memory for bodies that are read.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::EXPECT;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Limits;
use crate::observe::Metrics;
use crate::observe::event::{RequestAdmitted, RequestReleased};
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::Exchange;

/// Memory is reserved in units of this many bytes.
const UNIT_BYTES: usize = 1_024;
/// Capacity reserved at once for a body of announced length; an announcement costs its sender
/// nothing.
const FIRST_CAPACITY: usize = 256 * 1_024;

/// Time during which the rest of a refused body is read and discarded.
const LINGER: Duration = Duration::from_secs(2);

/// The bounds that all requests share.
#[derive(Debug)]
pub(super) struct Admission {
    in_flight: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    body_bytes: usize,
    body_timeout: Duration,
    metrics: Arc<Metrics>,
}

/// A request's place among those in flight. It lives in the answer's body, so that streams count
/// until they end.
#[derive(Debug)]
pub(super) struct Permit {
    _in_flight: OwnedSemaphorePermit,
    metrics: Arc<Metrics>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        RequestReleased.emit(&self.metrics);
    }
}

/// A body in memory, and its share of the memory that bodies may take.
#[derive(Debug)]
pub(super) struct BufferedBody {
    /// The bytes.
    pub bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

impl BufferedBody {
    /// Keeps memory for as long as the body lives.
    pub(super) fn hold(&mut self, memory: Memory) {
        if let Some(taken) = memory.taken {
            self._memory.merge(taken);
        }
    }
}

/// Memory for bodies that is taken bit by bit.
#[derive(Debug)]
pub(super) struct Memory {
    all: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// Takes what is missing to hold so many bytes; false when there is not so much left.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let taken = self.taken.as_ref();
        let held = taken.map_or(0, OwnedSemaphorePermit::num_permits) * UNIT_BYTES;
        if bytes <= held {
            return true;
        }
        // Doubling keeps reservations rare.
        let units = (bytes.max(held * 2) - held).div_ceil(UNIT_BYTES);
        let Ok(units) = u32::try_from(units) else {
            return false;
        };
        let Ok(more) = Arc::clone(&self.all).try_acquire_many_owned(units) else {
            return false;
        };
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        true
    }
}

impl Admission {
    /// The length of the longest body that is inspected, bytes.
    pub(super) fn longest_body(&self) -> usize {
        self.body_bytes
    }

    /// Memory for bodies, of which nothing is taken yet.
    pub(super) fn memory(&self) -> Memory {
        Memory {
            all: Arc::clone(&self.memory),
            taken: None,
        }
    }

    /// Bounds from the configuration.
    #[must_use]
    pub(super) fn new(limits: &Limits, metrics: Arc<Metrics>) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Admission {
            in_flight: permits(limits.in_flight),
            memory: permits(limits.memory_bytes / UNIT_BYTES),
            body_bytes: limits.body_bytes,
            body_timeout: limits.body_timeout,
            metrics,
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
        RequestAdmitted.emit(&self.metrics);
        Ok(Permit {
            _in_flight: permit,
            metrics: Arc::clone(&self.metrics),
        })
    }

    /// Reads a body within the limits of length and time.
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
            // A client that is still writing would see its connection reset instead of the error. A
            // client that waits for `100 Continue` is not writing.
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
                // Doubling keeps reservations rare for a body of unknown length.
                memory.merge(self.reserve(length.max(held * 2).min(self.body_bytes) - held)?);
            }
            // A body that arrives in one piece is not copied.
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

impl Exchange {
    /// 1. Admit: takes a permit.
    ///
    /// # Errors
    /// [`ProxyError::Overloaded`] when all are taken.
    pub(super) fn admit(&mut self) -> Result<(), ProxyError> {
        self.permit = Some(self.proxy.shared.admission.admit()?);
        Ok(())
    }
}
