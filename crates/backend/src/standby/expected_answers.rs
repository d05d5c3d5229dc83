//! The answers that a standby owes, one after the other, and whom each is for.

use std::io;
use wire::tag::back;
use wire::{Complaint, Malformed};

/// The answer that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To a message of ours, by exactly this tag: swallowed.
    Ours(u8),
    /// The row with the replay position: read, and swallowed.
    Position,
    /// The row with the replay position when the statement has locked what it reads: the same.
    Locked,
    /// Everything up to ReadyForQuery, to a Query of ours.
    Aside,
    /// To a part of the statement that the client did not send itself, by exactly this tag: swallowed. An error is the
    /// statement's.
    Hidden(u8),
    /// For the client, by exactly this tag.
    Client(u8),
    /// ParseComplete for the client, of a statement that is known here: nothing comes, it is written.
    ParseGiven,
    /// RowDescription or NoData, for the client.
    Described,
    /// The same for a Query, where NoData is not said.
    DescribedSimply,
    /// Rows, up to the end of the statement, for the client.
    Rows,
    /// ReadyForQuery.
    Ready,
}

/// Treatment of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// For the client; the turn stays.
    On,
    /// For the client, and its turn is over.
    Last,
    /// For Consort, and its turn is over.
    Swallowed,
    /// For Consort; the turn stays.
    Dropped,
    /// Unexpected here.
    Wrong,
}

impl Turn {
    /// Treatment of a message with this tag, which is neither an error nor an asynchronous message.
    pub(super) fn way(self, tag: u8) -> Way {
        match (self, tag) {
            (Turn::Ours(wanted) | Turn::Hidden(wanted), tag) if tag == wanted => Way::Swallowed,
            (Turn::Position | Turn::Locked, back::DATA_ROW) => Way::Swallowed,
            (Turn::Aside, back::READY_FOR_QUERY) => Way::Swallowed,
            (Turn::Aside, _) => Way::Dropped,
            (Turn::Client(wanted), tag) if tag == wanted => Way::Last,
            (Turn::Described, back::ROW_DESCRIPTION | back::NO_DATA) => Way::Last,
            (Turn::DescribedSimply, back::ROW_DESCRIPTION) => Way::Last,
            (Turn::DescribedSimply, back::NO_DATA) => Way::Swallowed,
            (Turn::Rows, back::DATA_ROW) => Way::On,
            (Turn::Rows, back::COMMAND_COMPLETE | back::EMPTY_QUERY | back::PORTAL_SUSPENDED) => Way::Last,
            (Turn::Ready, back::READY_FOR_QUERY) => Way::Swallowed,
            _ => Way::Wrong,
        }
    }

    /// True if this turn belongs to the statement, and not to Consort.
    pub(super) fn is_the_statements(self) -> bool {
        !matches!(self, Turn::Ours(_) | Turn::Position | Turn::Locked | Turn::Aside | Turn::Ready)
    }
}

/// The standby did not answer, for reasons of its own; the client has seen nothing.
#[derive(Debug)]
pub enum Failed {
    /// The connection is closed.
    Gone(String),
    /// The standby has closed it: replay could not go on alongside its snapshot.
    Conflict(String),
    /// The statement held back a refresh of its replica for the maximum time, and was cancelled.
    LetGo,
    /// The connection is good for other statements.
    Refused(Box<super::Standby>, String),
    /// A logical replica has found that its data are broken: its error.
    Broken(String),
}

impl Failed {
    /// The server ends the connection with these words.
    pub(super) fn fatal(complaint: &Complaint<'_>) -> Failed {
        let why = String::from_utf8_lossy(complaint.message()).into_owned();
        if complaint.sqlstate().starts_with(b"40") { Failed::Conflict(why) } else { Failed::Gone(why) }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Gone(error.to_string())
    }
}

impl From<Malformed> for Failed {
    fn from(why: Malformed) -> Failed {
        Failed::Gone(why.to_string())
    }
}

/// Is this error the standby's own matter, so that the statement runs at the primary? It is proven read-only, so that
/// running it again harms nothing; what is not listed is the statement's own error, and is its answer.
pub fn is_the_standbys_own(complaint: &Complaint<'_>) -> bool {
    let sqlstate = complaint.sqlstate();
    if is_raised(complaint) {
        return complaint.is_fatal();
    }
    complaint.is_fatal()
        || matches!(
            sqlstate.get(..2),
            // Connections, recovery conflicts (40001, 40P01), resources (disk full, out of memory), limits (54001: the depth of
            // its stack is a setting), the system (files),
            // internal errors and corruption, an old snapshot.
            Some(b"08" | b"40" | b"53" | b"54" | b"58" | b"72" | b"F0" | b"XX")
        )
        || matches!(
            sqlstate,
            // The server is being shut down, has crashed, does not accept connections, its database is
            // dropped.
            b"57P01" | b"57P02" | b"57P03" | b"57P04"
            // The server cannot write, does not do that during recovery, or recovery is not far enough.
            | b"25006" | b"0A000" | b"55000"
            // A lock that is held there because its end is not replayed yet.
            | b"55P03"
            // A statement of ours is not there.
            | b"26000"
        )
}

/// True if this error is a logical replica's own matter. The replica has copies of the catalog and of the
/// roles: an error about these is for the primary to report. An error about values comes from the same rows
/// by the same functions, and is the statement's own. So is RAISE, and so is a statement that was cancelled
/// or took too long.
pub(super) fn is_a_copys_own(complaint: &Complaint<'_>) -> bool {
    let is_about_values = matches!(
        complaint.sqlstate().get(..2),
        // CASE without a match, too many rows of a subquery, data exceptions, a domain's CHECK, SQL routines, external
        // routines (two classes), PL/pgSQL.
        Some(b"20" | b"21" | b"22" | b"23" | b"2F" | b"38" | b"39" | b"P0")
    );
    !is_about_values && !is_raised(complaint) && complaint.sqlstate() != b"57014"
}

/// True if the server has found that its data are broken: a page, or an index. Its next reader finds the
/// same.
pub(super) fn is_broken(complaint: &Complaint<'_>) -> bool {
    matches!(complaint.sqlstate(), b"XX001" | b"XX002") && !is_raised(complaint)
}

/// Does this error say that the server itself cannot go on, for want of resources or of files, or because what it keeps is
/// broken? It is no word of a transaction's, also where the client has seen something of it.
pub(super) fn breaks_down(complaint: &Complaint<'_>) -> bool {
    matches!(complaint.sqlstate().get(..2), Some(b"53" | b"58" | b"XX")) && !is_raised(complaint)
}

/// RAISE in PL/pgSQL takes any SQLSTATE: what it says is the statement's, and says nothing of the server.
fn is_raised(complaint: &Complaint<'_>) -> bool {
    matches!(complaint.field(b'R'), Some(b"exec_stmt_raise"))
}
