//! Summary of several runs of the same kind: the median, and their spread.

use serde::Serialize;
use std::fmt;

/// The middle of some figures, the least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// As many are less as are greater.
    pub(crate) median: f64,
    /// The least.
    pub(crate) least: f64,
    /// The greatest.
    pub(crate) most: f64,
}

impl Spread {
    /// The spread of figures; `None` without figures.
    #[must_use]
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (&least, &most) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            0 => f64::midpoint(figures[middle - 1], figures[middle]),
            _ => figures[middle],
        };
        Some(Spread { median, least, most })
    }

    /// The same with so many decimals.
    #[must_use]
    pub(crate) fn rounded(&self, decimals: usize) -> String {
        let Spread { median, least, most } = self;
        format!("{median:.decimals$} ({least:.decimals$} to {most:.decimals$})")
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rounded(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_between_the_extremes() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(
            Spread::of([4.0, 1.0]).map(|spread| spread.to_string()),
            Some("2.50 (1.00 to 4.00)".to_owned())
        );
        assert_eq!(Spread::of([]), None);
    }
}
