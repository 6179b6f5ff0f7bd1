//! Log lines on standard error.

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Starts logging. A later call changes nothing, so that tests may start several Balers.
pub fn init(format: LogFormat, level: &str) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    let _ = match format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // A panic's own message may quote content; its location is enough to find the defect.
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(
            at = panic.location().map(ToString::to_string),
            "panic: a defect; the request concerned continues without the failed work"
        );
    }));
}
