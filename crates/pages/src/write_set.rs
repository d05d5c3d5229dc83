//! A write set: the page diffs of one committed transaction, and their encoding between nodes.
//!
//! ```text
//!    checksum 4 | version 8 | size 4 | pages 4 | page: number 4, length 2, runs | page | ...       little endian
//! ```

use crate::diff;
use crate::page::Page;

/// Number of a version of the database: the commits that made it. Version 0 is the empty database, without a page.
pub type Version = u64;

/// Bytes before the first page.
const HEADER: usize = 20;
/// Bytes before a page's runs.
const PAGE_HEADER: usize = 6;

/// The diffs of the pages that one transaction has changed.
///
/// Invariants: page numbers ascend, from 1 to `size`; runs are not empty and stay inside of their page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteSet {
    /// The version that the write set turns the database into.
    pub version: Version,
    /// Size of the database at that version, in pages.
    pub(crate) size: u32,
    pub(crate) pages: Vec<PageDiff>,
}

/// The runs of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageDiff {
    pub(crate) number: u32,
    pub(crate) runs: Box<[u8]>,
}

/// The bytes are no write set: they were torn or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed write set: {0}")]
pub struct Malformed(&'static str);

impl WriteSet {
    /// The write set of pages that have changed: number, content before and content now, by ascending number. `size` is that of
    /// the database afterwards, in pages; page 1 tells the same (SQLite, "Database File Format", 1.3).
    pub fn between<'a>(
        version: Version,
        size: u32,
        pages: impl IntoIterator<Item = (u32, &'a Page, &'a Page)>,
    ) -> WriteSet {
        let diff = |(number, before, now)| PageDiff { number, runs: diff::encode(before, now).into() };
        let pages = pages.into_iter().map(diff).filter(|page| !page.runs.is_empty()).collect();
        WriteSet { version, size, pages }
    }

    /// Length of the encoding, in bytes.
    pub fn bytes(&self) -> usize {
        HEADER + self.pages.iter().map(|page| PAGE_HEADER + page.runs.len()).sum::<usize>()
    }

    /// Number of pages that change.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Appends the encoding, [`WriteSet::bytes`] long.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.reserve(self.bytes());
        let start = into.len();
        into.extend_from_slice(&[0; 4]);
        into.extend_from_slice(&self.version.to_le_bytes());
        into.extend_from_slice(&self.size.to_le_bytes());
        into.extend_from_slice(&(self.pages.len() as u32).to_le_bytes());
        for page in &self.pages {
            into.extend_from_slice(&page.number.to_le_bytes());
            into.extend_from_slice(&(page.runs.len() as u16).to_le_bytes());
            into.extend_from_slice(&page.runs);
        }
        let checksum = crc32fast::hash(&into[start + 4..]);
        into[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads an encoding, all of `bytes`. Takes no more memory than a small multiple of `bytes`, whatever they say.
    ///
    /// # Errors
    /// [`Malformed`] when the checksum, a length, a page number or a run is wrong.
    pub fn decode(bytes: &[u8]) -> Result<WriteSet, Malformed> {
        let mut rest = bytes;
        let checksum = u32::from_le_bytes(take(&mut rest)?);
        if crc32fast::hash(rest) != checksum {
            return Err(Malformed("wrong checksum"));
        }
        let version = u64::from_le_bytes(take(&mut rest)?);
        let size = u32::from_le_bytes(take(&mut rest)?);
        let count = u32::from_le_bytes(take(&mut rest)?) as usize;
        if version == 0 || size == 0 || count > rest.len() / PAGE_HEADER {
            return Err(Malformed("impossible version, size or number of pages"));
        }
        let mut set = WriteSet { version, size, pages: Vec::with_capacity(count) };
        let mut before = 0;
        for _ in 0..count {
            let number = u32::from_le_bytes(take(&mut rest)?);
            let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
            let (runs, after) = rest.split_at_checked(length).ok_or(Malformed("cut short"))?;
            if number <= before || number > size || !diff::is_valid(runs) {
                return Err(Malformed("wrong page number or runs"));
            }
            set.pages.push(PageDiff { number, runs: runs.into() });
            (before, rest) = (number, after);
        }
        if rest.is_empty() { Ok(set) } else { Err(Malformed("bytes after the last page")) }
    }
}

/// The next `N` bytes.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (bytes, after) = rest.split_first_chunk().ok_or(Malformed("cut short"))?;
    *rest = after;
    Ok(*bytes)
}
