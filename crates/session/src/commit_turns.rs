//! Where the design has the primary get one commit at a time: who waits for a turn, and what the client hears then.
//!
//! Whoever has the turn waits for nobody else, or all would wait. So what is deferred is checked before the turn is asked
//! for, and a statement outside a block, which waits for rows, runs in a block of ours, whose COMMIT alone has the turn:
//!
//! ```text
//!   BEGIN, the statement, SET CONSTRAINTS ALL IMMEDIATE     may wait for others' rows
//!   the turn
//!   COMMIT                                                  waits for the primary alone
//! ```
//!
//! The client gets the end of its answer when the COMMIT is answered. What cannot run in a block, or is one request with
//! several statements, commits without a turn: the order is read back from the primary, so that nothing depends on it.

use super::Session;
use super::consort_settings::cancelled;
use super::mode::Commits;
use super::primary::{Ended, Seen};
use backend::request::Request;
use cluster::Cluster;
use cluster::routes::Went;
use scheduler::Reason;
use std::future::poll_fn;
use transaction::{AtPrimary, Block};
use wire::{Answers, Problem};

/// Checks what is deferred to the commit.
const CHECK: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// How a statement that may commit is given to the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// As it is.
    #[default]
    AsItIs,
    /// In a block of ours.
    InOurBlock,
    /// As it is, and its client hears of it when replicas show it.
    Withheld,
    /// In a block of ours, and the cluster is told what it was.
    Told,
    /// As it is, a COMMIT, and the cluster is told of its block.
    ToldCommit,
}

impl Session {
    /// Commits of this session take turns. While its database is not followed nobody could say when one is over.
    pub(super) fn takes_turns(&self) -> bool {
        let cluster = &self.service.cluster;
        matches!(self.mode.commits, Commits::TakeTurns)
            && self.database.id().is_some_and(|database| cluster.scheduler().order().followed(database))
    }

    /// COMMIT of a block.
    pub(super) async fn commit_block(&mut self, block: Block<Cluster>, reason: Reason) {
        self.commit_is_told();
        if self.takes_turns() && !block.wrote().is_nothing() {
            match self.before_commit().await {
                Ok(None) if self.service.cluster.setup().acknowledged_by > 0 => {
                    self.current.commits.way = Way::Withheld;
                }
                Ok(None) => {}
                Ok(Some(error)) => return self.roll_back_instead(block, &error, reason).await,
                Err(ended) => {
                    self.ended = Some(ended);
                    return;
                }
            }
        }
        let outcome = block.commit(self, reason).await;
        self.committed(outcome).await;
    }

    /// A commit has ended so: its turn is over, and what the client is still to hear of it leaves when so many replicas show
    /// it as the design is told to wait for.
    pub(super) async fn committed(&mut self, outcome: AtPrimary) {
        if let Some(turn) = self.txn.at_primary().and_then(|at| at.turn.take()) {
            turn.over(outcome);
        }
        let Some(mut end) = self.current.commits.withheld.take() else { return };
        if outcome == AtPrimary::ConnectionLost {
            return;
        }
        let shown = if self.current.said.failed { Some(Ok(())) } else { self.shown_by_replicas().await };
        match shown {
            Some(Ok(())) => {}
            Some(Err(reason)) => {
                let problem = Problem::error(
                    "40003",
                    format!("committed at the primary, and not shown by replicas: {reason}"),
                )
                .hint(
                    "The commit stands, unless the primary is lost before they show it. Do not run it again.",
                );
                end.clear();
                end.problem(&problem);
            }
            None => {
                self.ended = Some(Ended::ClientGone);
                return;
            }
        }
        let status = self.line.primary.status;
        let out = self.line.client.out();
        out.extend_from_slice(&end);
        if !self.line.primary.notified.holds_ready(status) {
            out.ready(status);
        }
    }

    /// Waits until so many replicas show what was committed. `None`: its client is gone, and nobody waits for that. The commit
    /// stands, and its connection is not kept from others any longer.
    async fn shown_by_replicas(&mut self) -> Option<Result<(), Reason>> {
        let cluster = self.service.cluster.clone();
        let Some(database) = self.database.id() else { return Some(Err(Reason::DatabaseNotFollowed)) };
        let (replicas, limit) = (cluster.setup().acknowledged_by, cluster.setup().wait_limit);
        let client = &mut self.line.client;
        tokio::select! {
            biased;
            shown = transaction::shown_by(&cluster, database, replicas, limit) => Some(shown),
            () = poll_fn(|cx| client.poll_closed(cx)) => None,
        }
    }

    /// Has what is deferred checked, and waits for the turn. The error that the client gets instead, if it comes to that.
    async fn before_commit(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        self.line.primary.own_error();
        self.line.primary.ask_aloud(CHECK);
        self.line.settled().await?;
        match self.line.primary.own_error() {
            Some(error) => Ok(Some(error)),
            None => Ok(self.turn_comes().await),
        }
    }

    /// Waits for the turn. What the client hears instead, if it does not come.
    async fn turn_comes(&mut self) -> Option<Vec<u8>> {
        let cluster = self.service.cluster.clone();
        let (database, limit) = (self.database.id()?, cluster.setup().wait_limit);
        let turn = transaction::turn(&cluster, database, limit).await;
        let problem = match (turn, self.line.seat.running.is_cancelled()) {
            (Ok(turn), false) => {
                self.txn.begins().turn = Some(turn);
                return None;
            }
            (turn, true) => {
                turn.into_iter().for_each(|turn| turn.over(AtPrimary::Answered));
                cancelled()
            }
            (Err(_), false) => {
                Problem::error("40001", "the transaction waited in vain for its turn to commit")
                    .hint("Nothing of it was committed. Run it again.")
            }
        };
        let mut error = Vec::new();
        error.problem(&problem);
        Some(error)
    }

    /// The block ends without a commit, and its client gets this error.
    async fn roll_back_instead(&mut self, block: Block<Cluster>, error: &[u8], reason: Reason) {
        if let Err(ended) = self.line.ask("ROLLBACK").await {
            self.ended = Some(ended);
            return;
        }
        self.failed_in_block(error);
        // There is nothing to send any more.
        block.roll_back(self, reason).await;
    }

    /// Runs the current statement, which is outside a block, in a block of ours.
    pub(super) async fn run_in_our_block(&mut self) -> AtPrimary {
        let Some(request) = self.current.request.take() else { return AtPrimary::Answered };
        if self.line.seat.running.is_cancelled() {
            self.refuse(request, &cancelled());
            return AtPrimary::Answered;
        }
        let ran = self.in_our_block(request).await;
        self.ran_in_ours(self.current.reason, ran)
    }

    /// What comes of a request that ran at the primary with something of ours around it.
    pub(super) fn ran_in_ours(&mut self, reason: Reason, ran: Result<Seen, Ended>) -> AtPrimary {
        match ran {
            Ok(seen) => self.learn_from(&seen),
            Err(ended) => {
                self.learn();
                self.ended = Some(ended);
                return AtPrimary::ConnectionLost;
            }
        }
        self.fell_behind();
        self.went(Went::Primary(reason));
        AtPrimary::Answered
    }

    /// The same, up to the answer of its end.
    async fn in_our_block(&mut self, request: Request) -> Result<Seen, Ended> {
        self.line.run_in_our_block(request, CHECK).await?;
        let mut seen = self.line.primary.seen();
        let mut error = seen.error.take();
        if !seen.failed && error.is_none() {
            error = self.turn_comes().await;
        }
        let commits = !seen.failed && error.is_none();
        self.line.primary.ask_aloud(if commits { "COMMIT" } else { "ROLLBACK" });
        self.line.settled().await?;
        let refused = self.line.primary.own_error().filter(|_| commits);
        // If the statement failed, its client has heard so.
        let error = error.or(refused).filter(|_| !seen.failed);
        seen.failed |= error.is_some();
        self.current.commits.withheld = Some(error.unwrap_or(std::mem::take(&mut seen.withheld)));
        seen.reported.extend(self.line.primary.seen().reported);
        Ok(seen)
    }
}
