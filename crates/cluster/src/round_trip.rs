//! Round-trip time of the smallest query at the primary, and the proof timeout that it justifies.
//!
//! A read that is not proven in time runs at the primary. A primary that is far away, or overloaded, would
//! make it wait there too, and delay all others: snapshot probes take longer, so fewer reads are proven in
//! time, so more of them run at the primary. So the proof timeout is at least the time of the two probes that
//! a proof needs: one that is on its way, and its own.

use std::cell::Cell;
use std::time::Duration;

/// Maximum ratio of a proof's wait to the configured limit.
const MOST: u32 = 20;

/// Number of consecutive snapshot probes that a proof may have to wait for.
const LOOKS: u32 = 2;

/// Round trips to the primary: their smoothed mean and deviation, and a bound that hardly any exceeds, as TCP
/// has it for its retransmission timer (RFC 6298, 2).
#[derive(Debug, Default)]
pub(crate) struct RoundTrip {
    /// Mean and deviation; `None` before the first sample.
    smoothed: Cell<Option<(Duration, Duration)>>,
}

impl RoundTrip {
    /// Notes the time that a probe took.
    pub(crate) fn took(&self, time: Duration) {
        let smoothed = match self.smoothed.get() {
            None => (time, time / 2),
            Some((mean, deviation)) => ((mean * 7 + time) / 8, (deviation * 3 + mean.abs_diff(time)) / 4),
        };
        self.smoothed.set(Some(smoothed));
    }

    /// Proof timeout, where `usual` is the configured one.
    pub(crate) fn proof_timeout(&self, usual: Duration) -> Duration {
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
        round_trip.proof_timeout(USUAL).as_millis()
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
