//! Bodies that are signed are left alone; bodies that are encoded are decoded to be looked at.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::Value;

use super::super::support::{
    Answer, Baler, Client, Upstream, agent, json_answer, messages_of, request, within,
};

const SMALL: &str = "[[policy]]\nname = \"p\"\nwindow = 3000\nkeep = { tokens = 100 }\n";

/// Encodes a body.
type Encoder = fn(&[u8]) -> Vec<u8>;

#[tokio::test]
async fn a_signed_body_is_never_edited() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(SMALL, address).await;
    let body = request(&agent(40, 100));
    assert_eq!(baler.chat(&body).await.action(), "compacted");
    let reason = "baler_passes_total{reason=\"signed_body\"}";
    for (nth, line) in [
        "authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=c\r\n",
        "content-digest: sha-256=:x:\r\n",
        "digest: SHA-256=x\r\n",
        "x-amz-content-sha256: 00\r\n",
        "signature-input: a=()\r\nsignature: a=:b:\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let answer = baler.chat_with(&body, line).await;
        assert_eq!(
            (answer.status, answer.action()),
            (200, "bypassed"),
            "{line}"
        );
        assert_eq!(
            log.lock().unwrap().last().unwrap().1,
            body.as_bytes(),
            "{line}"
        );
        assert_eq!(baler.metric(reason).await, (nth + 1) as f64);
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zstd(body: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(body, ruzstd::encoding::CompressionLevel::Fastest)
}

async fn send(baler: &Baler, body: &[u8], encoding: &str) -> Answer {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\
        content-encoding: {encoding}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    within(async { Client::send(baler.data, &head, body).await.answer().await }).await
}

#[tokio::test]
async fn an_encoded_body_is_decoded_to_be_looked_at_and_sent_decoded_only_if_it_changed() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(SMALL, address).await;
    let (short, long) = (request(&agent(2, 20)), request(&agent(40, 100)));
    let encoders: [(&str, Encoder); 3] = [("gzip", gzip), ("deflate", zlib), ("zstd", zstd)];
    for (name, encode) in encoders {
        let encoded = encode(short.as_bytes());
        let answer = send(&baler, &encoded, name).await;
        assert_eq!((answer.status, answer.action()), (200, "none"), "{name}");
        assert!(
            !answer.header("x-baler-tokens").contains("unknown"),
            "{name}"
        );
        {
            let log = log.lock().unwrap();
            let (head, body) = log.last().unwrap();
            assert_eq!(*body, encoded, "{name}: as it came");
            assert!(
                head.to_ascii_lowercase()
                    .contains(&format!("content-encoding: {name}"))
            );
        }
        let answer = send(&baler, &encode(long.as_bytes()), name).await;
        assert!(
            ["compacted", "replayed"].contains(&answer.action()),
            "{name}: {}",
            answer.head
        );
        let log = log.lock().unwrap();
        let (head, body) = log.last().unwrap();
        assert!(
            !head.to_ascii_lowercase().contains("content-encoding"),
            "{head}"
        );
        assert!(
            head.contains(&format!("content-length: {}\r\n", body.len())),
            "{head}"
        );
        assert!(
            messages_of(body).len() < messages_of(long.as_bytes()).len(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn an_encoded_body_that_was_refused_as_too_long_is_sent_again_decoded() {
    let error = concat!(
        r#"{"error":{"message":"This model's maximum context length is 2000 tokens. However, "#,
        r#"your messages resulted in 4321 tokens.","code":"context_length_exceeded"}}"#
    );
    let (address, log) = Upstream::automatic(move |body| {
        if serde_json::from_slice::<Value>(body).is_ok() {
            return json_answer("{}");
        }
        format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
            content-length: {}\r\n\r\n{error}",
            error.len()
        )
    })
    .await;
    let toml = "[[policy]]\nname = \"p\"\nwindow = 100000\nkeep = { tokens = 100 }\n";
    let baler = Baler::start(toml, address).await;
    let answer = send(&baler, &gzip(request(&agent(40, 100)).as_bytes()), "gzip").await;
    assert_eq!(
        (answer.status, answer.action()),
        (200, "rescued"),
        "{}",
        answer.head
    );
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 2);
    assert!(log[0].0.contains("content-encoding: gzip") && !log[1].0.contains("content-encoding"));
}

#[tokio::test]
async fn what_cannot_be_decoded_within_the_limits_passes_as_it_came() {
    let (address, log) = Upstream::agreeable().await;
    let plain = request(&agent(40, 100));
    let bomb = gzip(&vec![b' '; 8 << 20]);
    let off = format!("{SMALL}[route]\ndecode_bodies = false\n");
    let small = format!("{SMALL}[limits]\nbody_bytes = 20000\n");
    for (toml, body, encoding) in [
        (SMALL, bomb, "gzip"),
        (SMALL, plain.clone().into_bytes(), "gzip"),
        (SMALL, gzip(plain.as_bytes()), "gzip, gzip"),
        (SMALL, gzip(plain.as_bytes()), "unknown"),
        (&off, gzip(plain.as_bytes()), "gzip"),
        (&small, gzip(plain.as_bytes()), "gzip"),
    ] {
        let baler = Baler::start(toml, address).await;
        let answer = send(&baler, &body, encoding).await;
        assert_eq!(
            (answer.status, answer.action()),
            (200, "bypassed"),
            "{encoding}"
        );
        assert_eq!(log.lock().unwrap().last().unwrap().1, body);
        assert_eq!(
            baler
                .metric("baler_passes_total{reason=\"encoded_body\"}")
                .await,
            1.0
        );
    }
}
