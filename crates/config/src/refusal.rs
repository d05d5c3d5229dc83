//! Refusal of a setting, or of a command in the console.

/// Reason why a command was not understood or not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE of the error.
    pub sqlstate: &'static str,
    /// Cause of the refusal.
    pub message: String,
    /// Remedy.
    pub hint: String,
}
