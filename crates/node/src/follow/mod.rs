//! The loops that run for ever: each follows one part of the cluster and tells the scheduler how far it has come.

pub(crate) mod backends;
pub(crate) mod database;
pub(crate) mod gauge;
pub(crate) mod roles;
pub(crate) mod slots;
pub(crate) mod standby;

use history::Epoch;
use std::time::Duration;

/// The primary does not change while this process lives.
pub(crate) const FIRST_EPOCH: Epoch = Epoch::new(1);

/// How long a loop rests before it connects again to a server that refused.
pub(crate) const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// How long a server may take to answer a question that costs nothing before it is taken for dead.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_millis(900);

/// The answer, or an error when the server hangs (a stopped process closes no socket).
pub(crate) async fn answered<T>(
    question: impl Future<Output = Result<T, postgres::Error>>,
) -> Result<T, postgres::Error> {
    match tokio::time::timeout(ANSWER_LIMIT, question).await {
        Ok(answer) => answer,
        Err(_) => {
            Err(postgres::Error::Unreachable(format!("no answer within {} ms", ANSWER_LIMIT.as_millis())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a watcher waits for in all: its reads go elsewhere within a second.
    const LEFT_WITHIN: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_server_that_hangs_is_left_within_a_second() {
        let error = answered(std::future::pending::<Result<(), postgres::Error>>()).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 900 ms"), "{error}");
        // It may have begun to hang right behind its last answer.
        assert!(standby::IDLE_ROUND + ANSWER_LIMIT <= LEFT_WITHIN);
    }
}
