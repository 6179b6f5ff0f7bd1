//! Regular expressions that are part of the program. None of them is optional: a pattern that does
//! not compile is an error when the process starts, and in a test, never a check that is silently
//! left out.
//!
//! A pattern is a `static` beside the code that uses it, and stands in its room's list of patterns.
//! `core::check_patterns` compiles all of these lists.

use std::sync::OnceLock;

use regex::Regex;

/// A regular expression, compiled when it is first used.
#[derive(Debug)]
pub struct Pattern {
    source: &'static str,
    /// Makes the expression from the source.
    expand: fn(&str) -> String,
    compiled: OnceLock<Regex>,
}

/// A pattern that is not a regular expression, or too large a one: a defect.
#[derive(Debug, thiserror::Error)]
#[error("the built-in pattern {pattern:?} does not compile")]
pub struct BadPattern {
    pattern: &'static str,
    #[source]
    error: regex::Error,
}

impl Pattern {
    /// A pattern that is written as it is compiled.
    #[must_use]
    pub const fn new(source: &'static str) -> Self {
        Pattern::expanded(source, str::to_owned)
    }

    /// A pattern in a notation that `expand` turns into a regular expression.
    #[must_use]
    pub const fn expanded(source: &'static str, expand: fn(&str) -> String) -> Self {
        Pattern {
            source,
            expand,
            compiled: OnceLock::new(),
        }
    }

    /// The pattern as it is written.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// The compiled expression.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "every pattern is compiled by a test and when the process starts"
    )]
    pub fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            Regex::new(&(self.expand)(self.source)).expect("a built-in pattern compiles")
        })
    }

    /// Compiles the pattern.
    ///
    /// # Errors
    /// [`BadPattern`] with its source.
    pub fn check(&self) -> Result<(), BadPattern> {
        match Regex::new(&(self.expand)(self.source)) {
            Ok(regex) => {
                self.compiled.get_or_init(|| regex);
                Ok(())
            }
            Err(error) => Err(BadPattern {
                pattern: self.source,
                error,
            }),
        }
    }

    /// Whether the text has a match.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex().is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_pattern_that_does_not_compile_is_an_error_that_names_it() {
        static BAD: Pattern = Pattern::new("(");
        static GOOD: Pattern = Pattern::expanded("a{n}", |source| source.replace("{n}", "{2}"));
        let error = BAD.check().unwrap_err().to_string();
        assert_eq!(error, "the built-in pattern \"(\" does not compile");
        assert!(GOOD.check().is_ok());
        assert!(GOOD.is_match("baab") && !GOOD.is_match("a"));
    }
}
