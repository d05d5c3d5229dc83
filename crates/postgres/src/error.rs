//! Errors of a server, by the caller's reaction.

use std::path::{Path, PathBuf};

/// Reason why a server did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection, or it broke: try again later. The server's incarnation is unknown again.
    #[error("{0}")]
    Unreachable(String),
    /// The server is starting up or shutting down (SQLSTATE 57P03): try again soon.
    #[error("{0}")]
    NotReady(String),
    /// The server refused this one request; the connection stays usable.
    #[error("{message} (SQLSTATE {sqlstate})")]
    Refused {
        /// SQLSTATE of PostgreSQL's appendix A.
        sqlstate: String,
        /// Text of the server.
        message: String,
    },
    /// The server asks for a password, and none is known: no retry helps before a person adds it.
    #[error("the server asks for the password of the role \"{role}\", but {} has none", place_of(file.as_deref()))]
    NoPassword {
        /// The role that logs in.
        role: String,
        /// Path of the `auth_file`. `None`: none is set.
        file: Option<PathBuf>,
    },
    /// A message that the protocol does not allow, or a server of the wrong kind: stop using the connection.
    #[error("{0}")]
    Protocol(String),
    /// A mistake of configuration or installation, for a person. The sentence names the remedy.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// Converts the server's refusal, by its SQLSTATE.
    pub(crate) fn from_sqlstate(sqlstate: &str, message: String) -> Error {
        match sqlstate {
            "57P03" => Error::NotReady(message),
            // Class 08 and the end of the server's session: the connection is gone, with any message.
            _ if sqlstate.starts_with("08") || matches!(sqlstate, "57P01" | "57P02" | "57P05") => {
                Error::Unreachable(message)
            }
            _ => Error::Refused { sqlstate: sqlstate.to_owned(), message },
        }
    }

    /// Returns true if the request failed for the reason of this SQLSTATE.
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

/// The client's message if a server has asked for a password and there is none.
pub(crate) const NO_PASSWORD: &str = "password missing";

/// Returns an error's text with its causes: the outer text alone says only "error connecting to server".
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
