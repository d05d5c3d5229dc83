//! Why a session cannot go on, and whether its client was told.

use conn::registry::Leave;
use wire::Malformed;

/// Why a session cannot go on.
#[derive(Debug)]
pub enum Ended {
    /// The client took its leave.
    ClientLeft,
    /// The client is gone.
    ClientGone,
    /// The client does not speak the protocol.
    Malformed(Malformed),
    /// The connection at the primary is lost; the client was told by the primary itself, or not yet.
    PrimaryLost(Told),
    /// It is sent away.
    SentAway(Leave),
    /// A standby's answer broke off inside a message: nothing more can be said on this connection.
    CutOff,
    /// A standby's answer broke off in a block, which must not go on.
    BlockCutOff,
    /// It got no connection at the primary; the client was told why.
    NoServer,
    /// Its request alone: it was cancelled while it waited for a connection, or for that to be made ready.
    Cancelled,
    /// It has begun a block, which is not allowed to it.
    NoBlocks,
    /// Another Consort may have taken over, where two at a time would do harm.
    MayNotLead,
    /// It does not end: it is to go on in another process.
    Moves,
}

/// Who told the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The primary's own FATAL was forwarded.
    ByPrimary,
    /// Nobody has.
    NotYet,
}
