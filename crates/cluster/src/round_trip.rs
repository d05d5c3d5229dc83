//! How long the primary takes for the least question, and so how long the proof of a read is worth waiting for.
//!
//! A read that is not proven in time runs at the primary. Where that is far away, or has too much to do, it would wait there
//! too, and make all others wait longer: looks at the primary come later, so fewer reads are proven in time, so more of them come.
//! So a proof is waited for at least as long as the looks take that it needs: one that is on its way, and its own.

use std::cell::Cell;
use std::time::Duration;

/// A proof is waited for at most so many times the limit that is set.
const MOST: u32 = 20;

/// The looks that a proof may have to wait for, one behind the other.
const LOOKS: u32 = 2;

/// Round trips to the primary: their smoothed mean and deviation, and what hardly any exceeds, as TCP has it for its
/// retransmission timer (RFC 6298, 2).
#[derive(Debug, Default)]
pub(crate) struct RoundTrip {
    /// Mean and deviation; `None` before the first.
    smoothed: Cell<Option<(Duration, Duration)>>,
}

impl RoundTrip {
    /// A look was answered after this time.
    pub(crate) fn took(&self, time: Duration) {
        let smoothed = match self.smoothed.get() {
            None => (time, time / 2),
            Some((mean, deviation)) => ((mean * 7 + time) / 8, (deviation * 3 + mean.abs_diff(time)) / 4),
        };
        self.smoothed.set(Some(smoothed));
    }

    /// How long a proof is waited for, where `usual` is what is set.
    pub(crate) fn proof_limit(&self, usual: Duration) -> Duration {
        let (mean, deviation) = self.smoothed.get().unwrap_or_default();
        ((mean + deviation * 4) * LOOKS).clamp(usual, usual * MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Duration = Duration::from_millis(5);

    fn limit_ms(looks_ms: &[u64]) -> u128 {
        let round_trip = RoundTrip::default();
        looks_ms.iter().for_each(|&ms| round_trip.took(Duration::from_millis(ms)));
        round_trip.proof_limit(USUAL).as_millis()
    }

    #[test]
    fn a_proof_is_waited_for_as_long_as_its_looks_take() {
        assert_eq!(limit_ms(&[]), 5);
        assert_eq!(limit_ms(&[1; 100]), 5, "a quick primary leaves what is set");
        assert_eq!(limit_ms(&[10; 100]), 20, "two looks of one that is far away");
        assert!((80..=100).contains(&limit_ms(&[1, 40].repeat(50))), "what varies counts with its deviation");
        assert_eq!(limit_ms(&[3_000; 100]), 100, "never more than twenty times what is set");
        assert_eq!(limit_ms(&[[3_000; 9].as_slice(), &[1; 100]].concat()), 5, "what was is forgotten");
    }
}
