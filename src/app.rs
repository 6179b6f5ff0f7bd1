//! Baler as a whole: both listeners, the workers, and an orderly shutdown.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::admin;
use crate::admin::Readiness;
use crate::config::{Config, StoreUrl, Summarizer};
use crate::core;
use crate::core::policy::{Policy, Window};
use crate::core::tokens::Encoding;
use crate::observe::Metrics;
use crate::observe::event::OpenToAll;
use crate::proxy;
use crate::proxy::{Proxy, Shared};
use crate::server;
use crate::server::{Bounds, Worker};

pub use crate::listeners::Listeners;

/// Connections of the admin listener at a time. A further one takes the place of the one that has
/// been idle for longest.
const ADMIN_CONNECTIONS: usize = 64;
/// Time for a request's head on the admin listener, and for a client to take something.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the admin listener to end once the data listener has ended.
const ADMIN_DRAIN: Duration = Duration::from_millis(500);

/// How the listener for applications ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Requests that were running when the shutdown timeout was over, and were cut off.
    pub cut: usize,
}

/// Serves until `stop` is cancelled. Then readiness goes off, nothing new is accepted, and running
/// requests may finish.
///
/// # Errors
/// When Baler could not be built from this configuration.
pub async fn run(
    config: Config,
    listeners: Listeners,
    stop: CancellationToken,
) -> anyhow::Result<Drained> {
    core::check_patterns()?;
    let metrics = Arc::new(Metrics::new()?);
    let readiness = Arc::new(Readiness::default());
    announce(&config, &listeners);
    let bounds = Bounds {
        connections: config.limits.connections,
        header_timeout: config.limits.header_timeout,
        write_timeout: config.limits.write_timeout,
        http1_only: false,
        drain_timeout: config.shutdown_timeout,
    };
    let count = config.workers.max(1);
    let shared = Arc::new(Shared::new(config, Arc::clone(&metrics))?);

    // The vocabulary of most models, which nobody waits for: a request that must be counted before
    // it is there waits on a thread that plans. The others are loaded by the first request that
    // needs them.
    let load = tokio::task::spawn_blocking(|| Encoding::O200K.load());
    let stop_admin = CancellationToken::new();
    let admin = serve_admin(
        listeners.admin,
        Admin {
            readiness: Arc::clone(&readiness),
            metrics,
        },
        bounds,
        stop_admin.clone(),
    );
    let workers = workers(&shared, count, bounds)?;
    readiness.set(true);
    let stopping = async {
        stop.cancelled().await;
        readiness.set(false);
        info!("draining: readiness is off, nothing new is accepted");
        shared.close().await;
    };
    let serving = server::serve(listeners.data, workers, bounds.connections, stop.clone());
    let (cut, ()) = tokio::join!(serving, stopping);
    shared.flush().await;
    if cut == 0 {
        info!("drained: every request was finished");
    } else {
        warn!(
            requests = cut,
            "the shutdown timeout is over: requests still running are cut off"
        );
    }
    stop_admin.cancel();
    admin.await?;
    load.await?;
    Ok(Drained { cut })
}

/// What the admin listener serves.
#[derive(Debug, Clone)]
struct Admin {
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
}

/// Serves probes and metrics on this event loop until `stop` is cancelled.
fn serve_admin(
    listener: TcpListener,
    admin: Admin,
    bounds: Bounds,
    stop: CancellationToken,
) -> AbortOnDropHandle<usize> {
    let is_local = listener
        .local_addr()
        .is_ok_and(|address| address.ip().is_loopback());
    let handle = move |request| {
        let Admin { readiness, metrics } = admin.clone();
        admin::handle(readiness, metrics, is_local, request)
    };
    let bounds = Bounds {
        header_timeout: bounds.header_timeout.min(ADMIN_TIMEOUT),
        write_timeout: bounds.write_timeout.min(ADMIN_TIMEOUT),
        drain_timeout: ADMIN_DRAIN,
        http1_only: true,
        ..bounds
    };
    let worker = Worker::here(handle, proxy::after_panic, bounds);
    let serving = server::serve(listener, vec![worker], ADMIN_CONNECTIONS, stop);
    AbortOnDropHandle::new(tokio::spawn(serving))
}

/// The threads that serve requests, each with upstream connections of its own.
fn workers(shared: &Arc<Shared>, count: usize, bounds: Bounds) -> io::Result<Vec<Worker>> {
    let worker = |at: usize| {
        let proxy = Arc::new(Proxy::new(Arc::clone(shared))?);
        let handle = move |request| proxy::handle(Arc::clone(&proxy), request);
        Worker::thread(
            &format!("worker-{at}"),
            handle,
            shared.after_panic(),
            bounds,
        )
    };
    (0..count).map(worker).collect()
}

/// Logs the addresses and the policies, a line each.
fn announce(config: &Config, listeners: &Listeners) {
    if let (Ok(data), Ok(admin)) = (listeners.data.local_addr(), listeners.admin.local_addr()) {
        info!("listening on http://{data}/v1 (metrics and probes on http://{admin})");
        if !data.ip().is_loopback() && config.auth_tokens.is_none() {
            OpenToAll { address: data }.emit();
        }
    }
    info!(
        "forwarding to {}{}",
        config.upstream.origin.to_string().trim_end_matches('/'),
        config.upstream.base_path.as_deref().unwrap_or_default()
    );
    if config.ledger.store != StoreUrl::Memory {
        info!("ledger in {}", config.ledger.store);
    }
    for policy in &config.policies {
        info!("policy {}", describe(policy));
        if policy.summarize().is_some() {
            let Summarizer {
                name, url, model, ..
            } = config.summarizers.of(policy);
            info!(
                "policy {}: summaries by {name}, {}, {}",
                policy.name,
                url.as_deref().unwrap_or("the upstream itself"),
                model.as_deref().unwrap_or("the request's model")
            );
        }
    }
}

/// A policy in a line.
#[must_use]
pub fn describe(policy: &Policy) -> String {
    let window = match policy.window {
        Window::Auto => format!("auto (unknown models {})", policy.default_window),
        Window::Tokens(tokens) => tokens.to_string(),
    };
    let mut trigger: Vec<String> = Vec::new();
    let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
    let small = policy
        .trigger
        .small_window_ratio
        .map_or(String::new(), |ratio| {
            format!(" ({} in windows below 32k)", percent(ratio))
        });
    let ratio = policy.trigger.ratio;
    trigger.extend(ratio.map(|ratio| format!("{}{small}", percent(ratio))));
    trigger.extend(
        policy
            .trigger
            .tokens
            .map(|tokens| format!("{tokens} tokens")),
    );
    trigger.extend(
        policy
            .trigger
            .messages
            .map(|messages| format!("{messages} messages")),
    );
    trigger.extend(policy.trigger.turns.map(|turns| format!("{turns} turns")));
    let tool_uses = policy.trigger.tool_uses;
    trigger.extend(tool_uses.map(|calls| format!("{calls} tool uses")));
    trigger.extend(policy.when.as_ref().map(|_| "its expression".to_owned()));
    let ladder: Vec<&str> = policy
        .ladder
        .iter()
        .map(|step| step.strategy.name())
        .collect();
    let reserve = match policy.window {
        Window::Auto => policy.reserve,
        Window::Tokens(tokens) => policy.reserve.min(tokens / 4),
    };
    format!(
        "{}: mode {}, window {window}, reserve {reserve}, acts at {}, ladder {}",
        policy.name,
        policy.delivery.mode.as_str(),
        if trigger.is_empty() {
            "overflow".to_owned()
        } else {
            trigger.join(" or ")
        },
        if ladder.is_empty() {
            "empty".to_owned()
        } else {
            ladder.join(" > ")
        },
    )
}
