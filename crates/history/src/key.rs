//! The identity of a row, in one canonical form.

use std::fmt;

/// A row's primary key, hashed from its canonical form. Two equal keys have equal hashes; two keys with the same hash
/// are taken for one row, which can only make a footprint larger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    /// The key with this hash.
    pub const fn new(hash: u64) -> Key {
        Key(hash)
    }

    /// The hash.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:x}", self.0)
    }
}

/// Builds a [`Key`] from the canonical values of the key's columns, in the order of the primary key's index.
///
/// Which types have one canonical form is `analysis`' knowledge; both sides, the decoded row and the statement, must go
/// through the same calls: `integer` for int2, int4 and int8, `bytes` for text with a deterministic collation, uuid (16
/// bytes), bytea and the rest.
#[derive(Clone, Copy, Debug)]
pub struct KeyBuilder(u64);

impl Default for KeyBuilder {
    fn default() -> Self {
        KeyBuilder(0x9E37_79B9_7F4A_7C15)
    }
}

impl KeyBuilder {
    /// Adds an integer of any width.
    #[must_use]
    pub fn integer(self, value: i64) -> KeyBuilder {
        self.word(1).word(value.cast_unsigned())
    }

    /// Adds a value by its bytes.
    #[must_use]
    pub fn bytes(self, value: &[u8]) -> KeyBuilder {
        let mut key = self.word(2).word(value.len() as u64);
        for chunk in value.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            key = key.word(u64::from_le_bytes(word));
        }
        key
    }

    /// The key of what was added.
    pub fn finish(self) -> Key {
        Key(mix(self.0))
    }

    fn word(self, word: u64) -> KeyBuilder {
        KeyBuilder(mix(self.0 ^ word).wrapping_mul(0x9FB2_1C65_1E98_DF25))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every output bit.
fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn parts_do_not_run_together() {
        let two = |a: &[u8], b: &[u8]| KeyBuilder::default().bytes(a).bytes(b).finish();
        assert_ne!(two(b"a", b"bc"), two(b"ab", b"c"));
        assert_ne!(two(b"", b"a"), two(b"a", b""));
        assert_eq!(two(b"a", b"bc"), two(b"a", b"bc"));
    }

    #[test]
    fn a_million_neighbours_do_not_collide() {
        let keys: BTreeSet<Key> = (0..1_000_000).map(|n| KeyBuilder::default().integer(n).finish()).collect();
        assert_eq!(keys.len(), 1_000_000);
    }
}
