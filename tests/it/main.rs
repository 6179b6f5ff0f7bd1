//! The integration tests: Baler in process on ports of its own, real sockets at both ends, a module
//! a behaviour.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and say what they skip"
)]
#![allow(
    unreachable_pub,
    reason = "one binary; pub is what other modules of it use"
)]

mod support;

mod admin;
mod architecture;
mod check_plays;
mod cli;
mod compaction;
mod configuration;
mod connections;
mod corpus;
mod costs;
mod counting;
mod errors;
mod examples;
mod fingerprints;
mod first_day;
mod fuzz;
mod gallery;
mod generated;
mod input_limits;
mod invariants;
mod ladder;
mod late;
mod ledger;
mod marks;
mod metrics_table;
mod mistakes;
mod occupancy;
mod overflow;
mod overload;
mod readme;
mod realistic;
mod replicas;
mod rescue;
mod smuggling;
mod strategies;
mod streaming;
mod summaries;
mod summarizers;
mod telling;
mod tenants;
mod tls;
mod traces;
mod transparency;
mod usage;
mod windows;
