//! `[listen]`, `[admin]`, `[route]`, `[limits]` and `[log]`.

use std::net::SocketAddr;

use crate::config::raw;
use crate::config::resolve::check::Check;

/// The levels of a log filter.
const LEVELS: [&str; 7] = ["error", "warn", "warning", "info", "debug", "trace", "off"];

/// A log filter as the library reads it: `WARNING` is `warn`.
pub(super) fn filter(level: &str) -> String {
    let directives = level.split(',').map(|directive| {
        let (target, level) = directive
            .rsplit_once('=')
            .map_or((None, directive), |(target, level)| (Some(target), level));
        let level = if level.trim().eq_ignore_ascii_case("warning") {
            "warn"
        } else {
            level.trim()
        };
        target.map_or_else(
            || level.to_owned(),
            |target| format!("{}={level}", target.trim()),
        )
    });
    directives.collect::<Vec<_>>().join(",")
}

/// Threads that serve requests, at most.
const MAX_WORKERS: usize = 256;

impl Check<'_> {
    /// The addresses for applications and for probes.
    pub(super) fn listeners(&mut self, raw: &raw::Raw) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let listen = self.address("listen.address", &raw.listen.address);
        let admin = self.address("admin.address", &raw.admin.address);
        if let (Some(listen), Some(admin)) = (listen, admin)
            && listen.port() != 0
            && listen == admin
        {
            self.fail(
                "admin.address",
                format_args!(
                    "{admin} is the listener's own address: probes and metrics need a port of \
                     their own"
                ),
            );
        }
        (listen, admin)
    }

    /// The number of threads; 0 stands for one per processor.
    pub(super) fn workers(&mut self, workers: u64) -> usize {
        let count = usize::try_from(workers).unwrap_or(usize::MAX);
        if count > MAX_WORKERS {
            self.fail(
                "listen.workers",
                format_args!(
                    "{count} is too many; at most {MAX_WORKERS}, or 0 for one per processor"
                ),
            );
        }
        let count = if count == 0 {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        } else {
            count
        };
        count.min(MAX_WORKERS)
    }

    pub(super) fn route(&mut self, raw: &raw::Route) {
        for (at, suffix) in raw.chat_suffixes.iter().enumerate() {
            if !suffix.starts_with('/') {
                self.fail(
                    &format!("route.chat_suffixes.{at}"),
                    format_args!("\"{suffix}\" does not begin with /"),
                );
            }
        }
    }

    pub(super) fn limits(&mut self, raw: &raw::Limits) {
        self.at_least("limits.connections", raw.connections as u64, 1);
        self.at_least("limits.in_flight", raw.in_flight as u64, 1);
        self.at_least("limits.messages", raw.messages as u64, 1);
        self.at_least("limits.body_bytes", raw.body_bytes as u64, 1 << 10);
        if raw.memory_bytes > 0 && raw.memory_bytes < raw.body_bytes {
            self.fail(
                "limits.memory_bytes",
                format_args!(
                    "{} is less than limits.body_bytes: the longest body could never be inspected",
                    raw.memory_bytes
                ),
            );
        }
        self.longer_than_nothing("limits.header_timeout", raw.header_timeout);
        self.longer_than_nothing("limits.body_timeout", raw.body_timeout);
        self.longer_than_nothing("limits.write_timeout", raw.write_timeout);
        self.longer_than_nothing("limits.plan_timeout", raw.plan_timeout);
        self.longer_than_nothing("limits.plan_deadline", raw.plan_deadline);
        if raw.plan_timeout > raw.plan_deadline {
            self.fail(
                "limits.plan_timeout",
                format_args!(
                    "{:?} is longer than limits.plan_deadline, {:?}: planning would be given up \
                     before its quick steps begin",
                    raw.plan_timeout, raw.plan_deadline
                ),
            );
        }
    }

    pub(super) fn log(&mut self, raw: &raw::Log) {
        let directives = raw.level.split(',').map(str::trim);
        // The filter itself takes any word for the name of a module.
        let are_levels = directives.clone().all(|directive| {
            let level = directive.rsplit('=').next().unwrap_or(directive);
            LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level))
        });
        if !are_levels || tracing_subscriber::EnvFilter::try_new(filter(&raw.level)).is_err() {
            self.fail(
                "log.level",
                format_args!(
                    "\"{}\" is not a log filter; try error, warn, info, debug or trace",
                    raw.level
                ),
            );
        }
    }
}
