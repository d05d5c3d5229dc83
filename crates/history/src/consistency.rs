//! Required freshness of the reads of a session, a transaction or a statement.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The longest age that can be asked for.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Units of an age in microseconds, the least first. An age is shown in the largest that needs no fraction.
const UNITS: [(u128, &str); 5] =
    [(1, "us"), (1_000, "ms"), (1_000_000, "s"), (60_000_000, "min"), (3_600_000_000, "h")];

/// Required freshness of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// As on one server: it sees every commit that anybody could have seen before it began.
    #[default]
    Strong,
    /// Sees the session's own commits and all that the session has seen before.
    Session,
    /// Sees at least what the primary showed this long ago.
    Bounded(Duration),
    /// Any state that a standby has.
    Weak,
    /// Runs at the primary.
    Primary,
}

/// Text that could not be parsed as a consistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseConsistencyError(String);

impl fmt::Display for ParseConsistencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not a consistency level", self.0)
    }
}

impl std::error::Error for ParseConsistencyError {}

impl FromStr for Consistency {
    type Err = ParseConsistencyError;

    /// `strong`, `session`, `bounded 200ms` (units us, ms, s, min, h), `weak` or `primary`, in any case.
    fn from_str(text: &str) -> Result<Consistency, ParseConsistencyError> {
        let lower = text.trim().to_ascii_lowercase();
        let bounded = || lower.strip_prefix("bounded").and_then(age).map(Consistency::Bounded);
        match lower.as_str() {
            "strong" => Ok(Consistency::Strong),
            "session" => Ok(Consistency::Session),
            "weak" => Ok(Consistency::Weak),
            "primary" => Ok(Consistency::Primary),
            _ => bounded().ok_or_else(|| ParseConsistencyError(text.to_owned())),
        }
    }
}

/// ` 200ms`, ` 1.5 s`: an age above nothing and at most a day.
fn age(text: &str) -> Option<Duration> {
    let text = text.strip_prefix(|c: char| c.is_ascii_whitespace())?.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let (unit, _) = UNITS.into_iter().find(|(_, name)| *name == unit.trim())?;
    let micros = number.parse::<f64>().ok()? * unit as f64;
    let age = Duration::try_from_secs_f64(micros / 1e6).ok()?;
    (age >= Duration::from_micros(1) && age <= MAX_AGE).then_some(age)
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Consistency::Strong => f.write_str("strong"),
            Consistency::Session => f.write_str("session"),
            Consistency::Weak => f.write_str("weak"),
            Consistency::Primary => f.write_str("primary"),
            Consistency::Bounded(age) => {
                let micros = age.as_micros();
                let (unit, name) =
                    UNITS.into_iter().rev().find(|(unit, _)| micros % unit == 0).expect("the least is one");
                write!(f, "bounded {}{name}", micros / unit)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_what_it_reads() {
        for text in [
            "strong",
            "session",
            "weak",
            "primary",
            "bounded 200ms",
            "bounded 2s",
            "bounded 1h",
            "bounded 1500us",
        ] {
            assert_eq!(text.parse::<Consistency>().unwrap().to_string(), text);
        }
        assert_eq!(" Bounded  1.5 s ".parse(), Ok(Consistency::Bounded(Duration::from_millis(1500))));
        assert_eq!("BOUNDED 2 min".parse(), Ok(Consistency::Bounded(Duration::from_secs(120))));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "fresh", "bounded", "bounded 5", "bounded ms", "bounded 0ms", "bounded -1s", "bounded 2d"]
        {
            assert!(text.parse::<Consistency>().is_err(), "{text}");
        }
        assert!("bounded200ms".parse::<Consistency>().is_err());
        assert!("bounded 25h".parse::<Consistency>().is_err());
        assert!("bounded 99999999999999999999999h".parse::<Consistency>().is_err());
    }
}
