//! The write set of a transaction: at most one write a key, and its form as a record of the ledger.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use bytes::{Buf, Bytes};
use certifier::{Item, Mode};
use stores::{Cell, KeyedCell};

use crate::Error;

/// Keys that begin so belong to the database itself.
pub(crate) const RESERVED: &[u8] = b"\0consort/";
/// Maximum length of a key, in bytes: Cassandra's keys are shorter than 64 KiB.
const KEY_LIMIT: usize = 32 << 10;
/// Maximum length of a value, in bytes.
const VALUE_LIMIT: usize = 16 << 20;
/// Maximum length of a record, in bytes.
const RECORD_LIMIT: usize = 64 << 20;
/// The first byte of a record: the version of its form.
const FORM: u8 = 1;
/// The length of a deleted key's value.
const DELETED: u32 = u32::MAX;

/// Writes by key: the last one of each. `None` deletes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteSet {
    writes: BTreeMap<Bytes, Option<Bytes>>,
}

/// Refuses keys that cannot be written.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    let invalid = |reason: String| Err(Error::Invalid { reason });
    match key.len() {
        0 => invalid("a key has at least one byte".to_owned()),
        length if length > KEY_LIMIT => {
            invalid(format!("the key has {length} bytes, the limit is {KEY_LIMIT}"))
        }
        _ if key.starts_with(RESERVED) => {
            invalid("keys that begin with \"\\0consort/\" are reserved".to_owned())
        }
        _ => Ok(()),
    }
}

/// The certifier's item of a key.
pub(crate) fn item(key: &[u8]) -> Item {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    Item::new(hasher.finish(), Mode::Write)
}

impl WriteSet {
    /// Adds a write.
    #[cfg(test)]
    fn write(&mut self, key: Bytes, value: Option<Bytes>) -> Result<(), Error> {
        self.write_all(vec![(key, value)])
    }

    /// Adds writes: all of them, or none if one is invalid. The last write to a key replaces those before.
    pub(crate) fn write_all(&mut self, writes: Vec<(Bytes, Option<Bytes>)>) -> Result<(), Error> {
        for (key, value) in &writes {
            check_key(key)?;
            let length = value.as_ref().map_or(0, Bytes::len);
            if length > VALUE_LIMIT {
                let reason = format!("the value has {length} bytes, the limit is {VALUE_LIMIT}");
                return Err(Error::Invalid { reason });
            }
        }
        self.writes.extend(writes);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The transaction's own write to a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.writes.get(key)
    }

    /// Own writes in a range of keys.
    pub(crate) fn range(&self, range: &stores::KeyRange) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        self.writes.range(range.bounds())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.writes.keys()
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        self.writes.keys().map(|key| item(key)).collect()
    }

    /// The cells that the commit at this timestamp leaves in the store.
    pub(crate) fn cells(&self, timestamp: u64) -> impl Iterator<Item = KeyedCell> {
        self.writes.iter().map(move |(key, value)| (key.clone(), Cell { timestamp, value: value.clone() }))
    }

    /// The record: form, number of writes, and for each the lengths of key and value, the key and the value.
    pub(crate) fn to_record(&self) -> Result<Vec<u8>, Error> {
        let length =
            |bytes: &Bytes| u32::try_from(bytes.len()).expect("limits are below 4 GiB").to_le_bytes();
        let mut record = vec![FORM];
        let count = u32::try_from(self.writes.len()).expect("a write set has fewer than 2^32 keys");
        record.extend_from_slice(&count.to_le_bytes());
        for (key, value) in &self.writes {
            record.extend_from_slice(&length(key));
            record.extend_from_slice(&value.as_ref().map_or(DELETED.to_le_bytes(), length));
            record.extend_from_slice(key);
            record.extend_from_slice(value.as_ref().map_or(&[], |value| &value[..]));
            if record.len() > RECORD_LIMIT {
                let reason = format!("the write set has more than {RECORD_LIMIT} bytes");
                return Err(Error::Invalid { reason });
            }
        }
        Ok(record)
    }

    /// Reads a record.
    pub(crate) fn of_record(record: Vec<u8>) -> Result<WriteSet, String> {
        let mut rest = Bytes::from(record);
        let short = |_| "the record is too short".to_owned();
        let form = rest.try_get_u8().map_err(short)?;
        if form != FORM {
            return Err(format!("the form is {form}, and this program reads {FORM}"));
        }
        let mut writes = BTreeMap::new();
        for _ in 0..rest.try_get_u32_le().map_err(short)? {
            let (key, value) = (rest.try_get_u32_le().map_err(short)?, rest.try_get_u32_le().map_err(short)?);
            let mut take = |length: u32| {
                let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
                length.map(|length| rest.split_to(length)).ok_or_else(|| "the record is too short".to_owned())
            };
            let key = take(key)?;
            let value = if value == DELETED { None } else { Some(take(value)?) };
            writes.insert(key, value);
        }
        if rest.is_empty() { Ok(WriteSet { writes }) } else { Err("the record is too long".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_write_to_a_key_stays() {
        let mut writes = WriteSet::default();
        for value in [Some("1"), None, Some("2")] {
            writes.write("a".into(), value.map(Bytes::from)).expect("it is valid");
        }
        writes.write("b".into(), Some("3".into())).expect("it is valid");
        writes.write("b".into(), None).expect("it is valid");
        let cells: Vec<KeyedCell> = writes.cells(7).collect();
        assert_eq!(cells, [("a".into(), Cell::put(7, "2")), ("b".into(), Cell::tombstone(7))]);
    }

    #[test]
    fn record_is_read_back_and_damage_refused() {
        let mut writes = WriteSet::default();
        writes.write("key".into(), Some(Bytes::new())).expect("it is valid");
        writes.write("other".into(), None).expect("it is valid");
        let record = writes.to_record().expect("it is short");
        assert_eq!(WriteSet::of_record(record.clone()), Ok(writes));
        for length in 0..record.len() {
            assert!(WriteSet::of_record(record[..length].to_vec()).is_err(), "{length} bytes");
        }
        assert!(WriteSet::of_record([&record[..], b"x"].concat()).is_err());
    }

    #[test]
    fn refused_keys_are_named() {
        for key in [&b""[..], b"\0consort/owner", &[b'x'; KEY_LIMIT + 1]] {
            assert_eq!(check_key(key).expect_err("it is refused").code(), "INVALID");
        }
        check_key(b"\0").expect("other keys with a zero are valid");
    }
}
