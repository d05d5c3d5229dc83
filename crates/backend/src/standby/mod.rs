//! A connection at a standby, lent to one statement at a time. It knows which statements were parsed on it and which
//! settings it has, asks for a statement in one pipeline, and swallows exactly the answers to what is ours: what is left
//! is the answer that the primary would have given.
//!
//! Positioned, the pipeline is `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`, `SELECT
//! pg_last_wal_replay_lsn()`, the statement, with the same SELECT once more between its Bind and its Execute,
//! `COMMIT`, and one Sync. The answer is held until it is whole or longer than a bound; none of it is sent
//! before that.
//!
//! No answer comes from a promoted server, which may have taken writes. A promoted server reports that it is
//! no standby any more before the first ReadyForQuery after the promotion. A reader of an answer's beginning
//! asks the watcher if the server was still a standby.
//!
//! A logical replica takes writes, and its life ends with its connections: there is nothing to promote. A
//! read runs there as it is. The read could not write either: an offloaded statement was found to call
//! nothing that does. This finding could be wrong (a function that was declared harmless and is not). So all
//! transactions of such a connection are READ ONLY, and the replica refuses writes as a standby does. Its
//! types and tables are reported in the primary's OIDs (`oid_mapping`).

mod answer;
mod expected_answers;
mod oid_mapping;
mod parsed_statements;
pub mod pool;

pub use answer::{Answer, CutOff, Ending};
pub use expected_answers::{Failed, is_the_standbys_own};
pub use oid_mapping::may_be_bound;

use crate::batch::Batch;
use crate::prepared_statements::Statement;
use crate::standby::pool::{Lease, Shelf};
use conn::log_in::{Refusal, Wish, log_in};
use conn::peer::{Peer, Rooms, malformed};
use conn::registry::Cancel;
use expected_answers::Turn;
use history::{Epoch, Incarnation, Lsn, Timeline};
use parsed_statements::Known;
use scheduler::Kind;
use session_state::Settings;
use statement_analysis::Template;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::SystemTime;
use wire::tag::back;
use wire::{Asks, Complaint, Frame, Malformed, Status, Step, Target};

/// The names of our own statements on every connection, with their texts.
const OURS: [(&[u8], &[u8]); 3] = [
    (BEGIN, b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    (POSITION, b"SELECT pg_catalog.pg_last_wal_replay_lsn()"),
    (COMMIT, b"COMMIT"),
];
const BEGIN: &[u8] = b"consort_begin";
const POSITION: &[u8] = b"consort_position";
const COMMIT: &[u8] = b"consort_commit";
/// The portal of a second look at the position.
const LOCKED: &[u8] = b"consort_locked";

/// Parameters of a connection's start-up packet besides the user.
pub fn parameters(kind: Kind) -> Vec<(String, String)> {
    match kind {
        Kind::Standby => Vec::new(),
        Kind::Fed => vec![("default_transaction_read_only".to_owned(), "on".to_owned())],
    }
}

/// A connection whose standby's life is not known yet.
const NO_LIFE: Incarnation = Incarnation { epoch: Epoch::new(0), timeline: Timeline::new(0), started_us: 0 };

/// No answer to a question of our own is longer.
const OWN_ANSWER_LIMIT: usize = 1 << 20;

/// A connection at a standby.
pub struct Standby {
    peer: Peer,
    /// Idle connections to which it returns.
    pub shelf: Rc<Shelf>,
    /// Cancels its statement, and names the server.
    pub cancel: Rc<Cancel>,
    /// The life of the standby in which it was opened: it ends with it.
    pub incarnation: Incarnation,
    /// Replay position of its standby before it was opened; a logical replica surely showed all commits
    /// below.
    pub opened_at: Lsn,
    /// Its settings, once they were read.
    pub settings: Option<Settings>,
    /// Time of its opening.
    pub since: SystemTime,
    owed: Owed,
    _lease: Lease,
}

impl std::fmt::Debug for Standby {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standby").field("owner", &self.shelf.owner).field("turns", &self.owed.turns).finish()
    }
}

/// Known state of the connection, and its outstanding answers.
struct Owed {
    /// Kind of the server's replication.
    kind: Kind,
    /// The primary's description of the statement, which replaces a logical replica's.
    template: Option<Rc<Template>>,
    turns: VecDeque<Turn>,
    known: Known,
    /// The statement that is being parsed.
    parsing: Option<Rc<Statement>>,
    /// The statement that is bound.
    bound: Option<Rc<Statement>>,
    /// Its last block failed and was not rolled back.
    block_failed: bool,
    /// A transaction of the client is open on it.
    kept: Kept,
    /// The client's block is open at the primary: that is what ReadyForQuery says.
    in_block: bool,
    /// The status in its last ReadyForQuery, while a transaction of the client is open.
    status: Option<Status>,
    /// True if the server is no standby any more, or has become one. A report before a ReadyForQuery, or the
    /// log-in, says so.
    turned: bool,
}

/// State of a client's transaction on a connection: open or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kept {
    /// No: the connection runs a single statement.
    #[default]
    No,
    /// Yes, and the transaction may still begin again at the primary: the client has seen nothing of it.
    Unseen,
    /// Yes, and whatever goes wrong is the client's to know.
    Seen,
}

/// Work to run.
#[derive(Clone, Debug)]
pub enum Work<'a> {
    /// The text of a Query.
    Simple(&'a [u8]),
    /// A batch, and the statement that it binds.
    Batch(&'a Batch<'a>, Rc<Statement>),
}

/// Form in which it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    Plain,
    /// In a snapshot whose replay position is read.
    Positioned,
}

impl Owed {
    fn new(kind: Kind) -> Owed {
        Owed {
            kind,
            template: None,
            turns: VecDeque::new(),
            known: Known::default(),
            parsing: None,
            bound: None,
            block_failed: false,
            kept: Kept::No,
            in_block: false,
            status: None,
            turned: false,
        }
    }

    /// A ParameterStatus has come.
    fn reported(&mut self, frame: &Frame<'_>) -> Result<(), Malformed> {
        let (name, value) = wire::parameter_status(frame)?;
        self.hears(name, value);
        Ok(())
    }

    /// A server says of itself whether it is a standby. It looks before each ReadyForQuery and reports a change
    /// (`ReportChangedGUCOptions` of PostgreSQL), so an answer that is whole without this report was made by a standby.
    fn hears(&mut self, name: &[u8], value: &[u8]) {
        let is_standby = self.kind == Kind::Standby;
        self.turned |= name == b"in_hot_standby" && (value == b"on") != is_standby;
    }

    /// The reason why its answers do not count any more.
    fn why_turned(&self) -> &'static str {
        match self.kind {
            Kind::Standby => "the server is not a standby any more",
            Kind::Fed => "the server is a standby, not a logical replica",
        }
    }
}

impl Standby {
    /// Opens a connection, with a wish that has the [`parameters`] of its kind. The caller says its incarnation: the one
    /// that the standby is found in after the connection was made.
    pub async fn open(
        kind: Kind,
        wish: &Wish,
        shelf: Rc<Shelf>,
        lease: Lease,
        rooms: &Rooms,
    ) -> Result<Box<Standby>, Refusal> {
        let logged_in = log_in(wish, rooms).await?;
        let mut owed = Owed::new(kind);
        logged_in.parameters.iter().for_each(|(name, value)| owed.hears(name, value));
        let since = SystemTime::now();
        let mut standby = Box::new(Standby {
            peer: logged_in.peer,
            shelf,
            cancel: Rc::new(Cancel { place: wish.place.clone(), key: logged_in.key, since: Some(since) }),
            incarnation: NO_LIFE,
            opened_at: Lsn::ZERO,
            settings: None,
            since,
            owed,
            _lease: lease,
        });
        for (name, text) in OURS {
            standby.peer.out().parse(name, text, &[]);
        }
        standby.peer.out().sync();
        standby.own_answer().await?;
        Ok(standby)
    }

    /// Asks a question of our own: the columns of its only row, as text.
    pub async fn question(&mut self, text: &str) -> Result<Vec<Option<String>>, Refusal> {
        self.peer.out().query(text.as_bytes());
        self.own_answer().await
    }

    async fn own_answer(&mut self) -> Result<Vec<Option<String>>, Refusal> {
        self.peer.send().await?;
        let mut row = Vec::new();
        loop {
            let length = self.peer.whole_frame(OWN_ANSWER_LIMIT).await?;
            let frame = Frame::new(&self.peer.unread()[..length]).map_err(malformed)?;
            let mut error = None;
            let ready = frame.tag() == back::READY_FOR_QUERY;
            match frame.tag() {
                back::DATA_ROW => row = wire::row_texts(&frame).map_err(malformed)?,
                back::ERROR => error = Some(frame.bytes().to_vec()),
                back::PARAMETER_STATUS => self.owed.reported(&frame).map_err(malformed)?,
                _ => {}
            }
            self.peer.consume(length);
            if let Some(error) = error {
                return Err(Refusal::Answered(error));
            }
            if ready && self.owed.turned {
                return Err(Refusal::Unreachable(self.owed.why_turned().to_owned()));
            }
            if ready {
                self.peer.rest();
                return Ok(row);
            }
        }
    }

    /// True if the server has closed the connection, has sent an unexpected message, or is no standby any
    /// more: it is of no more use.
    pub fn is_gone(&mut self) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let of_no_use = self.owed.turned || !self.owed.turns.is_empty();
        let gone = of_no_use || self.peer.poll_fill(&mut cx).is_ready();
        self.peer.rest();
        gone
    }

    /// Kind of the server's replication.
    pub fn kind(&self) -> Kind {
        self.owed.kind
    }

    /// Sets the template that describes the next statement; `None`: no description is known.
    pub fn told_by(&mut self, template: Option<&Rc<Template>>) {
        if self.owed.kind == Kind::Fed {
            self.owed.template = template.cloned();
        }
    }

    /// Begins a transaction of the client's in a snapshot whose replay position is read. A logical replica
    /// has none, and the query for it takes the snapshot. The transaction stays open until [`Standby::end`].
    /// Meanwhile answers come without their ReadyForQuery, and [`Standby::status`] returns the transaction
    /// status.
    pub fn ask_snapshot(&mut self, becomes: Option<&str>) {
        self.prepare(becomes);
        self.run_own(BEGIN, &[]);
        self.run_own(
            POSITION,
            &[match self.owed.kind {
                Kind::Standby => Turn::Position,
                Kind::Fed => Turn::Ours(back::DATA_ROW),
            }],
        );
        self.peer.out().sync();
        self.owed.turns.push_back(Turn::Ready);
        self.owed.kept = Kept::Unseen;
    }

    /// Marks the next statement as part of a transaction at the primary, or not.
    pub fn for_block(&mut self, in_block: bool) {
        self.owed.in_block = in_block;
    }

    /// Records that the client sees an answer of its transaction here: the transaction cannot begin again
    /// elsewhere.
    pub fn seen(&mut self) {
        self.owed.kept = Kept::Seen;
    }

    /// Status of the client's transaction here.
    pub fn status(&self) -> Status {
        self.owed.status.unwrap_or(Status::Failed)
    }

    /// Ends the client's transaction, whose work is nothing but reads. The connection comes back if it is fit for others.
    pub async fn end(mut self: Box<Self>) -> Option<Box<Standby>> {
        self.question("ROLLBACK").await.ok()?;
        self.owed.kept = Kept::No;
        self.owed.status = None;
        Some(self)
    }

    fn prepare(&mut self, becomes: Option<&str>) {
        if std::mem::take(&mut self.owed.block_failed) {
            self.peer.out().query(b"ROLLBACK");
            self.owed.turns.push_back(Turn::Aside);
        }
        if let Some(text) = becomes {
            self.peer.out().query(text.as_bytes());
            self.owed.turns.push_back(Turn::Aside);
        }
    }

    /// The server's error that came while no answer was expected, if any: nothing more can be asked.
    pub fn farewell(&mut self) -> Option<Failed> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let closed = matches!(self.peer.poll_fill(&mut cx), std::task::Poll::Ready(Err(_)));
        let (unread, mut splitter) = (self.peer.unread(), self.peer.splitter);
        let mut at = 0;
        while let Ok(Step::Whole(frame)) = splitter.next(&unread[at..]) {
            at += frame.bytes().len();
            if frame.tag() == back::ERROR {
                return Some(Failed::fatal(&Complaint::read(&frame)));
            }
        }
        if self.owed.turned {
            return Some(Failed::Gone(self.owed.why_turned().to_owned()));
        }
        closed.then(|| Failed::Gone("the server closed the connection".to_owned()))
    }

    /// Sends work in one pipeline. `becomes` first brings the connection's settings to the session's. `true`: the statement
    /// that is bound is new here, and is parsed before.
    pub fn ask(&mut self, work: &Work<'_>, form: Form, becomes: Option<&str>) -> bool {
        self.prepare(becomes);
        let name = match work {
            Work::Simple(_) => None,
            Work::Batch(_, statement) => Some(self.name_of(statement)),
        };
        if form == Form::Positioned {
            self.run_own(BEGIN, &[]);
            self.run_own(POSITION, &[Turn::Position]);
        }
        match (work, &name) {
            (Work::Batch(batch, statement), Some(name)) => self.ask_batch(batch, statement, name, form),
            (Work::Simple(text), _) => self.ask_simple(text, form),
            (Work::Batch(..), None) => unreachable!("a batch binds a statement"),
        }
        if form == Form::Positioned {
            self.run_own(COMMIT, &[]);
        }
        self.peer.out().sync();
        self.owed.turns.push_back(Turn::Ready);
        name.is_some_and(|name| name.is_new)
    }

    /// The name of a statement here; an older one makes place for it.
    fn name_of(&mut self, statement: &Rc<Statement>) -> parsed_statements::Name {
        self.owed.known.under(self.settings.as_ref().map(Settings::id));
        let name = self.owed.known.name(statement);
        if let Some(evicted) = &name.evicted {
            Asks::close(self.peer.out(), Target::Statement, evicted.as_bytes());
            self.owed.turns.push_back(Turn::Ours(back::CLOSE_COMPLETE));
        }
        name
    }

    fn run_own(&mut self, name: &[u8], rows: &[Turn]) {
        let out = self.peer.out();
        out.bind_plain(name);
        out.execute(b"", 0);
        self.owed.turns.push_back(Turn::Ours(back::BIND_COMPLETE));
        self.owed.turns.extend(rows);
        self.owed.turns.push_back(Turn::Ours(back::COMMAND_COMPLETE));
    }

    /// Asks for the replay position once the statement is bound. By then the statement has locked all
    /// relations that it reads, and may have waited for a TRUNCATE of them. The query runs in a portal
    /// alongside the statement's own.
    fn ask_locked(&mut self, form: Form) {
        if form == Form::Positioned {
            let out = self.peer.out();
            out.bind(LOCKED, POSITION, &[0; 6]);
            out.execute(LOCKED, 0);
            let complete = Turn::Ours(back::COMMAND_COMPLETE);
            self.owed.turns.extend([Turn::Ours(back::BIND_COMPLETE), Turn::Locked, complete]);
        }
    }

    fn ask_simple(&mut self, text: &[u8], form: Form) {
        let out = self.peer.out();
        out.parse(b"", text, &[]);
        out.bind_plain(b"");
        out.describe(Target::Portal, b"");
        self.owed.turns.extend([
            Turn::Hidden(back::PARSE_COMPLETE),
            Turn::Hidden(back::BIND_COMPLETE),
            Turn::DescribedSimply,
        ]);
        self.ask_locked(form);
        self.peer.out().execute(b"", 0);
        self.owed.turns.push_back(Turn::Rows);
    }

    fn ask_batch(
        &mut self,
        batch: &Batch<'_>,
        statement: &Rc<Statement>,
        name: &parsed_statements::Name,
        form: Form,
    ) {
        let out = self.peer.out();
        let text = name.text.as_bytes();
        self.owed.bound = Some(statement.clone());
        if name.is_new {
            out.parse(text, &statement.text, &statement.types);
            self.owed.parsing = Some(statement.clone());
        }
        self.owed.turns.extend(match (batch.parse.is_some(), name.is_new) {
            (true, true) => Some(Turn::Client(back::PARSE_COMPLETE)),
            (true, false) => Some(Turn::ParseGiven),
            (false, true) => Some(Turn::Hidden(back::PARSE_COMPLETE)),
            (false, false) => None,
        });
        if batch.describes_statement {
            out.describe(Target::Statement, text);
            self.owed.turns.extend([Turn::Client(back::PARAMETER_DESCRIPTION), Turn::Described]);
        }
        out.bind(b"", text, batch.bind.rest);
        self.owed.turns.push_back(Turn::Client(back::BIND_COMPLETE));
        if batch.describes_statement_late {
            out.describe(Target::Statement, text);
            self.owed.turns.extend([Turn::Client(back::PARAMETER_DESCRIPTION), Turn::Described]);
        }
        if batch.describes_portal {
            out.describe(Target::Portal, b"");
            self.owed.turns.push_back(Turn::Described);
        }
        self.ask_locked(form);
        self.peer.out().execute(b"", batch.execute.max_rows);
        self.owed.turns.push_back(Turn::Rows);
    }

    /// Waits for the answer to what was asked: all of it, or its first `held_bytes`.
    pub async fn answer(self: Box<Self>, held_bytes: usize) -> Result<Answer, Failed> {
        Answer::wait(self, held_bytes).await
    }
}
