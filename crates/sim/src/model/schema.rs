//! The tables of the model, and what each is there for.
//!
//! Every database holds the same seven tables of three rows with the columns `key` (1), `a` (2), `b` (3). A cell is one
//! number; every value written anywhere is new, so that a result says exactly which writes it has seen.

use history::{DatabaseId, Key, KeyBuilder, RelationId};

/// Number of databases with a slot.
pub const SERVED: usize = 2;
/// Number of databases: the last is written, but not decoded.
pub const DATABASES: usize = 3;
/// Rows of every table.
pub const ROWS: usize = 3;
/// Cells of one row: whether it is there, `a`, `b`.
pub const CELLS: usize = 3;
const TABLES: usize = 7;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// REPLICA IDENTITY FULL: the stream says which columns changed. Has a column `g` (4), generated from `a`.
    Full,
    /// Default identity: the stream has the new row only, so every update changes all columns.
    Plain,
    /// Partitioned: its rows lie in [`Table::Leaf`], under whose name the stream gives them.
    Parent,
    /// The partition.
    Leaf,
    /// Not in the stream: unlogged, a materialized view, outside the publication.
    Outside,
    /// Object of DDL: row 0 a view's definition and whether [`Table::Made`] has a replica identity, row 1 the
    /// right to read [`Table::Plain`].
    Catalog,
    /// Made by CREATE TABLE AS while clients use it, without a key.
    Made,
}

/// Column `a`.
pub const A: i16 = 2;
/// Column `b`.
pub const B: i16 = 3;
/// The generated column.
pub const G: i16 = 4;

impl Table {
    /// The OID.
    pub fn relation(self) -> RelationId {
        RelationId::new(16_384 + self as u32)
    }

    /// The table that holds the rows.
    pub fn storage(self) -> Table {
        if self == Table::Parent { Table::Leaf } else { self }
    }
}

/// The database with this number.
pub fn database(number: usize) -> DatabaseId {
    DatabaseId::new(u32::try_from(number).expect("few databases") + 5)
}

/// The number of this database.
pub fn number(database: DatabaseId) -> usize {
    database.get() as usize - 5
}

/// The canonical key of a row.
pub fn key(row: usize) -> Key {
    KeyBuilder::default().integer(i64::try_from(row).expect("few rows")).finish()
}

/// One number of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(u8);

impl Cell {
    fn at(table: Table, row: usize, part: usize) -> Cell {
        let place = (table.storage() as usize * ROWS + row) * CELLS + part;
        Cell(u8::try_from(place).expect("63 cells"))
    }

    /// The one with this place in the row of this number.
    pub fn of(row: usize, place: usize) -> Cell {
        Cell(u8::try_from(row * CELLS + place).expect("63 cells"))
    }

    /// Its place in its row.
    pub fn place(self) -> usize {
        usize::from(self.0) % CELLS
    }

    /// The number of its row, among those of all tables.
    pub fn row(self) -> usize {
        usize::from(self.0) / CELLS
    }

    /// True if it lies in this table.
    pub fn is_of(self, table: Table) -> bool {
        usize::from(self.0) / (ROWS * CELLS) == table.storage() as usize
    }

    /// Cell that says if the row exists: odd values say so.
    pub fn live(table: Table, row: usize) -> Cell {
        Cell::at(table, row, 0)
    }

    /// Column `a`.
    pub fn a(table: Table, row: usize) -> Cell {
        Cell::at(table, row, 1)
    }

    /// Column `b`.
    pub fn b(table: Table, row: usize) -> Cell {
        Cell::at(table, row, 2)
    }
}

/// Everything that one database holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State([u32; TABLES * ROWS * CELLS]);

impl Default for State {
    fn default() -> State {
        let mut state = State([0; TABLES * ROWS * CELLS]);
        for place in (0..state.0.len()).step_by(CELLS) {
            state.0[place] = 1;
        }
        state
    }
}

impl State {
    /// The value of a cell.
    pub fn get(&self, cell: Cell) -> u32 {
        self.0[cell.0 as usize]
    }

    /// This state with a table as it was in the beginning.
    #[must_use]
    pub fn without(&self, table: Table) -> State {
        let (mut state, begin) = (self.clone(), State::default());
        let cells = table.storage() as usize * ROWS * CELLS..(table.storage() as usize + 1) * ROWS * CELLS;
        state.0[cells.clone()].copy_from_slice(&begin.0[cells]);
        state
    }

    /// Every value.
    pub fn values(&self) -> Vec<u32> {
        self.0.to_vec()
    }

    /// This state after these effects.
    pub fn apply(&mut self, effects: &[(Cell, u32)]) {
        for (cell, value) in effects {
            self.0[cell.0 as usize] = *value;
        }
    }
}
