//! The requests that a policy applies to.

use globset::{GlobMatcher, GlobSet};

/// The requests that a policy applies to. `None` and an empty list match everything.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    /// Model globs.
    pub models: Option<GlobSet>,
    /// Request path globs.
    pub paths: Option<GlobSet>,
    /// Header names (lower case) and globs for their value; all must match.
    pub headers: Vec<(String, GlobMatcher)>,
}

impl Matcher {
    /// Whether every request matches.
    #[must_use]
    pub fn is_for_everything(&self) -> bool {
        self.models.is_none() && self.paths.is_none() && self.headers.is_empty()
    }

    /// Whether a request with this model, path and these headers matches.
    #[must_use]
    pub fn matches<'h>(
        &self,
        model: Option<&str>,
        path: &str,
        header: impl Fn(&str) -> Option<&'h str>,
    ) -> bool {
        let any_or = |globs: &Option<GlobSet>, text: &str| {
            globs.as_ref().is_none_or(|globs| globs.is_match(text))
        };
        any_or(&self.models, model.unwrap_or_default())
            && any_or(&self.paths, path)
            && self
                .headers
                .iter()
                .all(|(name, glob)| header(name).is_some_and(|value| glob.is_match(value)))
    }
}
