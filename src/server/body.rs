//! The body of an answer on its connection.
//!
//! INVARIANT: an answer that breaks off does so after everything before the break has left. The
//! HTTP library discards what it holds when a body fails, the head included.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::futures::OwnedNotified;

use crate::server::life::Running;
use crate::server::stream;

/// A body whose request counts as running until it ends.
pub(super) struct SentBody<B> {
    body: B,
    running: Running,
    /// The connection's count of flushes when the last piece was given to it.
    given_at: u64,
    breaking: Option<Breaking>,
}

/// An error of any body.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is about to break off.
struct Breaking {
    error: BodyError,
    flush: Pin<Box<OwnedNotified>>,
}

impl<B> SentBody<B> {
    /// The body of the answer to a request that runs.
    pub(super) fn new(body: B, running: Running) -> Self {
        SentBody {
            body,
            given_at: running.connection().flushes(),
            running,
            breaking: None,
        }
    }
}

impl<B: Body + Unpin> Body for SentBody<B>
where
    B::Error: Into<BodyError>,
{
    type Data = B::Data;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BodyError>>> {
        let this = &mut *self;
        if this.breaking.is_none() {
            let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
                stream::waits();
                return Poll::Pending;
            };
            stream::given();
            match frame {
                Some(Err(error)) => {
                    let flush = this.running.connection().next_flush();
                    this.breaking = Some(Breaking {
                        error: error.into(),
                        flush: Box::pin(flush),
                    });
                }
                Some(Ok(frame)) => {
                    this.given_at = this.running.connection().flushes();
                    return Poll::Ready(Some(Ok(frame)));
                }
                None => return Poll::Ready(None),
            }
        }
        if let Some(breaking) = &mut this.breaking
            && this.running.connection().flushes() == this.given_at
        {
            ready!(breaking.flush.as_mut().poll(cx));
        }
        Poll::Ready(this.breaking.take().map(|breaking| Err(breaking.error)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
