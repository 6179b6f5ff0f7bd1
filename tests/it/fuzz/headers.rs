//! Headers that clients send, through a real Baler.

use tokio::runtime::Builder;

use super::{fuzz_cases, seeds};
use crate::support::{Baler, Upstream, message, request};

/// A request through sockets takes a port of its own for some time.
const MOST_CASES: u32 = 5_000;

/// Header lines as a client could send them: what would end a line or the head is left out, and
/// what says how long the body is or how it is encoded.
fn header_lines(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let lines = text.split(['\n', '\r']).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let framing = [
            "content",
            "transfer",
            "connection",
            "expect",
            "upgrade",
            "te",
            "host",
        ];
        let lower = name.to_ascii_lowercase();
        let is_sent = !name.is_empty()
            && name.chars().all(is_name)
            && !framing.iter().any(|word| lower.starts_with(word))
            && !value.chars().any(char::is_control);
        is_sent.then(|| format!("{name}:{value}\r\n"))
    });
    lines.take(20).collect()
}

#[test]
fn any_headers_are_obeyed_or_warned_of_and_the_request_goes_on() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let toml = "[[policy]]\nname = \"small\"\nselectable = true\nwindow = 4000\nreserve = 1000\n";
    let (baler, log) = runtime.block_on(async {
        let (address, log) = Upstream::agreeable().await;
        (Baler::start(toml, address).await, log)
    });
    let body = request(&[message("user", "What is there to do?")]);
    fuzz_cases(MOST_CASES, &seeds("fuzz-seeds/headers", ""), |input| {
        let lines = header_lines(input);
        let answer = runtime.block_on(baler.chat_with(&body, &lines));
        assert_eq!(answer.status, 200, "{lines}");
        let (head, sent) = log.lock().unwrap().pop().expect("it was forwarded");
        // There is nothing to compact: whatever the headers say, the client's bytes go.
        assert_eq!(String::from_utf8_lossy(&sent), body, "{lines}");
        let head = head.to_ascii_lowercase().replace('_', "-");
        assert!(!head.contains("\nx-baler-"), "{head}");
    });
    drop(baler);
}
