//! Reads that wait for a replica with the whole latest state, for designs that keep the primary for writers:
//! single reads, and transactions that are declared READ ONLY.

use super::Session;
use super::consort_settings::cancelled;
use cluster::Cluster;
use cluster::plan::Leaving;
use scheduler::{Question, Reason};
use transaction::Placed;
use wire::Problem;

impl Session {
    /// True if reads wait for replicas.
    pub(super) fn reads_wait(&self) -> bool {
        self.mode.reads_wait
    }

    /// Runs one read outside a block.
    pub(super) async fn read_whole(&mut self, leaving: &Leaving) {
        let cluster = self.service.cluster.clone();
        let limit = cluster.setup().replica_wait_timeout;
        match transaction::read_whole(&cluster, self, &leaving.question, limit).await {
            Ok(ended) => self.read_ended(ended, leaving),
            Err(reason) => {
                let problem = self.waited_in_vain(reason);
                if let Some(request) = self.current.request.take() {
                    self.refuse(request, &problem);
                }
            }
        }
    }

    /// Opens the snapshot of a whole transaction, or returns the reason why it runs at the primary.
    ///
    /// # Errors
    /// The reason why no replica showed the required state in time, in designs that wait for it.
    pub(super) async fn open_for_all(&mut self, question: &Question) -> Result<Placed<Cluster>, Reason> {
        let cluster = self.service.cluster.clone();
        if self.reads_wait() {
            let limit = cluster.setup().replica_wait_timeout;
            return transaction::snapshot_whole(&cluster, self, question, limit).await;
        }
        Ok(match transaction::snapshot(&cluster, self, question).await {
            Ok(pinned) => Placed::At(pinned),
            Err(reason) => Placed::Primary(reason),
        })
    }

    /// Error for the client of a read that waited in vain.
    pub(super) fn waited_in_vain(&self, reason: Reason) -> Problem {
        if self.line.seat.running.is_cancelled() {
            return cancelled();
        }
        if reason == Reason::LetGo {
            return let_go();
        }
        Problem::error("40001", format!("no replica caught up in time (replica_wait_timeout): {reason}"))
            .hint("Run it again, or choose a weaker level with SET consort.consistency.")
    }
}

/// Error for a client whose reads have delayed a refresh for the maximum time.
pub(super) fn let_go() -> Problem {
    Problem::error("40001", "reads delayed their replica for too long (replica_wait_timeout)").hint(
        "Run the transaction again. While changes wait, it may read for half of replica_wait_timeout. \
         SET consort.consistency = 'primary' runs its reads at the primary.",
    )
}
