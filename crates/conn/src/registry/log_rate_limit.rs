//! Rate limit for log lines that clients can cause from outside: a number per period. The others are counted.

use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of lines per period.
const LINES: u32 = 10;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(10);

/// Invariant: `said <= LINES`.
#[derive(Debug, Default)]
pub struct Sparing {
    since: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Sparing {
    /// Decides if one more line may be written now. Returns the number of lines suppressed since the last one
    /// that was written.
    pub fn may(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= PERIOD) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said == LINES {
            self.unsaid += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_ten_lines_in_a_period_and_the_rest_is_counted() {
        let (mut sparing, begin) = (Sparing::default(), Instant::now());
        let said = (0..1000).filter(|_| sparing.may(begin) == Some(0)).count();
        assert_eq!(said, 10);
        assert_eq!(sparing.may(begin + PERIOD), Some(990));
        assert_eq!(sparing.may(begin + PERIOD), Some(0));
    }
}
