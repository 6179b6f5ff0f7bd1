//! Texts in results and messages, line by line: files, logs, pages, mails, printed tables.

mod listed;
mod logs;
pub(super) mod mail;
mod numbers;
pub(super) mod outline;
mod passed_on;
mod pasted;
pub(super) mod printed;
pub(super) mod quoted;
