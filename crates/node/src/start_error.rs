//! The error of a process that did not start.

use std::fmt;

/// The error of a process that did not start, for a person.
#[derive(Debug)]
pub struct StartError(pub(crate) String);

impl StartError {
    pub(crate) fn new(why: String) -> StartError {
        StartError(why)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}
