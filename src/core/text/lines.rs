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
