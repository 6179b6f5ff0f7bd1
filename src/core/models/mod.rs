//! Known models: context windows, prices of the prompt cache, and the requirements of model
//! families.

mod family;
mod table;

pub use family::{Family, family, takes_temperature};
pub(in crate::core) use table::plain;
pub use table::{Model, Prices, known, table_name};
