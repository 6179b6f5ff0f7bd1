//! Bodies with a content encoding, decoded to be inspected: within the limit of length, a bound on
//! how much larger they may become, and the memory for bodies.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, HeaderValue};

use crate::core::wire::decode::Decoder;
use crate::proxy::admission::{Admission, BufferedBody, Memory};

/// The most decoded bytes per encoded one. Chats compress to a tenth or so; a body that comes to a
/// thousandth was made to hurt.
const MAX_RATIO: usize = 200;
/// A decoded body of this length is accepted whatever the ratio.
const ALWAYS_BYTES: usize = 64 * 1_024;
/// An encoded body up to this length is decoded on the event loop; a longer one on a thread.
const INLINE_BYTES: usize = 4 * 1_024;

impl Admission {
    /// The decoded body, whose memory `body` holds from now on; `None` when it cannot be decoded
    /// within the limits.
    pub(super) async fn decoded(
        &self,
        body: &mut BufferedBody,
        headers: &HeaderMap,
    ) -> Option<Bytes> {
        let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
        let encoding: &HeaderValue = encodings.next().filter(|_| encodings.next().is_none())?;
        let by_ratio = body.bytes.len().saturating_mul(MAX_RATIO).max(ALWAYS_BYTES);
        let limit = self.longest_body().min(by_ratio);
        let decoder = Decoder::new(encoding.to_str().ok()?, limit)?;
        let (encoded, memory) = (body.bytes.clone(), self.memory());
        let decode = move || decode(decoder, &encoded, memory);
        let (bytes, memory) = if body.bytes.len() <= INLINE_BYTES {
            decode()?
        } else {
            tokio::task::spawn_blocking(decode).await.ok()??
        };
        body.hold(memory);
        Some(bytes)
    }
}

/// Decodes all of a body. Memory is taken as it is needed.
fn decode(mut decoder: Decoder, encoded: &[u8], mut memory: Memory) -> Option<(Bytes, Memory)> {
    let mut decoded = Vec::new();
    let mut has_memory = true;
    let all = decoder.push(encoded, &mut |piece| {
        has_memory = has_memory && memory.grow(decoded.len() + piece.len(), usize::MAX);
        if has_memory {
            decoded.extend_from_slice(piece);
        }
    });
    all.ok()?;
    has_memory.then(|| (Bytes::from(decoded), memory))
}
