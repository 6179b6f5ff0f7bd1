//! The `baler` command. Everything is in the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    baler::cli::run(baler::cli::Cli::parse())
}
