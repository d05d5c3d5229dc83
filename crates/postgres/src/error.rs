//! What can go wrong with a server, by what the caller does about it.

use std::path::{Path, PathBuf};

/// Why a server did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection, or it broke: try again later. What was known of the server's incarnation is unknown again.
    #[error("{0}")]
    Unreachable(String),
    /// The server is starting up or shutting down (SQLSTATE 57P03): try again soon.
    #[error("{0}")]
    NotReady(String),
    /// The server refused this one request; the connection is as good as before.
    #[error("{message} (SQLSTATE {sqlstate})")]
    Refused {
        /// Five characters of PostgreSQL's appendix A.
        sqlstate: String,
        /// The server's own text.
        message: String,
    },
    /// The server asks for a password, and none is known: no retry helps before a person adds it.
    #[error("the server asks for the password of the role \"{role}\", and {} has no password of it", place_of(file.as_deref()))]
    NoPassword {
        /// The role that logs in.
        role: String,
        /// The `auth_file`; `None`: none is set.
        file: Option<PathBuf>,
    },
    /// What arrived is not what the protocol allows, or not what this server may be: stop using the connection.
    #[error("{0}")]
    Protocol(String),
    /// Something is configured or installed wrongly: tell a person. The sentence says what would be right.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// The server's refusal, sorted by its SQLSTATE.
    pub(crate) fn from_sqlstate(sqlstate: &str, message: String) -> Error {
        match sqlstate {
            "57P03" => Error::NotReady(message),
            // Class 08 and the end of the server's session: the connection is gone whatever it says.
            _ if sqlstate.starts_with("08") || matches!(sqlstate, "57P01" | "57P02" | "57P05") => {
                Error::Unreachable(message)
            }
            _ => Error::Refused { sqlstate: sqlstate.to_owned(), message },
        }
    }

    /// Whether the request failed for the reason of this SQLSTATE.
    pub fn is(&self, code: &str) -> bool {
        matches!(self, Error::Refused { sqlstate, .. } if sqlstate == code)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Unreachable(error.to_string())
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        match error.as_db_error() {
            Some(said) => Error::from_sqlstate(said.code().code(), said.message().to_owned()),
            None if error.is_closed() => Error::Unreachable("the server closed the connection".to_owned()),
            None => Error::Unreachable(with_causes(&error)),
        }
    }
}

fn place_of(file: Option<&Path>) -> String {
    file.map_or("the configuration (auth_file is not set)".to_owned(), |file| {
        format!("auth_file {}", file.display())
    })
}

/// How the client of PostgreSQL's protocol says that a server has asked for a password and there is none.
pub(crate) const NO_PASSWORD: &str = "password missing";

/// An error with what caused it: the outer text alone says only "error connecting to server".
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
