//! Patterns as operators write them, compiled when the configuration is read.

use globset::{Glob, GlobBuilder, GlobMatcher, GlobSet};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Globs for names: `*` and `?` are wild. An empty list matches nothing.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Vec<NamePattern>", into = "Vec<String>")]
#[schemars(with = "Vec<String>")]
pub struct NamePatterns {
    patterns: Vec<String>,
    set: GlobSet,
}

impl NamePatterns {
    /// The patterns, as they were written.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(String::as_str)
    }

    /// Whether there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether any pattern matches `name`.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.set.is_match(name)
    }
}

impl PartialEq for NamePatterns {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl TryFrom<Vec<NamePattern>> for NamePatterns {
    type Error = globset::Error;

    fn try_from(patterns: Vec<NamePattern>) -> Result<Self, Self::Error> {
        let globs: Vec<Glob> = patterns.into_iter().map(|pattern| pattern.0).collect();
        Ok(NamePatterns {
            patterns: globs.iter().map(|glob| glob.glob().to_owned()).collect(),
            set: GlobSet::new(&globs)?,
        })
    }
}

impl From<NamePatterns> for Vec<String> {
    fn from(patterns: NamePatterns) -> Self {
        patterns.patterns
    }
}

/// One glob of a list; a type of its own, so that an error carries the index of its pattern.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct NamePattern(Glob);

impl TryFrom<String> for NamePattern {
    type Error = globset::Error;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        Glob::new(&pattern).map(NamePattern)
    }
}

/// A glob for a name, in whatever case the name is written.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CaselessPattern(GlobMatcher);

impl CaselessPattern {
    /// Whether the pattern matches `name`.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl PartialEq for CaselessPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.glob() == other.0.glob()
    }
}

impl TryFrom<String> for CaselessPattern {
    type Error = globset::Error;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        let glob = GlobBuilder::new(&pattern).case_insensitive(true).build()?;
        Ok(CaselessPattern(glob.compile_matcher()))
    }
}

impl From<CaselessPattern> for String {
    fn from(pattern: CaselessPattern) -> Self {
        pattern.0.glob().glob().to_owned()
    }
}

/// A regular expression for text.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct TextPattern(Regex);

impl TextPattern {
    /// Whether the expression matches anywhere in `text`.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The byte at which the first match begins.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<usize> {
        self.0.find(text).map(|found| found.start())
    }
}

impl PartialEq for TextPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl TryFrom<String> for TextPattern {
    type Error = String;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        Regex::new(&pattern).map(TextPattern).map_err(|error| {
            // The last of several lines has the point; the ones before draw where it is.
            let lines = error.to_string();
            let point = lines.lines().last().unwrap_or_default();
            format!(
                "{pattern:?} is not a regular expression: {}",
                point.trim_start_matches("error: ")
            )
        })
    }
}

impl From<TextPattern> for String {
    fn from(pattern: TextPattern) -> Self {
        pattern.0.as_str().to_owned()
    }
}
