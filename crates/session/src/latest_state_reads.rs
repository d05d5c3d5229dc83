//! Where the design has reads wait for a replica that shows the whole latest state, and the primary is there for those who
//! write: single reads, and transactions that are declared to read only.

use super::Session;
use super::consort_settings::cancelled;
use cluster::Cluster;
use cluster::plan::Leaving;
use scheduler::{Question, Reason};
use transaction::Placed;
use wire::Problem;

impl Session {
    /// Reads wait for replicas.
    pub(super) fn reads_wait(&self) -> bool {
        self.mode.reads_wait
    }

    /// One read outside a block.
    pub(super) async fn read_whole(&mut self, leaving: &Leaving) {
        let cluster = self.service.cluster.clone();
        let limit = cluster.setup().wait_limit;
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

    /// Opens the snapshot of a whole transaction, or says why it runs at the primary.
    ///
    /// Errors: why no replica showed in time what it must see, where it waits for that.
    pub(super) async fn open_for_all(&mut self, question: &Question) -> Result<Placed<Cluster>, Reason> {
        let cluster = self.service.cluster.clone();
        if self.reads_wait() {
            let limit = cluster.setup().wait_limit;
            return transaction::snapshot_whole(&cluster, self, question, limit).await;
        }
        Ok(match transaction::snapshot(&cluster, self, question).await {
            Ok(pinned) => Placed::At(pinned),
            Err(reason) => Placed::Primary(reason),
        })
    }

    /// What the client hears instead of an answer.
    pub(super) fn waited_in_vain(&self, reason: Reason) -> Problem {
        if self.line.seat.running.is_cancelled() {
            return cancelled();
        }
        if reason == Reason::LetGo {
            return let_go();
        }
        Problem::error("40001", format!("no replica came in time to what the statement must see: {reason}"))
            .hint("Run it again, or choose a level with SET consort.consistency at which it may see less.")
    }
}

/// What a client hears whose reads have held a refresh back for as long as they may.
pub(super) fn let_go() -> Problem {
    Problem::error("40001", "what was read kept its replica from the latest state for too long").hint(
        "Run the transaction again. It may read for half of wait_limit while there is something new; SET \
         consort.consistency = 'primary' has statements read at the primary.",
    )
}
