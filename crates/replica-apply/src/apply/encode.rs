//! Values on their way to the replica: a column's values of many rows as one array, or rows as lines of COPY.
//!
//! A value arrives as the text of the column's type. Common types are converted to binary form here, for the
//! server reads that with a fraction of the work. Other types stay text, inside the text of an array of their
//! own type, so that the type's own input function reads it and no user-defined cast.

use bytes::{BufMut, Bytes, BytesMut};

/// Form of a column's values in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding {
    form: Form,
    /// The type of an element, for a binary array.
    element: u32,
    /// The type of the whole.
    array: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Uuid,
    Bytea,
    Jsonb,
    /// The binary form is the text.
    Text,
    /// An array's text, with this between its elements.
    Literal(u8),
}

/// A value is not what its type allows: the stream is not what we think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

impl Encoding {
    /// An array of `text`.
    pub(super) const TEXT: Encoding = Encoding { form: Form::Text, element: 25, array: 1009 };
    /// An array of `int8`.
    pub(super) const INT8: Encoding = Encoding { form: Form::Int8, element: 20, array: 1016 };

    /// The encoding of a type with this array type and this delimiter.
    pub(super) fn of(element: u32, array: u32, delimiter: u8) -> Encoding {
        let form = match element {
            16 => Form::Bool,
            17 => Form::Bytea,
            20 => Form::Int8,
            21 => Form::Int2,
            23 => Form::Int4,
            26 => Form::Oid,
            // name, text, json, bpchar, varchar
            19 | 25 | 114 | 1042 | 1043 => Form::Text,
            2950 => Form::Uuid,
            3802 => Form::Jsonb,
            _ => Form::Literal(delimiter),
        };
        Encoding { form, element, array }
    }

    /// True if it is a whole number.
    pub(super) fn is_number(&self) -> bool {
        matches!(self.form, Form::Int2 | Form::Int4 | Form::Int8 | Form::Oid)
    }

    /// The type of the parameter.
    pub(super) fn parameter(&self) -> u32 {
        self.array
    }

    /// The format of the parameter: 1 for binary, 0 for text.
    pub(super) fn format(&self) -> i16 {
        i16::from(!matches!(self.form, Form::Literal(_)))
    }

    /// Writes the values as one array.
    pub(super) fn write<'a>(
        &self,
        values: impl ExactSizeIterator<Item = Option<&'a Bytes>>,
        to: &mut BytesMut,
    ) -> Result<(), Unreadable> {
        match self.form {
            Form::Literal(delimiter) => {
                literal(values, delimiter, to);
                Ok(())
            }
            _ => self.binary(values, to),
        }
    }

    fn binary<'a>(
        &self,
        values: impl ExactSizeIterator<Item = Option<&'a Bytes>>,
        to: &mut BytesMut,
    ) -> Result<(), Unreadable> {
        let count = i32::try_from(values.len()).map_err(|_| Unreadable)?;
        to.put_i32(1);
        let flags = to.len();
        to.put_i32(0);
        to.put_u32(self.element);
        to.put_i32(count);
        to.put_i32(1);
        for value in values {
            match value {
                None => {
                    to[flags + 3] = 1;
                    to.put_i32(-1);
                }
                Some(value) => self.element(value, to)?,
            }
        }
        Ok(())
    }

    fn element(&self, value: &[u8], to: &mut BytesMut) -> Result<(), Unreadable> {
        match self.form {
            Form::Int4 => fixed(to, &number::<i32>(value)?.to_be_bytes()),
            Form::Int8 => fixed(to, &number::<i64>(value)?.to_be_bytes()),
            Form::Int2 => fixed(to, &number::<i16>(value)?.to_be_bytes()),
            Form::Oid => fixed(to, &number::<u32>(value)?.to_be_bytes()),
            Form::Bool => fixed(to, &[u8::from(value == b"t")]),
            Form::Uuid => fixed(to, &uuid(value)?),
            Form::Bytea => {
                let digits = value.strip_prefix(b"\\x").ok_or(Unreadable)?;
                put_length(to, digits.len() / 2)?;
                for two in digits.chunks(2) {
                    to.put_u8(byte(two)?);
                }
            }
            Form::Jsonb => {
                put_length(to, value.len() + 1)?;
                to.put_u8(1);
                to.put_slice(value);
            }
            Form::Text | Form::Literal(_) => {
                put_length(to, value.len())?;
                to.put_slice(value);
            }
        }
        Ok(())
    }
}

fn put_length(to: &mut BytesMut, length: usize) -> Result<(), Unreadable> {
    to.put_i32(i32::try_from(length).map_err(|_| Unreadable)?);
    Ok(())
}

fn fixed(to: &mut BytesMut, bytes: &[u8]) {
    to.put_u32(u32::try_from(bytes.len()).expect("a fixed value is a few bytes"));
    to.put_slice(bytes);
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Result<N, Unreadable> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Unreadable)
}

fn byte(digits: &[u8]) -> Result<u8, Unreadable> {
    let digit = |place: usize| {
        let digit = digits.get(place).and_then(|digit| char::from(*digit).to_digit(16)).ok_or(Unreadable)?;
        u8::try_from(digit).map_err(|_| Unreadable)
    };
    Ok(digit(0)? << 4 | digit(1)?)
}

fn uuid(text: &[u8]) -> Result<[u8; 16], Unreadable> {
    let mut digits = text.iter().copied().filter(|digit| *digit != b'-');
    let mut bytes = [0; 16];
    for place in &mut bytes {
        let two = [digits.next().ok_or(Unreadable)?, digits.next().ok_or(Unreadable)?];
        *place = byte(&two)?;
    }
    Ok(bytes)
}

fn literal<'a>(values: impl Iterator<Item = Option<&'a Bytes>>, delimiter: u8, to: &mut BytesMut) {
    to.put_u8(b'{');
    for (place, value) in values.enumerate() {
        if place > 0 {
            to.put_u8(delimiter);
        }
        let Some(value) = value else {
            to.put_slice(b"NULL");
            continue;
        };
        to.put_u8(b'"');
        escaped(value, |byte| matches!(byte, b'"' | b'\\').then_some(byte), to);
        to.put_u8(b'"');
    }
    to.put_u8(b'}');
}

/// Writes a row as a line of COPY's text format.
pub(super) fn line<'a>(values: impl Iterator<Item = Option<&'a Bytes>>, to: &mut BytesMut) {
    for (place, value) in values.enumerate() {
        if place > 0 {
            to.put_u8(b'\t');
        }
        match value {
            None => to.put_slice(b"\\N"),
            Some(value) => escaped(value, in_a_line, to),
        }
    }
    to.put_u8(b'\n');
}

fn in_a_line(byte: u8) -> Option<u8> {
    match byte {
        b'\\' => Some(b'\\'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        _ => None,
    }
}

/// Writes a text, with a backslash and what `special` says in the place of what it names.
fn escaped(value: &[u8], special: impl Fn(u8) -> Option<u8>, to: &mut BytesMut) {
    let mut plain = 0;
    for (place, byte) in value.iter().enumerate() {
        if let Some(instead) = special(*byte) {
            to.put_slice(&value[plain..place]);
            to.put_slice(&[b'\\', instead]);
            plain = place + 1;
        }
    }
    to.put_slice(&value[plain..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(texts: &[Option<&str>]) -> Vec<Option<Bytes>> {
        texts.iter().map(|text| text.map(|text| Bytes::copy_from_slice(text.as_bytes()))).collect()
    }

    fn written(encoding: Encoding, texts: &[Option<&str>]) -> Result<Vec<u8>, Unreadable> {
        let (values, mut to) = (values(texts), BytesMut::new());
        encoding.write(values.iter().map(Option::as_ref), &mut to)?;
        Ok(to.to_vec())
    }

    #[test]
    fn binary_elements() {
        let head = |element: u8, nulls: u8, count: u8| {
            [0, 0, 0, 1, 0, 0, 0, nulls, 0, 0, 0, element, 0, 0, 0, count, 0, 0, 0, 1].to_vec()
        };
        let with = |mut head: Vec<u8>, body: &[u8]| {
            head.extend(body);
            Ok(head)
        };
        let int4 = Encoding::of(23, 1007, b',');
        let expected = with(head(23, 1, 2), b"\0\0\0\x04\xff\xff\xff\xfe\xff\xff\xff\xff");
        assert_eq!(written(int4, &[Some("-2"), None]), expected);
        assert_eq!(written(int4, &[Some("x")]), Err(Unreadable));
        let expected = with(head(17, 0, 1), b"\0\0\0\x02\x0f\xa0");
        assert_eq!(written(Encoding::of(17, 1001, b','), &[Some("\\x0fa0")]), expected);
        assert_eq!(written(Encoding::of(17, 1001, b','), &[Some("\\x0")]), Err(Unreadable));
        let expected = with(head(16, 0, 2), b"\0\0\0\x01\x01\0\0\0\x01\0");
        assert_eq!(written(Encoding::of(16, 1000, b','), &[Some("t"), Some("f")]), expected);
        let text = written(Encoding::of(2950, 2951, b','), &[Some("00010203-0405-0607-0809-0a0b0c0d0eff")]);
        assert!(
            text.unwrap()
                .ends_with(b"\0\0\0\x10\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff")
        );
    }

    #[test]
    fn texts_of_arrays_and_lines() {
        let points = Encoding::of(603, 1020, b';');
        assert_eq!(points.format(), 0);
        let text = written(points, &[Some("(1,2),(3,4)"), None, Some("a\"b\\c")]).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "{\"(1,2),(3,4)\";NULL;\"a\\\"b\\\\c\"}");
        let mut to = BytesMut::new();
        line(values(&[Some("a\tb\\\n\r"), None, Some("")]).iter().map(Option::as_ref), &mut to);
        assert_eq!(&to[..], b"a\\tb\\\\\\n\\r\t\\N\t\n");
    }
}
