//! One client's session: its requests, one after the other, and where each of them runs.

pub mod batch;
pub mod primary;
pub mod request;
pub mod statements;

use crate::door::{Door, Seat};
use crate::log_in::{LoggedIn, Wish};
use crate::peer::Peer;
use primary::{Ended, Primary, Reported, Side, Told};
use request::{Kind, Lookout, Request};
use statements::Statements;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use wire::{Answers, Asks, Problem, Status};

/// One client's session.
pub struct Session {
    door: Rc<Door>,
    seat: Rc<Seat>,
    client: Peer,
    primary: Primary,
    statements: Statements,
    reported: Reported,
    lookout: Lookout,
    /// Who the client is at the servers.
    wish: Wish,
    /// Settings of our own that it gave at the start.
    own: Vec<(String, String)>,
}

impl Session {
    /// The session of a client that was let in, with its connection at the primary.
    pub fn new(
        door: Rc<Door>,
        seat: Rc<Seat>,
        client: Peer,
        wish: Wish,
        log_in: LoggedIn,
        own: Vec<(String, String)>,
    ) -> Session {
        Session {
            door,
            seat,
            client,
            primary: Primary::new(log_in.peer, wish.place.clone(), log_in.key),
            statements: Statements::default(),
            reported: Reported(log_in.parameters),
            lookout: Lookout::default(),
            wish,
            own,
        }
    }

    /// The whole life of a session: requests until somebody leaves. Then the client hears why, unless it left itself,
    /// and the connection at the primary is closed.
    pub async fn run(mut self) {
        let ended = loop {
            let request = match self.next_request().await {
                Ok(request) => request,
                Err(ended) => break ended,
            };
            if let Err(ended) = self.answer(request).await {
                break ended;
            }
        };
        self.end(ended).await;
    }

    /// Waits for the client's next request. Meanwhile the client hears what the primary says by itself.
    async fn next_request(&mut self) -> Result<Request, Ended> {
        self.seat.idle(self.primary.status);
        let request = poll_fn(|cx| self.poll_request(cx)).await?;
        if self.primary.status == Status::Idle && request.kind != Kind::Terminate {
            self.door.pauses.pass(&self.seat).await;
        }
        self.seat.active();
        Ok(request)
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<Request, Ended>> {
        loop {
            let splitter = self.client.splitter;
            match self.lookout.look(self.client.unread(), splitter) {
                Ok(Some(request)) => return Poll::Ready(Ok(request)),
                Ok(None) => {}
                Err(why) => return Poll::Ready(Err(Ended::Malformed(why))),
            }
            let mut side = Side {
                client: &mut self.client,
                statements: &mut self.statements,
                reported: &mut self.reported,
            };
            self.primary.poll_idle(&mut side, cx)?;
            if let Poll::Ready(Err(_)) = self.client.poll_send(cx) {
                return Poll::Ready(Err(Ended::ClientGone));
            }
            match self.client.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Ended::ClientGone)),
                Poll::Pending => {
                    self.client.rest();
                    self.primary.peer.rest();
                    if self.seat.must_leave(self.primary.status == Status::Idle, cx) {
                        return Poll::Ready(Err(Ended::Drained));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// One request, from its first byte to its last answer.
    async fn answer(&mut self, request: Request) -> Result<(), Ended> {
        match request.kind {
            Kind::Terminate => Err(Ended::ClientLeft),
            Kind::Leftover => self.drop_leftover(request),
            Kind::Query | Kind::Batch | Kind::Open | Kind::Function => self.run_at_primary(request).await,
        }
    }

    /// COPY data that came behind the end of its COPY.
    fn drop_leftover(&mut self, request: Request) -> Result<(), Ended> {
        let (unread, splitter) = self.client.cut();
        let step = splitter.next(&unread[..request.bytes]).map_err(Ended::Malformed)?;
        let length = step.len();
        self.client.consume(length);
        Ok(())
    }

    /// Sends a request to the primary and streams the answers to the client.
    async fn run_at_primary(&mut self, request: Request) -> Result<(), Ended> {
        let mut side =
            Side { client: &mut self.client, statements: &mut self.statements, reported: &mut self.reported };
        if request.kind == Kind::Open {
            self.primary.follow();
        }
        self.primary.take(&mut side, request.bytes).map_err(Ended::Malformed)?;
        poll_fn(|cx| self.primary.poll_exchange(&mut side, cx)).await
    }

    /// Says farewell on both sides.
    async fn end(mut self, ended: Ended) {
        let word = match ended {
            Ended::ClientLeft | Ended::ClientGone | Ended::PrimaryLost(Told::ByPrimary) => None,
            Ended::Malformed(why) => Some(Problem::fatal("08P01", why.to_string())),
            Ended::Drained => {
                Some(Problem::fatal("57P01", "terminating connection due to administrator command"))
            }
            Ended::PrimaryLost(Told::NotYet) => Some(
                Problem::fatal("08006", "the connection to the primary was lost")
                    .hint("What was sent and not answered may have been committed, or not."),
            ),
        };
        if let Some(problem) = word {
            self.client.out().problem(&problem);
        }
        self.door.leave(&self.seat);
        self.primary.peer.out().terminate();
        self.primary.peer.send_now();
        drop(self.primary);
        self.door.farewell(self.client).await;
    }
}
