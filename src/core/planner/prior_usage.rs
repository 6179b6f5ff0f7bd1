//! Usage as clients carry it from one answer to the next request: `prompt_tokens=1234; messages=17;
//! counted=1198`.

use std::fmt;

use super::input::PriorUsage;
use crate::core::wire::is_plausible;

/// The longest text that is read, bytes.
const MAX_BYTES: usize = 256;
/// The most messages that a list is believed to have.
const MAX_MESSAGES: u64 = 1_000_000;

impl PriorUsage {
    /// Reads what [`PriorUsage`] writes, with its parts in any order, spaces anywhere between them,
    /// and others beside them. A part that says something impossible, or stands twice, makes all of
    /// it worthless.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let (mut prompt_tokens, mut messages, mut counted) = (None, None, None);
        for part in text.split([';', ',']) {
            let Some((key, value)) = part.split_once('=') else {
                continue;
            };
            let slot = match key.trim().to_ascii_lowercase().as_str() {
                "prompt_tokens" => &mut prompt_tokens,
                "messages" => &mut messages,
                "counted" => &mut counted,
                _ => continue,
            };
            if slot.replace(value.trim().parse::<u64>().ok()?).is_some() {
                return None;
            }
        }
        let sound = counted.as_ref().is_none_or(is_plausible)
            && messages.is_some_and(|count| (1..=MAX_MESSAGES).contains(&count));
        let messages = usize::try_from(messages?).ok()?;
        Some(PriorUsage {
            messages,
            prompt_tokens: prompt_tokens.filter(is_plausible)?,
            counted,
        })
        .filter(|_| sound)
    }
}

impl fmt::Display for PriorUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "prompt_tokens={}; messages={}",
            self.prompt_tokens, self.messages
        )?;
        self.counted
            .map_or(Ok(()), |counted| write!(f, "; counted={counted}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn order_spaces_and_unknown_parts_do_not_matter() {
        let prior = PriorUsage {
            messages: 17,
            prompt_tokens: 1234,
            counted: Some(1198),
        };
        assert_eq!(PriorUsage::parse(&prior.to_string()), Some(prior));
        assert_eq!(
            PriorUsage::parse(" Counted = 1198 ,x;y=z;; MESSAGES=17;prompt_tokens\t=1234"),
            Some(prior)
        );
        assert_eq!(
            PriorUsage::parse("prompt_tokens=1234; messages=17"),
            Some(PriorUsage {
                counted: None,
                ..prior
            })
        );
    }

    #[test]
    fn the_impossible_is_worthless() {
        for text in [
            "",
            "prompt_tokens=1234",
            "messages=17",
            "prompt_tokens=0; messages=17",
            "prompt_tokens=-1; messages=17",
            "prompt_tokens=4294967296; messages=17",
            "prompt_tokens=1234; messages=0",
            "prompt_tokens=1234; messages=1000001",
            "prompt_tokens=1234; messages=17; counted=0",
            "prompt_tokens=1234; messages=17; counted=all",
            "prompt_tokens=1234; messages=17; messages=18",
            "prompt_tokens=18446744073709551616; messages=17",
        ] {
            assert_eq!(PriorUsage::parse(text), None, "{text}");
        }
        assert_eq!(
            PriorUsage::parse(&format!(
                "prompt_tokens=1234; messages=17;{}",
                " ".repeat(300)
            )),
            None
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(text in "([a-z_]{0,3}|prompt_tokens|messages|\
            counted|[=;, 0-9é-]){0,40}") {
            let Some(prior) = PriorUsage::parse(&text) else { return Ok(()) };
            prop_assert_eq!(PriorUsage::parse(&prior.to_string()), Some(prior));
        }
    }
}
