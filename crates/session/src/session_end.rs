//! Reasons why a session ends, and whether its client knows.

use conn::registry::Leave;
use wire::Malformed;

/// Reason why a session cannot go on.
#[derive(Debug)]
pub enum Ended {
    /// The client sent Terminate.
    ClientLeft,
    /// The client has disconnected.
    ClientGone,
    /// The client violated the protocol.
    Malformed(Malformed),
    /// The connection at the primary is lost; the primary itself has reported it to the client, or no report
    /// was sent yet.
    PrimaryLost(Told),
    /// The session is disconnected by Consort.
    SentAway(Leave),
    /// A standby's answer broke off inside a message: no further message is possible on this connection.
    CutOff,
    /// A standby's answer broke off in a block, which must not go on.
    BlockCutOff,
    /// The session got no connection at the primary; the client has received the reason.
    NoServer,
    /// Ends the request alone: it was cancelled while it waited for a connection, or while the connection was
    /// prepared.
    Cancelled,
    /// The session has begun a block, which statement pooling does not allow.
    NoBlocks,
    /// Another Consort may have become the leader, and two leaders at a time would do harm.
    MayNotLead,
    /// The session does not end: it goes on in a successor process.
    Moves,
}

/// Sender of the report to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The primary's own FATAL was forwarded.
    ByPrimary,
    /// No report was sent yet.
    NotYet,
}
