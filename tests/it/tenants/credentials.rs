//! Callers with different credentials share nothing.

use super::super::support::{Baler, Upstream, agent, json_answer, request};

/// Whether the second caller gets to know what was learned from the first one's answer.
async fn shares(first: (&str, &str), second: (&str, &str), toml: &str) -> bool {
    let (address, _) =
        Upstream::automatic(|_| json_answer(r#"{"usage":{"prompt_tokens":777}}"#)).await;
    let baler = Baler::start(toml, address).await;
    let all = agent(4, 20);
    baler.chat_to(first.0, &request(&all[..2]), first.1).await;
    baler.metric_reaches("baler_usage_learned_total", 1.0).await;
    let answer = baler.chat_to(second.0, &request(&all[..4]), second.1).await;
    assert_eq!(answer.status, 200);
    !answer.headers("x-baler-usage").is_empty()
}

const PATH: &str = "/v1/chat/completions";

#[tokio::test]
async fn credentials_in_headers_of_gateways_and_in_the_query_tell_callers_apart() {
    for name in [
        "authorization",
        "x-portkey-api-key",
        "cf-aig-authorization",
        "x-litellm-api-key",
        "helicone-auth",
        "x-auth-token",
        "x-amz-security-token",
    ] {
        let line = |value: &str| format!("{name}: {value}\r\n");
        let (one, other) = (line("one"), line("other"));
        assert!(!shares((PATH, &one), (PATH, &other), "").await, "{name}");
        assert!(shares((PATH, &one), (PATH, &one), "").await, "{name}");
    }
    for name in ["key", "api-key"] {
        let path = |value: &str| format!("{PATH}?v=1&{name}={value}");
        let (one, other) = (path("one"), path("other"));
        assert!(!shares((&one, ""), (&other, ""), "").await, "{name}");
        assert!(shares((&one, ""), (&one, ""), "").await, "{name}");
    }
}

#[tokio::test]
async fn the_list_of_credentials_is_the_operators_and_cookies_of_load_balancers_are_left_out() {
    let (one, other) = ("x-team-key: 1\r\n", "x-team-key: 2\r\n");
    assert!(shares((PATH, one), (PATH, other), "").await);
    let own = "[tenant]\nheaders = [\"authorization\", \"X-Team-Key\"]\n\
        ignored_cookies = [\"lb-*\"]\n";
    assert!(!shares((PATH, one), (PATH, other), own).await);

    let rotated = ("cookie: AWSALB=1; s=1\r\n", "cookie: AWSALB=2; s=1\r\n");
    assert!(shares((PATH, rotated.0), (PATH, rotated.1), "").await);
    let session = ("cookie: s=1\r\n", "cookie: s=2\r\n");
    assert!(!shares((PATH, session.0), (PATH, session.1), "").await);
    let own = "[tenant]\nignored_cookies = [\"lb-*\"]\n";
    let rotated = ("cookie: lb-a=1\r\n", "cookie: lb-a=2\r\n");
    assert!(shares((PATH, rotated.0), (PATH, rotated.1), own).await);
}

#[tokio::test]
async fn server_timing_is_rounded_or_left_out_as_configured() {
    let (address, _) = Upstream::agreeable().await;
    let body = request(&agent(2, 20));
    for (toml, is_good) in [
        ("", (|value: &str| value.contains('.')) as fn(&str) -> bool),
        ("listen.server_timing = \"rounded\"\n", |value| {
            value
                .strip_prefix("baler;dur=")
                .unwrap()
                .parse::<u32>()
                .is_ok()
        }),
    ] {
        let baler = Baler::start(toml, address).await;
        let answer = baler.chat(&body).await;
        assert!(is_good(answer.header("server-timing")), "{}", answer.head);
    }
    let baler = Baler::start("listen.server_timing = \"off\"\n", address).await;
    let answer = baler.chat(&body).await;
    assert!(answer.headers("server-timing").is_empty());
}
