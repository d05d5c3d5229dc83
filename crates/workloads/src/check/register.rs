//! One row, written and read by single statements, each write answered with the version it made (a counter in the same
//! row). With the versions known, linearizability is a sweep: versions never run against real time.

use std::collections::BTreeMap;

/// One statement on the row, answered. Times are of one clock for all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Time at which its first byte was sent.
    pub began: u64,
    /// Time of its answer.
    pub ended: u64,
    /// The version that the write made or the read saw.
    pub version: i64,
    /// The value that the write wrote or the read saw.
    pub value: i64,
    /// True if it wrote.
    pub wrote: bool,
}

/// Fault of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterFault {
    /// Two writes made one version.
    VersionTwice(Access, Access),
    /// A read saw a version with another value than the write of that version wrote.
    WrongValue(Access, Access),
    /// The second began after the first had ended, and yet its version is lower (for a write: not higher).
    Backwards(Access, Access),
}

/// Finds all that contradicts a linearizable register. Writes of unknown outcome are left out by the caller: a version
/// that no write claims may be read, in order.
#[must_use]
pub fn check_register(accesses: &[Access]) -> Vec<RegisterFault> {
    let mut faults = Vec::new();
    let mut writes = BTreeMap::<i64, Access>::new();
    for access in accesses.iter().filter(|access| access.wrote) {
        if let Some(before) = writes.insert(access.version, *access) {
            faults.push(RegisterFault::VersionTwice(before, *access));
        }
    }
    for read in accesses.iter().filter(|access| !access.wrote) {
        if let Some(write) = writes.get(&read.version).filter(|write| write.value != read.value) {
            faults.push(RegisterFault::WrongValue(*write, *read));
        }
    }
    let mut begins = accesses.to_vec();
    begins.sort_by_key(|access| access.began);
    let mut ends = accesses.to_vec();
    ends.sort_by_key(|access| access.ended);
    let mut ends = ends.into_iter().peekable();
    let mut newest: Option<Access> = None;
    for access in begins {
        while let Some(ended) = ends.next_if(|ended| ended.ended < access.began) {
            if newest.is_none_or(|newest| newest.version < ended.version) {
                newest = Some(ended);
            }
        }
        let Some(newest) = newest else { continue };
        if access.version < newest.version || (access.wrote && access.version == newest.version) {
            faults.push(RegisterFault::Backwards(newest, access));
        }
    }
    faults
}
