//! An upstream that shows what it received, byte for byte, and answers what the test tells it to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::client::dechunk;

/// A listener for one connection at a time, each handled by the test.
pub struct Upstream {
    pub address: SocketAddr,
    listener: TcpListener,
}

/// A request as it arrived, and the connection it came by.
pub struct Received {
    /// The head, request line first.
    pub head: String,
    pub body: Vec<u8>,
    pub stream: TcpStream,
}

impl Received {
    /// The request line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    /// Header lines, as they came.
    pub fn header_lines(&self) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .collect()
    }

    /// Sends bytes to the proxy.
    pub async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Waits until the proxy closes its side.
    pub async fn closed(&mut self) {
        let mut piece = [0; 64];
        while let Ok(1..) = self.stream.read(&mut piece).await {}
    }

    /// Breaks the connection with a reset.
    pub fn reset(self) {
        let socket = socket2_linger_zero(self.stream);
        drop(socket);
    }
}

/// Closing sends a reset instead of an orderly end.
fn socket2_linger_zero(stream: TcpStream) -> TcpStream {
    #[expect(deprecated, reason = "lingering for no time does not block")]
    stream.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    stream
}

/// A JSON answer with its length.
pub fn json_answer(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads one request; `None` when the connection was closed instead.
async fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let split = loop {
        if let Some(at) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 {
            return None;
        }
        seen.extend_from_slice(&piece[..read]);
    };
    let mut body = seen.split_off(split);
    let head = String::from_utf8(seen).unwrap();
    let lower = head.to_ascii_lowercase();
    let length = lower
        .lines()
        .find_map(|line| {
            line.strip_prefix("content-length: ")?
                .trim()
                .parse::<usize>()
                .ok()
        })
        .unwrap_or(0);
    let chunked = lower.contains("transfer-encoding: chunked");
    while body.len() < length || (chunked && !body.ends_with(b"0\r\n\r\n")) {
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 {
            return None;
        }
        body.extend_from_slice(&piece[..read]);
    }
    let body = if chunked { dechunk(&body) } else { body };
    Some((head, body))
}

/// Every request an automatic upstream received: head and body.
pub type Log = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Upstream {
            address: listener.local_addr().unwrap(),
            listener,
        }
    }

    /// The next connection's request.
    pub async fn next(&self) -> Received {
        loop {
            let (mut stream, _) = self.listener.accept().await.unwrap();
            if let Some((head, body)) = read(&mut stream).await {
                return Received { head, body, stream };
            }
        }
    }

    /// Answers every request by itself with what `answer` makes of its body, and keeps them in a
    /// log.
    pub async fn automatic(
        answer: impl Fn(&[u8]) -> String + Send + Sync + 'static,
    ) -> (SocketAddr, Log) {
        let upstream = Upstream::start().await;
        let (address, answer, log) = (upstream.address, Arc::new(answer), Log::default());
        let kept = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = upstream.listener.accept().await {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                tokio::spawn(async move {
                    while let Some((head, body)) = read(&mut stream).await {
                        let text = answer(&body);
                        log.lock().unwrap().push((head, body));
                        if stream.write_all(text.as_bytes()).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        (address, kept)
    }

    /// An automatic upstream that answers every request with `ok`.
    pub async fn agreeable() -> (SocketAddr, Log) {
        Self::automatic(|_| {
            json_answer(r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#)
        })
        .await
    }
}
