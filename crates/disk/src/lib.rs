//! Files, folders and syncs. This crate is the only place that syncs anything, and it does nothing else with files than
//! a ledger needs: writing at an offset, reading at an offset, syncing, and making, naming, removing and listing files.
//!
//! Each operation that changes something takes the name of its **fault point**, such as `ledger.sync`. A test gives the
//! [`Disk`] its [`Faults`] and says what happens at a name: the operation fails, writes a part, waits, or stops until the
//! test lets it go on. A disk without faults looks at no name.
//!
//! Faults also have a [text form](Faults#impl-FromStr-for-Faults), for processes that a test or a benchmark starts:
//! `ledger.sync=delay:8` is a slow disk.
//!
//! A disk with faults also knows which writes have not been synced, and can [lose](Faults::lose_power) an arbitrary part
//! of them, by sectors of 512 bytes, as a machine does that loses power.
//!
//! A disk of [faults in memory](Faults::in_memory) makes no system call: simulations run thousands of lives of a ledger on
//! it.
//!
//! # Invariants
//!
//! - A returned [`File::sync`] means that everything written to the file before is on the disk, with its length.
//! - A failed sync means that nothing is known of what was written since the sync before; to sync again proves nothing,
//!   since the system may have dropped what it could not write. Callers stop.
//! - A created, renamed or removed file is on the disk when its folder was synced by [`Disk::sync_folder`].
//!
//! Syncs are the C library's `fsync` and `fdatasync`: a library that is loaded before it (`LD_PRELOAD`) and delays them, as
//! that of the benchmarks does, delays these too.

mod faults;
mod file;
mod folder;
mod memory;
mod plan;
mod power;

pub use faults::{Fault, Faults, Hold};
pub use file::File;
pub use folder::Lock;
pub use plan::ParseFaultsError;

/// The name of a place where a test can make an operation fail: a crate and an operation, as `ledger.sync`.
pub type Point = &'static str;

/// The way to files. Clones share their faults.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    faults: Option<Faults>,
}

impl Disk {
    /// The machine's files as they are.
    #[must_use]
    pub fn new() -> Disk {
        Disk::default()
    }

    /// The machine's files, with what a test makes happen to them.
    #[must_use]
    pub fn with_faults(faults: &Faults) -> Disk {
        Disk { faults: Some(faults.clone()) }
    }
}
