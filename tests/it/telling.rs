//! Baler says what it does: metrics that answer questions, one line for each thing that happened.

mod command;
mod log;
mod metrics;
