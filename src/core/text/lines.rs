//! The lines of a text, found at memory speed.

/// The parts of a text between its line breaks, as `split('\n')` gives them: a text that ends with
/// a break has an empty last one.
pub(in crate::core) fn split_lines(text: &str) -> impl Iterator<Item = &str> + Clone {
    let mut breaks = memchr::memchr_iter(b'\n', text.as_bytes());
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let begin = next?;
        let end = breaks.next();
        next = end.map(|end| end + 1);
        text.get(begin..end.unwrap_or(text.len()))
    })
}

/// Least number of repetitions of a line that are replaced by a count.
pub(super) const LEAST_REPEATS: usize = 3;

/// Each line with how many times it follows itself at once.
pub(super) fn runs<'t>(
    lines: impl Iterator<Item = &'t str>,
) -> impl Iterator<Item = (&'t str, usize)> {
    let mut lines = lines.peekable();
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let mut times = 1;
        while lines.next_if_eq(&line).is_some() {
            times += 1;
        }
        Some((line, times))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_library(text in "[a\n\r é]{0,40}") {
            prop_assert!(split_lines(&text).eq(text.split('\n')));
        }
    }
}
