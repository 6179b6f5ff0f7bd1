//! Configuration, in two stages: [`raw`] is the text of an operator, `resolve` checks it and turns
//! it into a [`Config`].
//!
//! Precedence: defaults < `OPENAI_BASE_URL` < TOML file < environment (`BALER_SECTION__KEY`) <
//! flags. All problems are reported at once, each with its key, its value and its source.

mod amounts;
mod foreign;
mod load;
mod overlay;
mod place;
mod problem;
pub mod raw;
mod resolve;
mod snapshot;
mod sources;
mod unreadable;

pub(crate) use amounts::amount;
pub use load::{from_raw, load, load_admin};
pub use problem::{Problem, Problems};
pub use raw::{DEFAULT_RESERVE, DEFAULT_SUMMARIZER, Limits, LogFormat, OnOverload, ServerTiming};
pub use snapshot::{
    AuthTokens, Config, Hidden, Key, Ledger, RedisServers, SentinelLogin, StoreUrl, Summarizer,
    Summarizers, Tenant, Topology, Upstream,
};
pub use sources::Sources;
