//! Comparison of two servers' WAL: bytes of segments by their digests, a checkpoint and the end of a
//! transaction by their records.

use super::commits::{Ends, ends_of_transactions};
use crate::majors::is_wal_page;
use history::{Lsn, TimelineHistory};

/// Bytes that are compared at either end of a segment's replayed part. Its end alone may be nothing but
/// zeros.
const COMPARED_BYTES: u64 = 64 << 10;
/// Bytes in which the end of the last transaction is searched at first; and those above the position, in
/// which the next ends.
const SEARCHED_BYTES: u64 = 128 << 10;
/// Bytes of a page of WAL.
const PAGE_BYTES: u64 = 8192;
/// The header of a page (`SizeOfXLogShortPHD`).
const PAGE_HEADER_BYTES: usize = 24;
/// Bytes in front of the data of a record: its header, and the short header of its data.
const RECORD_HEADER_BYTES: usize = 26;

/// A segment of WAL, with the length of its part below a position.
pub(super) struct Segment {
    file: String,
    start: u64,
    below: u64,
}

impl Segment {
    /// Returns the segment of the last byte below this position, under its name at a server with this
    /// history.
    pub(super) fn below(end: Lsn, history: &TimelineHistory, segment_bytes: u64) -> Segment {
        let number = (end.get() - 1) / segment_bytes;
        let (start, after) = (number * segment_bytes, (number + 1) * segment_bytes);
        let timeline = history.timeline_before(Lsn::new(after));
        let in_one_file = (1 << 32) / segment_bytes;
        let (high, low) = (number / in_one_file, number % in_one_file);
        Segment {
            file: format!("pg_wal/{:08X}{high:08X}{low:08X}", timeline.get()),
            start,
            below: end.get() - start,
        }
    }

    /// Returns the whole segment before this one, if there is one.
    pub(super) fn before(&self, history: &TimelineHistory, segment_bytes: u64) -> Option<Segment> {
        (self.start > 0).then(|| Segment::below(Lsn::new(self.start), history, segment_bytes))
    }

    /// Query of a digest of its beginning and of its end below the position; null if the server does not have
    /// it any more.
    pub(super) fn digest(&self) -> String {
        let Segment { file, below, .. } = self;
        let length = COMPARED_BYTES.min(*below);
        format!(
            "SELECT encode(sha256(pg_read_binary_file('{file}', 0, {length}, true) \
               || pg_read_binary_file('{file}', {}, {length}, true)), 'hex')",
            below - length
        )
    }

    /// Query of pages around the position, in hexadecimal digits: the last ones, or all from the segment's
    /// beginning.
    pub(super) fn around(&self, all: bool) -> String {
        let page = self.begins(all);
        let Segment { file, below, .. } = self;
        let length = below - page + SEARCHED_BYTES;
        format!("SELECT encode(pg_read_binary_file('{file}', {page}, {length}, true), 'hex')")
    }

    fn begins(&self, all: bool) -> u64 {
        if all { 0 } else { self.below.saturating_sub(SEARCHED_BYTES) / PAGE_BYTES * PAGE_BYTES }
    }

    /// Returns the ends of transactions next to the position, by the answer to [`Segment::around`].
    pub(super) fn ends(&self, hexadecimal: &str, all: bool) -> Option<Ends> {
        let position = usize::try_from(self.below - self.begins(all)).ok()?;
        ends_of_transactions(&bytes(hexadecimal)?, position)
    }

    /// Query of the whole segment, with the beginning of the one after it, up to its position.
    pub(super) fn whole(&self, after: &Segment) -> String {
        let Segment { file, below, .. } = self;
        format!(
            "SELECT encode(pg_read_binary_file('{file}', 0, {below}, true) \
               || pg_read_binary_file('{}', 0, {}, true), 'hex')",
            after.file,
            SEARCHED_BYTES.min(after.below)
        )
    }

    /// End time of the last transaction in the answer to [`Segment::whole`].
    pub(super) fn last_end(hexadecimal: &str) -> Option<i64> {
        let pages = bytes(hexadecimal)?;
        ends_of_transactions(&pages, pages.len())?.below.pop()
    }

    /// Query of the page on which the position's last byte lies, and the next one, in hexadecimal digits.
    pub(super) fn pages(&self) -> String {
        let page = (self.below - 1) / PAGE_BYTES * PAGE_BYTES;
        format!(
            "SELECT encode(pg_read_binary_file('{}', {page}, {}, true), 'hex')",
            self.file,
            2 * PAGE_BYTES
        )
    }
}

/// The last checkpoint of a server, as its control file has it.
pub(super) struct Checkpoint {
    /// Start of its record.
    pub(super) at: Lsn,
    /// Content of the record, each integer with its place in the record's data (`CheckPoint` of
    /// catalog/pg_control.h).
    fields: Vec<(usize, Vec<u8>)>,
}

impl Checkpoint {
    /// Columns of `pg_control_checkpoint() c`. The next transaction identity is not among them: a standby
    /// moves it on.
    pub(super) const COLUMNS: &str = "c.checkpoint_lsn, c.redo_lsn, c.timeline_id, c.prev_timeline_id, c.next_oid, \
        c.next_multixact_id, c.next_multi_offset, extract(epoch FROM c.checkpoint_time)::bigint";

    /// Reads the answer of the query.
    pub(super) fn read(row: &[Option<String>]) -> Option<Checkpoint> {
        let text = |column: usize| row.get(column)?.as_deref();
        let lsn = |column: usize| text(column)?.parse::<Lsn>().ok();
        let number = |column: usize| Some(text(column)?.parse::<u32>().ok()?.to_le_bytes().to_vec());
        let time: i64 = text(7)?.parse().ok()?;
        let fields = vec![
            (0, lsn(1)?.get().to_le_bytes().to_vec()),
            (8, number(2)?),
            (12, number(3)?),
            (32, number(4)?),
            (36, number(5)?),
            (40, number(6)?),
            (64, time.to_le_bytes().to_vec()),
        ];
        Some(Checkpoint { at: lsn(0)?, fields })
    }

    /// Returns true if these [pages](Segment::pages) of another server have the same record in the same
    /// place. `None` if they do not show it: the record goes on in the next segment, or the server's integers
    /// have another order.
    pub(super) fn is_in(&self, hexadecimal: &str) -> Option<bool> {
        let pages = bytes(hexadecimal)?;
        let page_bytes = usize::try_from(PAGE_BYTES).ok()?;
        let (first, second) = pages.split_at_checked(page_bytes)?;
        if !is_wal_page(first) {
            return None;
        }
        let place = usize::try_from(self.at.get() % PAGE_BYTES).ok()?;
        let goes_on = second.get(PAGE_HEADER_BYTES..).unwrap_or_default();
        let record = [first.get(place..)?, goes_on].concat();
        let data = record.get(RECORD_HEADER_BYTES..)?;
        let equal = |(place, value): &(usize, Vec<u8>)| Some(data.get(*place..place + value.len())? == value);
        self.fields.iter().map(equal).collect::<Option<Vec<bool>>>().map(|all| !all.contains(&false))
    }
}

fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = hexadecimal.as_bytes().chunks_exact(2);
    pairs.map(|pair| Some(digit(&pair[0])? << 4 | digit(&pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::majors::MAJORS;
    use history::Timeline;

    const SEGMENT_BYTES: u64 = 16 << 20;

    fn checkpoint(at: &str) -> Checkpoint {
        let row = [at, "0/4000140", "2", "2", "24576", "1", "0", "1795873048"];
        Checkpoint::read(&row.map(|text| Some(text.to_owned()))).unwrap()
    }

    /// The record of that checkpoint, as a server has written it.
    const RECORD: &str = "7200000000000000400100040000000010000000f9c21bdaff58\
        400100040000000002000000020000000100000000000000d50200000000000000600000010000000000\
        0000cc0200000100000001000000010000000000000018d90a6b000000000000000000000000d502000000000000";

    /// Two pages with that record at this place.
    fn pages(place: usize) -> String {
        let mut record = bytes(RECORD).unwrap();
        let mut pages = vec![0; 2 * 8192];
        pages[..2].copy_from_slice(&MAJORS[0].wal_page);
        let rest = record.split_off(record.len().min(8192 - place));
        pages[place..place + record.len()].copy_from_slice(&record);
        pages[8192 + 24..8192 + 24 + rest.len()].copy_from_slice(&rest);
        pages.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn segment_is_named_as_its_server_names_it() {
        let first = TimelineHistory::first(Timeline::new(1));
        let lsn = |text: &str| text.parse::<Lsn>().unwrap();
        let second = first.promoted(lsn("3/4000060"));
        let name = |at: &str, history| Segment::below(lsn(at), history, SEGMENT_BYTES).file;
        assert_eq!(name("3/4000000", &second), "pg_wal/000000010000000300000003");
        assert_eq!(name("3/4000001", &second), "pg_wal/000000020000000300000004");
        assert_eq!(name("3/4000001", &first), "pg_wal/000000010000000300000004");
        assert!(
            Segment::below(lsn("3/4000000"), &second, SEGMENT_BYTES)
                .digest()
                .contains(", 16711680, 65536, true")
        );
        assert!(Segment::below(lsn("3/4000010"), &second, SEGMENT_BYTES).digest().contains(", 0, 16, true"));
    }

    #[test]
    fn checkpoint_is_found_on_one_page_and_on_two() {
        assert_eq!(checkpoint("0/4000178").is_in(&pages(0x178)), Some(true));
        assert_eq!(checkpoint("0/4001FB0").is_in(&pages(0x1FB0)), Some(true));
        // A record is there, but another one.
        assert_eq!(checkpoint("0/4000180").is_in(&pages(0x178)), Some(false));
        assert_eq!(checkpoint("0/4000178").is_in(&pages(0x178).replace("18d90a6b", "19d90a6b")), Some(false));
        // The server has no WAL that shows it.
        assert_eq!(checkpoint("0/4000178").is_in(""), None);
        assert_eq!(checkpoint("0/4000178").is_in(&"00".repeat(2 * 8192)), None);
        assert_eq!(checkpoint("0/4001FB0").is_in(&pages(0x1FB0)[..2 * 8192]), None);
    }
}
