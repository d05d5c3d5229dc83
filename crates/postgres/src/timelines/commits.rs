//! End times of the transactions whose records lie in a piece of WAL (access/xlogrecord.h and access/xact.h
//! of PostgreSQL 15 to 18).

use crate::majors::is_wal_page;

/// Bytes of a page of WAL.
const PAGE_BYTES: usize = 8192;
/// Flag of a page that continues the previous page's record (`XLP_FIRST_IS_CONTRECORD`).
const GOES_ON: u8 = 0x01;
/// Flag of a segment's first page, which has a longer header (`XLP_LONG_HEADER`).
const LONG_HEADER: u8 = 0x02;
/// Flag of a page that begins with another record, because a crash cut off the previous page's one
/// (`XLP_FIRST_IS_OVERWRITE_CONTRECORD`).
const OVERWRITTEN: u8 = 0x08;
/// The resource manager of WAL itself (`RM_XLOG_ID`), and its record before the empty rest of a segment
/// (`XLOG_SWITCH`).
const WAL_ITSELF: u8 = 0;
const SWITCH: u8 = 0x40;
/// Bytes of the header of a record.
const RECORD_HEADER_BYTES: usize = 24;
/// The number of the resource manager that writes the ends of transactions (`RM_XACT_ID`).
const TRANSACTIONS: u8 = 1;
/// COMMIT, ABORT, COMMIT PREPARED and ABORT PREPARED, in the bits for them (`XLOG_XACT_OPMASK`).
const ENDS: [u8; 4] = [0x00, 0x20, 0x30, 0x40];
const OPERATION: u8 = 0x70;

/// The ends of transactions next to a position in WAL: microseconds since 2000, as the records have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// Ends at or below the position, in the order of their records.
    pub(super) below: Vec<i64>,
    /// First end above the position.
    pub(super) next: Option<i64>,
    /// True if a record ends at the position, or is the switch to the next segment.
    pub(super) is_boundary: bool,
}

/// Reads whole pages of WAL; `position` is an offset in them. `None` if the pages cannot be read, or consist
/// of one record that began before.
pub(super) fn ends_of_transactions(pages: &[u8], position: usize) -> Option<Ends> {
    let mut reader = Reader { pages, at: 0, is_inside: true, is_overwritten: false };
    reader.enter_first_page()?;
    let mut ends = Ends { is_boundary: reader.is_at(position), ..Ends::default() };
    while let Some(record) = reader.record() {
        match end_of_transaction(&record) {
            Some(time) if reader.at <= position => ends.below.push(time),
            Some(time) => {
                ends.next = Some(time);
                break;
            }
            None => {}
        }
        ends.is_boundary |= reader.is_at(position) || is_switch(&record) && reader.at <= position;
    }
    Some(ends)
}

/// Position of the reader: between two records, or inside of one.
struct Reader<'a> {
    pages: &'a [u8],
    at: usize,
    /// True if a record has begun.
    is_inside: bool,
    /// True if the begun record was cut off by a crash: other records begin on the page after it.
    is_overwritten: bool,
}

impl Reader<'_> {
    /// Skips the rest of a record that began on an earlier page.
    fn enter_first_page(&mut self) -> Option<()> {
        let page = self.pages.get(..20)?;
        if !is_wal_page(page) {
            return None;
        }
        if page[2] & GOES_ON != 0 {
            let rest = u32::from_le_bytes(page[16..20].try_into().ok()?);
            if self.take(usize::try_from(rest).ok()?).is_none() && !self.is_overwritten {
                return None;
            }
        }
        Some(())
    }

    /// Returns true if records end here. After the last record of a page the next begins after the page's
    /// header.
    fn is_at(&self, position: usize) -> bool {
        let at = self.at.next_multiple_of(8);
        let longest_header = 40;
        at == position || at.is_multiple_of(PAGE_BYTES) && position > at && position - at <= longest_header
    }

    /// Returns the next bytes of records, without the headers of pages between them.
    fn take(&mut self, mut count: usize) -> Option<Vec<u8>> {
        let mut taken = Vec::with_capacity(count.min(PAGE_BYTES));
        while count > 0 {
            if self.at.is_multiple_of(PAGE_BYTES) {
                let flags = *self.pages.get(self.at + 2)?;
                self.is_overwritten = self.is_inside && self.at > 0 && flags & OVERWRITTEN != 0;
                self.at += if flags & LONG_HEADER != 0 { 40 } else { 24 };
                if self.is_overwritten {
                    return None;
                }
            }
            let part = count.min(PAGE_BYTES - self.at % PAGE_BYTES);
            taken.extend_from_slice(self.pages.get(self.at..self.at + part)?);
            self.at += part;
            count -= part;
        }
        Some(taken)
    }

    /// Returns the next record, if it is whole. Records begin at multiples of 8.
    fn record(&mut self) -> Option<Vec<u8>> {
        loop {
            self.at = self.at.next_multiple_of(8);
            self.is_overwritten = false;
            match self.whole_record() {
                None if self.is_overwritten => {}
                record => return record,
            }
        }
    }

    fn whole_record(&mut self) -> Option<Vec<u8>> {
        self.is_inside = false;
        let mut record = self.take(4)?;
        self.is_inside = true;
        let length = usize::try_from(u32::from_le_bytes(record.as_slice().try_into().ok()?)).ok()?;
        record.extend(self.take(length.checked_sub(4)?)?);
        (length >= RECORD_HEADER_BYTES).then_some(record)
    }
}

/// Returns true if the rest of the segment is empty.
fn is_switch(record: &[u8]) -> bool {
    let (info, manager) = (record[16], record[17]);
    manager == WAL_ITSELF && info & 0xF0 == SWITCH
}

/// Returns the time in a record that ends a transaction: the first in its data.
fn end_of_transaction(record: &[u8]) -> Option<i64> {
    let (info, manager) = (record[16], record[17]);
    if manager != TRANSACTIONS || !ENDS.contains(&(info & OPERATION)) {
        return None;
    }
    let mut at = RECORD_HEADER_BYTES;
    loop {
        at += match record.get(at)? {
            // The replication origin, and the transaction around it (`XLR_BLOCK_ID_ORIGIN`,
            // `.._TOPLEVEL_XID`).
            253 => 3,
            252 => 5,
            // The data, with a length in one byte or in four.
            255 => return time(record.get(at + 2..)?),
            254 => return time(record.get(at + 5..)?),
            _ => return None,
        };
    }
}

fn time(data: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(data.get(..8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::majors::MAJORS;

    /// A record of this resource manager with these data, filled up to `length` bytes.
    fn record(manager: u8, info: u8, data: &[u8], length: u32) -> Vec<u8> {
        let mut record = length.to_le_bytes().to_vec();
        record.extend([0; 12]);
        record.extend([info, manager, 0, 0, 0, 0, 0, 0]);
        record.extend(data);
        record.resize(length as usize, 0);
        record.resize(record.len().next_multiple_of(8), 0);
        record
    }

    fn commit(prefix: &[u8], time: i64) -> Vec<u8> {
        record(TRANSACTIONS, 0x80, &[prefix, &[255, 8], &time.to_le_bytes()].concat(), 46)
    }

    /// Pages of these bytes; the first one goes on with a record of which `rest` bytes are left.
    fn pages(records: &[u8], rest: u32) -> Vec<u8> {
        let mut pages = Vec::new();
        for part in records.chunks(PAGE_BYTES - 24) {
            pages.extend(MAJORS[0].wal_page);
            pages.extend([u8::from(rest > 0), 0]);
            pages.extend([0; 12]);
            pages.extend(rest.to_le_bytes());
            pages.extend([0; 4]);
            pages.extend(part);
        }
        pages.resize(pages.len().next_multiple_of(PAGE_BYTES), 0);
        pages
    }

    #[test]
    fn ends_of_transactions_are_found_between_other_records() {
        let other = record(10, 0, &[], 9000);
        let prepared = record(TRANSACTIONS, 0x10, &[255, 8, 9, 0, 0, 0, 0, 0, 0, 0], 46);
        let records = [
            vec![0; 16],
            commit(&[], 7),
            other,
            commit(&[253, 1, 0], 8),
            prepared,
            commit(&[252, 0, 0, 0, 0], -3),
        ];
        let pages = pages(&records.concat(), 13);
        let ends = |position| ends_of_transactions(&pages, position);
        let both = |below: &[i64], next, is_boundary| Some(Ends { below: below.to_vec(), next, is_boundary });
        let first_end = 24 + 16 + 48;
        assert_eq!(ends(pages.len() - 1).map(|ends| (ends.below, ends.next)), Some((vec![7, 8, -3], None)));
        // A transaction that ends beyond the position is the next.
        assert_eq!(ends(first_end), both(&[7], Some(8), true));
        assert_eq!(ends(first_end - 8), both(&[], Some(7), false));
        assert_eq!(ends(24 + 16), both(&[], Some(7), true), "behind the rest of the record before");
        assert_eq!(ends_of_transactions(&[0; PAGE_BYTES], PAGE_BYTES), None);
    }

    /// A crash cut a record off: the page on which it would go on begins with other records.
    #[test]
    fn ends_behind_a_record_cut_off_by_a_crash_are_found() {
        let cut_off = record(10, 0, &[], 9000);
        let mut all = pages(&[vec![0; 16], commit(&[], 7), cut_off].concat(), 13);
        all.truncate(PAGE_BYTES);
        let mut after = pages(&commit(&[], 8), 0);
        after[2] |= OVERWRITTEN;
        all.extend(after);
        let ends = ends_of_transactions(&all, PAGE_BYTES + 24 + 48);
        assert_eq!(ends, Some(Ends { below: vec![7, 8], next: None, is_boundary: true }));
        all[PAGE_BYTES + 2] = 0;
        assert_ne!(ends_of_transactions(&all, PAGE_BYTES + 24 + 48), ends);
    }
}
