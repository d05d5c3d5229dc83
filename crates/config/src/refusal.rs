//! Why a setting, or a command in the console, is refused.

/// Why a command was not understood or not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE.
    pub sqlstate: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: String,
}
