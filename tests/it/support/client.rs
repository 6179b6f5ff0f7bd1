//! A client that writes and reads bytes.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection on which a request was sent.
pub struct Client {
    pub stream: TcpStream,
    seen: Vec<u8>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The head as it came, status line first.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// What was done, without the strategies that did it.
    pub fn action(&self) -> &str {
        self.header("x-baler-action").split(';').next().unwrap()
    }

    /// The values of a header.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let lines = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    /// The only value of a header.
    pub fn header(&self, name: &str) -> &str {
        let values = self.headers(name);
        assert_eq!(values.len(), 1, "{name} in {}", self.head);
        values[0]
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }
}

impl Client {
    /// Connects and sends.
    pub async fn send(to: SocketAddr, head: &str, body: &[u8]) -> Self {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // An answer may come before the body was read: then writing on fails.
        let _ = stream.write_all(body).await;
        Client {
            stream,
            seen: Vec::new(),
        }
    }

    /// Reads until `pattern` was seen; returns what came up to its end.
    pub async fn read_until(&mut self, pattern: &str) -> String {
        loop {
            if let Some(at) = self
                .seen
                .windows(pattern.len())
                .position(|window| window == pattern.as_bytes())
            {
                let rest = self.seen.split_off(at + pattern.len());
                return String::from_utf8(std::mem::replace(&mut self.seen, rest)).unwrap();
            }
            let mut piece = [0; 4096];
            let read = self.stream.read(&mut piece).await.unwrap();
            assert!(
                read > 0,
                "closed before {pattern:?} came: {:?}",
                String::from_utf8_lossy(&self.seen)
            );
            self.seen.extend_from_slice(&piece[..read]);
        }
    }

    /// What else comes until the connection is closed, whichever way.
    pub async fn rest(mut self) -> Vec<u8> {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = self.stream.read(&mut piece).await {
            self.seen.extend_from_slice(&piece[..read]);
        }
        self.seen
    }

    /// The whole answer, on a connection that is closed after it.
    pub async fn answer(mut self) -> Answer {
        let head = self.read_until("\r\n\r\n").await;
        let raw = self.rest().await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let chunked = head
            .to_ascii_lowercase()
            .contains("transfer-encoding: chunked");
        let body = if chunked { dechunk(&raw) } else { raw };
        Answer { status, head, body }
    }
}

/// The body inside chunk framing, as far as it goes.
pub fn dechunk(mut raw: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = raw.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&raw[..end]).unwrap(), 16).unwrap();
        let from = end + 2;
        let to = (from + size).min(raw.len());
        body.extend_from_slice(&raw[from..to]);
        raw = raw.get(to + 2..).unwrap_or_default();
        if size == 0 {
            break;
        }
    }
    body
}
