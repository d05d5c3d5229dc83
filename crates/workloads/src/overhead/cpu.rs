//! CPU time of a process and its children, from `/proc`.
//!
//! The whole is taken from the scheduler's own count in nanoseconds (`schedstat` of every thread), the part in user mode
//! from `stat`, which counts in ticks of 10 ms: over seconds that is enough.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Sub;

/// CPU time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) user_us: u64,
    pub(crate) total_us: u64,
}

impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, before: Cpu) -> Cpu {
        Cpu {
            user_us: self.user_us.saturating_sub(before.user_us),
            total_us: self.total_us.saturating_sub(before.total_us),
        }
    }
}

/// `/proc` counts in ticks of a hundredth of a second on every architecture that Linux still runs on.
const TICK_US: u64 = 10_000;

/// Some fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// In ticks: own in user mode, own in the kernel, and the same of children that ended.
    user: u64,
    system: u64,
    ended_user: u64,
    ended_system: u64,
}

/// The process, and all that it and its children started and that still run.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = processes().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        tree.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

/// CPU time of the process trees, with their ended children.
///
/// The time of a process moves to its parent when the parent hears of its end. A reading during which a process ended may
/// have seen neither, so that the time of a whole run would be missing: it is read again.
pub(crate) fn used(roots: &[u32]) -> Cpu {
    undisturbed(|| roots.iter().flat_map(|&root| tree(root)).collect(), sum_of)
}

/// The sum over processes that were the same before and after it was taken.
fn undisturbed(mut trees: impl FnMut() -> Vec<u32>, mut sum_of: impl FnMut(&[u32]) -> Cpu) -> Cpu {
    let mut before = trees();
    loop {
        let sum = sum_of(&before);
        let after = trees();
        if before == after {
            return sum;
        }
        before = after;
    }
}

fn sum_of(pids: &[u32]) -> Cpu {
    let mut sum = Cpu::default();
    for &pid in pids {
        let Some(stat) = stat(pid) else { continue };
        let ended = (stat.ended_user + stat.ended_system) * TICK_US;
        sum.user_us += (stat.user + stat.ended_user) * TICK_US;
        sum.total_us += scheduled_us(pid).unwrap_or((stat.user + stat.system) * TICK_US) + ended;
    }
    sum
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    Some(stat(pid)?.parent)
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(line: &str) -> Option<Stat> {
    // The name stands in parentheses and may hold anything; fields count from 3 after it.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(field(4)?).ok()?,
        user: field(14)?,
        system: field(15)?,
        ended_user: field(16)?,
        ended_system: field(17)?,
    })
}

fn scheduled_us(pid: u32) -> Option<u64> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(nanoseconds / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 2 3 4 50 60 70 80 20 0 1 0 5";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat, Stat { parent: 3, user: 50, system: 60, ended_user: 70, ended_system: 80 });
    }

    #[test]
    fn a_process_that_ends_while_it_is_read_is_not_lost() {
        // Process 2 ends after its parent was read and before it is itself.
        let mut trees = [vec![1, 2], vec![1], vec![1]].into_iter();
        let mut sums = [0, 70].into_iter();
        let sum =
            undisturbed(|| trees.next().unwrap(), |_| Cpu { user_us: 0, total_us: sums.next().unwrap() });
        assert_eq!(sum.total_us, 70);
    }

    #[test]
    fn work_is_counted() {
        let own = [std::process::id()];
        let before = used(&own);
        let mut sum = 0_u64;
        while (used(&own) - before).total_us < 20_000 {
            sum = (0..100_000_u64).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
        }
        assert!(sum != 1);
        assert_eq!(tree(std::process::id())[0], std::process::id());
    }
}
