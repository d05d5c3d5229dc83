//! What committed at the primary, in the order of its log: one slot of one database, decoded by PostgreSQL's own
//! `pgoutput` and turned into footprints.
//!
//! ```text
//! log        ...  BEGIN-less records ... | commit record |  ...
//!                                        start           end
//! stream     Begin(start, xid)  rows ...  Commit(start, end)   keepalive(position)
//! given out                               Decoded::Commit      Decoded::Position
//! ```
//!
//! Transactions come whole, when they commit (no streaming of unfinished ones, no two-phase: a prepared transaction comes
//! with its COMMIT PREPARED). A transaction that wrote to Consort's own log table ran DDL: it wrote everything.
//!
//! **Positions.** Whenever the walsender has caught up and is behind what was confirmed to it, it says how far it has
//! come, without being asked (`WalSndWaitForWal`). So a position follows every burst by itself, and asking for one would
//! tell nothing new.
//!
//! **Rows and columns.** Which columns are the primary key the stream does not say (with REPLICA IDENTITY FULL), nor
//! attribute numbers. They come from the catalog, which is younger or older than the place in the stream. So a catalog is
//! believed only for commits that start behind the position at which it was read, and only if its snapshot sees every
//! DDL that has come out so far; before that a row counts as its whole table.
//!
//! **The rows themselves** are kept only if somebody asked for them ([`Decoder::keep_rows`]), as the messages came.

mod changes;
mod layout;
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
use bytes::Bytes;
use changes::Kept;
use history::{Access, Commit, DatabaseId, Epoch, Footprint, Lsn, RelationId, Snapshot, Xid};
use layout::Layout;
use message::{Message, Relation, Rows};
use pgwire_replication::client::QueryRow;
use pgwire_replication::{PgWireError, ReplicationClient, ReplicationConfig, ReplicationEvent};
use relay::Relay;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Values must not depend on anybody's settings: they are compared, keys are made of them, and who applies them elsewhere
/// reads them under the same settings. With no search path names stand with their schema (`regclass`).
pub const SETTINGS: &str = "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC \
     -c bytea_output=hex -c extra_float_digits=1 -c lc_monetary=C -c search_path= -c quote_all_identifiers=off";
/// What was confirmed is told to the server this often.
const CONFIRM_EVERY: Duration = Duration::from_millis(500);
/// The server hears from us at least this often.
const SPEAK_EVERY: Duration = Duration::from_secs(1);
/// A server that asks for an answer twice within this time is stopping.
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// Messages that wait between the connection and us; then the server waits.
const MAX_WAITING: usize = 4096;
/// DDL transactions that are in no catalog yet; more of them are remembered by the highest alone.
const MAX_UNSEEN_DDL: usize = 256;

/// Something that came out of the slot.
#[derive(Clone, Debug)]
pub enum Decoded {
    /// A transaction committed.
    Commit {
        /// What it wrote; nothing if it wrote to no published table.
        commit: Commit,
        /// It ran DDL, so it wrote [`Footprint::Everything`].
        ddl: bool,
        /// Its rows, if [`Decoder::keep_rows`] asked for them before it began to come out.
        changes: Option<Changes>,
    },
    /// Every commit whose record starts below has been given out.
    Position(Lsn),
}

/// How much has come out since the slot was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions.
    pub commits: u64,
    /// Rows.
    pub rows: u64,
    /// Rows that counted as their whole table, for want of a catalog that fits.
    pub coarse_rows: u64,
}

/// One slot's stream.
pub struct Decoder {
    client: ReplicationClient,
    sighting: Sighting,
    database: DatabaseId,
    from: Lsn,
    /// A recent identity, to widen 32-bit ones by.
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
    /// Consort's own log table.
    log: bool,
    layout: Option<Layout>,
}

/// The transaction whose rows are coming.
struct Transaction {
    xid: Xid,
    start: Lsn,
    wrote: Footprint,
    /// Tables of which all has been written: their rows need not be looked at any more.
    whole: Vec<u32>,
    ddl: bool,
    /// The catalog speaks of this place in the log.
    precise: bool,
    kept: Option<Kept>,
}

/// DDL that has come out and is in no catalog that we were given.
#[derive(Debug, Default)]
struct UnseenDdl {
    each: Vec<Xid>,
    /// Everything up to here, when they became too many to name.
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

/// When the server asked for an answer, by its own clock; the client gives the answer by itself, with what is confirmed.
///
/// A server that goes on asks once when it has not heard from us for half of its `wal_sender_timeout`: after this machine
/// or the connection stood still, or a clock was set. A server that is stopped (`WalSndDone`) asks, and asks again as soon
/// as it has the answer, without a bound, until all of its log is confirmed. That we cannot: what is confirmed must have
/// been proven visible, by a server that answers no more. So who asks twice within [`ASKS_AGAIN`] is left; the slot goes on
/// where it was confirmed. The server's clock tells, because both may have waited here to be read.
#[derive(Debug, Default)]
struct Asked {
    last_us: Option<i64>,
}

impl Asked {
    /// It asks; `true`: again.
    fn again(&mut self, now_us: i64) -> bool {
        let within = i64::try_from(ASKS_AGAIN.as_micros()).unwrap_or(i64::MAX);
        self.last_us.replace(now_us).is_some_and(|last| (0..=within).contains(&now_us.saturating_sub(last)))
    }
}

impl Decoder {
    /// Opens a slot at the primary, where it was confirmed last.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no such slot or its log is gone (`consort repair`), [`Error::NotReady`] while the
    /// server still holds it for a connection that broke, [`Error::Protocol`] if the server is no primary.
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
        let rows = client.simple_query(&look_at(slot)).await.map_err(error)?;
        let row = texts(&rows);
        let [from, near, active] = row.as_slice() else {
            return Err(Error::Setup(format!(
                "the slot {slot} is not there, or its log is gone: consort repair"
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

    /// The life of the primary that this stream belongs to.
    pub fn sighting(&self) -> &Sighting {
        &self.sighting
    }

    /// Every commit whose record starts here or behind comes out.
    pub fn from(&self) -> Lsn {
        self.from
    }

    /// How much has come out.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether commits bring their rows, from the next one on that begins to come out. It costs their memory (a bounded
    /// part of it: [`Changes::MAX_IN_MEMORY_BYTES`]); nothing while it is off, as it is at first.
    pub fn keep_rows(&mut self, keep: bool) {
        self.keeps_rows = keep;
    }

    /// The next commit or position. May be given up and asked again: nothing is lost.
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

    /// Nothing that starts below is needed again, not even after a restart of ours: the server may forget its log.
    pub fn confirm(&self, to: Lsn) {
        self.client.update_applied_lsn(pgwire_replication::Lsn::from_u64(to.get()));
    }

    /// Gives it the catalog to tell rows and columns by. Returns `false` if a DDL that has come out is not in it: load
    /// it again.
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
            // In mid-transaction a position counts for nothing; logical messages are nobody's rows.
            ReplicationEvent::KeepAlive { .. } | ReplicationEvent::Message { .. } => {}
            ReplicationEvent::StoppedAt { .. } => return Err(malformed()),
        }
        Ok(None)
    }

    fn let_go(&self) -> Error {
        self.client.stop();
        Error::NotReady("the server is stopping: it wants all of its log confirmed".to_owned())
    }

    fn begin(&mut self, start: Lsn, xid: u32) {
        let xid = Xid::widen(xid, self.near);
        self.near = xid;
        let precise = self.catalog.as_ref().is_some_and(|catalog| start >= catalog.insert_lsn);
        let wrote = Footprint::NOTHING;
        let kept = self.keeps_rows.then(Kept::default);
        self.open = Some(Transaction { xid, start, wrote, whole: Vec::new(), ddl: false, precise, kept });
    }

    fn commit(&mut self, start: Lsn, end: Lsn) -> Result<Decoded, Error> {
        let Some(Transaction { xid, wrote, ddl, start: begun, kept, .. }) = self.open.take() else {
            return Err(malformed());
        };
        if start != begun || start >= end {
            return Err(malformed());
        }
        self.counts.commits += 1;
        let wrote = if ddl { Footprint::Everything } else { wrote };
        if ddl {
            self.forget_what_ddl_changed(xid);
        }
        Ok(Decoded::Commit {
            commit: Commit { database: self.database, xid, start, end, wrote },
            ddl,
            changes: kept.map(Kept::finish),
        })
    }

    fn forget_what_ddl_changed(&mut self, ddl: Xid) {
        if self.catalog.as_ref().is_some_and(|catalog| catalog.snapshot.sees(ddl)) {
            // It was read after this DDL; the commits before have passed as whole tables.
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

    /// Keeps a message about rows, if this transaction's are kept.
    fn keep(&mut self, data: Bytes) -> Result<(), Error> {
        let Some(kept) = self.open.as_mut().and_then(|open| open.kept.as_mut()) else { return Ok(()) };
        let relations = &self.relations;
        let relation = |id: u32| relations.get(&id).map(|known| &known.relation);
        kept.add(data, relation).ok_or_else(malformed)
    }

    /// A row of a table that has been written wholly already needs no reading.
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

    /// Adds one changed row. `None` if the server never said what table this is.
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

/// How the client reaches the server: through the socket in `folder`, if there is one.
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

/// The first row of an answer as texts; empty if there is none.
fn texts(rows: &[QueryRow]) -> Vec<Option<String>> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    rows.first().map(|row| row.iter().map(|value| value.as_ref().map(text)).collect()).unwrap_or_default()
}

fn malformed() -> Error {
    Error::Protocol("the replication stream is malformed".to_owned())
}

/// The client's errors, sorted as ours. It gives the server's as `text (SQLSTATE 12345)`.
fn error(error: PgWireError) -> Error {
    match error {
        PgWireError::Server(text) | PgWireError::Auth(text) => {
            let (message, sqlstate) = text
                .strip_suffix(')')
                .and_then(|text| text.rsplit_once(" (SQLSTATE "))
                .map_or((text.as_str(), ""), |(message, sqlstate)| (message, sqlstate));
            match sqlstate {
                // "replication slot is active for PID": the server has not noticed yet that our last connection is gone.
                "55006" => Error::NotReady(message.to_owned()),
                // The slot, or its log, is gone.
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
