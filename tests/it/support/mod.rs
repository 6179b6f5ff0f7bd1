//! What tests need: a Baler, an upstream that does what it is told, and a client that hides
//! nothing.

mod client;
mod upstream;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use baler::app;
use baler::app::Listeners;
use baler::config;
use baler::config::{Config, Sources};
use baler::core::tokens::Encoding;
use tokio_util::sync::CancellationToken;

pub use client::{Answer, Client};
pub use upstream::{Log, Received, Upstream, json_answer};

/// Whether everything is to be played that there is, however long it takes: `BALER_LONG=1`.
pub fn long() -> bool {
    std::env::var_os("BALER_LONG").is_some()
}

/// Waits for `event`, but not for ever.
pub async fn within<F: Future>(event: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), event)
        .await
        .expect("it did not happen in time")
}

/// Waits until `reached` holds, but not for ever: for states that announce themselves by no event,
/// such as metrics, probes and sockets of another process.
pub async fn until(mut reached: impl AsyncFnMut() -> bool) {
    within(Box::pin(async {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !reached().await {
            looks.tick().await;
        }
    }))
    .await;
}

/// Waits until nothing listens at `address` any more.
pub async fn until_closed(address: SocketAddr) {
    until(async || tokio::net::TcpStream::connect(address).await.is_err()).await;
}

/// A configuration from TOML, on free ports and one worker.
pub fn config(toml: &str, upstream: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let flags = vec![
        ("upstream.url", upstream.to_owned()),
        ("listen.address", "127.0.0.1:0".to_owned()),
        ("admin.address", "127.0.0.1:0".to_owned()),
    ];
    let env = [("BALER_LISTEN__WORKERS".to_owned(), "1".to_owned())].into();
    config::load(&Sources {
        file: Some(file.path().to_owned()),
        env,
        flags,
        ..Sources::default()
    })
    .unwrap()
}

/// A running Baler. Dropping it stops it.
pub struct Baler {
    pub data: SocketAddr,
    pub admin: SocketAddr,
    pub stop: CancellationToken,
    pub running: tokio::task::JoinHandle<anyhow::Result<baler::app::Drained>>,
}

impl Baler {
    /// Starts it in front of `upstream` (host and port; `/v1` is added) and waits until it is
    /// ready.
    pub async fn start(toml: &str, upstream: SocketAddr) -> Self {
        Self::start_for(toml, &format!("http://{upstream}/v1")).await
    }

    pub async fn start_for(toml: &str, upstream: &str) -> Self {
        Self::start_with(config(toml, upstream)).await
    }

    /// The same on ports that another one may still hold.
    pub async fn start_on((data, admin): (SocketAddr, SocketAddr), upstream: SocketAddr) -> Self {
        let mut config = config("", &format!("http://{upstream}/v1"));
        (config.listen, config.admin) = (data, admin);
        Self::start_with(config).await
    }

    async fn start_with(config: Config) -> Self {
        // Readiness does not wait for it, and tests ask for what was counted.
        Encoding::O200K.load();
        let listeners = Listeners::bind(&config).await.unwrap();
        let (data, admin) = (
            listeners.data.local_addr().unwrap(),
            listeners.admin.local_addr().unwrap(),
        );
        let stop = CancellationToken::new();
        let running = tokio::spawn(app::run(config, listeners, stop.clone()));
        let baler = Baler {
            data,
            admin,
            stop,
            running,
        };
        until(async || baler.probe("/readyz").await.status == 200).await;
        baler
    }

    /// A request to the admin listener.
    pub async fn probe(&self, path: &str) -> Answer {
        Client::send(
            self.admin,
            &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"),
            b"",
        )
        .await
        .answer()
        .await
    }

    /// The value of a metric, by its name and labels as written.
    pub async fn metric(&self, series: &str) -> f64 {
        let text = self.probe("/metrics").await.text();
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
            .unwrap_or(0.0)
    }

    /// Waits until a metric has at least this value: what is written when an answer ends is written
    /// just after it.
    pub async fn metric_reaches(&self, series: &str, least: f64) {
        until(async || self.metric(series).await >= least).await;
    }

    /// The sum of all series of a metric that have these labels.
    pub async fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.probe("/metrics").await.text();
        let series = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (found, value) = rest.rsplit_once(' ')?;
            let is_it = found.is_empty() || found.starts_with('{');
            let has = |(label, wanted): &(&str, &str)| {
                found.contains(&format!("{{{label}=\"{wanted}\""))
                    || found.contains(&format!(",{label}=\"{wanted}\""))
            };
            (is_it && labels.iter().all(has)).then(|| value.parse::<f64>().unwrap())
        });
        series.sum()
    }

    /// Waits until such a sum has at least this value.
    pub async fn sum_reaches(&self, name: &str, labels: &[(&str, &str)], least: f64) {
        until(async || self.sum(name, labels).await >= least).await;
    }

    /// Waits until a gauge is back at zero.
    pub async fn metric_ends(&self, series: &str) {
        until(async || self.metric(series).await <= 0.0).await;
    }

    /// A chat request, answered.
    pub async fn chat(&self, body: &str) -> Answer {
        self.chat_with(body, "").await
    }

    /// The same with more header lines, each ending in `\r\n`.
    pub async fn chat_with(&self, body: &str, headers: &str) -> Answer {
        self.chat_to("/v1/chat/completions", body, headers).await
    }

    /// The same to another path.
    pub async fn chat_to(&self, path: &str, body: &str, headers: &str) -> Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
            content-length: {}\r\n{headers}connection: close\r\n\r\n",
            body.len()
        );
        within(async {
            Client::send(self.data, &head, body.as_bytes())
                .await
                .answer()
                .await
        })
        .await
    }
}

impl Drop for Baler {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An address where nobody listens. Its port is taken as long as the value is there: tests that run
/// beside this one cannot get it.
pub struct Nobody {
    pub address: SocketAddr,
    _taken: tokio::net::TcpSocket,
}

impl Nobody {
    pub fn there() -> Self {
        let taken = tokio::net::TcpSocket::new_v4().unwrap();
        taken.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Nobody {
            address: taken.local_addr().unwrap(),
            _taken: taken,
        }
    }
}

/// `content` as a message of `role`.
pub fn message(role: &str, content: &str) -> String {
    format!(
        r#"{{"role":"{role}","content":{}}}"#,
        serde_json::to_string(content).unwrap()
    )
}

/// A request body with these messages.
pub fn request(messages: &[String]) -> String {
    format!(
        r#"{{"model":"test-model","temperature":0.50,"messages":[{}],"x":1e2}}"#,
        messages.join(",")
    )
}

/// Text of about so many tokens, different for each `seed`.
pub fn words(seed: usize, tokens: usize) -> String {
    let words = [
        "river", "stone", "cloud", "seven", "paper", "green", "table", "music", "light", "north",
    ];
    (0..tokens)
        .map(|i| words[(i * 7 + seed * 3 + i * i * seed) % words.len()])
        .collect::<Vec<_>>()
        .join(" ")
}

/// A conversation of an agent: an instruction, a task, then calls with results of about `tokens`
/// tokens.
pub fn agent(steps: usize, tokens: usize) -> Vec<String> {
    let mut messages = vec![
        message("system", "You are an agent."),
        message("user", "Find the answer."),
    ];
    for step in 0..steps {
        messages.push(format!(
            concat!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{step}","#,
                r#""type":"function","function":{{"name":"read","#,
                r#""arguments":"{{\"n\":{step}}}"}}}}]}}"#,
            ),
            step = step,
        ));
        let content = serde_json::to_string(&words(step, tokens)).unwrap();
        messages.push(format!(
            r#"{{"role":"tool","tool_call_id":"call_{step}","content":{content}}}"#
        ));
    }
    messages
}

/// The messages of a request body, each as its raw JSON.
pub fn messages_of(body: &[u8]) -> Vec<String> {
    baler::core::wire::chat::Outline::parse(body)
        .unwrap()
        .messages
        .into_iter()
        .map(str::to_owned)
        .collect()
}
