//! `baler serve`: runs until SIGTERM or SIGINT.

use std::process::ExitCode;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::app;
use crate::app::Listeners;
use crate::cli::{EXIT_CONFIG, EXIT_CUT, ServeFlags, complain};
use crate::config::Limits;
use crate::{config, observe};

pub(super) fn run(flags: ServeFlags) -> anyhow::Result<ExitCode> {
    let sources = flags.sources();
    let mut config = match config::load(&sources) {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return Ok(ExitCode::from(EXIT_CONFIG));
        }
    };
    observe::init_logging(config.log_format, &config.log_level);
    let file = sources.file.as_ref().map_or_else(
        || "none, only defaults, variables and flags".to_owned(),
        |file| file.display().to_string(),
    );
    info!(
        "baler {}, configuration file: {file}",
        env!("CARGO_PKG_VERSION")
    );
    config.limits.connections = within_descriptors(config.limits.connections);
    // This thread accepts connections, answers probes and handles signals. Requests run on threads
    // of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let drained = runtime.block_on(async {
        let listeners = Listeners::bind(&config).await.context("cannot listen")?;
        let stop = CancellationToken::new();
        let signals = stop_on_signals(stop.clone())?;
        let served = app::run(config, listeners, stop).await;
        drop(signals);
        served
    })?;
    // Tasks that the shutdown timeout cut off must not keep the process alive.
    runtime.shutdown_background();
    Ok(match drained.cut {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_CUT),
    })
}

/// Descriptors that are not for connections of applications: both listeners, the admin port's
/// connections, event loops, standard streams.
const RESERVED_DESCRIPTORS: u64 = 128;

/// Raises the limit of descriptors as far as the process may. Returns the number of client
/// connections, `wanted` at most, for which there are two each: one to the client, one to the
/// upstream.
fn within_descriptors(wanted: usize) -> usize {
    let limits = getrlimit(Resource::Nofile);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limits.maximum,
            maximum: limits.maximum,
        },
    );
    let limit = match raised {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    };
    let Some(limit) = limit else { return wanted };
    let possible = usize::try_from(limit.saturating_sub(RESERVED_DESCRIPTORS) / 2);
    let possible = possible.unwrap_or(usize::MAX).max(1);
    if possible < wanted {
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    descriptors = limit,
                    "limits.connections is {wanted}, but there are descriptors for {possible} only"
                )
            };
        }
        // A limit that nobody set promises nothing.
        if wanted == Limits::default().connections {
            line!(info);
        } else {
            line!(warn);
        }
    }
    wanted.min(possible)
}

/// Drains on the first SIGTERM or SIGINT, and exits at once on the second.
fn stop_on_signals(stop: CancellationToken) -> anyhow::Result<AbortOnDropHandle<()>> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    // Without a handler it ends the process; some supervisors send it to have files read again.
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let mut next = async || {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return "SIGTERM",
                    _ = interrupt.recv() => return "SIGINT",
                    _ = hang_up.recv() => {
                        warn!("SIGHUP ignored: the configuration is read at the start only");
                    }
                }
            }
        };
        // The signal is awaited outside of the log macros, because they do not evaluate their
        // arguments when the level is off.
        let first = next().await;
        info!("{first} received");
        stop.cancel();
        let second = next().await;
        warn!("{second} received again: not waiting any longer");
        std::process::exit(1);
    })))
}
