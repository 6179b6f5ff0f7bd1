//! `baler ledger stats` and `baler ledger purge`: the ledger's store, for operators.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::cli::{EXIT_CONFIG, LedgerCommand, complain};
use crate::config::{Config, Sources};
use crate::core::conversation::Fingerprint;
use crate::ledger::{Secrets, operate};
use crate::{config, proxy};

pub(super) fn run(command: LedgerCommand) -> anyhow::Result<ExitCode> {
    let (flags, tenant_of, purges) = match command {
        LedgerCommand::Stats(flags) => (flags, None, false),
        LedgerCommand::Purge { tenant_of, serve } => (serve, tenant_of, true),
    };
    let sources = Sources {
        may_loop: true,
        ..flags.sources()
    };
    let config = match config::load(&sources) {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return Ok(ExitCode::from(EXIT_CONFIG));
        }
    };
    let mut out = std::io::stdout().lock();
    if purges {
        purge(&config, tenant_of.as_deref(), &mut out)?;
    } else {
        stats(&config, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The store is the memory of each process: nothing can be done from outside.
const IN_MEMORY: &str = "ledger.url is \"memory\": each process keeps its own, which ends with it";

fn stats(config: &Config, out: &mut impl Write) -> anyhow::Result<()> {
    let Some(stats) = operate::stats(&config.ledger)? else {
        bail!(IN_MEMORY);
    };
    writeln!(out, "entries {}", stats.entries())?;
    for (kind, count) in &stats.kinds {
        writeln!(out, "  {kind} {count}")?;
    }
    writeln!(out, "bytes {}", stats.bytes)?;
    if let Some(bytes) = stats.file_bytes {
        writeln!(out, "file bytes {bytes}")?;
    }
    Ok(())
}

fn purge(config: &Config, tenant_of: Option<&Path>, out: &mut impl Write) -> anyhow::Result<()> {
    let purged = match tenant_of {
        None => operate::purge(&config.ledger, None)?,
        Some(file) => {
            let secrets = operate::secrets(&config.ledger)?;
            let tenant = tenant(config, &secrets, file)?;
            operate::purge(&config.ledger, Some((&secrets, &tenant)))?
        }
    };
    let Some(purged) = purged else {
        bail!(IN_MEMORY);
    };
    writeln!(out, "purged {purged} entries")?;
    Ok(())
}

/// The tenant whose credentials are in a file: header lines (`name: value`), a query that begins
/// with a question mark, or a key alone, which is a bearer token. No part of the file is shown in
/// errors.
fn tenant(config: &Config, secrets: &Secrets, file: &Path) -> anyhow::Result<Fingerprint> {
    let text = std::fs::read_to_string(file).context("the key file cannot be read")?;
    let (mut headers, mut query) = (HeaderMap::new(), None);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(parameters) = line.strip_prefix('?') {
            query = Some(parameters.to_owned());
            continue;
        }
        let header = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            Some((name, value.trim().to_owned()))
        });
        let (name, value) = header.unwrap_or_else(|| (AUTHORIZATION, format!("Bearer {line}")));
        let value = HeaderValue::try_from(value)
            .ok()
            .context("a line of the key file cannot stand in a header")?;
        headers.append(name, value);
    }
    if headers.is_empty() && query.is_none() {
        bail!("the key file is empty");
    }
    Ok(proxy::tenant_of(
        config,
        secrets,
        &headers,
        query.as_deref(),
    ))
}
