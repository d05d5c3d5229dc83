//! Decides if a read should wait for a standby that is about to replay what the read must see. Standbys lag
//! by a moment, or by far: the last wait decides which.

/// At most so many reads in a row go without a wait.
const MOST_SKIPPED: u32 = 255;

/// After a wait in vain twice as many reads as before go without one; after a wait that was not in vain, none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    to_skip: u32,
    skipped: u32,
}

impl Patience {
    /// Called if all standbys lag for a read: true if it should wait.
    pub(crate) fn try_now(&mut self) -> bool {
        let now = self.skipped >= self.to_skip;
        self.skipped = if now { 0 } else { self.skipped + 1 };
        now
    }

    /// Records the result of a wait.
    pub(crate) fn waited(&mut self, in_vain: bool) {
        self.to_skip = if in_vain { (2 * self.to_skip + 1).min(MOST_SKIPPED) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of `reads` that wait, if each wait ends so.
    fn waits(patience: &mut Patience, reads: u32, in_vain: bool) -> u32 {
        let mut waits = 0;
        for _ in 0..reads {
            if patience.try_now() {
                waits += 1;
                patience.waited(in_vain);
            }
        }
        waits
    }

    #[test]
    fn waits_in_vain_become_rare_and_one_that_was_not_ends_that() {
        let mut patience = Patience::default();
        assert_eq!(waits(&mut patience, 100, false), 100);
        assert_eq!(waits(&mut patience, 1_000, true), 10);
        assert_eq!(waits(&mut patience, 256 * 10, true), 10);
        assert!(waits(&mut patience, 256, false) >= 1);
        assert_eq!(waits(&mut patience, 100, false), 100);
    }
}
