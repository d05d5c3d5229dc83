//! When a process of a server last read the server's configuration.

use std::fmt;

/// When a process last read its server's configuration (`pg_conf_load_time()`), by the server's clock: microseconds since
/// the beginning of 2000.
///
/// A reload goes so: the first process of the server reads the files, then it signals the others, and each of them reads
/// them before its next statement. Whoever begins later inherits the first process's time. So what a process that began
/// after a reload says is a floor: who says less has not heeded that reload yet, who says as much or more has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadTime(i64);

impl LoadTime {
    /// Before every reload.
    pub const UNKNOWN: LoadTime = LoadTime(i64::MIN);

    /// After every reload.
    pub const MAX: LoadTime = LoadTime(i64::MAX);

    /// So many microseconds after the beginning of 2000.
    pub const fn new(microseconds: i64) -> LoadTime {
        LoadTime(microseconds)
    }

    /// Microseconds since the beginning of 2000.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for LoadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} us", self.0)
    }
}
