//! Which requests a policy is for.

use globset::{GlobMatcher, GlobSet};

/// Whom a policy is for. Empty lists match everything.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    /// Model globs.
    pub models: Option<GlobSet>,
    /// Request path globs.
    pub paths: Option<GlobSet>,
    /// Header names (lower case) and globs for their value; all must match.
    pub headers: Vec<(String, GlobMatcher)>,
}
