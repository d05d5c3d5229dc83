//! Names for temporary files and folders.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Returns a unique name for a temporary file or folder: `consort-<purpose>-<process>-<random>`.
pub fn unique_name(purpose: &str) -> String {
    // Each RandomState has keys of its own, from the system's random numbers.
    let random = RandomState::new().build_hasher().finish() >> 32;
    format!("consort-{purpose}-{}-{random:08x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ() {
        let names: BTreeSet<String> = (0..100).map(|_| unique_name("test")).collect();
        assert_eq!(names.len(), 100);
    }
}
