//! The ledger is the durable sequence of records. A certified record that is in the ledger survives any loss of databases.
//!
//! A thread writes. It takes all records that wait, writes them with one write, and makes them durable with one sync
//! (group commit); while it syncs, the next group gathers. [`Ledger::append`] returns at once with a future that ends
//! when the record is durable. On a slow disk groups grow, and the records a second with them.
//!
//! ```text
//!    folder      00000000000000000001.ledger   00000000000000048211.ledger   lock
//!    segment     | header | 1 | 2 | 3 | ... | 48210 | zeros |
//!    record      | checksum 4 | length 4 | version 8 | synced 8 | payload | zeros up to 8 bytes |
//! ```
//!
//! A segment is a file that is named by its first version. Its sealed length is about [`Options::segment_size`]; a group
//! never spans two segments. `synced` is the newest version that was durable when the record was written: it tells
//! damage from a torn tail.
//!
//! # After a crash
//!
//! [`Ledger::open`] reads all records. The first place that holds no record, or a broken one, ends the ledger, if nothing
//! says that more was durable. This is a **torn tail**: the last group, whose sync never returned and which was never
//! acknowledged. The tail is cut off. If a later record says `synced` at or above the missing version, or a later segment exists, then a
//! durable record is **damaged**: `open` fails with [`Error::Damaged`] and the place, and changes nothing. Damage inside
//! the very last group looks like a torn tail. Records of the last group that are whole are written once more
//! and synced before `open` returns, since the page cache may hold what no sync has brought to the disk.
//!
//! # Invariants
//!
//! - `oldest <= durable <= newest`; versions have no gaps. The first record of an empty ledger may have any version.
//! - A future of `append` ends without error only when its record, and all records before it, are durable.
//! - After a failed write or sync nothing is written or synced any more: every future ends with [`Error::Failed`], and so
//!   does every later call. The process must stop; it finds out by `open` what is in the ledger.
//! - Records are forgotten by whole segments, oldest first. The newest segment stays, so that the newest version is known.
//! - One process has a folder open.
//!
//! # Cost
//!
//! An append copies the record and takes a lock: well under a microsecond of the caller's processor time, plus one wake-up
//! of the thread for a group. The example `appends` measures it, and the size of groups. Waiting records are bounded by
//! callers, each of which waits for its own; [`Counters::pending_bytes`] tells their sum. A caller that takes a version
//! before it appends compares the length with [`RECORD_LIMIT`] first: a version without a record ends the order.
//!
//! # Absent knowledge
//!
//! The ledger does not know what a record's bytes mean, what a certifier is, or which records a replica still needs.

mod counters;
mod epoch_file;
mod error;
mod progress;
mod queue;
mod reader;
mod record;
mod recovery;
mod segment;
mod versions_file;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use disk::{Disk, Lock};
use history::Version;

pub use counters::Counters;
pub use epoch_file::{epoch, read_epoch};
pub use error::Error;
pub use progress::Reached;
pub use reader::Reader;
pub use record::{RECORD_LIMIT, Record};
pub use versions_file::{Versions, read_versions, write_versions};
pub use writer::Steps;

use queue::Queue;
use segment::Segments;
use writer::Writer;

/// Settings of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment that has so many bytes gets no further group. Default 16 MiB.
    pub segment_size: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_size: 16 << 20 }
    }
}

/// Fault points of the ledger, as its [`Disk`] knows them.
pub mod points {
    use disk::Point;

    /// A group is written.
    pub const WRITE: Point = "ledger.write";
    /// A group is synced.
    pub const SYNC: Point = "ledger.sync";
    /// A segment is extended with zeros.
    pub const ZEROS: Point = "ledger.zeros";
    /// The folder is made.
    pub const FOLDER: Point = "ledger.folder";
    /// The names in the folder are synced.
    pub const SYNC_FOLDER: Point = "ledger.sync_folder";
    /// The file of a new segment is made.
    pub const CREATE: Point = "ledger.create";
    /// The header of a new segment is written.
    pub const HEADER: Point = "ledger.header";
    /// The file of a new segment is synced.
    pub const SYNC_HEADER: Point = "ledger.sync_header";
    /// The file of a new segment gets its name.
    pub const RENAME: Point = "ledger.rename";
    /// A torn tail is cut off.
    pub const CUT: Point = "ledger.cut";
    /// The last group is written once more when the ledger opens.
    pub const REWRITE: Point = "ledger.rewrite";
    /// The cut and rewritten tail is synced.
    pub const SYNC_TAIL: Point = "ledger.sync_tail";
    /// The file of the epoch is made.
    pub const EPOCH: Point = "ledger.epoch";
    /// A segment is removed.
    pub const FORGET: Point = "ledger.forget";
}

/// Name of the folder of a database's ledger: letters, digits and `_` as they are, other bytes in hexadecimal.
#[must_use]
pub fn folder_of(database: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    database.bytes().map(byte).collect()
}

/// An open ledger. Dropped, it writes what waits and ends its thread. Invariants: see the crate.
#[derive(Debug)]
pub struct Ledger {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    _lock: Lock,
}

/// State that the ledger, its writer and its readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Disk,
    pub(crate) queue: Queue,
    pub(crate) segments: Segments,
    /// All versions up to here are durable.
    pub(crate) durable: Arc<progress::Progress>,
    /// Whole segments below this version are forgotten.
    pub(crate) forgotten: Arc<progress::Progress>,
    pub(crate) tally: counters::Tally,
}

impl Ledger {
    /// Opens the ledger in a folder, which is made if it is missing. The reader begins at the oldest record that is kept,
    /// and ends for now after the newest. Blocks for as long as it takes to read all records.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Damaged`], or [`Error::Unusable`].
    pub fn open(folder: &Path, disk: &Disk) -> Result<(Ledger, Reader), Error> {
        Ledger::open_with(folder, disk, Options::default())
    }

    /// Opens it with other options, see [`Ledger::open`].
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_with(folder: &Path, disk: &Disk, options: Options) -> Result<(Ledger, Reader), Error> {
        let (mut ledger, reader, writer) = Ledger::prepare(folder, disk, options)?;
        let thread = writer::start(writer)
            .map_err(|error| Error::unusable("cannot start the thread that writes", folder, &error))?;
        ledger.writer = Some(thread);
        Ok((ledger, reader))
    }

    /// Opens it without a thread, see [`Ledger::open`]: it writes when its [`Steps`] are told to. For simulations, in which one
    /// thread does all in a known order.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_stepped(
        folder: &Path,
        disk: &Disk,
        options: Options,
    ) -> Result<(Ledger, Reader, Steps), Error> {
        let (ledger, reader, writer) = Ledger::prepare(folder, disk, options)?;
        Ok((ledger, reader, Steps::new(writer)))
    }

    fn prepare(folder: &Path, disk: &Disk, options: Options) -> Result<(Ledger, Reader, Writer), Error> {
        let (lock, recovered) = recovery::recover(folder, disk)?;
        let newest = recovered.newest;
        let shared = Arc::new(Shared {
            disk: disk.clone(),
            queue: Queue::new(newest),
            segments: recovered.segments,
            durable: Arc::new(progress::Progress::new(newest.unwrap_or(0))),
            forgotten: Arc::new(progress::Progress::new(0)),
            tally: counters::Tally::default(),
        });
        let writer = Writer::new(Arc::clone(&shared), folder, options, recovered.tail);
        let reader = Reader::new(Arc::clone(&shared), 0);
        Ok((Ledger { shared, writer: None, _lock: lock }, reader, writer))
    }

    /// Appends a record. The version must follow the newest; the first record of an empty ledger may have any from 1 on.
    /// The record waits for the writer when this returns; the future ends when the record is durable, and need not be
    /// waited for.
    ///
    /// The future ends with [`Error::OutOfOrder`] or [`Error::TooLarge`] if nothing was appended, with
    /// [`Error::Failed`] if the process must stop.
    #[must_use = "the record is durable when the future has ended"]
    pub fn append(&self, version: Version, bytes: &[u8]) -> Reached {
        match self.shared.queue.push(version.get(), bytes) {
            Ok(()) => self.shared.durable.reached(version.get()),
            Err(error) => self.shared.durable.refused(error),
        }
    }

    /// Ends when all records up to this version are durable, also if they are appended later.
    pub fn durable(&self, version: Version) -> Reached {
        self.shared.durable.reached(version.get())
    }

    /// Ends with the reason when the ledger has failed and the process must stop, else never.
    pub async fn failed(&self) -> Error {
        loop {
            if let Err(error) = self.shared.durable.reached(u64::MAX).await {
                return error;
            }
        }
    }

    /// The newest durable version; zero if the ledger is empty.
    #[must_use]
    pub fn newest_durable(&self) -> Version {
        Version::new(self.shared.durable.value())
    }

    /// The version of the newest record that was appended; zero if the ledger is empty.
    #[must_use]
    pub fn newest(&self) -> Version {
        Version::new(self.shared.queue.newest().unwrap_or(0))
    }

    /// The version of the oldest record that is kept, if there is a record.
    #[must_use]
    pub fn oldest(&self) -> Option<Version> {
        self.shared
            .segments
            .oldest()
            .filter(|oldest| *oldest <= self.shared.durable.value())
            .map(Version::new)
    }

    /// Durable records from this version on; from the oldest that is kept if the version is zero. The reader follows the ledger: it may be asked again after it has ended.
    #[must_use]
    pub fn read_from(&self, version: Version) -> Reader {
        Reader::new(Arc::clone(&self.shared), version.get())
    }

    /// Forgets records below this version, as far as whole segments go. The writer's thread does it after the group that
    /// it writes; the future ends when it is done, and need not be waited for. A segment that cannot be removed stays, is
    /// counted, and is tried again by the next call.
    pub fn forget_below(&self, version: Version) -> Reached {
        self.shared.queue.forget_below(version.get());
        self.shared.forgotten.reached(version.get())
    }

    /// Counters since the ledger was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let pending_bytes = self.shared.queue.pending_bytes();
        self.shared.tally.counters(self.shared.segments.count(), pending_bytes)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.shared.queue.stop();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so; its futures have ended with an error.
            drop(writer.join());
        }
    }
}
