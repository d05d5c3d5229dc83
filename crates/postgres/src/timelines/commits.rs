//! When the transactions ended whose records lie in a piece of WAL (access/xlogrecord.h and access/xact.h of PostgreSQL 15).

/// Bytes of a page of WAL.
const PAGE_BYTES: usize = 8192;
/// What a page begins with, if the server's integers are little-endian (`XLOG_PAGE_MAGIC`).
const PAGE_MAGIC: [u8; 2] = [0x10, 0xD1];
/// A record of the page before goes on here (`XLP_FIRST_IS_CONTRECORD`).
const GOES_ON: u8 = 0x01;
/// The first page of a segment has more in its header (`XLP_LONG_HEADER`).
const LONG_HEADER: u8 = 0x02;
/// The header of a record.
const RECORD_HEADER_BYTES: usize = 24;
/// The number of the resource manager that writes the ends of transactions (`RM_XACT_ID`).
const TRANSACTIONS: u8 = 1;
/// COMMIT, ABORT, COMMIT PREPARED and ABORT PREPARED, in the bits for them (`XLOG_XACT_OPMASK`).
const ENDS: [u8; 4] = [0x00, 0x20, 0x30, 0x40];
const OPERATION: u8 = 0x70;

/// The times at which transactions ended, microseconds since 2000 as the records have them. `pages` are whole pages of one
/// segment, of which all below `end` is there; `None` if they are no WAL that is understood here.
pub(super) fn ends_of_transactions(pages: &[u8], end: usize) -> Option<Vec<i64>> {
    let mut reader = Reader { pages: pages.get(..end)?, at: 0 };
    let mut times = Vec::new();
    reader.enter_first_page()?;
    while let Some(record) = reader.record() {
        times.extend(end_of_transaction(&record));
    }
    Some(times)
}

/// Where reading stands: between two records.
struct Reader<'a> {
    pages: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Passes over the rest of a record that began on an earlier page.
    fn enter_first_page(&mut self) -> Option<()> {
        let page = self.pages.get(..20)?;
        if !page.starts_with(&PAGE_MAGIC) {
            return None;
        }
        if page[2] & GOES_ON != 0 {
            let rest = u32::from_le_bytes(page[16..20].try_into().ok()?);
            self.take(usize::try_from(rest).ok()?)?;
        }
        Some(())
    }

    /// The next bytes of records, without the headers of pages between them.
    fn take(&mut self, mut count: usize) -> Option<Vec<u8>> {
        let mut taken = Vec::with_capacity(count.min(PAGE_BYTES));
        while count > 0 {
            if self.at.is_multiple_of(PAGE_BYTES) {
                let is_long = self.pages.get(self.at + 2)? & LONG_HEADER != 0;
                self.at += if is_long { 40 } else { 24 };
            }
            let part = count.min(PAGE_BYTES - self.at % PAGE_BYTES);
            taken.extend_from_slice(self.pages.get(self.at..self.at + part)?);
            self.at += part;
            count -= part;
        }
        Some(taken)
    }

    /// The next record, if it is whole. Records begin at multiples of 8.
    fn record(&mut self) -> Option<Vec<u8>> {
        self.at = self.at.next_multiple_of(8);
        let mut record = self.take(4)?;
        let length = usize::try_from(u32::from_le_bytes(record.as_slice().try_into().ok()?)).ok()?;
        record.extend(self.take(length.checked_sub(4)?)?);
        (length >= RECORD_HEADER_BYTES).then_some(record)
    }
}

/// The time in a record that ends a transaction: the first that its data have.
fn end_of_transaction(record: &[u8]) -> Option<i64> {
    let (info, manager) = (record[16], record[17]);
    if manager != TRANSACTIONS || !ENDS.contains(&(info & OPERATION)) {
        return None;
    }
    let mut at = RECORD_HEADER_BYTES;
    loop {
        at += match record.get(at)? {
            // Where it was replicated from, and the transaction around it (`XLR_BLOCK_ID_ORIGIN`, `.._TOPLEVEL_XID`).
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

    /// A record of this resource manager with these data, filled up to so many bytes.
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

    /// Pages of these bytes; the first one goes on with a record of which so many bytes are left.
    fn pages(records: &[u8], rest: u32) -> Vec<u8> {
        let mut pages = Vec::new();
        for part in records.chunks(PAGE_BYTES - 24) {
            pages.extend(PAGE_MAGIC);
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
        assert_eq!(ends_of_transactions(&pages, pages.len()), Some(vec![7, 8, -3]));
        // One that ends beyond the position does not count.
        assert_eq!(ends_of_transactions(&pages, 24 + 16 + 46), Some(vec![7]));
        assert_eq!(ends_of_transactions(&pages, 24 + 16 + 45), Some(vec![]));
        assert_eq!(ends_of_transactions(&[0; PAGE_BYTES], PAGE_BYTES), None);
        assert_eq!(ends_of_transactions(&pages, pages.len() + 1), None);
    }
}
