//! Pauses between the copies of one replica: each copy costs as much as the database is large.

use crate::trouble::RECONNECT_AFTER;
use std::time::Duration;

/// Maximum pause before the next copy after failed ones: each costs as much as the database is large.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// Maximum ratio of that pause to the time that the last copy took, if it was completed.
const REST: u32 = 10;

/// Feed duration after which a copy counts as successful.
pub(super) const WELL_FED: Duration = Duration::from_secs(60);

/// Pause before the next copy after this many failed copies. `took`: duration of the last one, if it was completed and became
/// useless soon. A small database is copied again soon, however often DDL asks for it.
pub(super) fn rest_behind(copies: u32, took: Option<Duration>) -> Duration {
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
