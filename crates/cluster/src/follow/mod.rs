//! The loops that run for ever: each follows one part of the cluster and reports its progress to the
//! scheduler.

pub(crate) mod backends;
mod base_backup_replica;
mod catalog_changes;
pub(crate) mod database;
pub(crate) mod extensions;
mod foreign_sessions;
pub(crate) mod leader_lease;
pub(crate) mod replica_feed;
pub(crate) mod replica_server;
pub(crate) mod roles;
mod sequences;
pub mod slots;
pub(crate) mod snapshot_probe;
pub(crate) mod standby;
pub(crate) mod standby_probe;

use history::Epoch;

/// Epoch of the primary, which does not change while this process lives.
pub(crate) const FIRST_EPOCH: Epoch = Epoch::new(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::{ANSWER_LIMIT, answered};
    use std::time::Duration;

    /// Time within which reads avoid a lost standby: the bound for a watcher.
    const LEFT_WITHIN: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_server_that_hangs_is_left_within_a_second() {
        let error = answered(std::future::pending::<Result<(), postgres::Error>>()).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 900 ms"), "{error}");
        // The standby may have hung right after its last answer.
        assert!(standby::IDLE_ROUND + ANSWER_LIMIT <= LEFT_WITHIN);
    }
}
