//! Selection of the statements that are logged.

use std::time::Duration;

/// Statements whose route is logged, with the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// No statement.
    #[default]
    None,
    /// Statements that read, or begin as reading ones do, and ran at the primary.
    Primary,
    /// All statements.
    All,
}

impl Routing {
    /// Each with its name in the configuration.
    pub const ALL: &[(&str, Routing)] =
        &[("none", Routing::None), ("primary", Routing::Primary), ("all", Routing::All)];
}

/// Selection of the statements that are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StatementLog {
    /// Statements by the place where they ran.
    pub routing: Routing,
    /// Share of these statements that is logged, from 0 to 1.
    pub sample_rate: f64,
    /// Minimum duration from which every statement is logged.
    pub min_duration: Option<Duration>,
}

/// Reason why a statement is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Route of the statement.
    Route,
    /// Duration of the statement.
    Duration,
}

impl StatementLog {
    /// Returns true if any statement may be logged.
    pub fn is_on(&self) -> bool {
        self.routing != Routing::None || self.min_duration.is_some()
    }

    /// Returns the reason to log a statement of this duration. `stayed`: it is a read, or may be one, and ran
    /// at the primary.
    pub fn wants(&self, stayed: bool, took: Duration) -> Option<Wanted> {
        if self.min_duration.is_some_and(|least| took >= least) {
            return Some(Wanted::Duration);
        }
        let routed = match self.routing {
            Routing::None => false,
            Routing::Primary => stayed,
            Routing::All => true,
        };
        (routed && happens(self.sample_rate)).then_some(Wanted::Route)
    }
}

/// Returns true at random, at this rate from 0 to 1.
fn happens(rate: f64) -> bool {
    rand::random::<f64>() < rate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(routing: Routing, sample_rate: f64, min_ms: Option<u64>) -> StatementLog {
        StatementLog { routing, sample_rate, min_duration: min_ms.map(Duration::from_millis) }
    }

    #[test]
    fn what_took_long_is_said_whatever_the_sample() {
        let (short, long) = (Duration::from_millis(9), Duration::from_millis(10));
        let log = log(Routing::All, 0.0, Some(10));
        assert_eq!((log.wants(true, short), log.wants(false, long)), (None, Some(Wanted::Duration)));
    }

    #[test]
    fn reads_that_stayed_are_said_alone() {
        let none = Duration::ZERO;
        assert_eq!(log(Routing::Primary, 1.0, None).wants(true, none), Some(Wanted::Route));
        assert_eq!(log(Routing::Primary, 1.0, None).wants(false, none), None);
        assert_eq!(log(Routing::All, 1.0, None).wants(false, none), Some(Wanted::Route));
        assert!(!StatementLog::default().is_on() && StatementLog::default().wants(true, none).is_none());
    }

    #[test]
    fn a_sample_is_a_share() {
        let log = log(Routing::All, 0.25, None);
        let said = (0..10_000).filter(|_| log.wants(false, Duration::ZERO).is_some()).count();
        assert!((2_000..3_000).contains(&said), "{said}");
    }
}
