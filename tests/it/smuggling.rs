//! Requests whose end could be understood in two ways, on raw sockets: the upstream gets one
//! request of the client's, or none. Nothing inside a body ever becomes a request. And what nginx
//! passes on of the same bytes is no other request.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

use crate::support::{Baler, Log, Upstream, until, within};

/// A request that an attacker hides behind another one.
const HIDDEN: &str = "GET /SMUGGLED HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// What Baler waits for and does not come is given up soon.
const LIMITS: &str = "limits.header_timeout = \"500ms\"\nlimits.body_timeout = \"500ms\"";

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Baler refuses it, with one of these statuses; nothing reaches the upstream.
    Refused(&'static [u16]),
    /// The upstream gets it with this body, and the connection is closed after it.
    Sent(&'static str),
    /// The same, and the connection lives on: what follows is a request of its own.
    SentAndMore(&'static str),
}

use Fate::{Refused, Sent, SentAndMore};

/// Header lines and body, and their fate. `HIDDEN` follows each.
const CASES: &[(&str, &str, Fate)] = &[
    // Two lengths.
    (
        "content-length: 5\r\ncontent-length: 5",
        "hello",
        SentAndMore("hello"),
    ),
    (
        "content-length: 5\r\ncontent-length: 6",
        "hello",
        Refused(&[400]),
    ),
    (
        "content-length: 0\r\ncontent-length: 44",
        "",
        Refused(&[400]),
    ),
    ("content-length: 5, 5", "hello", Refused(&[400])),
    ("content-length: 5, 6", "hello", Refused(&[400])),
    // Lengths that are no numbers.
    ("content-length: +5", "hello", Refused(&[400])),
    ("content-length: -5", "hello", Refused(&[400])),
    ("content-length: 0x5", "hello", Refused(&[400])),
    ("content-length: 5 5", "hello", Refused(&[400])),
    ("content-length: 5a", "hello", Refused(&[400])),
    ("content-length: ", "", Refused(&[400])),
    (
        "content-length: 99999999999999999999",
        "hello",
        Refused(&[400]),
    ),
    ("content-length : 5", "hello", Refused(&[400])),
    ("content-length\t: 5", "hello", Refused(&[400])),
    // Length and chunks: the chunks count.
    (
        "content-length: 3\r\ntransfer-encoding: chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Sent("hello"),
    ),
    (
        "transfer-encoding: chunked\r\ncontent-length: 3",
        "5\r\nhello\r\n0\r\n\r\n",
        Sent("hello"),
    ),
    (
        "transfer-encoding: chunked\r\ncontent-length: 4444",
        "5\r\nhello\r\n0\r\n\r\n",
        Sent("hello"),
    ),
    // Codings that are not plainly chunked.
    (
        "transfer-encoding: gzip, chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[501]),
    ),
    (
        "transfer-encoding: identity, chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[501]),
    ),
    (
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding: identity\r\ntransfer-encoding: chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding: chunked, gzip",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding: identity\r\ncontent-length: 5",
        "hello",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding: xchunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding: \"chunked\"",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding: chunked;q=1",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding: \u{b}chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "transfer-encoding : chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        " transfer-encoding: chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        "x: y\r\n transfer-encoding: chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        "x: y\rtransfer-encoding: chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    ("x: y\0", "", Refused(&[400])),
    (
        "transfer-encoding: CHUNKED",
        "5\r\nhello\r\n0\r\n\r\n",
        SentAndMore("hello"),
    ),
    (
        "transfer-encoding:chunked",
        "5\r\nhello\r\n0\r\n\r\n",
        SentAndMore("hello"),
    ),
    (
        "transfer-encoding: \tchunked ",
        "5\r\nhello\r\n0\r\n\r\n",
        SentAndMore("hello"),
    ),
    // Chunks.
    (
        "transfer-encoding: chunked",
        "5;a=b\r\nhello\r\n0\r\n\r\n",
        SentAndMore("hello"),
    ),
    (
        "transfer-encoding: chunked",
        "0005\r\nhello\r\n0\r\n\r\n",
        SentAndMore("hello"),
    ),
    (
        "transfer-encoding: chunked",
        "5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n",
        SentAndMore("hello"),
    ),
    (
        "transfer-encoding: chunked",
        "5 x\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        "transfer-encoding: chunked",
        "-5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        "transfer-encoding: chunked",
        "0x5\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        "transfer-encoding: chunked",
        "5\r\nhello0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        "transfer-encoding: chunked",
        "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        Refused(&[400]),
    ),
    (
        "transfer-encoding: chunked",
        "5\nhello\n0\n\n",
        Refused(&[400]),
    ),
];

/// What the client got until the connection was closed, or until the answer to the hidden request.
async fn play(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    (head, body): (&str, &str),
) -> String {
    let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n{body}{HIDDEN}");
    let _ = stream.write_all(request.as_bytes()).await;
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = within(stream.read(&mut piece)).await {
        seen.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

async fn connect(baler: &Baler) -> TcpStream {
    TcpStream::connect(baler.data).await.unwrap()
}

/// The requests that an upstream got: request line without the version, and body.
fn requests(log: &Log) -> Vec<(String, String)> {
    let line = |head: &str| head.split(" HTTP/").next().unwrap().to_owned();
    let log = log.lock().unwrap();
    let read = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    log.iter()
        .map(|(head, body)| (line(head), read(body)))
        .collect()
}

#[tokio::test]
async fn what_could_end_in_two_places_reaches_the_upstream_as_one_request_or_not_at_all() {
    for path in ["/v1/embeddings", "/v1/chat/completions"] {
        for (head, body, fate) in CASES {
            let (address, log) = Upstream::agreeable().await;
            let baler = Baler::start(LIMITS, address).await;
            let got = play(connect(&baler).await, path, (head, body)).await;
            let status = got
                .split(' ')
                .nth(1)
                .and_then(|status| status.parse::<u16>().ok());
            let sent: Vec<(String, String)> = log
                .lock()
                .unwrap()
                .iter()
                .map(|(head, body)| (head.clone(), String::from_utf8_lossy(body).into_owned()))
                .collect();
            let context = format!("{path} {head:?} {body:?}: client {got:?}, upstream {sent:?}");
            for (head, _) in &sent {
                let head = head.to_lowercase();
                let framings = head.matches("content-length:").count()
                    + head.matches("transfer-encoding:").count();
                assert!(framings <= 1, "{context}");
            }
            match fate {
                Refused(statuses) => {
                    // A body that turns out to be broken may have been passed on in part, never as
                    // a whole request.
                    assert!(sent.is_empty(), "{context}");
                    assert!(
                        status.is_none_or(|status| statuses.contains(&status)),
                        "{context}"
                    );
                }
                Sent(expected) | SentAndMore(expected) => {
                    assert_eq!(sent[0].1, *expected, "{context}");
                    assert!(sent[0].0.starts_with(&format!("POST {path} ")), "{context}");
                    let more = sent.len() > 1;
                    assert_eq!(more, matches!(fate, SentAndMore(_)), "{context}");
                }
            }
        }
    }
}

/// nginx as a plain proxy that listens on a socket in this folder.
fn nginx(folder: &Path, upstream: SocketAddr) -> std::io::Result<Child> {
    let place = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {place}/{kind}; "))
        .collect();
    let config = format!(
        "daemon off; master_process off; pid {place}/pid; error_log {place}/log crit; events {{}}\n\
         http {{ {temporary} access_log off; client_header_timeout 1s; client_body_timeout 1s;\n\
         server {{ listen unix:{place}/socket; location / {{ proxy_pass http://{upstream}; \
         proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off; }} }} }}\n"
    );
    std::fs::write(folder.join("config"), config)?;
    let log = folder.join("log");
    Command::new("nginx")
        .arg("-e")
        .arg(log)
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(folder.join("config"))
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Where both pass a request on, they pass on the same ones. Either may refuse what the other
/// understands: that hides nothing.
#[tokio::test]
async fn no_bytes_are_another_request_to_baler_than_to_nginx() {
    let folder = tempfile::tempdir().unwrap();
    let (behind_nginx, log_of_nginx) = Upstream::agreeable().await;
    let Ok(_nginx) = nginx(folder.path(), behind_nginx) else {
        println!("SKIPPED: there is no nginx to compare with");
        return;
    };
    let socket = folder.path().join("socket");
    until(async || UnixStream::connect(&socket).await.is_ok()).await;
    let (behind_baler, log_of_baler) = Upstream::agreeable().await;
    let baler = Baler::start(LIMITS, behind_baler).await;
    let (mut alike, mut stricter) = (0, [0, 0]);
    for (head, body, _) in CASES {
        let path = "/v1/embeddings";
        let stream = UnixStream::connect(&socket).await.unwrap();
        let to_nginx = play(stream, path, (head, body)).await;
        let to_baler = play(connect(&baler).await, path, (head, body)).await;
        let passed_on = [requests(&log_of_nginx), requests(&log_of_baler)];
        log_of_nginx.lock().unwrap().clear();
        log_of_baler.lock().unwrap().clear();
        match passed_on.each_ref().map(Vec::is_empty) {
            [true, false] => stricter[0] += 1,
            [false, true] => stricter[1] += 1,
            _ => alike += 1,
        }
        let [by_nginx, by_baler] = &passed_on;
        assert!(
            by_nginx.is_empty() || by_baler.is_empty() || by_nginx == by_baler,
            "{head:?} {body:?}: nginx {by_nginx:?} ({to_nginx}), Baler {by_baler:?} ({to_baler})"
        );
    }
    println!(
        "{} requests: {alike} alike, {} that only nginx refuses, {} that only Baler does",
        CASES.len(),
        stricter[0],
        stricter[1]
    );
    assert!(alike > CASES.len() / 2, "nginx takes part");
}
