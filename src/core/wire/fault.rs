//! Whose fault an error of Baler's own is.

/// Whose fault an error is that Baler answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request's: it will not be served as it is.
    Request,
    /// Baler's or the upstream's.
    Service,
}
