//! Canonical keys: one row has one key, whether it comes out of the decoder, stands in a statement's text or arrives as
//! a parameter. Only types whose equal values have one form take part (see [`KeyForm`]); a value that is not understood
//! gives no key, and its statement then touches all rows of the table.

mod scan;

use crate::catalog::{KeyForm, PrimaryKey};
use crate::oid;
use history::{Key, KeyBuilder};

pub use scan::{elements_of_binary, elements_of_text, unquote};

/// A key column's value in its canonical form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Canonical {
    /// An integer, or the days of a date since 2000-01-01.
    Integer(i64),
    /// The bytes of a string, a bytea or a uuid.
    Bytes(Vec<u8>),
}

impl Canonical {
    /// Adds it to a key.
    pub fn add(&self, key: KeyBuilder) -> KeyBuilder {
        match self {
            Canonical::Integer(value) => key.integer(*value),
            Canonical::Bytes(value) => key.bytes(value),
        }
    }

    /// Canonical form of a value in text format, as the server prints it or as a client may send it.
    /// `DateStyle` does not matter: dates are understood in ISO form only.
    pub fn of_text(form: KeyForm, text: &str) -> Option<Canonical> {
        match form {
            KeyForm::Integer => scan::integer(text).map(Canonical::Integer),
            KeyForm::Uuid => scan::uuid(text).map(|bytes| Canonical::Bytes(bytes.to_vec())),
            KeyForm::Text => Some(Canonical::Bytes(text.as_bytes().to_vec())),
            KeyForm::Bytes => scan::bytea(text).map(Canonical::Bytes),
            KeyForm::Date => scan::date(text).map(Canonical::Integer),
        }
    }

    /// Canonical form of a literal as it stands in a statement, quotes included. Literals with a backslash
    /// are not understood.
    pub fn of_literal(form: KeyForm, literal: &str, negative: bool) -> Option<Canonical> {
        let quoted = scan::unquote(literal);
        match (quoted, form) {
            (Some(text), _) if !negative => Canonical::of_text(form, &text),
            (None, KeyForm::Integer) if literal.starts_with(|first: char| first.is_ascii_digit()) => {
                let signed = if negative { format!("-{literal}") } else { literal.to_owned() };
                scan::integer(&signed).map(Canonical::Integer)
            }
            _ => None,
        }
    }

    /// Canonical form of a parameter in binary format.
    pub fn of_binary(form: KeyForm, type_id: u32, value: &[u8]) -> Option<Canonical> {
        let integer = match (form, type_id) {
            (KeyForm::Integer, oid::INT2) => i16::from_be_bytes(value.try_into().ok()?).into(),
            (KeyForm::Integer, oid::INT4) | (KeyForm::Date, oid::DATE) => {
                i32::from_be_bytes(value.try_into().ok()?).into()
            }
            (KeyForm::Integer, oid::INT8) => i64::from_be_bytes(value.try_into().ok()?),
            (KeyForm::Uuid, oid::UUID) if value.len() == 16 => return Some(Canonical::Bytes(value.to_vec())),
            (KeyForm::Text, oid::TEXT | oid::VARCHAR) | (KeyForm::Bytes, oid::BYTEA) => {
                return Some(Canonical::Bytes(value.to_vec()));
            }
            _ => return None,
        };
        Some(Canonical::Integer(integer))
    }

    /// Canonical form of a constant in a tree: the bytes of its datum, little-endian, as a server on such a
    /// machine prints them.
    pub fn of_datum(type_id: u32, datum: &[u8]) -> Option<Canonical> {
        match type_id {
            oid::INT8 => Some(Canonical::Integer(i64::from_le_bytes(datum.get(..8)?.try_into().ok()?))),
            oid::INT4 | oid::DATE => {
                let value = i32::from_le_bytes(datum.get(..4)?.try_into().ok()?);
                Some(Canonical::Integer(value.into()))
            }
            oid::INT2 => {
                Some(Canonical::Integer(i16::from_le_bytes(datum.get(..2)?.try_into().ok()?).into()))
            }
            oid::UUID if datum.len() == 16 => Some(Canonical::Bytes(datum.to_vec())),
            oid::TEXT | oid::VARCHAR | oid::BYTEA => {
                scan::varlena(datum).map(|bytes| Canonical::Bytes(bytes.to_vec()))
            }
            _ => None,
        }
    }

    /// True if the value has the same bytes in every client encoding.
    pub fn is_ascii(&self) -> bool {
        match self {
            Canonical::Integer(_) => true,
            Canonical::Bytes(bytes) => bytes.is_ascii(),
        }
    }
}

/// The key of a row whose columns come in text format, as the decoder gives them; `value` is asked by attribute number.
/// `None` if one is missing or not understood: then any row may be meant.
pub fn of_row<'v>(key: &PrimaryKey, mut value: impl FnMut(i16) -> Option<&'v str>) -> Option<Key> {
    let mut builder = KeyBuilder::default();
    for column in &key.columns {
        builder = Canonical::of_text(column.form, value(column.attribute)?)?.add(builder);
    }
    Some(builder.finish())
}

#[cfg(test)]
mod tests;
