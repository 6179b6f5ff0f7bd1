//! The bodies of requests to the upstream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The side that an upload waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadState {
    /// The client sends nothing.
    WaitsForClient,
    /// The upstream takes nothing.
    WaitsForUpstream,
    /// All of it was taken.
    Done,
}

/// How far an upload is; shared by its body and by whoever watches it.
#[derive(Debug)]
pub struct Upload {
    began: Instant,
    /// Milliseconds after `began` of the last piece.
    moved: AtomicU64,
    state: AtomicU8,
}

impl Upload {
    fn new(body: &Incoming) -> Arc<Self> {
        let upload = Upload {
            began: Instant::now(),
            moved: AtomicU64::new(0),
            state: AtomicU8::new(UploadState::WaitsForUpstream as u8),
        };
        if body.is_end_stream() {
            upload.enter(UploadState::Done);
        }
        Arc::new(upload)
    }

    /// When the last piece moved, or the upload began.
    #[must_use]
    pub fn last_moved(&self) -> Instant {
        self.began + Duration::from_millis(self.moved.load(Ordering::Relaxed))
    }

    /// What it waits for.
    #[must_use]
    pub fn state(&self) -> UploadState {
        match self.state.load(Ordering::Relaxed) {
            0 => UploadState::WaitsForClient,
            1 => UploadState::WaitsForUpstream,
            _ => UploadState::Done,
        }
    }

    fn enter(&self, state: UploadState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn moved(&self, state: UploadState) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(now, Ordering::Relaxed);
        self.enter(state);
    }
}

/// The body of a request to the upstream.
#[derive(Debug)]
pub enum RequestBody {
    /// The client's body as it arrives.
    Stream {
        /// What arrived of it before.
        begun: Option<Bytes>,
        /// The rest.
        rest: Incoming,
        /// How far it is.
        upload: Arc<Upload>,
    },
    /// A body in memory: slices of the client's and new pieces, in reverse order.
    Pieces(Vec<Bytes>),
}

impl RequestBody {
    /// The client's body as it arrives.
    #[must_use]
    pub fn stream(body: Incoming) -> Self {
        Self::resumed(Bytes::new(), body)
    }

    /// A body made of these pieces, in order.
    #[must_use]
    pub fn pieces(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        pieces.reverse();
        RequestBody::Pieces(pieces)
    }

    /// A body of which some arrived already.
    #[must_use]
    pub fn resumed(begun: Bytes, rest: Incoming) -> Self {
        RequestBody::Stream {
            begun: Some(begun).filter(|begun| !begun.is_empty()),
            upload: Upload::new(&rest),
            rest,
        }
    }

    /// A body without bytes.
    #[must_use]
    pub fn empty() -> Self {
        RequestBody::Pieces(Vec::new())
    }

    /// How far its upload is, where the client is still sending it.
    #[must_use]
    pub fn upload(&self) -> Option<Arc<Upload>> {
        match self {
            RequestBody::Stream { upload, .. } => Some(Arc::clone(upload)),
            RequestBody::Pieces(_) => None,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            RequestBody::Stream {
                begun,
                rest,
                upload,
            } => {
                let frame = match begun.take() {
                    Some(begun) => Poll::Ready(Some(Ok(Frame::data(begun)))),
                    None => Pin::new(&mut *rest).poll_frame(cx),
                };
                match &frame {
                    Poll::Pending => upload.enter(UploadState::WaitsForClient),
                    Poll::Ready(Some(Ok(_))) if !rest.is_end_stream() => {
                        upload.moved(UploadState::WaitsForUpstream);
                    }
                    Poll::Ready(_) => upload.moved(UploadState::Done),
                }
                frame
            }
            RequestBody::Pieces(rest) => {
                Poll::Ready(rest.pop().map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Stream { begun, rest, .. } => begun.is_none() && rest.is_end_stream(),
            RequestBody::Pieces(rest) => rest.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Stream { begun, rest, .. } => {
                let begun = begun.as_ref().map_or(0, |begun| begun.len() as u64);
                let rest = rest.size_hint();
                let mut hint = SizeHint::new();
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(begun)) {
                    hint.set_upper(upper);
                }
                hint.set_lower(rest.lower().saturating_add(begun));
                hint
            }
            RequestBody::Pieces(rest) => {
                SizeHint::with_exact(rest.iter().map(|piece| piece.len() as u64).sum())
            }
        }
    }
}
