//! The answer's body without usage that only Baler requested. It stands between the answer, whose
//! tap sees all of it, and the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::core::wire::chat::UsageFilter;
use crate::proxy::response::{Broken, ResponseBody};

/// The body of an answer as the client gets it: filtered, or as it is.
#[derive(Debug)]
pub struct ClientBody {
    answer: ResponseBody,
    /// Absent when the answer passes as it is.
    filter: Option<UsageFilter>,
    /// Follows the last of the filtered bytes: trailers, or the error that the answer broke off
    /// with.
    last: Option<Result<Frame<Bytes>, Broken>>,
    ended: bool,
}

impl ClientBody {
    /// Removes usage from `answer` that its client did not request, when there is a filter.
    #[must_use]
    pub(super) fn new(answer: ResponseBody, filter: Option<UsageFilter>) -> Self {
        ClientBody {
            answer,
            filter,
            last: None,
            ended: false,
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        let Some(filter) = &mut this.filter else {
            return Pin::new(&mut this.answer).poll_frame(cx);
        };
        loop {
            if this.ended {
                return Poll::Ready(this.last.take());
            }
            let frame = ready!(Pin::new(&mut this.answer).poll_frame(cx));
            let mut bytes = Vec::new();
            let after = match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => {
                    filter.push(&data, &mut bytes);
                    this.ended = this.answer.is_end_stream();
                    None
                }
                Some(Ok(Err(trailers))) => Some(Ok(trailers)),
                Some(Err(broken)) => Some(Err(broken)),
                None => {
                    this.ended = true;
                    None
                }
            };
            this.ended |= after.is_some();
            if this.ended {
                filter.finish(&mut bytes);
            }
            this.last = after;
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        if self.filter.is_none() {
            self.answer.is_end_stream()
        } else {
            self.ended && self.last.is_none()
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.filter.is_none() {
            self.answer.size_hint()
        } else {
            SizeHint::default()
        }
    }
}
