//! Reads in shadow mode: a read runs at the primary before it is offloaded, and again before its answer is
//! delivered. Both runs use the session's own connection, so that a wrong assumption about the session shows,
//! too.

use super::Session;
use backend::standby::Answer;
use cluster::plan::Leaving;
use cluster::shadow;
use cluster::shadow::Compared;
use session_state::BlockStatus;
use transaction::Cluster as _;

/// The primary's answer from before a read was offloaded.
pub(super) struct Before {
    answer: Vec<u8>,
    order: Vec<usize>,
    chance: &'static str,
}

impl Session {
    /// Runs the read at the primary first, in shadow mode, so that a standby's answer is not older than that
    /// run.
    pub(super) async fn ask_before(&mut self, leaving: &mut Leaving) {
        let (Some(request), true) = (self.current.request, self.service.cluster.setup().shadow.is_some())
        else {
            return;
        };
        let answer = match self.at_home().await {
            Ok(()) => self.line.ask_aside(request).await,
            Err(ended) => Err(ended),
        };
        match answer {
            Ok(answer) => {
                leaving.question.now = self.service.cluster.now();
                self.current.there.before = Some(Before {
                    answer,
                    order: leaving.template.results.order.clone(),
                    chance: leaving.template.chance.map_or("", |chance| chance.name()),
                });
            }
            Err(ended) => {
                self.current.request = None;
                self.ended = Some(ended);
            }
        }
    }

    /// Waits, in shadow mode, for a catalog that is being read, no longer than for a proof. A test suite that
    /// changes the catalog all the time would otherwise have few offloaded reads.
    pub(super) async fn catalog_in_hand(&self) {
        let cluster = &self.service.cluster;
        if cluster.setup().shadow.is_none() || self.state.block() != BlockStatus::Idle {
            return;
        }
        let mut left = cluster.proof_timeout();
        while self.database.loaded().is_none() {
            match cluster.changed(left).await {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }

    /// Runs the read at the primary once more and compares the answers.
    ///
    /// # Errors
    /// No answer for the client is possible.
    pub(super) async fn compare(&mut self, before: &Before, answer: &Answer) -> Result<(), ()> {
        let Some(request) = self.current.request else { return Ok(()) };
        let after = match self.line.ask_aside(request).await {
            Ok(after) => after,
            Err(ended) => {
                self.ended = Some(ended);
                return Err(());
            }
        };
        let cluster = &self.service.cluster;
        let (Some(report), Some((standby, _, proof))) = (&cluster.setup().shadow, self.current.there.ran_at)
        else {
            return Ok(());
        };
        let verdict = if self.line.seat.running.is_cancelled() {
            // One of them may be the cancellation's.
            shadow::Verdict::Undecided
        } else {
            shadow::compare(&before.answer, answer.held(), &after, &before.order)
        };
        let standby = format!("{} {}", cluster.standby(standby).name, proof.name());
        let compared = Compared {
            database: self.database.name(),
            statement: &self.words.text,
            standby: &standby,
            chance: before.chance,
        };
        if let shadow::Verdict::Different(difference) = &verdict {
            tracing::warn!(
                statement = compared.statement,
                ?difference,
                "standby returned another result than the primary"
            );
        }
        report.note(&cluster.metrics().shadowed, compared, &verdict);
        Ok(())
    }
}
