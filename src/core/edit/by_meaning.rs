//! Edits by meaning: strategies name a result, a call or media, and the wire format of the
//! conversation carries the edit out.

use super::draft::Draft;
use super::edits::Replacement;
use crate::core::conversation::{Author, BlockId, Call, Entry, Media};
use crate::core::wire::Change;

/// Edits by meaning. Each is made only when it saves tokens, and reports whether it was made.
impl Draft<'_> {
    /// Puts `text` in the place of all that a result holds.
    pub fn set_text(&mut self, result: BlockId, text: &str) -> bool {
        let new = self.with_text(result, text);
        self.replace(result.at(), new)
    }

    /// The message of a result with `text` in the place of all that the result holds.
    #[must_use]
    pub fn with_text(&self, result: BlockId, text: &str) -> Option<Replacement> {
        let entry = self.entry(result.at())?;
        let raw = entry.result(result.block)?.raw?;
        self.rewritten(&entry, vec![Change::Result(raw, text.to_owned())])
    }

    /// Puts other texts in the place of those of a result for which `change` returns one.
    pub fn map_texts(
        &mut self,
        result: BlockId,
        mut change: impl FnMut(&str) -> Option<String>,
    ) -> bool {
        let new = self.entry(result.at()).and_then(|entry| {
            let texts = entry.result(result.block)?.texts.iter();
            let changes =
                texts.filter_map(|text| Some(Change::Text(*text, change(&text.decode()?)?)));
            self.rewritten(&entry, changes.collect())
        });
        self.replace(result.at(), new)
    }

    /// Puts other arguments in the place of those of the calls of message `at` for which `change`
    /// returns some.
    pub fn map_arguments(&mut self, at: usize, change: impl FnMut(&str) -> Option<String>) -> bool {
        let new = self.with_arguments(at, change);
        self.replace(at, new)
    }

    /// Message `at` with other arguments in the place of those of its calls for which `change`
    /// returns some.
    pub fn with_arguments(
        &self,
        at: usize,
        mut change: impl FnMut(&str) -> Option<String>,
    ) -> Option<Replacement> {
        self.with_calls(at, |_, arguments| change(arguments))
    }

    /// The same by call: `change` sees the call and its arguments.
    pub fn with_calls(
        &self,
        at: usize,
        mut change: impl FnMut(&Call<'_>, &str) -> Option<String>,
    ) -> Option<Replacement> {
        let entry = self.entry(at)?;
        let changes = entry.calls().filter_map(|call| {
            let text = call.arguments?;
            Some(Change::Text(text, change(call, &text.decode()?)?))
        });
        self.rewritten(&entry, changes.collect())
    }

    /// Puts texts in the place of the media of message `at` for which `stub` returns one, and takes
    /// its reasoning away if that is asked for.
    pub fn strip(
        &mut self,
        at: usize,
        stub: impl Fn(Media<'_>) -> Option<String>,
        drop_reasoning: bool,
    ) -> bool {
        let new = self.entry(at).and_then(|entry| {
            let stubs = entry
                .media()
                .filter_map(|media| Some(Change::Media(media, stub(media)?)));
            let reasoning = drop_reasoning.then_some(Change::DropReasoning);
            self.rewritten(&entry, stubs.chain(reasoning).collect())
        });
        self.replace(at, new)
    }

    fn rewritten(&self, entry: &Entry<'_>, changes: Vec<Change<'_>>) -> Option<Replacement> {
        if changes.is_empty() {
            return None;
        }
        let dialect = self.conversation().dialect;
        let json = dialect.rewrite(entry, changes)?;
        Replacement::new(dialect, json, self.conversation().encoding)
    }
}

/// New messages.
impl Draft<'_> {
    /// A message of Baler's own with this text.
    #[must_use]
    pub fn written(&self, author: Author, text: &str) -> Option<Replacement> {
        let dialect = self.conversation().dialect;
        let json = dialect.synthetic(author, text);
        Replacement::new(dialect, json, self.conversation().encoding)
    }

    /// The same, of a text that takes so many tokens as a message.
    #[must_use]
    pub fn written_in(&self, tokens: u64, author: Author, text: &str) -> Replacement {
        let dialect = self.conversation().dialect;
        Replacement::counted(dialect, dialect.synthetic(author, text), tokens)
    }
}
