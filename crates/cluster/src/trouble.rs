//! Retries of the loops in `follow`: time limits, pauses, and the choice of errors that are logged again.

use postgres::Error;
use std::time::Duration;

/// Pause of a loop before it connects again to a server that refused.
pub const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// Maximum pause before the next attempt after an error that no retry cures.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum time for the answer to a trivial query, after which a server counts as dead.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_millis(900);

/// The answer, or an error when the server hangs (a stopped process closes no socket).
pub async fn answered<T>(
    question: impl Future<Output = Result<T, postgres::Error>>,
) -> Result<T, postgres::Error> {
    match tokio::time::timeout(ANSWER_LIMIT, question).await {
        Ok(answer) => answer,
        Err(_) => {
            Err(postgres::Error::Unreachable(format!("no answer within {} ms", ANSWER_LIMIT.as_millis())))
        }
    }
}

/// State of a loop that fails repeatedly. A new reason is logged. An error that no retry cures is retried
/// less and less often.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    said: String,
    in_vain: u32,
}

impl Trouble {
    /// Notes a failure with its reason, after a time of work. Returns true if it should be logged, and the
    /// pause before the next attempt.
    pub(crate) fn met(&mut self, why: &str, error: &Error, worked: Duration) -> (bool, Duration) {
        if worked > LONGEST_PAUSE {
            *self = Trouble::default();
        }
        let is_new = self.said != why;
        if is_new {
            *self = Trouble { said: why.to_owned(), in_vain: 0 };
        }
        if matches!(error, Error::Unreachable(_) | Error::NotReady(_)) {
            return (is_new, RECONNECT_AFTER);
        }
        let pause = RECONNECT_AFTER.saturating_mul(2_u32.saturating_pow(self.in_vain)).min(LONGEST_PAUSE);
        self.in_vain += 1;
        (is_new, pause)
    }
}

/// A task that ends with its owner.
pub(crate) struct Task(pub(crate) tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_retry_cures_is_said_once_and_tried_less_and_less_often() {
        let (mut trouble, none) = (Trouble::default(), Duration::ZERO);
        let (refused, away) = (Error::Setup("refused".to_owned()), Error::NotReady("away".to_owned()));
        let tries: Vec<_> = (0..7).map(|_| trouble.met("refused", &refused, none)).collect();
        assert_eq!(tries[0], (true, RECONNECT_AFTER));
        assert_eq!(tries[1], (false, 2 * RECONNECT_AFTER));
        assert_eq!(tries[6], (false, LONGEST_PAUSE));
        assert!(tries.is_sorted_by(|one, next| one.1 <= next.1));
        assert_eq!(trouble.met("away", &away, none), (true, RECONNECT_AFTER));
        assert_eq!(trouble.met("away", &away, none), (false, RECONNECT_AFTER));
        assert_eq!(trouble.met("refused", &refused, none), (true, RECONNECT_AFTER));
        // A long success resets the pause.
        assert_eq!(trouble.met("refused", &refused, 2 * LONGEST_PAUSE), (true, RECONNECT_AFTER));
    }
}
