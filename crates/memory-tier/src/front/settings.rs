//! Settings of a session: SET, SHOW, RESET and their roll-back.

use super::answers::failure;
use crate::message::Failure;
use std::collections::BTreeMap;
use std::time::Duration;

/// Version of PostgreSQL whose behaviour the tier follows.
const VERSION: &str = "15.0 (Consort in-memory tier)";
/// The same as a number.
const VERSION_NUMBER: &str = "150000";
/// Custom settings that a session may have.
const MAX_CUSTOM: usize = 1_000;
/// The longest value of a setting, in bytes.
const MAX_VALUE: usize = 64 << 10;

/// Values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Any text.
    Text,
    /// Any text, which changes nothing here.
    Ignored,
    /// `on` or `off`.
    Boolean,
    /// `on` alone: the tier has no other way.
    On,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Milliseconds, with a unit or without.
    Time,
    /// A whole number in this range.
    Number(i64, i64),
    Encoding,
    DateStyle,
    TimeZone,
    SearchPath,
    Isolation,
    /// No statement changes it.
    Fixed,
}

/// Reach of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The session alone.
    Session,
    /// Clients are told of each change.
    Client,
}

/// Name, value in a new session, values, reach.
type Setting = (&'static str, &'static str, Kind, Reach);

const LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];
const ISOLATIONS: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];

/// The settings, in the order of their names in lower case.
const SETTINGS: &[Setting] = &[
    ("application_name", "", Kind::Text, Reach::Client),
    ("array_nulls", "on", Kind::On, Reach::Session),
    ("backslash_quote", "safe_encoding", Kind::Ignored, Reach::Session),
    ("bytea_output", "hex", Kind::Word(&["hex"]), Reach::Session),
    ("check_function_bodies", "on", Kind::Boolean, Reach::Session),
    ("client_encoding", "UTF8", Kind::Encoding, Reach::Client),
    ("client_min_messages", "notice", Kind::Word(LEVELS), Reach::Session),
    ("commit_delay", "0", Kind::Ignored, Reach::Session),
    ("cursor_tuple_fraction", "0.1", Kind::Ignored, Reach::Session),
    ("DateStyle", "ISO, MDY", Kind::DateStyle, Reach::Client),
    ("debug_print_plan", "off", Kind::Boolean, Reach::Session),
    ("default_statistics_target", "100", Kind::Ignored, Reach::Session),
    ("default_table_access_method", "heap", Kind::Word(&["heap"]), Reach::Session),
    ("default_tablespace", "", Kind::Word(&[""]), Reach::Session),
    ("default_transaction_deferrable", "off", Kind::Boolean, Reach::Session),
    ("default_transaction_isolation", "serializable", Kind::Isolation, Reach::Session),
    ("default_transaction_read_only", "off", Kind::Boolean, Reach::Client),
    ("escape_string_warning", "on", Kind::Boolean, Reach::Session),
    ("extra_float_digits", "1", Kind::Number(1, 3), Reach::Session),
    ("force_parallel_mode", "off", Kind::Ignored, Reach::Session),
    ("geqo", "on", Kind::Ignored, Reach::Session),
    ("idle_in_transaction_session_timeout", "0", Kind::Time, Reach::Session),
    ("idle_session_timeout", "0", Kind::Time, Reach::Session),
    ("in_hot_standby", "off", Kind::Fixed, Reach::Client),
    ("integer_datetimes", "on", Kind::Fixed, Reach::Client),
    ("IntervalStyle", "postgres", Kind::Word(&["postgres"]), Reach::Client),
    ("is_superuser", "off", Kind::Fixed, Reach::Client),
    ("jit", "off", Kind::Ignored, Reach::Session),
    ("lc_collate", "C", Kind::Fixed, Reach::Session),
    ("lc_ctype", "C", Kind::Fixed, Reach::Session),
    ("lc_messages", "C", Kind::Word(&["C"]), Reach::Session),
    ("lc_monetary", "C", Kind::Word(&["C"]), Reach::Session),
    ("lc_numeric", "C", Kind::Word(&["C"]), Reach::Session),
    ("lc_time", "C", Kind::Word(&["C"]), Reach::Session),
    ("lock_timeout", "0", Kind::Time, Reach::Session),
    ("log_min_duration_statement", "-1", Kind::Ignored, Reach::Session),
    ("log_statement", "none", Kind::Ignored, Reach::Session),
    ("maintenance_work_mem", "64MB", Kind::Ignored, Reach::Session),
    ("max_identifier_length", "63", Kind::Fixed, Reach::Session),
    ("max_index_keys", "32", Kind::Fixed, Reach::Session),
    ("password_encryption", "scram-sha-256", Kind::Word(&["scram-sha-256"]), Reach::Session),
    ("plan_cache_mode", "auto", Kind::Ignored, Reach::Session),
    ("quote_all_identifiers", "off", Kind::Boolean, Reach::Session),
    ("random_page_cost", "4", Kind::Ignored, Reach::Session),
    ("row_security", "on", Kind::Boolean, Reach::Session),
    ("search_path", "\"$user\", public", Kind::SearchPath, Reach::Session),
    ("seq_page_cost", "1", Kind::Ignored, Reach::Session),
    ("server_encoding", "UTF8", Kind::Fixed, Reach::Client),
    ("server_version", VERSION, Kind::Fixed, Reach::Client),
    ("server_version_num", VERSION_NUMBER, Kind::Fixed, Reach::Session),
    ("session_authorization", "", Kind::Fixed, Reach::Client),
    ("standard_conforming_strings", "on", Kind::On, Reach::Client),
    ("statement_timeout", "0", Kind::Time, Reach::Session),
    ("synchronize_seqscans", "on", Kind::Ignored, Reach::Session),
    ("synchronous_commit", "on", Kind::Ignored, Reach::Session),
    ("temp_buffers", "8MB", Kind::Ignored, Reach::Session),
    ("TimeZone", "UTC", Kind::TimeZone, Reach::Client),
    ("transaction_deferrable", "off", Kind::Boolean, Reach::Session),
    ("transaction_isolation", "serializable", Kind::Isolation, Reach::Session),
    ("transaction_read_only", "off", Kind::Boolean, Reach::Session),
    ("work_mem", "4MB", Kind::Ignored, Reach::Session),
    ("xmloption", "content", Kind::Ignored, Reach::Session),
];

/// Prefixes of planner settings, which the tier has no use for.
const PLANNER: &[&str] = &["enable_", "parallel_", "cpu_", "geqo_", "jit_", "auto_explain."];

/// Settings of a session.
///
/// Clones are cheap: only values that differ from those of a new session are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Values of the start-up message, which RESET sets again.
    startup: BTreeMap<String, String>,
    session: BTreeMap<String, String>,
    /// Values up to the transaction's end.
    local: BTreeMap<String, String>,
}

/// Extent of a SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The session.
    Session,
    /// The transaction.
    Local,
}

impl Settings {
    /// Settings of a new session, by its start-up message.
    ///
    /// # Errors
    /// A value is refused.
    pub(super) fn at_startup(user: &str, parameters: &[(String, String)]) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        for (name, value) in parameters {
            match name.as_str() {
                "options" => settings.options(value)?,
                "replication" => {}
                _ => settings.set(name, Some(value), Extent::Session)?,
            }
        }
        settings.session.insert("session_authorization".to_owned(), user.to_owned());
        settings.startup = std::mem::take(&mut settings.session);
        Ok(settings)
    }

    /// Settings of the start-up option `options`: `-c name=value`, `--name=value`.
    fn options(&mut self, text: &str) -> Result<(), Failure> {
        let mut words = words(text).into_iter();
        while let Some(word) = words.next() {
            let pair = match word.strip_prefix("--") {
                Some(pair) => Some(pair.to_owned()),
                None if word == "-c" => words.next(),
                None => word.strip_prefix("-c").map(str::to_owned),
            };
            let Some((name, value)) = pair.as_deref().and_then(|pair| pair.split_once('=')) else {
                let hint = "Options are of the form -c name=value.";
                return Err(failure("42601", format!("invalid command-line argument: {word}"), hint));
            };
            self.set(&name.replace('-', "_"), Some(value), Extent::Session)?;
        }
        Ok(())
    }

    /// The setting's value.
    ///
    /// # Errors
    /// The setting is not known.
    pub(super) fn get(&self, name: &str) -> Result<&str, Failure> {
        let key = name.to_ascii_lowercase();
        let layers = [&self.local, &self.session, &self.startup];
        let set = layers.into_iter().find_map(|layer| layer.get(&key).map(String::as_str));
        let known = || find(&key).map(|(_, default, ..)| *default);
        let planner = || key.starts_with("enable_").then_some("on");
        set.or_else(known).or_else(planner).ok_or_else(|| unknown(name))
    }

    /// The setting's name as PostgreSQL spells it.
    pub(super) fn spelled<'a>(&self, name: &'a str) -> &'a str {
        find(&name.to_ascii_lowercase()).map_or(name, |(name, ..)| *name)
    }

    /// Sets a setting; `None`: to the value of a new session.
    ///
    /// # Errors
    /// The setting is not known, or takes no such value.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, extent: Extent) -> Result<(), Failure> {
        let key = name.to_ascii_lowercase();
        let Some(value) = value else { return self.reset(name) };
        if value.len() > MAX_VALUE {
            let hint = format!("A value has at most {MAX_VALUE} bytes.");
            return Err(failure("22023", format!("the value of parameter \"{name}\" is too long"), &hint));
        }
        let value = match find(&key) {
            Some((name, _, kind, _)) => accepted(name, *kind, value)?,
            None if PLANNER.iter().any(|prefix| key.starts_with(prefix)) => value.to_owned(),
            None if key.contains('.') => {
                if self.session.len() + self.local.len() > MAX_CUSTOM {
                    return Err(failure("54000", "too many custom parameters", "RESET ALL removes them."));
                }
                value.to_owned()
            }
            None => return Err(unknown(name)),
        };
        match extent {
            Extent::Session => {
                self.local.remove(&key);
                self.session.insert(key, value);
            }
            Extent::Local => {
                self.local.insert(key, value);
            }
        }
        Ok(())
    }

    /// Sets a setting to its value in a new session.
    ///
    /// # Errors
    /// The setting is not known, or no statement changes it.
    pub(super) fn reset(&mut self, name: &str) -> Result<(), Failure> {
        let key = name.to_ascii_lowercase();
        match find(&key) {
            Some((name, _, Kind::Fixed, _)) => return Err(fixed(name)),
            None if !key.contains('.') && !PLANNER.iter().any(|prefix| key.starts_with(prefix)) => {
                return Err(unknown(name));
            }
            _ => {}
        }
        self.local.remove(&key);
        self.session.remove(&key);
        Ok(())
    }

    /// Sets all settings to their values in a new session. Custom ones stay known, and are empty.
    pub(super) fn reset_all(&mut self) {
        self.local.clear();
        self.session.retain(|name, _| name.contains('.'));
        self.session.values_mut().for_each(String::clear);
    }

    /// The transaction has ended: what held for it alone is over.
    pub(super) fn end_transaction(&mut self) {
        self.local.clear();
    }

    /// Values that clients are told of.
    pub(super) fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = SETTINGS.iter().filter(|(.., reach)| *reach == Reach::Client);
        reported.map(|(name, ..)| (*name, self.get(name).unwrap_or_default().to_owned())).collect()
    }

    /// Values that nodes are told of, where they are not those of a new session: functions may ask for them.
    pub(super) fn for_nodes(&self) -> Vec<(String, String)> {
        let mut told = self.startup.clone();
        told.extend(self.session.clone());
        told.extend(self.local.clone());
        told.retain(|name, _| name == "application_name" || name.contains('.'));
        told.into_iter().collect()
    }

    /// All settings with their values.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        let known = SETTINGS.iter().map(|(name, ..)| (*name).to_owned());
        known.map(|name| (name.clone(), self.get(&name).unwrap_or_default().to_owned())).collect()
    }

    /// A boolean setting.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name) == Ok("on")
    }

    /// A time limit; `None`: there is none.
    pub(super) fn limit(&self, name: &str) -> Option<Duration> {
        let value = self.get(name).ok()?;
        milliseconds(value).filter(|limit| *limit > 0).map(Duration::from_millis)
    }
}

fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(key))
}

fn unknown(name: &str) -> Failure {
    let hint = "The in-memory tier has a part of PostgreSQL's parameters. SHOW ALL lists them.";
    failure("42704", format!("unrecognized configuration parameter \"{name}\""), hint)
}

fn fixed(name: &str) -> Failure {
    failure("55P02", format!("parameter \"{name}\" cannot be changed"), "The in-memory tier sets it.")
}

/// The value in its usual form.
fn accepted(name: &str, kind: Kind, value: &str) -> Result<String, Failure> {
    let invalid =
        |hint: &str| failure("22023", format!("invalid value for parameter \"{name}\": \"{value}\""), hint);
    let lacking = |hint: &str| {
        failure("0A000", format!("parameter \"{name}\" cannot be \"{value}\" in the in-memory tier"), hint)
    };
    let word = value.trim().to_ascii_lowercase();
    match kind {
        Kind::Text | Kind::Ignored => Ok(value.to_owned()),
        Kind::Boolean => boolean(&word).ok_or_else(|| invalid("Use on or off.")),
        Kind::On => match boolean(&word).as_deref() {
            Some("on") => Ok("on".to_owned()),
            Some(_) => Err(lacking("Leave it on.")),
            None => Err(invalid("Use on.")),
        },
        Kind::Word(words) => {
            let found = words.iter().find(|known| known.eq_ignore_ascii_case(value.trim()));
            let hint = format!("Available values: {}.", words.join(", "));
            found.map(|found| (*found).to_owned()).ok_or_else(|| lacking(&hint))
        }
        Kind::Time => milliseconds(&word)
            .map(shown_time)
            .ok_or_else(|| invalid("Use milliseconds, or a unit: 5s, 1min.")),
        Kind::Number(least, most) => match word.parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
            Ok(_) => Err(lacking(&format!("Use {least} to {most}."))),
            Err(_) => Err(invalid("Use a whole number.")),
        },
        // asyncpg sends the name in quotes.
        Kind::Encoding => match word.trim_matches(['\'', '"']).replace(['-', '_'], "").as_str() {
            "utf8" | "unicode" | "auto" => Ok("UTF8".to_owned()),
            _ => Err(lacking("Use UTF8.")),
        },
        Kind::DateStyle => {
            let all_fit = word.split(',').all(|part| matches!(part.trim(), "iso" | "mdy" | "us"));
            if all_fit { Ok("ISO, MDY".to_owned()) } else { Err(lacking("Use ISO, MDY.")) }
        }
        Kind::TimeZone => {
            time_zone(&word).ok_or_else(|| lacking("Use UTC; convert times in the application."))
        }
        Kind::SearchPath => {
            let mut names = value.split(',').map(|name| name.trim().trim_matches('"'));
            let all_fit = names.clone().all(|name| matches!(name, "public" | "pg_catalog" | "$user"));
            if all_fit && names.any(|name| name == "public") {
                Ok(value.to_owned())
            } else {
                Err(lacking("The tier has the schema public alone."))
            }
        }
        Kind::Isolation => match ISOLATIONS.iter().find(|known| **known == word) {
            Some(_) => Ok("serializable".to_owned()),
            None => Err(invalid(&format!("Available values: {}.", ISOLATIONS.join(", ")))),
        },
        Kind::Fixed => Err(fixed(name)),
    }
}

fn boolean(word: &str) -> Option<String> {
    let is = |of: &[&str]| of.iter().any(|whole| !word.is_empty() && whole.starts_with(word));
    match word {
        "1" => Some("on".to_owned()),
        "0" => Some("off".to_owned()),
        "o" => None,
        _ if is(&["on", "true", "yes"]) => Some("on".to_owned()),
        _ if is(&["off", "false", "no"]) => Some("off".to_owned()),
        _ => None,
    }
}

/// Names of the one time zone that the tier has.
fn time_zone(word: &str) -> Option<String> {
    let known = ["utc", "gmt", "etc/utc", "etc/gmt", "zulu", "z", "0", "utc0", "universal", "default", "uct"];
    known.contains(&word).then(|| "UTC".to_owned())
}

/// Milliseconds of a time limit: a number, with a unit or without.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor).filter(|value| i32::try_from(*value).is_ok())
}

/// A time limit as PostgreSQL shows it: in the largest unit that fits.
fn shown_time(milliseconds: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let unit = units.iter().find(|(factor, _)| milliseconds > 0 && milliseconds.is_multiple_of(*factor));
    unit.map_or_else(|| "0".to_owned(), |(factor, unit)| format!("{}{unit}", milliseconds / factor))
}

/// Words of the start-up option `options`: a backslash takes the next character as it is.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => words.last_mut().expect("never empty").extend(letters.next()),
            ' ' | '\t' | '\n' => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startup(parameters: &[(&str, &str)]) -> Result<Settings, Failure> {
        let pairs: Vec<_> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::at_startup("ann", &pairs)
    }

    fn sqlstate<T: std::fmt::Debug>(done: Result<T, Failure>) -> String {
        done.expect_err("refused").sqlstate
    }

    #[test]
    fn names_are_sorted_and_known_in_any_case() {
        assert!(SETTINGS.is_sorted_by_key(|(name, ..)| name.to_ascii_lowercase()));
        let settings = startup(&[("application_name", "till")]).unwrap();
        assert_eq!(settings.get("APPLICATION_NAME"), Ok("till"));
        assert_eq!(settings.get("datestyle"), Ok("ISO, MDY"));
        assert_eq!(settings.spelled("timezone"), "TimeZone");
        // Letters outside ASCII have no case here.
        assert_eq!((settings.get("lc_collate"), settings.get("lc_ctype")), (Ok("C"), Ok("C")));
        assert_eq!(sqlstate(settings.get("no_such")), "42704");
    }

    #[test]
    fn values_out_of_reach_are_refused() {
        let mut settings = startup(&[]).unwrap();
        let cases = [
            ("client_encoding", "LATIN1", "0A000"),
            ("DateStyle", "German", "0A000"),
            ("TimeZone", "Europe/Berlin", "0A000"),
            ("standard_conforming_strings", "off", "0A000"),
            ("statement_timeout", "soon", "22023"),
            ("search_path", "other", "0A000"),
            ("server_version", "16", "55P02"),
            ("transaction_isolation", "chaos", "22023"),
            ("no_such", "1", "42704"),
        ];
        for (name, value, expected) in cases {
            assert_eq!(sqlstate(settings.set(name, Some(value), Extent::Session)), expected, "{name}");
        }
        assert_eq!(settings, startup(&[]).unwrap(), "nothing has changed");
    }

    #[test]
    fn utf8_has_many_names() {
        for name in ["'utf-8'", "\"UTF8\"", "utf-8", "UNICODE", "utf8"] {
            let settings = startup(&[("client_encoding", name)]).unwrap();
            assert_eq!(settings.get("client_encoding"), Ok("UTF8"), "{name}");
        }
        assert_eq!(sqlstate(startup(&[("client_encoding", "'LATIN1'")])), "0A000");
    }

    #[test]
    fn times_are_shown_in_their_largest_unit() {
        let mut settings = startup(&[]).unwrap();
        for (set, shown) in [("5000", "5s"), ("90s", "90s"), ("2min", "2min"), ("1500", "1500ms"), ("0", "0")]
        {
            settings.set("statement_timeout", Some(set), Extent::Session).unwrap();
            assert_eq!(settings.get("statement_timeout"), Ok(shown));
        }
        assert_eq!(settings.limit("statement_timeout"), None);
        settings.set("statement_timeout", Some("2s"), Extent::Session).unwrap();
        assert_eq!(settings.limit("statement_timeout"), Some(Duration::from_secs(2)));
    }

    #[test]
    fn local_values_end_with_the_transaction() {
        let mut settings = startup(&[("statement_timeout", "1s")]).unwrap();
        settings.set("statement_timeout", Some("2s"), Extent::Session).unwrap();
        settings.set("statement_timeout", Some("3s"), Extent::Local).unwrap();
        assert_eq!(settings.get("statement_timeout"), Ok("3s"));
        settings.end_transaction();
        assert_eq!(settings.get("statement_timeout"), Ok("2s"));
        settings.set("statement_timeout", None, Extent::Session).unwrap();
        assert_eq!(settings.get("statement_timeout"), Ok("1s"), "the start-up message's");
    }

    #[test]
    fn options_of_the_start_up_are_settings() {
        let settings = startup(&[("options", "-c statement_timeout=5s --application-name=a\\ b")]).unwrap();
        assert_eq!(settings.get("statement_timeout"), Ok("5s"));
        assert_eq!(settings.get("application_name"), Ok("a b"));
        assert_eq!(sqlstate(startup(&[("options", "-x")])), "42601");
    }

    #[test]
    fn custom_and_planner_settings_are_kept() {
        let mut settings = startup(&[]).unwrap();
        settings.set("my.own", Some("x"), Extent::Session).unwrap();
        settings.set("enable_seqscan", Some("off"), Extent::Session).unwrap();
        assert_eq!((settings.get("my.own"), settings.get("enable_seqscan")), (Ok("x"), Ok("off")));
        settings.reset_all();
        assert_eq!((settings.get("my.own"), settings.get("enable_seqscan")), (Ok(""), Ok("on")));
    }
}
