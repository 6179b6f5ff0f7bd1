//! `baler check`: loads the configuration as `serve` would, and prints the problems or a summary.

use std::io::Write;
use std::process::ExitCode;

use crate::cli::{CheckFlags, EXIT_CONFIG, complain};
use crate::core::budget::Budget;
use crate::core::conversation::scale;
use crate::core::edit::Keep;
use crate::core::json::Json;
use crate::core::models::Prices;
use crate::core::policy::{Policy, Source, Trigger, Window};
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
                    explain(policy, config.upstream.discover_windows, &mut out)?;
                    if policy.summarize().is_some() {
                        summarizer(&config.summarizer, &mut out)?;
                    }
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

/// Prints every key of a policy with its value, the numbers that follow from them in the policy's
/// window (`default_window` where the window depends on the model), and the ladder.
fn explain(policy: &Policy, discovers: bool, out: &mut impl Write) -> std::io::Result<()> {
    if let Some(Json::Object(keys)) = Json::parse(&policy.delivery.options) {
        for (key, value) in keys
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "name" | "ladder"))
        {
            writeln!(out, "  {key} = {}", given(value))?;
        }
    }
    let window = policy.window_for(None);
    let Budget {
        room,
        target,
        min_gain,
        ..
    } = policy.budget(window);
    writeln!(
        out,
        "  mode {}, window {window}, room for the prompt {room}",
        policy.delivery.mode.as_str()
    )?;
    if policy.window == Window::Auto {
        windows(policy, discovers, out)?;
    }
    let Trigger {
        ratio,
        tokens,
        messages,
        turns,
    } = policy.trigger;
    let limits = [
        ("tokens", ratio.map(|ratio| scale(room, ratio))),
        ("tokens", tokens),
        ("messages", messages),
        ("turns", turns),
    ];
    let limits: Vec<String> = limits
        .into_iter()
        .filter_map(|(unit, limit)| Some(format!("{} {unit}", limit?)))
        .collect();
    let limits = if limits.is_empty() {
        String::new()
    } else {
        format!("{}, and ", limits.join(", "))
    };
    writeln!(
        out,
        "  acts at {limits}above {room} tokens anyway; down to {target} tokens, saving {min_gain} at least"
    )?;
    if policy.when.is_some() {
        writeln!(out, "  acts when its expression says so")?;
    }
    if let Some(idle) = policy.idle {
        writeln!(
            out,
            "  acts at {} tokens after {:?} of silence",
            scale(room, idle.ratio),
            idle.after
        )?;
    }
    match (policy.break_even, policy.prices) {
        (false, _) => writeln!(out, "  need not pay for what is read anew")?,
        (true, None) => writeln!(
            out,
            "  must pay for what is read anew, where the prices of the model's cache are known"
        )?,
        (
            true,
            Some(Prices {
                cache_read,
                cache_write,
            }),
        ) => {
            writeln!(
                out,
                "  must pay for what is read anew: cached tokens cost {cache_read} to read and {cache_write} to write"
            )?;
        }
    }
    let Keep {
        tokens,
        turns,
        exchanges,
    } = policy.keep;
    writeln!(
        out,
        "  keeps the newest {tokens} tokens, {turns} turns, {exchanges} exchanges"
    )?;
    for (at, step) in policy.ladder.iter().enumerate() {
        let step = serde_json::to_string(step)?;
        writeln!(out, "  step {}: {step}", at + 1)?;
    }
    Ok(())
}

/// Prints which model writes a policy's summaries, and the limits on their cost.
fn summarizer(summarizer: &config::Summarizer, out: &mut impl Write) -> std::io::Result<()> {
    let config::Summarizer {
        url,
        model,
        key,
        suffix,
        ..
    } = summarizer;
    let key = match key {
        config::Key::None if url.is_none() => "the request's own credentials",
        config::Key::None => "no key",
        config::Key::File(_) | config::Key::Value(_) => "a key of its own",
    };
    writeln!(
        out,
        "  summaries by {}, {}, with {key}, of {}",
        url.as_deref().unwrap_or("the upstream itself"),
        model
            .as_ref()
            .map_or("the request's model".to_owned(), |model| format!(
                "model {model}"
            )),
        if *suffix {
            "the client's own list, continued"
        } else {
            "a transcript"
        },
    )?;
    writeln!(
        out,
        "  {} at a time, {} for a tenant, {} calls a minute, for {} of the tokens forwarded; {:?} for a call",
        summarizer.concurrency,
        summarizer.concurrency_per_tenant,
        summarizer.calls_per_minute,
        summarizer.max_share,
        summarizer.timeout
    )
}

/// Prints the windows of the policy's models, as far as they are known before any request.
fn windows(policy: &Policy, discovers: bool, out: &mut impl Write) -> std::io::Result<()> {
    let asked = if discovers {
        "what the API's list of models says, asked with the first request; else "
    } else {
        ""
    };
    writeln!(
        out,
        "  window by model: {asked}the table of known models; else {}",
        policy.default_window
    )?;
    let Some(options) = Json::parse(&policy.delivery.options) else {
        return Ok(());
    };
    let Some(Json::List(models)) = options.get("models") else {
        return Ok(());
    };
    // A pattern may match models with different windows.
    let names = models.iter().filter_map(|model| match model {
        Json::String(name) if !name.contains(['*', '?', '[', '{']) => Some(name),
        _ => None,
    });
    for name in names {
        let (window, source) = policy.window_by(Some(name), None);
        let source = if source == Source::Table {
            "by the table"
        } else {
            "not known: default_window"
        };
        writeln!(out, "  window of {name}: {window} ({source})")?;
    }
    Ok(())
}

/// A value as an operator would write it, without keys that are not set.
fn given(value: &Json) -> String {
    match value {
        Json::Null => "none".to_owned(),
        Json::Object(members) => Json::Object(
            members
                .iter()
                .filter(|(_, value)| *value != Json::Null)
                .cloned()
                .collect(),
        )
        .to_string(),
        other => other.to_string(),
    }
}
