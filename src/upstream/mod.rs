//! The client to the LLM API: the addresses that requests go to, and the pools of connections that
//! carry them.
//!
//! INVARIANT: the destination comes from the configuration alone. No header, field or query chooses
//! a host.

mod body;
mod client;
mod connect;
pub mod discovery;
mod trust;

pub use body::{RequestBody, Upload, UploadState};
pub use client::{ConnectionSlot, Upstream};
pub use connect::ConnectError;
