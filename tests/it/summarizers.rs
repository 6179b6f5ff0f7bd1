//! Several summarisers: each policy asks its own, and what happens to one does not touch another.

use std::net::SocketAddr;

use baler::config::{Config, Problem, Problems, Sources, load};
use serde_json::Value;

use crate::summaries::{SUMMARY, completion, is_for_summary, said, turns};
use crate::support::{Baler, Log, Upstream, message, until};

/// A server that answers every request like this.
async fn server(answer: impl Fn() -> String + Send + Sync + 'static) -> (SocketAddr, Log) {
    Upstream::automatic(move |_| answer()).await
}

/// A policy for one model: 3,000 tokens for the prompt, prepared from 1,950 on.
fn policy(model: &str, more: &str) -> String {
    format!(
        "[[policy]]\nname = \"{model}\"\nmodels = [\"{model}\"]\nwindow = 4000\nreserve = 1000\n\
         trigger = {{ ratio = 0.8 }}\nkeep = {{ tokens = 0, exchanges = 1 }}\n\
         ladder = [\"summarize\", \"token_budget\"]\n{more}\n"
    )
}

fn request(model: &str, messages: &[String]) -> String {
    format!(
        r#"{{"model":"{model}","messages":[{}]}}"#,
        messages.join(",")
    )
}

/// The requests that came to a server: head, body.
fn arrived(log: &Log) -> Vec<(String, Value)> {
    let log = log.lock().unwrap();
    log.iter()
        .map(|(head, body)| (head.clone(), serde_json::from_slice(body).unwrap()))
        .collect()
}

async fn made(baler: &Baler, summarizer: &str, count: f64) {
    let labels = [("outcome", "made"), ("summarizer", summarizer)];
    baler
        .sum_reaches("baler_summaries_total", &labels, count)
        .await;
}

#[tokio::test]
async fn each_policy_asks_its_own_summariser_with_its_own_prompt_key_and_headers() {
    let (upstream, chats) = server(said).await;
    let (one, to_one) = server(|| completion(SUMMARY, "stop")).await;
    let (two, to_two) = server(|| completion(SUMMARY, "stop")).await;
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (key_one, key_two) = (file("one", "sk-one\n"), file("two", "sk-two\n"));
    let prompt = file(
        "prompt",
        "Summarise the records, inside <summary> tags. Keep the tickets.",
    );
    let toml = format!(
        "[[summarizer]]\nname = \"one\"\nurl = \"http://{one}/v1\"\nmodel = \"model-one\"\n\
         api_key_file = \"{key_one}\"\nheaders = {{ x-team = \"first\" }}\n\
         [[summarizer]]\nname = \"two\"\nurl = \"http://{two}/v1\"\nmodel = \"model-two\"\n\
         api_key_file = \"{key_two}\"\nprompt_file = \"{prompt}\"\n{}{}",
        policy("model-a", "summarizer = \"one\""),
        policy("model-b", "summarizer = \"two\""),
    );
    let baler = Baler::start(&toml, upstream).await;
    // The same conversation, so that nothing but its policy tells whose summary it gets.
    for model in ["model-a", "model-b"] {
        for count in [12, 13, 14] {
            let body = request(model, &turns(count));
            assert_eq!(baler.chat(&body).await.action(), "none", "{model} {count}");
        }
    }
    made(&baler, "one", 1.0).await;
    made(&baler, "two", 1.0).await;

    let [(head, body)] = &arrived(&to_one)[..] else {
        panic!("one summary of the first: {:?}", arrived(&to_one));
    };
    assert!(head.starts_with("POST /v1/chat/completions "), "{head}");
    assert!(head.contains("authorization: Bearer sk-one") && head.contains("x-team: first"));
    assert_eq!(body["model"], "model-one");
    assert!(!body.to_string().contains("Summarise the records"));
    let [(head, body)] = &arrived(&to_two)[..] else {
        panic!("one summary of the second: {:?}", arrived(&to_two));
    };
    assert!(head.contains("authorization: Bearer sk-two") && !head.contains("x-team"));
    assert_eq!(body["model"], "model-two");
    assert!(body.to_string().contains("Summarise the records"));
    let to_upstream = chats.lock().unwrap().iter().any(|(_, b)| is_for_summary(b));
    assert!(!to_upstream, "none is asked of the upstream");

    for model in ["model-a", "model-b"] {
        let answer = baler.chat(&request(model, &turns(17))).await;
        let expected = "compacted; strategies=\"summarize\"";
        assert_eq!(answer.header("x-baler-action"), expected, "{model}");
    }
    for (summarizer, outcome) in [("one", "answered"), ("two", "answered")] {
        let labels = [("outcome", outcome), ("summarizer", summarizer)];
        let calls = baler.sum("baler_summarizer_calls_total", &labels).await;
        assert_eq!(calls, 1.0, "{summarizer}");
    }
}

#[tokio::test]
async fn a_breaker_that_opens_for_one_summariser_leaves_the_others_alone() {
    let (upstream, _) = server(said).await;
    let refusing =
        || "HTTP/1.1 503 No\r\nretry-after-ms: 1\r\ncontent-length: 0\r\n\r\n".to_owned();
    let (down, to_down) = server(refusing).await;
    let (well, to_well) = server(|| completion(SUMMARY, "stop")).await;
    let toml = format!(
        "[[summarizer]]\nname = \"down\"\nurl = \"http://{down}/v1\"\nbreaker_failures = 1\n\
         [[summarizer]]\nurl = \"http://{well}/v1\"\nmax_share = 100.0\n{}{}",
        policy("model-a", "summarizer = \"down\""),
        policy("model-b", ""),
    );
    let baler = Baler::start(&toml, upstream).await;
    let conversation = |nth: usize| {
        let mut all = turns(14);
        all[1] = message("user", &format!("Conversation number {nth}."));
        all
    };
    let breaker = [("outcome", "breaker"), ("summarizer", "down")];
    for nth in 0..3_usize {
        let body = request("model-a", &conversation(nth));
        assert_eq!(baler.chat(&body).await.status, 200);
        let ended = async || {
            let failed = [("outcome", "overloaded"), ("summarizer", "down")];
            baler.sum("baler_summaries_total", &failed).await
                + baler.sum("baler_summaries_total", &breaker).await
        };
        until(async || ended().await >= (nth + 1) as f64).await;
    }
    assert_eq!(baler.sum("baler_summaries_total", &breaker).await, 2.0);
    assert_eq!(arrived(&to_down).len(), 2, "one summary, tried twice");
    let open = async |name| {
        let labels = [("summarizer", name)];
        baler.sum("baler_summarizer_breakers_open", &labels).await
    };
    assert_eq!((open("down").await, open("default").await), (1.0, 0.0));

    let body = request("model-b", &conversation(7));
    assert_eq!(baler.chat(&body).await.status, 200);
    made(&baler, "default", 1.0).await;
    assert_eq!(arrived(&to_well).len(), 1, "the policy names none");
}

fn read(toml: &str, env: &[(&str, &str)]) -> Result<Config, Vec<Problem>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let sources = Sources {
        file: Some(file.path().to_owned()),
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Sources::default()
    };
    load(&sources).map_err(|Problems(problems)| problems)
}

/// The name and URL of the summariser that each policy asks.
fn asked(toml: &str, env: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    let config = read(toml, env).unwrap();
    let policies = config.policies.iter();
    policies
        .map(|policy| {
            let summarizer = config.summarizers.of(policy);
            (summarizer.name.clone(), summarizer.url.clone())
        })
        .collect()
}

#[test]
fn policies_that_name_none_ask_the_only_one_or_the_default_one() {
    let url = |port: u16| format!("url = \"http://127.0.0.1:{port}/v1\"\n");
    let called = |name: &str, port| {
        let address = format!("http://127.0.0.1:{port}/v1/chat/completions");
        (name.to_owned(), Some(address))
    };
    let (one, two) = (url(1), url(2));
    // Today's form.
    let table = format!("[summarizer]\n{one}");
    assert_eq!(asked(&table, &[]), [called("default", 1)]);
    let variable = [("BALER_SUMMARIZER__URL", "http://127.0.0.1:3/v1")];
    assert_eq!(asked("", &variable), [called("default", 3)]);
    assert_eq!(asked(&table, &variable), [called("default", 3)]);
    // With a name, and in a list of one.
    let named = format!("[summarizer]\nname = \"eu\"\n{one}");
    assert_eq!(asked(&named, &[]), [called("eu", 1)]);
    let listed = format!("[[summarizer]]\nname = \"eu\"\n{one}");
    assert_eq!(asked(&listed, &[]), [called("eu", 1)]);
    assert_eq!(asked(&listed, &variable), [called("eu", 3)]);
    // Several: the one called default, wherever it stands.
    let policies = "[[policy]]\nname = \"a\"\nmodels = [\"a\"]\nsummarizer = \"eu\"\n[[policy]]\n";
    let several = format!("[[summarizer]]\nname = \"eu\"\n{one}[[summarizer]]\n{two}{policies}");
    let expected = [called("eu", 1), called("default", 2)];
    assert_eq!(asked(&several, &[]), expected);
    let expected = [called("eu", 1), called("default", 3)];
    assert_eq!(asked(&several, &variable), expected);
    // None is called so: the upstream itself, or what variables say.
    let strangers = format!(
        "[[summarizer]]\nname = \"eu\"\n{one}[[summarizer]]\nname = \"us\"\n{two}{policies}"
    );
    let expected = [called("eu", 1), ("default".to_owned(), None)];
    assert_eq!(asked(&strangers, &[]), expected);
    let expected = [called("eu", 1), called("default", 3)];
    assert_eq!(asked(&strangers, &variable), expected);
}

#[test]
fn policies_with_different_summarisers_share_no_checkpoint() {
    let toml = "[[summarizer]]\nname = \"eu\"\n[[summarizer]]\nname = \"us\"\n\
        [[policy]]\nname = \"a\"\nmodels = [\"a\"]\nsummarizer = \"eu\"\n\
        [[policy]]\nname = \"b\"\nmodels = [\"b\"]\nsummarizer = \"us\"\n\
        [[policy]]\nname = \"c\"\n";
    let policies = read(toml, &[]).unwrap().policies;
    let [a, b, c] = &policies[..] else {
        panic!("three policies");
    };
    assert!(a.identity != b.identity && b.identity != c.identity);
    let plain = read("", &[]).unwrap().policies;
    assert_eq!(c.identity, plain[0].identity, "as without summarisers");
}

#[test]
fn mistakes_about_summarisers_are_told_with_their_place() {
    let two = "[[summarizer]]\nname = \"records\"\n[[summarizer]]\nname = \"mini\"\n";
    for (toml, key, what) in [
        (
            format!("{two}[[policy]]\n[[policy]]\nname = \"b\"\nsummarizer = \"record\"\n"),
            "policy.1.summarizer",
            "no summarizer is called \"record\", did you mean \"records\"?; there is: records, \
             mini",
        ),
        (
            "[[policy]]\nsummarizer = \"x\"\n".to_owned(),
            "policy.0.summarizer",
            "there is: default. Another one is a table [[summarizer]] with name = \"x\"",
        ),
        (
            format!("{two}[[summarizer]]\nname = \"mini\"\n"),
            "summarizer.2.name",
            "\"mini\" is the name of an earlier summarizer",
        ),
        (
            format!("{two}[[summarizer]]\nname = \"a b\"\n"),
            "summarizer.2.name",
            "\"a b\" is not made of lower-case letters",
        ),
        (
            format!("{two}[[summarizer]]\nname = \"c\"\nurl = \"ftp://x\"\n"),
            "summarizer.2.url",
            "not an http or https URL",
        ),
        (
            format!("{two}[[summarizer]]\nname = \"c\"\nmodle = \"x\"\n"),
            "summarizer.2.modle",
            "unknown key, did you mean \"model\"?",
        ),
    ] {
        let problems = read(&toml, &[]).unwrap_err();
        let [problem] = &problems[..] else {
            panic!("one problem of {toml}: {problems:?}");
        };
        assert_eq!(problem.key, key, "{toml}: {problem}");
        assert!(problem.what.contains(what), "{toml}: {problem}");
    }
}
