//! Messages of the extended protocol to the replica, and the answer that each statement must get.
//!
//! Statements are prepared when they are first met and named by number. Nothing here reads or writes a
//! socket.

use super::Error;
use super::encode::{Encoding, Unreadable, line};
use super::net_effect::{Cell, Cells, Counted, Fate, Row};
use super::statement::{self, Statement};
use super::table::Table;
use bytes::{BufMut, Bytes, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// One statement takes no more rows than this: its arrays lie in the server's memory.
const MAX_ROWS: usize = 10_000;
/// Nor more bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// From so many rows on they are inserted by COPY.
const COPY_ROWS: usize = 20;
/// A message of COPY's data has about this size.
const COPY_MESSAGE_BYTES: usize = 64 * 1024;
/// Maximum number of prepared statements. When it is reached, all are forgotten.
const MAX_PREPARED: usize = 1000;
/// Number of inserted rows after which a plan that was made for a small table is made again. The number
/// doubles each time.
const REPLAN_ROWS: u64 = 200;

/// Expected answer.
#[derive(Clone, Debug)]
pub(super) struct Check {
    /// The number of rows; `None` if it does not count.
    pub(super) rows: Option<u64>,
    pub(super) about: About,
}

/// Purpose of a statement.
#[derive(Clone, Debug)]
pub(super) enum About {
    /// BEGIN, COMMIT, settings.
    Transaction,
    /// The position.
    Position,
    /// A table's rows; which one, if it is only one.
    Rows(Rc<Table>, Option<String>),
    /// A statement that stands for rows.
    Rerun,
}

/// Identity of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Insert,
    Copy,
    Delete,
    DeleteCounted,
    Update(Box<[usize]>),
    Replace(Box<[usize]>),
}

/// The statements that are prepared at the replica.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// By table and purpose.
    names: HashMap<(u32, Name), u32>,
    next: u32,
    /// Prefix of their numbers: distinguishes several sets on one connection.
    prefix: &'static str,
    /// Rows inserted into each table, and the number of rows at which its plans are to be made again.
    grown: HashMap<u32, (u64, u64)>,
}

impl Prepared {
    /// None yet, and their names begin with this.
    pub(super) fn named(prefix: &'static str) -> Prepared {
        Prepared { prefix, ..Prepared::default() }
    }

    fn name(&self, number: u32) -> String {
        format!("s{}{number}", self.prefix)
    }

    /// None is any more: writes what makes the server forget them. Names are not given twice.
    pub(super) fn forget(&mut self, script: &mut Script) -> Result<(), Error> {
        for number in self.names.values() {
            frontend::close(b'S', &self.name(*number), &mut script.bytes)?;
        }
        self.names.clear();
        self.grown.clear();
        Ok(())
    }

    /// Mark of this place: later statements have a higher number.
    pub(super) fn mark(&self) -> u32 {
        self.next
    }

    /// A script was thrown away before it was sent: what it would have prepared is not.
    pub(super) fn unsend(&mut self, mark: u32) {
        self.names.retain(|_, number| *number < mark);
    }

    pub(super) fn too_many(&self) -> bool {
        self.names.len() > MAX_PREPARED
    }
}

/// Messages and the checks of their answers, in the same order.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) bytes: BytesMut,
    pub(super) checks: VecDeque<Check>,
}

/// Why a Bind cannot be written.
pub(super) fn unbound(error: frontend::BindError) -> Error {
    match error {
        frontend::BindError::Conversion(error) => Error::stream(error.to_string()),
        frontend::BindError::Serialization(error) => error.into(),
    }
}

impl Script {
    /// Runs a statement of no parameters that is not kept.
    pub(super) fn run(&mut self, sql: &str, about: About) -> Result<(), Error> {
        frontend::parse("", sql, [], &mut self.bytes)?;
        self.bind("", &[], |_, _| Ok(()))?;
        self.checks.push_back(Check { rows: None, about });
        Ok(())
    }

    /// Runs a statement that is kept under a name that the feeder has prepared, with texts as parameters.
    pub(super) fn run_texts(&mut self, name: &str, texts: &[&str], check: Check) -> Result<(), Error> {
        self.bind(name, &vec![0; texts.len()], |at, to| {
            to.put_slice(texts[at].as_bytes());
            Ok(())
        })?;
        self.checks.push_back(check);
        Ok(())
    }

    /// The end of what is sent at once.
    pub(super) fn sync(&mut self) {
        frontend::sync(&mut self.bytes);
    }

    fn bind(
        &mut self,
        name: &str,
        formats: &[i16],
        mut write: impl FnMut(usize, &mut BytesMut) -> Result<(), Unreadable>,
    ) -> Result<(), Error> {
        let bound = frontend::bind(
            "",
            name,
            formats.iter().copied(),
            0..formats.len(),
            |at, to| match write(at, to) {
                Ok(()) => Ok(IsNull::No),
                Err(Unreadable) => Err("a value does not match its type".into()),
            },
            [],
            &mut self.bytes,
        );
        bound.map_err(unbound)?;
        frontend::execute("", 0, &mut self.bytes)?;
        Ok(())
    }

    /// The name of a prepared statement, which is prepared now if it was not.
    fn prepared(
        &mut self,
        prepared: &mut Prepared,
        table: &Table,
        name: Name,
        statement: impl FnOnce() -> Statement,
    ) -> Result<String, Error> {
        if let Some(number) = prepared.names.get(&(table.number, name.clone())) {
            return Ok(prepared.name(*number));
        }
        let number = prepared.next;
        prepared.next += 1;
        prepared.names.insert((table.number, name), number);
        let (name, Statement { sql, parameters }) = (prepared.name(number), statement());
        frontend::parse(&name, &sql, parameters, &mut self.bytes)?;
        Ok(name)
    }

    /// After rows were inserted: plans that were made for a much smaller table are made again.
    fn grown(&mut self, prepared: &mut Prepared, table: &Table, rows: u64) -> Result<(), Error> {
        let (grown, at) = prepared.grown.entry(table.number).or_insert((0, REPLAN_ROWS));
        *grown += rows;
        if *grown < *at {
            return Ok(());
        }
        *at = *grown * 2;
        let planned = |name: &Name| matches!(name, Name::Delete | Name::Update(_) | Name::Replace(_));
        let old: Vec<_> =
            prepared.names.extract_if(|(number, name), _| *number == table.number && planned(name)).collect();
        for (_, number) in old {
            frontend::close(b'S', &prepared.name(number), &mut self.bytes)?;
        }
        Ok(())
    }
}

/// The writer of one table's net effect.
pub(super) struct Writer<'a> {
    pub(super) script: &'a mut Script,
    pub(super) prepared: &'a mut Prepared,
    pub(super) table: &'a Rc<Table>,
    /// Each statement is about one row, whose key is to be named.
    pub(super) one_by_one: bool,
}

impl Writer<'_> {
    /// Deletes, then updates, then inserts.
    pub(super) fn keyed(&mut self, rows: &[&Row]) -> Result<(), Error> {
        let of = |fate| rows.iter().copied().filter(move |row| row.fate == fate).collect::<Vec<_>>();
        let (mut deletes, mut updates, inserts) = (of(Fate::Delete), of(Fate::Update), of(Fate::Insert));
        sort_by_key(&mut deletes, self.table);
        sort_by_key(&mut updates, self.table);
        let updates = grouped(&updates, self.table);
        self.searching(|writer| {
            writer.by_key(Name::Delete, &[], &deletes)?;
            updates.iter().try_for_each(|(set, rows)| writer.update(set, rows))
        })?;
        self.insert(&inserts.iter().map(|row| &row.cells).collect::<Vec<_>>())
    }

    /// Deletes, then inserts.
    pub(super) fn counted(&mut self, net: &Counted) -> Result<(), Error> {
        let fewer: Vec<(&Cells, u64)> = net
            .rows()
            .iter()
            .filter(|(_, count)| *count < 0)
            .map(|(cells, count)| (cells, count.unsigned_abs()))
            .collect();
        if !fewer.is_empty() {
            self.searching(|writer| fewer.chunks(MAX_ROWS).try_for_each(|some| writer.delete_counted(some)))?;
        }
        let mut more = Vec::new();
        for (cells, count) in net.rows() {
            more.extend((0..*count).map(|_| cells));
        }
        self.insert(&more)
    }

    /// One row whose key changes, by an UPDATE of its own: some of its values are not known.
    pub(super) fn alone(&mut self, old: &Cells, new: &Cells) -> Result<(), Error> {
        let set = set_of(new, self.table);
        let about = self.about(old, true);
        self.searching(|writer| writer.set_by_key(&set, &[(old, new)], about))
    }

    /// Without an index that finds rows by their keys, the plans that need none are allowed.
    fn searching(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        if self.table.indexed {
            return work(self);
        }
        let transaction = || About::Transaction;
        self.script.run("SET LOCAL enable_hashjoin = on", transaction())?;
        self.script.run("SET LOCAL enable_seqscan = on", transaction())?;
        work(self)?;
        self.script.run("SET LOCAL enable_hashjoin = off", transaction())?;
        self.script.run("SET LOCAL enable_seqscan = off", transaction())
    }

    fn update(&mut self, set: &[usize], rows: &[&Row]) -> Result<(), Error> {
        for rows in pieces(rows, |row| weight(&row.cells)) {
            let pairs: Vec<_> = rows.iter().map(|row| (&row.cells, &row.cells)).collect();
            let about = self.about(&rows[0].cells, rows.len() == 1);
            self.set_by_key(set, &pairs, about)?;
        }
        Ok(())
    }

    fn set_by_key(&mut self, set: &[usize], rows: &[(&Cells, &Cells)], about: About) -> Result<(), Error> {
        let table = self.table.clone();
        let replaces = set.iter().any(|place| table.columns[*place].always);
        let name = if replaces { Name::Replace(set.into()) } else { Name::Update(set.into()) };
        let statement =
            || if replaces { statement::replace(&table, set) } else { statement::update(&table, set) };
        let name = self.script.prepared(self.prepared, &table, name, statement)?;
        let keys = table.key.len();
        let places: Vec<usize> = table.key.iter().chain(set).copied().collect();
        let formats: Vec<i16> = places.iter().map(|place| table.columns[*place].encoding.format()).collect();
        self.script.bind(&name, &formats, |at, to| {
            let place = places[at];
            let values = rows.iter().map(|(old, new)| {
                let cells = if at < keys { old } else { new };
                cells[place].value().flatten()
            });
            table.columns[place].encoding.write(values, to)
        })?;
        self.check(rows.len(), about);
        Ok(())
    }

    fn by_key(&mut self, name: Name, set: &[usize], rows: &[&Row]) -> Result<(), Error> {
        let table = self.table.clone();
        for rows in pieces(rows, |row| weight(&row.cells)) {
            let name =
                self.script.prepared(self.prepared, &table, name.clone(), || statement::delete(&table))?;
            let places: Vec<usize> = table.key.iter().chain(set).copied().collect();
            let formats: Vec<i16> =
                places.iter().map(|place| table.columns[*place].encoding.format()).collect();
            self.script.bind(&name, &formats, |at, to| {
                let values = rows.iter().map(|row| row.cells[places[at]].value().flatten());
                table.columns[places[at]].encoding.write(values, to)
            })?;
            let about = self.about(&rows[0].cells, rows.len() == 1);
            self.check(rows.len(), about);
        }
        Ok(())
    }

    fn delete_counted(&mut self, rows: &[(&Cells, u64)]) -> Result<(), Error> {
        let table = self.table.clone();
        let name = self
            .script
            .prepared(self.prepared, &table, Name::DeleteCounted, || statement::delete_counted(&table))?;
        let places = statement::writable(&table);
        let mut formats: Vec<i16> =
            places.iter().map(|place| table.columns[*place].encoding.format()).collect();
        formats.push(Encoding::INT8.format());
        let counts: Vec<Bytes> = rows.iter().map(|(_, count)| count.to_string().into()).collect();
        self.script.bind(&name, &formats, |at, to| match places.get(at) {
            Some(place) => {
                let values = rows.iter().map(|(cells, _)| cells[*place].value().flatten());
                table.columns[*place].encoding.write(values, to)
            }
            None => Encoding::INT8.write(counts.iter().map(Some), to),
        })?;
        let all = rows.iter().map(|(_, count)| usize::try_from(*count).unwrap_or(usize::MAX)).sum();
        let about = self.about(rows[0].0, rows.len() == 1);
        self.check(all, about);
        Ok(())
    }

    fn insert(&mut self, rows: &[&Cells]) -> Result<(), Error> {
        let places = statement::writable(self.table);
        for rows in pieces(rows, |cells| weight(cells)) {
            if places.is_empty() {
                self.insert_nothing(rows.len())?;
            } else if rows.len() >= COPY_ROWS {
                self.copy(&places, rows)?;
            } else {
                self.insert_arrays(&places, rows)?;
            }
            let about = self.about(rows[0], rows.len() == 1);
            self.check(rows.len(), about);
            self.script.grown(self.prepared, self.table, rows.len() as u64)?;
        }
        Ok(())
    }

    fn insert_nothing(&mut self, count: usize) -> Result<(), Error> {
        let table = self.table;
        let name = self.script.prepared(self.prepared, table, Name::Insert, || statement::insert(table))?;
        self.script.bind(&name, &[0], |_, to| {
            to.put_slice(count.to_string().as_bytes());
            Ok(())
        })
    }

    fn insert_arrays(&mut self, places: &[usize], rows: &[&Cells]) -> Result<(), Error> {
        let table = self.table;
        let name = self.script.prepared(self.prepared, table, Name::Insert, || statement::insert(table))?;
        let formats: Vec<i16> = places.iter().map(|place| table.columns[*place].encoding.format()).collect();
        self.script.bind(&name, &formats, |at, to| {
            let values = rows.iter().map(|cells| cells[places[at]].value().flatten());
            table.columns[places[at]].encoding.write(values, to)
        })
    }

    fn copy(&mut self, places: &[usize], rows: &[&Cells]) -> Result<(), Error> {
        let table = self.table;
        let name = self.script.prepared(self.prepared, table, Name::Copy, || statement::copy(table))?;
        self.script.bind(&name, &[], |_, _| Ok(()))?;
        let to = &mut self.script.bytes;
        let mut rows = rows.iter().peekable();
        while rows.peek().is_some() {
            to.put_u8(b'd');
            let start = to.len();
            to.put_i32(0);
            while to.len() - start < COPY_MESSAGE_BYTES
                && let Some(cells) = rows.next()
            {
                line(places.iter().map(|place| cells[*place].value().flatten()), to);
            }
            let length = i32::try_from(to.len() - start)
                .map_err(|_| Error::stream("a row is too long for a message".to_owned()))?;
            to[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        frontend::copy_done(to);
        Ok(())
    }

    fn check(&mut self, rows: usize, about: About) {
        self.script.checks.push_back(Check { rows: Some(rows as u64), about });
    }

    fn about(&self, cells: &Cells, single: bool) -> About {
        let named = single && self.one_by_one;
        About::Rows(self.table.clone(), named.then(|| shown(cells, self.table)))
    }
}

/// The key of a row, for a person: `(id) = (7)`, or all of its columns if it has no key.
fn shown(cells: &Cells, table: &Table) -> String {
    let all: Vec<usize> = (0..table.columns.len()).collect();
    let places = if table.key.is_empty() { &all } else { &table.key };
    let names: Vec<&str> = places.iter().map(|place| table.columns[*place].shown.as_str()).collect();
    let value = |place: &usize| match cells[*place].value() {
        Some(Some(value)) => String::from_utf8_lossy(value).into_owned(),
        Some(None) => "NULL".to_owned(),
        None => "?".to_owned(),
    };
    let values: Vec<String> = places.iter().map(value).collect();
    format!("({}) = ({})", names.join(", "), values.join(", "))
}

/// The columns of a row that are to be set.
fn set_of(cells: &Cells, table: &Table) -> Vec<usize> {
    let new = |place: &usize| matches!(cells[*place], Cell::New(_)) && table.columns[*place].writable;
    (0..cells.len()).filter(new).collect()
}

/// Rows with neighbouring keys often lie in one page: it is looked up and cleaned of dead versions once, not once per row.
fn sort_by_key(rows: &mut [&Row], table: &Table) {
    let Some(first) = table.key.first().filter(|_| rows.len() > 1) else { return };
    let by_length = table.columns[*first].encoding.is_number();
    rows.sort_by(|one, other| {
        let (one, other) = (one.cells[*first].value().flatten(), other.cells[*first].value().flatten());
        let length = |value: Option<&Bytes>| value.map_or(0, Bytes::len);
        // The shorter of two unsigned numbers is the smaller.
        let shorter = if by_length { length(one).cmp(&length(other)) } else { Ordering::Equal };
        shorter.then_with(|| one.cmp(&other))
    });
}

/// Rows by the columns that are to be set; a row of which none is needs nothing.
fn grouped<'a>(rows: &[&'a Row], table: &Table) -> Vec<(Vec<usize>, Vec<&'a Row>)> {
    let mut groups: Vec<(Vec<usize>, Vec<&Row>)> = Vec::new();
    let mut places: HashMap<Vec<usize>, usize> = HashMap::new();
    for row in rows {
        let set = set_of(&row.cells, table);
        if set.is_empty() {
            continue;
        }
        // Most often it is the same set as before.
        let place = match groups.last() {
            Some((last, _)) if *last == set => groups.len() - 1,
            _ => *places.entry(set.clone()).or_insert_with(|| {
                groups.push((set, Vec::new()));
                groups.len() - 1
            }),
        };
        groups[place].1.push(row);
    }
    groups
}

/// Cuts rows into pieces of a bounded number and size.
fn pieces<T>(rows: &[T], weight: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut pieces, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, row) in rows.iter().enumerate() {
        let more = weight(row);
        if place > start && (place - start == MAX_ROWS || bytes + more > MAX_BYTES) {
            pieces.push(&rows[start..place]);
            (start, bytes) = (place, 0);
        }
        bytes += more;
    }
    if start < rows.len() {
        pieces.push(&rows[start..]);
    }
    pieces
}

/// About how many bytes a row is.
fn weight(cells: &Cells) -> usize {
    cells.iter().map(|cell| 16 + cell.value().flatten().map_or(0, Bytes::len)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_bounded() {
        let lengths =
            |rows: &[usize]| pieces(rows, |row| *row).iter().map(|piece| piece.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[MAX_BYTES * 2, 1, MAX_BYTES, 1]), [1, 1, 1, 1]);
        assert_eq!(lengths(&vec![1; MAX_ROWS * 2 + 3]), [MAX_ROWS, MAX_ROWS, 3]);
    }
}
