//! The session's own connection at the primary while its statement runs elsewhere. A termination of that
//! backend also ends the statement, wherever it runs. The backend must not take the session for idle while it
//! is busy elsewhere (`idle_session_timeout`).

use super::primary::{Ended, Primary, Told};
use super::{Line, Session};
use backend::standby::{Answer, CutOff, Ending, Failed, Standby};
use cluster::Cluster;
use conn::peer::GATHERED_BYTES;
use history::Incarnation;
use scheduler::StandbyId;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;
use wire::tag::back;
use wire::{Complaint, Step};

/// Time for which a standby that its watcher has lost may stay silent in the middle of a result. If the
/// network is cut, its connection may stay open for hours.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

impl Primary {
    /// Sets the backend's limit for an idle session.
    pub(super) fn ends_when_idle_for(&mut self, limit: Option<Duration>) {
        self.awake.ends_when_idle_for(limit);
    }

    /// Wakes the backend when that is due. `busy`: the session is still busy without the backend's knowledge.
    pub(super) fn poll_awake(&mut self, busy: bool, cx: &mut Context<'_>) {
        if busy {
            self.awake.busy();
        }
        while self.awake.poll_due(cx) {
            self.wake();
            let _ = self.peer.poll_send(cx);
            if busy {
                self.awake.busy();
            }
        }
    }

    /// Completes when the backend has ended the session with a message, which stays unread.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_awake(true, cx);
        // A connection that breaks off without a message is no end of the session.
        while self.peer.unread().len() < GATHERED_BYTES
            && matches!(self.peer.poll_fill(cx), Poll::Ready(Ok(())))
        {}
        let ended = self.has_said_farewell();
        self.peer.rest();
        if ended { Poll::Ready(()) } else { Poll::Pending }
    }

    /// True if the unread input contains a FATAL error.
    pub(super) fn has_said_farewell(&self) -> bool {
        let (unread, mut splitter) = (self.peer.unread(), self.peer.splitter);
        let mut at = 0;
        while let Some(Ok(step)) =
            unread.get(at..).filter(|rest| !rest.is_empty()).map(|rest| splitter.next(rest))
        {
            at += step.len();
            match step {
                Step::More(_) => return false,
                Step::Part(_) => {}
                Step::Whole(frame) if frame.tag() == back::ERROR && Complaint::read(&frame).is_fatal() => {
                    return true;
                }
                Step::Whole(_) => {}
            }
        }
        false
    }
}

impl Line {
    /// Forwards to the client that the primary has ended the session, in the primary's words.
    pub(super) fn hear_farewell(&mut self) -> Ended {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        self.poll_primary(&mut cx).err().unwrap_or(Ended::PrimaryLost(Told::ByPrimary))
    }
}

/// Completes when a standby has been silent for too long from now on; never for the primary.
async fn is_silent(cluster: &Cluster, at: Option<(StandbyId, Incarnation)>) {
    match at {
        Some(at) => cluster.standby_lost_for(at, SILENCE_LIMIT).await,
        None => std::future::pending().await,
    }
}

impl Session {
    /// Waits for a standby's answer. `None`: the primary has ended the session, or its client has
    /// disconnected, or a refresh takes the connection. The statement is then cancelled.
    pub(super) async fn answered(
        &mut self,
        at: (StandbyId, Incarnation),
        asked: Box<Standby>,
    ) -> Option<Result<Answer, Failed>> {
        let (service, running) = (self.service.clone(), self.line.seat.running.clone());
        let there = asked.cancel.clone();
        let (cluster, pass) = (self.service.cluster.clone(), self.current.there.pass);
        // A detached session has no backend that could take it for idle.
        let limit = self.state.idle_limit().filter(|_| !self.line.away);
        let Line { client, primary, .. } = &mut self.line;
        primary.ends_when_idle_for(limit);
        running.went(&there);
        let mut answer = Box::pin(async move { service.answer(at, asked).await });
        let answered = tokio::select! {
            biased;
            () = cluster.reader_let_go(pass) => Some(Err(Failed::LetGo)),
            answered = &mut answer => Some(answered),
            () = poll_fn(|cx| primary.poll_ended(cx)) => None,
            () = poll_fn(|cx| client.poll_closed(cx)) => {
                self.ended = Some(Ended::ClientGone);
                None
            }
        };
        running.came_back();
        if let Some(Err(Failed::Broken(why))) = &answered {
            self.is_broken(why);
        }
        if matches!(answered, None | Some(Err(Failed::LetGo))) {
            // The connection is held until then: the request might arrive before the statement.
            tokio::task::spawn_local(there.until_over(async move { drop(answer.await) }));
        }
        answered
    }

    /// Sends a standby's answer to the client and streams the rest of it.
    pub(super) async fn handed_out(&mut self, answer: Answer) -> Result<(Box<Standby>, Ending), CutOff> {
        let running = self.line.seat.running.clone();
        let there = answer.standby().cancel.clone();
        if !answer.is_whole() {
            running.is_still(&there);
        }
        let cluster = self.service.cluster.clone();
        let mut let_go = pin!(cluster.reader_let_go(self.current.there.pass));
        let at = self.current.there.ran_at.map(|(standby, life, _)| (standby, life));
        let mut silent = None;
        let Line { client, primary, .. } = &mut self.line;
        let cut_off = |has_spoken: bool, cx: &mut Context<'_>| {
            if let_go.as_mut().poll(cx).is_ready() {
                return Poll::Ready(CutOff::LetGo);
            }
            if has_spoken {
                silent = None;
            }
            let silent = silent.get_or_insert_with(|| Box::pin(is_silent(&cluster, at)));
            if silent.as_mut().poll(cx).is_ready() {
                return Poll::Ready(CutOff::Between);
            }
            primary.poll_ended(cx).map(|()| CutOff::Ended)
        };
        let mut broken = None;
        let delivered = answer.deliver(client, &mut broken, cut_off).await;
        running.came_back();
        if let Some(why) = broken {
            self.is_broken(&why);
        }
        if matches!(delivered, Err(CutOff::Ended | CutOff::LetGo)) {
            tokio::task::spawn_local(async move { there.send().await });
        }
        delivered
    }

    /// Reports that the replica of the statement has found its data broken: no session reads the database
    /// there any more.
    fn is_broken(&self, why: &str) {
        let (Some((replica, ..)), Some(of)) = (self.current.there.ran_at, self.database.id()) else { return };
        self.service.cluster.fed_broken(replica, of, why);
    }
}
