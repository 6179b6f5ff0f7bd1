//! Long runs of letters, of punctuation or of blanks: a vocabulary takes each as one word, and its
//! merges take many times as long there as in prose.

/// Bytes of a run that are counted by themselves. A multiple of most short periods, so that what
/// repeats itself gives equal blocks.
pub(super) const BLOCK: usize = 5_760;

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'t> {
    /// Words of usual length, and the ends of longer ones.
    Text(&'t str),
    /// [`BLOCK`] bytes inside of one run.
    Run(&'t str),
}

/// The parts of a text, in order and without gaps.
pub(super) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let (mut begun, mut at) = (0, 0);
    let mut run = None;
    std::iter::from_fn(move || {
        if let Some(block) = run.take() {
            return Some(Part::Run(block));
        }
        while at < text.len() {
            let end = text.floor_char_boundary(at + BLOCK);
            let block = text.get(at..end).filter(|block| is_run(block));
            let before = text.get(begun..at).unwrap_or_default();
            at = end;
            if let Some(block) = block {
                begun = end;
                if before.is_empty() {
                    return Some(Part::Run(block));
                }
                run = Some(block);
                return Some(Part::Text(before));
            }
        }
        let rest = text.get(begun..).filter(|rest| !rest.is_empty());
        begun = text.len();
        rest.map(Part::Text)
    })
}

/// What vocabularies keep together. Digits they part by threes at most.
#[derive(PartialEq, Eq)]
enum Class {
    Blank,
    Letter,
    Other,
}

fn class_of(c: char) -> Option<Class> {
    Some(match c {
        '0'..='9' => return None,
        c if c.is_whitespace() => Class::Blank,
        c if c.is_alphabetic() => Class::Letter,
        _ => Class::Other,
    })
}

/// Whether a block of full size has characters of one kind only.
fn is_run(block: &str) -> bool {
    let mut chars = block.chars();
    let Some(first) = chars.next().and_then(class_of) else {
        return false;
    };
    block.len() + char::MAX_LEN_UTF8 > BLOCK && chars.all(|c| class_of(c).as_ref() == Some(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lose_nothing() {
        let word = "m".repeat(30_000);
        let texts = [
            String::new(),
            "short".to_owned(),
            "some words of 3 kinds; ".repeat(2_000),
            format!("before it {word} and behind"),
            "漢".repeat(9_000),
            format!("{word}{}{}", " ".repeat(11_000), "/".repeat(20_000)),
        ];
        for text in texts {
            let told: String = parts(&text)
                .map(|part| match part {
                    Part::Text(part) | Part::Run(part) => part,
                })
                .collect();
            assert_eq!(told, text);
        }
    }

    #[test]
    fn only_long_runs_stand_alone() {
        let is_run = |part: &Part<'_>| matches!(part, Part::Run(_));
        let runs = |text: &str| parts(text).filter(is_run).count();
        assert_eq!(runs(&"prose has blanks ".repeat(3_000)), 0);
        assert_eq!(runs(&"x1".repeat(20_000)), 0);
        assert_eq!(runs(&"\"a\":[],".repeat(20_000)), 0);
        assert_eq!(runs(&"说好的，".repeat(5_000)), 0);
        assert_eq!(runs(&"a".repeat(BLOCK / 2)), 0);
        for unit in ["a", "/", " ", "\n\u{3000}", "漢", "bé"] {
            let run = unit.repeat(57_600 / unit.len());
            assert!((9..=10).contains(&runs(&run)), "{unit:?}: {}", runs(&run));
        }
    }
}
