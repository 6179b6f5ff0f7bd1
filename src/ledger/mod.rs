//! Where checkpoints and reported usage are kept. A cache, not the truth: what is lost costs one more compaction at
//! worst.
//!
//! Memory is the only store so far; others (a file, a shared server) belong beside it, behind the same methods.

mod memory;

pub use memory::Ledger;
