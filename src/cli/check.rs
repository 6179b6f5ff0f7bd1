//! `baler check`: reads the configuration as `serve` would and says what it finds.

use std::io::Write;
use std::process::ExitCode;

use super::{CheckFlags, EXIT_CONFIG, complain};
use crate::core::draft::Keep;
use crate::core::policy::{Budget, Policy, Trigger};
use crate::core::size::scale;
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
                if flags.explain {
                    explain(policy, &mut out)?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            complain(&problems.to_string());
            Ok(ExitCode::from(EXIT_CONFIG))
        }
    }
}

/// A policy's numbers in its window (the default one where it depends on the model), and its ladder.
fn explain(policy: &Policy, out: &mut impl Write) -> std::io::Result<()> {
    let window = policy.window_for(None);
    let Budget { room, target, min_gain, .. } = policy.budget(window);
    writeln!(out, "  mode {}, window {window}, room for the prompt {room}", policy.mode.as_str())?;
    let Trigger { ratio, tokens, messages, turns } = policy.trigger;
    let limits = [
        ("tokens", ratio.map(|ratio| scale(room, ratio)).or(tokens)),
        ("tokens", ratio.and(tokens)),
        ("messages", messages),
        ("turns", turns),
    ];
    let limits: Vec<String> = limits.into_iter().filter_map(|(unit, limit)| Some(format!("{} {unit}", limit?))).collect();
    let limits = if limits.is_empty() { String::new() } else { format!("{}, and ", limits.join(", ")) };
    writeln!(out, "  acts at {limits}above {room} tokens anyway; down to {target} tokens, saving {min_gain} at least")?;
    if policy.when.is_some() {
        writeln!(out, "  acts when its expression says so")?;
    }
    if let Some(idle) = policy.idle {
        writeln!(out, "  acts at {} tokens after {:?} of silence", scale(room, idle.ratio), idle.after)?;
    }
    let Keep { tokens, turns, exchanges } = policy.keep;
    writeln!(out, "  keeps the newest {tokens} tokens, {turns} turns, {exchanges} exchanges")?;
    for (at, step) in policy.ladder.iter().enumerate() {
        writeln!(out, "  step {}: {}", at + 1, step.options)?;
    }
    Ok(())
}
