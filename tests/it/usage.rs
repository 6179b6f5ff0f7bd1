//! How usage is learned: from headers, from compressed bodies, from what a client brings along, and
//! by asking for it.

use std::io::Write;
use std::net::SocketAddr;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tokio::io::AsyncWriteExt;

use crate::support::Answer;
use crate::support::Baler;
use crate::support::Client;
use crate::support::Log;
use crate::support::Upstream;
use crate::support::agent;
use crate::support::json_answer;
use crate::support::message;
use crate::support::request;
use crate::support::within;

/// A window of 4,000 tokens that acts at 80 % of 3,000 and goes down to half.
const POLICY: &str =
    "[[policy]]\nname = \"small\"\nwindow = 4000\nreserve = 1000\ntrigger = { ratio = 0.8 }\n";

/// An answer with more headers and a body that says this.
fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\
        \r\n{body}",
        body.len()
    )
}

/// Asks once, waits until the request is written down, and says how many prompt tokens were
/// learned.
async fn learned(address: SocketAddr, toml: &str) -> f64 {
    let baler = Baler::start(toml, address).await;
    let answer = baler.chat(&request(&[message("user", "hi")])).await;
    let class = answer.status / 100;
    baler
        .metric_reaches(
            &format!(
                "baler_requests_total{{action=\"none\",endpoint=\"chat\",status=\"{class}xx\"}}"
            ),
            1.0,
        )
        .await;
    let known = baler
        .sum("baler_upstream_tokens_total", &[("kind", "prompt")])
        .await;
    assert_eq!(
        baler.metric("baler_usage_learned_total").await,
        f64::from(u8::from(known > 0.0))
    );
    known
}

#[tokio::test]
async fn headers_tell_usage_where_the_body_does_not() {
    let silent = r#"{"choices":[]}"#;
    let named = "upstream.usage_headers = [\"x-mine\", \"x-other\"]";
    for (toml, status, headers, body, expected) in [
        ("", "200 OK", "x-prompt-tokens: 71\r\n", silent, 71.0),
        (
            "",
            "200 OK",
            "fireworks-prompt-tokens: 72\r\n",
            silent,
            72.0,
        ),
        (
            "",
            "201 Created",
            "X-Amzn-Bedrock-Input-Token-Count: 73\r\n",
            silent,
            73.0,
        ),
        (
            "",
            "200 OK",
            "x-prompt-tokens: 71\r\n",
            r#"{"usage":{"prompt_tokens":99}}"#,
            99.0,
        ),
        (
            "",
            "200 OK",
            "x-prompt-tokens: 71\r\n",
            r#"{"usage":{"prompt_tokens":0}}"#,
            71.0,
        ),
        (
            "",
            "200 OK",
            "x-prompt-tokens: 0\r\nfireworks-prompt-tokens: 72\r\n",
            silent,
            72.0,
        ),
        ("", "200 OK", "x-prompt-tokens: -1\r\n", silent, 0.0),
        ("", "200 OK", "x-prompt-tokens: many\r\n", silent, 0.0),
        ("", "200 OK", "x-mine: 74\r\n", silent, 0.0),
        (
            "",
            "400 Bad Request",
            "x-prompt-tokens: 71\r\n",
            r#"{"usage":{"prompt_tokens":99}}"#,
            0.0,
        ),
        (named, "200 OK", "x-other: 74\r\n", silent, 74.0),
        (named, "200 OK", "x-prompt-tokens: 71\r\n", silent, 0.0),
    ] {
        let text = answer(status, headers, body);
        let (address, _) = Upstream::automatic(move |_| text.clone()).await;
        assert_eq!(
            learned(address, toml).await,
            expected,
            "{toml} {status} {headers} {body}"
        );
    }
}

#[tokio::test]
async fn a_header_of_an_answer_that_breaks_off_teaches_nothing() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut client = Client::send(baler.data, &head, body.as_bytes()).await;
    let mut got = within(upstream.next()).await;
    got.send("HTTP/1.1 200 OK\r\nx-prompt-tokens: 71\r\ncontent-length: 100\r\n\r\nhalf")
        .await;
    within(client.read_until("half")).await;
    got.reset();
    within(client.rest()).await;
    baler
        .metric_reaches("baler_answers_broken_total{side=\"upstream\"}", 1.0)
        .await;
    assert_eq!(baler.metric("baler_usage_learned_total").await, 0.0);
}

/// An upstream that counts three tokens where Baler counts one, and says so in a header.
async fn generous() -> (SocketAddr, Log) {
    Upstream::automatic(|body| {
        answer(
            "200 OK",
            &format!("x-prompt-tokens: {}\r\n", body.len() * 3 / 5),
            "{}",
        )
    })
    .await
}

fn bring(usage: &str) -> String {
    format!("x-baler-usage: {usage}\r\n")
}

#[tokio::test]
async fn a_fresh_replica_decides_by_the_usage_that_a_client_brings_along() {
    let (address, log) = generous().await;
    let lived = Baler::start(POLICY, address).await;
    let all = agent(12, 100);
    let mut brought = String::new();
    for end in (2..=all.len()).step_by(2) {
        let body = request(&all[..end]);
        let answer = lived.chat(&body).await;
        if answer.action() != "compacted" {
            let usage = answer.header("x-baler-usage");
            let tokens = body.len() * 3 / 5;
            assert!(
                usage.starts_with(&format!("prompt_tokens={tokens}; messages={end}; counted=")),
                "{usage}"
            );
            brought = bring(usage);
            lived
                .metric_reaches("baler_usage_learned_total", (end / 2) as f64)
                .await;
            continue;
        }
        assert!(end > 4, "it takes more than one turn");
        let fresh = Baler::start(POLICY, address).await;
        assert_eq!(
            fresh.chat(&body).await.action(),
            "none",
            "its own count is far below the trigger"
        );
        let fresh = Baler::start(POLICY, address).await;
        assert_eq!(fresh.chat_with(&body, &brought).await.action(), "compacted");
        let log = log.lock().unwrap();
        assert!(log.last().unwrap().1.len() < body.len());
        assert!(
            log.iter()
                .all(|(head, _)| !head.to_ascii_lowercase().contains("x-baler-usage")),
            "the upstream never sees it"
        );
        return;
    }
    panic!("nothing was compacted");
}

#[tokio::test]
async fn reported_usage_of_the_longest_known_prefix_is_told_when_this_requests_is_not_known_yet() {
    let (address, _) =
        Upstream::automatic(|_| json_answer("{\"usage\":{\"prompt_tokens\":777}}")).await;
    let baler = Baler::start(POLICY, address).await;
    let all = agent(4, 20);
    let first = baler.chat(&request(&all[..2])).await;
    assert_eq!(first.headers("x-baler-usage"), Vec::<&str>::new());
    baler.metric_reaches("baler_usage_learned_total", 1.0).await;
    let second = baler.chat(&request(&all[..4])).await;
    assert!(
        second
            .header("x-baler-usage")
            .starts_with("prompt_tokens=777; messages=2; counted=")
    );
}

#[tokio::test]
async fn forged_and_broken_usage_harms_nothing() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(POLICY, address).await;
    let body = request(&agent(4, 100));
    let counted = {
        let tokens = baler.chat(&body).await;
        let tokens = tokens.header("x-baler-tokens").to_owned();
        tokens
            .split("; ")
            .find_map(|part| part.strip_prefix("before=")?.parse::<u64>().ok())
            .unwrap()
    };
    for usage in [
        "",
        "prompt_tokens=1234",
        "prompt_tokens=-5; messages=10",
        "prompt_tokens=4000000000; messages=10",
        "prompt_tokens=4000000000; messages=10; counted=7",
        "prompt_tokens=4000000000; messages=18446744073709551615; counted=18446744073709551615",
        "prompt_tokens=1; messages=11; counted=1",
        "=;=;=,=",
        "\u{ff}\u{fe}",
    ] {
        let answer = baler.chat_with(&body, &bring(usage)).await;
        assert_eq!((answer.status, answer.action()), (200, "none"), "{usage}");
        assert_eq!(
            log.lock().unwrap().last().unwrap().1,
            body.as_bytes(),
            "{usage}"
        );
    }
    // One that fits is believed, for this request alone.
    let fitting = |tokens: u64| {
        bring(&format!(
            "counted={counted} ; messages=10,prompt_tokens={tokens}"
        ))
    };
    let answer = baler.chat_with(&body, &fitting(1_000)).await;
    assert_eq!(
        answer.header("x-baler-usage"),
        format!("prompt_tokens=1000; messages=10; counted={counted}")
    );
    assert_eq!(
        baler.chat(&body).await.headers("x-baler-usage"),
        Vec::<&str>::new(),
        "it is not remembered"
    );
    assert_eq!(
        baler.chat_with(&body, &fitting(2_900)).await.action(),
        "compacted"
    );
    assert!(
        log.lock()
            .unwrap()
            .iter()
            .all(|(head, _)| !head.to_ascii_lowercase().contains("x-baler"))
    );
}

#[tokio::test]
async fn what_a_client_says_of_its_usage_is_bounded_and_counted_nowhere() {
    let (address, log) = Upstream::agreeable().await;
    let reject = format!("{POLICY}on_unfit = \"reject\"\nladder = []\n");
    let baler = Baler::start(&reject, address).await;
    let tokens = concat!(
        "baler_prompt_tokens_total{mode=\"enforce\",model=\"other\",policy=\"small\",",
        "stage=\"before\"}"
    );
    let body = request(&agent(4, 100));
    let answer = baler.chat(&body).await;
    let before = |answer: &Answer| {
        let tokens = answer.header("x-baler-tokens").to_owned();
        let before = tokens
            .split("; ")
            .find_map(|part| part.strip_prefix("before="));
        before.unwrap().parse::<u64>().unwrap()
    };
    let counted = before(&answer);
    let all = |times: usize| (counted * times as u64) as f64;
    baler.metric_reaches(tokens, all(1)).await;
    let claims = [4_000_000_000, 1_000_000, body.len() as u64 / 2];
    for (nth, claim) in claims.into_iter().enumerate() {
        let claim = bring(&format!(
            "prompt_tokens={claim}; messages=10; counted={counted}"
        ));
        let answer = baler.chat_with(&body, &claim).await;
        assert_eq!((answer.status, before(&answer)), (200, counted), "{claim}");
        baler.metric_reaches(tokens, all(nth + 2)).await;
        let counted = baler.metric(tokens).await;
        assert!((counted - all(nth + 2)).abs() < 0.5, "{claim}: {counted}");
    }

    // Nor can it talk a conversation that does not fit into being sent.
    let long = request(&agent(60, 100));
    let sent = log.lock().unwrap().len();
    let answer = baler.chat(&long).await;
    assert_eq!(answer.header("x-baler-error"), "context_unfit");
    let counted = before(&answer);
    let claim = bring(&format!("prompt_tokens=1; messages=122; counted={counted}"));
    let answer = baler.chat_with(&long, &claim).await;
    assert_eq!(answer.header("x-baler-error"), "context_unfit");
    assert_eq!(log.lock().unwrap().len(), sent);
}

#[tokio::test]
async fn what_a_client_says_of_its_usage_cannot_prevent_a_compaction() {
    // An upstream that counts some three times what Baler does: its factor forces compactions.
    let (address, _) = generous().await;
    let baler = Baler::start(POLICY, address).await;
    let conversation = |nth: usize, steps: usize| {
        let mut all = agent(steps, 100);
        all[1] = message("user", &format!("Find the answer to question {nth}."));
        request(&all)
    };
    for nth in 0..30 {
        baler.chat(&conversation(nth, 3)).await;
        baler
            .metric_reaches("baler_usage_learned_total", (nth + 1) as f64)
            .await;
    }
    let observe = "x-baler-mode: observe\r\n";
    let answer = baler.chat_with(&conversation(100, 10), observe).await;
    assert_eq!(answer.action(), "observed", "{}", answer.head);
    // What Baler itself counts, without the factor.
    let fresh = Baler::start(POLICY, address).await;
    let answer = fresh.chat(&conversation(200, 10)).await;
    assert_eq!(answer.action(), "none");
    let tokens = answer.header("x-baler-tokens").to_owned();
    let mut parts = tokens.split("; ");
    let counted = parts.find_map(|part| part.strip_prefix("before=")).unwrap();
    let claim = bring(&format!("prompt_tokens=1; messages=22; counted={counted}"));
    let answer = baler.chat_with(&conversation(200, 10), &claim).await;
    assert_eq!(answer.action(), "compacted", "{}", answer.head);
}

/// A chat request with `fields` in front, asked with more header lines; the answer comes in pieces,
/// chunked.
async fn stream(
    baler: &Baler,
    upstream: &Upstream,
    body: &str,
    headers: &str,
    pieces: &[&[u8]],
) -> (Answer, String, Vec<u8>) {
    let answering = Box::pin(async {
        let mut got = upstream.next().await;
        got.send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
            transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        )
        .await;
        for piece in pieces {
            got.send(&format!("{:x}\r\n", piece.len())).await;
            got.stream.write_all(piece).await.unwrap();
            got.send("\r\n").await;
            got.stream.flush().await.unwrap();
        }
        got.send("0\r\n\r\n").await;
        (got.head, got.body)
    });
    let (answer, (head, sent)) =
        within(async { tokio::join!(Box::pin(baler.chat_with(body, headers)), answering) }).await;
    (answer, head, sent)
}

const INJECT: &str =
    "[[policy]]\nname = \"asking\"\nwindow = 4000\nreserve = 1000\ninclude_usage = true\n";

/// What a server sends when asked for usage, and what it sends when not.
fn events(end: &str) -> [String; 2] {
    let asked = [
        r#"data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant"}}],"usage":null}"#,
        concat!(
            r#"data: {"id":"1","choices":[{"index":0,"delta":{"content":"é \"usage\":null"}}],"#,
            r#""usage":null,"obfuscation":"x"}"#,
        ),
        concat!(
            r#"data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"#,
            r#""usage":null}"#,
        ),
        r#"data: {"id":"1","choices":[],"usage":{"prompt_tokens":77,"completion_tokens":3}}"#,
        "data: [DONE]",
    ]
    .map(|event| format!("{event}{end}{end}"));
    let unasked: Vec<String> = asked
        .iter()
        .filter(|event| !event.contains("prompt_tokens"))
        .map(|event| event.replace("],\"usage\":null", "]"))
        .collect();
    [
        format!(": ping{end}{end}{}", asked.concat()),
        format!(": ping{end}{end}{}", unasked.concat()),
    ]
}

#[tokio::test]
async fn usage_is_asked_for_and_taken_out_again() {
    let upstream = Upstream::start().await;
    let baler = Baler::start(INJECT, upstream.address).await;
    let plain = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}] }"#;
    let with_options = concat!(
        r#"{"stream_options":{"include_obfuscation":false},"model":"m","stream":true,"#,
        r#""messages":[{"role":"user","content":"hi"}]}"#,
    );
    let long =
        request(&agent(30, 200)).replacen('{', "{\"stream_options\": null,\"stream\":true,", 1);
    let mut asked = 0.0;
    for (body, inserted) in [
        (
            plain,
            plain.replace("] }", "] ,\"stream_options\":{\"include_usage\":true}}"),
        ),
        (
            with_options,
            with_options.replace("{\"include_obf", "{\"include_usage\":true,\"include_obf"),
        ),
        (
            long.as_str(),
            long.replace(": null,\"stream\"", ": {\"include_usage\":true},\"stream\""),
        ),
    ] {
        for end in ["\n", "\r\n"] {
            let [full, expected] = events(end);
            for size in [1, 7, 4096] {
                let pieces: Vec<&[u8]> = full.as_bytes().chunks(size).collect();
                let (answer, head, sent) = stream(
                    &baler,
                    &upstream,
                    body,
                    "accept-encoding: gzip\r\n",
                    &pieces,
                )
                .await;
                assert_eq!(answer.text(), expected, "pieces of {size}");
                assert_eq!(answer.headers("content-length"), Vec::<&str>::new());
                let head = head.to_ascii_lowercase();
                assert!(!head.contains("accept-encoding"), "{head}");
                assert!(
                    head.contains(&format!("content-length: {}\r\n", sent.len())),
                    "{head}"
                );
                if body.len() < 1_000 {
                    assert_eq!(String::from_utf8(sent).unwrap(), inserted);
                } else {
                    let sent = String::from_utf8(sent).unwrap();
                    assert!(matches!(answer.action(), "compacted" | "replayed"));
                    let split = inserted.find("\"messages\"").unwrap();
                    assert!(
                        sent.starts_with(&inserted[..split])
                            && sent.ends_with("],\"x\":1e2}")
                            && sent.len() < inserted.len()
                    );
                }
                asked += 1.0;
                baler
                    .sum_reaches(
                        "baler_upstream_tokens_total",
                        &[("kind", "prompt")],
                        asked * 77.0,
                    )
                    .await;
            }
        }
    }
    assert_eq!(baler.metric("baler_usage_included_total").await, asked);
}

#[tokio::test]
async fn a_complete_event_does_not_wait_for_the_next() {
    let upstream = Upstream::start().await;
    let baler = Baler::start(INJECT, upstream.address).await;
    let body = r#"{"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut client = Client::send(baler.data, &head, body.as_bytes()).await;
    let mut got = within(upstream.next()).await;
    let length = "data: {\"n\":0}\n\n".len() * 9;
    got.send(&format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n"
    ))
    .await;
    for n in 0..9 {
        got.send(&format!("data: {{\"n\":{n}}}\n\n")).await;
        within(client.read_until(&format!("data: {{\"n\":{n}}}\n\n"))).await;
    }
    within(client.read_until("0\r\n\r\n")).await;
}

#[tokio::test]
async fn who_asked_or_is_not_to_be_touched_gets_everything() {
    let upstream = Upstream::start().await;
    let body = r#"{"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let asking = concat!(
        r#"{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","#,
        r#""content":"hi"}]}"#,
    );
    let unstreamed = r#"{"stream":false,"messages":[{"role":"user","content":"hi"}]}"#;
    let observing = format!("{INJECT}mode = \"observe\"\n");
    for (toml, body, headers) in [
        (POLICY, body, ""),
        (INJECT, asking, ""),
        (INJECT, unstreamed, ""),
        (INJECT, body, "x-baler-mode: off\r\n"),
        (INJECT, body, "x-baler-mode: observe\r\n"),
        (observing.as_str(), body, ""),
    ] {
        let baler = Baler::start(toml, upstream.address).await;
        let [full, _] = events("\n");
        let headers = format!("{headers}accept-encoding: gzip\r\n");
        let (answer, head, sent) =
            stream(&baler, &upstream, body, &headers, &[full.as_bytes()]).await;
        assert_eq!(sent, body.as_bytes(), "{toml} {headers}");
        assert_eq!(answer.text(), full, "{toml} {headers}");
        assert!(head.contains("accept-encoding: gzip"), "{head}");
    }
}

#[tokio::test]
async fn an_upstream_that_does_as_it_likes_passes_as_it_is() {
    let upstream = Upstream::start().await;
    let baler = Baler::start(INJECT, upstream.address).await;
    let body = r#"{"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    for answer in [
        "data: {\"choices\":[{\"delta\":{}}]}\n\ndata: [DONE]\n\n",
        "data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"prompt_tokens\":7}}\n\ndata: [DONE]\n\n",
        "data: {\"error\":{\"message\":\"no\"}}\n\n",
        "data: not json \"usage\"\n\nno event at all",
    ] {
        let (got, ..) = stream(&baler, &upstream, body, "", &[answer.as_bytes()]).await;
        assert_eq!(got.text(), answer);
    }
    let json = r#"{"choices":[],"usage":null}"#;
    let (address, _) = Upstream::automatic(move |_| json_answer(json)).await;
    let baler = Baler::start(INJECT, address).await;
    let got = baler.chat(body).await;
    assert_eq!(
        (got.text().as_str(), got.header("content-length")),
        (json, "27")
    );
}

#[tokio::test]
async fn usage_in_compressed_answers_is_read_and_the_bytes_stay() {
    let json = br#"{"choices":[],"usage":{"prompt_tokens":77}}"#.to_vec();
    let events = b"data: {\"choices\":[]}\n\ndata: \
        {\"choices\":[],\"usage\":{\"prompt_tokens\":77}}\n\ndata: [DONE]\n\n"
        .to_vec();
    let gzip = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let zlib = |text: &[u8]| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &[u8]| {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    };
    let mut bomb = br#"{"usage":{"prompt_tokens":77},"x":""#.to_vec();
    bomb.resize(64 << 20, b' ');
    let question = request(&[message("user", "hi")]);
    for (encoding, kind, body, expected) in [
        ("gzip", "application/json", gzip(&json), 77.0),
        (
            "gzip",
            "text/event-stream; charset=utf-8",
            gzip(&events),
            77.0,
        ),
        ("deflate", "application/json", zlib(&json), 77.0),
        ("zstd", "text/event-stream", zstd(&events), 77.0),
        ("gzip, br", "application/json", gzip(&json), 0.0),
        ("br", "application/json", gzip(&json), 0.0),
        ("gzip", "application/json", gzip(&bomb), 0.0),
    ] {
        let upstream = Upstream::start().await;
        let baler = Baler::start("", upstream.address).await;
        let answering = Box::pin(async {
            let mut got = upstream.next().await;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: {encoding}\r\n\
                content-length: {}\r\n\r\n",
                body.len()
            );
            got.send(&head).await;
            got.stream.write_all(&body).await.unwrap();
        });
        let (answer, ()) =
            within(async { tokio::join!(Box::pin(baler.chat(&question)), answering) }).await;
        assert_eq!(answer.body, body, "{encoding} {kind}");
        assert_eq!(answer.header("content-encoding"), encoding);
        baler
            .metric_reaches(
                "baler_requests_total{action=\"none\",endpoint=\"chat\",status=\"2xx\"}",
                1.0,
            )
            .await;
        assert_eq!(
            baler
                .sum("baler_upstream_tokens_total", &[("kind", "prompt")])
                .await,
            expected,
            "{encoding} {kind}"
        );
    }
}
