//! Net changes of several commits: each row is written once.
//!
//! Invariant: deletes, then updates, then inserts of the result lead to the same rows as all changes in their order, and no unique
//! value is there twice in between. An update leaves unique values as they are; a row whose unique values change is deleted first.

use memory_tier::changes::{Change, Row, SequenceValue, TableRows};
use std::collections::BTreeMap;

/// Effect on a row that has a key.
#[derive(Debug)]
enum Effect {
    Insert(Row),
    Update(Row),
    Delete,
    /// Deleted, and inserted with other unique values.
    Replace(Row),
}

/// Net changes of a table.
#[derive(Debug)]
struct Net {
    columns: Vec<String>,
    key: Vec<u16>,
    effects: BTreeMap<Row, Effect>,
    /// Rows of a table without a key.
    deletes: Vec<Row>,
    /// Number of insertions of each row.
    inserts: BTreeMap<Row, usize>,
}

/// Changes in their order, those of rows between two definitions taken together.
#[derive(Debug, Default)]
pub(crate) struct NetChanges {
    done: Vec<Change>,
    tables: BTreeMap<String, Net>,
    sequences: BTreeMap<String, SequenceValue>,
}

impl NetChanges {
    /// Adds a change.
    pub(crate) fn add(&mut self, change: Change) {
        match change {
            Change::Rows(tables) => tables.into_iter().for_each(|rows| self.rows(rows)),
            Change::Sequences(values) => {
                self.sequences.extend(values.into_iter().map(|value| (value.name.clone(), value)));
            }
            Change::Definition(_) | Change::Contents { .. } => {
                self.gather();
                self.done.push(change);
            }
        }
    }

    /// All changes.
    pub(crate) fn finish(mut self) -> Vec<Change> {
        self.gather();
        self.done
    }

    fn gather(&mut self) {
        let tables: Vec<TableRows> = std::mem::take(&mut self.tables).into_iter().map(net_rows).collect();
        if !tables.is_empty() {
            self.done.push(Change::Rows(tables));
        }
        let values: Vec<_> = std::mem::take(&mut self.sequences).into_values().collect();
        if !values.is_empty() {
            self.done.push(Change::Sequences(values));
        }
    }

    fn rows(&mut self, rows: TableRows) {
        let net = self.tables.entry(rows.table).or_insert_with(|| Net {
            columns: rows.columns,
            key: rows.key,
            effects: BTreeMap::new(),
            deletes: Vec::new(),
            inserts: BTreeMap::new(),
        });
        if net.key.is_empty() {
            for row in rows.deletes {
                match net.inserts.get_mut(&row).filter(|times| **times > 0) {
                    Some(times) => *times -= 1,
                    None => net.deletes.push(row),
                }
            }
            for row in rows.inserts {
                *net.inserts.entry(row).or_default() += 1;
            }
            return;
        }
        for key in rows.deletes {
            match net.effects.remove(&key) {
                Some(Effect::Insert(_)) => {}
                _ => drop(net.effects.insert(key, Effect::Delete)),
            }
        }
        for row in rows.updates {
            let key = net.key_of(&row);
            let effect = match net.effects.remove(&key) {
                Some(Effect::Insert(_)) => Effect::Insert(row),
                Some(Effect::Replace(_)) => Effect::Replace(row),
                _ => Effect::Update(row),
            };
            net.effects.insert(key, effect);
        }
        for row in rows.inserts {
            let key = net.key_of(&row);
            let effect = match net.effects.remove(&key) {
                Some(Effect::Delete) => Effect::Replace(row),
                _ => Effect::Insert(row),
            };
            net.effects.insert(key, effect);
        }
    }
}

impl Net {
    fn key_of(&self, row: &Row) -> Row {
        self.key.iter().map(|place| row[usize::from(*place)].clone()).collect()
    }
}

fn net_rows((table, net): (String, Net)) -> TableRows {
    let Net { columns, key, effects, deletes, inserts } = net;
    let inserts = inserts.into_iter().flat_map(|(row, times)| std::iter::repeat_n(row, times)).collect();
    let mut rows = TableRows { table, columns, key, deletes, inserts, updates: Vec::new() };
    for (key, effect) in effects {
        match effect {
            Effect::Insert(row) => rows.inserts.push(row),
            Effect::Update(row) => rows.updates.push(row),
            Effect::Delete => rows.deletes.push(key),
            Effect::Replace(row) => {
                rows.deletes.push(key);
                rows.inserts.push(row);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u8, value: &str) -> Row {
        vec![Some(vec![id]), Some(value.as_bytes().to_vec())]
    }

    fn change(deletes: &[u8], updates: &[Row], inserts: &[Row]) -> Change {
        Change::Rows(vec![TableRows {
            table: "t".to_owned(),
            columns: vec!["id".to_owned(), "v".to_owned()],
            key: vec![0],
            deletes: deletes.iter().map(|id| vec![Some(vec![*id])]).collect(),
            updates: updates.to_vec(),
            inserts: inserts.to_vec(),
        }])
    }

    /// Rows by their identifier.
    type Table = BTreeMap<u8, Row>;

    fn apply(table: &mut Table, change: &Change) {
        let Change::Rows(tables) = change else { panic!("{change:?}") };
        for rows in tables {
            for key in &rows.deletes {
                table.remove(&key[0].as_ref().unwrap()[0]).expect("a row to delete");
            }
            for row in &rows.updates {
                table.insert(row[0].as_ref().unwrap()[0], row.clone()).expect("a row to update");
            }
            for row in &rows.inserts {
                assert_eq!(table.insert(row[0].as_ref().unwrap()[0], row.clone()), None, "a row is there");
            }
        }
    }

    /// A generator of numbers below a bound; the same in every run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u8) -> u8 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u8::try_from((self.0 >> 33) % u64::from(bound)).unwrap()
        }
    }

    #[test]
    fn net_changes_lead_to_the_same_rows() {
        let mut numbers = Numbers(7);
        for _ in 0..2_000 {
            let start: Table = (0..4).map(|id| (id, row(id, "old"))).collect();
            let (mut each, mut net) = (start.clone(), NetChanges::default());
            for step in 0..12 {
                let (id, value) = (numbers.below(6), step.to_string());
                let one = match (each.contains_key(&id), numbers.below(3)) {
                    (true, 0) => change(&[id], &[], &[]),
                    (true, 1) => change(&[id], &[], &[row(id, &value)]),
                    (true, _) => change(&[], &[row(id, &value)], &[]),
                    (false, _) => change(&[], &[], &[row(id, &value)]),
                };
                apply(&mut each, &one);
                net.add(one);
            }
            let mut together = start;
            net.finish().iter().for_each(|change| apply(&mut together, change));
            assert_eq!(together, each);
        }
    }

    /// Rows without a key that were inserted and deleted again leave nothing; others of the same value stay.
    #[test]
    fn rows_without_a_key_are_counted() {
        let keyless = |deletes: &[Row], inserts: &[Row]| {
            let Change::Rows(mut tables) = change(&[], &[], inserts) else { unreachable!() };
            tables[0].key.clear();
            tables[0].deletes = deletes.to_vec();
            Change::Rows(tables)
        };
        let (old, new) = (row(1, "old"), row(1, "new"));
        let mut net = NetChanges::default();
        net.add(keyless(&[], &[new.clone(), new.clone()]));
        net.add(keyless(&[new.clone(), old.clone()], &[]));
        assert_eq!(net.finish(), [keyless(&[old], &[new])]);
    }

    #[test]
    fn definitions_stay_between_the_rows() {
        let mut net = NetChanges::default();
        net.add(change(&[], &[], &[row(1, "a")]));
        net.add(Change::Definition("ALTER".to_owned()));
        net.add(change(&[1], &[], &[]));
        let all = net.finish();
        assert!(
            matches!(all.as_slice(), [Change::Rows(_), Change::Definition(_), Change::Rows(_)]),
            "{all:?}"
        );
    }
}
