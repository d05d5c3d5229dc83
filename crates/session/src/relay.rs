//! The line between a client and its primary: whole requests in, answers out, and the last messages to both
//! sides. The meaning of statements is unknown to it.

use super::client_wait::ClientWait;
use super::primary::{Ended, Primary, Reported, Side, Told};
use super::statement_columns::difference;
use backend::batch;
use backend::listening::Ear;
use backend::prepared_statements::Statements;
use backend::request::{Kind, Lookout, Request};
use backend::servers::{Lent, Open, Server};
use conn::log_in::LoggedIn;
use conn::peer::{GATHERED_BYTES, Peer};
use conn::registry::{Leave, Registry, Seat};
use conn::socket::Place;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use wire::{Answers, Asks, Problem, Status};

/// Query for the snapshot that the next statement sees at least.
pub(super) const SEEN: &str = "SELECT pg_catalog.pg_current_snapshot()";
/// Query for the transaction's number, which is NULL until its first write. The second column is the time
/// when the backend last read the configuration, as its 64 bits.
const WHICH: &str = "SELECT pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text OPERATOR(pg_catalog.||) ' ' \
     OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.pg_conf_load_time()), 'hex')";

/// The line between a client and its primary.
pub struct Line {
    pub(crate) registry: Rc<Registry>,
    pub(crate) seat: Rc<Seat>,
    pub(crate) client: Peer,
    pub(crate) primary: Primary,
    pub(crate) statements: Statements,
    pub(super) reported: Reported,
    pub(super) lookout: Lookout,
    /// If the primary ends the connection without a message between requests, the session stays until it
    /// needs the primary.
    pub(crate) outlives_primary: bool,
    /// True if the primary has ended the connection in that way.
    pub(super) primary_gone: bool,
    /// Transaction status of the client's block, if it runs elsewhere than at the primary.
    pub(crate) elsewhere: Option<Status>,
    /// True if a part of the client's batch has run there, and the Sync is still to come.
    pub(super) is_begun: bool,
    /// Lease of the connection at the primary, if it is pooled.
    pub(crate) lent: Option<Lent>,
    /// True while the session is detached from the primary.
    pub(crate) away: bool,
    /// Entry of a session's own connection in the count of open ones.
    pub(super) own: Option<Open>,
    /// Notifications that the session receives over the listening connection.
    pub(crate) ear: Option<Rc<Ear>>,
    /// True if notifications have gone to the client since the last check.
    pub(crate) has_heard: bool,
}

impl Line {
    /// Creates the line of a client that was admitted.
    pub fn new(
        registry: Rc<Registry>,
        seat: Rc<Seat>,
        client: Peer,
        place: Place,
        (log_in, own): (LoggedIn, Open),
    ) -> Line {
        let reported = Reported(Rc::new(log_in.parameters));
        let primary = Primary::new(log_in.peer, place, log_in.key, seat.clone());
        Line { own: Some(own), ..Line::with(registry, seat, client, primary, reported) }
    }

    /// Creates the line of a pooled client, detached from the primary.
    pub fn shared(
        registry: Rc<Registry>,
        seat: Rc<Seat>,
        client: Peer,
        reported: Rc<Vec<(Vec<u8>, Vec<u8>)>>,
    ) -> Line {
        let primary = Primary::nowhere(&registry.rooms, seat.clone());
        Line { away: true, ..Line::with(registry, seat, client, primary, Reported(reported)) }
    }

    fn with(
        registry: Rc<Registry>,
        seat: Rc<Seat>,
        client: Peer,
        primary: Primary,
        reported: Reported,
    ) -> Line {
        Line {
            registry,
            seat,
            client,
            primary,
            statements: Statements::default(),
            reported,
            lookout: Lookout::default(),
            outlives_primary: false,
            primary_gone: false,
            elsewhere: None,
            is_begun: false,
            lent: None,
            away: false,
            own: None,
            ear: None,
            has_heard: false,
        }
    }

    /// Attaches the session to this connection. `true`: another session has used it since.
    pub fn attach(&mut self, server: Server) -> bool {
        let Server { peer, place, key, statements, lent } = server;
        let strange = lent.last != self.seat.id;
        self.statements.attach(statements, strange);
        self.seat.pid.set(key.pid);
        self.seat.opened.set(Some(lent.since()));
        self.seat.running.settled(&place, &key);
        self.primary = Primary::new(peer, place, key, self.seat.clone());
        self.primary.notified.told = self.told();
        (self.away, self.primary_gone, self.lent) = (false, false, Some(lent));
        strange
    }

    /// Process number that the client knows as its backend's.
    fn told(&self) -> Option<i32> {
        self.seat.key.borrow().as_ref().map(|key| key.pid)
    }

    /// Sends notifications of the listening connection to the client, unless it is in a transaction. `true`:
    /// there may be more.
    pub(crate) fn hear(&mut self) -> bool {
        let (Some(ear), Status::Idle) = (self.ear.clone(), self.status()) else { return false };
        let told = self.told().unwrap_or_default();
        while self.client.unsent() < GATHERED_BYTES
            && let Some((notification, is_own)) = ear.next()
        {
            notification.write(self.client.out(), is_own, told);
            self.has_heard = true;
        }
        ear.has_heard()
    }

    /// Detaches the session; `None` if the connection is unusable.
    pub(crate) fn detach(&mut self) -> Option<Server> {
        let mut lent = self.lent.take()?;
        let primary =
            std::mem::replace(&mut self.primary, Primary::nowhere(&self.registry.rooms, self.seat.clone()));
        let struck = self.seat.running.unsettled();
        self.seat.pid.set(0);
        self.seat.opened.set(None);
        self.away = true;
        let Primary { peer, place, key, .. } = primary;
        lent.last = self.seat.id;
        let mut server = Server { peer, place, key, statements: self.statements.detach(), lent };
        if struck || server.is_gone() {
            server.close();
            return None;
        }
        Some(server)
    }

    /// Reports a setting to the client, as the primary would. `false`: the client knows it.
    pub(crate) fn tells(&mut self, name: &[u8], value: &[u8]) -> bool {
        let is_news = self.reported.note(name, value);
        if is_news {
            self.client.out().parameter_status(name, value);
        }
        is_news
    }

    /// Settings as the primary reported them last.
    pub(crate) fn reported(&self) -> &Reported {
        &self.reported
    }

    /// Transaction status of the client's session.
    pub(crate) fn status(&self) -> Status {
        self.elsewhere.unwrap_or(self.primary.status)
    }

    /// Bytes of a request.
    pub(crate) fn bytes(&self, request: Request) -> &[u8] {
        &self.client.unread()[..request.bytes]
    }

    /// Waits for the client's next request. Unsolicited messages of the primary go to the client meanwhile.
    /// `idle_limit`: the session ends when it is idle for so long. A detached session ends itself, and the
    /// backend of a busy one is kept awake.
    pub(crate) async fn next_request(
        &mut self,
        idle_limit: Option<Duration>,
        is_idle: bool,
    ) -> Result<Request, Ended> {
        self.is_begun = !is_idle && self.elsewhere.is_none();
        if self.is_begun {
            self.primary.ends_when_idle_for(idle_limit);
        }
        self.seat.idle(self.status());
        self.seat.prepared.set(self.statements.named());
        let ends_itself = self.away && is_idle && self.status() == Status::Idle;
        let idle_end = idle_limit.filter(|_| ends_itself).map(|limit| self.seat.doing_since() + limit);
        let mut wait = ClientWait::new(idle_end);
        let request = poll_fn(|cx| match self.poll_request(cx) {
            Poll::Pending => wait.poll(&mut self.lookout, cx),
            polled => polled,
        });
        let request = request.await?;
        self.seat.running.forget();
        let is_held = self.status() == Status::Idle || self.registry.pauses.suspended();
        if is_held && request.kind.is_asked() && self.registry.pauses.holds(&self.seat.database) {
            let client = &mut self.client;
            let passed = tokio::select! {
                biased;
                passed = self.registry.pauses.pass(&self.seat, request.kind.goes_on()) => passed,
                // No client waits for the answer: the request is not executed.
                () = poll_fn(|cx| client.poll_closed(cx)) => return Err(Ended::ClientGone),
            };
            passed.map_err(Ended::SentAway)?;
        }
        // The signal to end may have come while the request was waiting, or held.
        if let Some(why) = self.seat.rung(self.status() == Status::Idle).filter(|_| request.kind.is_asked()) {
            return Err(Ended::SentAway(why));
        }
        self.seat.active();
        Ok(request)
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<Request, Ended>> {
        // Comes before the input: a client that always sends requests at once goes too.
        if self.registry.moves.asks(&self.seat) && matches!(self.client.poll_send(cx), Poll::Ready(Ok(()))) {
            return Poll::Ready(Err(Ended::Moves));
        }
        loop {
            let splitter = self.client.splitter;
            match self.lookout.look(self.client.unread(), splitter) {
                Ok(Some(request)) => return Poll::Ready(Ok(request)),
                Ok(None) => {}
                Err(why) => return Poll::Ready(Err(Ended::Malformed(why))),
            }
            if !self.primary_gone && !self.away {
                self.primary.poll_awake(self.elsewhere.is_some() || self.is_begun, cx);
                match self.poll_primary(cx) {
                    Err(Ended::PrimaryLost(Told::NotYet)) if self.outlives_primary => {
                        self.primary_gone = true
                    }
                    other => other?,
                }
            }
            loop {
                let is_more = self.hear();
                match self.client.poll_send(cx) {
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Ended::ClientGone)),
                    Poll::Ready(Ok(())) if is_more => {}
                    Poll::Ready(Ok(())) | Poll::Pending => break,
                }
            }
            match self.client.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Ended::ClientGone)),
                Poll::Pending => {
                    self.client.rest();
                    self.primary.peer.rest();
                    if let Some(why) = self.seat.must_leave(self.status() == Status::Idle, cx) {
                        return Poll::Ready(Err(Ended::SentAway(why)));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Sends messages of the primary between requests to the client.
    pub(super) fn poll_primary(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.poll_idle(&mut side, cx)
    }

    /// Drops COPY data that came after the end of its COPY.
    pub(crate) fn drop_leftover(&mut self, request: Request) -> Result<(), Ended> {
        let (unread, splitter) = self.client.cut();
        let length = splitter.next(&unread[..request.bytes]).map_err(Ended::Malformed)?.len();
        self.client.consume(length);
        Ok(())
    }

    /// Checks that the session has no signal to end: a session with one sends no further request.
    pub(super) fn goes_on(&self) -> Result<(), Ended> {
        let why = self.seat.rung(false).filter(|why| why.interrupts());
        why.map_or(Ok(()), |why| Err(Ended::SentAway(why)))
    }

    /// Sends a request to the primary and streams the answers to the client.
    pub(crate) async fn run(&mut self, request: Request) -> Result<(), Ended> {
        self.goes_on()?;
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Sends a part of a request, or a request of a session whose block is elsewhere, to the primary. Consort
    /// sends ReadyForQuery itself.
    pub(crate) async fn run_part(&mut self, part: Request) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.begin(part.kind);
        self.primary.take(&mut side, part.bytes).map_err(Ended::Malformed)?;
        self.primary.hush();
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Sends a request in Consort's own block, followed by a command of Consort's. The block goes on, and the
    /// client receives the end of its answer later.
    pub(crate) async fn run_in_our_block(&mut self, request: Request, behind: &str) -> Result<(), Ended> {
        self.goes_on()?;
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.own_error();
        self.primary.ask("BEGIN");
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        match request.kind {
            // A Query is completed after its commit, a batch before it.
            Kind::Query => self.primary.withhold(),
            _ => self.primary.withhold_end(),
        }
        self.primary.ask_aloud(behind);
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Sends a request to be reported: before it the query for its snapshot, after it the query for the
    /// transaction's number, and then COMMIT. Completes when both queries are answered, or all answers have
    /// come.
    pub(crate) async fn run_told(&mut self, request: Request) -> Result<(), Ended> {
        self.goes_on()?;
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.own_error();
        self.primary.answers();
        self.primary.ask("BEGIN");
        self.primary.ask(SEEN);
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        match request.kind {
            Kind::Query => self.primary.withhold(),
            _ => self.primary.withhold_end(),
        }
        self.primary.ask(WHICH);
        self.primary.ask_aloud("COMMIT");
        poll_fn(|cx| self.primary.poll_answers_of_ours(2, &mut side, cx)).await
    }

    /// Sends a COMMIT to the primary, with the query for the transaction's number before it. Completes when
    /// the query is answered, or all answers have come.
    pub(crate) async fn commit_told(&mut self, request: Request) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.own_error();
        self.primary.answers();
        self.primary.ask(WHICH);
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        poll_fn(|cx| self.primary.poll_answers_of_ours(1, &mut side, cx)).await
    }

    /// Sends a request to the primary in Consort's own block, which `begin` opens unless it is open, and
    /// which goes on. The client receives the end of its answer later; `alone`: also the completion of its
    /// last statement.
    pub(crate) async fn run_within(
        &mut self,
        begin: Option<&str>,
        request: Request,
        alone: bool,
    ) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        if let Some(begin) = begin {
            self.primary.ask(begin);
        }
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        if alone {
            self.primary.withhold()
        } else {
            self.primary.withhold_end()
        }
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Waits for all answers of the primary, although the client has disconnected.
    pub(crate) async fn settled_alone(&mut self) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        poll_fn(|cx| self.primary.poll_alone(&mut side, cx)).await
    }

    /// Sends a COMMIT to the primary. The client receives its completion later.
    pub(crate) async fn run_withheld(&mut self, request: Request) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        self.primary.withhold();
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Waits for all answers of the primary.
    pub(crate) async fn settled(&mut self) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Runs an internal query at the primary, unnoticed by the client. Returns the columns of its only row,
    /// as text; `None` if the answer is an error.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<Option<Vec<Option<String>>>, Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.ask(question);
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await?;
        Ok(self.primary.own_answer())
    }

    /// Runs an internal query that attaches the connection to the session, or begins its transaction: no
    /// cancel request reaches it.
    pub(crate) async fn ask_unreached(&mut self, ours: &str) -> Result<Option<Vec<Option<String>>>, Ended> {
        let _unreached = self.seat.running.clone().unreached().await;
        self.ask(ours).await
    }

    /// Has the connection learn a named statement that it lacks. An inner error is for the client that uses
    /// the statement: its columns have changed, or it cannot be parsed any more. The connection then has no
    /// statement of that name.
    pub(crate) async fn learn_described(&mut self, name: &[u8]) -> Result<Result<(), Box<[u8]>>, Ended> {
        let Some(lack) = self.statements.lacks(name) else { return Ok(Ok(())) };
        let Some(told) = lack.told() else { return Ok(Ok(())) };
        self.primary.ask_learnt(name, &lack, &mut self.statements);
        self.settled().await?;
        let (error, answer) = (self.primary.own_error(), self.primary.aside());
        match error.map(Box::from).or_else(|| difference(&told, &answer)) {
            None => Ok(Ok(())),
            Some(error) => {
                self.primary.ask_closed(name);
                self.settled().await?;
                Ok(Err(error))
            }
        }
    }

    /// The primary's answer to a request that stays in the buffer, unnoticed by the client.
    pub(crate) async fn ask_aside(&mut self, request: Request) -> Result<Vec<u8>, Ended> {
        let bytes = self.bytes(request).to_vec();
        let batch = match request.kind {
            Kind::Batch => batch::read(&bytes, self.client.splitter).map_err(Ended::Malformed)?,
            _ => None,
        };
        let name = batch.filter(|batch| batch.parse.is_none()).map(|batch| batch.bind.statement);
        if let Some(name) = name
            && let Some(lack) = self.statements.lacks(name)
        {
            self.primary.ask_learnt(name, &lack, &mut self.statements);
            self.settled().await?;
            if self.primary.own_error().is_some() {
                self.statements.unlearned(name);
            }
        }
        let binds_unnamed = name.is_some_and(<[u8]>::is_empty);
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.ask_aside(&bytes, binds_unnamed, side.statements);
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await?;
        Ok(self.primary.aside())
    }

    /// Sends the output for the client.
    pub(crate) async fn send(&mut self) -> Result<(), Ended> {
        self.client.send().await.map_err(|_| Ended::ClientGone)
    }

    /// Sends the last messages to both sides.
    pub(crate) async fn end(mut self, ended: Ended) {
        if let Ended::Malformed(why) = ended {
            self.registry.note_unruly(&self.seat, &why.to_string());
        }
        if let Ended::SentAway(why @ Leave::SessionIdle) = ended {
            let Seat { id, user, database, .. } = &*self.seat;
            tracing::info!(id, user, database, why = why.key(), "client disconnected");
        }
        let word = match ended {
            Ended::ClientLeft
            | Ended::ClientGone
            | Ended::CutOff
            | Ended::Cancelled
            | Ended::NoServer
            | Ended::Moves
            | Ended::PrimaryLost(Told::ByPrimary) => None,
            Ended::Malformed(why) => Some(Problem::fatal("08P01", why.to_string())),
            Ended::SentAway(why) => Some(why.word()),
            Ended::BlockCutOff => Some(
                Problem::fatal("08006", "the standby failed while it sent the result")
                    .hint("Nothing was committed. Run the transaction again."),
            ),
            Ended::NoBlocks => Some(
                Problem::fatal("08P01", "transaction blocks not allowed in statement pooling mode")
                    .hint("pool_mode is \"statement\": send all statements of a transaction in one query."),
            ),
            Ended::MayNotLead => Some(conn::log_in::not_leading()),
            Ended::PrimaryLost(Told::NotYet) => Some(
                Problem::fatal("08006", "the connection to the primary was lost")
                    .hint("Statements that were sent but not answered may or may not have been committed."),
            ),
        };
        // Inside a row that is sent in parts no other message can be sent.
        if let Some(problem) = word.filter(|_| !self.primary.peer.splitter.is_inside()) {
            self.client.out().problem(&problem);
        }
        self.registry.leave(&self.seat);
        self.primary.peer.out().terminate();
        self.primary.peer.send_now();
        drop((self.primary, self.lent, self.own));
        self.registry.farewell(self.client).await;
    }
}
