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
    /// Position of the request; `None`: nothing is sent, a flow only records a write.
    pub(super) request: Option<Request>,
    /// Kind of the request.
    pub(super) kind: Kind,
    /// Utility statements of the request, for the effect of their completion on the session.
    pub(super) statements: Rc<[Statement]>,
    /// The prepared statement that the request binds.
    pub(super) statement: Option<Rc<Prepared>>,
    /// Template of the statement, if it may be offloaded.
    pub(super) template: Option<Rc<Template>>,
    /// The other findings about the statement's meaning.
    pub(super) meant: Meant,
    /// Reason why the request is at the primary.
    pub(super) reason: Reason,
    /// True if the request must run at the primary.
    pub(super) stays: bool,
    /// True if a block is open after the request has begun, and no statement has run in it.
    pub(super) fresh: bool,
    /// True if the columns of the named statements in use were checked: unchanged, or refused.
    pub(super) columns_kept: bool,
    /// True if the request is parsed and described, and its Execute is still to come.
    pub(super) flushed: bool,
    /// True if the request is proven to be a read.
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
    /// Snapshot that the primary had shown before the request, if that may be later than the known state of
    /// its names.
    pub(super) shown: Option<Rc<Snapshot>>,
    /// Meaning of the statement, by its tree.
    pub(super) meaning: Option<u64>,
    /// Meanings of the named statements that the request is about to parse.
    pub(super) meanings: Vec<(Box<[u8]>, u64)>,
    /// Length of the head of a batch that runs alone: the rest is a statement about one of Consort's own settings.
    pub(super) head: Option<usize>,
    /// True if the request waits long for its tree.
    pub(super) patient: bool,
    /// True if the block may defer the locks of later reads, whatever opens it: the request only reads.
    pub(super) defers_on: bool,
    /// True if the request ends a block of which the primary has received nothing but BEGIN.
    pub(super) is_unreached: bool,
    /// A buffer for the bytes of a batch, kept for the next one.
    pub(super) scratch: Vec<u8>,
}

/// The way of a request to a standby.
#[derive(Default)]
pub(super) struct There {
    /// Standby where the request ran, and the proof that its answer needs.
    pub(super) ran_at: Option<(StandbyId, Incarnation, Proof)>,
    /// Pass by which the request delays a refresh there.
    pub(super) pass: Option<Pass>,
    /// Time when the standby's answer arrived, to be held until it is proven.
    pub(super) held: Option<Instant>,
    /// In shadow mode: the primary's answer from before.
    pub(super) before: Option<Before>,
}

/// The way of a request that may commit.
#[derive(Default)]
pub(super) struct Commits {
    /// True if the request may lock readers out and commit: neither is decoded.
    pub(super) locks_out: bool,
    /// Form in which the request is sent to the primary.
    pub(super) way: Way,
    /// Narrows its in-flight write set when its tree arrives.
    pub(super) narrow: Option<Box<dyn FnOnce(DoubtId)>>,
    /// End of the answer, which the client receives when the commit has ended.
    pub(super) withheld: Option<Vec<u8>>,
    /// In designs that replicate statements: the statement, and the tables that it touches.
    pub(super) rerun: Option<(Footprint, Rerun)>,
}

/// The primary's answer to a request.
#[derive(Default)]
pub(super) struct Said {
    /// True if the primary has answered with an error.
    pub(super) failed: bool,
    /// Number of rows that the primary reports as written or returned.
    pub(super) rows: Option<u64>,
    /// Answer to the internal query in front of the request.
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
    /// Begins the next request; its client was held for `held` before it.
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

    /// True if the request is the BEGIN of a block and nothing else.
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

    /// True if the request, which began the block among other statements, may have locked readers out in it.
    pub(super) fn may_have_locked_out(&self) -> bool {
        let any = |is: fn(&Utility) -> bool| {
            self.statements.iter().any(|one| matches!(&one.what, What::Utility(utility) if is(utility)))
        };
        any(Utility::doubt_at_statement) || !any(|utility| matches!(utility, Utility::Begin(_)))
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
    /// Resets the fields where they are: the struct is large, and no field is moved.
    fn begin(&mut self) {
        self.way = Way::AsItIs;
        self.locks_out = false;
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
        (self.shown, self.meaning, self.head) = (None, None, None);
        (self.defers_on, self.is_unreached) = (false, false);
        self.meanings.clear();
    }
}
