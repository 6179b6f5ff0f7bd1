//! placeholder
use super::DemoFlags;
use std::process::ExitCode;
pub(super) fn run(_flags: &DemoFlags) -> anyhow::Result<ExitCode> {
    anyhow::bail!("soon")
}
