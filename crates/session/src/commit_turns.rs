//! Commit turns, for designs in which the primary gets one commit at a time: how a session waits for its
//! turn, and the outcome that the client receives.
//!
//! The holder of the turn never waits for another transaction, or all would wait. So deferred constraints are
//! checked before the turn is requested. A statement outside a block, which waits for rows, runs in a block
//! of Consort's, and only the COMMIT has the turn:
//!
//! ```text
//!   BEGIN, the statement, SET CONSTRAINTS ALL IMMEDIATE     may wait for other transactions' rows
//!   the turn
//!   COMMIT                                                  waits for the primary alone
//! ```
//!
//! The client receives the end of its answer when the COMMIT is answered. Statements that cannot run in a
//! block, or share one request, commit without a turn. The order of commits is read back from the primary, so
//! that nothing depends on turns.

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

/// Command that checks deferred constraints before the commit.
const CHECK: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// Form in which a statement that may commit is sent to the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// As the client sent it.
    #[default]
    AsItIs,
    /// In a block of Consort's.
    InOurBlock,
    /// As the client sent it. The client receives the end of the answer when replicas show the commit.
    Withheld,
    /// In a block of Consort's, with the statement reported to the cluster.
    Told,
    /// As the client sent it: a COMMIT, with the statements of its block reported to the cluster.
    ToldCommit,
}

impl Session {
    /// True if commits of this session take turns. While the database is not followed, the end of a commit
    /// would go unnoticed.
    pub(super) fn takes_turns(&self) -> bool {
        let cluster = &self.service.cluster;
        matches!(self.mode.commits, Commits::TakeTurns)
            && self.database.id().is_some_and(|database| cluster.scheduler().order().followed(database))
    }

    /// Runs the COMMIT of a block.
    pub(super) async fn commit_block(&mut self, block: Block<Cluster>, reason: Reason) {
        self.commit_is_told();
        if self.takes_turns() && !block.wrote().is_nothing() {
            match self.before_commit().await {
                Ok(None) if self.service.cluster.setup().commit_replica_quorum > 0 => {
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

    /// Handles the end of a commit: its turn ends. The rest of its answer goes to the client when enough
    /// replicas show the commit, by the design's settings.
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
                    format!("committed at the primary, but not visible on replicas yet: {reason}"),
                )
                .hint(
                    "The commit stands unless the primary fails before a replica has applied it. Do not \
                     run the transaction again.",
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

    /// Waits until the required number of replicas show the commit. `None`: the client has disconnected,
    /// which ends the wait. The commit stands, and its connection becomes available to other sessions.
    async fn shown_by_replicas(&mut self) -> Option<Result<(), Reason>> {
        let cluster = self.service.cluster.clone();
        let Some(database) = self.database.id() else { return Some(Err(Reason::DatabaseNotFollowed)) };
        let (replicas, limit) = (cluster.setup().commit_replica_quorum, cluster.setup().replica_wait_timeout);
        let client = &mut self.line.client;
        tokio::select! {
            biased;
            shown = transaction::shown_by(&cluster, database, replicas, limit) => Some(shown),
            () = poll_fn(|cx| client.poll_closed(cx)) => None,
        }
    }

    /// Checks deferred constraints, and waits for the turn. Returns the error for the client, if either
    /// fails.
    async fn before_commit(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        self.line.primary.own_error();
        self.line.primary.ask_aloud(CHECK);
        self.line.settled().await?;
        match self.line.primary.own_error() {
            Some(error) => Ok(Some(error)),
            None => Ok(self.turn_comes().await),
        }
    }

    /// Waits for the turn. Returns the error for the client if the turn does not come.
    async fn turn_comes(&mut self) -> Option<Vec<u8>> {
        let cluster = self.service.cluster.clone();
        let (database, limit) = (self.database.id()?, cluster.setup().replica_wait_timeout);
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
                Problem::error("40001", "timed out waiting for the commit slot (replica_wait_timeout)")
                    .hint("Nothing was committed. Run the transaction again.")
            }
        };
        let mut error = Vec::new();
        error.problem(&problem);
        Some(error)
    }

    /// Ends the block without a commit, and sends the client this error.
    async fn roll_back_instead(&mut self, block: Block<Cluster>, error: &[u8], reason: Reason) {
        if let Err(ended) = self.line.ask("ROLLBACK").await {
            self.ended = Some(ended);
            return;
        }
        self.failed_in_block(error);
        // No request is left to send.
        block.roll_back(self, reason).await;
    }

    /// Runs the current statement, which is outside a block, in a block of Consort's.
    pub(super) async fn run_in_our_block(&mut self) -> AtPrimary {
        let Some(request) = self.current.request.take() else { return AtPrimary::Answered };
        if self.line.seat.running.is_cancelled() {
            self.refuse(request, &cancelled());
            return AtPrimary::Answered;
        }
        let ran = self.in_our_block(request).await;
        self.ran_in_ours(self.current.reason, ran)
    }

    /// The outcome of a request that ran at the primary between Consort's own commands.
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

    /// Runs the current statement in a block of Consort's, up to the answer of its COMMIT.
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
        // If the statement failed, its client has received that error.
        let error = error.or(refused).filter(|_| !seen.failed);
        seen.failed |= error.is_some();
        self.current.commits.withheld = Some(error.unwrap_or(std::mem::take(&mut seen.withheld)));
        seen.reported.extend(self.line.primary.seen().reported);
        Ok(seen)
    }
}
