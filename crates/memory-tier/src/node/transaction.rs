//! A transaction's statements: run on a private snapshot, and again by the writer at the commit, with the same results.

use super::engine::{Activity, Engine, Running, locked};
use super::line::Made;
use super::row_capture::Capture;
use super::sequences::Sequences;
use crate::message::{Begin, Column, ELSEWHERE, Failure, RESULT_LIMIT, Run, columns_hash};
use dialect::{Catalog, Class, Context, Effect, Parameter, Plan, Problem, Settings, Statement};
use pages::{Store, Writer};
use rusqlite::Connection;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Plans that a connection keeps.
const PLANS: usize = 1_000;
/// Plans of longer texts are not kept; in bytes.
const PLANNED_TEXT: usize = 16 << 10;
/// Bytes that the statements of a transaction may take.
const STEPS_LIMIT: usize = 64 << 20;
/// PostgreSQL's year 2000, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;
/// SQLSTATE of a statement that was canceled.
pub(super) const CANCELED: &str = "57014";
/// Savepoint around a statement that writes.
const STATEMENT: &str = "consort_statement";

/// Tools of a connection that runs statements: functions, the catalog as it sees it, and its plans.
pub(super) struct Desk {
    context: Context,
    catalog: Option<(i64, Arc<Catalog>)>,
    plans: HashMap<(String, Vec<u32>), Arc<Planned>>,
    settings: Settings,
    /// The settings as they came.
    pairs: Vec<(String, String)>,
    /// The transaction has changed definitions.
    has_defined: bool,
    /// Savepoints of the transaction, and the number of sequences that it had restarted before.
    savepoints: Vec<(String, usize)>,
    drawn: Arc<Mutex<Drawn>>,
}

/// Values of sequences that a transaction has drawn, by the sequence's OID.
pub(super) type Values = Vec<(u32, i64)>;

/// A connection's draws: new ones, or those of a transaction that runs again.
#[derive(Default)]
struct Drawn {
    taken: Values,
    again: Option<VecDeque<(u32, i64)>>,
    /// Sequences that the transaction has restarted, by OID: only it sees their new values until it has committed.
    restarted: Vec<u32>,
}

/// Whose statements run.
#[derive(Clone, Default)]
pub(super) struct Client {
    pub(super) user: String,
    pub(super) database: String,
    pub(super) settings: Vec<(String, String)>,
    /// Maximum wait for the writer.
    pub(super) lock_timeout: Option<Duration>,
}

/// A statement that is understood.
pub(super) struct Planned {
    statement: Statement,
    plan: Plan,
}

/// End of a statement.
pub(super) struct Outcome {
    pub(super) tag: String,
    pub(super) columns: Option<Vec<Column>>,
    /// Hash of columns, rows and tag.
    pub(super) hash: u64,
    /// True if the statement may have changed something, or drawn a value.
    writes: bool,
}

impl Desk {
    /// Installs functions in the connection. Sequences give their next values by the node's own count.
    pub(super) fn new(connection: &Connection, sequences: &Arc<Sequences>) -> rusqlite::Result<Desk> {
        let context = dialect::install(connection)?;
        let drawn: Arc<Mutex<Drawn>> = Arc::default();
        let (sequences, draws) = (sequences.clone(), drawn.clone());
        context.draws(Box::new(move |draw| {
            let mut drawn = locked(&draws);
            if let Some(again) = &mut drawn.again {
                let next = again.pop_front().filter(|(oid, _)| *oid == draw.oid);
                return next
                    .map(|(_, value)| value)
                    .ok_or_else(|| "another sequence is drawn from".to_owned());
            }
            let value = match drawn.restarted.contains(&draw.oid) {
                true => Sequences::default().draw(&draw)?,
                false => sequences.draw(&draw)?,
            };
            drawn.taken.push((draw.oid, value));
            Ok(value)
        }));
        Ok(Desk {
            drawn,
            context,
            catalog: None,
            plans: HashMap::new(),
            settings: Settings::default(),
            pairs: Vec::new(),
            has_defined: false,
            savepoints: Vec::new(),
        })
    }

    /// Whose statements come. Plans stay for as long as settings are the same.
    pub(super) fn client(&mut self, client: &Client) {
        self.context.session(&client.user, &client.database);
        if self.pairs != client.settings {
            self.settings = Settings::default();
            for (name, value) in &client.settings {
                // The front has refused what changes an answer.
                let _ = self.settings.set(name, Some(value));
            }
            self.pairs.clone_from(&client.settings);
            self.plans.clear();
        }
    }

    /// Begins a transaction; with values, one that has drawn these before.
    fn begin(&mut self, begin: &Begin, again: Option<Values>) {
        self.forget_own();
        // What a session draws is known to its transaction only: connections serve many sessions.
        self.context.discard();
        self.savepoints.clear();
        *locked(&self.drawn) = Drawn { again: again.map(VecDeque::from), ..Drawn::default() };
        self.context.begin(begin.time_us - EPOCH_US, begin.seed);
    }

    /// The values that the transaction has drawn.
    pub(super) fn taken(&self) -> Values {
        std::mem::take(&mut locked(&self.drawn).taken)
    }

    /// Forgets the catalog and all plans.
    pub(super) fn forget_all(&mut self) {
        self.catalog = None;
        self.plans.clear();
    }

    /// Definitions of a transaction that is over are no longer those that their number stands for.
    pub(super) fn forget_own(&mut self) {
        if std::mem::take(&mut self.has_defined) {
            self.catalog = None;
            self.plans.clear();
        }
    }

    /// The catalog as the connection sees it.
    pub(super) fn catalog(&mut self, connection: &Connection) -> Result<Arc<Catalog>, Failure> {
        let epoch = Catalog::epoch(connection).map_err(|error| engine_error(&error))?;
        if let Some((known, catalog)) = &self.catalog
            && *known == epoch
        {
            return Ok(catalog.clone());
        }
        let catalog = Arc::new(Catalog::load(connection).map_err(|error| engine_error(&error))?);
        self.catalog = Some((epoch, catalog.clone()));
        self.plans.clear();
        Ok(catalog)
    }

    /// The plan of a statement for the catalog as the connection sees it.
    pub(super) fn plan(
        &mut self,
        connection: &Connection,
        text: &str,
        types: &[u32],
    ) -> Result<Arc<Planned>, Failure> {
        let catalog = self.catalog(connection)?;
        let key = (text.to_owned(), types.to_vec());
        if let Some(planned) = self.plans.get(&key) {
            return Ok(planned.clone());
        }
        let mut statements = dialect::split(text).map_err(failure)?.into_iter();
        let (Some(statement), None) = (statements.next(), statements.next()) else {
            return Err(simple("42601", "cannot insert multiple commands into a prepared statement"));
        };
        let plan = dialect::plan(&statement, &catalog, types, &self.settings).map_err(failure)?;
        let planned = Arc::new(Planned { statement, plan });
        if text.len() > PLANNED_TEXT {
            return Ok(planned);
        }
        if self.plans.len() >= PLANS {
            self.plans.clear();
        }
        self.plans.insert(key, planned.clone());
        Ok(planned)
    }

    /// Runs a statement. After a failure nothing of it is left.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        run: &Run,
        may_write: bool,
        rows: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Outcome, Failure> {
        if let Some(control) = control(&run.text) {
            let done = control.run(connection);
            if done.is_ok() {
                self.savepoint(&control.text);
            }
            if self.has_defined {
                self.catalog = None;
                self.plans.clear();
            }
            return done;
        }
        let planned = self.plan(connection, &run.text, &run.types)?;
        let plan = &planned.plan;
        if run.expects != 0 {
            let columns = columns(plan);
            if columns_hash(columns.as_deref()) != run.expects {
                return Err(simple("0A000", "cached plan must not change result type"));
            }
        }
        let writes = plan.effect != Effect::Read;
        if writes && !may_write {
            let word = planned.statement.text.split_whitespace().next().unwrap_or_default().to_uppercase();
            return Err(simple("25006", &format!("cannot execute {word} in a read-only transaction")));
        }
        self.context.statement(run.time_us - EPOCH_US);
        let parameters: Vec<Parameter> = run
            .parameters
            .iter()
            .map(|(format, value)| Parameter { format: *format, value: value.clone() })
            .collect();
        let mut hasher = DefaultHasher::new();
        let columns = columns(plan);
        columns_hash(columns.as_deref()).hash(&mut hasher);
        let mut is_too_large = false;
        let mut hashed = |row: &[u8]| {
            row.hash(&mut hasher);
            let next = rows(row);
            is_too_large |= next.is_break();
            next
        };
        self.has_defined |= plan.effect == Effect::Ddl;
        let restarted = plan.restarted(connection).map_err(|error| engine_error(&error))?;
        locked(&self.drawn).restarted.extend(restarted);
        if writes {
            execute(connection, &format!("SAVEPOINT {STATEMENT}"))?;
        }
        let done = plan.execute(connection, &self.context, &parameters, &run.result_formats, &mut hashed);
        // An interrupted change ends the engine's transaction, and its savepoints with it.
        if writes && !connection.is_autocommit() {
            if done.is_err() || is_too_large {
                execute(connection, &format!("ROLLBACK TO {STATEMENT}"))?;
            }
            execute(connection, &format!("RELEASE {STATEMENT}"))?;
        }
        let done = done.map_err(failure)?;
        if is_too_large {
            let hint = "Ask for fewer or shorter values.";
            let why = format!(
                "a row, or the result of a statement that commits, has more than {RESULT_LIMIT} bytes"
            );
            return Err(Failure { hint: hint.to_owned(), ..simple("54000", &why) });
        }
        done.tag.hash(&mut hasher);
        Ok(Outcome { tag: done.tag, columns, hash: hasher.finish(), writes })
    }

    /// Notes a savepoint, or forgets what was restarted since.
    fn savepoint(&mut self, text: &str) {
        let mut drawn = locked(&self.drawn);
        let (verb, name) = text.rsplit_once(' ').unwrap_or_default();
        let at = self.savepoints.iter().rposition(|(known, _)| known == name);
        match (verb, at) {
            ("SAVEPOINT", _) => self.savepoints.push((name.to_owned(), drawn.restarted.len())),
            ("RELEASE", Some(at)) => self.savepoints.truncate(at),
            (_, Some(at)) => {
                self.savepoints.truncate(at + 1);
                drawn.restarted.truncate(self.savepoints[at].1);
            }
            (_, None) => {}
        }
    }

    /// Types of a statement.
    pub(super) fn describe(
        &mut self,
        connection: &Connection,
        text: &str,
        types: &[u32],
    ) -> Result<(Vec<u32>, Option<Vec<Column>>), Failure> {
        let planned = self.plan(connection, text, types)?;
        let plan = &planned.plan;
        Ok((plan.parameters.clone(), columns(plan)))
    }
}

/// A statement about savepoints: its tag, and SQLite's text.
struct Control {
    tag: &'static str,
    text: String,
}

/// The statement about savepoints that this text is, if it is one.
fn control(text: &str) -> Option<Control> {
    let word = text.split_whitespace().next()?.to_ascii_uppercase();
    if !matches!(word.as_str(), "SAVEPOINT" | "ROLLBACK" | "RELEASE") {
        return None;
    }
    let statement = dialect::split(text).ok()?.into_iter().next()?;
    let (tag, verb, name) = match statement.class {
        Class::Savepoint(name) => ("SAVEPOINT", "SAVEPOINT", name),
        Class::RollbackTo(name) => ("ROLLBACK", "ROLLBACK TO", name),
        Class::Release(name) => ("RELEASE", "RELEASE", name),
        _ => return None,
    };
    // SQLite compares names without case, PostgreSQL does not.
    let own: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    Some(Control { tag, text: format!("{verb} s_{own}") })
}

impl Control {
    fn run(&self, connection: &Connection) -> Result<Outcome, Failure> {
        if connection.is_autocommit() {
            return Err(simple("40001", "the transaction has ended with its canceled statement"));
        }
        execute(connection, &self.text)?;
        let mut hasher = DefaultHasher::new();
        self.tag.hash(&mut hasher);
        Ok(Outcome { tag: self.tag.to_owned(), columns: None, hash: hasher.finish(), writes: false })
    }
}

/// A transaction of a client on its private snapshot.
pub(super) struct Transaction {
    pub(super) begin: Begin,
    steps: Vec<Step>,
    bytes: usize,
    /// A statement has written, or drawn a value.
    pub(super) has_written: bool,
    /// A statement was canceled: it might run for ever when it runs again.
    is_canceled: bool,
}

/// A statement that has run, and what came of it.
struct Step {
    run: Run,
    hash: u64,
}

impl Transaction {
    pub(super) fn new(begin: Begin, desk: &mut Desk) -> Transaction {
        desk.begin(&begin, None);
        Transaction { begin, steps: Vec::new(), bytes: 0, has_written: false, is_canceled: false }
    }

    /// Runs a statement on the snapshot and notes what came of it.
    pub(super) fn run(
        &mut self,
        desk: &mut Desk,
        connection: &Connection,
        run: &Run,
        rows: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Outcome, Failure> {
        let size: usize = run.parameters.iter().map(|(_, value)| value.as_ref().map_or(0, Vec::len)).sum();
        self.bytes += run.text.len() + size;
        if self.bytes > STEPS_LIMIT {
            let hint = "Change the rows in several transactions.";
            let why = format!("the statements of the transaction take more than {STEPS_LIMIT} bytes");
            return Err(Failure { hint: hint.to_owned(), ..simple("54000", &why) });
        }
        let done = desk.run(connection, run, self.begin.writes, rows);
        if self.begin.writes {
            let hash = match &done {
                Ok(outcome) => {
                    self.has_written |= outcome.writes;
                    outcome.hash
                }
                Err(failure) => {
                    self.is_canceled |= failure.sqlstate == CANCELED;
                    failed(failure)
                }
            };
            self.steps.push(Step { run: run.clone(), hash });
        }
        done
    }

    /// Runs all statements again at the newest version.
    ///
    /// # Errors
    /// 40001: a statement does something else now. 57014: it was canceled.
    pub(super) fn replay(
        &self,
        engine: &Engine,
        client: &Client,
        values: Values,
        making: &mut Making,
        running: &Running,
    ) -> Result<Option<Made>, Failure> {
        if self.is_canceled {
            let hint = "Run the transaction again.";
            let why = "could not serialize access: a statement of the transaction was canceled";
            return Err(Failure { hint: hint.to_owned(), ..simple("40001", why) });
        }
        making.desk.client(client);
        making.desk.begin(&self.begin, Some(values));
        making.begin()?;
        *locked(running) = Activity::Runs(making.writer.connection().get_interrupt_handle());
        let other = self.steps.iter().find_map(|step| {
            let done = making.run(&step.run, &mut |_| ControlFlow::Continue(()));
            let hash = done.as_ref().map_or_else(failed, |outcome| outcome.hash);
            (hash != step.hash).then_some(done)
        });
        *locked(running) = Activity::Idle;
        if let Some(done) = other {
            making.writer.rollback();
            if let Err(canceled) = done
                && canceled.sqlstate == CANCELED
            {
                return Err(canceled);
            }
            engine.conflicts.fetch_add(1, Ordering::Relaxed);
            let hint = "Run the transaction again.";
            let why =
                "could not serialize access: a statement of the transaction would do something else now";
            return Err(Failure { hint: hint.to_owned(), ..simple("40001", why) });
        }
        making.commit()
    }
}

/// The writer's connection and what its transactions need.
pub(super) struct Making {
    pub(super) writer: Writer,
    desk: Desk,
    sequences: Arc<Sequences>,
    /// Changes for databases behind the tier, if there are any.
    capture: Option<Capture>,
}

impl Making {
    /// The writer of a store.
    pub(super) fn open(store: &Store, sequences: &Arc<Sequences>, rows: bool) -> Result<Making, Failure> {
        let mut writer = Writer::open(store).map_err(|error| page_error(&error))?;
        if rows {
            writer.watch_rows();
        }
        let capture = rows.then(Capture::default);
        let desk = Desk::new(writer.connection(), sequences).map_err(|error| engine_error(&error))?;
        Ok(Making { writer, desk, sequences: sequences.clone(), capture })
    }

    /// Begins a transaction.
    fn begin(&mut self) -> Result<(), Failure> {
        if let Some(capture) = &mut self.capture {
            capture.begins();
        }
        self.writer.begin().map_err(|error| page_error(&error))
    }

    /// Whether the database has no catalog yet.
    pub(super) fn is_empty(&mut self) -> bool {
        let asked = "SELECT count(*) = 0 FROM sqlite_schema";
        let is_empty = self.writer.begin().is_ok()
            && self.writer.connection().query_row(asked, [], |row| row.get(0)).unwrap_or(false);
        self.writer.rollback();
        is_empty
    }

    /// Runs a statement, and notes what it changes.
    fn run(&mut self, run: &Run, rows: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<Outcome, Failure> {
        let connection = self.writer.connection();
        let Some(capture) = &mut self.capture else { return self.desk.run(connection, run, true, rows) };
        if let Some(control) = control(&run.text) {
            let done = self.desk.run(connection, run, true, rows)?;
            capture.savepoint(&self.writer, &control.text);
            return Ok(done);
        }
        let planned = self.desk.plan(connection, &run.text, &run.types)?;
        if planned.plan.effect != Effect::Ddl {
            return self.desk.run(connection, run, true, rows);
        }
        let before = self.desk.catalog(connection)?;
        capture.ends_segment(&self.writer, &before)?;
        let done = self.desk.run(connection, run, true, rows)?;
        let catalog = self.desk.catalog(connection)?;
        capture.defines(&self.writer, &catalog, &run.text, planned.plan.computed_table())?;
        Ok(done)
    }

    /// Runs a transaction of one statement at the newest version.
    pub(super) fn once(
        &mut self,
        client: &Client,
        begin: &Begin,
        run: &Run,
        rows: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
        running: &Running,
    ) -> Result<(Outcome, Option<Made>), Failure> {
        self.desk.client(client);
        self.desk.begin(begin, None);
        self.begin()?;
        *locked(running) = Activity::Runs(self.writer.connection().get_interrupt_handle());
        let done = self.run(run, rows);
        *locked(running) = Activity::Idle;
        match done {
            Ok(outcome) => Ok((outcome, self.commit()?)),
            Err(failure) => {
                self.writer.rollback();
                Err(failure)
            }
        }
    }

    /// Makes the catalog, in an empty database.
    pub(super) fn found(&mut self) -> Result<Option<Made>, Failure> {
        self.begin()?;
        Catalog::create(self.writer.connection()).map_err(|error| engine_error(&error))?;
        self.commit()
    }

    fn commit(&mut self) -> Result<Option<Made>, Failure> {
        let mut changes = Vec::new();
        if let Some(capture) = &mut self.capture {
            let ended = self.desk.catalog(self.writer.connection());
            let ended = ended.and_then(|catalog| capture.ends_segment(&self.writer, &catalog));
            ended.inspect_err(|_| self.writer.rollback())?;
            changes = capture.encoded();
        }
        let set = self.writer.commit().map_err(|error| {
            self.writer.rollback();
            page_error(&error)
        })?;
        self.sequences.forget(&locked(&self.desk.drawn).restarted);
        Ok(set.map(|set| (set, changes)))
    }
}

/// Hash of a failure, as the client has it.
fn failed(failure: &Failure) -> u64 {
    let mut hasher = DefaultHasher::new();
    ("failed", &failure.sqlstate, &failure.message, &failure.detail).hash(&mut hasher);
    hasher.finish()
}

/// Columns of the result; `None`: it returns no rows.
fn columns(plan: &Plan) -> Option<Vec<Column>> {
    let column = |column: &dialect::Column| Column {
        name: column.name.clone(),
        oid: column.oid,
        length: column.size,
        modifier: column.typmod,
    };
    (!plan.columns.is_empty()).then(|| plan.columns.iter().map(column).collect())
}

fn execute(connection: &Connection, text: &str) -> Result<(), Failure> {
    connection
        .prepare_cached(text)
        .and_then(|mut statement| statement.execute([]))
        .map(drop)
        .map_err(|error| engine_error(&error))
}

/// An error without detail and hint.
pub(super) fn simple(sqlstate: &str, message: &str) -> Failure {
    Failure {
        sqlstate: sqlstate.to_owned(),
        message: message.to_owned(),
        detail: String::new(),
        hint: String::new(),
        position: 0,
    }
}

/// A problem of the dialect, for the client.
pub(super) fn failure(problem: Problem) -> Failure {
    Failure {
        sqlstate: problem.sqlstate.to_owned(),
        message: problem.message,
        detail: problem.detail.unwrap_or_default(),
        hint: problem.hint.unwrap_or_default(),
        position: problem.position.unwrap_or(0),
    }
}

/// An error of SQLite itself.
pub(super) fn engine_error(error: &rusqlite::Error) -> Failure {
    simple("XX000", &format!("the engine has failed: {error}"))
}

/// An error of the pages.
pub(super) fn page_error(error: &pages::Error) -> Failure {
    match error {
        pages::Error::Evicted => {
            let hint = "Run the transaction again, or give nodes more memory (--memory).";
            Failure {
                hint: hint.to_owned(),
                ..simple(ELSEWHERE, "snapshot too old: its pages were dropped for memory")
            }
        }
        pages::Error::Conflict | pages::Error::Discarded | pages::Error::Gone { .. } => {
            let hint = "Run the transaction again.";
            Failure {
                hint: hint.to_owned(),
                ..simple(ELSEWHERE, &format!("could not serialize access: {error}"))
            }
        }
        error => simple("XX000", &format!("pages have failed: {error}")),
    }
}

/// There is no master here any more; nothing has happened.
pub(super) fn gone() -> Failure {
    simple(ELSEWHERE, "the node is not the master any more")
}
