#![doc = include_str!("README.md")]

pub mod admin;
pub mod app;
pub mod background;
pub mod cli;
pub mod config;
pub mod core;
pub mod ledger;
mod listeners;
pub mod observe;
pub mod proxy;
mod random;
pub mod server;
pub mod summarizer;
pub mod upstream;
pub mod webhook;
