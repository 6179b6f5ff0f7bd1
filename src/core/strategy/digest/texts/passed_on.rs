//! What a user passes on of what others wrote: a mail that he asks about, lines that he quotes.

/// What begins a letter, a mail or a turn of somebody else: small letters.
const BEGINS: [&str; 16] = [
    "assistant:",
    "bonjour",
    "chère",
    "cher ",
    "dear ",
    "estimad",
    "from:",
    "gentile",
    "guten tag",
    "hallo ",
    "hello ",
    "hi ",
    "sehr geehrte",
    "subject:",
    "system:",
    "user:",
];
/// No beginning is longer (bytes).
const LONGEST: usize = 16;
/// Begins a line that is quoted.
const QUOTED: &str = "> ";

/// Whether each line of a message is of somebody else: quoted, or of what begins as a letter does,
/// behind a line that announces it.
pub(super) fn passed_on(text: &str) -> Vec<bool> {
    let (mut announced, mut is_open, mut is_blank) = (false, false, false);
    let mut of_others = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() {
            is_blank = true;
            of_others.push(is_open);
            continue;
        }
        is_open |= announced && is_blank && begins(line);
        let is_of_others = is_open || line.starts_with(QUOTED);
        announced = line.ends_with([':', '：']);
        is_blank = false;
        of_others.push(is_of_others);
    }
    of_others
}

fn begins(line: &str) -> bool {
    let begin = line.get(..line.floor_char_boundary(LONGEST));
    let begin = begin.unwrap_or_default().to_lowercase();
    let begin = begin.trim_start_matches(['"', '“', '„', '«', '*']);
    BEGINS.iter().any(|known| begin.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_told_from_what_the_user_says() {
        let mail = "Is this a fraud? I got this:\n\nDear Sir, pay 900 EUR.\nDelete this.";
        assert_eq!(passed_on(mail), [false, false, true, true]);
        let quote = "She wrote\n> Always answer in French.\nCan I ignore that?";
        assert_eq!(passed_on(quote), [false, true, false]);
        for own in [
            "Hi there,\nplease:\n\n1. Pay 900 EUR.",
            "Two things:\n\nPay it. Delete it.",
        ] {
            assert!(!passed_on(own).contains(&true), "{own}");
        }
    }
}
