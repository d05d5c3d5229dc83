//! Commits of the primary, in the order of its WAL: one slot of one database, decoded by PostgreSQL's own
//! `pgoutput` and turned into footprints.
//!
//! ```text
//! WAL        ...  BEGIN-less records ... | commit record |  ...
//!                                        start           end
//! stream     Begin(start, xid)  rows ...  Commit(start, end)   keepalive(position)
//! given out                               Decoded::Commit      Decoded::Position
//! ```
//!
//! Transactions come whole, when they commit (no streaming of unfinished ones, no two-phase: a prepared
//! transaction comes with its COMMIT PREPARED). A transaction that wrote to Consort's own log table ran DDL:
//! it wrote everything.
//!
//! **Positions.** Whenever the walsender has caught up and is ahead of the confirmed position, it reports its
//! position without a request (`WalSndWaitForWal`). So a position follows every burst automatically, and a
//! request for one would return nothing new.
//!
//! **Rows and columns.** The stream names neither the columns of the primary key (with REPLICA IDENTITY
//! FULL), nor attribute numbers. They come from the catalog, which is younger or older than the position in
//! the stream. So a catalog counts only for commits that start after the position at which it was read, and
//! only if its snapshot sees every DDL that has come out so far. Before that a row counts as its whole table.
//!
//! **The rows themselves** are kept only on request ([`Decoder::keep_rows`]), as the messages came.

mod changes;
mod layout;
mod lock_commands;
pub mod message;
mod relay;

pub use changes::{Archive, Changes};
pub use changes::{Change, Reader};

use crate::Error;
use crate::address::{APPLICATION_NAME, Address, Host, within_limit};
use crate::catalogs::Loaded;
use crate::incarnation::Sighting;
use crate::objects::{LOG_TABLE, PUBLICATION, SCHEMA};
use crate::own_settings::{OWN_DEFAULTS, OWN_NAMES};
use crate::sql::literal;
use crate::version;
use bytes::Bytes;
use changes::Kept;
use history::{Access, Commit, DatabaseId, Epoch, Footprint, Lsn, RelationId, Snapshot, Xid};
use layout::Layout;
use message::{Message, Relation, Rows, Value};
use pgwire_replication::client::QueryRow;
use pgwire_replication::{PgWireError, ReplicationClient, ReplicationConfig, ReplicationEvent};
use relay::Relay;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Values must not depend on any session's settings: they are compared, keys are made of them, and a replica
/// reads them under the same settings. With an empty search path names stand with their schema (`regclass`).
pub const SETTINGS: &str = "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC \
     -c bytea_output=hex -c extra_float_digits=1 -c lc_monetary=C -c search_path= -c quote_all_identifiers=off";
/// Interval at which the confirmed position is sent to the server.
const CONFIRM_EVERY: Duration = Duration::from_millis(500);
/// Maximum interval between status messages to the server.
const SPEAK_EVERY: Duration = Duration::from_secs(1);
/// Maximum time between two reply requests of a server that is stopping.
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// Maximum messages that wait between the connection and the decoder; then the server waits.
const MAX_WAITING: usize = 4096;
/// Maximum DDL transactions outside of any catalog that are remembered one by one; of more, the highest alone
/// is kept.
const MAX_UNSEEN_DDL: usize = 256;

/// Output of a slot.
#[derive(Clone, Debug)]
pub enum Decoded {
    /// A transaction committed.
    Commit {
        /// The commit's footprint; empty if it wrote to no published table.
        commit: Commit,
        /// True if the commit ran DDL, so it wrote [`Footprint::Everything`].
        ddl: bool,
        /// Footprint of its rows alone, if it ran DDL.
        rows: Footprint,
        /// Relations that the transaction may have locked against readers: truncated ones, or everything after
        /// DDL that takes such locks.
        locked_out: Footprint,
        /// Rows of the commit, if [`Decoder::keep_rows`] asked for them before it began to come out.
        changes: Option<Changes>,
    },
    /// Position below which every commit record's start has been returned.
    Position(Lsn),
}

/// Amount of output since the slot was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of transactions.
    pub commits: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of rows that counted as their whole table, because no catalog matched.
    pub coarse_rows: u64,
}

/// One slot's stream.
pub struct Decoder {
    client: ReplicationClient,
    sighting: Sighting,
    database: DatabaseId,
    from: Lsn,
    /// A recent transaction id, to widen 32-bit ones by.
    near: Xid,
    relations: BTreeMap<u32, Known>,
    catalog: Option<Rc<Loaded>>,
    unseen_ddl: UnseenDdl,
    open: Option<Transaction>,
    rows: Rows,
    keeps_rows: bool,
    counts: Counts,
    asked: Asked,
}

/// A table that the stream has named.
struct Known {
    relation: Arc<Relation>,
    /// True for Consort's own log table.
    log: bool,
    layout: Option<Layout>,
}

/// The transaction whose rows are coming out.
struct Transaction {
    xid: Xid,
    start: Lsn,
    wrote: Footprint,
    /// Tables that count as written wholly: their further rows need not be read.
    whole: Vec<u32>,
    ddl: bool,
    /// Relations that it may have locked against readers.
    locked_out: Footprint,
    /// True if the catalog describes this position of the WAL.
    precise: bool,
    kept: Option<Kept>,
}

/// DDL that has come out and is in no catalog that the decoder has received.
#[derive(Debug, Default)]
struct UnseenDdl {
    each: Vec<Xid>,
    /// Highest DDL transaction, once they became too many to keep one by one.
    up_to: Xid,
}

impl UnseenDdl {
    fn add(&mut self, ddl: Xid) {
        self.each.push(ddl);
        if self.each.len() > MAX_UNSEEN_DDL {
            self.up_to = self.each.drain(..).fold(self.up_to, Xid::max);
        }
    }

    fn all_seen_by(&self, snapshot: &Snapshot) -> bool {
        self.each.iter().all(|ddl| snapshot.sees(*ddl)) && snapshot.xmin() > self.up_to
    }
}

/// Time at which the server requested a reply, by its own clock. The client replies automatically, with the
/// confirmed position.
///
/// A running server requests one reply when it has received nothing from us for half of its
/// `wal_sender_timeout`: after this machine or the connection stood still, or a clock was set. A server that
/// is being stopped (`WalSndDone`) requests a reply, and requests again as soon as it has the reply, without
/// a bound, until all of its WAL is confirmed. Consort cannot confirm that: a confirmed position must have
/// been proven visible, by a server that answers no more. So a server that requests twice within
/// [`ASKS_AGAIN`] is left; the slot goes on where it was confirmed. The server's clock counts, because both
/// requests may have waited here to be read.
#[derive(Debug, Default)]
struct Asked {
    last_us: Option<i64>,
}

impl Asked {
    /// Notes a request. Returns true for a repeated one.
    fn again(&mut self, now_us: i64) -> bool {
        let within = i64::try_from(ASKS_AGAIN.as_micros()).unwrap_or(i64::MAX);
        self.last_us.replace(now_us).is_some_and(|last| (0..=within).contains(&now_us.saturating_sub(last)))
    }
}

impl Decoder {
    /// Opens a slot at the primary, where it was confirmed last.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no such slot or its WAL is gone (`consort repair`), [`Error::NotReady`]
    /// while the server still holds it for a connection that broke, [`Error::Protocol`] if the server is no
    /// primary.
    pub async fn open(
        address: &Address,
        slot: &str,
        database: DatabaseId,
        epoch: Epoch,
    ) -> Result<Decoder, Error> {
        let relay = match address.encrypted() {
            Some((host, port, tls)) => Some(within_limit(address, Relay::open(tls, host, port)).await?),
            None => None,
        };
        let folder = relay.as_ref().map(Relay::folder);
        let mut client =
            ReplicationClient::connect_gated(config(address, folder, slot)).await.map_err(error)?;
        let rows = client.simple_query(Sighting::QUERY).await.map_err(error)?;
        let sighting = Sighting::from_row(&texts(&rows), epoch)?;
        if sighting.in_recovery {
            return Err(Error::Protocol(format!("{address} is a standby, not the primary")));
        }
        let version = texts(&client.simple_query("SHOW server_version").await.map_err(error)?);
        if version::accept(version.first().and_then(Option::as_deref).unwrap_or_default())?
            .limits_transactions
        {
            // The server decodes each transaction in one of its own.
            client.simple_query("SET transaction_timeout = 0").await.map_err(error)?;
        }
        let rows = client.simple_query(&look_at(slot)).await.map_err(error)?;
        let row = texts(&rows);
        let [from, near, active] = row.as_slice() else {
            return Err(Error::Setup(format!(
                "the slot {slot} is missing, or its WAL was removed: run `consort repair`"
            )));
        };
        if active.as_deref() == Some("t") {
            return Err(Error::NotReady(format!("the slot {slot} is still in use")));
        }
        let number = |text: &Option<String>| text.as_deref()?.parse().ok();
        let near = number(near).map(Xid::new).unwrap_or_default();
        let from = from.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
        client.start().await.map_err(error)?;
        client.wait_started().await.map_err(error)?;
        Ok(Decoder {
            client,
            sighting,
            database,
            from,
            near,
            relations: BTreeMap::new(),
            catalog: None,
            unseen_ddl: UnseenDdl::default(),
            open: None,
            rows: Rows::default(),
            keeps_rows: false,
            counts: Counts::default(),
            asked: Asked::default(),
        })
    }

    /// The incarnation of the primary that this stream belongs to.
    pub fn sighting(&self) -> &Sighting {
        &self.sighting
    }

    /// Position from which every commit whose record starts there or later comes out.
    pub fn from(&self) -> Lsn {
        self.from
    }

    /// Amount of output.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Sets whether commits bring their rows, from the next one on that begins to come out. Rows cost memory
    /// (a bounded part of it: [`Changes::MAX_IN_MEMORY_BYTES`]). Off by default.
    pub fn keep_rows(&mut self, keep: bool) {
        self.keeps_rows = keep;
    }

    /// Returns the next commit or position. Cancel-safe: nothing is lost.
    ///
    /// # Errors
    /// [`Error::Unreachable`] or [`Error::NotReady`]: open it again. [`Error::Setup`]: the slot is lost.
    pub async fn next(&mut self) -> Result<Decoded, Error> {
        loop {
            let event = self.client.recv().await.map_err(error)?;
            let Some(event) = event else {
                return Err(Error::Unreachable("the server ended the stream".to_owned()));
            };
            if let Some(decoded) = self.take(event)? {
                return Ok(decoded);
            }
        }
    }

    /// Confirms a position: nothing that starts below is needed again, not even after a restart of Consort.
    /// The server may remove its WAL.
    pub fn confirm(&self, to: Lsn) {
        self.client.update_applied_lsn(pgwire_replication::Lsn::from_u64(to.get()));
    }

    /// Passes the catalog that identifies rows and columns. Returns `false` if a DDL that has come out is not
    /// in it: load it again.
    pub fn know(&mut self, catalog: Rc<Loaded>) -> bool {
        if !self.unseen_ddl.all_seen_by(&catalog.snapshot) {
            return false;
        }
        self.unseen_ddl = UnseenDdl::default();
        if let Some(open) = &mut self.open {
            open.precise = open.start >= catalog.insert_lsn;
        }
        for known in self.relations.values_mut() {
            known.layout = Layout::fit(&known.relation, &catalog.catalog);
        }
        self.catalog = Some(catalog);
        true
    }

    fn take(&mut self, event: ReplicationEvent) -> Result<Option<Decoded>, Error> {
        match event {
            ReplicationEvent::Begin { final_lsn, xid, .. } => self.begin(Lsn::new(final_lsn.as_u64()), xid),
            ReplicationEvent::XLogData { data, .. } => {
                self.change(&data)?;
                self.keep(data)?;
            }
            ReplicationEvent::Commit { lsn, end_lsn, .. } => {
                return self.commit(Lsn::new(lsn.as_u64()), Lsn::new(end_lsn.as_u64())).map(Some);
            }
            ReplicationEvent::KeepAlive { reply_requested: true, server_time_micros, .. }
                if self.asked.again(server_time_micros) =>
            {
                return Err(self.let_go());
            }
            ReplicationEvent::KeepAlive { wal_end, .. } if self.open.is_none() => {
                return Ok(Some(Decoded::Position(Lsn::new(wal_end.as_u64()))));
            }
            // In mid-transaction a position counts for nothing; logical messages contain no rows.
            ReplicationEvent::KeepAlive { .. } | ReplicationEvent::Message { .. } => {}
            ReplicationEvent::StoppedAt { .. } => return Err(malformed()),
        }
        Ok(None)
    }

    fn let_go(&self) -> Error {
        self.client.stop();
        Error::NotReady("the server is stopping: it waits until all WAL is confirmed".to_owned())
    }

    fn begin(&mut self, start: Lsn, xid: u32) {
        let xid = Xid::widen(xid, self.near);
        self.near = xid;
        let precise = self.catalog.as_ref().is_some_and(|catalog| start >= catalog.insert_lsn);
        let wrote = Footprint::NOTHING;
        let kept = self.keeps_rows.then(Kept::default);
        let locked_out = Footprint::NOTHING;
        self.open =
            Some(Transaction { xid, start, wrote, whole: Vec::new(), ddl: false, locked_out, precise, kept });
    }

    fn commit(&mut self, start: Lsn, end: Lsn) -> Result<Decoded, Error> {
        let Some(Transaction { xid, wrote, ddl, locked_out, start: begun, kept, .. }) = self.open.take()
        else {
            return Err(malformed());
        };
        if start != begun || start >= end {
            return Err(malformed());
        }
        self.counts.commits += 1;
        let (wrote, rows) = if ddl { (Footprint::Everything, wrote) } else { (wrote, Footprint::NOTHING) };
        if ddl {
            self.forget_what_ddl_changed(xid);
        }
        Ok(Decoded::Commit {
            commit: Commit { database: self.database, xid, start, end, wrote },
            ddl,
            rows,
            locked_out,
            changes: kept.map(Kept::finish),
        })
    }

    fn forget_what_ddl_changed(&mut self, ddl: Xid) {
        if self.catalog.as_ref().is_some_and(|catalog| catalog.snapshot.sees(ddl)) {
            // The catalog was read after this DDL; earlier commits have passed as whole tables.
            return;
        }
        self.catalog = None;
        self.relations.values_mut().for_each(|known| known.layout = None);
        self.unseen_ddl.add(ddl);
    }

    fn change(&mut self, data: &[u8]) -> Result<(), Error> {
        if self.adds_nothing(data) {
            self.counts.rows += 1;
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.rows);
        let done = self.read_change(data, &mut rows);
        self.rows = rows;
        done.ok_or_else(malformed)
    }

    /// Keeps a message about rows, if this transaction's rows are kept.
    fn keep(&mut self, data: Bytes) -> Result<(), Error> {
        let Some(kept) = self.open.as_mut().and_then(|open| open.kept.as_mut()) else { return Ok(()) };
        let relations = &self.relations;
        let relation = |id: u32| relations.get(&id).map(|known| &known.relation);
        kept.add(data, relation).ok_or_else(malformed)
    }

    /// Returns true for a row of a table that counts as written wholly: it needs no reading.
    fn adds_nothing(&self, data: &[u8]) -> bool {
        let (Some(b'I' | b'U' | b'D'), Some(four), Some(open)) = (data.first(), data.get(1..5), &self.open)
        else {
            return false;
        };
        let relation = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
        let is_no_log = self.relations.get(&relation).is_some_and(|known| !known.log);
        is_no_log && (open.whole.contains(&relation) || open.wrote == Footprint::Everything)
    }

    fn read_change(&mut self, data: &[u8], rows: &mut Rows) -> Option<()> {
        match message::read(data, rows)? {
            Message::Relation(relation) => self.relation(relation),
            Message::Insert { relation } => {
                self.command(relation, data, &rows.new);
                self.row(relation, |layout| layout.existence(data, &rows.new))?;
            }
            Message::Update { relation, old } => {
                self.row(relation, |layout| layout.update(data, rows, old))?;
            }
            Message::Delete { relation, .. } => {
                self.row(relation, |layout| layout.existence(data, &rows.old))?;
            }
            Message::Truncate { tables, .. } => {
                let open = self.open.as_mut()?;
                for table in tables.ids() {
                    open.wrote.add(RelationId::new(table), Access::WHOLE);
                    open.locked_out.add(RelationId::new(table), Access::WHOLE);
                    if !open.whole.contains(&table) {
                        open.whole.push(table);
                    }
                }
            }
            Message::Other => {}
        }
        Some(())
    }

    fn relation(&mut self, relation: Relation) {
        let layout = self.catalog.as_ref().and_then(|catalog| Layout::fit(&relation, &catalog.catalog));
        let log = relation.schema == SCHEMA && relation.name == LOG_TABLE;
        self.relations.insert(relation.id, Known { relation: Arc::new(relation), log, layout });
    }

    /// Reads the tag of a command, if this is a row of Consort's log.
    fn command(&mut self, relation: u32, data: &[u8], row: &[Value]) {
        let is_log = self.relations.get(&relation).is_some_and(|known| known.log);
        let Some(open) = self.open.as_mut().filter(|_| is_log) else { return };
        let tag = match row.first() {
            Some(Value::Text(range)) => data.get(range.clone()).and_then(|tag| std::str::from_utf8(tag).ok()),
            _ => None,
        };
        if tag.is_none_or(lock_commands::locks_readers_out) {
            open.locked_out = Footprint::Everything;
        }
    }

    /// Adds one changed row. `None` if the server never described its table.
    fn row(&mut self, relation: u32, access: impl FnOnce(&Layout) -> Access) -> Option<()> {
        let open = self.open.as_mut()?;
        let known = self.relations.get(&relation)?;
        if known.log {
            open.ddl = true;
            return Some(());
        }
        self.counts.rows += 1;
        let access = match &known.layout {
            Some(layout) if open.precise => access(layout),
            _ => {
                self.counts.coarse_rows += 1;
                Access::WHOLE
            }
        };
        if access == Access::WHOLE {
            open.whole.push(relation);
        }
        open.wrote.add(RelationId::new(relation), access);
        Some(())
    }
}

/// Configuration of the client: through the socket in `folder`, if there is one.
fn config(address: &Address, folder: Option<&Path>, slot: &str) -> ReplicationConfig {
    let password = address.password.clone().unwrap_or_default();
    let (user, database) = (address.user.as_str(), address.database.as_str());
    let socket = folder.or(match &address.host {
        Host::Socket(folder) => Some(folder),
        Host::Name(_) => None,
    });
    let config = match socket {
        Some(folder) => {
            let folder = folder.display().to_string();
            ReplicationConfig::unix(folder, address.port, user, password, database, slot, PUBLICATION)
        }
        None => ReplicationConfig::new(address.host.to_string(), user, password, database, slot, PUBLICATION)
            .with_port(address.port),
    };
    let mut config = config
        .with_options(format!("{OWN_DEFAULTS} {OWN_NAMES} {SETTINGS}"))
        .with_status_interval(CONFIRM_EVERY)
        .with_wakeup_interval(SPEAK_EVERY)
        .with_buffer_size(MAX_WAITING);
    config.application_name = Some(APPLICATION_NAME.to_owned());
    config
}

fn look_at(slot: &str) -> String {
    format!(
        "SELECT confirmed_flush_lsn, pg_snapshot_xmax(pg_current_snapshot()), active FROM pg_replication_slots \
         WHERE slot_name = {} AND coalesce(wal_status <> 'lost', true) AND confirmed_flush_lsn IS NOT NULL",
        literal(slot)
    )
}

/// Returns the first row of an answer as texts; empty if there is none.
fn texts(rows: &[QueryRow]) -> Vec<Option<String>> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    rows.first().map(|row| row.iter().map(|value| value.as_ref().map(text)).collect()).unwrap_or_default()
}

fn malformed() -> Error {
    Error::Protocol("the replication stream is malformed".to_owned())
}

/// Converts the client's errors. The client reports the server's as `text (SQLSTATE 12345)`.
fn error(error: PgWireError) -> Error {
    match error {
        PgWireError::Server(text) | PgWireError::Auth(text) => {
            let (message, sqlstate) = text
                .strip_suffix(')')
                .and_then(|text| text.rsplit_once(" (SQLSTATE "))
                .map_or((text.as_str(), ""), |(message, sqlstate)| (message, sqlstate));
            match sqlstate {
                // "replication slot is active for PID": the server has not noticed yet that our last
                // connection is gone.
                "55006" => Error::NotReady(message.to_owned()),
                // The slot, or its WAL, is gone.
                "42704" | "58P01" | "55000" => Error::Setup(message.to_owned()),
                _ => Error::from_sqlstate(sqlstate, message.to_owned()),
            }
        }
        PgWireError::Protocol(text) => Error::Protocol(text),
        PgWireError::Tls(text) => Error::Setup(text),
        other => Error::Unreachable(other.to_string()),
    }
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
#[path = "../../../../fuzz/play.rs"]
mod play;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_message_or_refused() {
        play::play("rows", fuzzed::check);
    }

    #[test]
    fn only_who_asks_twice_at_once_is_stopping() {
        let mut asked = Asked::default();
        assert!(!asked.again(0));
        assert!(!asked.again(30_000_000), "half of a timeout later");
        assert!(!asked.again(10_000_000), "its clock was set");
        assert!(asked.again(10_000_400));
    }
}
