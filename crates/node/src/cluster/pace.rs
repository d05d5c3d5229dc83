//! How quickly something goes, by what it did of late, and how long what is left will take.

use std::time::Duration;

/// So much time is remembered, what is older less and less.
const WINDOW_S: f64 = 5.0;

/// Bytes and the time that they took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    bytes: f64,
    seconds: f64,
}

impl Pace {
    /// So many bytes in so long a time.
    pub(crate) fn add(&mut self, bytes: u64, time: Duration) {
        let stays = (WINDOW_S / (self.seconds + time.as_secs_f64())).min(1.0);
        self.bytes = (self.bytes + bytes as f64) * stays;
        self.seconds = (self.seconds + time.as_secs_f64()) * stays;
    }

    /// Bytes in a second; 0 if nothing was ever added.
    pub(crate) fn per_second(self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }

    /// How long so many bytes are going to take while others arrive, so many in a second; `None` if nothing is known, or if they
    /// would never end.
    pub(crate) fn time_for(self, bytes: u64, arriving: f64) -> Option<Duration> {
        let gains = self.per_second() - arriving;
        match bytes {
            0 => Some(Duration::ZERO),
            _ if gains <= 0.0 => None,
            _ => Duration::try_from_secs_f64(bytes as f64 / gains).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_the_like_of_it_took_of_late() {
        let mut pace = Pace::default();
        assert_eq!((pace.time_for(0, 9.0), pace.time_for(1, 0.0)), (Some(Duration::ZERO), None));
        pace.add(100, Duration::from_secs(1));
        pace.add(200, Duration::from_secs(2));
        assert_eq!(pace.time_for(1000, 0.0), Some(Duration::from_secs(10)));
        assert_eq!(pace.time_for(1000, 50.0), Some(Duration::from_secs(20)));
        assert_eq!(pace.time_for(1000, 100.0), None, "it never ends");
        // What was long ago counts for less and less.
        (0..10).for_each(|_| pace.add(1000, Duration::from_secs(1)));
        assert!((800.0..1000.0).contains(&pace.per_second()), "{pace:?}");
        pace.add(0, Duration::from_secs(1000));
        assert!(pace.per_second() < 5.0);
    }
}
