//! How text and media become tokens, and how an upstream's count compares with Baler's.

mod calibration;
mod encoding;
mod factor_step;
pub mod media;
mod runs;
mod vocabulary;

pub use calibration::Calibration;
pub use encoding::{Encoding, Images};
pub use factor_step::FactorStep;
pub use vocabulary::Vocabulary;
