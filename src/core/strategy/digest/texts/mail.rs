//! What mails repeat: the mails that they answer, and what stands below the regards.

use crate::core::strategy::digest::line::{DigestLine, Standing};

/// The longest line that ends a mail (bytes).
const REGARDS_BYTES: usize = 26;
/// Words of the line, and of the rule, that announces an older mail below, and lines that end one.
const WROTE: [&str; 5] = [" wrote", " schrieb", " a écrit", " escribió", " ha scritto"];
const ORIGINAL: [&str; 4] = [
    "forwarded message",
    "original message",
    "weitergeleitete",
    "ursprüngliche",
];
const REGARDS: [&str; 11] = [
    "best regards",
    "beste grüße",
    "cordialement",
    "cordiali saluti",
    "freundliche grüße",
    "kind regards",
    "mit freundlichen grüßen",
    "saludos",
    "sincerely",
    "viele grüße",
    "warm regards",
];

/// What the line with the sender of a mail begins with.
const SENDERS: [&str; 12] = [
    "Afsender:",
    "Da:",
    "De:",
    "From:",
    "Från:",
    "Fra:",
    "Kimden:",
    "Od:",
    "Van:",
    "Von:",
    "От:",
    "差出人:",
];

/// What lines begin with that tell how a mail was carried.
const CARRIED: [&str; 12] = [
    "ARC-",
    "Authentication-Results:",
    "Content-Transfer-Encoding:",
    "Content-Type:",
    "DKIM-Signature:",
    "List-Unsubscribe:",
    "MIME-Version:",
    "Received-SPF:",
    "Received:",
    "Return-Path:",
    "User-Agent:",
    "X-",
];

/// Whether a line has the address that a mail is from: who answers needs it.
pub(in super::super) fn is_sender(line: &str) -> bool {
    memchr::memchr(b'@', line.as_bytes()).is_some()
        && SENDERS
            .iter()
            .any(|begin| line.trim_start().starts_with(begin))
}

/// Marks what a mail repeats of those before it, what stands below its end, and how it was carried:
/// all that says little.
pub(in super::super) fn note_mail(lines: &mut [DigestLine]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Below {
        Nothing,
        Announced,
        Quoted,
        All,
    }
    let is_mail = lines.iter().any(|line| is_sender(&line.text));
    let mut below = Below::Nothing;
    for line in lines {
        let text = line.text.trim_start();
        if is_mail && CARRIED.iter().any(|begin| text.starts_with(begin)) {
            line.standing = Standing::Alike;
            continue;
        }
        // Few lines begin as what is looked for does.
        let may = text.starts_with(|c: char| c == '-' || c.is_uppercase());
        if below == Below::Nothing && !may {
            continue;
        }
        let text = text.trim_end();
        let is_quoted = text.starts_with('>');
        below = match below {
            Below::Announced | Below::Quoted if is_quoted => Below::Quoted,
            // Without marks, all below is of older mails.
            Below::Announced => Below::All,
            Below::Quoted => Below::Nothing,
            other => other,
        };
        if below != Below::Nothing {
            if matches!(
                line.standing,
                Standing::Usual | Standing::Prose | Standing::Conclusion
            ) {
                line.standing = Standing::Alike;
            }
        } else if announces_mail(text) {
            below = Below::Announced;
        } else if ends_mail(text) {
            below = Below::All;
        }
    }
}

/// Whether a line announces an older mail: `On 3 May, Ann wrote:`.
fn announces_mail(line: &str) -> bool {
    let has_date = || line.contains(|c: char| c.is_ascii_digit());
    let is_head = line.ends_with(':') && WROTE.iter().any(|word| line.contains(word));
    let is_rule = line.starts_with("-----") && line.ends_with("-----");
    let names = || {
        let lower = line.to_lowercase();
        ORIGINAL.iter().any(|word| lower.contains(word))
    };
    (is_head && has_date()) || (is_rule && names())
}

/// Whether a line ends what a mail says.
fn ends_mail(line: &str) -> bool {
    let line = line.trim_end_matches([',', '.', '!']);
    line.len() <= REGARDS_BYTES
        && line.starts_with(char::is_uppercase)
        && REGARDS.contains(&line.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::strategy::digest::line::Part;

    /// For each line whether it says little.
    fn little(text: &str) -> Vec<bool> {
        let lines = text
            .lines()
            .map(|line| DigestLine::new(Part::Text, 1, line));
        let mut lines: Vec<DigestLine> = lines.collect();
        note_mail(&mut lines);
        lines
            .iter()
            .map(|line| line.standing == Standing::Alike)
            .collect()
    }

    #[test]
    fn older_mails_and_what_is_below_the_regards_count_less() {
        let below =
            "Friday it is.\nKind regards,\nAnn\nHead of sales\nAm 3. Mai schrieb Bo:\n> When?";
        assert_eq!(little(below), [false, false, true, true, true, true]);
        let between = "On 3 May, Bo wrote:\n> When?\n> Where?\nOn Friday, here.";
        assert_eq!(little(between), [false, true, true, false]);
        let without_marks = "Yes.\n-----Original Message-----\nFrom: Bo\nWhen?";
        assert_eq!(little(without_marks), [false, false, true, true]);
    }

    #[test]
    fn how_a_mail_was_carried_counts_less() {
        let mail = "From: Ann <a@b.example>\nMIME-Version: 1.0\nX-Spam-Score: 0.7\nFriday it is.";
        assert_eq!(little(mail), [false, true, true, false]);
        assert_eq!(little("X-Spam-Score: 0.7\nFriday"), [false, false]);
    }

    #[test]
    fn the_sender_of_a_mail_is_known_by_the_address() {
        assert!(is_sender("Von: Ann Berg <ann@berg.example>"));
        assert!(is_sender("  From: ann@berg.example"));
        assert!(!is_sender("From: the office"));
        assert!(!is_sender("To: ann@berg.example"));
    }

    #[test]
    fn other_texts_have_no_older_mails() {
        let text = "She wrote a book.\n> a note\n--\n----- Captured stdout call -----\nFAILED a\n\
            ---------- -------\nThe rest:\nBest of all, it works.";
        assert!(little(text).iter().all(|stale| !stale), "{text}");
    }
}
