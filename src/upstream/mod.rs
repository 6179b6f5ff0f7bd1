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

use hyper::Uri;

pub use body::{RequestBody, Upload, UploadState};
pub use client::{ConnectionSlot, Upstream};
pub use connect::ConnectError;

/// Where a URI leads to, for the log: without credentials, and without a query, which may hold a
/// key.
#[must_use]
pub fn address_of(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().map(|port| format!(":{port}"));
    let port = port.unwrap_or_default();
    format!("{scheme}://{host}{port}{}", uri.path())
}
