//! Times at which the primary's WAL ended at each position: the base of a standby's lag in time. The times
//! are this process' own; no server's clock is asked.

use history::Lsn;
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of remembered positions. Above it every second one is forgotten, and the lag of a standby
/// that lags far is coarser.
const MAX_PLACES: usize = 512;

/// Ends of the WAL, the oldest first, each with the time at which it was first seen.
#[derive(Debug, Default)]
pub(super) struct Written {
    places: VecDeque<(Duration, Lsn)>,
}

impl Written {
    /// Notes that the WAL ends here now.
    pub(super) fn note(&mut self, now: Duration, end: Lsn) {
        if self.places.back().is_some_and(|(_, last)| *last >= end) {
            return;
        }
        if self.places.len() == MAX_PLACES {
            let mut place = 0;
            self.places.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
        self.places.push_back((now, end));
    }

    /// Time at which the WAL was first seen to go beyond this mark. `None` if it is not known to.
    pub(super) fn first_beyond(&self, mark: Lsn) -> Option<Duration> {
        let beyond = self.places.partition_point(|(_, end)| *end <= mark);
        self.places.get(beyond).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_begins_where_the_log_went_beyond_the_mark() {
        let mut written = Written::default();
        let (ms, lsn) = (Duration::from_millis, Lsn::new);
        assert_eq!(written.first_beyond(lsn(5)), None);
        for (at, end) in [(10, 100), (20, 100), (30, 200), (40, 300)] {
            written.note(ms(at), lsn(end));
        }
        assert_eq!(written.first_beyond(lsn(99)), Some(ms(10)));
        assert_eq!(written.first_beyond(lsn(100)), Some(ms(30)));
        assert_eq!(written.first_beyond(lsn(300)), None);
        for at in 1000..100_000 {
            written.note(ms(at), lsn(at));
        }
        assert!(written.places.len() <= MAX_PLACES);
        let oldest = written.first_beyond(lsn(99)).unwrap();
        assert_eq!(oldest, ms(10), "the oldest place stays");
    }
}
