//! A standby's answer, held until it may leave: all of it, or its beginning while the rest stays in the socket.

use super::expected_answers::{
    Failed, Turn, Way, breaks_down, is_a_copys_own, is_broken, is_the_standbys_own,
};
use super::{Kept, Owed, Standby, oid_mapping};
use conn::peer::{GATHERED_BYTES, Peer};
use history::Lsn;
use scheduler::Kind;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use wire::tag::back;
use wire::{Answers, Complaint, Frame, Malformed, Status, Step};

/// A standby's answer. Dropping it discards it and closes its connection.
pub struct Answer {
    standby: Box<Standby>,
    held: Vec<u8>,
    seen: Seen,
}

/// Facts seen in an answer.
#[derive(Debug, Default)]
struct Seen {
    /// All of it has come.
    whole: bool,
    /// The replay position in its snapshot.
    position: Option<Lsn>,
    /// The same when the statement had locked what it reads.
    locked: Option<Lsn>,
    /// The statement's Parse failed.
    unparsed: bool,
    /// The error is the statement's own.
    is_error: bool,
    /// The reason why it is no answer.
    refused: Option<String>,
    /// Report of a logical replica that its data are broken, which replaces the answer.
    broken: Option<String>,
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The end of a result.
    Result,
    /// An error of the statement's own.
    Error,
}

/// The standby failed in the middle of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOff {
    /// Between two messages: the client can get an error.
    Between,
    /// The client's session has ended meanwhile, between two messages.
    Ended,
    /// The answer held back a refresh of its replica for the maximum time, between two messages.
    LetGo,
    /// Inside a message: the client's connection is of no more use.
    Inside,
    /// The client is gone.
    ClientGone,
}

impl Answer {
    pub(super) async fn wait(mut standby: Box<Standby>, held_bytes: usize) -> Result<Answer, Failed> {
        standby.peer.send().await?;
        let (mut held, mut seen) = (standby.peer.rooms().outbox(), Seen::default());
        loop {
            standby.gather(&mut held, &mut seen)?;
            if seen.whole || held.len() >= held_bytes {
                break;
            }
            standby.peer.fill().await?;
        }
        standby.peer.rest();
        if standby.owed.turned {
            return Err(Failed::Gone(standby.owed.why_turned().to_owned()));
        }
        if let Some(why) = seen.broken {
            return Err(Failed::Broken(why));
        }
        match seen.refused {
            Some(why) if seen.whole => Err(Failed::Refused(standby, why)),
            Some(why) => Err(Failed::Gone(why)),
            None => Ok(Answer { standby, held, seen }),
        }
    }

    /// The connection that it comes from.
    pub fn standby(&self) -> &Standby {
        &self.standby
    }

    /// The replay position in its snapshot, if it was asked for.
    pub fn position(&self) -> Option<Lsn> {
        self.seen.position
    }

    /// The replay position when the statement had locked what it reads, if it was asked for and came so far.
    pub fn locked(&self) -> Option<Lsn> {
        self.seen.locked
    }

    /// The client will see it.
    pub fn seen_by_client(&mut self) {
        self.standby.seen();
    }

    /// All of it is here.
    pub fn is_whole(&self) -> bool {
        self.seen.whole
    }

    /// True if the error is the statement's own.
    pub fn is_error(&self) -> bool {
        self.seen.is_error
    }

    /// The statement was parsed; otherwise its Parse is the error.
    pub fn is_parsed(&self) -> bool {
        !self.seen.unparsed
    }

    /// As much of it as is here.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Discards it; returns the connection if it is fit for another statement.
    pub fn discard(self) -> Option<Box<Standby>> {
        self.standby.peer.rooms().outbox_back(self.held);
        self.seen.whole.then_some(self.standby)
    }

    /// Hands it to the client, with ReadyForQuery at its end, and streams the rest, unless `cut_off` ends it
    /// meanwhile. A cut between two messages has its effect on the client; `cut_off` learns if anything has
    /// come from the standby since its last call. Returns the connection. `broken`: the error of a logical
    /// replica whose data are broken, if that ends the answer.
    pub async fn deliver(
        self,
        client: &mut Peer,
        broken: &mut Option<String>,
        mut cut_off: impl FnMut(bool, &mut Context<'_>) -> Poll<CutOff>,
    ) -> Result<(Box<Standby>, Ending), CutOff> {
        let Answer { mut standby, held, mut seen } = self;
        client.hand_over(held);
        let mut received = standby.peer.received();
        let delivered = poll_fn(|cx| {
            let streamed = poll_stream(&mut standby, &mut seen, client, cx);
            let before = std::mem::replace(&mut received, standby.peer.received());
            if streamed.is_pending()
                && !seen.whole
                && let Poll::Ready(why) = cut_off(received > before, cx)
            {
                return Poll::Ready(Err(match standby.cut_off() {
                    CutOff::Between => why,
                    inside => inside,
                }));
            }
            streamed
        })
        .await;
        *broken = seen.broken.take();
        delivered?;
        standby.peer.rest();
        Ok((standby, if seen.is_error { Ending::Error } else { Ending::Result }))
    }
}

/// Moves what comes to the client until it has all.
fn poll_stream(
    standby: &mut Standby,
    seen: &mut Seen,
    client: &mut Peer,
    cx: &mut Context<'_>,
) -> Poll<Result<(), CutOff>> {
    loop {
        let full = client.unsent() >= GATHERED_BYTES;
        let come = if seen.whole || full { Poll::Pending } else { standby.peer.poll_fill(cx) };
        match come {
            Poll::Ready(Ok(())) => {
                let sorted = standby.gather(client.out(), seen);
                if sorted.is_err() || seen.refused.is_some() {
                    return Poll::Ready(Err(standby.cut_off()));
                }
            }
            Poll::Ready(Err(_)) => return Poll::Ready(Err(standby.cut_off())),
            Poll::Pending => {
                ready!(client.poll_send(cx)).map_err(|_| CutOff::ClientGone)?;
                if seen.whole {
                    return Poll::Ready(Ok(()));
                }
                if !full {
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Standby {
    fn cut_off(&self) -> CutOff {
        if self.peer.splitter.is_inside() { CutOff::Inside } else { CutOff::Between }
    }

    /// Sorts the messages that have come: the client's go out, ours are swallowed.
    fn gather(&mut self, out: &mut Vec<u8>, seen: &mut Seen) -> Result<(), Failed> {
        let (unread, splitter) = self.peer.cut();
        let mut at = 0;
        loop {
            if self.owed.turns.front() == Some(&Turn::ParseGiven) {
                self.owed.turns.pop_front();
                out.parse_complete();
            }
            let step = splitter.next(&unread[at..])?;
            at += step.len();
            match step {
                Step::More(_) => break,
                Step::Whole(frame) => self.owed.sort(&frame, out, seen)?,
                Step::Part(part)
                    if part.tag == back::DATA_ROW && self.owed.turns.front() == Some(&Turn::Rows) =>
                {
                    out.extend_from_slice(part.bytes);
                }
                Step::Part(_) => return Err(Failed::Gone("unexpected large message".to_owned())),
            }
        }
        self.peer.consume(at);
        Ok(())
    }
}

impl Owed {
    fn sort(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>, seen: &mut Seen) -> Result<(), Failed> {
        let Some(&turn) = self.turns.front() else {
            return Err(Failed::Gone("unexpected message: no answer is outstanding".to_owned()));
        };
        match frame.tag() {
            back::ERROR => return self.failed(turn, frame, out, seen),
            back::NOTICE if turn.is_the_statements() => out.extend_from_slice(frame.bytes()),
            back::PARAMETER_STATUS => self.reported(frame)?,
            back::NOTICE | back::NOTIFICATION => {}
            tag => match turn.way(tag) {
                Way::On => out.extend_from_slice(frame.bytes()),
                Way::Last => {
                    if self.kind == Kind::Standby {
                        out.extend_from_slice(frame.bytes());
                    } else if oid_mapping::in_the_primarys_numbers(self.template.as_deref(), frame, out)?
                        .is_none()
                    {
                        seen.refused =
                            Some("the replica describes the result differently from the primary".to_owned());
                    }
                    self.over(turn);
                }
                Way::Swallowed => {
                    self.read_own(turn, frame, out, seen)?;
                    self.over(turn);
                }
                Way::Dropped => {}
                Way::Wrong => return Err(Failed::Gone(format!("unexpected message type {tag}"))),
            },
        }
        Ok(())
    }

    fn over(&mut self, turn: Turn) {
        if matches!(turn, Turn::Hidden(back::PARSE_COMPLETE) | Turn::Client(back::PARSE_COMPLETE)) {
            self.parsing = None;
        }
        self.turns.pop_front();
    }

    /// Reads what an answer to a message of ours says.
    fn read_own(
        &mut self,
        turn: Turn,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        seen: &mut Seen,
    ) -> Result<(), Failed> {
        match turn {
            Turn::Position | Turn::Locked => {
                let row = wire::row_texts(frame)?;
                let position = row.first().and_then(Option::as_deref).and_then(|text| text.parse().ok());
                if position.is_none() {
                    return Err(Failed::Gone(
                        "the server is not a standby: it has no replay position".to_owned(),
                    ));
                }
                match turn {
                    Turn::Position => seen.position = position,
                    _ => seen.locked = position,
                }
            }
            Turn::Ready => {
                self.bound = None;
                let status = wire::status(frame)?;
                if self.kept == Kept::No {
                    self.block_failed = status != Status::Idle;
                    // An answer that broke off has no end, even if this message came along with the reason:
                    // its client would take it for whole.
                    if seen.refused.is_none() {
                        out.ready(match (self.in_block, seen.is_error) {
                            (false, _) => Status::Idle,
                            (true, false) => Status::InBlock,
                            (true, true) => Status::Failed,
                        });
                    }
                } else {
                    self.status = Some(status);
                }
                seen.whole = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// An error: the statement's own is its answer; any other is the standby's matter.
    fn failed(
        &mut self,
        turn: Turn,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        seen: &mut Seen,
    ) -> Result<(), Failed> {
        let complaint = Complaint::read(frame);
        let why = String::from_utf8_lossy(complaint.message()).into_owned();
        if complaint.is_fatal() || turn == Turn::Aside {
            return Err(Failed::fatal(&complaint));
        }
        let parsing = self.parsing.take();
        let bound = self.bound.take();
        seen.unparsed =
            matches!(turn, Turn::Hidden(back::PARSE_COMPLETE) | Turn::Client(back::PARSE_COMPLETE));
        let is_its_own =
            is_the_standbys_own(&complaint) || self.kind == Kind::Fed && is_a_copys_own(&complaint);
        let is_the_transactions = self.kept == Kept::Seen && !breaks_down(&complaint);
        let is_an_answer = is_the_transactions || !is_its_own;
        if turn.is_the_statements() && is_an_answer {
            out.extend_from_slice(frame.bytes());
            seen.is_error = true;
            parsing.inspect(|statement| self.known.forget(statement));
            if is_the_standbys_own(&complaint) {
                bound.inspect(|statement| self.known.forget(statement));
            }
        } else {
            if self.kind == Kind::Fed && is_broken(&complaint) {
                let sqlstate = String::from_utf8_lossy(complaint.sqlstate());
                seen.broken = Some(format!("{why} (SQLSTATE {sqlstate})"));
            }
            // The cause may be the parse of the statement here ("cached plan must not change result type").
            seen.refused = Some(why);
            bound.inspect(|statement| self.known.forget(statement));
        }
        while self.turns.front().is_some_and(|turn| *turn != Turn::Ready) {
            self.turns.pop_front();
        }
        if self.turns.is_empty() { Err(Malformed::Body.into()) } else { Ok(()) }
    }
}
