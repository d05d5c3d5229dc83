//! Load of the whole machine, by any process: from `/proc/stat`.

use std::fs;

/// Ticks of all cores together since the machine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy {
    idle: u64,
    all: u64,
}

impl Busy {
    /// The present state; if the system does not report it, nothing is busy.
    pub(super) fn now() -> Self {
        fs::read_to_string("/proc/stat").map(|text| Self::of(&text)).unwrap_or_default()
    }

    fn of(text: &str) -> Self {
        // cpu user nice system idle iowait irq softirq steal guest guest_nice; guests are in user and nice already.
        let ticks: Vec<u64> = text
            .lines()
            .find_map(|line| line.strip_prefix("cpu "))
            .map(|line| line.split_whitespace().take(8).filter_map(|tick| tick.parse().ok()).collect())
            .unwrap_or_default();
        Self { idle: ticks.iter().skip(3).take(2).sum(), all: ticks.iter().sum() }
    }

    /// The part of the time between two looks in which cores worked, 0 to 1.
    pub(super) fn until(self, later: &Self) -> f64 {
        let (idle, all) = (later.idle.saturating_sub(self.idle), later.all.saturating_sub(self.all));
        if all == 0 { 0.0 } else { 1.0 - idle as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_guests_count_once() {
        let before = Busy::of("cpu  100 0 50 800 50 0 0 0 100 0\ncpu0 1 1 1 1\n");
        assert_eq!(before, Busy { idle: 850, all: 1000 });
        let after = Busy::of("cpu  160 0 65 820 55 0 0 0 900 0\n");
        assert!((before.until(&after) - 0.75).abs() < 1e-9);
        assert!(before.until(&before) == 0.0 && Busy::of("nothing") == Busy::default());
    }
}
