//! What is known of well-known models: context windows, prices of the prompt cache, and what their families want.

mod family;
mod table;

pub use family::{Family, family, takes_temperature};
pub(in crate::core) use table::plain;
pub use table::{Model, Prices, known};
