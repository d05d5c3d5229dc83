//! Why a session is sent away, and what its client hears then.

use wire::Problem;

/// Why a session is sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The process ends.
    Ending,
    /// Somebody said so in the console.
    Killed,
}

impl Leave {
    /// The last word that its client hears.
    pub(crate) fn word(self) -> Problem {
        match self {
            Leave::Ending => Problem::fatal("57P01", "terminating connection due to administrator command"),
            Leave::Killed => Problem::fatal("57P01", "terminating connection due to administrator command")
                .hint("KILL or KILL_CLIENT was said in Consort's console."),
        }
    }
}
