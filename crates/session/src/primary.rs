//! The session's own connection at the primary: open requests, outstanding answers, and the pump that moves
//! frames both ways until all answers have come.
//!
//! Answers are forwarded as they are. Only answers to Consort's own messages are swallowed, each exactly
//! once.

mod answered_ahead;
mod answers;
mod notifications;
mod statement_transfer;

pub use super::session_end::{Ended, Told};
pub(super) use answered_ahead::send_answered;

use answers::Standing;
use backend::awake::Awake;
use backend::copy_in::CopyIn;
use backend::prepared_statements::{Statement, Statements, Undo, deallocated};
use backend::request::Kind;
use backend::statement_description::Described;
use conn::log_in::SERVER_HOLD_BYTES;
use conn::peer::{GATHERED_BYTES, Peer, Rooms};
use conn::registry::Seat;
use conn::socket::{Place, Socket};
use notifications::Notified;
use statement_transfer::{describes_own, send_parse};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use wire::Side::Server;
use wire::tag::{back, front};
use wire::{
    Asks, Bind, CancelRequest, Close, Describe, Frame, HEADER_BYTES, Malformed, Parse, Part, Status, Step,
    Target,
};

/// Name of the prepared statement of an internal query.
const QUESTION: &[u8] = b"consort_question";
/// Rest of a Bind without parameters whose results are text.
const NO_VALUES: [u8; 6] = [0; 6];

/// An outstanding answer, and its meaning.
#[derive(Debug)]
enum Expect {
    /// ParseComplete of a statement of the client, and the effect of sending it on the unnamed one.
    Parse(Box<[u8]>, Option<Rc<Statement>>, Option<Undo>),
    /// CloseComplete of a statement of the client.
    Close(Box<[u8]>),
    /// CloseComplete of a portal.
    ClosePortal,
    /// End of the answer to a Bind, Describe or Execute.
    Answer,
    /// ParseComplete or CloseComplete of Consort's own transfer of the unnamed statement: swallowed.
    Ours,
    /// ParseComplete or CloseComplete of Consort's own transfer of a named statement: swallowed.
    Learns(Box<[u8]>),
    /// Answer to Consort's own Describe after the Parse of a named statement: swallowed. `told`: the earlier
    /// description that the client received, if it received one.
    Described { name: Box<[u8]>, told: Option<Rc<Described>> },
    /// All answers to a separate transfer of a named statement, up to its ReadyForQuery: swallowed.
    Learnt { name: Box<[u8]>, told: Option<Rc<Described>> },
    /// End of the answer to a Bind or Describe of a refused statement: the server does not have it, and the
    /// client receives this error instead.
    Refused(Box<[u8]>),
    /// CloseComplete of a message without effect, sent for one that Consort answers: the client receives this instead.
    Instead(Box<[u8]>),
    /// CloseComplete of the unnamed portal, which no longer exists for the client: swallowed.
    PortalGone,
    /// All answers to an internal query, up to its ReadyForQuery: swallowed.
    Question,
    /// All answers to a statement that is only parsed and bound: the client's answer is kept.
    Bound,
    /// All answers to an internal command: swallowed, except notices, which are for the client.
    Command,
    /// The whole answer to a request that Consort runs for itself, up to its ReadyForQuery: kept. `true`: a
    /// Parse or Close of Consort's comes first.
    Aside(bool),
    /// ReadyForQuery for a Sync.
    Synced,
    /// ReadyForQuery that the client does not receive from here: for Consort's own Sync after a part of the
    /// batch, or for a Query while the block is elsewhere.
    Hushed(Option<Box<[u8]>>),
    /// ReadyForQuery for a Query or a FunctionCall, the name that it deallocates, and the effect of sending
    /// it on the unnamed statement.
    Asked(Option<Box<[u8]>>, Option<Undo>),
    /// ReadyForQuery for a Query or a Sync, withheld from the client; CommandComplete is kept.
    Withheld,
}

impl Expect {
    fn is_ready(&self) -> bool {
        matches!(
            self,
            Expect::Synced
                | Expect::Asked(..)
                | Expect::Question
                | Expect::Bound
                | Expect::Command
                | Expect::Learnt { .. }
                | Expect::Hushed(_)
                | Expect::Aside(_)
                | Expect::Withheld
        )
    }

    /// The effect to undo because the primary has skipped the message.
    fn undo(self) -> Option<Undo> {
        match self {
            Expect::Parse(.., undo) | Expect::Asked(_, undo) => undo,
            Expect::Ours => Some(Undo::Paid),
            Expect::Close(name) => Some(Undo::Unclosed(name)),
            Expect::Learns(name) | Expect::Described { name, told: Some(_) } => Some(Undo::Unlearned(name)),
            _ => None,
        }
    }

    /// True if the answers are for Consort.
    fn is_question(&self) -> bool {
        matches!(self, Expect::Question | Expect::Bound | Expect::Command | Expect::Learnt { .. })
    }
}

/// Statement that the primary is to bind for its locks.
pub enum ToBind<'a> {
    /// A statement that the primary has under this name.
    Named(&'a [u8]),
    /// A statement that the primary may not have. `describes`: the client requests a description of the
    /// statement before its values are bound.
    Text {
        /// The statement as the client parsed it.
        statement: &'a Statement,
        /// True if the client requests a description of the statement first.
        describes: bool,
    },
}

/// The client's side of a relay: its socket and its prepared statements.
pub struct Side<'a> {
    /// The client.
    pub client: &'a mut Peer,
    /// Prepared statements of the client.
    pub statements: &'a mut Statements,
    /// Settings that the primary reports.
    pub reported: &'a mut Reported,
}

/// Settings as the primary reported them last, by name. Pooled sessions share one value until a session's own
/// settings differ.
#[derive(Clone, Debug, Default)]
pub struct Reported(pub Rc<Vec<(Vec<u8>, Vec<u8>)>>);

impl Reported {
    /// Records a reported setting. `false`: the value is unchanged.
    pub(super) fn note(&mut self, name: &[u8], value: &[u8]) -> bool {
        let place = self.0.iter().position(|(known, _)| known == name);
        match place {
            Some(place) if self.0[place].1 == value => return false,
            Some(place) => value.clone_into(&mut Rc::make_mut(&mut self.0)[place].1),
            None => Rc::make_mut(&mut self.0).push((name.to_vec(), value.to_vec())),
        }
        true
    }

    /// The value of this setting, if the primary reports it.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name.as_bytes()).map(|(_, value)| value.as_slice())
    }
}

/// The session's connection at the primary.
///
/// Invariants: `open`, or an outstanding answer, means that the session is not idle. A Sync that a COPY has
/// taken has no outstanding answer.
pub struct Primary {
    /// The connection.
    pub peer: Peer,
    /// Address of the primary.
    pub place: Place,
    /// Entry of the client, which may be disconnected.
    seat: Rc<Seat>,
    /// Cancel key of the connection.
    pub key: CancelRequest,
    /// Transaction status of the session, as the primary reported it last.
    pub status: Status,
    expects: VecDeque<Expect>,
    /// More of the client's request follows.
    open: bool,
    copying: CopyIn,
    /// A message of the extended protocol failed, and the primary skips all messages before a Sync.
    passes_over: bool,
    /// A statement that ran elsewhere has closed the unnamed portal, and the primary does not know it.
    portal_gone: bool,
    told: Told,
    seen: Seen,
    pub(crate) notified: Notified,
    /// Keeps the backend from taking the session for idle.
    pub(super) awake: Awake,
    /// Tags of completed commands are kept, for comparison.
    pub(super) keeps_tags: bool,
    /// The connection is on its way to the session's settings: its reports of them are kept, and the client
    /// does not receive them yet.
    pub(super) holds_reports: bool,
}

/// Observations from the answers since a request began.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Number of completed statements.
    pub completed: usize,
    /// True if an error followed.
    pub failed: bool,
    /// SQLSTATE of the error.
    pub sqlstate: Option<[u8; 5]>,
    /// Settings that were reported.
    pub reported: Vec<(Vec<u8>, Vec<u8>)>,
    /// The row that answers an internal query.
    row: Option<Vec<Option<String>>>,
    /// First values of the rows that answered all internal queries.
    pub answers: Vec<Option<String>>,
    /// The answer to a request that Consort ran for itself.
    aside: Vec<u8>,
    /// The answer to Consort's own Describe, as far as it has come.
    described: Vec<u8>,
    /// The error that answers an internal query.
    pub error: Option<Vec<u8>>,
    /// CommandComplete of a request whose completion the client receives later.
    pub withheld: Vec<u8>,
    /// Number of rows in the completion of the client's last statement.
    pub rows: Option<u64>,
    /// Tags of the completed commands, where they are kept.
    pub tags: Vec<Box<[u8]>>,
    /// SQLSTATE and message of the first error, where tags are kept and the error fits the buffer.
    pub complaint: Option<(String, String)>,
}

impl Primary {
    /// Creates the session's side of a connection that is authenticated and ready.
    pub fn new(peer: Peer, place: Place, key: CancelRequest, seat: Rc<Seat>) -> Primary {
        Primary {
            seat,
            peer,
            place,
            key,
            status: Status::Idle,
            expects: VecDeque::new(),
            open: false,
            copying: CopyIn::default(),
            passes_over: false,
            portal_gone: false,
            told: Told::NotYet,
            seen: Seen::default(),
            notified: Notified::default(),
            awake: Awake::default(),
            keeps_tags: false,
            holds_reports: false,
        }
    }

    /// Creates the state of a detached session, without a connection.
    pub fn nowhere(rooms: &Rooms, seat: Rc<Seat>) -> Primary {
        let peer = Peer::new(Socket::Nowhere, Server, SERVER_HOLD_BYTES, rooms);
        Primary::new(peer, Place::Tcp(String::new(), 0), CancelRequest { pid: 0, secret: Vec::new() }, seat)
    }

    /// Begins a request of this kind.
    pub fn begin(&mut self, kind: Kind) {
        self.awake.spoken();
        self.seen.completed = 0;
        self.seen.failed = false;
        self.seen.rows = None;
        self.seen.tags.clear();
        self.seen.complaint = None;
        // Further input of the client belongs to the request, whatever it is.
        self.open |= kind == Kind::Open;
    }

    /// Takes the observations since the last request began.
    pub fn seen(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    /// Sends an internal query: its answers reach no client. The client's unnamed statement stays as it is.
    pub fn ask(&mut self, question: &str) {
        self.ask_and_expect(question, Expect::Question);
    }

    /// Sends an internal command whose notices are for the client.
    pub fn ask_aloud(&mut self, command: &str) {
        self.ask_and_expect(command, Expect::Command);
    }

    fn ask_and_expect(&mut self, question: &str, expect: Expect) {
        self.awake.spoken();
        let out = self.peer.out();
        parse_question(out, question.as_bytes(), &[]);
        out.bind_plain(QUESTION);
        out.execute(b"", 0);
        Asks::close(out, Target::Statement, QUESTION);
        out.sync();
        self.seen.row = None;
        self.seen.failed = false;
        self.expects.push_back(expect);
    }

    /// Sends a message without effect, so that the backend does not take the session for idle.
    pub(super) fn wake(&mut self) {
        self.awake.spoken();
        self.peer.out().sync();
        self.expects.push_back(Expect::Question);
    }

    /// Has the primary parse a statement of the client, and nothing more, as an internal query. Shows if the
    /// statement has an error that PostgreSQL finds before execution.
    pub fn ask_parse(&mut self, statement: &Statement) {
        let out = self.peer.out();
        parse_question(out, &statement.text, &statement.types);
        Asks::close(out, Target::Statement, QUESTION);
        out.sync();
        self.seen.error = None;
        self.expects.push_back(Expect::Question);
    }

    /// Has the primary bind a statement of the client, and parse it before if the primary lacks it, as an
    /// internal query. The Bind takes the locks of an execution, and executes nothing. `values` is the rest
    /// of the client's Bind after the names. The portal replaces the client's unnamed one, as an execution
    /// would.
    pub fn ask_bound(&mut self, what: &ToBind<'_>, values: Option<&[u8]>) {
        let out = self.peer.out();
        let values = values.unwrap_or(&NO_VALUES);
        match what {
            ToBind::Named(name) => out.bind(b"", name, values),
            ToBind::Text { statement, describes } => {
                parse_question(out, &statement.text, &statement.types);
                if *describes {
                    out.describe(Target::Statement, QUESTION);
                }
                out.bind(b"", QUESTION, values);
            }
        }
        Asks::close(out, Target::Portal, b"");
        if matches!(what, ToBind::Text { .. }) {
            Asks::close(out, Target::Statement, QUESTION);
        }
        out.sync();
        self.seen.error = None;
        self.seen.aside.clear();
        self.expects.push_back(Expect::Bound);
    }

    /// Queries the existence of a prepared statement with this name: an error means that there is none.
    pub fn ask_described(&mut self, name: &[u8]) {
        let out = self.peer.out();
        out.describe(Target::Statement, name);
        out.sync();
        self.seen.error = None;
        self.expects.push_back(Expect::Question);
    }

    /// Takes the first values of the rows that answered internal queries.
    pub fn answers(&mut self) -> Vec<Option<String>> {
        std::mem::take(&mut self.seen.answers)
    }

    /// Number of rows in the completion of the client's statement.
    pub fn rows(&self) -> Option<u64> {
        self.seen.rows.filter(|_| !self.seen.failed)
    }

    /// True if the primary has ended the connection with a message, which is for the client.
    pub fn has_told_farewell(&self) -> bool {
        self.told == Told::ByPrimary
    }

    /// Takes the error that answers the last internal query.
    pub fn own_error(&mut self) -> Option<Vec<u8>> {
        self.seen.error.take()
    }

    /// Takes the answer to the last internal query; `None` if that was an error.
    pub fn own_answer(&mut self) -> Option<Vec<Option<String>>> {
        self.seen.row.take()
    }

    /// Runs a client's request for Consort, unnoticed by the client: the answer is kept. The request is
    /// complete, and reads. `binds_unnamed`: it begins with the unnamed statement as it is.
    pub fn ask_aside(&mut self, request: &[u8], binds_unnamed: bool, statements: &mut Statements) {
        let ours = binds_unnamed && self.owe(statements);
        self.peer.out().extend_from_slice(request);
        self.seen.aside.clear();
        self.expects.push_back(Expect::Aside(ours));
    }

    /// Takes the answer to a request run for Consort, or to a parsed and bound statement, up to its error.
    pub fn aside(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.seen.aside)
    }

    /// True if all answers have come, and no part of a request is missing.
    pub fn is_settled(&self) -> bool {
        self.expects.is_empty() && !self.open && !self.copying.takes_more()
    }

    /// Marks the forwarded part of a request as having no end of its own: its answers come without
    /// ReadyForQuery, which Consort sends to the client later.
    pub fn hush(&mut self) {
        match self.expects.pop_back() {
            Some(Expect::Asked(name, _)) => self.expects.push_back(Expect::Hushed(name)),
            other => {
                self.expects.extend(other);
                self.peer.out().sync();
                self.expects.push_back(Expect::Hushed(None));
                self.open = false;
            }
        }
    }

    /// Withholds the completion and the end of the forwarded request: Consort sends both to the client later.
    pub fn withhold(&mut self) {
        match self.expects.pop_back() {
            Some(Expect::Asked(..) | Expect::Synced) => self.expects.push_back(Expect::Withheld),
            other => self.expects.extend(other),
        }
    }

    /// Withholds the end of the forwarded request alone.
    pub fn withhold_end(&mut self) {
        match self.expects.pop_back() {
            Some(Expect::Synced) => self.expects.push_back(Expect::Hushed(None)),
            Some(Expect::Asked(name, _)) => self.expects.push_back(Expect::Hushed(name)),
            other => self.expects.extend(other),
        }
    }

    /// Completes when all answers have come, for a client that has disconnected: the answers are discarded.
    pub fn poll_alone(&mut self, side: &mut Side<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            if let Poll::Ready(Err(_)) = self.peer.poll_send(cx) {
                // Its last message may still be unread.
            }
            self.relay(side).map_err(|_| Ended::PrimaryLost(self.told))?;
            side.client.forget_unsent();
            if self.is_settled() {
                return Poll::Ready(Ok(()));
            }
            match self.peer.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.lost(side, &error))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes the first `bytes` of the client's input, whole frames, and sends them on.
    pub fn take(&mut self, side: &mut Side<'_>, bytes: usize) -> Result<(), Malformed> {
        let mut at = 0;
        while at < bytes {
            let mut splitter = side.client.splitter;
            let Step::Whole(frame) = splitter.next(&side.client.unread()[at..bytes])? else {
                return Err(Malformed::Body);
            };
            at += frame.bytes().len();
            self.forward(frame, side.statements)?;
        }
        side.client.consume(bytes);
        Ok(())
    }

    /// Records the answers that a message of the client requests, and sends it on.
    fn forward(&mut self, frame: Frame<'_>, statements: &mut Statements) -> Result<(), Malformed> {
        match frame.tag() {
            tag if self.passes_over && tag != front::SYNC => {}
            front::PARSE => {
                let parse = Parse::read(&frame)?;
                let (text, types) = parse.signature();
                let statement = Rc::new(Statement::new(text, types));
                let describes = statements.keeps_columns(parse.name, &statement);
                self.make_room(parse.name, statements);
                send_parse(self, &frame, &parse);
                self.parse_comes(parse.name, Some(statement), statements);
                if describes {
                    self.describe(parse.name, None);
                }
                return Ok(());
            }
            front::BIND => {
                let bind = Bind::read(&frame)?;
                self.portal_goes();
                self.statement_used(bind.statement, false, statements);
            }
            front::DESCRIBE => {
                let describe = Describe::read(&frame)?;
                match describe.target {
                    Target::Statement if describes_own(self, describe.name, statements) => return Ok(()),
                    Target::Statement => self.statement_used(describe.name, true, statements),
                    Target::Portal => {
                        self.portal_goes();
                        self.answer_comes();
                    }
                }
            }
            front::EXECUTE => {
                self.portal_goes();
                self.answer_comes();
            }
            front::CLOSE => {
                let close = Close::read(&frame)?;
                self.expects.push_back(match close.target {
                    Target::Statement => {
                        statements.closes(close.name);
                        Expect::Close(close.name.into())
                    }
                    Target::Portal => Expect::ClosePortal,
                });
                self.open = true;
            }
            front::SYNC if self.copying.wanted => {}
            front::SYNC => {
                self.expects.push_back(Expect::Synced);
                (self.open, self.passes_over) = (false, false);
            }
            front::QUERY => {
                self.asked(deallocated(wire::query_text(&frame)?), statements);
                self.open = false;
            }
            front::FUNCTION_CALL => {
                self.portal_goes();
                self.expects.push_back(Expect::Asked(None, None));
                self.open = false;
            }
            front::COPY_DONE | front::COPY_FAIL => self.copying.wanted = false,
            front::PASSWORD => return Err(Malformed::UnknownTag(front::PASSWORD)),
            _ => {}
        }
        self.peer.out().extend_from_slice(frame.bytes());
        Ok(())
    }

    fn asked(&mut self, deallocates: Option<Box<[u8]>>, statements: &mut Statements) {
        let undo = statements.unnamed_replaced();
        self.expects.push_back(Expect::Asked(deallocates, undo));
    }

    fn parse_comes(&mut self, name: &[u8], statement: Option<Rc<Statement>>, statements: &mut Statements) {
        let undo = if name.is_empty() { statements.unnamed_replaced() } else { None };
        if !name.is_empty() {
            statements.counted.client_parses += 1;
            statements.counted.server_parses += 1;
        }
        self.expects.push_back(Expect::Parse(name.into(), statement, undo));
        self.open = true;
    }

    /// Records that a read of the client's block ran elsewhere, which has closed the unnamed portal.
    pub fn read_ran_elsewhere(&mut self) {
        self.portal_gone = true;
    }

    /// Closes the unnamed portal at the primary before a statement that could notice its absence: a use of
    /// the portal, or a change of the tables that it reads. (A simple query replaces it anyway.)
    fn portal_goes(&mut self) {
        if std::mem::take(&mut self.portal_gone) {
            Asks::close(self.peer.out(), Target::Portal, b"");
            self.expects.push_back(Expect::PortalGone);
        }
    }

    /// Records a message of the extended protocol whose answer is only forwarded.
    fn answer_comes(&mut self) {
        self.expects.push_back(Expect::Answer);
        self.open = true;
    }

    /// Forwards a part of a message that is too large to be held.
    fn forward_part(&mut self, part: Part<'_>, statements: &mut Statements) {
        if part.first && !self.passes_over {
            let mut texts = part.bytes[HEADER_BYTES..].split(|byte| *byte == 0);
            match part.tag {
                front::PARSE => {
                    let name = texts.next().unwrap_or_default();
                    self.make_room(name, statements);
                    self.parse_comes(name, None, statements);
                }
                front::BIND => {
                    self.portal_goes();
                    self.statement_used(texts.nth(1).unwrap_or_default(), false, statements);
                }
                front::QUERY => self.asked(None, statements),
                front::FUNCTION_CALL => {
                    self.portal_goes();
                    self.expects.push_back(Expect::Asked(None, None));
                }
                _ => {}
            }
        }
        if part.last && !self.passes_over && matches!(part.tag, front::QUERY | front::FUNCTION_CALL) {
            self.open = false;
        }
        self.copying.is_inside = !part.last;
        self.peer.out().extend_from_slice(part.bytes);
    }

    /// Takes the available input of a request in progress. `false`: there was none.
    fn take_more(&mut self, side: &mut Side<'_>) -> Result<bool, Ended> {
        let mut took = false;
        while (self.open || self.copying.takes_more()) && self.peer.unsent() < GATHERED_BYTES {
            let (unread, splitter) = side.client.cut();
            let step = splitter.next(unread).map_err(Ended::Malformed)?;
            let length = step.len();
            match step {
                Step::More(_) => break,
                Step::Whole(frame) if frame.tag() == front::TERMINATE => return Err(Ended::ClientLeft),
                Step::Whole(frame) => self.forward(frame, side.statements).map_err(Ended::Malformed)?,
                Step::Part(part) => self.forward_part(part, side.statements),
            }
            side.client.consume(length);
            took = true;
        }
        Ok(took)
    }

    /// True if all output is sent and the client waits for the statement. False for an internal query, after
    /// which the connection may be another session's, and for a statement that must run to its end.
    fn is_waited_for(&self) -> bool {
        self.peer.unsent() == 0
            && !self.seat.running.is_spared()
            && matches!(self.expects.front(), Some(Expect::Answer | Expect::Synced | Expect::Asked(..)))
    }

    /// Moves frames both ways until all answers have come and the client has received them.
    pub fn poll_exchange(&mut self, side: &mut Side<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            if let Poll::Ready(Err(_)) = self.peer.poll_send(cx) {
                // Its last message may still be unread.
            }
            let more_may_be_there = self.poll_answers(side, cx)?;
            let client_has_it = match side.client.poll_send(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Ended::ClientGone)),
                Poll::Pending => false,
            };
            if self.is_settled() && client_has_it {
                return Poll::Ready(Ok(()));
            }
            if let Some(why) = self.seat.must_leave(false, cx).filter(|why| why.interrupts()) {
                return Poll::Ready(Err(Ended::SentAway(why)));
            }
            if self.is_settled() {
                return Poll::Pending;
            }
            let mut again = more_may_be_there && client_has_it;
            if self.open || self.copying.takes_more() {
                if self.peer.unsent() == 0 {
                    again |= self.take_more(side)? || poll_client(side.client, cx)?;
                }
            } else if self.is_waited_for() && side.client.poll_closed(cx).is_ready() {
                // The statement goes on at its backend, as it would without Consort.
                return Poll::Ready(Err(Ended::ClientGone));
            }
            if !again {
                return Poll::Pending;
            }
        }
    }

    /// Moves frames as [`Primary::poll_exchange`], until `count` internal queries are answered with a row, or
    /// all answers have come.
    pub fn poll_answers_of_ours(
        &mut self,
        count: usize,
        side: &mut Side<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Ended>> {
        match self.poll_exchange(side, cx) {
            Poll::Pending if self.seen.answers.len() >= count => Poll::Ready(Ok(())),
            polled => polled,
        }
    }

    /// Reads and forwards answers until none is left, or enough is gathered: then `true`.
    fn poll_answers(&mut self, side: &mut Side<'_>, cx: &mut Context<'_>) -> Result<bool, Ended> {
        loop {
            self.relay(side).map_err(|_| Ended::PrimaryLost(self.told))?;
            if self.is_settled() {
                return Ok(false);
            }
            if let Poll::Ready(Err(_)) = self.peer.poll_send(cx) {
                // Its last message may still be unread: this was an internal message after an answer.
            }
            if side.client.unsent() >= GATHERED_BYTES {
                return Ok(true);
            }
            match self.peer.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Err(self.lost(side, &error)),
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Forwards messages of the primary between requests: notices, settings, notifications, its last error.
    pub fn poll_idle(&mut self, side: &mut Side<'_>, cx: &mut Context<'_>) -> Result<(), Ended> {
        loop {
            self.relay(side).map_err(|_| Ended::PrimaryLost(self.told))?;
            match self.peer.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Err(self.lost(side, &error)),
                Poll::Pending => return Ok(()),
            }
            if side.client.unsent() >= GATHERED_BYTES && side.client.poll_send(cx).is_pending() {
                return Ok(());
            }
        }
    }

    fn lost(&mut self, side: &mut Side<'_>, error: &io::Error) -> Ended {
        if self.told == Told::NotYet {
            tracing::debug!(pid = self.key.pid, %error, "connection to the primary lost");
        }
        side.client.send_now();
        Ended::PrimaryLost(self.told)
    }

    /// Forwards the answers that have come, whole runs at once.
    fn relay(&mut self, side: &mut Side<'_>) -> Result<(), Malformed> {
        let (unread, splitter) = self.peer.cut();
        let (mut run, mut at) = (0, 0);
        let (mut unclosed, mut instead) = (false, None);
        let mut standing = Standing {
            expects: &mut self.expects,
            status: &mut self.status,
            open: &mut self.open,
            copying: &mut self.copying.wanted,
            passes_over: &mut self.passes_over,
            portal_gone: &mut self.portal_gone,
            told: &mut self.told,
            seen: &mut self.seen,
            notified: &mut self.notified,
            pid: self.key.pid,
            unclosed: &mut unclosed,
            instead: &mut instead,
            keeps_tags: self.keeps_tags,
            holds_reports: self.holds_reports,
        };
        loop {
            let asked_ourselves = standing.asked_ourselves();
            let step = splitter.next(&unread[at..])?;
            let length = step.len();
            let forwarded = match step {
                Step::More(_) => break,
                Step::Part(part) => standing.answered_in_part(part, side.statements)?,
                Step::Whole(frame) => match frame.tag() {
                    back::DATA_ROW | back::COPY_DATA if !asked_ourselves => true,
                    _ => standing.answered(&frame, side)?,
                },
            };
            if !forwarded {
                side.client.out().extend_from_slice(&unread[run..at]);
                run = at + length;
                if let Some(instead) = standing.instead.take() {
                    side.client.out().extend_from_slice(&instead);
                }
            }
            at += length;
        }
        if run < at {
            side.client.out().extend_from_slice(&unread[run..at]);
        }
        self.peer.consume(at);
        if unclosed {
            self.close_question();
        }
        Ok(())
    }

    /// Closes the statement of an internal query. After an error the Close was skipped, and the client must
    /// not see the statement.
    fn close_question(&mut self) {
        let out = self.peer.out();
        Asks::close(out, Target::Statement, QUESTION);
        out.sync();
        self.expects.push_back(Expect::Question);
    }
}

/// Has the primary parse an internal query. An earlier one that has failed may have left its statement there,
/// and its answer may still be outstanding.
fn parse_question(out: &mut Vec<u8>, text: &[u8], types: &[u8]) {
    Asks::close(out, Target::Statement, QUESTION);
    out.parse(QUESTION, text, types);
}

/// Reads more of the client's input; `true` if any came.
fn poll_client(client: &mut Peer, cx: &mut Context<'_>) -> Result<bool, Ended> {
    match client.poll_fill(cx) {
        Poll::Ready(Ok(())) => Ok(true),
        Poll::Ready(Err(_)) => Err(Ended::ClientGone),
        Poll::Pending => Ok(false),
    }
}
