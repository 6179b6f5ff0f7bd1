//! Bytes that clients and upstreams send: chats, event streams, encoded bodies, errors.

use baler::core::conversation::group;
use baler::core::edit::Edit;
use baler::core::wire::Dialect;
use baler::core::wire::chat::Chat;
use baler::core::wire::decode::Decoder;
use baler::core::wire::overflow;
use baler::core::wire::sse::Lines;

use super::{fuzz, seeds};
use crate::invariants::{Core, check, policy_of};
use crate::support::messages_of;

#[test]
fn any_body_is_forwarded_or_becomes_a_smaller_valid_chat() {
    let policy = policy_of(
        "[[policy]]\nname = \"p\"\nwindow = 2000\nreserve = 200\nkeep = { tokens = 200 }\n",
    );
    fuzz(&seeds("corpus", ".json"), |body| {
        let Ok(chat) = Chat::parse(body) else { return };
        let Ok(text) = std::str::from_utf8(body) else {
            return;
        };
        let is_whole = chat.messages.iter().all(|entry| {
            Dialect::ChatCompletions
                .measure(entry.raw, baler::core::tokens::Encoding::O200K)
                .is_ok()
        });
        if !is_whole || group(&chat.messages).is_err() {
            return;
        }
        let core = Core::default();
        let outcome = core.ask(text, &policy);
        // I1 to I4 and I7.
        check(text, &policy, &outcome);
        if outcome.plan.edits.iter().all(|edit| *edit == Edit::Keep) {
            assert_eq!(outcome.sent, text);
        }
        // What is sent is read again, and stays as it is.
        let again = core.ask(text, &policy);
        assert_eq!(again.sent, outcome.sent, "the same bytes");
        let marks = |text: &str| text.matches("\"cache_control\"").count();
        assert!(
            marks(&outcome.sent) <= marks(text),
            "no more marks than the client's"
        );
        assert!(!messages_of(outcome.sent.as_bytes()).is_empty());
    });
}

fn lines(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Option<baler::core::wire::Usage>) {
    let mut lines = Lines::default();
    let mut reader = Dialect::ChatCompletions.usage_reader();
    let mut found = Vec::new();
    let mut data = |line: &[u8]| {
        reader.event(line);
        found.push(line.to_vec());
    };
    for piece in pieces {
        lines.push(piece, &mut data);
    }
    lines.finish(&mut data);
    (found, reader.usage())
}

#[test]
fn an_event_stream_is_the_same_wherever_it_is_cut() {
    fuzz(&seeds("fuzz-seeds/stream", ""), |stream| {
        let whole = lines(&[stream]);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(lines(&bytes), whole, "byte by byte");
        for cut in 0..stream.len().min(600) {
            let (one, two) = stream.split_at(cut);
            assert_eq!(lines(&[one, two]), whole, "cut at {cut}");
        }
    });
}

const LIMIT: usize = 100_000;

fn decoded(encoding: &str, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut decoder = Decoder::new(encoding, LIMIT).unwrap();
    let mut out = Vec::new();
    let mut is_whole = true;
    for piece in pieces {
        is_whole &= decoder
            .push(piece, &mut |bytes| out.extend_from_slice(bytes))
            .is_ok();
    }
    (out, is_whole)
}

#[test]
fn an_encoded_body_stays_within_its_limit_and_is_the_same_in_pieces() {
    fuzz(&seeds("fuzz-seeds/encoded", ""), |body| {
        for encoding in ["gzip", "deflate", "br", "zstd"] {
            let (whole, is_whole) = decoded(encoding, &[body]);
            assert!(whole.len() <= LIMIT, "{encoding}");
            if is_whole {
                let pieces: Vec<&[u8]> = body.chunks(7).collect();
                assert_eq!(decoded(encoding, &pieces), (whole, true), "{encoding}");
            }
        }
    });
}

#[test]
fn any_error_is_an_overflow_or_not() {
    fuzz(&seeds("fuzz-seeds/overflow", ""), |body| {
        for status in [200, 400, 413, 500] {
            if let Some(overflow) = overflow::in_answer(status, body) {
                assert!(overflow.window.is_none_or(|window| window > 0));
            }
        }
        let _ = overflow::in_event(body);
    });
}
