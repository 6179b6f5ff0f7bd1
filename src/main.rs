//! The `baler` command. Everything is in the library.

use std::process::ExitCode;

use clap::Parser;

/// Faster than the system allocator under many small allocations, above all than musl's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    baler::cli::run(baler::cli::Cli::parse())
}
