//! One request while it is planned: its outline and measures, and its messages once something is
//! due.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::chains::{self, Chains, Over};
use super::input::CheckpointKey;
use crate::core::conversation::{
    BrokenPairing, Entry, Exchange, Fingerprint, Measure, PrefixHash, group,
};
use crate::core::edit::{Edit, MeasuredConversation, Piece, render};
use crate::core::models::Family;
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Outline;
use crate::core::wire::{Dialect, Unreadable};
use crate::core::{Cancel, Cancelled};

/// How messages are measured: afresh, or by a cache of the caller's.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "holds closures")]
pub struct Counting<'a> {
    /// How tokens are counted.
    pub encoding: Encoding,
    /// Measures a message, given its raw JSON.
    pub message: &'a dyn Fn(&str) -> Result<Measure, Unreadable>,
    /// Counts the prompt tokens besides the messages.
    pub fixed: &'a dyn Fn(&Outline<'_>) -> u64,
}

/// Why a body is not planned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPlanned {
    /// The body is not a request that can be compacted safely.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Nobody waits for the plan any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// A request that is being planned.
#[derive(Debug)]
pub struct Session<'b> {
    dialect: Dialect,
    outline: Outline<'b>,
    measures: Vec<Measure>,
    fixed_tokens: u64,
    encoding: Encoding,
    /// The chains over its first messages, as far as they are known.
    chains: Option<Arc<Chains>>,
    /// Made when something is due: most requests never need it.
    view: OnceCell<Result<View<'b>, BrokenPairing>>,
    /// The name of each message's tool; made for expressions that read it.
    tools: OnceCell<Vec<Box<str>>>,
}

/// The messages of a request and the exchanges that they form.
#[derive(Debug)]
struct View<'b> {
    messages: Vec<Entry<'b>>,
    exchanges: Vec<Exchange>,
}

impl<'b> Session<'b> {
    /// Measures the messages of a body that was outlined.
    ///
    /// # Errors
    /// [`NotPlanned`]: the body is forwarded as it came.
    pub fn open(
        dialect: Dialect,
        outline: Outline<'b>,
        counting: &Counting<'_>,
        cancel: &Cancel,
    ) -> Result<Self, NotPlanned> {
        let mut measures = Vec::with_capacity(outline.messages.len());
        for raw in &outline.messages {
            cancel.check()?;
            measures.push((counting.message)(raw)?);
        }
        let fixed_tokens = (counting.fixed)(&outline);
        let measured = (measures, fixed_tokens, counting.encoding);
        Ok(Self::measured(dialect, outline, measured))
    }

    /// A body that was outlined, with the measures of its messages, the prompt tokens besides them,
    /// and the encoding that they were counted in.
    #[must_use]
    pub fn measured(
        dialect: Dialect,
        outline: Outline<'b>,
        (measures, fixed_tokens, encoding): (Vec<Measure>, u64, Encoding),
    ) -> Self {
        Session {
            dialect,
            outline,
            measures,
            fixed_tokens,
            encoding,
            chains: None,
            view: OnceCell::new(),
            tools: OnceCell::new(),
        }
    }

    /// The same, with what is known of the chains over its first messages.
    #[must_use]
    pub fn with_chains(self, chains: Option<Arc<Chains>>) -> Self {
        Session { chains, ..self }
    }

    /// The same, with every message measured afresh.
    ///
    /// # Errors
    /// [`NotPlanned`], as for [`Session::open`].
    pub fn open_afresh(
        dialect: Dialect,
        outline: Outline<'b>,
        encoding: Encoding,
    ) -> Result<Self, NotPlanned> {
        let message = |raw: &str| dialect.measure(raw, encoding);
        let fixed = |outline: &Outline<'_>| dialect.count_fixed(outline, encoding);
        let counting = Counting {
            encoding,
            message: &message,
            fixed: &fixed,
        };
        Self::open(dialect, outline, &counting, &Cancel::default())
    }

    /// The wire format of the request.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The top-level fields of the request, and the raw JSON of its messages.
    #[must_use]
    pub fn outline(&self) -> &Outline<'b> {
        &self.outline
    }

    /// One measure per message.
    #[must_use]
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// Prompt tokens besides the messages.
    #[must_use]
    pub fn fixed_tokens(&self) -> u64 {
        self.fixed_tokens
    }

    /// Messages of the request.
    #[must_use]
    pub fn len(&self) -> usize {
        self.measures.len()
    }

    /// Whether the request has no messages, which no outline has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.measures.is_empty()
    }

    /// The keys of all checkpoints that may exist for this request: one for each prefix that was a
    /// request, shortest first.
    #[must_use]
    pub fn checkpoint_keys(&self, seed: &Fingerprint) -> Vec<CheckpointKey> {
        self.points(seed, Over::Said)
    }

    /// The last of these keys: that of the request itself.
    #[must_use]
    pub fn own_key(&self, seed: &Fingerprint) -> CheckpointKey {
        let over = Over::Said;
        match &self.chains {
            Some(chains) => chains.end(seed, over, &self.measures),
            None => chains::end(seed, over, &self.measures),
        }
    }

    /// The points of a chain over the messages as the client sent them, shortest first.
    pub(super) fn points(&self, seed: &Fingerprint, over: Over) -> Vec<CheckpointKey> {
        match &self.chains {
            Some(chains) => chains.points(seed, over, &self.measures),
            None => chains::points(seed, over, &self.measures),
        }
    }

    /// The keys of summaries: entry `i` is for the first `i` messages, instructions left out.
    #[must_use]
    pub fn summary_keys(&self, seed: &Fingerprint) -> Vec<Fingerprint> {
        let mut hash = PrefixHash::new(seed);
        let mut keys = Vec::with_capacity(self.measures.len() + 1);
        keys.push(hash.digest());
        for measure in &self.measures {
            if !measure.speaker.is_instruction() {
                hash.push(&measure.fingerprint);
            }
            keys.push(hash.digest());
        }
        keys
    }

    /// The conversation with its messages viewed, for strategies; made when it is first asked for.
    ///
    /// # Errors
    /// [`BrokenPairing`] when calls and results do not match.
    pub fn conversation(&self, family: Family) -> Result<MeasuredConversation<'_>, BrokenPairing> {
        let view = self
            .view
            .get_or_init(|| self.read())
            .as_ref()
            .map_err(|broken| *broken)?;
        Ok(MeasuredConversation {
            dialect: self.dialect,
            messages: &view.messages,
            measures: &self.measures,
            exchanges: &view.exchanges,
            fixed_tokens: self.fixed_tokens,
            encoding: self.encoding,
            family,
        })
    }

    /// The name of each message's tool: the one that a result answers for, the one that the first
    /// call calls. Empty where there is none.
    pub(super) fn tools(&self) -> &[Box<str>] {
        self.tools.get_or_init(|| {
            let mut names = ToolNames::default();
            let messages = self.outline.messages.iter();
            let entries = messages.map(|raw| self.dialect.entry(raw).ok());
            entries
                .map(|entry| entry.map_or_else(Box::default, |entry| names.of(&entry)))
                .collect()
        })
    }

    fn read(&self) -> Result<View<'b>, BrokenPairing> {
        let mut messages = Vec::with_capacity(self.outline.messages.len());
        for (at, raw) in self.outline.messages.iter().enumerate() {
            // Every message was read once when it was measured.
            messages.push(self.dialect.entry(raw).map_err(|_| BrokenPairing { at })?);
        }
        let exchanges = group(&messages)?;
        Ok(View {
            messages,
            exchanges,
        })
    }

    /// The body with `edits` (one per message) applied, as slices of the client's body and new
    /// pieces.
    #[must_use]
    pub fn render(&self, edits: &[Edit]) -> Vec<Piece> {
        render(self.dialect, &self.outline, edits)
    }
}

/// The tools of the calls so far, by id; of calls without one, the last.
#[derive(Default)]
struct ToolNames {
    called: BTreeMap<Box<str>, Box<str>>,
    legacy: Box<str>,
}

impl ToolNames {
    /// The tool of the next message.
    fn of(&mut self, entry: &Entry<'_>) -> Box<str> {
        for call in entry.calls() {
            let name: Box<str> = call.name.as_ref().into();
            if call.legacy.is_some() {
                self.legacy = name;
            } else {
                self.called.insert(call.id.as_ref().into(), name);
            }
        }
        if let Some(call) = entry.calls().next() {
            return call.name.as_ref().into();
        }
        let Some((_, result)) = entry.results().next() else {
            return Box::default();
        };
        let answers = result.answers.as_deref().filter(|_| !result.legacy);
        let called = answers.and_then(|id| self.called.get(id)).cloned();
        let named = || result.name.as_deref().map(Box::from);
        called.or_else(named).unwrap_or_else(|| self.legacy.clone())
    }
}
