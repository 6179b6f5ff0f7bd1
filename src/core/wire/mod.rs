//! The wire formats: the only room that spells the JSON of an API.

pub mod chat;
pub mod decode;
pub mod model_list;
pub mod overflow;
pub mod sse;
