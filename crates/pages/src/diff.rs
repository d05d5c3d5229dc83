//! The difference of two images of a page: runs of changed bytes, each as gap, length and bytes.
//!
//! ```text
//!    page     ....XX......YYY......................
//!    diff     4 2 XX | 6 3 YYY        gap since the end of the run before, length (varints), new bytes
//! ```

use crate::page::{PAGE_SIZE, Page};

/// Equal bytes between two changes that are shipped in one run, since a new run costs two bytes at least.
const MERGED_GAP: usize = 3;

/// Bytes that are compared at once where pages are equal.
const BLOCK: usize = 64;

/// Runs that turn `old` into `new`; empty when the images are equal.
pub(crate) fn encode(old: &Page, new: &Page) -> Vec<u8> {
    let mut runs = Vec::new();
    let mut end = 0;
    while let Some(start) = next_change(old, new, end) {
        let gap = start - end;
        end = run_end(old, new, start);
        varint(gap, &mut runs);
        varint(end - start, &mut runs);
        runs.extend_from_slice(&new[start..end]);
    }
    runs
}

/// The first byte at or after `from` that differs.
fn next_change(old: &Page, new: &Page, from: usize) -> Option<usize> {
    let mut at = from;
    while at < PAGE_SIZE {
        let stop = (at / BLOCK + 1) * BLOCK;
        if old[at..stop] != new[at..stop] {
            return (at..stop).find(|&byte| old[byte] != new[byte]);
        }
        at = stop;
    }
    None
}

/// The end of the run that starts at `start`: more than [`MERGED_GAP`] equal bytes follow, or the page ends.
fn run_end(old: &Page, new: &Page, start: usize) -> usize {
    let mut end = start + 1;
    for byte in start + 1..PAGE_SIZE {
        if old[byte] != new[byte] {
            end = byte + 1;
        } else if byte - end == MERGED_GAP {
            break;
        }
    }
    end
}

/// Changes `page` as the runs say. The runs were made by [`encode`] or passed [`is_valid`].
pub(crate) fn apply(runs: &[u8], page: &mut Page) {
    let mut rest = runs;
    let mut at = 0;
    while let Some((gap, length)) = run(&mut rest) {
        let (bytes, after) = rest.split_at(length);
        page[at + gap..at + gap + length].copy_from_slice(bytes);
        at += gap + length;
        rest = after;
    }
}

/// Whether the runs are whole, not empty, and stay inside of a page.
pub(crate) fn is_valid(runs: &[u8]) -> bool {
    let mut rest = runs;
    let mut at = 0;
    while let Some((gap, length)) = run(&mut rest) {
        at += gap + length;
        if length == 0 || at > PAGE_SIZE || length > rest.len() {
            return false;
        }
        rest = &rest[length..];
    }
    at > 0 && rest.is_empty()
}

/// Gap and length of the next run, taken from the front; nothing is taken at the end, or where they are cut short.
fn run(rest: &mut &[u8]) -> Option<(usize, usize)> {
    let mut ahead = *rest;
    let run = (read_varint(&mut ahead)?, read_varint(&mut ahead)?);
    *rest = ahead;
    Some(run)
}

/// Seven bits a byte, the lowest first; the top bit says that another byte follows. Numbers up to a page's size take two.
fn varint(number: usize, into: &mut Vec<u8>) {
    if number >= 0x80 {
        into.push((number & 0x7f) as u8 | 0x80);
    }
    into.push(if number >= 0x80 { (number >> 7) as u8 } else { number as u8 });
}

fn read_varint(rest: &mut &[u8]) -> Option<usize> {
    let (&low, after) = rest.split_first()?;
    *rest = after;
    if low < 0x80 {
        return Some(low.into());
    }
    let (&high, after) = rest.split_first()?;
    *rest = after;
    Some(usize::from(high) << 7 | usize::from(low & 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_of_random_pages_restores_the_new_page() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..2000 {
            let mut old = [0; PAGE_SIZE];
            random.fill(&mut old);
            let mut new = old;
            for _ in 0..random.usize(0..20) {
                let start = random.usize(0..PAGE_SIZE);
                let end =
                    (start + random.usize(1..=if round % 10 == 0 { PAGE_SIZE } else { 9 })).min(PAGE_SIZE);
                random.fill(&mut new[start..end]);
            }
            let runs = encode(&old, &new);
            assert_eq!(runs.is_empty(), old == new);
            assert!(runs.is_empty() || is_valid(&runs));
            apply(&runs, &mut old);
            assert!(old == new);
        }
    }

    #[test]
    fn close_changes_share_a_run() {
        let old = [0; PAGE_SIZE];
        let mut new = old;
        (new[10], new[14], new[PAGE_SIZE - 1]) = (1, 2, 3);
        assert_eq!(encode(&old, &new)[..7], [10, 5, 1, 0, 0, 0, 2]);
        new[15] = 1;
        new[20] = 1;
        assert_eq!(encode(&old, &new)[..8], [10, 6, 1, 0, 0, 0, 2, 1]);
    }

    #[test]
    fn runs_outside_of_the_page_are_invalid() {
        assert!(!is_valid(&[]), "no run");
        assert!(!is_valid(&[0, 0]), "an empty run");
        assert!(!is_valid(&[0, 2, 1]), "bytes are missing");
        assert!(!is_valid(&[0, 1, 1, 9]), "a run is cut short");
        assert!(!is_valid(&[0xff, 0x1f, 2, 1, 1]), "beyond the page");
        assert!(is_valid(&[0xff, 0x1f, 1, 1]), "the last byte");
    }
}
