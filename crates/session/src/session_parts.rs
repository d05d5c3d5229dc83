//! Parts of a session: identity, reads, steps before a block, and times.

use backend::servers::Member;
use backend::standby::pool::Shelf;
use conn::log_in::Wish;
use scheduler::{CatalogMark, SessionMarks, StandbyId};
use std::rc::Rc;
use tokio::time::Instant;
use transaction::Backend;

/// The session's identity at the servers.
pub(super) struct Who {
    /// The client's log-in at the servers.
    pub(super) wish: Wish,
    /// The session's process at the primary; number 0: it has none.
    pub(super) backend: Backend,
    /// The membership in a pool, as long as the session lives.
    pub(super) pool: Member,
    /// The catalog of the last check of the roles' and the database's names, and its result.
    pub(super) named: Option<(CatalogMark, bool)>,
}

/// The progress that the session's reads must show, and the standbys that answer them.
#[derive(Default)]
pub(super) struct Reads {
    pub(super) marks: SessionMarks,
    /// The primary ran a statement after the last snapshot probe that this session requested.
    pub(super) behind: bool,
    pub(super) awaited: Option<order::GaugeNumber>,
    /// The standby of results with random values.
    pub(super) home: Option<StandbyId>,
    /// The pools that the session borrows connections from.
    pub(super) shelves: Vec<(StandbyId, Rc<Shelf>)>,
}

/// Steps that come before the next block, or before the request.
#[derive(Default)]
pub(super) struct First {
    /// A probe of the session comes before its next block.
    pub(super) probe: bool,
    /// A check of the session's names comes before its next block.
    pub(super) names: bool,
    /// The request reloads the primary's configuration, which the session announces first.
    pub(super) reload: bool,
}

/// Starting times.
#[derive(Default)]
pub(super) struct Times {
    /// The session's start, until its first request.
    pub(super) came: Option<Instant>,
    /// The transaction's start.
    pub(super) began: Option<Instant>,
}
