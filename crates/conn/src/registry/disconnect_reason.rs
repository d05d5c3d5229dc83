//! Why a session is sent away, and what its client hears then.

use wire::Problem;

/// What is to be known of a statement that is not answered.
const IN_DOUBT: &str = "What was sent and not answered may have been committed, or not.";

/// Why a session is sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The process ends.
    Ending,
    /// Somebody said so in the console.
    Killed,
    /// It has asked for nothing for too long, outside a transaction,
    ClientIdle,
    /// or inside one.
    IdleTransaction,
    /// The session sets `idle_session_timeout`, has no connection at the primary, and has been idle for so long.
    SessionIdle,
    /// Its transaction takes too long.
    Transaction,
    /// Its statement takes too long.
    Query,
    /// What it listens to is not heard any more.
    Unheard,
    /// More notifications wait for it than may.
    Notifications,
}

impl Leave {
    /// The setting that says so, or what else does.
    pub fn key(self) -> &'static str {
        match self {
            Leave::Ending => "SHUTDOWN",
            Leave::Killed => "KILL",
            Leave::ClientIdle => "client_idle_timeout",
            Leave::IdleTransaction => "idle_transaction_timeout",
            Leave::SessionIdle => "idle_session_timeout",
            Leave::Transaction => "transaction_timeout",
            Leave::Query => "query_timeout",
            Leave::Unheard | Leave::Notifications => "LISTEN",
        }
    }

    /// It does not wait for the end of its statement. Who leaves because the process ends hears from the primary what becomes of
    /// that.
    pub fn interrupts(self) -> bool {
        self != Leave::Ending
    }

    /// The last word that its client hears.
    pub fn word(self) -> Problem {
        match self {
            Leave::Ending => Problem::fatal("57P01", "terminating connection due to administrator command"),
            Leave::Killed => Problem::fatal("57P01", "terminating connection due to administrator command")
                .hint(format!("KILL or KILL_CLIENT was said in Consort's console. {IN_DOUBT}")),
            Leave::ClientIdle => self.too_long("57P05", "client_idle_timeout"),
            Leave::SessionIdle => {
                Problem::fatal("57P05", "terminating connection due to idle-session timeout")
            }
            Leave::IdleTransaction => self.too_long("25P03", "idle transaction timeout"),
            Leave::Transaction => self.too_long("25P04", "transaction timeout"),
            Leave::Query => self.too_long("57014", "query timeout"),
            Leave::Unheard => {
                Problem::fatal("08006", "the connection that listens for notifications was lost")
                    .hint("Connect again, and LISTEN again. What was notified meanwhile was not heard.")
            }
            Leave::Notifications => Problem::fatal("53400", "too many notifications wait for the client")
                .hint("Read them as they come, and keep transactions short in a session that listens."),
        }
    }

    /// In PgBouncer's words, with PostgreSQL's codes for the like.
    fn too_long(self, sqlstate: &'static str, word: &'static str) -> Problem {
        let hint = format!("Consort's setting {} says how long at most. {IN_DOUBT}", self.key());
        Problem::fatal(sqlstate, word).hint(hint)
    }
}
