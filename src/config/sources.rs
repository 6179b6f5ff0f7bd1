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
}
