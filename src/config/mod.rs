//! Configuration, in two stages: [`raw`] is the text of an operator, `resolve` checks it and turns
//! it into a [`Config`].
//!
//! Precedence: defaults < `OPENAI_BASE_URL` < TOML file < environment (`BALER_SECTION__KEY`) <
//! flags. All problems are reported at once, each with its key, its value and its source.

mod amounts;
mod load;
mod overlay;
mod problem;
pub mod raw;
mod resolve;
mod snapshot;
mod unreadable;

pub use load::{Sources, from_raw, load};
pub use problem::{Problem, Problems};
pub use raw::{DEFAULT_RESERVE, Limits, LogFormat, OnOverload, ServerTiming};
pub use snapshot::{
    AuthTokens, Config, Hidden, Key, Ledger, RedisServers, SentinelLogin, StoreUrl, Summarizer,
    Tenant, Topology, Upstream,
};
