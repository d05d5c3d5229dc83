//! Consort's own settings, `consort.*`: set and shown like any other, answered by Consort, sent to no server.

use super::Consistency;

/// The settings that there are.
pub const OWN_SETTINGS: [&str; 2] = ["consort.consistency", "consort.read_only_snapshots"];

/// Consort's own settings of a session, a block, or a database and user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// How fresh a read must be.
    pub consistency: Consistency,
    /// Declared REPEATABLE READ READ ONLY transactions may leave the primary.
    pub read_only_snapshots: bool,
}

/// Why a setting was refused: an error for the client, in PostgreSQL's form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SettingError {
    /// Its code.
    pub sqlstate: &'static str,
    /// Its message.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl Own {
    /// Sets one by its name in small letters; `None` sets it to what it is in `defaults`.
    pub(super) fn set(
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
            ("consort.read_only_snapshots", None) => self.read_only_snapshots = defaults.read_only_snapshots,
            ("consort.read_only_snapshots", Some(value)) => {
                self.read_only_snapshots =
                    boolean(value).ok_or_else(|| refused("Available values: on, off."))?;
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The value of one, as SHOW says it.
    pub(super) fn show(&self, name: &str) -> Result<String, SettingError> {
        match name {
            "consort.consistency" => Ok(self.consistency.to_string()),
            "consort.read_only_snapshots" => {
                Ok(if self.read_only_snapshots { "on" } else { "off" }.to_owned())
            }
            _ => Err(unknown(name)),
        }
    }
}

fn unknown(name: &str) -> SettingError {
    SettingError {
        sqlstate: "42704",
        message: format!("unrecognized configuration parameter \"{name}\""),
        hint: Some(format!("Consort's settings are {}.", OWN_SETTINGS.join(", "))),
    }
}

/// A truth value as PostgreSQL reads it: on, true, yes, 1, and their unambiguous beginnings.
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
