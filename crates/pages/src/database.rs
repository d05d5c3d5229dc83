//! Connections of SQLite over a store: readers of snapshots, and the writer.

use std::sync::{Arc, Mutex};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::Error;
use crate::row_changes::{RowChanges, Tables};
use crate::session::Session;
use crate::store::Store;
use crate::vfs::Vfs;
use crate::write_set::{Version, WriteSet};

/// Settings of each connection. The page size must come before the first page. The journal stays in memory and pages
/// reach the file system at COMMIT only. Nothing is on a disk, so nothing is synced.
const SETTINGS: &str = "PRAGMA page_size = 4096; PRAGMA auto_vacuum = NONE; PRAGMA locking_mode = NORMAL;
    PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_spill = OFF;
    PRAGMA cache_size = -8192;";

/// A connection and its file system. The order of the fields matters: the connection is closed first.
struct Attached {
    connection: Connection,
    vfs: Vfs,
}

impl Attached {
    fn open(store: &Store) -> Result<Attached, Error> {
        let vfs = Vfs::register(Arc::new(Mutex::new(Session::new(store))))?;
        // SQLite reads pages when it opens: they must be those of a registered snapshot.
        vfs.session().show_received()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs("pages", flags, vfs.name())?;
        let attached = Attached { connection, vfs };
        attached.connection.execute_batch(SETTINGS)?;
        attached.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        attached.vfs.session().close();
        Ok(attached)
    }

    fn begin(&self) -> Result<(), Error> {
        let is_stale = self.vfs.session().has_stale_schema();
        if is_stale {
            // The only statement that makes SQLite forget the schema of a connection.
            self.connection.execute_batch("PRAGMA writable_schema = RESET")?;
            self.vfs.session().schema_was_reset();
        }
        self.run("BEGIN")
    }

    /// Runs a statement without parameters and rows, prepared once.
    fn run(&self, statement: &str) -> Result<(), Error> {
        let run = self.connection.prepare_cached(statement).and_then(|mut statement| statement.execute([]));
        run.map(drop).map_err(|error| self.explain(error))
    }

    /// Ends SQLite's transaction, if the caller's statements or an error have not ended it yet.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // A failure leaves the transaction open: the next BEGIN reports it.
            drop(self.run("ROLLBACK"));
        }
    }

    fn explain(&self, error: rusqlite::Error) -> Error {
        let is_io = error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure);
        self.vfs.session().failure().filter(|_| is_io).map_or(Error::Sqlite(error), Error::from)
    }
}

/// A connection that reads snapshots, one after another. It may also write between [`Reader::begin`] and
/// [`Reader::end`]: the pages are its own and are dropped at the end.
///
/// Outside of a transaction, statements that read pages fail.
pub struct Reader {
    attached: Attached,
}

impl Reader {
    /// Opens a connection. No transaction has begun.
    ///
    /// # Errors
    /// [`Error::Sqlite`] when SQLite has no memory.
    pub fn open(store: &Store) -> Result<Reader, Error> {
        Ok(Reader { attached: Attached::open(store)? })
    }

    /// The connection, to run statements and to register functions.
    pub fn connection(&self) -> &Connection {
        &self.attached.connection
    }

    /// Registers a snapshot at `at`, which must be an acknowledged version, and begins a transaction. When the pages of
    /// `at` have been folded into a newer acknowledged version, the oldest one that is left is taken. Returns the version
    /// of the snapshot. A transaction that has begun before is ended.
    ///
    /// # Errors
    /// [`Error::Unreceived`] when the store has not received `at` yet.
    pub fn begin(&mut self, at: Version) -> Result<Version, Error> {
        self.end();
        let at = self.attached.vfs.session().show_snapshot(at)?;
        self.attached.begin().inspect_err(|_| self.attached.vfs.session().close())?;
        Ok(at)
    }

    /// Ends the transaction: rolled back, unregistered, its own pages dropped.
    pub fn end(&mut self) {
        self.attached.roll_back();
        self.attached.vfs.session().close();
    }

    /// Why the snapshot was lost before its end, if it was.
    pub fn lost(&self) -> Option<Error> {
        self.attached.vfs.session().failure().map(Error::from)
    }

    /// The cause of a statement's error: [`Error::Evicted`], [`Error::Conflict`] or [`Error::Discarded`] when the snapshot
    /// was lost, [`Error::Closed`] outside of a transaction, else the error itself. SQLite says "disk I/O error" for the
    /// first four.
    pub fn explain(&self, error: rusqlite::Error) -> Error {
        self.attached.explain(error)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end();
    }
}

/// The connection of the one writer. It sees its own commits at once; readers see them when the store has received them.
///
/// Outside of a transaction, statements that read pages fail. When another node has become the master, the writer must be
/// dropped: it cannot tell another writer's versions from its own.
pub struct Writer {
    /// Dropped before the connection.
    rows: Option<RowChanges>,
    attached: Attached,
}

impl Writer {
    /// Opens a writer on the newest version of the store. A store has one writer at a time; a second one's write sets
    /// would be refused by [`Store::receive`].
    ///
    /// # Errors
    /// [`Error::Sqlite`] when SQLite has no memory.
    pub fn open(store: &Store) -> Result<Writer, Error> {
        Ok(Writer { rows: None, attached: Attached::open(store)? })
    }

    /// The connection, to run statements and to register functions.
    pub fn connection(&self) -> &Connection {
        &self.attached.connection
    }

    /// Notes the rows that transactions change from now on.
    pub fn watch_rows(&mut self) {
        self.rows = Some(RowChanges::watch(&self.attached.connection));
    }

    /// Rows that were changed since the transaction began or the last call. `None`: rows are not noted, or a value before a
    /// change could not be read.
    pub fn take_rows(&self) -> Option<Tables> {
        self.rows.as_ref().and_then(RowChanges::take)
    }

    /// Goes on from these rows: a savepoint has taken back all that was changed since they were taken.
    pub fn put_rows_back(&self, tables: Tables) {
        if let Some(rows) = &self.rows {
            rows.put_back(tables);
        }
    }

    /// The newest version that this writer has made, or has found in the store when its last transaction began.
    pub fn version(&self) -> Version {
        self.attached.vfs.session().made()
    }

    /// Begins a transaction on the newest version that this writer has made. A transaction that has begun before is rolled
    /// back.
    ///
    /// # Errors
    /// [`Error::Sqlite`] when SQLite has no memory.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.rollback();
        self.attached.vfs.session().show_newest();
        self.attached.begin()?;
        drop(self.take_rows());
        Ok(())
    }

    /// Commits, as the next version. `None`: no byte of a page has changed, and no version was made.
    ///
    /// # Errors
    /// [`Error::Sqlite`] when SQLite refuses, for example by a deferred constraint; the transaction has then been rolled
    /// back. [`Error::Discarded`] when the store has discarded versions since the transaction began.
    pub fn commit(&mut self) -> Result<Option<WriteSet>, Error> {
        if !self.attached.connection.is_autocommit() {
            self.attached.run("COMMIT").inspect_err(|_| self.attached.roll_back())?;
        }
        let mut session = self.attached.vfs.session();
        let set = session.take_write_set();
        session.close();
        Ok(set?)
    }

    /// Rolls back. Versions that were made before stay.
    pub fn rollback(&mut self) {
        self.attached.roll_back();
        self.attached.vfs.session().close();
    }

    /// Forgets the versions that the store has not received. A transaction that has begun is rolled back.
    pub fn drop_unpublished(&mut self) {
        self.rollback();
        self.attached.vfs.session().drop_unpublished();
    }

    /// The cause of a statement's error, as [`Reader::explain`] tells it.
    pub fn explain(&self, error: rusqlite::Error) -> Error {
        self.attached.explain(error)
    }
}
