//! Answers that are framed twice, broken off, or not what HTTP allows.

use crate::support::{Answer, Baler, Client, Received, Upstream, message, request, within};

/// A path that is inspected, and one that is not.
const PATHS: [&str; 2] = ["/v1/chat/completions", "/v1/embeddings"];

/// Posts a chat to `path`.
async fn post(baler: &Baler, path: &str) -> Client {
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    Client::send(baler.data, &head, body.as_bytes()).await
}

/// What the client gets when the upstream sends `sent` and `finish` ends its connection.
async fn outcome(path: &str, sent: &str, finish: fn(Received)) -> Option<Answer> {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let client = post(&baler, path).await;
    let mut got = within(upstream.next()).await;
    got.send(sent).await;
    finish(got);
    let all = within(client.rest()).await;
    let split = all.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(all[..split].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = all[split..].to_vec();
    Some(Answer { status, head, body })
}

#[tokio::test]
async fn an_answer_with_length_and_chunks_is_as_long_as_its_chunks() {
    let body = format!(r#"{{"choices":[],"padding":"{}"}}"#, "x".repeat(100));
    for length in [20, 127, 500] {
        for path in PATHS {
            let upstream = Upstream::start().await;
            let baler = Baler::start("", upstream.address).await;
            let mut client = post(&baler, path).await;
            let mut got = within(upstream.next()).await;
            got.send(&format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            ))
            .await;
            let head = within(client.read_until("\r\n\r\n")).await.to_lowercase();
            assert!(
                head.contains("transfer-encoding: chunked") && !head.contains("content-length"),
                "{head}"
            );
            let rest = within(client.read_until("0\r\n\r\n")).await;
            assert!(rest.contains(&body), "{path} {length}: {rest}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_at_once_leaves_what_came() {
    let part = r#"{"choices":[{"message":{"role":"assistant","conte"#;
    let sized = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{part}",
        part.len() + 30
    );
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
        {:x}\r\n{part}\r\n",
        part.len()
    );
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n";
    for path in PATHS {
        for (sent, part) in [
            (sized.as_str(), part),
            (&chunked, part),
            (events, "data: x\n\n"),
        ] {
            let answer = outcome(path, sent, drop).await.expect("an answer came");
            let text = answer.text();
            assert_eq!(answer.status, 200, "{path} {sent}");
            assert!(text.contains(part), "{path}: {text:?} of {sent}");
            assert!(
                !text.ends_with("0\r\n\r\n"),
                "it does not look complete: {text:?}"
            );
        }
        // A reset may overtake what was sent before it: then nothing came, and that is told.
        let answer = outcome(path, &sized, Received::reset)
            .await
            .expect("an answer came");
        assert!([200, 502].contains(&answer.status), "{}", answer.head);
    }
}

#[tokio::test]
async fn what_follows_an_answer_never_reaches_the_next_one() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let mut client = post(&baler, PATHS[0]).await;
    let mut got = within(upstream.next()).await;
    got.send(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\
        \r\npoison",
    )
    .await;
    assert!(
        within(client.read_until("ok"))
            .await
            .starts_with("HTTP/1.1 200")
    );
    // The connection with the surplus is not used again.
    let second = post(&baler, PATHS[0]).await;
    let mut next = within(upstream.next()).await;
    next.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nclean")
        .await;
    let mut second = second;
    let answer = within(second.read_until("clean")).await;
    assert!(!answer.contains("poison"), "{answer}");
}

#[tokio::test]
async fn answers_that_cannot_be_passed_on_as_what_they_are_are_a_502() {
    for sent in [
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nzipped",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "nonsense\r\n\r\n",
    ] {
        for path in PATHS {
            let upstream = Upstream::start().await;
            let baler = Baler::start("", upstream.address).await;
            let mut client = post(&baler, path).await;
            let mut got = within(upstream.next()).await;
            got.send(sent).await;
            drop(got);
            let head = within(client.read_until("\r\n\r\n")).await;
            assert!(
                head.starts_with("HTTP/1.1 502")
                    && head.contains("x-baler-error: upstream_invalid"),
                "{sent:?}: {head}"
            );
        }
    }
}

#[tokio::test]
async fn hundreds_of_headers_pass_both_ways() {
    let many: String = (0..300).map(|n| format!("x-many-{n}: {n}\r\n")).collect();
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let (answer, got) = tokio::join!(baler.chat_with(&body, &many), async {
        let mut got = within(upstream.next()).await;
        got.send(&format!(
            "HTTP/1.1 200 OK\r\n{many}content-length: 2\r\n\r\nok"
        ))
        .await;
        got
    });
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
    assert_eq!(answer.header("x-many-299"), "299");
    assert!(got.head.contains("x-many-299: 299"), "{}", got.head);
}
