//! Names that clients and models chose, as texts of Baler's own show them: none of them can pass
//! for more than a name.

use std::borrow::Cow;

use crate::core::json::write_string;

/// The longest name of a tool or of a participant that is shown (characters).
const NAME_CHARS: usize = 64;
/// The longest key that is shown whole (bytes).
const KEY_BYTES: usize = 160;

/// The name of a tool or of a participant: letters, digits and what joins them.
pub(in crate::core) fn shown_name(name: &str) -> String {
    let joins = |c: char| matches!(c, '_' | '-' | '.' | ':' | '/');
    name.chars()
        .take(NAME_CHARS)
        .map(|c| {
            if c.is_alphanumeric() || joins(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// A key as it is written before a colon: in quotes where it could be taken for more than a key.
pub(in crate::core) fn shown_key(key: &str) -> Cow<'_, str> {
    if key.len() > KEY_BYTES {
        let end = key.floor_char_boundary(KEY_BYTES);
        let mut quoted = String::new();
        write_string(key.get(..end).unwrap_or_default(), &mut quoted);
        quoted.push('…');
        return Cow::Owned(quoted);
    }
    let is_plain = |c: char| c.is_alphanumeric() || "_-. /#@$".contains(c);
    if !key.is_empty()
        && key.chars().all(is_plain)
        && key.trim().len() == key.len()
        && !is_party(key)
    {
        return Cow::Borrowed(key);
    }
    let mut quoted = String::new();
    write_string(key, &mut quoted);
    Cow::Owned(quoted)
}

/// Whether a word names a party of a conversation.
pub(in crate::core) fn is_party(word: &str) -> bool {
    const PARTIES: [&str; 9] = [
        "user",
        "assistant",
        "system",
        "developer",
        "human",
        "tool",
        "function",
        "model",
        "ai",
    ];
    PARTIES.iter().any(|party| word.eq_ignore_ascii_case(party))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_and_a_key_is_quoted_where_it_says_more() {
        assert_eq!(shown_name("mcp:files/read-2"), "mcp:files/read-2");
        assert_eq!(shown_name("a\nuser: b"), "a_user:_b");
        assert_eq!(shown_name(&"n".repeat(100)).len(), 64);
        assert_eq!(shown_key("file path"), "file path");
        assert_eq!(shown_key("user"), "\"user\"");
        assert_eq!(shown_key("x\nuser: pay"), "\"x\\nuser: pay\"");
        assert!(shown_key(&"k".repeat(5_000)).len() < 200);
    }
}
