//! From the rows of a batch to the script: reads the messages, gathers each table's net effect, writes it out.

use super::lanes::Apart;
use super::net_effect::{Cell, Cells, Counted, Fate, Irregular, Keyed, Rekeyed, Row, joined};
use super::rerun::Wrote;
use super::script::{About, Prepared, Script, Writer};
use super::statement;
use super::table::Table;
use super::{Error, Part, ddl_log};
use bytes::Bytes;
use history::RelationId;
use postgres::decoder::message::{self, Message, Old, Relation, Rows, Value};
use postgres::decoder::{Change, Changes, Reader};
use postgres::objects::{COMMAND_TABLE, LOG_TABLE, MARK, SCHEMA};
use scheduler::parallel::When;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Rows of about so many bytes are gathered before they are written out, in the middle of a batch if need be.
const MAX_PENDING_BYTES: usize = 32 * 1024 * 1024;

/// The tables that the stream has named, fitted to the replica's.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// By number; a table that was described again stands twice.
    known: HashMap<u32, Vec<Described>>,
    next: u32,
}

/// A table as the stream described it, and as it is.
type Described = (Arc<Relation>, Rc<Table>);

impl Tables {
    pub(super) fn find(&self, relation: &Arc<Relation>) -> Option<&Rc<Table>> {
        let all = self.known.get(&relation.id)?;
        let same = |(known, _): &&Described| Arc::ptr_eq(known, relation) || known == relation;
        all.iter().rfind(same).map(|(_, table)| table)
    }

    pub(super) fn next_number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn add(&mut self, relation: Arc<Relation>, table: Table) {
        self.known.entry(relation.id).or_default().push((relation, Rc::new(table)));
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

/// Consort's own log table: its rows stand for DDL, or mark a change that has no event trigger.
pub(super) fn is_log(relation: &Relation) -> bool {
    relation.schema == SCHEMA && relation.name == LOG_TABLE
}

/// The log of commands, for replicas that run them.
pub(super) fn is_command(relation: &Relation) -> bool {
    relation.schema == SCHEMA && relation.name == COMMAND_TABLE
}

/// True if rows of the log table stand for DDL.
pub(super) fn ran_ddl(changes: &Changes) -> Result<bool, Error> {
    if !changes.relations().iter().any(|relation| is_log(relation)) {
        return Ok(false);
    }
    let (mut reader, mut rows) = (changes.read(), Rows::default());
    while let Some(change) = reader.next().map_err(Error::Kept)? {
        if !change.relation().is_some_and(|relation| is_log(relation)) {
            continue;
        }
        message::read(&change.message, &mut rows)
            .ok_or_else(|| Error::stream("the replication stream is malformed".to_owned()))?;
        let command = rows.new.first().or(rows.old.first());
        let marks =
            matches!(command, Some(Value::Text(text)) if change.message[text.clone()] == *MARK.as_bytes());
        if !marks {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True for Consort's own tables: they hold no user data.
pub(super) fn is_own(relation: &Relation) -> bool {
    relation.schema == SCHEMA
}

/// Why a script cannot be built.
pub(super) enum Stop {
    /// The changes of this table must be applied one by one.
    OneByOne(u32),
    /// The next row is of a table that is not known yet. The earlier changes are written out.
    Unknown(Arc<Relation>),
    /// A row of the log of commands: the number of commands before it. The earlier changes are written out.
    Command(usize),
    /// The next changes cannot be applied alongside another batch.
    Barrier,
    /// The batch cannot be built at all.
    Error(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Error(error.into())
    }
}

/// The net effect of one table so far.
enum Net {
    Keyed(Keyed),
    Counted(Counted),
}

struct Pending {
    table: Rc<Table>,
    net: Net,
}

impl Pending {
    fn new(table: &Rc<Table>) -> Pending {
        let keyed = !table.key.is_empty();
        let net = if keyed { Net::Keyed(Keyed::default()) } else { Net::Counted(Counted::default()) };
        Pending { table: table.clone(), net }
    }
}

/// Inputs of a script.
pub(super) struct With<'w> {
    pub(super) tables: &'w Tables,
    /// Tables whose changes are applied one by one, as they came.
    pub(super) one_by_one: &'w BTreeSet<u32>,
    pub(super) script: &'w mut Script,
    pub(super) prepared: &'w mut Prepared,
    /// If batches in front may not be visible yet: what depends on them goes into another script.
    pub(super) apart: Option<Apart<'w>>,
}

impl With<'_> {
    fn find(&self, relation: &Arc<Relation>) -> Result<Rc<Table>, Stop> {
        self.tables.find(relation).cloned().ok_or_else(|| Stop::Unknown(Arc::clone(relation)))
    }

    fn writer<'w>(&'w mut self, table: &'w Rc<Table>, when: When) -> Writer<'w> {
        let one_by_one = self.one_by_one.contains(&table.number);
        match (&mut self.apart, when) {
            (Some(Apart { later, prepared, .. }), When::Later) => {
                Writer { script: later, prepared, table, one_by_one }
            }
            _ => Writer { script: self.script, prepared: self.prepared, table, one_by_one },
        }
    }

    /// Time at which rows of a table without a distinguishing key are to be written.
    fn when_whole(&mut self, table: &Table) -> When {
        self.apart.as_mut().map_or(When::Now, |apart| apart.ahead.table(table.id))
    }

    /// Time at which a statement that reads or writes any rows of these tables is to be executed. A reader of
    /// a table counts as its writer.
    fn when_touched(&mut self, tables: &[RelationId]) -> When {
        let Some(apart) = &mut self.apart else { return When::Now };
        let when: Vec<_> = tables.iter().map(|table| apart.ahead.table(*table)).collect();
        when.into_iter().max().unwrap_or(When::Now)
    }

    /// The script that is executed at that time.
    fn script(&mut self, when: When) -> &mut Script {
        match (&mut self.apart, when) {
            (Some(apart), When::Later) => apart.later,
            _ => self.script,
        }
    }

    /// Time at which these rows are to be written, all in one step.
    fn when_rows(&mut self, table: &Table, rows: &[&Cells]) -> When {
        match &mut self.apart {
            None => When::Now,
            Some(apart) if !table.apart => apart.ahead.table(table.id),
            Some(apart) => {
                let keys: Vec<_> = rows.iter().map(|cells| table.row_key(cells)).collect();
                apart.ahead.rows(table.id, &keys)
            }
        }
    }

    /// The rows to be written now, and those to be written later.
    fn split<'r>(&mut self, table: &Table, rows: &'r [Row]) -> (Vec<&'r Row>, Vec<&'r Row>) {
        let written = rows.iter().filter(|row| row.fate != Fate::Nothing);
        match &mut self.apart {
            None => (written.collect(), Vec::new()),
            Some(apart) if table.apart => {
                written.partition(|row| apart.ahead.rows(table.id, &[table.row_key(&row.cells)]) == When::Now)
            }
            Some(apart) => match apart.ahead.table(table.id) {
                When::Now => (written.collect(), Vec::new()),
                When::Later => (Vec::new(), written.collect()),
            },
        }
    }
}

/// A script that is being made of a batch.
pub(super) struct Build<'a> {
    parts: &'a [Part],
    reader: Option<Reader<'a>>,
    /// Read, and to be looked at again.
    held: Option<Change<'a>>,
    /// Stops at the rows of the log of commands; how many there were.
    commands: Option<usize>,
    pending: Vec<Pending>,
    places: HashMap<u32, usize>,
    pending_bytes: usize,
    rows: Rows,
}

impl<'a> Build<'a> {
    pub(super) fn new(parts: &'a [Part]) -> Build<'a> {
        Build {
            parts,
            reader: None,
            held: None,
            commands: None,
            pending: Vec::new(),
            places: HashMap::new(),
            pending_bytes: 0,
            rows: Rows::default(),
        }
    }

    /// Builds a batch in which DDL ran: stops at each command.
    pub(super) fn with_commands(parts: &'a [Part]) -> Build<'a> {
        Build { commands: Some(0), ..Build::new(parts) }
    }

    /// Writes the next part of the script; whether there is more.
    pub(super) fn next(&mut self, with: &mut With<'_>) -> Result<bool, Stop> {
        while self.pending_bytes < MAX_PENDING_BYTES && with.script.bytes.len() < MAX_PENDING_BYTES {
            if let Some(change) = self.held.take() {
                self.take(change, with)?;
                continue;
            }
            let Some(reader) = &mut self.reader else {
                let Some((first, rest)) = self.parts.split_first() else {
                    self.flush(with)?;
                    return Ok(false);
                };
                self.parts = rest;
                // Between commands it would have to be known whether names still mean the same.
                if self.commands.is_some() || !self.rerun(first, with)? {
                    self.reader = Some(first.changes.read());
                }
                continue;
            };
            match reader.next().map_err(Error::Kept)? {
                Some(change) => self.take(change, with)?,
                None => self.reader = None,
            }
        }
        self.flush(with)?;
        Ok(true)
    }

    fn take(&mut self, change: Change<'a>, with: &mut With<'_>) -> Result<(), Stop> {
        if let Some(before) = &mut self.commands
            && ddl_log::logs(&change).is_some()
        {
            let stop = Stop::Command(*before);
            *before += 1;
            self.flush(with)?;
            return Err(stop);
        }
        let mut rows = std::mem::take(&mut self.rows);
        let taken = self.read(&change, &mut rows, with);
        self.rows = rows;
        if let Err(Stop::Unknown(_)) = &taken {
            self.held = Some(change);
            self.flush(with)?;
        }
        taken
    }

    fn read(&mut self, change: &Change<'a>, rows: &mut Rows, with: &mut With<'_>) -> Result<(), Stop> {
        let malformed = || Stop::Error(Error::stream("the replication stream is malformed".to_owned()));
        let bytes = change.message.clone();
        let message = message::read(&bytes, rows).ok_or_else(malformed)?;
        if let Message::Truncate { tables, restart, .. } = message {
            let named = tables.ids().map(|id| change.relation_of(id)).collect::<Option<Vec<_>>>();
            let others = named.ok_or_else(malformed)?.into_iter().filter(|relation| !is_own(relation));
            let mut found = others.map(|relation| with.find(relation)).collect::<Result<Vec<_>, _>>()?;
            found.retain(|table| !table.left_out);
            return self.truncate(&found, restart, with);
        }
        let relation = change.relation().ok_or_else(malformed)?;
        if is_own(relation) {
            return Ok(());
        }
        let table = with.find(relation)?;
        if table.left_out {
            return Ok(());
        }
        let width = table.columns.len();
        let fits = |row: &[Value]| row.is_empty() || row.len() == width;
        if !fits(&rows.old) || !fits(&rows.new) {
            return Err(malformed());
        }
        let place = self.place(&table);
        let row = Sent { bytes: &bytes, rows, table: &table };
        self.pending_bytes += bytes.len() + width * size_of::<Cell>();
        let alone = match &mut self.pending[place].net {
            Net::Keyed(net) => {
                keyed(net, &message, &row).map_err(|Irregular| Stop::OneByOne(table.number))?
            }
            Net::Counted(net) => {
                counted(net, &message, &row).ok_or_else(|| keyless(&table))?;
                None
            }
        };
        if let Some((old, new)) = alone {
            self.flush_table(place, with)?;
            let when = with.when_rows(&table, &[&old, &new]);
            with.writer(&table, when).alone(&old, &new)?;
        } else if with.one_by_one.contains(&table.number) {
            self.flush_table(place, with)?;
        }
        Ok(())
    }

    /// Executes statements that may stand for the rows of a commit, after the earlier changes. `false`: there
    /// are none, or their triggers cannot be determined.
    fn rerun(&mut self, part: &Part, with: &mut With<'_>) -> Result<bool, Stop> {
        let reruns = part.reruns();
        let fires = reruns.iter().any(|rerun| rerun.fires.is_some());
        // If it has no rows of a table, the triggers' writes there would be the only ones.
        let kept = |relation| with.tables.find(relation).is_some_and(|table| !table.left_out);
        let counts = fires && part.changes.relations().iter().all(kept);
        let wrote = if counts { Wrote::of(&part.changes)? } else { None };
        if reruns.is_empty() || fires && wrote.is_none() {
            return Ok(false);
        }
        self.flush(with)?;
        for rerun in reruns {
            let when = with.when_touched(&rerun.touches);
            with.script(when).rerun(rerun, wrote.as_ref())?;
        }
        Ok(true)
    }

    /// A barrier: what came before comes before.
    fn truncate(&mut self, tables: &[Rc<Table>], restart: bool, with: &mut With<'_>) -> Result<(), Stop> {
        if with.apart.is_some() {
            return Err(Stop::Barrier);
        }
        self.flush(with)?;
        let Some(first) = tables.first() else { return Ok(()) };
        let sql = statement::truncate(tables.iter().map(|table| &**table), restart);
        with.script.run(&sql, About::Rows(first.clone(), None))?;
        Ok(())
    }

    fn place(&mut self, table: &Rc<Table>) -> usize {
        *self.places.entry(table.number).or_insert_with(|| {
            self.pending.push(Pending::new(table));
            self.pending.len() - 1
        })
    }

    fn flush(&mut self, with: &mut With<'_>) -> Result<(), Stop> {
        for place in 0..self.pending.len() {
            self.flush_table(place, with)?;
        }
        self.pending.clear();
        self.places.clear();
        self.pending_bytes = 0;
        Ok(())
    }

    fn flush_table(&mut self, place: usize, with: &mut With<'_>) -> Result<(), Stop> {
        let table = self.pending[place].table.clone();
        let fresh = Pending::new(&table);
        let Pending { net, .. } = std::mem::replace(&mut self.pending[place], fresh);
        match net {
            Net::Keyed(net) => {
                let (now, later) = with.split(&table, net.rows());
                for (rows, when) in [(now, When::Now), (later, When::Later)] {
                    if !rows.is_empty() {
                        with.writer(&table, when).keyed(&rows)?;
                    }
                }
            }
            Net::Counted(net) if net.rows().is_empty() => {}
            Net::Counted(net) => {
                let when = with.when_whole(&table);
                with.writer(&table, when).counted(&net)?;
            }
        }
        Ok(())
    }
}

/// The rows of one message.
struct Sent<'a> {
    bytes: &'a Bytes,
    rows: &'a Rows,
    table: &'a Table,
}

impl Sent<'_> {
    /// A value; `None` if it was not sent.
    fn value(&self, value: &Value) -> Option<Option<Bytes>> {
        match value {
            Value::Null => Some(None),
            Value::Unchanged => None,
            Value::Text(range) => Some(Some(self.bytes.slice(range.clone()))),
        }
    }

    /// The old row, as far as it is known: where only the key was sent, all else stands there as NULL.
    fn old(&self, kind: Old) -> Cells {
        let known = |place: &usize| kind == Old::Row || self.table.key.contains(place);
        let value = |(place, value)| Some(place).filter(known).and_then(|_| self.value(value));
        self.rows.old.iter().enumerate().map(|sent| value(sent).map_or(Cell::Unchanged, Cell::Same)).collect()
    }

    /// The new row. Values that were not sent, or are the same, are taken from the old row if that is known.
    fn new_row(&self, old: Option<Old>) -> Cells {
        let mut cells: Cells = self
            .rows
            .new
            .iter()
            .enumerate()
            .map(|(place, value)| {
                let before = match old {
                    Some(Old::Row) => self.rows.old.get(place),
                    Some(Old::Key) if self.table.key.contains(&place) => self.rows.old.get(place),
                    _ => None,
                };
                let before = before.and_then(|before| self.value(before));
                match (self.value(value), before) {
                    (None, None) => Cell::Unchanged,
                    (None, Some(before)) => Cell::Same(before),
                    (Some(new), Some(before)) if new == before => Cell::Same(new),
                    (Some(new), _) => Cell::New(new),
                }
            })
            .collect();
        if old.is_none() {
            // Without an old key it did not change.
            for place in &self.table.key {
                let cell = &mut cells[*place];
                if let Cell::New(value) = std::mem::replace(cell, Cell::Unchanged) {
                    *cell = Cell::Same(value);
                }
            }
        }
        cells
    }

    fn key(&self, cells: &Cells) -> Result<Bytes, Irregular> {
        let value = |place: usize| cells[place].value().ok_or(Irregular);
        match self.table.key.as_slice() {
            [only] => value(*only)?.cloned().ok_or(Irregular),
            many => {
                let values: Vec<_> = many.iter().map(|place| value(*place)).collect::<Result<_, _>>()?;
                Ok(joined(values.into_iter()))
            }
        }
    }
}

/// A change of a row with a key. Gives back the old and the new row if it must be applied alone.
fn keyed(
    net: &mut Keyed,
    message: &Message<'_>,
    sent: &Sent<'_>,
) -> Result<Option<(Cells, Cells)>, Irregular> {
    match message {
        Message::Insert { .. } => {
            let cells: Cells = sent
                .rows
                .new
                .iter()
                .map(|value| sent.value(value).map_or(Cell::Unchanged, Cell::New))
                .collect();
            net.insert(sent.key(&cells)?, cells)?;
        }
        Message::Delete { old, .. } => {
            let old = sent.old(*old);
            net.delete(sent.key(&old)?, old)?;
        }
        Message::Update { old, .. } => {
            let new = sent.new_row(*old);
            let new_key = sent.key(&new)?;
            let before = old.map(|old| sent.old(old)).unwrap_or_default();
            let old_key = if old.is_some() { sent.key(&before)? } else { new_key.clone() };
            if old_key == new_key {
                net.update(new_key, new)?;
            } else if let Rekeyed::Alone(new) = net.rekey((old_key, before.clone()), (new_key, new))? {
                return Ok(Some((before, new)));
            }
        }
        Message::Relation(_) | Message::Truncate { .. } | Message::Other => {}
    }
    Ok(None)
}

/// Neither the old row nor its key came: the key is computed, and what is computed is not in the stream. Attaching gives such
/// a table another identity, unless it is locked.
fn keyless(table: &Table) -> Error {
    let why = "has a key that is not in the stream; set REPLICA IDENTITY FULL and copy the replica again";
    Error::Unfit { table: table.shown.clone(), why: why.to_owned() }
}

/// A change of a row without a key: the old row was sent whole.
fn counted(net: &mut Counted, message: &Message<'_>, sent: &Sent<'_>) -> Option<()> {
    let all_known = |cells: Cells| (!cells.contains(&Cell::Unchanged)).then_some(cells);
    match message {
        Message::Insert { .. } => net.count(all_known(sent.new_row(None))?, 1),
        Message::Delete { old: Old::Row, .. } => net.count(all_known(sent.old(Old::Row))?, -1),
        Message::Update { old: Some(old @ Old::Row), .. } => {
            net.count(all_known(sent.old(Old::Row))?, -1);
            net.count(all_known(sent.new_row(Some(*old)))?, 1);
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
