//! Plain text as strategies need it: noise removed, sentences, words, signs of failure, tables; and
//! the patterns and durations that operators write as text.

mod built_in;
mod bytes;
pub mod duration;
mod exact;
mod failure;
mod failure_rules;
mod lexicon;
mod lines;
mod markers;
mod noise;
mod operator_patterns;
mod outcome;
mod places;
mod prose;
mod requests;
mod routine;
mod sentences;
mod shown;
mod speech;
mod table;
mod words;
mod written;

pub use built_in::{BadPattern, Pattern};
pub(in crate::core) use bytes::{ByteKinds, ByteSet};
pub use exact::restorable;
pub(in crate::core) use failure::{TRACE, is_not_run, may_report};
pub use failure::{is_message_key, tells_of_failure};
pub use failure_rules::{FailureRule, Failures, ToolFailures};
pub(in crate::core) use lexicon::{
    CHANGES, CONFIRMS, DECLINES, LOOKS, MAY_CHANGE, PARTS, REFUSALS,
};
pub(in crate::core) use lines::split_lines;
pub use markers::{harmless, is_invisible};
pub use noise::without_noise;
pub(in crate::core) use noise::{quiet_lines, without_escapes};
pub use operator_patterns::{CaselessPattern, NamePatterns, TextPattern};
pub(in crate::core) use outcome::may_sum_up;
pub use outcome::sums_up;
pub use places::{FilePlace, file_name, file_paths, file_places, is_same_file};
pub use prose::{is_broken_prose, is_of_conclusion, is_prose, refers_back};
pub use requests::{asks, is_question, only_serves, waits};
pub use routine::is_routine;
pub use sentences::pieces;
pub(in crate::core) use sentences::sentences;
pub(in crate::core) use shown::{is_party, shown_key, shown_name};
pub use speech::{
    Speech, admits, corrects, decides, denies, greets_by_name, limits, limits_what_is_before,
    proposes, retracts, supposes, warns,
};
pub(in crate::core) use table::MOST_COLUMNS;
pub use table::{Table, shortest, write_cell};
pub(in crate::core) use words::{
    INFORMATIVE, PATH, Stem, TELLING, parts_of, shape, stem_of, words_of,
};
pub(in crate::core) use written::{Day, Time, Written};

/// The patterns of this room.
pub(in crate::core) static PATTERNS: [&Pattern; 4] = [
    &failure::FAILED,
    &failure::REPORTED,
    &failure::EXITED,
    &outcome::FAILED_RUN,
];
