//! The same through sockets: two proxies, in front of one upstream that counts more than they do.

use std::net::SocketAddr;

use baler::core::conversation::scale;
use baler::core::planner::Session;
use baler::core::tokens::Encoding;

use crate::invariants::DIALECT;
use crate::support::{Baler, Log, Upstream, agent, json_answer, messages_of, request};

const POLICY: &str = "[[policy]]\nname = \"small\"\nwindow = 4000\nreserve = 1000\n";

/// An upstream that counts `factor` tokens where Baler counts one.
async fn counting(factor: f64) -> (SocketAddr, Log) {
    Upstream::automatic(move |body| {
        let outline = DIALECT.outline(body).unwrap();
        let session = Session::open_afresh(DIALECT, outline, Encoding::O200K).unwrap();
        let messages: u64 = session.measures().iter().map(|known| known.tokens).sum();
        let tokens = scale(messages + session.fixed_tokens(), factor);
        let usage = format!(r#"{{"prompt_tokens":{tokens}}}"#);
        json_answer(&format!(r#"{{"choices":[],"usage":{usage}}}"#))
    })
    .await
}

/// The lists that the upstream got while `replicas` proxies served a conversation in turns; each
/// learned from an answer before the next request.
async fn sent(replicas: usize, factor: f64) -> Vec<Vec<String>> {
    let (upstream, log) = counting(factor).await;
    let mut balers = Vec::new();
    for _ in 0..replicas {
        balers.push(Baler::start(POLICY, upstream).await);
    }
    let all = agent(60, 120);
    for (turn, end) in (2..=all.len()).step_by(2).enumerate() {
        let baler = &balers[turn % replicas];
        let answer = baler.chat(&request(&all[..end])).await;
        assert_eq!(answer.status, 200);
        let learned = (turn / replicas + 1) as f64;
        baler
            .metric_reaches("baler_usage_learned_total", learned)
            .await;
    }
    let log = log.lock().unwrap();
    log.iter().map(|(_, body)| messages_of(body)).collect()
}

fn rewrites(lists: &[Vec<String>]) -> usize {
    let pairs = lists.iter().zip(&lists[1..]);
    pairs
        .filter(|(before, after)| !after.starts_with(before))
        .count()
}

#[tokio::test]
async fn two_proxies_in_turns_keep_the_prefix_although_the_upstream_counts_more() {
    for factor in [1.02, 1.15, 1.4] {
        let (one, two) = (sent(1, factor).await, sent(2, factor).await);
        assert_eq!(one.len(), 61);
        let (once, turns) = (rewrites(&one), rewrites(&two));
        assert!((3..20).contains(&once), "{factor}: {once}");
        assert!(turns * 10 <= once * 13, "{factor}: {turns} against {once}");
    }
}

#[tokio::test]
async fn a_fresh_proxy_goes_on_where_the_client_says_how_the_upstream_counts() {
    let (upstream, log) = counting(1.15).await;
    let mut baler = Baler::start(POLICY, upstream).await;
    let all = agent(60, 120);
    let mut told = String::new();
    for (turn, end) in (2..=all.len()).step_by(2).enumerate() {
        if turn % 10 == 9 {
            baler = Baler::start(POLICY, upstream).await;
        }
        let answer = baler.chat_with(&request(&all[..end]), &told).await;
        assert_eq!(answer.status, 200);
        if let Some(usage) = answer.headers("x-baler-usage").first() {
            told = format!("x-baler-usage: {usage}\r\n");
        }
        let learned = ((turn + 1) % 10) as f64;
        let learned = if turn < 9 {
            (turn + 1) as f64
        } else {
            learned + 1.0
        };
        baler
            .metric_reaches("baler_usage_learned_total", learned)
            .await;
    }
    let lists: Vec<_> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| messages_of(body))
        .collect();
    let once = rewrites(&sent(1, 1.15).await);
    let restarted = rewrites(&lists);
    assert!(restarted * 10 <= once * 12, "{restarted} against {once}");
}
