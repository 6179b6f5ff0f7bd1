//! Lines of files that a text names: `src/main.rs:12:5`, `File "a/b.py", line 3`,
//! `view.tsx(31,44)`.

use super::bytes::ByteSet;

/// The bytes of paths that are looked at: a path with a blank in it is not found as a whole.
static OF_PATHS: ByteSet = ByteSet::of(b"_-./").and_alphanumeric().and(0x80, 0xff);
/// What may stand between a path and the number of a line.
const BEFORE_LINE: [&str; 5] = [":", "(", "\", line ", " on line ", "#L"];
/// The longest ending of a file's name (bytes).
const MOST_ENDING: usize = 5;
/// The longest path (bytes).
const MOST_PATH: usize = 400;
/// The most digits of a line's number.
const MOST_DIGITS: usize = 7;

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePlace<'t> {
    /// The path, as far as it was written.
    pub path: &'t str,
    /// From 1.
    pub line: u32,
}

/// The lines of files that a text names, in its order.
pub fn file_places(text: &str) -> impl Iterator<Item = FilePlace<'_>> {
    paths(text).filter_map(|(path, behind)| {
        let line = number_of_line(behind)?;
        Some(FilePlace { path, line })
    })
}

/// The paths of files with an ending that a text names.
pub fn file_paths(text: &str) -> impl Iterator<Item = &str> {
    paths(text).map(|(path, _)| path)
}

/// The name of a file without its folders.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether two paths may be of one file: one of them is the end of the other. Where words are not
/// told apart by blanks, one may stand before a path.
#[must_use]
pub fn is_same_file(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|path| path.trim_start_matches("./"));
    let (short, long) = if one.len() <= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    long.strip_suffix(short).is_some_and(|before| {
        let ends = |c: char| c == '/' || !c.is_ascii();
        before.is_empty() || before.ends_with(ends) || short.starts_with('/')
    })
}

/// What looks like the path of a file with an ending, each with what stands behind it.
fn paths(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, begun) = rest.split_at(OF_PATHS.run(rest.as_bytes(), false));
            if begun.is_empty() {
                return None;
            }
            let (path, behind) = begun.split_at(OF_PATHS.run(begun.as_bytes(), true));
            rest = behind;
            // The stop of a sentence is none of it.
            let path = path.trim_end_matches('.');
            if is_path(path) {
                return Some((path, behind));
            }
        }
    })
}

fn is_path(word: &str) -> bool {
    word.len() <= MOST_PATH
        && file_name(word)
            .rsplit_once('.')
            .is_some_and(|(stem, ending)| {
                !stem.is_empty()
                    && (1..=MOST_ENDING).contains(&ending.len())
                    && ending.starts_with(|c: char| c.is_ascii_alphabetic())
                    && ending.bytes().all(|b| b.is_ascii_alphanumeric())
            })
}

/// The number of the line in what stands behind a path.
fn number_of_line(behind: &str) -> Option<u32> {
    let number = BEFORE_LINE
        .iter()
        .find_map(|before| behind.strip_prefix(before))?;
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=MOST_DIGITS).contains(&digits) {
        return None;
    }
    number.get(..digits)?.parse().ok().filter(|line| *line > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_the_forms_of_compilers_and_traces() {
        let found = |text| -> Vec<(&str, u32)> {
            file_places(text)
                .map(|place| (place.path, place.line))
                .collect()
        };
        for (text, place) in [
            (
                "billing/proration.py:72: in _bounds",
                ("billing/proration.py", 72),
            ),
            (
                r#"  File "/repo/a/b.py", line 3, in f"#,
                ("/repo/a/b.py", 3),
            ),
            ("src/a.tsx(31,44): error TS2345", ("src/a.tsx", 31)),
            ("  --> src/main.rs:12:5", ("src/main.rs", 12)),
            ("\tat org.Foo.bar(Foo.java:42)", ("Foo.java", 42)),
            ("in /var/www/a.php on line 9", ("/var/www/a.php", 9)),
            ("see docs/größe.md#L7", ("docs/größe.md", 7)),
            ("Last file: a.ts. Not b.ts:7.", ("b.ts", 7)),
        ] {
            assert_eq!(found(text), [place], "{text}");
        }
        for text in [
            "1.2:30",
            "at 12:30",
            "a.py",
            "a.py: 3",
            ".env:3",
            "x.py:0",
            "x.py:99999999",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
        assert_eq!(found("a.c:1: b.c:2"), [("a.c", 1), ("b.c", 2)]);
    }

    #[test]
    fn a_file_is_named_by_the_end_of_its_path() {
        let call = "read_file(path=billing/proration.py, start=61)";
        let named = |path| file_paths(call).any(|other| is_same_file(path, other));
        for path in [
            "billing/proration.py",
            "/repo/billing/proration.py",
            "proration.py",
            "请修复在billing/proration.py",
        ] {
            assert!(named(path), "{path}");
        }
        for path in ["ration.py", "web/proration.py", "proration.pyi"] {
            assert!(!named(path), "{path}");
        }
    }
}
