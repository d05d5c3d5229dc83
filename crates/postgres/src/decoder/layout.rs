//! Footprint of a changed row: its identity, and its changed columns.

use super::message::{self, Old, Relation, Rows, Value};
use history::{Access, ColumnSet, Key, RelationId, Rows as Which};
use statement_analysis::catalog::{Catalog, PrimaryKey, TypeKind};
use statement_analysis::key;
use statement_analysis::oid::FIRST_USER_OID;

/// Types of PostgreSQL's own whose text does not show the whole value: names that stand for numbers.
const NAMES_OF_NUMBERS: [u32; 11] = [24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191];

/// OID of xml, whose text leaves a declaration out.
const XML: u32 = 142;

/// Mapping from the columns of one table's rows in the stream to its attributes.
#[derive(Debug)]
pub(super) struct Layout {
    columns: Vec<Column>,
    /// The primary key, if its rows are identified by it.
    key: Option<PrimaryKey>,
    /// Columns that the server computes, whose values are not sent: their expressions may have changed.
    computed: ColumnSet,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    attribute: i16,
    /// True if equal text means an equal value.
    comparable: bool,
}

impl Layout {
    /// Matches the stream's description of a table with the catalog's. `None` if they do not agree: one of
    /// them is older.
    pub(super) fn fit(relation: &Relation, catalog: &Catalog) -> Option<Layout> {
        let known = catalog.relations.get(&RelationId::new(relation.id))?;
        let column = |sent: &message::Column| {
            let (attribute, _) = known
                .columns
                .iter()
                .find(|(_, column)| column.name == sent.name && column.type_id == sent.type_id)?;
            Some(Column { attribute: *attribute, comparable: comparable(sent.type_id, catalog) })
        };
        let columns = relation.columns.iter().map(column).collect::<Option<_>>()?;
        // With another identity a changed key would come without the old one.
        let key = known.key.clone().filter(|_| matches!(relation.identity, b'd' | b'f'));
        let computed = known.columns.iter().filter(|(_, column)| column.generated_from != ColumnSet::NONE);
        let computed = ColumnSet::of(computed.map(|(attribute, _)| *attribute));
        Some(Layout { columns, key, computed })
    }

    /// Returns the access of an inserted or deleted row.
    pub(super) fn existence(&self, message: &[u8], row: &[Value]) -> Access {
        Access::existence(self.key_of(message, row, &[]).map_or(Which::All, |key| Which::keys([key])))
    }

    /// Returns the access of an updated row.
    pub(super) fn update(&self, message: &[u8], rows: &Rows, old: Option<Old>) -> Access {
        let new_key = self.key_of(message, &rows.new, &rows.old);
        let old_key = match old {
            // Without an old key the key did not change.
            None => new_key,
            Some(_) => self.key_of(message, &rows.old, &[]),
        };
        match (old_key, new_key) {
            (Some(old_key), Some(new_key)) if old_key != new_key => {
                Access::existence(Which::keys([old_key, new_key]))
            }
            (Some(key), Some(_)) => Access::update(self.changed(message, rows, old), Which::keys([key])),
            // The row's identity before and after is unknown; its key may have changed.
            _ if self.key.is_some() => Access::WHOLE,
            _ => Access::update(self.changed(message, rows, old), Which::All),
        }
    }

    fn changed(&self, message: &[u8], rows: &Rows, old: Option<Old>) -> ColumnSet {
        if old != Some(Old::Row) || rows.old.len() != rows.new.len() || rows.new.len() != self.columns.len() {
            return ColumnSet::All;
        }
        let mut changed = self.computed;
        for ((column, old), new) in self.columns.iter().zip(&rows.old).zip(&rows.new) {
            let same = match (old, new) {
                (_, Value::Unchanged) | (Value::Null, Value::Null) => true,
                (Value::Text(old), Value::Text(new)) => {
                    column.comparable && message[old.clone()] == message[new.clone()]
                }
                _ => false,
            };
            if !same {
                changed = changed.with(column.attribute);
            }
        }
        changed
    }

    /// Returns the row's key. A value that was not sent because it did not change is taken from `before`.
    fn key_of(&self, message: &[u8], row: &[Value], before: &[Value]) -> Option<Key> {
        key::of_row(self.key.as_ref()?, |attribute| {
            let place = self.columns.iter().position(|column| column.attribute == attribute)?;
            let value = match row.get(place)? {
                Value::Unchanged => before.get(place)?,
                value => value,
            };
            let Value::Text(range) = value else { return None };
            std::str::from_utf8(&message[range.clone()]).ok()
        })
    }
}

/// Returns true if two values of this type are equal if their texts are. Types that PostgreSQL does not bring
/// itself count only if they are made of such types: an extension's output may leave something out.
fn comparable(type_id: u32, catalog: &Catalog) -> bool {
    match catalog.types.get(&type_id).map(|known| &known.kind) {
        Some(TypeKind::Array(inner) | TypeKind::Domain(inner) | TypeKind::Range(inner)) => {
            comparable(*inner, catalog)
        }
        Some(TypeKind::Composite(inner)) => inner.iter().all(|inner| comparable(*inner, catalog)),
        Some(TypeKind::Enum) => true,
        Some(TypeKind::Base) | None => {
            type_id < FIRST_USER_OID && type_id != XML && !NAMES_OF_NUMBERS.contains(&type_id)
        }
    }
}
