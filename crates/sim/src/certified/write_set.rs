//! The write set of the model: rows with their new values, and rows that were locked.

use super::engine::{Row, Writes};
use certified_flow::WriteSet;
use certifier::{Item, Mode};
use std::collections::BTreeSet;

/// Spreads items.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// The item of the table.
const TABLE: u64 = 255;

/// See the file's first lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) writes: Writes,
    pub(crate) locks: BTreeSet<Row>,
}

impl WriteSet for Effects {
    fn items(&self) -> Vec<Item> {
        let rows = self
            .writes
            .keys()
            .chain(self.locks.difference(&self.writes.keys().copied().collect()))
            .copied()
            .collect::<Vec<_>>();
        let rows =
            rows.into_iter().map(|row| Item::new((u64::from(row) + 1).wrapping_mul(SPREAD), Mode::Write));
        rows.chain([Item::new(TABLE.wrapping_mul(SPREAD), Mode::Intent)]).collect()
    }

    fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Five bytes for a row that is written, one for a row that is locked.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(self.writes.len()).expect("few rows")];
        for (row, value) in &self.writes {
            bytes.push(*row);
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.extend(&self.locks);
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Result<Effects, String> {
        let (count, rest) = bytes.split_first().ok_or("no bytes")?;
        let (writes, locks) = rest.split_at_checked(usize::from(*count) * 5).ok_or("too few bytes")?;
        let write = |bytes: &[u8]| {
            (bytes[0], u32::from_le_bytes(bytes[1..].try_into().expect("four bytes after the row")))
        };
        Ok(Effects { writes: writes.chunks(5).map(write).collect(), locks: locks.iter().copied().collect() })
    }
}
