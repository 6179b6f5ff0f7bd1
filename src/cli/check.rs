//! `baler check`: reads the configuration as `serve` would and says what it finds.

use std::io::Write;
use std::process::ExitCode;

use super::{CheckFlags, EXIT_CONFIG, complain};
use crate::{app, config};

pub(super) fn run(flags: CheckFlags) -> anyhow::Result<ExitCode> {
    let mut sources = flags.serve.sources();
    sources.file = flags.file.or(sources.file);
    match config::load(&sources) {
        Ok(config) => {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "ok: listens on {}, forwards to {}{}",
                config.listen,
                config.upstream.origin.to_string().trim_end_matches('/'),
                config.upstream.base_path.as_deref().unwrap_or_default()
            )?;
            for policy in &config.policies {
                writeln!(out, "policy {}", app::describe(policy))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            complain(&problems.to_string());
            Ok(ExitCode::from(EXIT_CONFIG))
        }
    }
}
