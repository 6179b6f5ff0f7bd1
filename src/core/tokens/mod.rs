//! How text and media become tokens, and how an upstream's count compares with Baler's.

mod calibration;
mod encoding;
pub mod media;
mod step;
mod vocabulary;

pub use calibration::Calibration;
pub use encoding::{Encoding, Images};
pub use step::Step;
pub use vocabulary::Vocabulary;
