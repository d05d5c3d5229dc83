//! Settings of a session: the few whose values change answers may have one value only, others are kept as given.

use std::collections::BTreeMap;

use crate::problem::Problem;

/// Settings with the values that are honoured (lower case); the first is the default's text.
const FIXED: &[(&str, &str, &[&str])] = &[
    ("timezone", "UTC", &["utc", "gmt", "etc/utc", "0", "+00", "00:00", "+00:00"]),
    ("datestyle", "ISO, MDY", &["iso", "iso, mdy"]),
    ("intervalstyle", "postgres", &["postgres"]),
    ("client_encoding", "UTF8", &["utf8", "utf-8", "unicode"]),
    ("standard_conforming_strings", "on", &["on", "true", "1"]),
    ("bytea_output", "hex", &["hex"]),
    (
        "search_path",
        "\"$user\", public",
        &["\"$user\", public", "public", "$user, public", "public, pg_catalog"],
    ),
    ("integer_datetimes", "on", &["on"]),
    ("server_encoding", "UTF8", &["utf8"]),
    ("lc_collate", "C", &["c"]),
    ("lc_ctype", "C", &["c"]),
    (
        "transaction_isolation",
        "serializable",
        &["serializable", "repeatable read", "read committed", "read uncommitted"],
    ),
    (
        "default_transaction_isolation",
        "serializable",
        &["serializable", "repeatable read", "read committed", "read uncommitted"],
    ),
    ("session_replication_role", "origin", &["origin"]),
    ("array_nulls", "on", &["on"]),
    ("xmloption", "content", &["content"]),
];

/// Settings that change no answer, with their defaults.
const KEPT: &[(&str, &str)] = &[
    ("application_name", ""),
    ("client_min_messages", "notice"),
    ("extra_float_digits", "1"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("work_mem", "4MB"),
    ("maintenance_work_mem", "64MB"),
    ("synchronous_commit", "on"),
    ("default_transaction_read_only", "off"),
    ("transaction_read_only", "off"),
    ("transaction_deferrable", "off"),
    ("default_transaction_deferrable", "off"),
    ("row_security", "on"),
    ("check_function_bodies", "on"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("jit", "on"),
    ("is_superuser", "on"),
    ("max_identifier_length", "63"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
];

/// Values of a session's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    changed: BTreeMap<String, String>,
}

impl Settings {
    /// Sets a value, or the default with `None`. A value that would change answers is refused with 0A000, an unknown
    /// setting with 42704.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Problem> {
        let name = canonical(name);
        let Some(value) = value else {
            self.changed.remove(&name);
            return self.show(&name).map(|_| ());
        };
        if let Some((_, default, honoured)) = FIXED.iter().find(|(fixed, ..)| *fixed == name) {
            let lower = value.trim_matches('\'').to_ascii_lowercase();
            if !honoured.contains(&lower.as_str()) && !lower.eq_ignore_ascii_case(default) {
                return Err(Problem::unsupported(format!("the value \"{value}\" of parameter \"{name}\""))
                    .hint(format!("The tier runs with {name} = {default}.")));
            }
            if name.ends_with("transaction_isolation") || name == "search_path" {
                self.changed.insert(name, value.to_owned());
            }
            return Ok(());
        }
        let is_fixed = matches!(
            name.as_str(),
            "is_superuser" | "max_identifier_length" | "server_version" | "server_version_num"
        );
        if is_fixed {
            return Err(Problem::new("55P02", format!("parameter \"{name}\" cannot be changed")));
        }
        if name.contains('.') || KEPT.iter().any(|(kept, _)| *kept == name) || is_planner(&name) {
            self.changed.insert(name, value.to_owned());
            return Ok(());
        }
        Err(unknown(&name))
    }

    /// Text of the value. An unknown setting is error 42704.
    pub fn show(&self, name: &str) -> Result<String, Problem> {
        let name = canonical(name);
        let fixed = FIXED.iter().find(|(fixed, ..)| *fixed == name).map(|(_, default, _)| *default);
        let kept = KEPT.iter().find(|(kept, _)| *kept == name).map(|(_, default)| *default);
        let planner = is_planner(&name).then_some("on");
        let value = self.changed.get(&name).cloned().or(fixed.or(kept).or(planner).map(str::to_owned));
        value.ok_or_else(|| unknown(&name))
    }

    /// Sets all settings to their defaults.
    pub fn reset(&mut self) {
        self.changed.clear();
    }
}

fn canonical(name: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "time zone" => "timezone".to_owned(),
        "names" => "client_encoding".to_owned(),
        other => other.to_owned(),
    }
}

fn is_planner(name: &str) -> bool {
    name.starts_with("enable_")
}

fn unknown(name: &str) -> Problem {
    Problem::new("42704", format!("unrecognized configuration parameter \"{name}\""))
}
