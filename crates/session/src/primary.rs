//! The session's own connection at the primary: what was asked there, which answers are still to come, and the pump that
//! moves frames both ways until all have come.
//!
//! Answers are forwarded as they are; only those that belong to messages of our own are swallowed, each exactly once.

mod answers;
mod notifications;
mod statement_transfer;

pub use super::session_end::{Ended, Told};

use super::idle_connection::Awake;
use answers::Standing;
use backend::prepared_statements::{Statement, Statements, Undo, deallocated};
use backend::request::Kind;
use backend::statement_description::Described;
use conn::log_in::SERVER_HOLD_BYTES;
use conn::peer::{GATHERED_BYTES, Peer, Rooms};
use conn::registry::Seat;
use conn::socket::{Place, Socket};
use notifications::Notified;
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

/// The name of the statement that asks a question of our own.
const QUESTION: &[u8] = b"consort_question";
/// The rest of a Bind without parameters whose results are text.
const NO_VALUES: [u8; 6] = [0; 6];

/// An answer that is still to come, and what it means.
#[derive(Debug)]
enum Expect {
    /// ParseComplete of a statement of the client, and what sending it did to the unnamed one.
    Parse(Box<[u8]>, Option<Rc<Statement>>, Option<Undo>),
    /// CloseComplete of a statement of the client.
    Close(Box<[u8]>),
    /// CloseComplete of a portal.
    ClosePortal,
    /// The end of what answers a Bind, Describe or Execute.
    Answer,
    /// ParseComplete or CloseComplete of a message of ours, by which the primary learns the unnamed statement: swallowed.
    Ours,
    /// The same for a named statement that a shared connection lacks, or has another of.
    Learns(Box<[u8]>),
    /// What answers a Describe of ours behind the Parse of a named statement: swallowed. `told`: what the client was told of
    /// it before, if it was.
    Described { name: Box<[u8]>, told: Option<Rc<Described>> },
    /// All answers to a named statement that the connection learns by itself, up to its ReadyForQuery: swallowed.
    Learnt { name: Box<[u8]>, told: Option<Rc<Described>> },
    /// The end of what answers a Bind or Describe of a statement that is refused: the server does not have it, and the client
    /// gets this instead.
    Refused(Box<[u8]>),
    /// CloseComplete of the unnamed portal, which the client takes for gone: swallowed.
    PortalGone,
    /// All answers to a question of our own, up to its ReadyForQuery: swallowed.
    Question,
    /// The same to a statement of the client that is parsed and bound and no more: what it would have got is kept.
    Bound,
    /// The same to a command of our own that the client's statement needs: what the server remarks is for the client.
    Command,
    /// The whole answer to a request that is asked for ourselves, up to its ReadyForQuery: kept for us. `true`: a Parse or
    /// Close of ours comes first.
    Aside(bool),
    /// ReadyForQuery for a Sync.
    Synced,
    /// ReadyForQuery that the client does not get from here: for a Sync of ours behind a part of its batch, or for a
    /// Query while its block is elsewhere.
    Hushed(Option<Box<[u8]>>),
    /// ReadyForQuery for a Query or a FunctionCall, the name that it deallocates, and what sending it did to the unnamed
    /// statement.
    Asked(Option<Box<[u8]>>, Option<Undo>),
    /// ReadyForQuery for a Query or a Sync, which the client does not get from here; CommandComplete is kept.
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

    /// What is taken back because the primary has passed over the message.
    fn undo(self) -> Option<Undo> {
        match self {
            Expect::Parse(.., undo) | Expect::Asked(_, undo) => undo,
            Expect::Ours => Some(Undo::Paid),
            Expect::Close(name) => Some(Undo::Unclosed(name)),
            Expect::Learns(name) | Expect::Described { name, told: Some(_) } => Some(Undo::Unlearned(name)),
            _ => None,
        }
    }

    /// Its answers are for ourselves.
    fn is_question(&self) -> bool {
        matches!(self, Expect::Question | Expect::Bound | Expect::Command | Expect::Learnt { .. })
    }
}

/// What the primary is to bind for its locks.
pub enum ToBind<'a> {
    /// A statement that it has under this name.
    Named(&'a [u8]),
    /// One that it may not have. `describes`: the client wants to hear of the statement before its values are bound.
    Text {
        /// As the client parsed it.
        statement: &'a Statement,
        /// See above.
        describes: bool,
    },
}

/// What a client's messages are forwarded with: its socket, and its prepared statements.
pub struct Side<'a> {
    /// The client.
    pub client: &'a mut Peer,
    /// Its prepared statements.
    pub statements: &'a mut Statements,
    /// Settings that the primary reports.
    pub reported: &'a mut Reported,
}

/// Settings as the primary reported them last, by name. Clients that share connections share these until one's own differ.
#[derive(Clone, Debug, Default)]
pub struct Reported(pub Rc<Vec<(Vec<u8>, Vec<u8>)>>);

impl Reported {
    /// The primary reports this. `false`: as before.
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
/// Invariants: `open` or something expected means that the session is not idle; a Sync that a COPY has taken is not
/// expected.
pub struct Primary {
    /// The connection.
    pub peer: Peer,
    /// Where it is.
    pub place: Place,
    /// Whose it is, who may be sent away.
    seat: Rc<Seat>,
    /// Cancels what it runs.
    pub key: CancelRequest,
    /// Where the session stands, as the primary said last.
    pub status: Status,
    expects: VecDeque<Expect>,
    /// More of the client's request is to follow.
    open: bool,
    /// The primary waits for COPY data.
    copying: bool,
    /// A message of the extended protocol failed, and the primary passes over all that comes before a Sync.
    passes_over: bool,
    /// What ran elsewhere has taken the unnamed portal away, and the primary has not heard of it.
    portal_gone: bool,
    told: Told,
    seen: Seen,
    pub(crate) notified: Notified,
    /// Keeps it from taking the session for idle.
    pub(super) awake: Awake,
    /// What is completed is kept, for comparison.
    pub(super) keeps_tags: bool,
    /// It is on its way to the session's settings: what it reports of them is kept, and nobody is told.
    pub(super) holds_reports: bool,
}

/// What was seen of the answers since a request began.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// So many statements were completed.
    pub completed: usize,
    /// Then came an error.
    pub failed: bool,
    /// Its code.
    pub sqlstate: Option<[u8; 5]>,
    /// Settings were reported.
    pub reported: Vec<(Vec<u8>, Vec<u8>)>,
    /// The row that answers a question of our own.
    row: Option<Vec<Option<String>>>,
    /// The first values of the rows that answered all of them.
    pub answers: Vec<Option<String>>,
    /// The answer to a request that was asked for ourselves.
    aside: Vec<u8>,
    /// What has come of the answer to a Describe of ours.
    described: Vec<u8>,
    /// The error that answers it.
    pub error: Option<Vec<u8>>,
    /// CommandComplete of a request whose completion the client gets later.
    pub withheld: Vec<u8>,
    /// How many rows the client's last statement was completed with.
    pub rows: Option<u64>,
    /// The tags of what was completed, where they are kept.
    pub tags: Vec<Box<[u8]>>,
    /// The first error's SQLSTATE and message, where tags are kept and it is not too large to be held.
    pub complaint: Option<(String, String)>,
}

impl Primary {
    /// A connection that is logged in and ready.
    pub fn new(peer: Peer, place: Place, key: CancelRequest, seat: Rc<Seat>) -> Primary {
        Primary {
            seat,
            peer,
            place,
            key,
            status: Status::Idle,
            expects: VecDeque::new(),
            open: false,
            copying: false,
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

    /// No connection.
    pub fn nowhere(rooms: &Rooms, seat: Rc<Seat>) -> Primary {
        let peer = Peer::new(Socket::Nowhere, Server, SERVER_HOLD_BYTES, rooms);
        Primary::new(peer, Place::Tcp(String::new(), 0), CancelRequest { pid: 0, secret: Vec::new() }, seat)
    }

    /// A request of this kind begins.
    pub fn begin(&mut self, kind: Kind) {
        self.awake.spoken();
        self.seen.completed = 0;
        self.seen.failed = false;
        self.seen.rows = None;
        self.seen.tags.clear();
        self.seen.complaint = None;
        // What follows in the client's stream belongs to it, whatever it is.
        self.open |= kind == Kind::Open;
    }

    /// What was seen of the answers since the last request began.
    pub fn seen(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    /// Asks a question of our own: its answers reach nobody else. It leaves the client's unnamed statement alone.
    pub fn ask(&mut self, question: &str) {
        self.ask_and_expect(question, Expect::Question);
    }

    /// The same; but what the server remarks while it does it is for the client.
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

    /// Says something that means nothing, so that the backend does not take the session for idle.
    pub(super) fn wake(&mut self) {
        self.awake.spoken();
        self.peer.out().sync();
        self.expects.push_back(Expect::Question);
    }

    /// Lets the primary parse a statement of the client, and nothing more: whether it has an error that PostgreSQL finds
    /// before it runs. A question of our own.
    pub fn ask_parse(&mut self, statement: &Statement) {
        let out = self.peer.out();
        parse_question(out, &statement.text, &statement.types);
        Asks::close(out, Target::Statement, QUESTION);
        out.sync();
        self.seen.error = None;
        self.expects.push_back(Expect::Question);
    }

    /// Lets the primary bind a statement of the client, and parse it before unless it has it: it takes the locks that running
    /// it would take, and runs nothing. `values` is what stands behind the names in the client's Bind. A question of our own.
    /// Its portal takes the place of the client's unnamed one, as it would if it ran.
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

    /// Asks whether there is a prepared statement of this name: an error says that there is none.
    pub fn ask_described(&mut self, name: &[u8]) {
        let out = self.peer.out();
        out.describe(Target::Statement, name);
        out.sync();
        self.seen.error = None;
        self.expects.push_back(Expect::Question);
    }

    /// The first values of the rows that answered questions of our own.
    pub fn answers(&mut self) -> Vec<Option<String>> {
        std::mem::take(&mut self.seen.answers)
    }

    /// How many rows the client's statement was completed with.
    pub fn rows(&self) -> Option<u64> {
        self.seen.rows.filter(|_| !self.seen.failed)
    }

    /// It has ended the connection, in words that are the client's.
    pub fn has_told_farewell(&self) -> bool {
        self.told == Told::ByPrimary
    }

    /// The error that answers the last question of our own.
    pub fn own_error(&mut self) -> Option<Vec<u8>> {
        self.seen.error.take()
    }

    /// The answer to the last question of our own; `None` if that was an error.
    pub fn own_answer(&mut self) -> Option<Vec<Option<String>>> {
        self.seen.row.take()
    }

    /// Asks for the client what it sent, without the client noticing: the answer is kept. The request is whole, and reads.
    /// `binds_unnamed`: it begins with the unnamed statement as it is.
    pub fn ask_aside(&mut self, request: &[u8], binds_unnamed: bool, statements: &mut Statements) {
        let ours = binds_unnamed && self.owe(statements);
        self.peer.out().extend_from_slice(request);
        self.seen.aside.clear();
        self.expects.push_back(Expect::Aside(ours));
    }

    /// The answer to what was asked aside, or to what was parsed and bound, up to its error.
    pub fn aside(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.seen.aside)
    }

    /// All that was asked is answered, and nothing of a request is missing.
    pub fn is_settled(&self) -> bool {
        self.expects.is_empty() && !self.open && !self.copying
    }

    /// The part of a request that was taken has no end of its own: what it asks for is answered without the
    /// ReadyForQuery, which the client gets from somebody else.
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

    /// The client hears of the completion and the end of the request that was taken from somebody else.
    pub fn withhold(&mut self) {
        match self.expects.pop_back() {
            Some(Expect::Asked(..) | Expect::Synced) => self.expects.push_back(Expect::Withheld),
            other => self.expects.extend(other),
        }
    }

    /// The same for the end alone.
    pub fn withhold_end(&mut self) {
        match self.expects.pop_back() {
            Some(Expect::Synced) => self.expects.push_back(Expect::Hushed(None)),
            Some(Expect::Asked(name, _)) => self.expects.push_back(Expect::Hushed(name)),
            other => self.expects.extend(other),
        }
    }

    /// Until all that was asked is answered, for a client who is gone: nobody gets the answers.
    pub fn poll_alone(&mut self, side: &mut Side<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            if let Poll::Ready(Err(_)) = self.peer.poll_send(cx) {
                // Its last words may still be there to be read.
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

    /// Takes the first `bytes` of what the client sent, whole frames, and sends them on.
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

    /// Notes what a message of the client asks for, and sends it on.
    fn forward(&mut self, frame: Frame<'_>, statements: &mut Statements) -> Result<(), Malformed> {
        match frame.tag() {
            tag if self.passes_over && tag != front::SYNC => {}
            front::PARSE => {
                let parse = Parse::read(&frame)?;
                let (text, types) = parse.signature();
                let statement = Rc::new(Statement::new(text, types));
                let describes = statements.keeps_columns(parse.name, &statement);
                self.make_room(parse.name, statements);
                self.parse_comes(parse.name, Some(statement), statements);
                self.peer.out().extend_from_slice(frame.bytes());
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
            front::SYNC if self.copying => {}
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
            front::COPY_DONE | front::COPY_FAIL => self.copying = false,
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

    /// A read of the client's block ran elsewhere: it has taken the unnamed portal away.
    pub fn read_ran_elsewhere(&mut self) {
        self.portal_gone = true;
    }

    /// Before anything runs to which it matters that the unnamed portal is gone, it goes at the primary too: not only whoever
    /// uses it would find it, also whoever alters what it reads. (A simple query replaces it by itself.)
    fn portal_goes(&mut self) {
        if std::mem::take(&mut self.portal_gone) {
            Asks::close(self.peer.out(), Target::Portal, b"");
            self.expects.push_back(Expect::PortalGone);
        }
    }

    /// A message of the extended protocol is sent whose answer is only forwarded.
    fn answer_comes(&mut self) {
        self.expects.push_back(Expect::Answer);
        self.open = true;
    }

    /// A piece of a message that is too large to be held.
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
        self.peer.out().extend_from_slice(part.bytes);
    }

    /// Takes what there is of a request that goes on. `false`: nothing was there.
    fn take_more(&mut self, side: &mut Side<'_>) -> Result<bool, Ended> {
        let mut took = false;
        while (self.open || self.copying) && self.peer.unsent() < GATHERED_BYTES {
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

    /// All has left, and the client waits for what comes next: it is no question of ours, behind which the connection is somebody
    /// else's, and nothing that must come to its end.
    fn is_waited_for(&self) -> bool {
        self.peer.unsent() == 0
            && !self.seat.running.is_spared()
            && matches!(self.expects.front(), Some(Expect::Answer | Expect::Synced | Expect::Asked(..)))
    }

    /// Moves frames both ways until all that was asked is answered and the client has it.
    pub fn poll_exchange(&mut self, side: &mut Side<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            if let Poll::Ready(Err(_)) = self.peer.poll_send(cx) {
                // Its last words may still be there to be read.
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
            if self.open || self.copying {
                if self.peer.unsent() == 0 {
                    again |= self.take_more(side)? || poll_client(side.client, cx)?;
                }
            } else if self.is_waited_for() && side.client.poll_closed(cx).is_ready() {
                // The statement goes on at its backend, as it would without us; nobody waits for that.
                return Poll::Ready(Err(Ended::ClientGone));
            }
            if !again {
                return Poll::Pending;
            }
        }
    }

    /// The same until so many questions of our own are answered with a row, or all is.
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

    /// Reads and forwards answers until there are no more, or enough is gathered for the client: then `true`.
    fn poll_answers(&mut self, side: &mut Side<'_>, cx: &mut Context<'_>) -> Result<bool, Ended> {
        loop {
            self.relay(side).map_err(|_| Ended::PrimaryLost(self.told))?;
            if self.is_settled() {
                return Ok(false);
            }
            if let Poll::Ready(Err(_)) = self.peer.poll_send(cx) {
                // The same: this was a message of our own behind an answer.
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

    /// What the primary says while nothing was asked: notices, settings, notifications, its farewell.
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
            tracing::debug!(pid = self.key.pid, %error, "a connection at the primary is lost");
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
            copying: &mut self.copying,
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

    /// Behind an error the Close of a question was passed over, and its statement may be there still: the client is not to
    /// see it.
    fn close_question(&mut self) {
        let out = self.peer.out();
        Asks::close(out, Target::Statement, QUESTION);
        out.sync();
        self.expects.push_back(Expect::Question);
    }
}

/// Has the primary parse a question of ours. One before it that has failed may have left its statement there, and its answer may
/// not have come yet.
fn parse_question(out: &mut Vec<u8>, text: &[u8], types: &[u8]) {
    Asks::close(out, Target::Statement, QUESTION);
    out.parse(QUESTION, text, types);
}

/// Reads more of what the client sends; `true` if something came.
fn poll_client(client: &mut Peer, cx: &mut Context<'_>) -> Result<bool, Ended> {
    match client.poll_fill(cx) {
        Poll::Ready(Ok(())) => Ok(true),
        Poll::Ready(Err(_)) => Err(Ended::ClientGone),
        Poll::Pending => Ok(false),
    }
}
