//! The current request. `Current::begin` resets everything that lives for one request.

use super::commit_turns::Way;
use super::shadow_reads::Before;
use super::statement_log::Waits;
use backend::prepared_statements::Statement as Prepared;
use backend::request::{Kind, Request};
use history::{Footprint, Incarnation, Snapshot};
use order::DoubtId;
use replica_apply::apply::Rerun;
use scheduler::{Pass, Proof, Reason, StandbyId};
use session_state::utility::{Statement, Utility, What};
use statement_analysis::Template;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// The request that runs.
pub(super) struct Current {
    /// Where it lies; `None`: nothing is sent, a flow only notes something.
    pub(super) request: Option<Request>,
    /// What it is.
    pub(super) kind: Kind,
    /// Its utility statements, for what their completion does to the session.
    pub(super) statements: Rc<[Statement]>,
    /// The prepared statement that it binds.
    pub(super) statement: Option<Rc<Prepared>>,
    /// What is known of it, if it may leave.
    pub(super) template: Option<Rc<Template>>,
    /// The other findings about the statement's meaning.
    pub(super) meant: Meant,
    /// Why it is at the primary.
    pub(super) reason: Reason,
    /// It runs at the primary, wherever it might.
    pub(super) stays: bool,
    /// A block that is open after the request has begun, and no statement has run in it.
    pub(super) fresh: bool,
    /// The named statements that it uses have their columns still, or are refused.
    pub(super) columns_kept: bool,
    /// It is parsed and described, and what executes it is still to come.
    pub(super) flushed: bool,
    /// It is proven to be a read.
    pub(super) is_read: bool,
    /// The request's way to a standby.
    pub(super) there: There,
    /// The request's way to a commit.
    pub(super) commits: Commits,
    /// The primary's answer.
    pub(super) said: Said,
    /// The arrival time, and the waits.
    pub(super) waits: Waits,
}

/// The meaning of a request, without its template.
#[derive(Default)]
pub(super) struct Meant {
    /// What the primary had shown before the request, if that may be more than is known of its names.
    pub(super) shown: Option<Rc<Snapshot>>,
    /// What its statement means, by its tree.
    pub(super) meaning: Option<u64>,
    /// What named statements of it mean that are about to be parsed.
    pub(super) meanings: Vec<(Box<[u8]>, u64)>,
    /// It waits long for its tree.
    pub(super) patient: bool,
    /// A buffer for the bytes of a batch, kept for the next one.
    pub(super) scratch: Vec<u8>,
}

/// The way of a request to a standby.
#[derive(Default)]
pub(super) struct There {
    /// Where it ran, and what would make its answer right.
    pub(super) ran_at: Option<(StandbyId, Incarnation, Proof)>,
    /// By what it holds back a refresh there.
    pub(super) pass: Option<Pass>,
    /// When a standby's answer was there, to be held until it is proven.
    pub(super) held: Option<Instant>,
    /// In shadow mode: what the primary said before.
    pub(super) before: Option<Before>,
}

/// The way of a request that may commit.
#[derive(Default)]
pub(super) struct Commits {
    /// How it is given to the primary.
    pub(super) way: Way,
    /// Narrows its doubt when its tree arrives.
    pub(super) narrow: Option<Box<dyn FnOnce(DoubtId)>>,
    /// The end of its answer, which the client gets when its commit has ended.
    pub(super) withheld: Option<Vec<u8>>,
    /// Where statements travel: it, and what it touches.
    pub(super) rerun: Option<(Footprint, Rerun)>,
}

/// The primary's answer to a request.
#[derive(Default)]
pub(super) struct Said {
    /// It has answered with an error.
    pub(super) failed: bool,
    /// How many rows it says that it has written, or given.
    pub(super) rows: Option<u64>,
    /// The answer to the question that stood in front of the request.
    pub(super) answer: Option<String>,
}

impl Default for Current {
    fn default() -> Current {
        Current {
            request: None,
            kind: Kind::Query,
            statements: Rc::new([]),
            statement: None,
            template: None,
            meant: Meant::default(),
            reason: Reason::AskedForPrimary,
            stays: false,
            fresh: false,
            columns_kept: false,
            flushed: false,
            is_read: false,
            there: There::default(),
            commits: Commits::default(),
            said: Said::default(),
            waits: Waits::begin(Duration::ZERO),
        }
    }
}

impl Current {
    /// The next request has come; its client was held so long before it.
    pub(super) fn begin(&mut self, request: Request, held: Duration) {
        if !self.statements.is_empty() {
            self.statements = Rc::new([]);
        }
        self.request = Some(request);
        self.kind = request.kind;
        self.statement = None;
        self.template = None;
        self.meant.begin();
        self.reason = Reason::AskedForPrimary;
        self.stays = false;
        self.fresh = false;
        self.columns_kept = false;
        self.flushed = request.kind == Kind::Flushed;
        self.is_read = false;
        self.there.begin();
        self.commits.begin();
        self.said.begin();
        self.waits = Waits::begin(held);
    }

    /// It is the BEGIN of a block and nothing else.
    pub(super) fn begins_block(&self) -> bool {
        matches!(
            &*self.statements,
            [Statement {
                what: What::Utility(
                    Utility::Begin(_) | Utility::Commit { chain: true } | Utility::Rollback { chain: true }
                ),
                ..
            }]
        )
    }
}

impl There {
    /// Resets the fields where they are.
    fn begin(&mut self) {
        self.ran_at = None;
        self.pass = None;
        self.held = None;
        self.before = None;
    }
}

impl Commits {
    /// Resets the fields where they are: the struct is large, and nothing of it is moved.
    fn begin(&mut self) {
        self.way = Way::AsItIs;
        self.narrow = None;
        self.withheld = None;
        self.rerun = None;
    }
}

impl Said {
    /// Resets the fields where they are.
    fn begin(&mut self) {
        self.failed = false;
        self.rows = None;
        self.answer = None;
    }
}

impl Meant {
    /// Resets the findings. The buffer stays.
    fn begin(&mut self) {
        (self.shown, self.meaning) = (None, None);
        self.meanings.clear();
    }
}
