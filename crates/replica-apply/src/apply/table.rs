//! A table as it is at the replica, fitted to how the stream describes it at the primary: by names, never by numbers.

use super::encode::Encoding;
use super::net_effect::Cells;
use history::{Key, KeyBuilder, RelationId};
use postgres::decoder::message::Relation;
use postgres::sql::quoted;

/// One table, to be written by what the stream says of it.
#[derive(Debug)]
pub(super) struct Table {
    /// Its number among the feeder's tables, for the names of prepared statements.
    pub(super) number: u32,
    /// Relation number in the stream.
    pub(super) id: RelationId,
    /// `schema.table` for a person.
    pub(super) shown: String,
    /// The same, quoted.
    pub(super) name: String,
    /// One per column of the stream, in its order.
    pub(super) columns: Vec<Column>,
    /// The places of the columns that tell its rows apart; none if all of them together must do.
    pub(super) key: Vec<usize>,
    /// True if a unique index at the replica distinguishes rows by the key.
    pub(super) indexed: bool,
    /// Its rows have nothing to do with each other: their keys are all that must be unique, and two texts are two keys.
    pub(super) apart: bool,
    /// The replica has no rows of it, whatever the stream says.
    pub(super) left_out: bool,
}

/// One column that the stream sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Quoted.
    pub(super) name: String,
    /// For a person.
    pub(super) shown: String,
    /// Form of its values in an array.
    pub(super) encoding: Encoding,
    /// The type that the array's elements must be cast to, if there is no array of the column's own type.
    pub(super) cast: Option<String>,
    /// The operator that the key's index means by equal.
    pub(super) equals: String,
    /// True if it may be written: the replica does not compute it.
    pub(super) writable: bool,
    /// GENERATED ALWAYS AS IDENTITY: an UPDATE must not set it.
    pub(super) always: bool,
}

/// A column as the replica's catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) type_id: u32,
    /// The array type of its type; zero if there is none.
    pub(super) array_id: u32,
    pub(super) delimiter: u8,
    /// Quoted, with its schema.
    pub(super) type_name: String,
    pub(super) always: bool,
    pub(super) generated: bool,
}

/// A unique index of the replica that holds for every row at every moment, without NULLs: its columns, and for each the
/// operator that it means by equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unique {
    pub(super) primary: bool,
    pub(super) columns: Vec<(String, String)>,
}

impl Table {
    /// Fits a table. The error is a sentence without its subject.
    pub(super) fn fit(
        number: u32,
        relation: &Relation,
        found: &[Found],
        unique: &[Unique],
    ) -> Result<Table, String> {
        let mut columns = Vec::with_capacity(relation.columns.len());
        for sent in &relation.columns {
            let Some(column) = found.iter().find(|column| column.name == sent.name) else {
                return Err(format!("has no column {} at the replica", sent.name));
            };
            columns.push(column.to_column());
        }
        let index = choose(relation, unique);
        let place = |name: &str| relation.columns.iter().position(|column| column.name == name);
        let mut key = Vec::new();
        if let Some(index) = index {
            for (name, equals) in &index.columns {
                let place = place(name).expect("an index is chosen by columns that are sent");
                columns[place].equals.clone_from(equals);
                key.push(place);
            }
        } else if matches!(relation.identity, b'd' | b'i') {
            let flagged = relation.columns.iter().enumerate().filter(|(_, column)| column.identity);
            key.extend(flagged.map(|(place, _)| place));
        }
        let indexed = index.is_some();
        Ok(Table { columns, key, indexed, left_out: false, ..Table::left_out(number, relation) })
    }

    /// One that the replica has no rows of.
    pub(super) fn left_out(number: u32, relation: &Relation) -> Table {
        let shown = format!("{}.{}", relation.schema, relation.name);
        let name = format!("{}.{}", quoted(&relation.schema), quoted(&relation.name));
        let (columns, key, id) = (Vec::new(), Vec::new(), RelationId::new(relation.id));
        Table { number, id, shown, name, columns, key, indexed: false, apart: false, left_out: true }
    }
}

impl Table {
    /// Key of this row, among those of the table. The values of its key are known.
    pub(super) fn row_key(&self, cells: &Cells) -> Key {
        let known = |place: &usize| cells[*place].value().flatten().map_or(&[][..], |value| &value[..]);
        self.key.iter().fold(KeyBuilder::default(), |key, place| key.bytes(known(place))).finish()
    }
}

impl Found {
    fn to_column(&self) -> Column {
        let (encoding, cast) = match self.array_id {
            0 => (Encoding::TEXT, Some(self.type_name.clone())),
            array => (Encoding::of(self.type_id, array, self.delimiter), None),
        };
        Column {
            name: quoted(&self.name),
            shown: self.name.clone(),
            encoding,
            cast,
            equals: "OPERATOR(pg_catalog.=)".to_owned(),
            writable: !self.generated,
            always: self.always,
        }
    }
}

/// The index that distinguishes rows: with a replica identity of some columns one that needs no others; with
/// all of them (FULL) the primary key, or any.
fn choose<'a>(relation: &Relation, unique: &'a [Unique]) -> Option<&'a Unique> {
    let fits = |index: &&Unique| {
        let has = |name: &str| relation.columns.iter().any(|column| column.name == name && column.identity);
        !index.columns.is_empty() && index.columns.iter().all(|(name, _)| has(name))
    };
    let wider = |index: &&Unique| (!index.primary, index.columns.len());
    unique.iter().filter(fits).min_by_key(wider)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use postgres::decoder::message;

    pub(in super::super) fn relation(identity: u8, columns: &[(&str, bool)]) -> Relation {
        let column = |(name, identity): &(&str, bool)| message::Column {
            name: (*name).to_owned(),
            type_id: 25,
            identity: *identity,
        };
        let columns = columns.iter().map(column).collect();
        Relation { id: 1, schema: "s".to_owned(), name: "t".to_owned(), identity, columns }
    }

    pub(in super::super) fn found(name: &str) -> Found {
        Found {
            name: name.to_owned(),
            type_id: 25,
            array_id: 1009,
            delimiter: b',',
            type_name: "pg_catalog.text".to_owned(),
            always: false,
            generated: false,
        }
    }

    pub(in super::super) fn unique(primary: bool, columns: &[&str]) -> Unique {
        let equals = || "OPERATOR(pg_catalog.=)".to_owned();
        let columns = columns.iter().map(|name| ((*name).to_owned(), equals())).collect();
        Unique { primary, columns }
    }

    #[test]
    fn rows_are_told_apart_by_what_the_stream_and_the_replica_both_know() {
        let found: Vec<Found> = ["a", "b", "c"].map(found).into();
        let key = |relation: &Relation, unique: &[Unique]| {
            let table = Table::fit(0, relation, &found, unique).unwrap();
            (table.key, table.indexed)
        };
        let by_b = relation(b'd', &[("a", false), ("b", true)]);
        let full = relation(b'f', &[("a", true), ("b", true)]);
        assert_eq!(key(&by_b, &[unique(true, &["a"]), unique(false, &["b"])]), (vec![1], true));
        assert_eq!(key(&by_b, &[unique(true, &["a"])]), (vec![1], false));
        assert_eq!(key(&full, &[unique(false, &["b"]), unique(true, &["b", "a"])]), (vec![1, 0], true));
        assert_eq!(key(&full, &[unique(true, &["c"])]), (vec![], false), "c is not sent");
        assert_eq!(key(&full, &[]), (vec![], false));
        assert_eq!(key(&relation(b'n', &[("a", false)]), &[]), (vec![], false));
        let other = relation(b'd', &[("x", true)]);
        assert_eq!(Table::fit(0, &other, &found, &[]).unwrap_err(), "has no column x at the replica");
    }
}
