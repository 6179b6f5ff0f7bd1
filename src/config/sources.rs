//! Where a configuration comes from.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The sources of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables, all of them: those that are not Baler's are ignored.
    pub env: BTreeMap<String, String>,
    /// Flags, by key path (`upstream.url`).
    pub flags: Vec<(&'static str, String)>,
    /// Strategies by name, to use instead of every policy's ladder.
    pub ladder: Option<Vec<String>>,
    /// Whether `upstream.url` may be Baler's own listener, as `OPENAI_BASE_URL` says it to the
    /// application: for commands that forward no request.
    pub may_loop: bool,
}
