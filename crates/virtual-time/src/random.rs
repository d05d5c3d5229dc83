//! Chance, from one seed.

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ 0x9E37_79B9_7F4A_7C15)
    }

    /// Any number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    /// A number below `bound` (which is not zero).
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in this many of a thousand cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of them.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        #[expect(clippy::cast_possible_truncation, reason = "below the length")]
        let place = self.below(of.len() as u64) as usize;
        of[place]
    }
}
