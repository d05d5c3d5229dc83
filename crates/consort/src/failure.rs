//! Failure of a command: a text for a person, and the exit code.

use std::fmt;
use std::process::ExitCode;

use config::Mistake;

/// A command's failure.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// The command failed.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 1 }
    }

    /// The requested process is not running.
    pub fn not_running(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 3 }
    }

    /// The exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<postgres::Error> for Failure {
    fn from(error: postgres::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<config_import::Wrong> for Failure {
    fn from(wrong: config_import::Wrong) -> Self {
        Self::new(wrong.to_string())
    }
}

impl From<load_clients::session::Trouble> for Failure {
    fn from(trouble: load_clients::session::Trouble) -> Self {
        Self::new(trouble.to_string())
    }
}

impl From<load_clients::table::WriteError> for Failure {
    fn from(error: load_clients::table::WriteError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<Vec<Mistake>> for Failure {
    fn from(mistakes: Vec<Mistake>) -> Self {
        let lines: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
        Self::new(format!("the configuration is invalid\n  {}", lines.join("\n  ")))
    }
}
