//! Chance that several workloads want: numbers between bounds, texts, and Zipf's law.

use fastrand::Rng;

const LETTERS_AND_DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A number between two, both of which it may be.
pub fn within(chance: &mut Rng, least: i32, most: i32) -> i32 {
    chance.i32(least..=most)
}

/// A text of random characters and digits, of a length between two.
pub fn letters_and_digits(chance: &mut Rng, least: usize, most: usize) -> String {
    let length = chance.usize(least..=most);
    (0..length).map(|_| char::from(LETTERS_AND_DIGITS[chance.usize(0..LETTERS_AND_DIGITS.len())])).collect()
}

/// A text of digits.
pub fn digits(chance: &mut Rng, length: usize) -> String {
    (0..length).map(|_| chance.digit(10)).collect()
}

/// Zipf's law: rank k of n, counted from 0, has a probability in proportion to 1 / (k + 1)^theta; any theta
/// from 0, also 1.
///
/// Drawn by rejection-inversion (Hoermann and Derflinger, ACM TOMACS 6(3), 1996): in constant time and without sums over all
/// ranks, so that n may grow while a run goes on.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    theta: f64,
    ranks: f64,
    at_first: f64,
    at_last: f64,
    surely: f64,
}

impl Zipf {
    #[expect(clippy::cast_precision_loss, reason = "ranks are far fewer than 52 bits")]
    /// Zipf's law for ranks from 0 to `ranks` - 1, with exponent `theta`.
    pub fn new(ranks: u64, theta: f64) -> Zipf {
        let ranks = ranks.max(1) as f64;
        let mut zipf = Zipf { theta, ranks, at_first: 0.0, at_last: 0.0, surely: 0.0 };
        zipf.at_first = zipf.area(1.5) - 1.0;
        zipf.at_last = zipf.area(ranks + 0.5);
        zipf.surely = 2.0 - zipf.inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// A rank, from 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between 1 and the ranks"
    )]
    pub fn draw(&self, chance: &mut Rng) -> u64 {
        loop {
            let area = self.at_last + chance.f64() * (self.at_first - self.at_last);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.surely || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    /// The integral of the height.
    fn area(&self, x: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { area.exp() } else { (1.0 + area * power).max(0.0).powf(1.0 / power) }
    }
}

/// Spreads ranks over all numbers, so that the popular ones do not lie side by side: FNV-1a over the eight bytes.
pub fn scrambled(rank: u64) -> u64 {
    rank.to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws so often and compares the first ranks with their share.
    fn follows_the_law(ranks: u64, theta: f64) {
        let (zipf, mut chance) = (Zipf::new(ranks, theta), Rng::with_seed(3));
        let draws = 200_000;
        let mut counts = vec![0_f64; usize::try_from(ranks).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(zipf.draw(&mut chance)).unwrap()] += 1.0;
        }
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-theta);
        let all: f64 = (0..counts.len()).map(weight).sum();
        for rank in [0, 1, 2, 9, 99].into_iter().filter(|&rank| rank < counts.len()) {
            let expected = f64::from(draws) * weight(rank) / all;
            let off = (counts[rank] - expected).abs();
            assert!(
                off < 5.0 * expected.sqrt() + 1.0,
                "theta {theta} rank {rank}: {} of {expected}",
                counts[rank]
            );
        }
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 2.0] {
            follows_the_law(1000, theta);
            follows_the_law(1, theta);
        }
    }

    #[test]
    fn scrambling_spreads_neighbours() {
        let places: std::collections::BTreeSet<u64> = (0..100).map(|rank| scrambled(rank) % 1000).collect();
        assert!(places.len() > 80 && places.iter().any(|&place| place > 900));
    }
}
