//! `baler check`: reads the configuration as `serve` would, and reports its problems or its
//! policies.

use std::io::{Result, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::{CheckFlags, EXIT_CONFIG, complain, play};
use crate::config::{Config, Key, StoreUrl, Summarizer};
use crate::core::budget::{Budget, Capacity};
use crate::core::conversation::scale;
use crate::core::edit::Keep;
use crate::core::json::Json;
use crate::core::models::{ModelFacts, Prices};
use crate::core::policy::{Policy, SMALL_WINDOW, Source, Trigger, Window};
use crate::core::strategy::{Step, Strategy};
use crate::{app, config};

pub(super) fn run(flags: CheckFlags) -> anyhow::Result<ExitCode> {
    let mut sources = flags.serve.sources();
    // The variable names the file of the process; another one may be checked in its place.
    let of_variable = std::env::var_os("BALER_CONFIG").map(PathBuf::from);
    if let (Some(file), Some(config)) = (&flags.file, &sources.file)
        && sources.file != of_variable
    {
        complain(&format!(
            "baler check: two configuration files are named, {} and {}",
            file.display(),
            config.display()
        ));
        return Ok(ExitCode::from(EXIT_CONFIG));
    }
    sources.file = flags.file.or(sources.file);
    match config::load(&sources) {
        Ok(config) => {
            report(&config, flags.explain, &mut std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            complain(&problems.to_string());
            Ok(ExitCode::from(EXIT_CONFIG))
        }
    }
}

fn report(config: &Config, explains: bool, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "ok: listens on {}, forwards to {}{}",
        config.listen,
        config.upstream.origin.to_string().trim_end_matches('/'),
        config.upstream.base_path.as_deref().unwrap_or_default()
    )?;
    if config.ledger.store != StoreUrl::Memory {
        writeln!(out, "ledger in {}", config.ledger.store)?;
    }
    for policy in &config.policies {
        writeln!(out, "policy {}", app::describe(policy))?;
        if explains {
            explain(policy, config.upstream.discover_windows, out)?;
            if policy.summarize().is_some() {
                summarizer(config.summarizers.of(policy), out)?;
            }
        }
    }
    for warning in play::warnings(config) {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

/// Every key of a policy with its value; then the numbers that follow from them in the policy's
/// window (the default one where it depends on the model); then the ladder.
fn explain(policy: &Policy, discovers: bool, out: &mut impl Write) -> Result<()> {
    keys(policy, out)?;
    let models = models_of(policy);
    // Where a policy is for one model, the numbers are that model's.
    let model = match &models[..] {
        [only] if !is_pattern(only) => Some(only.as_str()),
        _ => None,
    };
    let model = ModelFacts::of(model);
    let window = policy.window_for(&model);
    let input = Policy::input_limit(&model, window);
    let budget = policy.budget(Capacity { window, input });
    let limit = input.map_or(String::new(), |input| {
        format!(" (the longest input of {} is {input})", models.concat())
    });
    writeln!(
        out,
        "  mode {}, window {window}, room for the prompt {}{limit}",
        policy.delivery.mode.as_str(),
        budget.prompt
    )?;
    if policy.window == Window::Auto {
        windows(policy, discovers, out)?;
    }
    triggers(policy, budget, out)?;
    prices(policy, out)?;
    let Keep {
        tokens,
        turns,
        exchanges,
        messages,
    } = policy.keep;
    // What the head takes is not known before there is a conversation.
    let most = budget.target / 3;
    let tokens = tokens.min(most);
    let by = if policy.least_keep == policy.keep {
        "whatever a step says"
    } else {
        "where a step does not say"
    };
    writeln!(
        out,
        "  keeps the newest {tokens} tokens, {turns} turns, {exchanges} exchanges, {messages} \
         messages, {by}; of these at most {most} tokens, a third of what the head leaves of the \
         target"
    )?;
    for (at, step) in policy.ladder.iter().enumerate() {
        writeln!(out, "  step {}: {}", at + 1, shown(step)?)?;
    }
    Ok(())
}

/// A step with its options. The query of a webhook's address is left out: keys stand there.
fn shown(step: &Step) -> Result<String> {
    let json = serde_json::to_string(step)?;
    Ok(match &step.strategy {
        Strategy::Webhook(webhook) => match webhook.url.split_once('?') {
            Some((address, query)) => json.replace(&format!("{address}?{query}"), address),
            None => json,
        },
        _ => json,
    })
}

fn keys(policy: &Policy, out: &mut impl Write) -> Result<()> {
    let Some(Json::Object(keys)) = Json::parse(&policy.delivery.options) else {
        return Ok(());
    };
    let shown_elsewhere = |key: &str| matches!(key, "name" | "ladder");
    for (key, value) in keys.iter().filter(|(key, _)| !shown_elsewhere(key)) {
        let value = match (key.as_str(), value) {
            ("trigger", Json::Null) => "by the window".to_owned(),
            _ => given(value),
        };
        writeln!(out, "  {key} = {value}")?;
    }
    Ok(())
}

/// The sizes at which a policy acts.
fn triggers(policy: &Policy, budget: Budget, out: &mut impl Write) -> Result<()> {
    let Budget {
        window,
        prompt: room,
        target,
        min_gain,
    } = budget;
    let trigger = &policy.trigger;
    let ratio = trigger.ratio_in(window);
    let limits = [
        ("tokens", ratio.map(|ratio| scale(room, ratio))),
        ("tokens", trigger.tokens),
        ("messages", trigger.messages),
        ("turns", trigger.turns),
        ("tool uses", trigger.tool_uses),
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
        "  acts at {limits}above {room} tokens anyway; down to {target} tokens, \
         saving at least {min_gain}"
    )?;
    let Trigger {
        ratio,
        small_window_ratio,
        ..
    } = *trigger;
    if let (Some(ratio), Some(small)) = (ratio, small_window_ratio) {
        writeln!(
            out,
            "  trigger not given: {ratio} of the room, in windows of fewer than {SMALL_WINDOW} \
             tokens {small}"
        )?;
    }
    if policy.when.is_some() {
        writeln!(out, "  acts when its expression is true")?;
    }
    if let Some(idle) = policy.idle {
        let tokens = scale(room, idle.ratio);
        writeln!(
            out,
            "  acts at {tokens} tokens after {:?} without a request",
            idle.after
        )?;
    }
    Ok(())
}

/// Whether a compaction must pay for tokens that are read anew.
fn prices(policy: &Policy, out: &mut impl Write) -> Result<()> {
    match (policy.break_even, policy.prices) {
        (false, _) => writeln!(out, "  need not pay for tokens that are read anew"),
        (true, None) => writeln!(
            out,
            "  must pay for tokens that are read anew, where the prices of the model's cache are \
             known"
        ),
        (
            true,
            Some(Prices {
                cache_read,
                cache_write,
            }),
        ) => writeln!(
            out,
            "  must pay for tokens that are read anew: cached tokens cost {cache_read} to read \
             and {cache_write} to write"
        ),
    }
}

/// The model that writes a policy's summaries, and the bounds on its cost.
fn summarizer(summarizer: &Summarizer, out: &mut impl Write) -> Result<()> {
    let key = match &summarizer.key {
        Key::None if summarizer.url.is_none() => "the request's own credentials",
        Key::None => "no key",
        Key::File(_) | Key::Value(_) => "a key of its own",
    };
    let model = summarizer
        .model
        .as_ref()
        .map_or("the request's model".to_owned(), |model| {
            format!("model {model}")
        });
    let source = if summarizer.suffix {
        "the client's own list, continued"
    } else {
        "a transcript"
    };
    writeln!(
        out,
        "  summaries by {} ({}), {model}, with {key}, of {source}",
        summarizer.name,
        summarizer.url.as_deref().unwrap_or("the upstream itself"),
    )?;
    writeln!(
        out,
        "  {} at a time, {} for a tenant, {} calls a minute, for {} of the forwarded \
         tokens; {:?} for a call",
        summarizer.concurrency,
        summarizer.concurrency_per_tenant,
        summarizer.calls_per_minute,
        summarizer.max_share,
        summarizer.timeout
    )
}

/// The windows of the policy's models, as far as known before the first request.
fn windows(policy: &Policy, discovers: bool, out: &mut impl Write) -> Result<()> {
    let discovered = if discovers {
        "that in the API's list of models, fetched with the first request; else "
    } else {
        ""
    };
    writeln!(
        out,
        "  window by model: {discovered}that in the table of known models; else {}",
        policy.default_window
    )?;
    for name in models_of(policy).iter().filter(|name| !is_pattern(name)) {
        let model = ModelFacts::of(Some(name));
        let (window, source) = policy.window_by(&model, None);
        let source = if source == Source::Table {
            "from the table"
        } else {
            "not known: default_window"
        };
        let limit = Policy::input_limit(&model, window);
        let limit = limit.map_or(String::new(), |limit| {
            format!("; prompts of at most {limit}")
        });
        writeln!(out, "  window of {name}: {window} ({source}){limit}")?;
    }
    Ok(())
}

/// The models that a policy names.
fn models_of(policy: &Policy) -> Vec<String> {
    let options = Json::parse(&policy.delivery.options);
    let models = match options.as_ref().and_then(|options| options.get("models")) {
        Some(Json::List(models)) => models.as_slice(),
        _ => &[],
    };
    let names = models.iter().filter_map(|model| match model {
        Json::String(name) => Some(name.to_string()),
        _ => None,
    });
    names.collect()
}

/// Whether a model's name stands for several that may differ.
fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '[', '{'])
}

/// A value as an operator would write it: without the keys that are not given.
fn given(value: &Json) -> String {
    match value {
        Json::Null => "none".to_owned(),
        Json::Object(members) => {
            let given = members.iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(given.cloned().collect()).to_string()
        }
        other => other.to_string(),
    }
}
