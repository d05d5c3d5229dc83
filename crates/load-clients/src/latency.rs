//! Latencies of statements: a histogram with three significant digits, from a microsecond to ten minutes.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Times of one kind of statement.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// The figures of a histogram, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Half of the statements took no longer.
    pub p50_us: u64,
    /// 99 of 100 statements took no longer.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let ten_minutes_us = 600_000_000;
        Latencies(Histogram::new_with_max(ten_minutes_us, 3).expect("the bounds are valid"))
    }
}

impl Latencies {
    /// Adds a statement.
    pub fn record(&mut self, took: Duration) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(microseconds);
    }

    /// Adds all of the other.
    pub fn merge(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("histograms of one shape add up");
    }

    /// The figures so far.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile: f64| self.0.value_at_quantile(quantile);
        Percentiles { p50_us: at(0.5), p99_us: at(0.99), max_us: self.0.max() }
    }
}
