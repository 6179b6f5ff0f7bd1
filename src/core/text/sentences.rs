//! Cuts long lines into pieces.

/// Cuts a text into pieces of at most about `limit` bytes: after a sentence if possible, otherwise
/// between words, and between characters as a last resort. The pieces concatenate to the text.
pub fn pieces(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, behind) = rest
            .split_at_checked(cut_at(rest, limit))
            .unwrap_or((rest, ""));
        rest = behind;
        Some(piece)
    })
}

fn cut_at(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    let window = text
        .get(..text.floor_char_boundary(limit.max(4)))
        .unwrap_or(text);
    let least = window.len() / 3;
    let after =
        |found: Option<usize>, width: usize| found.map(|at| at + width).filter(|at| *at > least);
    let ends = [". ", "! ", "? ", "; ", "。"];
    // In `20. May`, the number ends no sentence.
    let ends_one = |at: &usize| {
        let before = window
            .get(..*at)
            .and_then(|before| before.chars().next_back());
        before.is_none_or(|c| !c.is_ascii_digit())
    };
    let last_of = |end: &str| {
        let mut found = window.rmatch_indices(end).map(|(at, _)| at).take(2);
        found.find(|at| !end.starts_with('.') || ends_one(at))
    };
    let sentence = ends
        .iter()
        .filter_map(|end| after(last_of(end), end.len()))
        .max();
    sentence
        .or_else(|| after(window.rfind(", "), 2))
        .or_else(|| {
            after(window.rfind(char::is_whitespace), 1).map(|at| window.ceil_char_boundary(at))
        })
        .or_else(|| after(window.rfind([',', '/', '|', ';', '&']), 1))
        .unwrap_or(window.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_ends_no_sentence() {
        let text = "Come to us at last. Register by 20. May or later, but not in June";
        assert_eq!(pieces(text, 40).next(), Some("Come to us at last. "));
    }

    #[test]
    fn pieces_lose_nothing() {
        for text in [
            "One. Two two. Three three three.",
            "漢字かな漢字かな漢字かな",
            "",
            "word ".repeat(40).as_str(),
            &"x".repeat(100),
        ] {
            let all: Vec<&str> = pieces(text, 16).collect();
            assert_eq!(all.concat(), *text);
            assert!(all.iter().all(|piece| piece.len() <= 18), "{all:?}");
        }
    }
}
