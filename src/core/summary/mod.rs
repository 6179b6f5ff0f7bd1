//! Summaries of older turns that a model writes: the request for one, and the use of its answer.
//! The shell decides which model is asked, when, and how often (`crate::summarizer`).
//!
//! ```text
//! options     the options of the strategy
//! state       summaries, and those that a conversation has
//! cut         the part of a conversation to summarise now, and the summary that it builds on
//! transcript  exchanges as quoted text
//! refine      a transcript in chunks that the model can read
//! prompt      the request for a summary
//! validate    an answer, checked against its source
//! files       the files that calls read and changed
//! ```
//!
//! A summary covers a prefix of the *original* messages, which the client sends again each time. So
//! it can be made before it is needed, does not depend on other strategies, and can be made anew
//! from the originals.

mod cut;
mod files;
mod options;
mod prompt;
mod refine;
mod state;
mod transcript;
mod validate;

use crate::core::text::Pattern;

pub use cut::PendingSummary;
pub(in crate::core) use cut::{Forecast, floor, next};
pub use files::{FileAccess, FileRule};
pub(in crate::core) use files::{file_of, files};
pub use options::{Options, Recent, SummaryRole};
pub use prompt::{PROMPT, continued, request};
pub use refine::{Chunk, ChunkPlan, SummaryModel};
pub use state::{Spent, State, Summaries, Summary};
pub use validate::{Accepted, Answer, Rejected, Terms, validate};

/// The patterns of this room.
pub(in crate::core) static PATTERNS: [&Pattern; 3] =
    [&prompt::BLOCK_TAG, &validate::MARKER, &validate::ROLE_LABEL];
