//! How text and media become tokens, and how an upstream's count compares with ours.

mod calibration;
pub mod media;
mod vocabulary;

pub use calibration::Calibration;
pub use media::Images;
pub use vocabulary::{Encoding, Vocabulary};
