//! `baler schema`: prints the JSON schema of the configuration file.

use std::io::Write;
use std::process::ExitCode;

use crate::config::raw;

pub(super) fn run() -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout().lock(), "{:#}", raw::schema())?;
    Ok(ExitCode::SUCCESS)
}
