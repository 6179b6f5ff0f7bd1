//! The command line: flags and subcommands. Each command has a file of its own.

mod account;
mod check;
mod compact;
mod demo;
mod ledger;
mod play;
mod probe;
mod schema;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::config;
use crate::config::Sources;

/// Exit code for a refused configuration.
const EXIT_CONFIG: u8 = 2;
/// Exit code where the shutdown timeout cut requests off.
const EXIT_CUT: u8 = 3;

/// Keeps long LLM conversations inside the context window. A sidecar proxy for OpenAI-compatible
/// APIs.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve (the default).
    Serve(ServeFlags),
    /// Check a configuration file, the environment and the flags. Lists every problem, with exit
    /// code 2.
    Check(CheckFlags),
    /// Compact requests without a proxy: reads chat-completion bodies (JSON or JSON Lines), writes
    /// the compacted bodies, and reports on each on standard error.
    Compact(CompactFlags),
    /// Play a long conversation with and without Baler. Needs no key, no network and no file.
    Demo(DemoFlags),
    /// Look at, or empty, the store that ledger.url names. A running Baler may use it meanwhile;
    /// what it has in memory stays there.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Ask a running Baler whether it is ready: exit code 0 if it is. The health check of a
    /// container.
    Probe(ServeFlags),
    /// Print the JSON schema of the configuration file.
    Schema,
}

#[derive(Debug, Clone, Default, Args)]
struct ServeFlags {
    /// Configuration file (TOML).
    #[arg(long, short, env = "BALER_CONFIG", value_name = "FILE", value_parser = file_name())]
    config: Option<PathBuf>,
    /// The LLM API's base URL [key: upstream.url, env: BALER_UPSTREAM__URL or OPENAI_BASE_URL].
    #[arg(long, short, value_name = "URL")]
    upstream: Option<String>,
    /// Where applications connect [key: listen.address, env: BALER_LISTEN__ADDRESS].
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// Where probes and Prometheus connect [key: admin.address, env: BALER_ADMIN__ADDRESS].
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<String>,
    /// enforce, observe or off, for the built-in default policy [env: BALER_POLICY__MODE].
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Context length in tokens, such as 128k, or auto, for the built-in default policy [env:
    /// BALER_POLICY__WINDOW].
    #[arg(long, value_name = "TOKENS")]
    window: Option<String>,
    /// text or json [key: log.format, env: BALER_LOG__FORMAT].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// error, warn, info, debug or trace [key: log.level, env: BALER_LOG__LEVEL].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

#[derive(Debug, Args)]
struct CheckFlags {
    /// The file. Default: the file that `serve` would use.
    file: Option<PathBuf>,
    /// Print each policy's numbers and every step of its ladder with all its options.
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    serve: ServeFlags,
}

#[derive(Debug, Args)]
struct CompactFlags {
    /// File with the requests. Default: standard input.
    file: Option<PathBuf>,
    /// Configuration file (TOML).
    #[arg(long, short, env = "BALER_CONFIG", value_name = "FILE", value_parser = file_name())]
    config: Option<PathBuf>,
    /// Policy to apply. Default: the first one that matches the request's model.
    #[arg(long, short, value_name = "NAME")]
    policy: Option<String>,
    /// Strategies to use instead of the policy's ladder, with their defaults.
    #[arg(long, value_delimiter = ',', value_name = "STRATEGY,…")]
    ladder: Option<Vec<String>>,
    /// Compact whatever the size, down to this share of the tokens after the leading system and
    /// developer messages.
    #[arg(long, value_name = "RATIO", conflicts_with = "target_tokens")]
    target_ratio: Option<f64>,
    /// Compact whatever the size, down to this many prompt tokens. Without a target and a room the
    /// policy decides, as in the proxy.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    target_tokens: Option<u64>,
    /// The most that the prompt may take: tokens, or with a point a share as for --target-ratio.
    /// Newest results are cut only where the prompt would exceed it. Default: what the model's
    /// window leaves for it. Without a target, what exceeds the room is compacted down to the
    /// policy's target in it.
    #[arg(long, value_name = "TOKENS|RATIO")]
    room: Option<Room>,
    /// Also report on each message: kept, dropped, or replaced, by what, and its tokens before and
    /// after.
    #[arg(long)]
    explain: bool,
}

/// The most that a prompt may take.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Room {
    /// Prompt tokens.
    Tokens(u64),
    /// A share of the tokens after the leading instructions, above 0 and up to 1.
    Ratio(f64),
}

impl std::str::FromStr for Room {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(tokens) = tokens(text) {
            return Ok(Room::Tokens(tokens));
        }
        let ratio = text.parse().ok();
        ratio
            .filter(|ratio| *ratio > 0.0 && *ratio <= 1.0)
            .map(Room::Ratio)
            .ok_or_else(|| "neither a number of tokens nor a share between 0.0 and 1.0".to_owned())
    }
}

/// A number of tokens as the configuration takes it: `4000` or `4k`.
fn tokens(text: &str) -> Result<u64, String> {
    config::amount(text).ok_or_else(|| "not a number of tokens such as 4000 or 4k".to_owned())
}

/// Takes an empty name, too: a variable that is empty counts as one that is not set.
fn file_name() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// The configuration file that a flag or the variable names. An empty flag is left to be refused:
/// whoever gives one expects a file to be read.
fn configuration_file(file: Option<PathBuf>) -> Option<PathBuf> {
    let variable = std::env::var_os("BALER_CONFIG");
    let is_ignored = variable.is_some_and(|name| name.is_empty());
    file.filter(|file| !is_ignored || !file.as_os_str().is_empty())
}

#[derive(Debug, Subcommand)]
enum LedgerCommand {
    /// How many entries of each kind there are, and their bytes.
    Stats(ServeFlags),
    /// Take entries out: all of them, or those of one tenant.
    Purge {
        /// File with the tenant's credentials: header lines as its requests send them, or its API
        /// key alone.
        #[arg(long, value_name = "KEY_FILE")]
        tenant_of: Option<PathBuf>,
        #[command(flatten)]
        serve: ServeFlags,
    },
}

#[derive(Debug, Args)]
struct DemoFlags {
    /// Number of requests that the agent makes.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// Print plain lines, even on a terminal.
    #[arg(long)]
    plain: bool,
}

impl ServeFlags {
    /// The sources of the configuration: these flags, the file that they name, and the environment.
    fn sources(self) -> Sources {
        let flags = [
            ("upstream.url", self.upstream),
            ("listen.address", self.listen),
            ("admin.address", self.admin),
            ("policy.mode", self.mode),
            ("policy.window", self.window),
            ("log.format", self.log_format),
            ("log.level", self.log_level),
        ];
        Sources {
            file: configuration_file(self.config),
            env: environment(),
            flags: flags
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect(),
            ladder: None,
            may_loop: false,
        }
    }
}

/// The variables of the environment that are valid Unicode.
fn environment() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Runs the command.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        None => serve::run(cli.serve),
        Some(Command::Serve(flags)) => serve::run(flags),
        Some(Command::Check(flags)) => check::run(flags),
        Some(Command::Compact(flags)) => compact::run(&flags),
        Some(Command::Demo(flags)) => demo::run(&flags),
        Some(Command::Ledger(command)) => ledger::run(command),
        Some(Command::Probe(flags)) => probe::run(flags),
        Some(Command::Schema) => schema::run(),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Writes a line to standard error. A failure to do so is ignored, because there is no other place
/// to report it.
fn complain(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}
