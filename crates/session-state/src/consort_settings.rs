//! Consort's own settings, `consort.*`. Clients set and show them like any other setting; Consort answers,
//! and no server receives them.

use history::{CommitToken, Consistency};
use statement_analysis::Parameter;
use statement_analysis::declared_tables::Declared;
use statement_analysis::key::unquote;
use statement_analysis::shape::{Literal, Shape};

/// Names of Consort's own settings, without the prefix.
pub const OWN_SETTINGS: [&str; 5] = [
    "consort.consistency",
    "consort.not_before",
    "consort.read_only_snapshots",
    "consort.tables_read",
    "consort.tables_written",
];

/// Name of the setting that can only be shown: a token of what the primary shows now.
pub const LAST_COMMIT: &str = "consort.last_commit";
/// Name of the setting that takes such a token.
pub const NOT_BEFORE: &str = "consort.not_before";

/// Prefix of the names of Consort's own settings.
const PREFIX: &str = "consort.";
/// Hint for a malformed list of tables.
const TABLES: &str = "Use a list of tables, such as 'orders, shop.items', or '*' for all.";
/// Name of the PostgreSQL function that sets a setting.
pub(crate) const SET_CONFIG: &str = "set_config";

/// Consort's own settings of a session, a block, or a database and user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Required freshness of reads.
    pub consistency: Consistency,
    /// Commits that reads must show, at every level.
    pub not_before: Option<CommitToken>,
    /// True if declared REPEATABLE READ READ ONLY transactions may run at a standby.
    pub read_only_snapshots: bool,
    /// True if transactions declared READ ONLY at READ COMMITTED count as REPEATABLE READ too, and see one
    /// snapshot. The design decides this; no setting does.
    pub read_only_is_repeatable: bool,
    /// Tables that transactions will read, for designs that must know them before a transaction begins.
    pub tables_read: Declared,
    /// Tables that transactions will write, for designs that must know them before a transaction begins.
    pub tables_written: Declared,
}

/// Error for the client that a setting was refused, in PostgreSQL's form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SettingError {
    /// SQLSTATE.
    pub sqlstate: &'static str,
    /// Message.
    pub message: String,
    /// Hint: a value that would be accepted.
    pub hint: Option<String>,
}

impl Own {
    /// Sets a setting by its name in small letters; `None` resets it to its value in `defaults`.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        defaults: &Own,
    ) -> Result<(), SettingError> {
        let refused = |hint: &str| SettingError {
            sqlstate: "22023",
            message: format!("invalid value for parameter \"{name}\": \"{}\"", value.unwrap_or_default()),
            hint: Some(hint.to_owned()),
        };
        match (name, value) {
            ("consort.consistency", None) => self.consistency = defaults.consistency,
            ("consort.consistency", Some(value)) => {
                let hint = "Available values: strong, session, bounded <age> (such as bounded 200ms), weak, primary.";
                self.consistency = value.parse().map_err(|_| refused(hint))?;
            }
            (NOT_BEFORE, None) => self.not_before = defaults.not_before,
            (NOT_BEFORE, Some("")) => self.not_before = None,
            (NOT_BEFORE, Some(value)) => {
                let hint = "Use a value of SHOW consort.last_commit, such as 1:0/16B3748.";
                self.not_before = Some(value.parse().map_err(|_| refused(hint))?);
            }
            (LAST_COMMIT, _) => {
                return Err(SettingError {
                    sqlstate: "55P02",
                    message: format!("parameter \"{name}\" cannot be changed"),
                    hint: Some(format!("Set {NOT_BEFORE} to its value, in another session.")),
                });
            }
            ("consort.read_only_snapshots", None) => self.read_only_snapshots = defaults.read_only_snapshots,
            ("consort.read_only_snapshots", Some(value)) => {
                self.read_only_snapshots =
                    boolean(value).ok_or_else(|| refused("Available values: on, off."))?;
            }
            ("consort.tables_read", None) => self.tables_read = defaults.tables_read.clone(),
            ("consort.tables_read", Some(value)) => {
                self.tables_read = Declared::read(value).ok_or_else(|| refused(TABLES))?;
            }
            ("consort.tables_written", None) => self.tables_written = defaults.tables_written.clone(),
            ("consort.tables_written", Some(value)) => {
                self.tables_written = Declared::read(value).ok_or_else(|| refused(TABLES))?;
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The value of a setting, as SHOW returns it.
    pub(crate) fn show(&self, name: &str) -> Result<String, SettingError> {
        match name {
            "consort.consistency" => Ok(self.consistency.to_string()),
            NOT_BEFORE => Ok(self.not_before.map(|token| token.to_string()).unwrap_or_default()),
            "consort.read_only_snapshots" => {
                Ok(if self.read_only_snapshots { "on" } else { "off" }.to_owned())
            }
            "consort.tables_read" => Ok(self.tables_read.text().to_owned()),
            "consort.tables_written" => Ok(self.tables_written.text().to_owned()),
            _ => Err(unknown(name)),
        }
    }
}

/// True if `set_config` is called for one of Consort's own settings, as far as the text and its parameters
/// show. The server would execute the call, without any effect on Consort.
pub fn set_by_function(shape: &Shape, text: &str, parameters: &[Parameter<'_>]) -> bool {
    let called = |literal: &Literal| {
        let range = literal.range();
        let name = unquote(&text[range.clone()]);
        name.is_some_and(|name| is_own(name.as_bytes())) && is_first_argument(&text[..range.start])
    };
    shape.literals().iter().any(called)
        || (1..).zip(parameters).any(|(number, parameter)| match parameter {
            Parameter::Text(value) | Parameter::Binary(value) if is_own(value) => {
                let place = format!("${number}");
                let places = text.match_indices(&place);
                places.into_iter().any(|(at, _)| {
                    is_first_argument(&text[..at])
                        && !text[at + place.len()..].starts_with(|c: char| c.is_ascii_digit())
                })
            }
            _ => false,
        })
}

fn is_own(name: &[u8]) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX.as_bytes()))
}

/// True if the first argument of `set_config` follows.
fn is_first_argument(before: &str) -> bool {
    let Some(called) = before.trim_end().strip_suffix('(') else { return false };
    let called = called.trim_end().trim_end_matches('"').as_bytes();
    let Some((rest, name)) = called.split_last_chunk::<{ SET_CONFIG.len() }>() else { return false };
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let server_s = match rest.strip_suffix(b".") {
        // A function of the same name in another schema is a user's own.
        Some(schema) => schema.to_ascii_lowercase().trim_ascii_end().ends_with(b"pg_catalog"),
        None => !rest.last().is_some_and(word),
    };
    server_s && name.eq_ignore_ascii_case(SET_CONFIG.as_bytes())
}

fn unknown(name: &str) -> SettingError {
    SettingError {
        sqlstate: "42704",
        message: format!("unrecognized configuration parameter \"{name}\""),
        hint: Some(format!("Consort's settings are {}, {LAST_COMMIT}.", OWN_SETTINGS.join(", "))),
    }
}

/// Parses a boolean as PostgreSQL does: on, true, yes, 1, and their unambiguous prefixes.
fn boolean(value: &str) -> Option<bool> {
    let value = value.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if begins("on", 2) || begins("true", 1) || begins("yes", 1) || value == "1" {
        Some(true)
    } else if begins("off", 2) || begins("false", 1) || begins("no", 1) || value == "0" {
        Some(false)
    } else {
        None
    }
}
