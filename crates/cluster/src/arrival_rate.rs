//! Rates of arrival, and the time that a remainder will take.

use std::time::Duration;

/// Bytes and the time in which they came. Older samples count less and less, the same if time passes at once
/// or in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Time after which older samples count for a third (1/e).
    window: Duration,
    bytes: f64,
    seconds: f64,
}

impl Pace {
    /// Returns a pace without samples.
    pub(crate) fn over(window: Duration) -> Pace {
        Pace { window, bytes: 0.0, seconds: 0.0 }
    }

    /// Adds bytes that arrived evenly over a time.
    pub(crate) fn add(&mut self, bytes: u64, time: Duration) {
        let (window, time) = (self.window.as_secs_f64(), time.as_secs_f64());
        let stays = (-time / window).exp();
        // Some of this time is long past by now, and with it the arrivals of then.
        let counts = window * (1.0 - stays);
        let share = if counts > 0.0 { counts / time } else { 1.0 };
        self.bytes = self.bytes * stays + bytes as f64 * share;
        self.seconds = self.seconds * stays + counts;
    }

    /// Bytes per second; 0 if nothing was ever added.
    pub(crate) fn per_second(self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }
}

/// Seconds of measured work before a rate is reported.
const ENOUGH_S: f64 = 0.5;

/// Averaging window of the work rate.
const WORK_WINDOW: Duration = Duration::from_secs(5);

/// Work rate of a worker that always has enough to do. Initial costs (connections, plans, cold caches) are
/// not counted: the time runs from one finished part to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pace: Pace,
    last: Option<Duration>,
}

impl Default for Work {
    fn default() -> Work {
        Work { pace: Pace::over(WORK_WINDOW), last: None }
    }
}

impl Work {
    /// Notes that there is no work for now: the time until there is more does not count.
    pub(crate) fn pause(&mut self) {
        self.last = None;
    }

    /// Notes that a part of these bytes is done at this time (since a moment that is always the same one).
    pub(crate) fn done(&mut self, bytes: u64, now: Duration) {
        if let Some(last) = self.last.replace(now) {
            self.pace.add(bytes, now.saturating_sub(last));
        }
    }

    /// Bytes per second; `None` as long as too little is known.
    pub(crate) fn per_second(self) -> Option<f64> {
        (self.pace.seconds >= ENOUGH_S).then(|| self.pace.per_second())
    }
}

/// Estimated time for these bytes at this rate per second, while others arrive. `None` if the rate is
/// unknown, or if the work would never end.
pub(crate) fn time_for(bytes: u64, per_second: Option<f64>, arriving: f64) -> Option<Duration> {
    if bytes == 0 {
        return Some(Duration::ZERO);
    }
    let gains = per_second? - arriving;
    if gains > 0.0 { Duration::try_from_secs_f64(bytes as f64 / gains).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_long_ago_counts_for_less_and_less() {
        let mut pace = Pace::over(Duration::from_secs(5));
        assert!(pace.per_second() <= 0.0);
        pace.add(100, Duration::from_secs(1));
        pace.add(200, Duration::from_secs(2));
        assert!((pace.per_second() - 100.0).abs() < 1e-9);
        (0..10).for_each(|_| pace.add(1000, Duration::from_secs(1)));
        assert!((800.0..1000.0).contains(&pace.per_second()), "{pace:?}");
        pace.add(0, Duration::from_secs(1000));
        assert!(pace.per_second() < 5.0);
    }

    #[test]
    fn silence_counts_the_same_at_once_and_in_pieces() {
        let mut once = Pace::over(Duration::from_secs(1));
        once.add(1000, Duration::from_secs(1));
        let mut often = once;
        once.add(0, Duration::from_secs(3));
        (0..300).for_each(|_| often.add(0, Duration::from_millis(10)));
        assert!((once.per_second() - often.per_second()).abs() < 1e-6, "{once:?} {often:?}");
        assert!(once.per_second() < 50.0, "who was silent for three windows is hardly there: {once:?}");
        once.add(7, Duration::ZERO);
        assert!(once.per_second() > often.per_second(), "what takes no time counts whole");
    }

    #[test]
    fn a_slow_start_and_pauses_say_nothing_of_how_quickly_one_works() {
        let mut work = Work::default();
        let at = Duration::from_millis;
        work.done(1000, at(30_000));
        work.done(50, at(30_250));
        assert_eq!(work.per_second(), None, "a quarter of a second is too little");
        work.done(150, at(31_000));
        assert!(work.per_second().is_some_and(|pace| (pace - 200.0).abs() < 1e-9), "{work:?}");
        work.pause();
        work.done(100, at(90_000));
        work.done(100, at(90_500));
        assert!(work.per_second().is_some_and(|pace| (pace - 200.0).abs() < 1e-9), "{work:?}");
    }

    #[test]
    fn what_is_left_takes_longer_when_more_arrives() {
        assert_eq!((time_for(0, None, 9.0), time_for(1, None, 0.0)), (Some(Duration::ZERO), None));
        assert_eq!(time_for(1000, Some(100.0), 0.0), Some(Duration::from_secs(10)));
        assert_eq!(time_for(1000, Some(100.0), 50.0), Some(Duration::from_secs(20)));
        assert_eq!(time_for(1000, Some(100.0), 100.0), None, "it never ends");
    }
}
