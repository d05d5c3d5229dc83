//! Errors as PostgreSQL reports them: an SQLSTATE, a message, and what else helps the client.

use std::fmt;

/// An error for the client. `sqlstate` is one of PostgreSQL's codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Five characters, for example `0A000`.
    pub sqlstate: &'static str,
    /// The cause, in PostgreSQL's words where it has any.
    pub message: String,
    /// Data that led to the error.
    pub detail: Option<String>,
    /// Advice on what to do instead.
    pub hint: Option<String>,
    /// Position in the statement, counted in characters from 1.
    pub position: Option<u32>,
}

/// SQLSTATE of a statement that the dialect does not translate.
pub const UNSUPPORTED: &str = "0A000";

/// Hint of statements about roles and databases.
pub(crate) const NO_ROLES: &str = "The in-memory tier has one database and no roles.";

impl Problem {
    /// An error without detail, hint and position.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Problem {
        Problem { sqlstate, message: message.into(), detail: None, hint: None, position: None }
    }

    /// Error 0A000: `what` is the object of the sentence.
    pub fn unsupported(what: impl fmt::Display) -> Problem {
        Problem::new(UNSUPPORTED, format!("the in-memory tier does not support {what}"))
            .hint("Rewrite the statement without it. docs/memory-tier.md lists what is supported.")
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Problem {
        self.detail = Some(detail.into());
        self
    }

    /// Adds a position in the statement's text, if none is there. `location` counts bytes from 0; negative is unknown.
    #[must_use]
    pub fn at(mut self, text: &str, location: i32) -> Problem {
        if self.position.is_none()
            && let Ok(location) = usize::try_from(location)
            && let Some(before) = text.get(..location)
        {
            self.position = u32::try_from(before.chars().count() + 1).ok();
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.sqlstate, self.message)
    }
}

impl std::error::Error for Problem {}

/// Error 22003 for a value outside the range of an integer type.
pub(crate) fn out_of_range(name: &str) -> Problem {
    Problem::new("22003", name.to_owned() + " out of range")
}

/// Error 22012.
pub(crate) fn division_by_zero() -> Problem {
    Problem::new("22012", "division by zero")
}

/// Error 22P02 for text that is no value of a type.
pub(crate) fn invalid_input(of: &str, text: &str) -> Problem {
    Problem::new("22P02", format!("invalid input syntax for type {of}: \"{text}\""))
}
