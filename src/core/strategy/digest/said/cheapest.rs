//! The item of a list that an answer chooses by its price: `the cheaper one`.

use crate::core::text::words_of;

/// Words for what costs less than others, in small letters, and parts of them where no blank stands
/// between words.
const CHEAPER: [&str; 40] = [
    "barata",
    "barato",
    "baratas",
    "baratos",
    "billigere",
    "billigeren",
    "billigerem",
    "billigeres",
    "billigste",
    "billigsten",
    "billiger",
    "billigast",
    "cheaper",
    "cheapest",
    "cher",
    "chère",
    "conveniente",
    "daha",
    "дешевле",
    "дешевую",
    "дешевый",
    "дешёвую",
    "дешёвый",
    "дешевая",
    "economica",
    "economico",
    "económica",
    "económico",
    "goedkoopste",
    "goedkopere",
    "günstigere",
    "günstigeren",
    "günstigeres",
    "günstigste",
    "günstigsten",
    "günstiger",
    "najtańsza",
    "najtańszy",
    "tańsza",
    "tańszy",
];
const CHEAPER_UNSPACED: [&str; 5] = ["便宜", "安い", "安く", "最安", "저렴"];
/// What stands before or behind an amount of money.
const SIGNS: [char; 9] = ['$', '£', '¥', '€', '₩', '₹', '₺', '₽', '円'];
const CODES: [&str; 13] = [
    "CHF", "CZK", "DKK", "EUR", "GBP", "JPY", "NOK", "PLN", "SEK", "USD", "元", "원", "zł",
];
/// The longest amount (bytes).
const AMOUNT_BYTES: usize = 16;

/// Whether a part of an answer takes what costs less than others.
pub(super) fn takes_cheapest(part: &str) -> bool {
    let lower = part.to_lowercase();
    let mut words = words_of(&lower);
    words.any(|word| CHEAPER.contains(&word))
        || CHEAPER_UNSPACED.iter().any(|sign| lower.contains(sign))
}

/// Which of some texts has the lowest price. `None` where one has none, or two have the same.
pub(super) fn cheapest<'t>(texts: impl Iterator<Item = &'t str>) -> Option<usize> {
    let prices: Option<Vec<f64>> = texts.map(price_in).collect();
    let prices = prices?;
    let lowest = prices.iter().copied().fold(f64::INFINITY, f64::min);
    let mut with = prices.iter().enumerate();
    let at = with.find(|(_, price)| **price <= lowest)?.0;
    let is_alone = !with.any(|(_, price)| *price <= lowest);
    (is_alone && prices.len() > 1).then_some(at)
}

/// The first amount of money in a text.
fn price_in(text: &str) -> Option<f64> {
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let mut from = 0;
    while let Some(begin) = text.get(from..)?.find(|c: char| c.is_ascii_digit()) {
        let begin = from + begin;
        let behind = text.get(begin..)?;
        let end = behind.find(|c: char| !is_of_number(c));
        let (number, rest) = behind.split_at_checked(end.unwrap_or(behind.len()))?;
        let before = text.get(..begin)?.trim_end();
        let (before_is, rest) = (
            before.ends_with(SIGNS) || CODES.iter().any(|code| before.ends_with(code)),
            rest.trim_start(),
        );
        let behind_is = rest.starts_with(SIGNS) || CODES.iter().any(|code| rest.starts_with(code));
        if (before_is || behind_is) && number.len() <= AMOUNT_BYTES {
            return amount(number.trim_end_matches(['.', ',']));
        }
        from = begin + number.len();
    }
    None
}

/// The amount that is written as `1,042.75`, `1.042,75` or `1042.5`.
fn amount(number: &str) -> Option<f64> {
    let last = number.rfind(['.', ',']);
    let is_decimal = |at: usize| {
        let (before, decimals) = (number.get(..at), number.get(at + 1..));
        let is_only = before.is_some_and(|before| !before.contains(['.', ',']));
        decimals.is_some_and(|decimals| decimals.len() != 3 || (!is_only && decimals.len() < 3))
    };
    let digits = |text: &str| text.replace(['.', ','], "");
    match last.filter(|at| is_decimal(*at)) {
        Some(at) => {
            let (whole, decimals) = (number.get(..at)?, number.get(at + 1..)?);
            format!("{}.{decimals}", digits(whole)).parse().ok()
        }
        None => digits(number).parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_price_is_found_as_it_is_written_anywhere() {
        for (texts, place) in [
            (
                ["2008, €318.60, excess €900", "€274.15, open 24 h"],
                Some(1),
            ),
            (["1.420,00 € sin IVA", "790,00 €, solo pintura"], Some(1)),
            (["USD 1,042.75", "USD 874"], Some(1)),
            (["1,250 EUR", "1.300 EUR"], Some(0)),
            (["90,200円", "88,000円"], Some(1)),
            (["€10", "€10.00"], None),
            (["€10", "free"], None),
        ] {
            assert_eq!(cheapest(texts.into_iter()), place, "{texts:?}");
        }
    }

    #[test]
    fn who_wants_to_pay_less_says_so() {
        for (part, takes) in [
            ("Probably the cheaper one", true),
            ("la más barata, por favor", true),
            ("便宜的那个", true),
            ("the one with the balcony", false),
        ] {
            assert_eq!(takes_cheapest(part), takes, "{part}");
        }
    }
}
