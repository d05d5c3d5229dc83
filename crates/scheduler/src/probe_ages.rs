//! Send times of snapshot probes, for reads that may be old by a bounded time. No clock is read: the caller
//! gives the time.

use history::Lsn;
use order::GaugeNumber;
use std::collections::VecDeque;
use std::time::Duration;

/// Minimum distance between remembered snapshot probes (the newest is always kept).
const SPACING: Duration = Duration::from_millis(5);
/// Maximum number of remembered probes: five seconds' worth. A bound that reaches further back uses the
/// oldest that is known.
const MAX_LOOKS: usize = 1024;

/// End of the primary's WAL at each time.
///
/// Invariants: times ascend; never more than [`MAX_LOOKS`].
#[derive(Debug, Default)]
pub(crate) struct Ages {
    sent: Option<(GaugeNumber, Duration)>,
    looks: VecDeque<(Duration, Lsn)>,
}

impl Ages {
    pub(crate) fn sent(&mut self, number: GaugeNumber, now: Duration) {
        self.sent = Some((number, now));
    }

    pub(crate) fn answered(&mut self, number: GaugeNumber, insert_lsn: Lsn) {
        let Some((_, at)) = self.sent.take_if(|(sent, _)| *sent == number) else { return };
        if self.looks.back().is_some_and(|(last, _)| *last > at) {
            return;
        }
        let close = |older: usize| self.looks.get(older).is_some_and(|(before, _)| at - *before < SPACING);
        if self.looks.len() >= 2 && close(self.looks.len() - 2) {
            self.looks.pop_back();
        }
        self.looks.push_back((at, insert_lsn));
        if self.looks.len() > MAX_LOOKS {
            self.looks.pop_front();
        }
    }

    /// A standby that has replayed to here shows all that the primary showed at some time not longer than
    /// `bound` ago.
    pub(crate) fn within(&self, now: Duration, bound: Duration) -> Option<Lsn> {
        let first = self.looks.partition_point(|(at, _)| *at + bound < now);
        self.looks.get(first).map(|(_, lsn)| *lsn)
    }

    /// True if a new probe should be taken, so that reads with this bound go on finding one.
    pub(crate) fn stale(&self, now: Duration, bound: Duration) -> bool {
        self.looks.back().is_none_or(|(at, _)| *at + bound / 2 < now)
    }

    pub(crate) fn clear(&mut self) {
        *self = Ages::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_oldest_within_the_bound_is_asked_for_and_the_number_is_bounded() {
        let mut ages = Ages::default();
        for n in 1..=100_000 {
            ages.sent(GaugeNumber::new(n), ms(n));
            ages.answered(GaugeNumber::new(n), Lsn::new(n));
            assert!(ages.looks.len() <= MAX_LOOKS);
        }
        let found = ages.within(ms(100_000), ms(100)).unwrap().get();
        assert!((99_900..99_910).contains(&found), "{found}");
        assert_eq!(ages.within(ms(100_000), ms(0)), Some(Lsn::new(100_000)));
        assert_eq!(ages.within(ms(100_200), ms(100)), None);
        assert!(ages.stale(ms(100_060), ms(100)) && !ages.stale(ms(100_040), ms(100)));
        assert!(ages.within(ms(100_000), ms(90_000)).is_some(), "the oldest known serves a longer bound");
    }

    #[test]
    fn an_answer_counts_from_its_sending() {
        let mut ages = Ages::default();
        ages.sent(GaugeNumber::new(1), ms(10));
        ages.answered(GaugeNumber::new(2), Lsn::new(9));
        assert_eq!(ages.within(ms(10), ms(5)), None, "another gauge's answer");
        ages.answered(GaugeNumber::new(1), Lsn::new(7));
        assert_eq!(ages.within(ms(15), ms(5)), Some(Lsn::new(7)));
        assert_eq!(ages.within(ms(16), ms(5)), None);
    }
}
