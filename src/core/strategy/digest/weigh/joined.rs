//! Values that people say as several words: who pays with a gift card means the row with
//! `gift_card`.

/// The most words that such a value has.
const MOST_WORDS: usize = 3;

/// Tells each two and three words in a row of a text as one value, in small letters and in large
/// ones. What stands behind a comma, a number or a word of one letter begins anew.
pub(super) fn find_joined(text: &str, mut found: impl FnMut(&str)) {
    let mut before: [&str; MOST_WORDS - 1] = [""; MOST_WORDS - 1];
    let mut value = String::new();
    for said in text.split_whitespace() {
        let no_letter = |c: char| !c.is_ascii_alphabetic();
        let begun = said.trim_start_matches(no_letter);
        let word = begun.trim_end_matches(no_letter);
        let (begins, ends) = (begun.len() < said.len(), word.len() < begun.len());
        let is_word = word.len() > 1 && !word.contains(no_letter);
        if begins || !is_word {
            before.fill("");
        }
        if !is_word {
            continue;
        }
        for from in 0..before.len() {
            let said = before.get(from..).unwrap_or_default();
            if said.contains(&"") {
                continue;
            }
            value.clear();
            for part in said {
                value.push_str(part);
                value.push('_');
            }
            value.push_str(word);
            value.make_ascii_lowercase();
            found(&value);
            value.make_ascii_uppercase();
            found(&value);
        }
        before.rotate_left(1);
        if let Some(last) = before.last_mut() {
            *last = word;
        }
        if ends {
            before.fill("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_a_row_are_told_as_one_value() {
        let values_of = |text: &str| {
            let mut values = Vec::new();
            find_joined(text, |value| values.push(value.to_owned()));
            values.retain(|value| value.bytes().any(|b| b.is_ascii_lowercase()));
            values
        };
        let all = ["the_gift", "the_gift_card", "gift_card"];
        assert_eq!(values_of("The Gift Card"), all);
        assert_eq!(
            values_of("**Gift card**, out for it"),
            ["gift_card", "out_for", "out_for_it", "for_it"]
        );
        for apart in ["for a gift. Card it is", "card 7238 ends", "a gift, card"] {
            assert!(
                !values_of(apart).contains(&"gift_card".to_owned()),
                "{apart}"
            );
        }
        let mut large = false;
        find_joined("it is in transit", |value| large |= value == "IN_TRANSIT");
        assert!(large);
    }
}
