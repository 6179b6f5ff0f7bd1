//! The reasons for which a body, or a message of it, is left alone.

/// The reason for which Baler cannot reason about a body. Such a body is forwarded as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not UTF-8, or not JSON, or something follows the JSON.
    #[error("the body is not JSON")]
    NotJson,
    /// JSON, but not a plain chat request: not an object, no list of message objects, or a field
    /// that matters occurs twice, so that two readers may disagree about its value.
    #[error("the body is not a plain chat request")]
    Unusual,
}

impl Unreadable {
    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Unreadable::NotJson => "not_json",
            Unreadable::Unusual => "unusual_json",
        }
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        if error.is_data() {
            Unreadable::Unusual
        } else {
            Unreadable::NotJson
        }
    }
}
