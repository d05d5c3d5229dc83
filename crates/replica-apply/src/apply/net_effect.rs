//! Net effect of many changes of one table: per row its state before the first of them and after the last.
//!
//! ```text
//! insert, update      insert of the later row         update, update    update; what was not sent comes from the earlier
//! insert, delete      nothing                         update, delete    delete
//! delete, insert      update of every column          key change        delete and insert, if every value is known
//! ```
//!
//! Rows with a key are distinguished by its text: one row's key has one text as long as it is stored, and two
//! rows that lie there at the same time never have equal keys, whatever their texts. Rows without a key are
//! counted: the number of equal rows fewer, or more. A deletion among several equal rows cannot be attributed
//! to one of them.

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::HashMap;

/// One column of a row, as text.
pub(super) type Cell = history::Cell<Bytes>;

/// The columns of a row, in the order of the stream.
pub(super) type Cells = Box<[Cell]>;

/// Net effect on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Inserted.
    Insert,
    /// Some of its columns changed.
    Update,
    /// Deleted; its key's cells identify it. Other known cells are as before, for the row that replaces it.
    Delete,
    /// Inserted and deleted.
    Nothing,
}

/// A row that was touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) fate: Fate,
    pub(super) cells: Cells,
}

/// The changes do not follow from each other: an insert of what is there, a change of what is not. They must be applied one
/// by one, for the server to say what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Irregular;

/// Requirement of a change of a row's key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rekeyed {
    /// Nothing more.
    Done,
    /// A value is not known: pending changes must be applied, then this one update alone.
    Alone(Cells),
}

/// The rows of a table with a key.
///
/// Invariants: `places` names the rows that are there or were there before, each by its key's text. The key's
/// cells of a row that was there before are `Same`, and a `Same` cell is as it was before the first change:
/// the replica has that still.
#[derive(Clone, Debug, Default)]
pub(super) struct Keyed {
    places: HashMap<Bytes, usize>,
    rows: Vec<Row>,
}

impl Keyed {
    /// The rows that were touched, in the order in which they were.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// A row came; all cells are known.
    pub(super) fn insert(&mut self, key: Bytes, cells: Cells) -> Result<(), Irregular> {
        let Some(place) = self.places.get(&key) else {
            self.add(key, Fate::Insert, cells);
            return Ok(());
        };
        let row = &mut self.rows[*place];
        if row.fate != Fate::Delete {
            return Err(Irregular);
        }
        let merged = cells.into_iter().zip(&row.cells).map(|(new, old)| match (new, old) {
            // The key is what it was.
            (Cell::New(new), Cell::Same(old)) if new == *old => Cell::Same(new),
            (new, _) => new,
        });
        *row = Row { fate: Fate::Update, cells: merged.collect() };
        Ok(())
    }

    /// A row changed and kept its key.
    pub(super) fn update(&mut self, key: Bytes, cells: Cells) -> Result<(), Irregular> {
        let Some(place) = self.places.get(&key) else {
            self.add(key, Fate::Update, cells);
            return Ok(());
        };
        let row = &mut self.rows[*place];
        if !matches!(row.fate, Fate::Insert | Fate::Update) {
            return Err(Irregular);
        }
        let earlier = std::mem::take(&mut row.cells);
        row.cells = cells.into_iter().zip(earlier).map(|(later, earlier)| later.after(earlier)).collect();
        Ok(())
    }

    /// Records a deleted row. The key's cells of `cells` are known.
    pub(super) fn delete(&mut self, key: Bytes, cells: Cells) -> Result<(), Irregular> {
        let Some(place) = self.places.get(&key) else {
            self.add(key, Fate::Delete, cells);
            return Ok(());
        };
        let row = &mut self.rows[*place];
        match row.fate {
            Fate::Insert => {
                row.fate = Fate::Nothing;
                self.places.remove(&key);
            }
            Fate::Update => {
                // The stream gives the row as it was just now. The replica does not have earlier pending
                // changes.
                let before = cells.into_iter().zip(&row.cells).map(|(cell, pending)| match pending {
                    Cell::New(_) => Cell::Unchanged,
                    Cell::Unchanged | Cell::Same(_) => cell,
                });
                *row = Row { fate: Fate::Delete, cells: before.collect() };
            }
            Fate::Delete | Fate::Nothing => return Err(Irregular),
        }
        Ok(())
    }

    /// A row changed, its key too. `old` knows the old key, `new` what was sent of the new row.
    pub(super) fn rekey(&mut self, old: (Bytes, Cells), new: (Bytes, Cells)) -> Result<Rekeyed, Irregular> {
        let before = self.places.get(&old.0).map(|place| &self.rows[*place]);
        let filled: Cells = match before {
            Some(row) if matches!(row.fate, Fate::Insert | Fate::Update) => {
                new.1.into_iter().zip(&row.cells).map(|(new, before)| new.after(before.clone())).collect()
            }
            _ => new.1,
        };
        if filled.contains(&Cell::Unchanged) {
            return Ok(Rekeyed::Alone(filled));
        }
        self.delete(old.0, old.1)?;
        self.insert(new.0, filled.into_iter().map(as_new).collect())?;
        Ok(Rekeyed::Done)
    }

    fn add(&mut self, key: Bytes, fate: Fate, cells: Cells) {
        self.places.insert(key, self.rows.len());
        self.rows.push(Row { fate, cells });
    }
}

fn as_new(cell: Cell) -> Cell {
    match cell {
        Cell::Same(value) => Cell::New(value),
        other => other,
    }
}

/// The rows of a table without a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    places: HashMap<Bytes, usize>,
    rows: Vec<(Cells, i64)>,
}

impl Counted {
    /// Every row that was touched, with how many more of it there are (or less).
    pub(super) fn rows(&self) -> &[(Cells, i64)] {
        &self.rows
    }

    /// Counts this number of additional equal rows; every cell is known.
    pub(super) fn count(&mut self, cells: Cells, more: i64) {
        let text = joined(cells.iter().map(|cell| cell.value().flatten()));
        let place = *self.places.entry(text).or_insert(self.rows.len());
        match self.rows.get_mut(place) {
            Some((_, count)) => *count += more,
            None => self.rows.push((cells, more)),
        }
    }
}

/// Values as one text, so that different ones give different texts.
pub(super) fn joined<'a>(values: impl Iterator<Item = Option<&'a Bytes>>) -> Bytes {
    let mut text = BytesMut::new();
    for value in values {
        match value {
            None => text.put_u32(u32::MAX),
            Some(value) => {
                text.put_u32(
                    u32::try_from(value.len()).expect("a value is shorter than its length field allows"),
                );
                text.put_slice(value);
            }
        }
    }
    text.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` new, `=a` the same, `*` not sent, `-` NULL.
    fn cells(text: &str) -> Cells {
        let cell = |word: &str| match (word, word.strip_prefix('=')) {
            ("*", _) => Cell::Unchanged,
            ("-", _) => Cell::New(None),
            (_, Some(same)) => Cell::Same(Some(Bytes::copy_from_slice(same.as_bytes()))),
            (new, None) => Cell::New(Some(Bytes::copy_from_slice(new.as_bytes()))),
        };
        text.split(' ').map(cell).collect()
    }

    fn shown(rows: &[Row]) -> String {
        let cell = |cell: &Cell| match cell {
            Cell::Unchanged => "*".to_owned(),
            Cell::Same(Some(value)) => format!("={}", String::from_utf8_lossy(value)),
            Cell::New(Some(value)) => String::from_utf8_lossy(value).into_owned(),
            Cell::Same(None) | Cell::New(None) => "-".to_owned(),
        };
        let row = |row: &Row| {
            let cells: Vec<String> = row.cells.iter().map(cell).collect();
            format!("{:?} {}", row.fate, cells.join(" "))
        };
        rows.iter().map(row).collect::<Vec<_>>().join("; ")
    }

    /// Runs steps: `I key cells`, `U key cells`, `D key` or, with the whole old row, `D key cells`, `K old new cells`.
    fn run(steps: &str) -> String {
        let mut net = Keyed::default();
        let only = |key: &str, width: usize| -> Cells {
            let rest = std::iter::repeat_n(Cell::Unchanged, width);
            std::iter::once(Cell::Same(Some(Bytes::copy_from_slice(key.as_bytes())))).chain(rest).collect()
        };
        let key = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        for step in steps.split("; ") {
            let (what, rest) = step.split_once(' ').unwrap();
            let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let done = match what {
                "I" => net.insert(key(first), cells(&format!("{first} {rest}"))).map(|()| Rekeyed::Done),
                "U" => net.update(key(first), cells(&format!("={first} {rest}"))).map(|()| Rekeyed::Done),
                "D" if rest.is_empty() => net.delete(key(first), only(first, 2)).map(|()| Rekeyed::Done),
                "D" => net.delete(key(first), cells(&format!("={first} {rest}"))).map(|()| Rekeyed::Done),
                "K" => {
                    let new = rest.split(' ').next().unwrap();
                    net.rekey((key(first), only(first, 2)), (key(new), cells(rest)))
                }
                _ => panic!("{step}"),
            };
            match done {
                Ok(Rekeyed::Done) => {}
                Ok(Rekeyed::Alone(_)) => return format!("{}, then alone", shown(net.rows())),
                Err(Irregular) => return "irregular".to_owned(),
            }
        }
        shown(net.rows())
    }

    #[test]
    fn the_net_effect_per_key() {
        for (steps, effect) in [
            ("I 1 a b", "Insert 1 a b"),
            ("I 1 a b; U 1 c b", "Insert 1 c b"),
            ("I 1 a b; U 1 c *", "Insert 1 c b"),
            ("I 1 a b; D 1", "Nothing 1 a b"),
            ("I 1 a b; D 1; I 1 c d", "Nothing 1 a b; Insert 1 c d"),
            ("U 1 a b; U 1 c *", "Update =1 c b"),
            ("U 1 a *; U 1 c *", "Update =1 c *"),
            ("U 1 a =b; U 1 =a c", "Update =1 a c"),
            ("U 1 a b; D 1", "Delete =1 * *"),
            ("U 1 a *; D 1; I 1 c d", "Update =1 c d"),
            ("D 1; I 1 c d; U 1 e *", "Update =1 e d"),
            ("D 1; I 1 c -; D 1", "Delete =1 * *"),
            // The old row shows what the replica has, but not the changes before the deletion.
            ("D 1 =a =b; I 1 a c", "Update =1 =a c"),
            ("U 1 c =b; D 1 =c =b", "Delete =1 * =b"),
            ("U 1 c =b; D 1 =c =b; I 1 c b", "Update =1 c =b"),
            ("D 1 =a =b; I 1 c b; D 1 =c =b; I 1 c b", "Update =1 c =b"),
            // A key that moves takes along what was not sent, if it is known.
            ("K 1 2 a b", "Delete =1 * *; Insert 2 a b"),
            ("U 1 a b; K 1 2 c *", "Delete =1 * *; Insert 2 c b"),
            ("I 1 a b; K 1 2 c *", "Nothing 1 a b; Insert 2 c b"),
            ("U 1 a *; K 1 2 c *", "Update =1 a *, then alone"),
            ("K 1 2 a *", ", then alone"),
            ("K 1 2 a b; K 2 1 c *", "Update =1 c b; Nothing 2 a b"),
            // A swap by a third key.
            ("K 1 9 a a; K 2 1 b b; K 9 2 a a", "Update =1 b b; Nothing 9 a a; Update =2 a a"),
            ("I 1 a b; I 1 c d", "irregular"),
            ("D 1; D 1", "irregular"),
            ("D 1; U 1 a b", "irregular"),
            ("U 2 a b; K 1 2 c d", "irregular"),
        ] {
            assert_eq!(run(steps), effect, "{steps}");
        }
    }

    #[test]
    fn rows_without_a_key_are_counted() {
        let mut net = Counted::default();
        for (row, more) in [("a b", 1), ("a b", 1), ("a b", -1), ("ab -", -1), ("- ab", 1), ("- ab", -1)] {
            net.count(cells(row), more);
        }
        let counts: Vec<i64> = net.rows().iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, -1, 0]);
    }
}
