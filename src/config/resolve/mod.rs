//! From the written configuration to the checked one: addresses, URLs, headers, globs and policies.
//! One file a section.

mod check;
mod ladder;
mod ledger;
mod listen;
mod memory;
mod policy;
mod summarizer;
mod tenant;
mod upstream;

use std::net::SocketAddr;

use globset::{Glob, GlobMatcher};

use crate::config::{Config, Sources, raw};
use check::Check;

pub(super) use ledger::SECRET_VARIABLE;

/// Resolves the configuration. Each problem goes to `report(key, problem)`; with one or more the
/// result is `None`.
pub(super) fn resolve(
    raw: &raw::Raw,
    sources: &Sources,
    report: &mut dyn FnMut(String, String),
) -> Option<Config> {
    let mut check = Check::new(report);
    let env = &sources.env;
    let (listen, admin) = check.listeners(raw);
    let workers = check.workers(raw.listen.workers);
    let upstream = check.upstream(&raw.upstream);
    if let Some(upstream) = upstream.as_ref().filter(|_| !sources.may_loop) {
        let of_openai = env.get("OPENAI_BASE_URL") == Some(&raw.upstream.url);
        check.no_loop(&upstream.origin, [listen, admin], of_openai);
    }
    check.route(&raw.route);
    let named = check.named_tenant(&raw.ledger.tenant);
    let tenant = check.tenant(&raw.tenant, named);
    let auth_tokens = check.auth_tokens(raw.listen.auth_tokens_file.as_deref());
    check.log(&raw.log);
    let summarizers = check.summarizers(&raw.summarizer, env, listen);
    check.limits(&raw.limits);
    check.longer_than_nothing("shutdown.timeout", raw.shutdown.timeout);
    let ledger = check.ledger(&raw.ledger, env);
    let policies = check.policies(&raw.policy, &raw.summarizer);
    let config = Config {
        listen: listen?,
        workers,
        auth_tokens,
        server_timing: raw.listen.server_timing,
        response_headers: raw.listen.response_headers,
        admin: admin?,
        upstream: upstream?,
        chat_suffixes: raw.route.chat_suffixes.clone(),
        decode_bodies: raw.route.decode_bodies,
        tenant,
        ledger: ledger?,
        summarizers,
        limits: with_memory(raw.limits),
        shutdown_timeout: raw.shutdown.timeout,
        log_format: raw.log.format,
        log_level: listen::filter(&raw.log.level),
        log_model: raw.log.model,
        policies,
        model_labels: model_labels(&raw.policy),
    };
    check.passed().then_some(config)
}

/// An address with a port. The problem with it goes to `report(key, problem)`.
pub(super) fn address(
    key: &str,
    text: &str,
    report: &mut dyn FnMut(String, String),
) -> Option<SocketAddr> {
    Check::new(report).address(key, text)
}

/// The limits with the memory for bodies, where that is left to Baler.
fn with_memory(limits: raw::Limits) -> raw::Limits {
    let memory_bytes = match limits.memory_bytes {
        0 => memory::for_bodies(),
        bytes => bytes,
    };
    raw::Limits {
        memory_bytes,
        ..limits
    }
}

/// The model globs that policies name, without the one for all models.
fn model_labels(policies: &[raw::Policy]) -> Vec<(String, GlobMatcher)> {
    let patterns = policies.iter().flat_map(|policy| &policy.models);
    let mut patterns: Vec<&String> = patterns.filter(|pattern| *pattern != "*").collect();
    patterns.dedup();
    patterns
        .into_iter()
        .filter_map(|pattern| Some((pattern.clone(), Glob::new(pattern).ok()?.compile_matcher())))
        .collect()
}
