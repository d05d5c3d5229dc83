//! The notes of a transaction, as triggers have written them, and the write set that follows from them.

use crate::record::{Captured, Effect, Emptied, Record, RowChange, Rows, Values};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A table as it was when a note was written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Shape {
    table: String,
    columns: Vec<String>,
    keys: Vec<String>,
    fixed: Vec<String>,
    /// The item of the whole table.
    intent: i64,
    /// The item of the whole database.
    database: i64,
}

/// The shapes that are known of one database at one node.
pub(crate) type Shapes = HashMap<i64, Rc<Shape>>;

/// Shape, change of the number of rows, key, the row as it was then, items that are written, items that are shared.
type Note = (Option<i64>, i64, Option<Values>, Option<Values>, Option<Vec<i64>>, Option<Vec<i64>>);

/// The notes of one transaction.
#[derive(Debug)]
pub(crate) struct Notes(Vec<Note>);

impl Notes {
    /// The notes of an answer; `None`: they are not all of it.
    pub(crate) fn of(text: &str) -> Option<Notes> {
        let notes: Vec<Note> = serde_json::from_str(text).ok()?;
        // Locks have no shape, and tables that were emptied.
        notes.iter().all(|note| note.0.is_some() && note.2.is_some()).then_some(Notes(notes))
    }

    /// The shapes that they name.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().filter_map(|note| note.0)
    }

    /// The write set; `None` if a row was touched more than once, or a shape is not known: then the rows must be read.
    pub(crate) fn record(self, shapes: &Shapes) -> Option<Record> {
        let (mut tables, mut items) = (BTreeMap::new(), Captured::default());
        for (shape, delta, key, row, writes, shares) in self.0 {
            let (number, key) = (shape?, key?);
            let shape = shapes.get(&number)?;
            items.writes.get_or_insert_default().extend(writes.into_iter().flatten());
            items.shares.get_or_insert_default().extend(shares.into_iter().flatten());
            items.database = shape.database;
            let (_, changes) = tables.entry(number).or_insert_with(|| {
                items.intents.get_or_insert_default().push(shape.intent);
                (shape, BTreeMap::<Values, RowChange>::new())
            });
            let before = i64::from(row.is_some()) - delta;
            match changes.get_mut(&key) {
                // Rows that nothing tells apart are counted.
                Some(known) if shape.keys.is_empty() => known.before += delta,
                Some(_) => return None,
                None => {
                    let before = if shape.keys.is_empty() { delta } else { before };
                    changes.insert(key.clone(), RowChange { before, key: Some(key), row });
                }
            }
        }
        let effects = tables.into_values().filter_map(|(shape, changes)| effect(shape, changes)).collect();
        Some(Record::new(effects, items))
    }
}

fn effect(shape: &Shape, changes: BTreeMap<Values, RowChange>) -> Option<Effect> {
    // A row without a key that came and went is none.
    let is_change = |change: &RowChange| !shape.keys.is_empty() || change.before != 0;
    let rows: Vec<RowChange> = changes.into_values().filter(is_change).collect();
    (!rows.is_empty()).then(|| {
        Effect::Rows(Rows {
            table: shape.table.clone(),
            columns: shape.columns.clone(),
            keys: shape.keys.clone(),
            fixed: shape.fixed.clone(),
            emptied: Emptied::No,
            rows,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(keys: &str) -> Shapes {
        let shape = format!(
            r#"{{"table":"public.t","columns":["a","b"],"keys":{keys},"fixed":[],"intent":7,"database":9}}"#
        );
        Shapes::from([(1, Rc::new(serde_json::from_str(&shape).unwrap()))])
    }

    fn changes(text: &str, keys: &str) -> Option<Vec<(i64, bool)>> {
        let record = Notes::of(text)?.record(&shapes(keys))?;
        let Some(Effect::Rows(rows)) = record.effects.first() else { return Some(Vec::new()) };
        Some(rows.rows.iter().map(|change| (change.before, change.row.is_some())).collect())
    }

    #[test]
    fn rows_with_one_note_are_as_it_says() {
        let text =
            r#"[[1,1,["1"],["1","x"],[5],null],[1,0,["2"],["2",null],[6],[8]],[1,-1,["3"],null,[7],null]]"#;
        assert_eq!(changes(text, r#"["a"]"#), Some(vec![(0, true), (1, true), (1, false)]));
    }

    #[test]
    fn rows_that_were_touched_twice_must_be_read() {
        let text = r#"[[1,1,["1"],["1","x"],[5],null],[1,0,["1"],["1","y"],[5],null]]"#;
        assert_eq!(changes(text, r#"["a"]"#), None);
        assert!(Notes::of(r#"[[null,0,null,null,[5],null]]"#).is_none(), "a lock");
        assert!(Notes::of("").is_none(), "effects");
    }

    #[test]
    fn rows_that_nothing_tells_apart_are_counted() {
        let text =
            r#"[[1,1,["1","x"],null,[],null],[1,1,["1","x"],null,[],null],[1,-1,["2","y"],null,[5],null]]"#;
        assert_eq!(changes(text, "[]"), Some(vec![(2, false), (-1, false)]));
        let text = r#"[[1,1,["1","x"],null,[],null],[1,-1,["1","x"],null,[],null]]"#;
        assert_eq!(changes(text, "[]"), Some(Vec::new()));
    }
}
