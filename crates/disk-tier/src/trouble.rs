//! Failures at a back end, by what Consort does then.

use std::io;

/// A failure at a back end.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server does not answer, or cannot do it now: Consort tries again soon.
    Away(String),
    /// The server refuses, or differs: a person has to look.
    Refused(String),
}

/// End of a step at a back end.
pub(crate) type Step<T> = Result<T, Trouble>;

/// Classes of SQLSTATEs that pass: connections, resources, serialization, operators, system errors.
const PASSING: [&str; 5] = ["08", "53", "40", "57", "58"];

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Trouble {
        let Some(said) = error.as_db_error() else { return Trouble::Away(error.to_string()) };
        let code = said.code().code();
        let detail = said.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        let text = format!("{} ({code}){detail}", said.message());
        if PASSING.contains(&&code[..2]) || code == "55P03" {
            Trouble::Away(text)
        } else {
            Trouble::Refused(text)
        }
    }
}

impl From<postgres::Error> for Trouble {
    fn from(error: postgres::Error) -> Trouble {
        match error {
            postgres::Error::Refused { .. } => Trouble::Refused(error.to_string()),
            error => Trouble::Away(error.to_string()),
        }
    }
}

/// The tier's side has failed.
impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Away(error.to_string())
    }
}

impl Trouble {
    /// The text alone.
    pub(crate) fn text(self) -> String {
        match self {
            Trouble::Away(text) | Trouble::Refused(text) => text,
        }
    }
}
