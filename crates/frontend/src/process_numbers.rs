//! Process numbers of clients with transaction or statement pooling. Such a client has no backend of its own,
//! so its number belongs to no process of the primary: `pg_terminate_backend()` and `kill` of it end no other
//! session.
//!
//! Successive processes in a take-over draw from different parts of the numbers. So a client that goes on in
//! the next process, or stays in the previous one, shares its number with no other client.

use conn::random;
use std::cell::Cell;

/// The largest number that Linux gives to a process (PID_MAX_LIMIT).
const KERNEL_MAX: u32 = 4 << 20;

/// Number of parts: this many successive processes draw from different ones.
const PARTS: u32 = 64;

/// Numbers in one part.
const NUMBERS: u32 = (i32::MAX.cast_unsigned() - KERNEL_MAX) / PARTS;

/// The numbers from which this process draws.
#[derive(Debug, Default)]
pub struct ProcessNumbers {
    part: Cell<u32>,
}

impl ProcessNumbers {
    /// A random number that no living client has.
    pub(crate) fn draw(&self, is_taken: impl Fn(i32) -> bool) -> i32 {
        loop {
            let place = random::below(NUMBERS) * PARTS + self.part.get();
            let number = (KERNEL_MAX + 1 + place).cast_signed();
            if !is_taken(number) {
                return number;
            }
        }
    }

    /// Returns the part for the successor process.
    pub fn next_part(&self) -> u32 {
        (self.part.get() + 1) % PARTS
    }

    /// Sets the part that the predecessor process has left.
    pub fn begin_at(&self, part: u32) {
        self.part.set(part % PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Numbers lie above all of the kernel's, differ within one process, and between processes that follow
    /// each other.
    #[test]
    fn process_numbers_are_no_process_and_no_other_client() {
        let (mut numbers, mut all) = (ProcessNumbers::default(), BTreeSet::new());
        for _ in 0..PARTS {
            for _ in 0..100 {
                let number = numbers.draw(|number| all.contains(&number));
                assert!(number > KERNEL_MAX.cast_signed(), "{number}");
                all.insert(number);
            }
            let next = ProcessNumbers::default();
            next.begin_at(numbers.next_part());
            assert_ne!(next.draw(|_| false) % 64, numbers.draw(|_| false) % 64);
            numbers = next;
        }
        assert_eq!(all.len(), 100 * PARTS as usize);
        let drawn = Cell::new(0);
        numbers.draw(|_| drawn.replace(drawn.get() + 1) < 2);
        assert_eq!(drawn.get(), 3, "a number that is taken is drawn again");
    }
}
