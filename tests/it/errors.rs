//! The errors Baler makes itself: OpenAI's shape, a kind, and nothing of the request in them.

use crate::support::Baler;
use crate::support::Client;
use crate::support::Nobody;
use crate::support::Upstream;
use crate::support::message;
use crate::support::request;
use crate::support::until;
use crate::support::within;
use crate::support::words;

#[tokio::test]
async fn an_upstream_that_is_down_is_a_502_in_openais_shape() {
    let nobody = Nobody::there();
    let baler = Baler::start("", nobody.address).await;
    let answer = baler.chat(&request(&[message("user", "my secret")])).await;
    assert_eq!(
        (
            answer.status,
            answer.header("x-baler-error"),
            answer.header("content-type")
        ),
        (502, "upstream_unreachable_connect", "application/json")
    );
    let error = &answer.json()["error"];
    assert_eq!(
        (
            error["code"].as_str(),
            error["type"].as_str(),
            &error["param"]
        ),
        (
            Some("upstream_unreachable_connect"),
            Some("api_error"),
            &serde_json::Value::Null
        )
    );
    assert!(!error["message"].as_str().unwrap().is_empty() && !answer.text().contains("secret"));
    assert_eq!(answer.action(), "none");
    // Other paths as well, and Baler is still ready.
    let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_eq!(
        within(async { Client::send(baler.data, head, b"").await.answer().await })
            .await
            .status,
        502
    );
    assert_eq!(baler.probe("/readyz").await.status, 200);
    assert_eq!(
        baler
            .metric("baler_refusals_total{kind=\"upstream_unreachable_connect\"}")
            .await,
        2.0
    );
}

#[tokio::test]
async fn an_upstream_that_hangs_up_without_an_answer_is_a_502() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let (answer, ()) = tokio::join!(baler.chat(&body), async {
        drop(within(upstream.next()).await)
    });
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (502, "upstream_broke")
    );
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_is_a_504() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("upstream.response_timeout = \"50ms\"", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let (answer, mut got) = tokio::join!(baler.chat(&body), within(upstream.next()));
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (504, "upstream_timeout")
    );
    within(got.closed()).await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_announced_or_not() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(
        "limits.body_bytes = 2000\nlimits.memory_bytes = 4000\nlimits.on_overload = \"reject\"",
        address,
    )
    .await;
    let body = request(&[message("user", &words(1, 1_000))]);
    let answer = baler.chat(&body).await;
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (413, "body_too_large")
    );
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\
        connection: close\r\n\r\n";
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let answer = within(async {
        Client::send(baler.data, head, chunked.as_bytes())
            .await
            .answer()
            .await
    })
    .await;
    assert_eq!(answer.status, 413);
    assert!(log.lock().unwrap().is_empty());
    // Other paths have no limit.
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    assert_eq!(
        within(async {
            Client::send(baler.data, &head, body.as_bytes())
                .await
                .answer()
                .await
        })
        .await
        .status,
        200
    );
}

#[tokio::test]
async fn too_many_requests_at_a_time_are_503_and_streams_count() {
    let upstream = Upstream::start().await;
    let baler = Baler::start("limits.in_flight = 1", upstream.address).await;
    let body = request(&[message("user", "hi")]);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\
        connection: close\r\n\r\n",
        body.len()
    );
    let mut streaming = Client::send(baler.data, &head, body.as_bytes()).await;
    let mut got = within(upstream.next()).await;
    got.send(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    )
    .await;
    within(streaming.read_until("abc")).await;
    let answer = baler.chat(&body).await;
    assert_eq!(
        (
            answer.status,
            answer.header("x-baler-error"),
            answer.header("retry-after")
        ),
        (503, "overloaded", "1")
    );
    got.send("0\r\n\r\n").await;
    within(streaming.rest()).await;
    baler
        .metric_reaches(
            "baler_requests_total{action=\"none\",endpoint=\"chat\",status=\"2xx\"}",
            1.0,
        )
        .await;
    let (answer, ()) = tokio::join!(baler.chat(&body), async {
        within(upstream.next())
            .await
            .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await;
    });
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn bodies_share_a_bounded_memory() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start(
        "limits.body_bytes = 100000\nlimits.memory_bytes = 100000\n\
        limits.on_overload = \"reject\"",
        address,
    )
    .await;
    let body = request(&[message("user", &"x".repeat(60_000))]);
    let mut held = None;
    until(async || {
        // Half of it is held by a request whose body does not come, unless the other one was first:
        // then that one is served, and this one refused.
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n";
        held = Some(Client::send(baler.data, head, &[b' '; 59_000]).await);
        for _ in 0..2 {
            let answer = Box::pin(baler.chat(&body)).await;
            if answer.headers("x-baler-error") != ["out_of_memory"] {
                return false;
            }
            assert_eq!(answer.status, 503);
        }
        true
    })
    .await;
    drop(held);
    baler.metric_ends("baler_requests_in_flight").await;
    assert_eq!(baler.chat(&body).await.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start("limits.body_timeout = \"50ms\"", address).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\
        connection: close\r\n\r\n";
    let answer = within(async {
        Client::send(baler.data, head, b"{\"mess")
            .await
            .answer()
            .await
    })
    .await;
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (408, "body_timeout")
    );
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn thinking_that_takes_too_long_fails_open_or_refuses_as_the_policy_says() {
    let (address, log) = Upstream::agreeable().await;
    let policy = "limits = { plan_timeout = \"1us\", plan_deadline = \"1us\" }\n\
        [[policy]]\nwindow = 4000\n";
    let body = request(&[message("user", &words(1, 600_000))]);
    let forward = Baler::start(policy, address).await;
    let answer = forward.chat(&body).await;
    assert_eq!((answer.status, answer.action()), (200, "failed-open"));
    assert_eq!(log.lock().unwrap()[0].1, body.as_bytes());
    assert_eq!(
        forward
            .metric("baler_fail_open_total{cause=\"deadline\"}")
            .await,
        1.0
    );
    let reject = Baler::start(&format!("{policy}on_error = \"reject\"\n"), address).await;
    let answer = reject.chat(&body).await;
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (400, "planning_failed")
    );
}

#[tokio::test]
async fn the_upstreams_own_errors_pass_untouched() {
    let body = concat!(
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","#,
        r#""type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    );
    for status in [
        "400 Bad Request",
        "401 Unauthorized",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "529 Overloaded",
    ] {
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nretry-after: 7\r\n\
            x-should-retry: false\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (address, _) = Upstream::automatic(move |_| answer.clone()).await;
        let baler = Baler::start("", address).await;
        let answer = baler.chat(&request(&[message("user", "hi")])).await;
        assert_eq!(answer.status.to_string(), status[..3]);
        assert_eq!(answer.text(), body);
        assert_eq!(
            (
                answer.header("retry-after"),
                answer.header("x-should-retry")
            ),
            ("7", "false")
        );
        assert!(answer.headers("x-baler-error").is_empty());
    }
}
