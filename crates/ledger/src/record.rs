//! Records as bytes: a header of 24 bytes, the payload, and zeros up to a multiple of eight.
//!
//! | bytes | what, little-endian |
//! |---|---|
//! | 0..4 | CRC-32 of what follows, up to the payload's end |
//! | 4..8 | length of the payload |
//! | 8..16 | version |
//! | 16..24 | the newest version that was durable when the record was written |

use crc32fast::Hasher;
use history::Version;

/// Bytes that a record may have.
pub const RECORD_LIMIT: usize = 1 << 30;

/// Bytes in front of the payload.
pub(crate) const HEADER: usize = 24;
/// Records begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

const LENGTH: usize = 4;
const VERSION: usize = 8;
const SYNCED: usize = 16;

/// A record of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the order.
    pub version: Version,
    /// The bytes that were appended.
    pub bytes: Vec<u8>,
}

/// A record that lies in a buffer and is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    pub(crate) version: u64,
    pub(crate) synced: u64,
    pub(crate) payload: &'a [u8],
}

impl Found<'_> {
    /// Bytes up to the next record.
    pub(crate) fn span(&self) -> usize {
        span(self.payload.len())
    }
}

/// The result of looking for a record at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    Record(Found<'a>),
    /// A header of zeros: nothing was written here.
    Blank,
    /// Too few bytes for the header, or for the payload that the header tells: this many would do.
    Short(usize),
    /// No record, or a broken one.
    Broken,
}

/// Bytes from the beginning of a record to the next, for a payload of this length.
pub(crate) fn span(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(ALIGNMENT)
}

/// Adds a record to a group. Its checksum and what is durable are filled in by [`seal`].
pub(crate) fn encode(version: u64, payload: &[u8], group: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("a record has at most RECORD_LIMIT bytes");
    let end = group.len() + span(payload.len());
    group.extend_from_slice(&[0; LENGTH]);
    group.extend_from_slice(&length.to_le_bytes());
    group.extend_from_slice(&version.to_le_bytes());
    group.extend_from_slice(&[0; HEADER - SYNCED]);
    group.extend_from_slice(payload);
    group.resize(end, 0);
}

/// Fills in what is durable, and the checksums, in all records of a group. Returns how many there are.
pub(crate) fn seal(group: &mut [u8], synced: u64) -> u64 {
    let (mut rest, mut records) = (group, 0);
    while !rest.is_empty() {
        let length = number32(rest, LENGTH) as usize;
        let (record, after) = rest.split_at_mut(span(length));
        record[SYNCED..HEADER].copy_from_slice(&synced.to_le_bytes());
        let checksum = checksum(&record[LENGTH..HEADER + length]);
        record[..LENGTH].copy_from_slice(&checksum.to_le_bytes());
        (rest, records) = (after, records + 1);
    }
    records
}

/// Looks for a record at the beginning of the bytes.
pub(crate) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some(header) = bytes.get(..HEADER) else { return Parsed::Short(HEADER) };
    if header.iter().all(|byte| *byte == 0) {
        return Parsed::Blank;
    }
    let length = number32(header, LENGTH) as usize;
    let (version, synced) = (number64(header, VERSION), number64(header, SYNCED));
    if length > RECORD_LIMIT || synced >= version {
        return Parsed::Broken;
    }
    let Some(payload) = bytes.get(HEADER..HEADER + length) else { return Parsed::Short(HEADER + length) };
    if checksum(&bytes[LENGTH..HEADER + length]) != number32(header, 0) {
        return Parsed::Broken;
    }
    Parsed::Record(Found { version, synced, payload })
}

/// The version and what was durable, as the header at the beginning of the bytes tells them, whole or not.
pub(crate) fn header_versions(bytes: &[u8]) -> Option<(u64, u64)> {
    let header = bytes.get(..HEADER)?;
    Some((number64(header, VERSION), number64(header, SYNCED)))
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(bytes);
    hasher.finalize()
}

pub(crate) fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn number64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
