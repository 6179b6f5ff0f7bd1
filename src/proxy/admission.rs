//! Admission: the permits of requests in flight, and the memory for bodies that are read.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::EXPECT;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::config::{Limits, OnOverload};
use crate::observe::Metrics;
use crate::observe::event::{RequestAdmitted, RequestReleased};
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::Exchange;

/// Memory is reserved in units of this many bytes.
const UNIT_BYTES: usize = 1_024;
/// Capacity for a body of announced length until so much of it arrived; an announcement costs its
/// sender nothing.
const FIRST_CAPACITY: usize = 1 << 20;

/// The least bytes a second of a body on its way, on average.
const LEAST_RATE: u64 = 1_024;
/// Time before a body must arrive at the least rate.
const RATE_GRACE: Duration = Duration::from_secs(10);
/// Time during which the rest of a refused body is read and discarded.
const LINGER: Duration = Duration::from_secs(2);

/// The bounds that all requests share.
#[derive(Debug)]
pub(super) struct Admission {
    in_flight: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    body_bytes: usize,
    body_timeout: Duration,
    on_overload: OnOverload,
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
    memory: Vec<Memory>,
}

/// A body that there is no room to look at: what arrived of it, and the rest.
#[derive(Debug)]
pub(super) struct ShedBody {
    /// The bytes that arrived.
    pub begun: Bytes,
    /// The rest as it arrives.
    pub rest: Incoming,
    /// The bound that it would exceed.
    pub bound: Bound,
}

/// A bound of bodies that are inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// `limits.body_bytes`.
    Length,
    /// `limits.memory_bytes`.
    Memory,
}

/// The outcome of reading a body.
#[derive(Debug)]
pub(super) enum ReadBody {
    /// All of it is in memory.
    Whole(BufferedBody),
    /// It is to be streamed through unread.
    Shed(ShedBody),
}

/// What arrived of a body so far.
#[derive(Default)]
struct Arrived {
    /// A body that arrives in one piece is not copied.
    first: Option<Bytes>,
    all: BytesMut,
}

impl Arrived {
    fn len(&self) -> usize {
        self.first
            .as_ref()
            .map_or(0, Bytes::len)
            .max(self.all.len())
    }

    /// Adds a piece of a body of this announced length.
    fn push(&mut self, piece: Bytes, announced: usize) {
        if self.len() == 0 {
            self.first = Some(piece);
            return;
        }
        let length = self.len() + piece.len();
        // One allocation for all of it, once its sender has shown that it means it.
        let capacity = if length > FIRST_CAPACITY {
            announced
        } else {
            announced.min(FIRST_CAPACITY)
        };
        if self.all.capacity() < length {
            self.all.reserve(capacity.max(length) - self.all.len());
        }
        if let Some(first) = self.first.take() {
            self.all.extend_from_slice(&first);
        }
        self.all.extend_from_slice(&piece);
    }

    fn into_bytes(self) -> Bytes {
        self.first.unwrap_or_else(|| self.all.freeze())
    }
}

impl BufferedBody {
    /// Keeps memory for as long as the body lives.
    pub(super) fn hold(&mut self, memory: Memory) {
        self.memory.push(memory);
    }
}

/// Memory for bodies that is taken bit by bit.
#[derive(Debug)]
pub(super) struct Memory {
    all: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Memory {
    /// Takes what is missing to hold so many bytes, and more up to `most`; false when there is not
    /// so much left.
    pub(super) fn grow(&mut self, bytes: usize, most: usize) -> bool {
        let taken = self.taken.as_ref();
        let held = taken.map_or(0, OwnedSemaphorePermit::num_permits) * UNIT_BYTES;
        if bytes <= held {
            return true;
        }
        let take = |bytes: usize| {
            let units = u32::try_from((bytes - held).div_ceil(UNIT_BYTES)).ok()?;
            Arc::clone(&self.all).try_acquire_many_owned(units).ok()
        };
        // Doubling keeps reservations rare.
        let Some(more) = take((bytes * 2).min(most).max(bytes)).or_else(|| take(bytes)) else {
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
            on_overload: limits.on_overload,
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

    /// Reads a body within the limits of length and time. A body that there is no room for is shed,
    /// unless it is to be refused.
    ///
    /// # Errors
    /// [`ProxyError`]: too long or no memory left, where such requests are refused; too slow, or
    /// broken off.
    pub(super) async fn read(
        &self,
        mut body: Incoming,
        headers: &HeaderMap,
    ) -> Result<ReadBody, ProxyError> {
        let mut arrived = Arrived::default();
        let collected = self.collect(&mut body, &mut arrived);
        let collected = tokio::time::timeout(self.body_timeout, collected).await;
        let bound = match collected.unwrap_or(Err(ProxyError::BodyTimeout))? {
            Ok(memory) => {
                return Ok(ReadBody::Whole(BufferedBody {
                    bytes: arrived.into_bytes(),
                    memory: vec![memory],
                }));
            }
            Err(bound) => bound,
        };
        if self.on_overload == OnOverload::Bypass {
            return Ok(ReadBody::Shed(ShedBody {
                begun: arrived.into_bytes(),
                rest: body,
                bound,
            }));
        }
        if !headers.contains_key(EXPECT) {
            // A client that is still writing would see its connection reset instead of the error. A
            // client that waits for `100 Continue` is not writing.
            let rest = async { while let Some(Ok(_)) = body.frame().await {} };
            let _ = tokio::time::timeout(LINGER, rest).await;
        }
        Err(match bound {
            Bound::Length => ProxyError::BodyTooLarge,
            Bound::Memory => ProxyError::OutOfMemory,
        })
    }

    /// Collects a body. Memory is taken as bytes arrive; what arrived stays in `arrived` when a
    /// bound is met.
    async fn collect(
        &self,
        body: &mut Incoming,
        arrived: &mut Arrived,
    ) -> Result<Result<Memory, Bound>, ProxyError> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > self.body_bytes {
            return Ok(Err(Bound::Length));
        }
        let mut memory = self.memory();
        let began = Instant::now();
        loop {
            let earned = Duration::from_secs(arrived.len() as u64 / LEAST_RATE);
            let frame = tokio::time::timeout_at(began + RATE_GRACE + earned, body.frame());
            let Some(frame) = frame.await.map_err(|_| ProxyError::BodyTimeout)? else {
                return Ok(Ok(memory));
            };
            let Ok(data) = frame.map_err(|_| ProxyError::BodyBroken)?.into_data() else {
                continue;
            };
            arrived.push(data, announced);
            let length = arrived.len();
            if length > self.body_bytes {
                return Ok(Err(Bound::Length));
            }
            let most = if announced < length {
                self.body_bytes
            } else {
                announced
            };
            if !memory.grow(length, most) {
                return Ok(Err(Bound::Memory));
            }
        }
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
