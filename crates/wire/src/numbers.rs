//! The numbers of one server in what it says of a result: OIDs of tables and types, and the places of columns in their
//! tables. Another server with the same tables has others. Replaced where they stand; the rest is passed on as it came.

use crate::scan::Scan;
use crate::{Frame, HEADER_BYTES, Malformed};

/// Bytes of a table's OID, an attribute number and a type's OID in a RowDescription.
const NUMBERS_BYTES: usize = 10;
/// Bytes that follow them there: the type's size and modifier, and the format.
const REST_BYTES: usize = 8;
/// Offset of the type among the first, and of the format among the others.
const TYPE_AT: usize = 6;
const FORMAT_AT: usize = 6;

/// A RowDescription's entry for one column, in the server's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The OID of its table; 0 if it comes from none.
    pub table: u32,
    /// Its attribute number there; 0 if it comes from none.
    pub attribute: i16,
    /// The OID of its type.
    pub type_id: u32,
}

impl Numbers {
    fn read(bytes: &[u8]) -> Numbers {
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let attribute = i16::from_be_bytes(bytes[4..6].try_into().expect("two bytes"));
        Numbers { table: number(0), attribute, type_id: number(6) }
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.table.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.attribute.to_be_bytes());
        bytes[6..].copy_from_slice(&self.type_id.to_be_bytes());
    }
}

/// Passes a RowDescription on in other numbers: `told` gives those of each column, from 0. `None`, and
/// nothing is written, if there are none for one of them.
pub fn row_description_in(
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
    told: impl Fn(usize, Numbers) -> Option<Numbers>,
) -> Result<Option<()>, Malformed> {
    let begin = out.len();
    out.extend_from_slice(frame.bytes());
    let mut scan = Scan::new(frame.body());
    for place in 0..scan.count()? {
        scan.string()?;
        let at = begin + frame.bytes().len() - scan.rest().len();
        let Some(numbers) = told(place, Numbers::read(scan.take(NUMBERS_BYTES)?)) else {
            out.truncate(begin);
            return Ok(None);
        };
        numbers.write(&mut out[at..at + NUMBERS_BYTES]);
        scan.take(REST_BYTES)?;
    }
    scan.end().map(Some)
}

/// The columns of a RowDescription by what PostgreSQL compares of them: names, types, sizes and modifiers. Not where they come
/// from, nor their formats.
pub fn columns_compared(frame: &Frame<'_>) -> Result<Box<[u8]>, Malformed> {
    let mut scan = Scan::new(frame.body());
    let mut columns = Vec::with_capacity(frame.body().len());
    for _ in 0..scan.count()? {
        columns.extend_from_slice(scan.string()?);
        columns.push(0);
        columns.extend_from_slice(&scan.take(NUMBERS_BYTES)?[TYPE_AT..]);
        columns.extend_from_slice(&scan.take(REST_BYTES)?[..FORMAT_AT]);
    }
    scan.end()?;
    Ok(columns.into())
}

/// The same as [`row_description_in`] with a ParameterDescription, and the OID of each parameter's type.
pub fn parameter_description_in(
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
    told: impl Fn(usize, u32) -> Option<u32>,
) -> Result<Option<()>, Malformed> {
    let begin = out.len();
    out.extend_from_slice(frame.bytes().get(..HEADER_BYTES + 2).ok_or(Malformed::Body)?);
    let mut scan = Scan::new(frame.body());
    for place in 0..scan.count()? {
        let type_id = u32::from_be_bytes(scan.take(4)?.try_into().expect("four bytes"));
        let Some(type_id) = told(place, type_id) else {
            out.truncate(begin);
            return Ok(None);
        };
        out.extend_from_slice(&type_id.to_be_bytes());
    }
    scan.end().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answers, Column};

    #[test]
    fn numbers_are_replaced_where_they_stand() {
        let mut plain = Vec::new();
        plain.row_description(&[Column::text("a"), Column::bigint("much longer")]);
        let frame = Frame::new(&plain).unwrap();
        let mut out = b"before".to_vec();
        let told = |place, numbers: Numbers| {
            assert_eq!((numbers.table, numbers.attribute), (0, 0));
            Some(Numbers { table: 70_000 + place as u32, attribute: -1, type_id: numbers.type_id + 1 })
        };
        assert_eq!(row_description_in(&frame, &mut out, told), Ok(Some(())));
        assert_eq!(out.len(), plain.len() + 6);
        let retold = Frame::new(&out[6..]).unwrap();
        let back = |_: usize, numbers: Numbers| {
            assert!(numbers.table >= 70_000 && numbers.attribute == -1);
            Some(Numbers { table: 0, attribute: 0, type_id: numbers.type_id - 1 })
        };
        let mut again = Vec::new();
        assert_eq!(row_description_in(&retold, &mut again, back), Ok(Some(())));
        assert_eq!(again, plain);
        let one = |place, numbers| (place == 0).then_some(numbers);
        assert_eq!(row_description_in(&frame, &mut again, one), Ok(None));
        assert_eq!(again, plain);
    }

    #[test]
    fn types_of_parameters_are_replaced() {
        let mut plain = Vec::new();
        plain.parameter_description(&[23, 16_400]);
        let frame = Frame::new(&plain).unwrap();
        let mut wanted = Vec::new();
        wanted.parameter_description(&[23, 16_500]);
        let mut out = Vec::new();
        let told = |place, type_id| Some(if place == 1 { type_id + 100 } else { type_id });
        assert_eq!(parameter_description_in(&frame, &mut out, told), Ok(Some(())));
        assert_eq!(out, wanted);
        assert_eq!(parameter_description_in(&frame, &mut out, |_, _| None), Ok(None));
        assert_eq!(out, wanted);
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let mut plain = Vec::new();
        plain.row_description(&[Column::text("a")]);
        let length = u32::try_from(plain.len() - 2).unwrap();
        plain.truncate(plain.len() - 1);
        plain[1..5].copy_from_slice(&length.to_be_bytes());
        let frame = Frame::new(&plain).unwrap();
        assert!(row_description_in(&frame, &mut Vec::new(), |_, numbers| Some(numbers)).is_err());
        assert!(parameter_description_in(&frame, &mut Vec::new(), |_, type_id| Some(type_id)).is_err());
    }
}
