//! What a session is made of, beside its line, its state, its transaction and its request.

use backend::servers::Member;
use backend::standby::pool::Shelf;
use conn::log_in::Wish;
use scheduler::{CatalogMark, SessionMarks, StandbyId};
use std::rc::Rc;
use tokio::time::Instant;
use transaction::Backend;

/// Who the session is at the servers.
pub(super) struct Who {
    /// Who the client is at the servers.
    pub(super) wish: Wish,
    /// The session's process at the primary; number 0: it has none.
    pub(super) backend: Backend,
    /// What it counts among, for as long as it is there.
    pub(super) pool: Member,
    /// Under which catalog it was looked whether its roles and its database still have their names, and whether they have.
    pub(super) named: Option<(CatalogMark, bool)>,
}

/// How far the session has come, for reads that must not fall behind it, and where these run.
#[derive(Default)]
pub(super) struct Reads {
    pub(super) marks: SessionMarks,
    /// Something ran at the primary after the last gauge that was wanted for this session.
    pub(super) behind: bool,
    pub(super) awaited: Option<order::GaugeNumber>,
    /// The standby that results with a chance in them come from.
    pub(super) home: Option<StandbyId>,
    /// Where it borrows connections.
    pub(super) shelves: Vec<(StandbyId, Rc<Shelf>)>,
}

/// What is done first, before something else runs.
#[derive(Default)]
pub(super) struct First {
    /// The session is probed before its next block.
    pub(super) probe: bool,
    /// It is looked before its next block whether its names are what they were.
    pub(super) names: bool,
    /// Its request has the primary load its configuration anew, which is noted before that runs.
    pub(super) reload: bool,
}

/// Since when.
#[derive(Default)]
pub(super) struct Times {
    /// When the session came, as long as nothing was asked in it.
    pub(super) came: Option<Instant>,
    /// When its transaction began.
    pub(super) began: Option<Instant>,
}
