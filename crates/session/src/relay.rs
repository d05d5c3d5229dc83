//! The line between a client and its primary: whole requests in, answers out, and a farewell on both sides. It does not
//! know what a statement means.

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

/// What a statement behind it sees at least.
pub(super) const SEEN: &str = "SELECT pg_catalog.pg_current_snapshot()";
/// The number of the transaction, NULL as long as it has written nothing; and when the process has last read the configuration, as
/// its 64 bits.
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
    /// If the primary ends the connection without a word while nothing is asked, the session stays until it needs it.
    pub(crate) outlives_primary: bool,
    /// It has done so.
    pub(super) primary_gone: bool,
    /// Where the client's block stands, if it runs somewhere else than at the primary.
    pub(crate) elsewhere: Option<Status>,
    /// A part of its client's batch has run there, and the Sync is still to come.
    pub(super) is_begun: bool,
    /// Whose the connection at the primary is, if the session shares it with others.
    pub(crate) lent: Option<Lent>,
    /// It has none just now.
    pub(crate) away: bool,
    /// What a connection of its own counts as.
    pub(super) own: Option<Open>,
    /// What it hears elsewhere than at its connection.
    pub(crate) ear: Option<Rc<Ear>>,
    /// Something of that has gone to its client since this was asked.
    pub(crate) has_heard: bool,
}

impl Line {
    /// The line of a client that was let in.
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

    /// The line of a client that shares connections at the primary with others, and has none just now.
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

    /// The session goes on at this connection. `true`: another session has used it since.
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

    /// The number that the client was told as that of its process.
    fn told(&self) -> Option<i32> {
        self.seat.key.borrow().as_ref().map(|key| key.pid)
    }

    /// What it has heard elsewhere goes to the client, if that is in no transaction. `true`: there may be more.
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

    /// The session leaves its connection; `None` if that is of no use to anybody.
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

    /// Tells the client of a setting, as the primary would. `false`: it knows.
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

    /// Where the client's session stands.
    pub(crate) fn status(&self) -> Status {
        self.elsewhere.unwrap_or(self.primary.status)
    }

    /// The bytes of a request.
    pub(crate) fn bytes(&self, request: Request) -> &[u8] {
        &self.client.unread()[..request.bytes]
    }

    /// Waits for the client's next request. Meanwhile the client hears what the primary says by itself. `idle_limit`: the session
    /// ends when it is idle for so long. Without a connection it ends itself, and while it is not idle its backend is kept awake.
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
                // Nobody waits for what it asked: it is not done.
                () = poll_fn(|cx| client.poll_closed(cx)) => return Err(Ended::ClientGone),
            };
            passed.map_err(Ended::SentAway)?;
        }
        // It may have been rung while the request was there already, or was held.
        if let Some(why) = self.seat.rung(self.status() == Status::Idle).filter(|_| request.kind.is_asked()) {
            return Err(Ended::SentAway(why));
        }
        self.seat.active();
        Ok(request)
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<Request, Ended>> {
        // Before anything is looked at: a client that always asks at once goes too.
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

    /// What the primary says while nothing is asked goes to the client.
    pub(super) fn poll_primary(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.poll_idle(&mut side, cx)
    }

    /// COPY data that came behind the end of its COPY.
    pub(crate) fn drop_leftover(&mut self, request: Request) -> Result<(), Ended> {
        let (unread, splitter) = self.client.cut();
        let length = splitter.next(&unread[..request.bytes]).map_err(Ended::Malformed)?.len();
        self.client.consume(length);
        Ok(())
    }

    /// Nothing is sent any more for a client that is sent away.
    fn goes_on(&self) -> Result<(), Ended> {
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

    /// The same for a part of a request, or for a request that the client's session is not at the primary for: it gets
    /// its ReadyForQuery from elsewhere.
    pub(crate) async fn run_part(&mut self, part: Request) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.begin(part.kind);
        self.primary.take(&mut side, part.bytes).map_err(Ended::Malformed)?;
        self.primary.hush();
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// The same in a block that is ours, with a command of ours behind it. The block goes on, and the client gets the end of
    /// its answer later.
    pub(crate) async fn run_in_our_block(&mut self, request: Request, behind: &str) -> Result<(), Ended> {
        self.goes_on()?;
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.own_error();
        self.primary.ask("BEGIN");
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        match request.kind {
            // A Query is completed behind its commit, a batch before it.
            Kind::Query => self.primary.withhold(),
            _ => self.primary.withhold_end(),
        }
        self.primary.ask_aloud(behind);
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// The same, asked in front what it sees, behind for the transaction's number, and with COMMIT behind that. Until both is
    /// answered, or all is.
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

    /// Sends a COMMIT to the primary, with the question for the transaction's number in front of it. Until that is answered, or
    /// all is.
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

    /// Sends a request to the primary in a block of our own, which `begin` opens unless it is open, and goes on. The client
    /// gets the end of its answer later; `alone`: also the completion of its last statement.
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

    /// Waits until the primary has answered all that it was asked, although the client is gone.
    pub(crate) async fn settled_alone(&mut self) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        poll_fn(|cx| self.primary.poll_alone(&mut side, cx)).await
    }

    /// Sends a COMMIT to the primary. The client hears of its completion later.
    pub(crate) async fn run_withheld(&mut self, request: Request) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.begin(request.kind);
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        self.primary.withhold();
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Waits until the primary has answered all that it was asked.
    pub(crate) async fn settled(&mut self) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Asks the primary a question of our own, which the client does not notice: the columns of its only row, as text;
    /// `None` if it answers with an error.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<Option<Vec<Option<String>>>, Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        self.primary.ask(question);
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await?;
        Ok(self.primary.own_answer())
    }

    /// The same of what makes the connection the session's, or begins its transaction: no cancel request reaches it.
    pub(crate) async fn ask_unreached(&mut self, ours: &str) -> Result<Option<Vec<Option<String>>>, Ended> {
        let _unreached = self.seat.running.clone().unreached().await;
        self.ask(ours).await
    }

    /// Has the connection learn a named statement that it lacks. An error: what the client gets who uses it, because it has
    /// other columns by now, or cannot be parsed any more; the connection has nothing of that name then.
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

    /// The primary's answer to a request that stays where it is, unnoticed by the client.
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

    /// What was written for the client leaves.
    pub(crate) async fn send(&mut self) -> Result<(), Ended> {
        self.client.send().await.map_err(|_| Ended::ClientGone)
    }

    /// Says farewell on both sides.
    pub(crate) async fn end(mut self, ended: Ended) {
        if let Ended::Malformed(why) = ended {
            self.registry.note_unruly(&self.seat, &why.to_string());
        }
        if let Ended::SentAway(why @ Leave::SessionIdle) = ended {
            let Seat { id, user, database, .. } = &*self.seat;
            tracing::info!(id, user, database, why = why.key(), "a client is sent away");
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
                Problem::fatal("08006", "the standby that answered failed in the middle of the result")
                    .hint("Nothing of the transaction was committed. Run it again."),
            ),
            Ended::NoBlocks => Some(
                Problem::fatal("08P01", "transaction blocks not allowed in statement pooling mode")
                    .hint("The setting pool_mode is \"statement\" here: the statements of a transaction go in one query."),
            ),
            Ended::MayNotLead => Some(conn::log_in::not_leading()),
            Ended::PrimaryLost(Told::NotYet) => Some(
                Problem::fatal("08006", "the connection to the primary was lost")
                    .hint("What was sent and not answered may have been committed, or not."),
            ),
        };
        // Inside a row that is sent in parts nothing else can be said.
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
