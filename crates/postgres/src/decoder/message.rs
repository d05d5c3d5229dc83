//! The messages of `pgoutput`, protocol 1 (PostgreSQL's chapter "Logical Replication Message Formats"), read
//! in place: a row's values are ranges of the message, nothing is copied.

use std::ops::Range;

/// Content of a message about rows.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Layout of a table's rows from here on.
    Relation(Relation),
    /// A row was inserted.
    Insert {
        /// Number of the row's table.
        relation: u32,
    },
    /// A row was updated.
    Update {
        /// The number of its table.
        relation: u32,
        /// Part of the old row that was sent.
        old: Option<Old>,
    },
    /// A row was deleted.
    Delete {
        /// The number of its table.
        relation: u32,
        /// Part of the old row that was sent.
        old: Old,
    },
    /// All rows of these tables were removed.
    Truncate {
        /// The numbers of the tables.
        tables: Tables<'a>,
        /// True for RESTART IDENTITY.
        restart: bool,
        /// True for CASCADE.
        cascade: bool,
    },
    /// A message without meaning here: types, origins.
    Other,
}

/// The server's description of a row before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// The columns of its replica identity.
    Key,
    /// All columns.
    Row,
}

/// A table as the stream names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Number of the table: the OID at the primary.
    pub id: u32,
    /// Schema of the table.
    pub schema: String,
    /// Name of the table within the schema.
    pub name: String,
    /// Replica identity: `d`, `n`, `f` or `i`, as in `pg_class.relreplident`.
    pub identity: u8,
    /// Columns that are sent: neither generated nor dropped ones are.
    pub columns: Vec<Column>,
}

/// A column as the stream names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// OID of the column's type at the primary.
    pub type_id: u32,
    /// True if the column is part of the replica identity; with the identity `f` every column is.
    pub identity: bool,
}

/// The numbers of truncated tables.
#[derive(Debug, PartialEq, Eq)]
pub struct Tables<'a>(&'a [u8]);

impl Tables<'_> {
    /// The numbers, in the order of the message.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// A large value that was not changed and not sent.
    Unchanged,
    /// Text of the value, as a range of the message.
    Text(Range<usize>),
}

/// The rows of one message; kept from message to message so that nothing is allocated per row.
#[derive(Debug, Default)]
pub struct Rows {
    /// The old row, or its key; empty if none came.
    pub old: Vec<Value>,
    /// The new row; empty if none came.
    pub new: Vec<Value>,
}

/// Reads a message, with its rows into `rows`. `None` if it is malformed.
pub fn read<'a>(message: &'a [u8], rows: &mut Rows) -> Option<Message<'a>> {
    let mut reader = Reader { bytes: message, at: 0 };
    rows.old.clear();
    rows.new.clear();
    Some(match reader.byte()? {
        b'R' => Message::Relation(reader.relation()?),
        b'I' => {
            let relation = reader.word()?;
            reader.expect(b'N')?;
            reader.row(&mut rows.new)?;
            Message::Insert { relation }
        }
        b'U' => {
            let relation = reader.word()?;
            let mut old = None;
            let mut kind = reader.byte()?;
            if kind != b'N' {
                old = Some(old_of(kind)?);
                reader.row(&mut rows.old)?;
                kind = reader.byte()?;
            }
            (kind == b'N').then_some(())?;
            reader.row(&mut rows.new)?;
            Message::Update { relation, old }
        }
        b'D' => {
            let relation = reader.word()?;
            let old = old_of(reader.byte()?)?;
            reader.row(&mut rows.old)?;
            Message::Delete { relation, old }
        }
        b'T' => {
            let count = usize::try_from(reader.word()?).ok()?;
            let options = reader.byte()?;
            let tables = Tables(reader.bytes(count.checked_mul(4)?)?);
            Message::Truncate { tables, cascade: options & 1 != 0, restart: options & 2 != 0 }
        }
        _ => Message::Other,
    })
}

fn old_of(kind: u8) -> Option<Old> {
    match kind {
        b'K' => Some(Old::Key),
        b'O' => Some(Old::Row),
        _ => None,
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.byte()? == byte).then_some(())
    }

    fn word(&mut self) -> Option<u32> {
        self.bytes(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }

    fn half(&mut self) -> Option<u16> {
        self.bytes(2).map(|two| u16::from_be_bytes([two[0], two[1]]))
    }

    fn text(&mut self) -> Option<String> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        self.at += length + 1;
        Some(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn relation(&mut self) -> Option<Relation> {
        let (id, schema, name) = (self.word()?, self.text()?, self.text()?);
        let identity = self.byte()?;
        let count = self.half()?;
        let mut column = || {
            let identity = self.byte()? & 1 != 0;
            let (name, type_id) = (self.text()?, self.word()?);
            self.word()?;
            Some(Column { name, type_id, identity })
        };
        let columns = (0..count).map(|_| column()).collect::<Option<_>>()?;
        Some(Relation { id, schema, name, identity, columns })
    }

    fn row(&mut self, into: &mut Vec<Value>) -> Option<()> {
        for _ in 0..self.half()? {
            into.push(match self.byte()? {
                b'n' => Value::Null,
                b'u' => Value::Unchanged,
                b't' => {
                    let length = usize::try_from(self.word()?).ok()?;
                    let start = self.at;
                    self.bytes(length)?;
                    Value::Text(start..self.at)
                }
                _ => return None,
            });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut bytes = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
        for value in values {
            match value {
                None => bytes.push(b'n'),
                Some("*") => bytes.push(b'u'),
                Some(text) => {
                    bytes.push(b't');
                    bytes.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                    bytes.extend(text.as_bytes());
                }
            }
        }
        bytes
    }

    #[test]
    fn an_update_with_its_old_row() {
        let mut message = b"U\0\0\0\x07O".to_vec();
        message.extend(row(&[Some("1"), Some("old")]));
        message.push(b'N');
        message.extend(row(&[Some("1"), Some("*"), None]));
        let mut rows = Rows::default();
        assert_eq!(read(&message, &mut rows), Some(Message::Update { relation: 7, old: Some(Old::Row) }));
        let Value::Text(range) = rows.old[1].clone() else { panic!("a text") };
        assert_eq!(&message[range], b"old");
        assert_eq!(rows.new[1..], [Value::Unchanged, Value::Null]);
    }

    #[test]
    fn relations_and_truncations() {
        let message =
            b"R\0\0\0\x07public\0t\0f\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0n\0\0\0\0\x19\xff\xff\xff\xff";
        let column = |name: &str, type_id, identity| Column { name: name.to_owned(), type_id, identity };
        let expected = Relation {
            id: 7,
            schema: "public".to_owned(),
            name: "t".to_owned(),
            identity: b'f',
            columns: vec![column("id", 23, true), column("n", 25, false)],
        };
        assert_eq!(read(message, &mut Rows::default()), Some(Message::Relation(expected)));
        let message = b"T\0\0\0\x02\x02\0\0\0\x07\0\0\0\x08";
        let mut rows = Rows::default();
        let Some(Message::Truncate { tables, restart: true, cascade: false }) = read(message, &mut rows)
        else {
            panic!("a truncation")
        };
        assert_eq!(tables.ids().collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn whatever_is_cut_off_is_refused() {
        let mut message = b"U\0\0\0\x07K".to_vec();
        message.extend(row(&[Some("1")]));
        message.push(b'N');
        message.extend(row(&[Some("12345")]));
        for length in 1..message.len() {
            assert_eq!(read(&message[..length], &mut Rows::default()), None, "{length}");
        }
        assert_eq!(read(b"T\xff\xff\xff\xff\0", &mut Rows::default()), None);
        assert_eq!(read(b"Y whatever", &mut Rows::default()), Some(Message::Other));
    }
}
