//! An answer without what only Baler asked for. Stands between the answer, whose tap sees all of it, and the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::core::wire::chat::UsageFilter;
use crate::proxy::response::{Broken, ResponseBody};

/// An answer, filtered or as it is.
#[derive(Debug)]
pub struct Filtered {
    answer: ResponseBody,
    filter: Option<UsageFilter>,
    /// What comes behind the last of the filtered bytes: trailers, or that the answer broke off.
    last: Option<Result<Frame<Bytes>, Broken>>,
    ended: bool,
}

impl Filtered {
    /// Takes usage out of `answer` that its client did not ask for, if `filter` says how.
    #[must_use]
    pub fn new(answer: ResponseBody, filter: Option<UsageFilter>) -> Self {
        Filtered {
            answer,
            filter,
            last: None,
            ended: false,
        }
    }
}

impl Body for Filtered {
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
            let behind = match frame.map(|frame| frame.map(Frame::into_data)) {
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
            this.ended |= behind.is_some();
            if this.ended {
                filter.finish(&mut bytes);
            }
            this.last = behind;
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
