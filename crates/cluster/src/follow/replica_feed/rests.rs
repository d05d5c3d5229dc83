//! Pauses between the copies of one replica: each copy costs as much as the database is large.

use super::Feeding;
use crate::Stage;
use crate::trouble::{LONGEST_PAUSE, RECONNECT_AFTER};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum pause before the next copy after failed ones: each costs as much as the database is large.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// Maximum ratio of that pause to the time that the last copy took, if it was completed.
const REST: u32 = 10;

/// Feed duration after which a copy counts as successful.
const WELL_FED: Duration = Duration::from_secs(60);

impl Feeding<'_> {
    /// Notes that the existing copy cannot be fed any more. Returns the pause before the next copy.
    pub(super) fn anew(&self, why: String) -> Duration {
        let replica = &self.setup.name;
        tracing::warn!(replica, database = self.database.name(), why, "copying the database again");
        self.cluster.fed_leaves(self.id, self.of);
        self.in_vain(why)
    }

    /// Notes that a copy failed, or became useless. Returns the pause before the next copy.
    pub(super) fn in_vain(&self, why: String) -> Duration {
        let (feeds, of, id) = (self.cluster.feeds(), self.of, self.id);
        if self.fed_since.get().is_some_and(|since| since.elapsed() > WELL_FED) {
            feeds.copied_well(of, id, why.clone());
            feeds.set_stage(of, id, Stage::Waiting(why));
            return RECONNECT_AFTER;
        }
        let copies = feeds.copied_in_vain(of, id, why.clone());
        let began = self.copies_since.get();
        let took = self.fed_since.get().zip(began).map(|(fed_since, began)| fed_since - began);
        let rest = rest_behind(copies, took);
        let said = match copies {
            1 => why,
            _ => format!("{why}; {copies} copies failed, the next one begins in {rest:?}"),
        };
        feeds.set_stage(of, id, Stage::Waiting(said));
        rest
    }

    /// Pauses, unless an operator gives a command, or there is nothing more to be done.
    pub(super) async fn rest(&self, pause: Duration) {
        let (cluster, until) = (self.cluster, Instant::now() + pause);
        while !cluster.stopping() && cluster.has(self.database) && cluster.is_here(self.id) {
            let left = until.saturating_duration_since(Instant::now());
            let told = tokio::time::timeout(left.min(LONGEST_PAUSE), cluster.replica_told(self.id)).await;
            if told.is_ok() || left <= LONGEST_PAUSE {
                return;
            }
        }
    }
}

/// Pause before the next copy after this many failed copies. `took`: duration of the last one, if it was completed and became
/// useless soon. A small database is copied again soon, however often DDL asks for it.
fn rest_behind(copies: u32, took: Option<Duration>) -> Duration {
    let rest = RECONNECT_AFTER.saturating_mul(2_u32.saturating_pow(copies.saturating_sub(1)));
    let bound =
        took.map_or(LONGEST_REST, |took| took.saturating_mul(REST).clamp(RECONNECT_AFTER, LONGEST_REST));
    rest.min(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_come_to_nothing_are_made_less_and_less_often() {
        let rests: Vec<_> = (1..40).map(|copies| rest_behind(copies, None)).collect();
        assert_eq!(rests[..3], [RECONNECT_AFTER, 2 * RECONNECT_AFTER, 4 * RECONNECT_AFTER]);
        assert!(rests.is_sorted() && rests.ends_with(&[LONGEST_REST]));
    }

    #[test]
    fn the_rest_is_bounded_by_the_time_of_a_completed_copy() {
        let rest = |seconds| rest_behind(12, Some(Duration::from_secs_f64(seconds)));
        assert_eq!([rest(0.0), rest(2.0)], [RECONNECT_AFTER, Duration::from_secs(20)]);
        assert_eq!(rest(3600.0), rest_behind(12, None));
    }
}
