//! The thread that writes: all that waits with one write and one sync, segment after segment.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use disk::File;

use crate::queue::Work;
use crate::record::seal;
use crate::segment::{SEGMENT_HEADER, Segment, header};
use crate::{Error, Options, Shared, points};

/// The name of a segment's file while it is made.
pub(crate) const UNNAMED: &str = "new.tmp";
/// A segment grows by so many zeros in front of what is written, so that most syncs have no new length to write.
const ZEROS: u64 = 1 << 20;

/// The end of the newest segment, where the next group is written.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) file: File,
    /// The offset of the next record.
    pub(crate) end: u64,
    /// The file's length: zeros lie from `end` up to it.
    pub(crate) length: u64,
}

/// Starts the thread.
pub(crate) fn start(writer: Writer) -> io::Result<JoinHandle<()>> {
    Builder::new().name("ledger".to_owned()).spawn(move || writer.run())
}

/// The writer of a ledger that has no thread: its owner says when it works. Dropped, the ledger is closed, and what waits is
/// never written.
#[derive(Debug)]
pub struct Steps {
    writer: Writer,
    ended: Ended,
}

impl Steps {
    pub(crate) fn new(writer: Writer) -> Steps {
        let ended = Ended(Arc::clone(&writer.shared));
        Steps { writer, ended }
    }

    /// Whether something waits for the writer.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.writer.shared.queue.has_work()
    }

    /// Writes what waits, as one group, and makes it durable; forgets what is to be forgotten.
    ///
    /// # Errors
    /// [`Error::Failed`]. The ledger has ended then.
    pub fn step(&mut self) -> Result<(), Error> {
        if !self.has_work() {
            return Ok(());
        }
        let mut work = self.writer.shared.queue.take(Vec::new());
        let done = self.writer.work(&mut work);
        if let Err(error) = &done {
            self.ended.tell(error);
        }
        done
    }
}

#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    folder: PathBuf,
    options: Options,
    /// `None` until the first record of an empty ledger.
    tail: Option<Tail>,
}

/// Fails all futures and later calls when the thread ends, also if it panics.
#[derive(Debug)]
struct Ended(Arc<Shared>);

impl Ended {
    fn tell(&self, error: &Error) {
        self.0.queue.fail(error);
        self.0.durable.fail(error);
        self.0.forgotten.fail(error);
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.tell(&Error::Failed { reason: "the ledger was closed".to_owned() });
    }
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, folder: &Path, options: Options, tail: Option<Tail>) -> Writer {
        Writer { shared, folder: folder.to_owned(), options, tail }
    }

    /// Works until the ledger is dropped, or until something fails.
    fn run(mut self) {
        let ended = Ended(Arc::clone(&self.shared));
        let mut group = Vec::new();
        loop {
            let mut work = self.shared.queue.take(group);
            if let Err(error) = self.work(&mut work) {
                return ended.tell(&error);
            }
            if work.is_last {
                return;
            }
            group = work.group;
        }
    }

    fn work(&mut self, work: &mut Work) -> Result<(), Error> {
        if let Some((first, last)) = work.versions {
            self.write(&mut work.group, first)?;
            self.shared.durable.advance(last);
        }
        if work.forget_below > self.shared.forgotten.value() {
            self.forget(work.forget_below)?;
            self.shared.forgotten.advance(work.forget_below);
        }
        Ok(())
    }

    /// Writes a group and makes it durable.
    fn write(&mut self, group: &mut [u8], first: u64) -> Result<(), Error> {
        let records = seal(group, self.shared.durable.value().min(first - 1));
        let mut tail = match self.tail.take() {
            Some(tail) if tail.end < self.options.segment_size => tail,
            _ => self.new_segment(first)?,
        };
        let failed = |what, tail: &Tail, error| Error::failed(what, tail.file.path(), &error);
        let end = tail.end + group.len() as u64;
        if end > tail.length {
            self.add_zeros(&mut tail, end).map_err(|error| failed("cannot extend", &tail, error))?;
        }
        let written = tail.file.write_at(points::WRITE, group, tail.end);
        written.map_err(|error| failed("cannot write", &tail, error))?;
        let begun = Instant::now();
        tail.file.sync(points::SYNC).map_err(|error| failed("cannot sync", &tail, error))?;
        self.shared.tally.synced(records, group.len(), begun.elapsed());
        self.shared.segments.note(first, tail.end, end);
        tail.end = end;
        self.tail = Some(tail);
        Ok(())
    }

    /// Writes zeros at the end of the file, beyond `end`. What is written there later needs no new blocks.
    fn add_zeros(&self, tail: &mut Tail, end: u64) -> io::Result<()> {
        let length = (end + 1).next_multiple_of(ZEROS).min(self.options.segment_size.max(end));
        let from = end.max(tail.length);
        let zeros = vec![0; usize::try_from(length - from).expect("at most ZEROS")];
        tail.file.write_at(points::ZEROS, &zeros, from)?;
        tail.length = length;
        Ok(())
    }

    /// Makes a segment that is on the disk, with its name, and has no record.
    fn new_segment(&self, first: u64) -> Result<Tail, Error> {
        let segment = Segment::new(first, &self.folder);
        let unnamed = self.folder.join(UNNAMED);
        let disk = &self.shared.disk;
        let make = || {
            let file = disk.create(points::CREATE, &unnamed)?;
            file.write_at(points::HEADER, &header(first), 0)?;
            file.sync(points::SYNC_HEADER)?;
            disk.rename(points::RENAME, &unnamed, &segment.path)?;
            disk.sync_folder(points::SYNC_FOLDER, &self.folder)?;
            disk.open(&segment.path)
        };
        let file = make().map_err(|error| Error::failed("cannot make the segment", &segment.path, &error))?;
        self.shared.segments.push(segment);
        Ok(Tail { file, end: SEGMENT_HEADER as u64, length: SEGMENT_HEADER as u64 })
    }

    /// Removes whole segments below a version, oldest first, each for good before the next.
    fn forget(&self, below: u64) -> Result<(), Error> {
        while let Some(path) = self.shared.segments.forgettable(below) {
            if self.shared.disk.remove(points::FORGET, &path).is_err() {
                self.shared.tally.not_forgotten();
                return Ok(());
            }
            self.shared.segments.forget_oldest();
            let synced = self.shared.disk.sync_folder(points::SYNC_FOLDER, &self.folder);
            synced.map_err(|error| Error::failed("cannot sync the folder", &self.folder, &error))?;
        }
        Ok(())
    }
}
