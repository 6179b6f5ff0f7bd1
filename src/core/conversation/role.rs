//! Who speaks.

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions, older name.
    System,
    /// Instructions, newer name.
    Developer,
    /// The application's user.
    User,
    /// The model.
    Assistant,
    /// The result of a `tool_calls` entry.
    Tool,
    /// The result of a legacy `function_call`.
    Function,
    /// A role this version does not know: kept where it is.
    Other,
}

impl Role {
    /// System and developer messages: always kept, and left out of the checkpoints' chain.
    #[must_use]
    pub fn is_instruction(self) -> bool {
        matches!(self, Role::System | Role::Developer)
    }
}
