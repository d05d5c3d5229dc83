//! Time at which a process of a server last read the server's configuration.

use std::fmt;

/// Time at which a process last read its server's configuration (`pg_conf_load_time()`), by the server's
/// clock: microseconds since the beginning of 2000.
///
/// A reload goes so: the first process of the server reads the files, then it signals the others, and each of
/// them reads them before its next statement. A process that begins later inherits the first process's time.
/// So the time of a process that began after a reload is a floor: a process with an earlier time has not
/// applied that reload yet, a process with the same or a later time has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadTime(i64);

impl LoadTime {
    /// Before every reload.
    pub const UNKNOWN: LoadTime = LoadTime(i64::MIN);

    /// After every reload.
    pub const MAX: LoadTime = LoadTime(i64::MAX);

    /// Time of this number of microseconds after the beginning of 2000.
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
