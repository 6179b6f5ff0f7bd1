//! No `x-baler-` header passes Baler, and those that it does not know are said.

use super::super::support::{Baler, Upstream, agent, request};

#[tokio::test]
async fn no_header_of_balers_reaches_the_upstream_nor_comes_back_from_it() {
    let (address, log) = Upstream::automatic(|_| {
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Baler-Usage: prompt_tokens=1; messages=1\r\n\
        x-baler-warning: from above\r\nx_baler_tokens: 1\r\nx-balers: stays\r\n\r\n{}"
            .to_owned()
    })
    .await;
    let baler = Baler::start("", address).await;
    let lines = "X-Baler-Modus: force\r\nx_baler_policy: a\r\nX-BALER-USAGE: x\r\n\
        x-baler-token: t\r\nx-balers: stays\r\n";
    let body = request(&agent(2, 20));
    for path in ["/v1/chat/completions", "/v1/embeddings"] {
        let answer = baler.chat_to(path, &body, lines).await;
        assert_eq!(answer.header("x-balers"), "stays");
        assert!(!answer.head.contains("from above") && !answer.head.contains("x_baler_tokens"));
        assert_eq!(answer.headers("x-baler-usage"), Vec::<&str>::new());
    }
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 2);
    for (head, _) in log.iter() {
        let head = head.to_ascii_lowercase().replace('_', "-");
        assert!(
            !head.contains("x-baler-") && head.contains("x-balers: stays"),
            "{head}"
        );
    }
}

#[tokio::test]
async fn what_baler_does_not_know_is_said_in_a_warning() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    let body = request(&agent(2, 20));
    for (line, warning) in [
        ("", None),
        ("x-baler-mode: observe\r\nx-baler-request-id: a\r\n", None),
        ("x-baler-policy: default\r\n", None),
        (
            "X-Baler-Modus: force\r\n",
            Some("unknown header x-baler-modus"),
        ),
        (
            "x_baler_mode: force\r\n",
            Some("unknown header x_baler_mode"),
        ),
        ("x-baler-mode: of\r\n", Some("unknown mode")),
        (
            "x-baler-policy: none\r\n",
            Some("no such selectable policy"),
        ),
    ] {
        let answer = baler.chat_with(&body, line).await;
        let said: Vec<&str> = answer.headers("x-baler-warning");
        assert_eq!(said, warning.into_iter().collect::<Vec<_>>(), "{line}");
    }
}

#[tokio::test]
async fn ids_of_requests_do_not_count_up() {
    let (address, _) = Upstream::agreeable().await;
    let baler = Baler::start("", address).await;
    let body = request(&agent(2, 20));
    let mut ids = Vec::new();
    for _ in 0..4 {
        let answer = baler.chat(&body).await;
        ids.push(u128::from_str_radix(answer.header("x-baler-request-id"), 16).unwrap());
    }
    assert!(
        ids.windows(2)
            .all(|pair| pair[0].abs_diff(pair[1]) > 1 << 64),
        "{ids:?}"
    );
}
