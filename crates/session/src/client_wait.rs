//! Ends of the wait for a client's next request, apart from the request itself: the session has been idle for
//! too long, or a batch has begun and does not go on.
//!
//! PostgreSQL executes messages as they come, and reports an error at once, with or without a Sync or Flush
//! after it. Consort looks at whole batches. So a batch that pauses is looked at as far as it has come.

use super::Session;
use super::primary::Ended;
use super::read_only_snapshots::Outcome;
use backend::request::{Kind, Lookout, Request, executes};
use backend::split_batch::{self, Part};
use conn::registry::Leave;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Time without a byte after which a batch counts as paused. An acknowledgement for which a client's next
/// packet may wait is delayed by less (40 ms).
const BATCH_PAUSE: Duration = Duration::from_millis(50);

/// The wait for one request.
pub(super) struct ClientWait {
    idle_end: Option<Pin<Box<Sleep>>>,
    /// Length of the batch when its pause began, in bytes, and the end of the pause.
    pause: Option<(usize, Pin<Box<Sleep>>)>,
}

impl ClientWait {
    /// Begins the wait. The session ends at `idle_end`.
    pub(super) fn new(idle_end: Option<Instant>) -> ClientWait {
        ClientWait { idle_end: idle_end.map(|end| Box::pin(sleep_until(end))), pause: None }
    }

    /// Continues the wait while the input is the one that `lookout` has examined. A session with a batch in
    /// progress is not idle.
    pub(super) fn poll(
        &mut self,
        lookout: &mut Lookout,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Request, Ended>> {
        let bytes = lookout.begun();
        if bytes == 0 {
            let is_over = self.idle_end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready());
            return if is_over {
                Poll::Ready(Err(Ended::SentAway(Leave::SessionIdle)))
            } else {
                Poll::Pending
            };
        }
        if lookout.was_looked_into() {
            return Poll::Pending;
        }
        if self.pause.as_ref().is_none_or(|(before, _)| *before != bytes) {
            self.pause = Some((bytes, Box::pin(sleep(BATCH_PAUSE))));
        }
        let pauses = self.pause.as_mut().is_some_and(|(_, pause)| pause.as_mut().poll(cx).is_ready());
        if !pauses {
            return Poll::Pending;
        }
        lookout.looks_again();
        Poll::Ready(Ok(Request { kind: Kind::Begun, bytes }))
    }
}

impl Session {
    /// Sends a paused batch to the primary as far as it has come; the rest follows. A batch that executes
    /// nothing so far is a request of its own, as in front of a Flush.
    pub(super) fn as_it_has_come(&self, request: Request) -> Result<Request, Ended> {
        if request.kind != Kind::Begun || self.txn.snapshot().is_some() || self.mode.is_ordered() {
            return Ok(request);
        }
        let bytes = self.line.bytes(request);
        let executes = executes(bytes, self.line.client.splitter).map_err(Ended::Malformed)?;
        Ok(Request { kind: if executes { Kind::Open } else { Kind::Flushed }, ..request })
    }

    /// Runs a paused batch whose block is at a standby: its whole parts one by one, until one of them fails.
    /// The rest of the batch waits for more input.
    pub(super) async fn begun_in_snapshot(&mut self, request: Request) -> Result<(), Ended> {
        let mut left = request.bytes;
        while left > 0 && self.txn.snapshot().is_some() {
            let splitter = self.line.client.splitter;
            let (part, bytes) =
                split_batch::first(&self.line.client.unread()[..left], splitter).map_err(Ended::Malformed)?;
            let outcome = match part {
                Part::End | Part::Odd => self.unknown_is_bound(bytes).await?,
                Part::Control | Part::Statement => Some(self.piece_in_snapshot(part, bytes).await?),
            };
            let Some(outcome) = outcome else { break };
            left -= bytes;
            if outcome == Outcome::Error {
                self.line.client.consume(left);
                (left, self.skipping) = (0, true);
            }
        }
        self.line.lookout.looked_into(left);
        Ok(())
    }

    /// Returns the error if the batch binds a statement that does not exist.
    async fn unknown_is_bound(&mut self, bytes: usize) -> Result<Option<Outcome>, Ended> {
        let piece = Request { kind: Kind::Batch, bytes };
        let name = split_batch::bound(self.line.bytes(piece), self.line.client.splitter);
        match name.map_err(Ended::Malformed)? {
            Some(name) if self.line.statements.get(&name).is_none() => {
                self.current.request = Some(piece);
                self.error_of_describing(piece).await
            }
            _ => Ok(None),
        }
    }
}
