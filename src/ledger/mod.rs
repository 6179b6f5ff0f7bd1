//! Where checkpoints, summaries, reported usage and what upstreams taught are kept. A cache, not
//! the truth: what is lost costs one more compaction at worst.
//!
//! Memory is the only store so far; others (a file, a shared server) belong next to it, behind the
//! same methods. All candidate keys of a request are looked up at once. Measures stay in the
//! process whatever the store.

mod measures;
mod memory;

pub use measures::{Measures, Owner};
pub use memory::Ledger;
