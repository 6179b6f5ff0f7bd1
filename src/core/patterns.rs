//! The patterns of all rooms in one place, so that one call compiles every one of them.

use crate::core::text::{BadPattern, Pattern};
use crate::core::{edit, summary, text, wire};

/// Every pattern of the core.
fn all() -> impl Iterator<Item = &'static Pattern> {
    text::PATTERNS
        .into_iter()
        .chain(wire::overflow::patterns())
        .chain(edit::PATTERNS)
        .chain(summary::PATTERNS)
}

/// Compiles every pattern, so that none can fail later. Takes some 30 ms.
///
/// # Errors
/// [`BadPattern`] for the first that is not a regular expression: Baler must not start then.
pub fn check_patterns() -> Result<(), BadPattern> {
    all().try_for_each(Pattern::check)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};

    use regex::Regex;

    use super::all;

    #[test]
    fn every_pattern_compiles() {
        super::check_patterns().unwrap();
    }

    /// Rust files under a folder with their text, tests left out.
    fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(sources(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap().to_owned();
                found.push((path, code));
            }
        }
        found
    }

    #[test]
    fn every_pattern_of_the_source_is_in_the_lists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let one = Regex::new(r"\bstatic \w+: Pattern\b").unwrap();
        let rows = Regex::new(r"(?m)^    (?:phrase|figure)\(").unwrap();
        let mut written = 0;
        for (path, code) in sources(&root) {
            let path = path
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            written += one.find_iter(&code).count() + rows.find_iter(&code).count();
            // An operator's patterns are compiled with the configuration, which reports the bad
            // ones.
            let may_compile = [
                "core/text/built_in.rs",
                "core/text/operator_patterns.rs",
                "config/",
            ];
            if code.contains("Regex::new(") {
                assert!(
                    may_compile.iter().any(|known| path.starts_with(known)),
                    "{path} compiles a pattern of its own: make it a `static NAME: Pattern`"
                );
            }
        }
        let listed: HashSet<*const _> = all().map(std::ptr::from_ref).collect();
        assert_eq!(listed.len(), all().count(), "a pattern is listed twice");
        assert_eq!(listed.len(), written, "a pattern is not in its room's list");
        assert!(written > 60, "{written}");
    }
}
