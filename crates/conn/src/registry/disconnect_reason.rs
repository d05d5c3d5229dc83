//! Reasons why a session is disconnected, and the error that its client receives.

use wire::Problem;

/// Hint about a statement that has no answer.
const IN_DOUBT: &str = "A statement without an answer may or may not have been committed.";

/// Reason why a session is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The process shuts down.
    Ending,
    /// An administrator said KILL or KILL_CLIENT in the console.
    Killed,
    /// The client has sent no request for too long, outside a transaction.
    ClientIdle,
    /// The client has sent no request for too long, inside a transaction.
    IdleTransaction,
    /// The session sets `idle_session_timeout`, is detached from the primary, and has been idle for that
    /// time.
    SessionIdle,
    /// The transaction takes too long.
    Transaction,
    /// The statement takes too long.
    Query,
    /// The connection that listens for notifications was lost.
    Unheard,
    /// More notifications are queued for the client than allowed.
    Notifications,
}

impl Leave {
    /// The setting, or other cause, of this reason.
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

    /// True if the session does not wait for the end of its statement. At shutdown it waits: the primary
    /// reports the outcome to the client.
    pub fn interrupts(self) -> bool {
        self != Leave::Ending
    }

    /// The last error that the client receives.
    pub fn word(self) -> Problem {
        match self {
            Leave::Ending => Problem::fatal("57P01", "terminating connection due to administrator command"),
            Leave::Killed => Problem::fatal("57P01", "terminating connection due to administrator command")
                .hint(format!("KILL or KILL_CLIENT was executed in Consort's console. {IN_DOUBT}")),
            Leave::ClientIdle => self.too_long("57P05", "client_idle_timeout"),
            Leave::SessionIdle => {
                Problem::fatal("57P05", "terminating connection due to idle-session timeout")
            }
            Leave::IdleTransaction => self.too_long("25P03", "idle transaction timeout"),
            Leave::Transaction => self.too_long("25P04", "transaction timeout"),
            Leave::Query => self.too_long("57014", "query timeout"),
            Leave::Unheard => Problem::fatal("08006", "lost the connection that listens for notifications")
                .hint("Reconnect and LISTEN again. Notifications sent since were lost."),
            Leave::Notifications => {
                Problem::fatal("53400", "too many notifications are queued for the client").hint(
                    "Read notifications promptly, and keep transactions short in a session that listens.",
                )
            }
        }
    }

    /// The error of a timeout: PgBouncer's words, and PostgreSQL's SQLSTATE for the like.
    fn too_long(self, sqlstate: &'static str, word: &'static str) -> Problem {
        let hint = format!("Consort's setting {} limits this time. {IN_DOUBT}", self.key());
        Problem::fatal(sqlstate, word).hint(hint)
    }
}
