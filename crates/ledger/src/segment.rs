//! Segments: files that are named by their first version, each with a header of 24 bytes.
//!
//! | bytes | what, little-endian |
//! |---|---|
//! | 0..8 | `CONSLEDG` |
//! | 8..12 | version of the format: 1 |
//! | 12..16 | CRC-32 of the other bytes of the header |
//! | 16..24 | first version |

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::record::{checksum, number32, number64};

/// Bytes in front of the first record.
pub(crate) const SEGMENT_HEADER: usize = 24;

const MAGIC: &[u8; 8] = b"CONSLEDG";
const FORMAT: u32 = 1;
const ENDING: &str = ".ledger";
/// Bytes between two places that a segment's index knows.
const INDEX_STEP: u64 = 64 << 10;

/// The header of a segment with this first version.
pub(crate) fn header(first: u64) -> [u8; SEGMENT_HEADER] {
    let mut bytes = [0; SEGMENT_HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[16..].copy_from_slice(&first.to_le_bytes());
    let checksum = checksum(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The first version that a header tells, or what is wrong with it.
pub(crate) fn first_version(bytes: &[u8]) -> Result<u64, &'static str> {
    let Some(found) = bytes.get(..SEGMENT_HEADER) else { return Err("the file is shorter than its header") };
    if &found[..8] != MAGIC {
        return Err("the file does not begin as a segment does");
    }
    if number32(found, 8) != FORMAT {
        return Err("the segment has another format than this program writes");
    }
    let first = number64(found, 16);
    if found == header(first) { Ok(first) } else { Err("the header's checksum is wrong") }
}

/// The name of a segment's file.
pub(crate) fn file_name(first: u64) -> String {
    format!("{first:020}{ENDING}")
}

/// The first version of the segment that a file's name tells, if it is a segment's.
pub(crate) fn named(name: &str) -> Option<u64> {
    let first = name.strip_suffix(ENDING)?.parse().ok()?;
    (file_name(first) == name).then_some(first)
}

/// A segment in the folder.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
    /// Some records: version and offset, in order, the first one too if there is one.
    index: Vec<(u64, u64)>,
    /// The offset after the last durable record.
    end: u64,
}

impl Segment {
    pub(crate) fn new(first: u64, folder: &Path) -> Segment {
        Segment { first, path: folder.join(file_name(first)), index: Vec::new(), end: SEGMENT_HEADER as u64 }
    }

    /// Durable records lie from `offset` to `end`, the first of which has this version.
    pub(crate) fn note(&mut self, version: u64, offset: u64, end: u64) {
        self.end = end;
        if self.index.last().is_none_or(|(_, last)| offset >= last + INDEX_STEP) {
            self.index.push((version, offset));
        }
    }

    /// The last place known at or in front of a version's.
    fn place_before(&self, version: u64) -> (u64, u64) {
        let beyond = self.index.partition_point(|(known, _)| *known <= version);
        let nothing_known = (self.first, SEGMENT_HEADER as u64);
        beyond.checked_sub(1).map_or(nothing_known, |at| self.index[at])
    }
}

/// A place in a segment to read from.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
    /// The record that begins there.
    pub(crate) version: u64,
    pub(crate) offset: u64,
}

/// The segments in the folder, oldest first. Invariant: each begins with the version after the last of the one before.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    all: Mutex<Vec<Segment>>,
}

impl Segments {
    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    /// The first version of the oldest segment.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.all().first().map(|segment| segment.first)
    }

    /// Adds the newest segment.
    pub(crate) fn push(&self, segment: Segment) {
        self.all().push(segment);
    }

    /// A durable group lies in the newest segment: see [`Segment::note`].
    pub(crate) fn note(&self, version: u64, offset: u64, end: u64) {
        if let Some(newest) = self.all().last_mut() {
            newest.note(version, offset, end);
        }
    }

    /// The offset after the last durable record of the segment with this first version, if it is kept.
    pub(crate) fn end_of(&self, first: u64) -> Option<u64> {
        let all = self.all();
        let at = all.binary_search_by_key(&first, |segment| segment.first).ok()?;
        Some(all[at].end)
    }

    /// The place to begin to read for a version: in the newest segment that begins at or before it. Else the oldest version.
    pub(crate) fn place_of(&self, version: u64) -> Result<Place, Option<u64>> {
        let all = self.all();
        let beyond = all.partition_point(|segment| segment.first <= version);
        let Some(segment) = beyond.checked_sub(1).map(|at| &all[at]) else {
            return Err(all.first().map(|segment| segment.first));
        };
        let (known, offset) = segment.place_before(version);
        Ok(Place { first: segment.first, path: segment.path.clone(), version: known, offset })
    }

    /// The oldest segment's file, if all its records are below a version and it is not the only one.
    pub(crate) fn forgettable(&self, below: u64) -> Option<PathBuf> {
        match &self.all()[..] {
            [oldest, next, ..] if next.first <= below => Some(oldest.path.clone()),
            _ => None,
        }
    }

    /// The oldest segment's file is gone.
    pub(crate) fn forget_oldest(&self) {
        self.all().remove(0);
    }

    fn all(&self) -> MutexGuard<'_, Vec<Segment>> {
        // The list is whole between two of its methods' steps.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
