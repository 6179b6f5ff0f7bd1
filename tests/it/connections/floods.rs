//! HTTP/2 clients that attack: floods of frames are cut off or cost nothing, and streams that are
//! not read are given up one by one.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http2::{
    CONTINUATION, END_STREAM_AND_HEADERS, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, frame,
};
use crate::support::{Baler, Upstream, message, request, within};

/// `:method GET, :scheme http, :path /`, and an authority, from HPACK's static table.
const HEADER_BLOCK: &[u8] = b"\x82\x86\x84\x41\x01x";

/// Sends up to `most` frames; returns how many were sent before the other side closed.
async fn flood(baler: &Baler, most: u32, next: impl Fn(u32) -> Vec<u8>) -> u32 {
    let stream = TcpStream::connect(baler.data).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let closed = tokio::spawn(async move {
        let mut piece = [0; 16 << 10];
        while let Ok(1..) = reader.read(&mut piece).await {}
    });
    writer.write_all(PREFACE).await.unwrap();
    writer.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    for n in 0..most {
        if closed.is_finished() || writer.write_all(&next(n)).await.is_err() {
            return n;
        }
    }
    most
}

#[tokio::test]
async fn floods_of_frames_are_cut_off_or_cost_nothing() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    const MOST: u32 = 200_000;
    let reset = |n: u32| {
        let stream = 2 * n + 1;
        let mut frames = frame(HEADERS, END_STREAM_AND_HEADERS, stream, HEADER_BLOCK);
        frames.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        frames
    };
    let continued = |n: u32| match n {
        0 => frame(HEADERS, 0, 1, HEADER_BLOCK),
        _ => frame(CONTINUATION, 0, 1, &[0; 256]),
    };
    assert!(
        within(flood(&baler, MOST, reset)).await < MOST,
        "rapid reset"
    );
    assert!(
        within(flood(&baler, MOST, continued)).await < MOST,
        "CONTINUATION"
    );
    // These are answered frame by frame, and nothing is kept of them.
    for kind in [PING, SETTINGS] {
        let payload: &[u8] = if kind == PING { &[0; 8] } else { &[] };
        let flooding = flood(&baler, 5_000, |_| frame(kind, 0, 0, payload));
        let body = request(&[message("user", "hi")]);
        let asking = baler.chat(&body);
        let (_, answer) = Box::pin(within(async { tokio::join!(flooding, asking) })).await;
        assert_eq!(answer.status, 200);
    }
    baler.metric_ends("baler_requests_in_flight").await;
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_given_up_and_its_connection_lives_on() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("limits.write_timeout = \"300ms\"", upstream.address).await;
    let stream = TcpStream::connect(baler.data).await.unwrap();
    let (mut client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(32_768)
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let ask = |path: &str| {
        hyper::Request::get(format!("http://x{path}"))
            .body(Full::default())
            .unwrap()
    };
    let long = client.send_request(ask("/v1/long"));
    let (long, ()) = tokio::join!(long, async {
        let mut got = within(upstream.next()).await;
        got.send("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            .await;
        got.send(&"x".repeat(200_000)).await;
        tokio::spawn(async move { got.closed().await });
    });
    let mut long = long.unwrap().into_body();
    baler.metric_reaches("baler_requests_in_flight", 1.0).await;
    baler.metric_ends("baler_requests_in_flight").await;
    let short = client.send_request(ask("/v1/short"));
    let (short, ()) = tokio::join!(short, async {
        let mut got = within(upstream.next()).await;
        got.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await;
    });
    let short = short
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    assert_eq!(short, "ok");
    // What came before is still there; then the stream is reset, and does not look complete.
    let read = within(async {
        loop {
            match long.frame().await {
                Some(Ok(_)) => {}
                ended => break ended,
            }
        }
    });
    assert!(matches!(read.await, Some(Err(_))));
}
