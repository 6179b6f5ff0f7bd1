//! The bodies of requests to the upstream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The body of a request to the upstream.
#[derive(Debug)]
pub enum RequestBody {
    /// The client's body as it arrives.
    Stream(Incoming),
    /// What arrived of the client's body, and the rest as it arrives.
    Resumed(Option<Bytes>, Incoming),
    /// A body in memory: slices of the client's and new pieces, in reverse order.
    Pieces(Vec<Bytes>),
}

impl RequestBody {
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
        RequestBody::Resumed(Some(begun).filter(|begun| !begun.is_empty()), rest)
    }

    /// A body without bytes.
    #[must_use]
    pub fn empty() -> Self {
        RequestBody::Pieces(Vec::new())
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
            RequestBody::Stream(body) => Pin::new(body).poll_frame(cx),
            RequestBody::Resumed(begun, rest) => match begun.take() {
                Some(begun) => Poll::Ready(Some(Ok(Frame::data(begun)))),
                None => Pin::new(rest).poll_frame(cx),
            },
            RequestBody::Pieces(rest) => {
                Poll::Ready(rest.pop().map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Stream(body) => body.is_end_stream(),
            RequestBody::Resumed(begun, rest) => begun.is_none() && rest.is_end_stream(),
            RequestBody::Pieces(rest) => rest.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Stream(body) => body.size_hint(),
            RequestBody::Resumed(begun, rest) => {
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
