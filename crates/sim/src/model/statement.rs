//! The statements of the model: what each reads or writes, and what an analysis says of it. The planted bugs of the
//! analysis live here: each makes a footprint too small, or lets leave what must stay.

use super::schema::{A, B, Cell, G, ROWS, State, Table, key};
use crate::bugs::{Bug, Bugs};
use history::{Access, ColumnSet, Footprint, Key, KeyBuilder, RelationId, Rows};
use std::collections::BTreeSet;

/// Part of a table: the columns named, in one row or in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The table.
    pub table: Table,
    /// The row; all if `None`.
    pub row: Option<usize>,
    /// True if `a` is read.
    pub a: bool,
    /// True if `b` is read.
    pub b: bool,
}

/// A query. Its result is a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// Rows, columns, whole tables.
    Parts(Vec<Part>),
    /// `SELECT g FROM full WHERE key = row`.
    Generated(usize),
    /// `SELECT a FROM v`, a view that shows `full` or `plain`, as last defined.
    View,
    /// `SELECT a FROM full WHERE key = row`, under a policy that hides rows with an odd `b`.
    Policy(usize),
    /// `SELECT lower(1)`: the name resolves to a function that reads `plain`.
    Function,
    /// A read of what is not in the stream.
    Outside,
    /// `SELECT a FROM plain WHERE key = row`, if the right to read it has not been revoked.
    Privileged(usize),
    /// `SELECT a FROM full WHERE number = 1.00`: the key is written in another form than the row has it.
    KeyText(usize),
    /// A row chosen by `current_setting('app.tenant')`.
    Tenant,
    /// `SELECT now()`.
    Clock,
    /// A result that names its node: an address, a start time.
    Place,
    /// `SELECT ARRAY[a] FROM made WHERE key = row` in binary format, `a` of an enum of the schema's own: the array carries the
    /// type's OID, which a server where the schema was restored has otherwise.
    Typed(usize),
}

/// Surroundings of a statement where it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// A setting of the session.
    pub tenant: usize,
    /// The server's clock, microseconds.
    pub clock: u64,
    /// The server.
    pub node: u32,
    /// The schema was restored here: it is no physical copy of the primary's.
    pub restored: bool,
}

/// The OID of the schema's own type at the primary and at its standbys, and where the schema was restored.
const TYPE_OIDS: [u32; 2] = [16_482, 16_492];

fn value(state: &State, table: Table, row: usize, cell: Cell) -> u32 {
    if state.get(Cell::live(table, row)) % 2 == 1 { state.get(cell) } else { u32::MAX }
}

impl Select {
    /// One column or both of one row.
    pub fn row(table: Table, row: usize) -> Select {
        Select::Parts(vec![Part { table, row: Some(row), a: true, b: true }])
    }

    /// All rows.
    pub fn table(table: Table) -> Select {
        Select::Parts(vec![Part { table, row: None, a: true, b: true }])
    }

    /// Two rows at once.
    pub fn both(first: (Table, usize), second: (Table, usize)) -> Select {
        let part = |(table, row)| Part { table, row: Some(row), a: true, b: true };
        Select::Parts(vec![part(first), part(second)])
    }

    /// The result on one server in this state.
    pub fn run(&self, state: &State, around: Surroundings) -> Vec<u32> {
        use Table::{Full, Outside, Plain};
        match self {
            Select::Parts(parts) => parts.iter().flat_map(|part| part.run(state)).collect(),
            Select::Generated(row) | Select::KeyText(row) => {
                vec![value(state, Full, *row, Cell::a(Full, *row))]
            }
            Select::View => {
                let table =
                    if state.get(Cell::a(Table::Catalog, 0)).is_multiple_of(2) { Full } else { Plain };
                vec![value(state, table, 0, Cell::a(table, 0))]
            }
            Select::Policy(row) if state.get(Cell::b(Full, *row)) % 2 == 1 => vec![],
            Select::Policy(row) => vec![value(state, Full, *row, Cell::a(Full, *row))],
            Select::Function => vec![value(state, Plain, 0, Cell::a(Plain, 0))],
            Select::Outside => vec![value(state, Outside, 0, Cell::a(Outside, 0))],
            Select::Privileged(_) if state.get(Cell::a(Table::Catalog, 1)) % 2 == 1 => vec![],
            Select::Privileged(row) => vec![value(state, Plain, *row, Cell::a(Plain, *row))],
            Select::Tenant => vec![value(state, Full, around.tenant, Cell::a(Full, around.tenant))],
            Select::Clock => vec![u32::try_from(around.clock).expect("a run is short")],
            Select::Place => vec![around.node],
            Select::Typed(row) => {
                let oid = TYPE_OIDS[usize::from(around.restored)];
                vec![oid, value(state, Table::Made, *row, Cell::a(Table::Made, *row))]
            }
        }
    }

    /// The tables whose rows it touches, for locks.
    pub fn tables(&self) -> Vec<Table> {
        match self {
            Select::Parts(parts) => parts.iter().map(|part| part.table.storage()).collect(),
            Select::Generated(_) | Select::Policy(_) | Select::KeyText(_) | Select::Tenant => {
                vec![Table::Full]
            }
            Select::View | Select::Function | Select::Privileged(_) => vec![Table::Plain],
            Select::Outside => vec![Table::Outside],
            Select::Typed(_) => vec![Table::Made],
            Select::Clock | Select::Place => vec![],
        }
    }

    /// The relations that it locks, if that is known before it runs.
    pub fn locks(&self) -> Option<BTreeSet<RelationId>> {
        let known = !matches!(self, Select::View | Select::Function);
        known.then(|| self.tables().into_iter().map(Table::relation).collect())
    }

    /// Reason that keeps it at the primary, if any.
    pub fn stays(&self, bugs: &Bugs) -> Option<&'static str> {
        match self {
            Select::Outside if !bugs.has(Bug::MatviewAtReplica) => Some("not_in_stream"),
            Select::Clock if !bugs.has(Bug::ReplicaClockBehind) => Some("clock"),
            Select::Place if !bugs.has(Bug::NodeAtStandby) => Some("node"),
            _ => None,
        }
    }

    /// True if a server where the schema was restored answers as the primary does, as long as both hold the
    /// same rows.
    pub fn is_equal_at_copies(&self) -> bool {
        !matches!(self, Select::Typed(_))
    }

    /// Reads of the statement, by its analysis. `view`: the view's definition when its tree was cached.
    pub fn footprint(&self, bugs: &Bugs, view: u32) -> Footprint {
        let one = |table: Table, columns: ColumnSet, rows: Rows| {
            Footprint::of(table.relation(), Access::read(columns, rows))
        };
        let row = |row: &usize| Rows::keys([key(*row)]);
        match self {
            Select::Parts(parts) => parts.iter().fold(Footprint::NOTHING, |mut all, part| {
                all.union(&part.footprint(bugs));
                all
            }),
            Select::Generated(n) if bugs.has(Bug::GeneratedNotClosed) => {
                one(Table::Full, ColumnSet::of([G]), row(n))
            }
            Select::Generated(n) => one(Table::Full, ColumnSet::of([A, G]), row(n)),
            Select::View if view.is_multiple_of(2) => one(Table::Full, ColumnSet::of([A]), row(&0)),
            Select::View => one(Table::Plain, ColumnSet::of([A]), row(&0)),
            Select::Policy(n) if bugs.has(Bug::PolicyColumnMissed) => {
                one(Table::Full, ColumnSet::of([A]), row(n))
            }
            Select::Policy(n) => one(Table::Full, ColumnSet::of([A, B]), row(n)),
            Select::Function if bugs.has(Bug::NameWhitelistOnly) => Footprint::NOTHING,
            Select::Function => one(Table::Plain, ColumnSet::of([A]), row(&0)),
            Select::Outside => one(Table::Outside, ColumnSet::of([A]), row(&0)),
            Select::Privileged(n) => one(Table::Plain, ColumnSet::of([A]), row(n)),
            Select::Typed(n) => one(Table::Made, ColumnSet::of([A]), row(n)),
            Select::KeyText(n) if bugs.has(Bug::KeyNotCanonical) => {
                one(Table::Full, ColumnSet::of([A]), Rows::keys([as_written(*n)]))
            }
            Select::KeyText(_) | Select::Tenant => one(Table::Full, ColumnSet::of([A]), Rows::All),
            Select::Clock | Select::Place => Footprint::NOTHING,
        }
    }
}

/// The key from the literal's own text: `1.00` and `1.0` are two.
fn as_written(row: usize) -> Key {
    KeyBuilder::default().bytes(format!("{row}.00").as_bytes()).finish()
}

impl Part {
    fn run(&self, state: &State) -> Vec<u32> {
        let rows = match self.row {
            Some(row) => row..row + 1,
            None => 0..ROWS,
        };
        let cells = rows.flat_map(|row| {
            let there = (state.get(Cell::live(self.table, row)) % 2) + 1;
            let a = self.a.then(|| value(state, self.table, row, Cell::a(self.table, row)));
            let b = self.b.then(|| value(state, self.table, row, Cell::b(self.table, row)));
            [Some(there), a, b]
        });
        cells.flatten().collect()
    }

    fn footprint(&self, bugs: &Bugs) -> Footprint {
        let columns = ColumnSet::of([(self.a, A), (self.b, B)].iter().filter(|c| c.0).map(|c| c.1));
        let rows = self.row.map_or(Rows::All, |row| Rows::keys([key(row)]));
        let mut footprint = Footprint::of(self.table.relation(), Access::read(columns, rows.clone()));
        if self.table == Table::Parent && !bugs.has(Bug::PartitionNotClosed) {
            footprint.add(Table::Leaf.relation(), Access::read(columns, rows));
        }
        footprint
    }
}

/// A change of the data or of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// UPDATE of `a`, of `b`, or of both, in one row.
    Set(Table, usize, bool, bool),
    /// INSERT of one row (again, if it is there).
    Insert(Table, usize),
    /// DELETE of one row.
    Delete(Table, usize),
    /// `UPDATE t SET key = to WHERE key = from`.
    MoveKey(Table, usize, usize),
    /// TRUNCATE.
    Truncate(Table),
    /// CREATE OR REPLACE VIEW, to the other table.
    Redefine,
    /// REVOKE, or GRANT, of the right to read `plain`.
    Grants(bool),
    /// LOCK TABLE in ACCESS EXCLUSIVE MODE.
    Lock(Table),
    /// CREATE TRIGGER on `full`, which writes the same row of `plain` too.
    Trigger,
    /// An UPDATE of one row of `full`, in whose row the trigger fires if it is there.
    Fires(usize),
    /// `DROP TABLE made; CREATE TABLE made AS ...` in one transaction: new rows, and no replica identity.
    Make,
}

impl Change {
    /// A change of both columns of one row.
    pub fn row(table: Table, row: usize) -> Change {
        Change::Set(table, row, true, true)
    }

    /// True if it is DDL: a barrier.
    pub fn is_ddl(&self) -> bool {
        matches!(self, Change::Redefine | Change::Grants(_) | Change::Trigger | Change::Make)
    }

    /// True if it takes an ACCESS EXCLUSIVE lock on its table.
    pub fn locks_table(&self) -> bool {
        matches!(self, Change::Truncate(_) | Change::Lock(_) | Change::Make)
    }

    /// True if a server in this state refuses it: its table is published and has no replica identity, by
    /// which the stream would name the rows that change or go.
    pub fn lacks_identity(&self, state: &State) -> bool {
        let names_rows = matches!(self, Change::Set(..) | Change::Delete(..) | Change::MoveKey(..));
        names_rows && self.table() == Table::Made && state.get(identity()) % 2 == 1
    }

    /// Write of the event trigger, in the same transaction, which Consort keeps at the primary: REPLICA
    /// IDENTITY FULL.
    pub fn event_trigger(&self, bugs: &Bugs, mut fresh: impl FnMut() -> u32) -> Option<(Cell, u32)> {
        let fires = *self == Change::Make && !bugs.has(Bug::IdentityNotGiven);
        fires.then(|| (identity(), fresh()))
    }

    /// True if it locks readers out from the statement on.
    pub fn locks_out_readers(&self) -> bool {
        self.is_ddl() || self.locks_table()
    }

    /// The table that it touches.
    pub fn table(&self) -> Table {
        match self {
            Change::Set(table, ..) | Change::Insert(table, _) | Change::Delete(table, _) => table.storage(),
            Change::MoveKey(table, ..) | Change::Truncate(table) | Change::Lock(table) => table.storage(),
            Change::Redefine | Change::Grants(_) | Change::Trigger => Table::Catalog,
            Change::Fires(_) => Table::Full,
            Change::Make => Table::Made,
        }
    }

    /// The rows that it locks.
    pub fn rows(&self) -> Vec<usize> {
        match self {
            Change::Set(_, row, ..) | Change::Insert(_, row) | Change::Delete(_, row) => vec![*row],
            Change::MoveKey(_, from, to) => vec![*from.min(to), *from.max(to)],
            Change::Truncate(_) | Change::Make => (0..ROWS).collect(),
            Change::Redefine => vec![0],
            Change::Grants(_) => vec![1],
            Change::Fires(row) => vec![*row],
            Change::Trigger => vec![2],
            Change::Lock(_) => vec![],
        }
    }

    /// Effects of the statement on this state. `fresh` gives a value that was never written, even.
    pub fn effects(&self, state: &State, mut fresh: impl FnMut() -> u32) -> Vec<(Cell, u32)> {
        match *self {
            Change::Set(table, row, a, b) => {
                let cells = [(a, Cell::a(table, row)), (b, Cell::b(table, row))];
                let new = |(_, cell): (bool, Cell)| {
                    let value = fresh();
                    (cell, value + value / 2 % 2)
                };
                cells.into_iter().filter(|(set, _)| *set).map(new).collect()
            }
            Change::Insert(table, row) => {
                vec![
                    (Cell::live(table, row), fresh() + 1),
                    (Cell::a(table, row), fresh()),
                    (Cell::b(table, row), fresh()),
                ]
            }
            Change::Delete(table, row) => vec![(Cell::live(table, row), fresh())],
            Change::MoveKey(table, from, _) if state.get(Cell::live(table, from)).is_multiple_of(2) => vec![],
            Change::MoveKey(table, from, to) => vec![
                (Cell::live(table, from), fresh()),
                (Cell::live(table, to), fresh() + 1),
                (Cell::a(table, to), state.get(Cell::a(table, from))),
                (Cell::b(table, to), state.get(Cell::b(table, from))),
            ],
            Change::Truncate(table) => (0..ROWS).map(|row| (Cell::live(table, row), fresh())).collect(),
            Change::Redefine => {
                let now = state.get(Cell::a(Table::Catalog, 0)) % 2;
                vec![(Cell::a(Table::Catalog, 0), fresh() + 1 - now)]
            }
            Change::Grants(revoke) => vec![(Cell::a(Table::Catalog, 1), fresh() + u32::from(revoke))],
            Change::Trigger => vec![(Cell::a(Table::Catalog, 2), fresh() + 1)],
            Change::Fires(row) => {
                let fired = trigger_there(state).then_some(Table::Plain);
                let tables = [Some(Table::Full), fired];
                let cells = |table| [Cell::a(table, row), Cell::b(table, row)];
                tables.into_iter().flatten().flat_map(cells).map(|cell| (cell, fresh())).collect()
            }
            Change::Make => {
                let mut effects = vec![(identity(), fresh() + 1)];
                for row in 0..ROWS {
                    effects.push((Cell::live(Table::Made, row), fresh() + 1));
                    effects.push((Cell::a(Table::Made, row), fresh()));
                    effects.push((Cell::b(Table::Made, row), fresh()));
                }
                effects
            }
            Change::Lock(_) => vec![],
        }
    }

    /// Writes of the trigger in the same statement, if it has fired: with these effects.
    pub fn fired(&self, effects: &[(Cell, u32)], bugs: &Bugs) -> Option<Footprint> {
        let Change::Fires(row) = *self else { return None };
        let of_trigger = |(cell, _): &(Cell, u32)| *cell == Cell::a(Table::Plain, row);
        effects.iter().any(of_trigger).then(|| Change::row(Table::Plain, row).in_stream(bugs)).flatten()
    }

    /// The stream's record of its writes; `None` if it does not come out.
    pub fn in_stream(&self, bugs: &Bugs) -> Option<Footprint> {
        let of = |access: Access| Some(Footprint::of(self.table().relation(), access));
        match self {
            Change::Lock(_) => None,
            _ if self.table() == Table::Outside => None,
            Change::Grants(_) if bugs.has(Bug::RevokeLate) => None,
            Change::Set(Table::Full, row, a, b) => {
                let columns = ColumnSet::of([(*a, A), (*b, B)].iter().filter(|c| c.0).map(|c| c.1));
                of(Access::update(columns, Rows::keys([key(*row)])))
            }
            // The new row alone does not say what changed; the bug takes the key's columns for all that did.
            Change::Set(Table::Plain, row, ..) if bugs.has(Bug::ColumnsFromNewRow) => {
                of(Access::update(ColumnSet::of([1]), Rows::keys([key(*row)])))
            }
            Change::Set(_, row, ..) => of(Access::update(ColumnSet::All, Rows::keys([key(*row)]))),
            Change::Insert(_, row) | Change::Delete(_, row) => of(Access::existence(Rows::keys([key(*row)]))),
            Change::MoveKey(_, from, _) if bugs.has(Bug::PkUpdateOneRow) => {
                of(Access::existence(Rows::keys([key(*from)])))
            }
            Change::MoveKey(_, from, to) => of(Access::existence(Rows::keys([key(*from), key(*to)]))),
            Change::Truncate(_) => of(Access::WHOLE),
            Change::Fires(row) => Change::row(Table::Full, *row).in_stream(bugs),
            Change::Redefine | Change::Grants(_) | Change::Trigger | Change::Make => {
                Some(Footprint::Everything)
            }
        }
    }

    /// Possible writes by the analysis: its part of the in-flight write set. `trigger`: true if the trigger
    /// was there at the analysis.
    pub fn in_flight(&self, trigger: bool) -> Footprint {
        let access = match self {
            Change::Set(_, row, a, b) => {
                let columns = ColumnSet::of([(*a, A), (*b, B), (*a, G)].iter().filter(|c| c.0).map(|c| c.1));
                Access::update(columns, Rows::keys([key(*row)]))
            }
            Change::Insert(_, row) | Change::Delete(_, row) => Access::existence(Rows::keys([key(*row)])),
            Change::MoveKey(_, from, to) => Access::existence(Rows::keys([key(*from), key(*to)])),
            Change::Truncate(_) | Change::Lock(_) => Access::WHOLE,
            Change::Redefine | Change::Grants(_) | Change::Trigger | Change::Make => {
                return Footprint::Everything;
            }
            Change::Fires(row) => {
                let mut footprint = Change::row(Table::Full, *row).in_flight(trigger);
                if trigger {
                    footprint.union(&Change::row(Table::Plain, *row).in_flight(trigger));
                }
                return footprint;
            }
        };
        Footprint::of(self.table().relation(), access)
    }
}

/// Odd if the table that is made has no replica identity. In the beginning it has one: Consort gave it to what was there.
fn identity() -> Cell {
    Cell::b(Table::Catalog, 0)
}

/// True if the trigger is there.
pub fn trigger_there(state: &State) -> bool {
    state.get(Cell::a(Table::Catalog, 2)) % 2 == 1
}

/// Possible writes of several changes together.
pub fn in_flight(changes: &[Change], trigger: bool) -> Footprint {
    changes.iter().fold(Footprint::NOTHING, |mut all, change| {
        all.union(&change.in_flight(trigger));
        all
    })
}
