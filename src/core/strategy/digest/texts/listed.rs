//! Texts that list things one below the other, each under a line of its own: mails, the hits of a
//! search. What is said of one would be said of another below that one's line.

use super::mail::is_sender;
use crate::core::strategy::digest::line::DigestLine;

/// The fewest things that make a list.
const LEAST: usize = 2;

/// Notes of each line the one that opens the thing it is said of.
pub(in super::super) fn note_listed(lines: &mut [DigestLine]) {
    let heads = heads_of(lines);
    if heads.len() < LEAST {
        return;
    }
    let ends = heads.iter().skip(1).copied().chain([lines.len()]);
    for (head, end) in heads.iter().zip(ends) {
        let is_indented = |line: &DigestLine| line.text.starts_with([' ', '\t']);
        let below = lines.get(head + 1..end).unwrap_or_default();
        let is_block = below.first().is_some_and(is_indented);
        let ends = below.iter().position(|line| is_block && !is_indented(line));
        let end = ends.map_or(end, |ends| head + 1 + ends);
        for (above, line) in lines.iter_mut().take(end).skip(*head).enumerate() {
            // A line within another one has its head with that.
            if above > 0 && line.within.is_none() {
                line.within = Some(above);
            }
        }
    }
}

/// The lines that open things: senders of mails, or else `[1] Title`, `[2] Title`, in this order.
fn heads_of(lines: &[DigestLine]) -> Vec<usize> {
    let places = || lines.iter().enumerate();
    let senders = places().filter(|(_, line)| is_sender(&line.text));
    let senders: Vec<usize> = senders.map(|(at, _)| at).collect();
    if senders.len() >= LEAST {
        return senders;
    }
    let mut heads: Vec<usize> = Vec::new();
    let mut first = None;
    for (at, line) in places() {
        let Some(number) = number_in_brackets(&line.text) else {
            continue;
        };
        let first = *first.get_or_insert(number.min(1));
        if number == first + heads.len() {
            heads.push(at);
        }
    }
    heads
}

fn number_in_brackets(line: &str) -> Option<usize> {
    let (number, behind) = line.strip_prefix('[')?.split_once(']')?;
    number.parse().ok().filter(|_| behind.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::strategy::digest::line::Part;

    fn within(text: &str) -> Vec<Option<usize>> {
        let lines = text.lines();
        let lines = lines.map(|line| DigestLine::new(Part::Text, 1, line));
        let mut lines: Vec<DigestLine> = lines.collect();
        note_listed(&mut lines);
        lines.iter().map(|line| line.within).collect()
    }

    #[test]
    fn what_a_mail_says_needs_its_sender() {
        let mails =
            "From: Voss <k@voss.example>\nSubject: Offer\nFrom: GI <i@ghl.example>\n8 pp.\n£3.20";
        assert_eq!(within(mails), [None, Some(1), None, Some(1), Some(2)]);
        assert_eq!(within("From: Voss <k@voss.example>\nOffer"), [None, None]);
    }

    #[test]
    fn what_a_hit_says_needs_its_title() {
        let hits = "3 hits\n[1] Heads of terms\nBreak: 3rd\n[2] Mail\n22 kW\n[7] is a footnote";
        let own = [None, None, Some(1), None, Some(1), Some(2)];
        assert_eq!(within(hits), own);
        assert_eq!(within("[2] b\nx\n[1] a\ny"), [None, None, None, None]);
        let links = "[0] a\n  € 5\n[1] b\n  € 6\nfooter";
        assert_eq!(within(links), [None, Some(1), None, Some(1), None]);
    }
}
