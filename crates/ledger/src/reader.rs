//! Reads durable records in their order, and follows the ledger as it grows.

use std::sync::Arc;

use disk::File;
use history::Version;

use crate::record::{HEADER, Parsed, parse};
use crate::segment::Segments;
use crate::{Error, Record, Shared};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// An iterator over durable records. `None` means that no durable record is left for now: a later call looks again. After
/// an error the next call looks at the same place.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    /// The version that is handed out next; zero: the oldest.
    next: u64,
    open: Option<OpenSegment>,
}

/// A segment that is read.
#[derive(Debug)]
struct OpenSegment {
    first: u64,
    file: File,
    /// The record that begins at `at` in the buffer.
    version: u64,
    /// The buffer's offset in the file.
    offset: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, next: u64) -> Reader {
        Reader { shared, next, open: None }
    }

    /// The version of the record that comes next. Zero: the oldest one, and nothing has been read.
    #[must_use]
    pub fn next_version(&self) -> Version {
        Version::new(self.next)
    }

    /// The record at `next`, which is durable.
    fn read(&mut self) -> Result<Record, Error> {
        let mut segment = match self.open.take() {
            Some(segment) => segment,
            None => self.open_segment()?,
        };
        loop {
            let is_wanted = segment.version == self.next;
            match segment.read(is_wanted, &self.shared.segments)? {
                Some(record) if is_wanted => {
                    self.open = Some(segment);
                    return Ok(record);
                }
                Some(_) => {}
                None => {
                    let next = self.open_segment()?;
                    if next.first == segment.first {
                        return Err(segment.damaged(segment.version));
                    }
                    segment = next;
                }
            }
        }
    }

    fn open_segment(&self) -> Result<OpenSegment, Error> {
        let place = self
            .shared
            .segments
            .place_of(self.next)
            .map_err(|oldest| Error::Forgotten { oldest: Version::new(oldest.unwrap_or_default()) })?;
        let file = self.shared.disk.open_to_read(&place.path);
        let file = file.map_err(|error| Error::unusable("cannot open", &place.path, &error))?;
        let (version, offset) = (place.version, place.offset);
        Ok(OpenSegment { first: place.first, file, version, offset, buffer: Vec::new(), at: 0 })
    }
}

impl Iterator for Reader {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Result<Record, Error>> {
        let durable = self.shared.durable.value();
        if self.next == 0 && durable > 0 {
            self.next = self.shared.segments.oldest()?;
        }
        if self.next > durable || durable == 0 {
            return None;
        }
        let read = self.read();
        self.next += u64::from(read.is_ok());
        Some(read)
    }
}

impl OpenSegment {
    /// Returns the record here, and moves past it; `None` if no whole record is here. The bytes of a record that is not
    /// wanted are left out.
    fn read(&mut self, is_wanted: bool, segments: &Segments) -> Result<Option<Record>, Error> {
        let mut wanted = HEADER;
        for _ in 0..2 {
            // Zeros at the end of a record may lie beyond the buffer.
            match parse(self.buffer.get(self.at..).unwrap_or_default()) {
                Parsed::Record(found) if found.version == self.version => {
                    let bytes = if is_wanted { found.payload.to_vec() } else { Vec::new() };
                    let record = Record { version: Version::new(found.version), bytes };
                    self.at += found.span();
                    self.version += 1;
                    return Ok(Some(record));
                }
                Parsed::Short(bytes) => wanted = bytes,
                _ => {}
            }
            self.fill(wanted, segments)?;
            if let Parsed::Short(bytes) = parse(&self.buffer) {
                self.fill(bytes, segments)?;
            }
        }
        Ok(None)
    }

    /// Reads the buffer again from the record on: its end may be short, and records may have become durable since.
    fn fill(&mut self, wanted: usize, segments: &Segments) -> Result<(), Error> {
        self.offset += self.at as u64;
        self.at = 0;
        // A reader that follows the newest segment does not read the zeros after its end.
        let durable = segments.end_of(self.first).map_or(CHUNK as u64, |end| end.saturating_sub(self.offset));
        let chunk = usize::try_from(durable).map_or(CHUNK, |durable| durable.min(CHUNK));
        self.buffer.resize(wanted.max(chunk), 0);
        let read = self.file.read_at(&mut self.buffer, self.offset);
        let read = read.map_err(|error| Error::unusable("cannot read", self.file.path(), &error))?;
        self.buffer.truncate(read);
        Ok(())
    }

    fn damaged(&self, version: u64) -> Error {
        let reason = format!("the durable record {} is not there", Version::new(version));
        Error::damaged(self.file.path(), self.offset + self.at as u64, reason)
    }
}
