//! Tokens of Baler's own: asked for, compared, and taken away.

use std::collections::BTreeMap;
use std::io::Write;

use baler::config::{self, Sources};

use super::super::support::{Baler, Client, Upstream, agent, request, within};

fn tokens_file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn toml(file: &tempfile::NamedTempFile) -> String {
    format!(
        "listen.auth_tokens_file = {:?}\n",
        file.path().display().to_string()
    )
}

#[tokio::test]
async fn only_clients_with_a_token_are_served_and_the_token_goes_no_further() {
    let file = tokens_file("# team a\nfirst-token-0123456789\n\n  second-token-0123456789  \n");
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(&toml(&file), address).await;
    let body = request(&agent(2, 20));
    for line in [
        "",
        "authorization: Bearer sk-1\r\n",
        "authorization: Bearer first-token-012345678\r\n",
        "authorization: Bearer # team a\r\n",
        "x-baler-token: first-token-01234567890\r\n",
        "x-other: first-token-0123456789\r\n",
    ] {
        let answer = baler.chat_with(&body, line).await;
        assert_eq!(
            (
                answer.status,
                answer.header("x-baler-error"),
                answer.header("www-authenticate")
            ),
            (401, "unauthorized", "Bearer"),
            "{line}"
        );
        assert_eq!(answer.json()["error"]["code"], "unauthorized");
    }
    let get = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let refused = within(async { Client::send(baler.data, get, b"").await.answer().await }).await;
    assert_eq!(refused.status, 401, "other paths, too");
    assert!(log.lock().unwrap().is_empty());

    for (line, passes) in [
        ("authorization: Bearer first-token-0123456789\r\n", ""),
        ("api-key: second-token-0123456789\r\n", ""),
        (
            "x-baler-token: second-token-0123456789\r\nauthorization: Bearer sk-own\r\n",
            "sk-own",
        ),
        (
            "proxy-authorization: Bearer first-token-0123456789\r\n\
            authorization: Bearer sk-own\r\n",
            "sk-own",
        ),
    ] {
        assert_eq!(baler.chat_with(&body, line).await.status, 200, "{line}");
        let log = log.lock().unwrap();
        let head = &log.last().unwrap().0;
        assert!(!head.contains("-token-") && head.contains(passes), "{head}");
    }
}

#[test]
fn a_file_of_tokens_is_checked_and_never_shown() {
    for (text, problem) in [
        ("", "has no token"),
        ("# nothing\n\n", "has no token"),
        ("short-secret\n", "line 1: a token has at least"),
        (
            "good-token-0123456789\nwith blanks 0123456789\n",
            "line 2: a token has at least",
        ),
    ] {
        let file = tokens_file(text);
        let (key, value) = (
            "BALER_LISTEN__AUTH_TOKENS_FILE",
            file.path().display().to_string(),
        );
        let sources = Sources {
            env: BTreeMap::from([(key.to_owned(), value)]),
            ..Sources::default()
        };
        let problems = config::load(&sources).unwrap_err().to_string();
        assert!(problems.contains(problem), "{problems}");
        assert!(
            !problems.contains("secret") && !problems.contains("0123456789"),
            "{problems}"
        );
    }
}
