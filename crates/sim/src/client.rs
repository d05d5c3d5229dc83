//! A client of a Consort: what an application does, through the real flows. Everything that it does and gets is
//! recorded for the checkers.

use crate::bugs::Bug;
use crate::consort::{Consort, Handle};
use crate::executor::Micros;
use crate::model::primary::{Isolation, Pace, Primary, Reply, Request};
use crate::model::statement::{Change, Select, Surroundings, in_flight};
use crate::record::{Acknowledged, Block as BlockRecord, Breach, Moment, Read, Sent, Where};
use crate::session::Session;
use crate::world::World;
use history::{Consistency, DatabaseId, Footprint};
use scheduler::{Question, Reason, SessionMarks};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use transaction::{AtPrimary, Block, Ended, Pinned, Placed, Standing};

/// No read takes longer, whatever stands still.
pub const READ_LIMIT: Micros = 80_000;
/// No write takes longer.
pub const WRITE_LIMIT: Micros = 300_000;
/// A whole read waits so long for a replica, a commit for its turn, and an acknowledgement for replicas.
const WHOLE_LIMIT: Duration = Duration::from_millis(20);

/// Course of a statement that may commit.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// At the primary.
    pub pace: Pace,
    /// Inside a savepoint.
    pub savepoint: bool,
    /// True if it ends in an error.
    pub fails: bool,
    /// Its tree is not known yet.
    pub miss: bool,
    /// The client's connection breaks so long after sending.
    pub dies_after: Option<Micros>,
}

struct Open {
    flow: Option<Block<Handle>>,
    place: usize,
    isolation: Isolation,
    failed: bool,
    snapshot: Option<Pinned<Handle>>,
}

/// See the file's first lines.
pub struct Client {
    world: Rc<World>,
    consort: Rc<Consort>,
    number: u32,
    database: DatabaseId,
    session: Option<Session>,
    open: Option<Open>,
    tenant: usize,
    dirty: bool,
    /// Required freshness of its reads.
    pub consistency: Consistency,
    marks: SessionMarks,
}

impl Client {
    /// A client of this Consort and database, not yet connected.
    pub fn new(consort: &Rc<Consort>, number: u32, database: DatabaseId) -> Client {
        Client {
            world: consort.world.clone(),
            consort: consort.clone(),
            number,
            database,
            session: None,
            open: None,
            tenant: 0,
            dirty: false,
            consistency: Consistency::Strong,
            marks: SessionMarks::default(),
        }
    }

    async fn connected(&mut self) {
        while self.session.is_none() {
            let primary = self.world.primary();
            let pid = self.world.pid();
            match primary.connect(self.database, pid) {
                Some(backend) => {
                    self.world.opened.borrow_mut().entry(self.consort.number).or_default().insert(pid);
                    self.session = Some(Session::new(&self.consort, primary, backend, self.database));
                    (self.tenant, self.dirty) = (0, false);
                }
                None => self.world.env.executor.sleep(500).await,
            }
        }
    }

    fn moment(&self) -> Moment {
        Moment { at: self.world.env.now(), shown: self.world.primary().shown_now(self.database) }
    }

    fn lost(&mut self) {
        self.session = None;
        self.open = None;
    }

    fn took(&self, what: &'static str, since: Micros, limit: Micros) {
        let took = self.world.env.now() - since;
        if took > limit {
            self.world.record.borrow_mut().breaches.push(Breach::WaitedTooLong(what, took));
        }
    }

    // Queries.

    /// Runs a query, in the open block if there is one. `None` if it failed or its connection broke.
    pub async fn read(&mut self, select: &Select) -> Option<Vec<u32>> {
        self.connected().await;
        let arrived = self.moment();
        self.session.as_mut()?.query(select);
        let leaves = self.may_leave(select);
        let footprint = match leaves {
            Ok(()) => self.footprint(select).await,
            Err(reason) => Err(reason),
        };
        self.world.record.borrow_mut().candidates += u64::from(footprint.is_ok());
        let ended = match footprint {
            Ok(footprint) => self.leave(select, footprint).await,
            Err(reason) => at_primary(self.session.as_mut()?, reason).await,
        };
        self.answered(select, arrived, &ended)
    }

    /// Fails with a reason if the session or the query keeps it at the primary.
    fn may_leave(&self, select: &Select) -> Result<(), Reason> {
        let bugs = self.world.planted.model;
        if let Some(name) = select.stays(&bugs) {
            return Err(Reason::Stay(name));
        }
        if self.dirty && !bugs.has(Bug::SearchPathByFunction) {
            return Err(Reason::Stay("dirty_session"));
        }
        match self.open.as_ref().map(|open| open.isolation) {
            None | Some(Isolation::Committed) => Ok(()),
            Some(Isolation::Repeatable) => Err(Reason::Stay("repeatable_read")),
            Some(Isolation::Serializable) if bugs.has(Bug::DefaultSerializable) || bugs.has(Bug::Fekete) => {
                Ok(())
            }
            Some(Isolation::Serializable) => Err(Reason::Stay("serializable")),
        }
    }

    async fn footprint(&self, select: &Select) -> Result<Footprint, Reason> {
        let view = match select {
            Select::View => {
                let late = Reason::Stay("analysis_late");
                self.consort.definitions(self.database).await.ok_or(late)?.view
            }
            _ => 0,
        };
        Ok(select.footprint(&self.world.planted.model, view))
    }

    async fn leave(&mut self, select: &Select, footprint: Footprint) -> Ended {
        let question = Question {
            database: self.database,
            footprint: Arc::new(footprint),
            consistency: self.consistency,
            session: self.marks,
            prefer: None,
            now: Duration::from_micros(self.world.env.now()),
            at_copies: select.is_equal_at_copies(),
        };
        let handle = Handle(self.consort.clone());
        let session = self.session.as_mut().expect("connected");
        let whole = self.world.ways.get().whole;
        match self.open.as_mut().and_then(|open| open.flow.as_mut()) {
            // A transaction that may write reads at the primary.
            Some(_) if whole => at_primary(session, Reason::AskedForPrimary).await,
            Some(block) if self.world.ways.get().deferring && block.may_defer_locks() => {
                block.read_unlocked(session, &question, select.locks().as_ref()).await
            }
            Some(block) => block.read(session, &question, select.locks().as_ref()).await,
            None if whole => {
                let ended = transaction::read_whole(&handle, session, &question, WHOLE_LIMIT).await;
                // A missing answer is an error to the client: there is no reply.
                ended.unwrap_or_else(Ended::Primary)
            }
            None => transaction::read(&handle, session, &question).await,
        }
    }

    fn answered(&mut self, select: &Select, arrived: Moment, ended: &Ended) -> Option<Vec<u32>> {
        self.took("read", arrived.at, READ_LIMIT);
        let answered = self.moment();
        let session = self.session.as_ref()?;
        let wire = session.wire.clone();
        // A result that was cut off ends the session: in a block, the client must not be able to go on.
        if matches!(ended, Ended::PrimaryLost | Ended::CutOff) {
            self.lost();
            return None;
        }
        let own = session.backend.own_effects();
        if let Some(open) = &mut self.open {
            if open.failed && matches!(wire.reply, Some(Reply::Rows(_))) {
                self.world.record.borrow_mut().breaches.push(Breach::RanInFailedBlock);
            }
            self.stands(wire.reply.as_ref());
        }
        let Some(Reply::Rows(result)) = wire.reply else { return None };
        let place = wire.place.expect("a reply has a place");
        let mut record = self.world.record.borrow_mut();
        record.offloaded += u64::from(place == Where::Standby);
        let block = self.open.as_ref().map(|open| open.place);
        if let Some(block) = block {
            record.blocks[block].first.get_or_insert((arrived, answered));
            let holds = select.tables().into_iter().map(|table| (table, answered.at));
            record.blocks[block].holds.extend(holds);
            record.blocks[block].statements.push(arrived.at);
        }
        let around = Surroundings { tenant: self.tenant, ..Surroundings::default() };
        record.reads.push(Read {
            client: self.number,
            database: self.database,
            select: select.clone(),
            result: result.clone(),
            arrived,
            answered,
            place,
            around,
            own,
            block,
            strong: self.consistency == Consistency::Strong,
        });
        Some(result)
    }

    fn stands(&mut self, reply: Option<&Reply>) {
        let Some(open) = &mut self.open else { return };
        open.failed |= matches!(reply, None | Some(Reply::Failed | Reply::InFailedBlock));
        let standing = if open.failed { Standing::Failed } else { Standing::Open };
        if let Some(flow) = &mut open.flow {
            flow.stands(standing);
        }
    }

    // Statements that may commit, outside a block.

    /// One autocommit statement.
    pub async fn write(&mut self, changes: &[Change], how: How) -> bool {
        self.call(vec![changes.to_vec()], how).await
    }

    /// A procedure with these transactions inside.
    pub async fn call(&mut self, transactions: Vec<Vec<Change>>, how: How) -> bool {
        if self.world.ways.get().serial {
            return self.in_turns(transactions, how).await;
        }
        self.connected().await;
        let since = self.world.env.now();
        let bugs = self.world.planted.model;
        let all: Vec<Change> = transactions.iter().flatten().copied().collect();
        let mut footprint = self.doubt(&all).await;
        let session = self.session.as_mut().expect("connected");
        session.command(Request::Auto {
            transactions,
            pace: how.pace,
            savepoint: how.savepoint,
            fails: how.fails,
        });
        session.dies_after = how.dies_after;
        if how.miss {
            session.narrow = Some(footprint);
            footprint = if bugs.has(Bug::AnalysisMissNarrowDoubt) {
                in_flight(&all[..1], false)
            } else {
                Footprint::Everything
            };
        }
        let sent = self.sent();
        let handle = Handle(self.consort.clone());
        let session = self.session.as_mut().expect("connected");
        let outcome = if bugs.has(Bug::DoubtFromCommitWordOnly) {
            transaction::Session::at_primary(session, Reason::Stay("write")).await
        } else {
            transaction::write(&handle, session, self.database, footprint).await
        };
        self.took("write", since, WRITE_LIMIT);
        self.done(sent, outcome)
    }

    /// In designs in which commits take turns, each transaction is a block, whose COMMIT alone has the turn.
    async fn in_turns(&mut self, transactions: Vec<Vec<Change>>, how: How) -> bool {
        let mut done = true;
        for changes in transactions {
            if !self.begin(Isolation::Committed).await {
                return false;
            }
            let changed = self.change(&changes, how.savepoint).await;
            if how.fails || !changed {
                self.roll_back().await;
                return false;
            }
            done &= self.commit(how).await;
        }
        done
    }

    /// The statement's in-flight write set, by the present analysis.
    async fn doubt(&self, changes: &[Change]) -> Footprint {
        let bugs = &self.world.planted.model;
        let unseen = |change: &&Change| bugs.has(Bug::RevokeLate) && matches!(change, Change::Grants(_));
        let kept: Vec<Change> = changes.iter().filter(|change| !unseen(change)).copied().collect();
        if !kept.iter().any(|change| matches!(change, Change::Fires(_))) {
            return in_flight(&kept, false);
        }
        let definitions = self.consort.definitions(self.database).await;
        definitions.map_or(Footprint::Everything, |known| in_flight(&kept, known.trigger))
    }

    fn sent(&self) -> usize {
        let pid = self.session.as_ref().expect("connected").backend.pid;
        let mut record = self.world.record.borrow_mut();
        record.sent.push(Sent { pid, database: self.database, sent: self.world.env.now(), answered: None });
        record.sent.len() - 1
    }

    fn done(&mut self, sent: usize, outcome: AtPrimary) -> bool {
        match outcome {
            AtPrimary::Answered => {
                self.world.record.borrow_mut().sent[sent].answered = Some(self.world.env.now());
                let reply = self.session.as_ref().and_then(|session| session.wire.reply.clone());
                reply == Some(Reply::Done)
            }
            AtPrimary::ConnectionLost => {
                self.lost();
                false
            }
        }
    }

    // Blocks.

    /// BEGIN.
    pub async fn begin(&mut self, isolation: Isolation) -> bool {
        self.connected().await;
        let session = self.session.as_mut().expect("connected");
        session.command(Request::Begin(isolation));
        if transaction::Session::at_primary(session, Reason::Stay("begin")).await == AtPrimary::ConnectionLost
        {
            self.lost();
            return false;
        }
        let pid = session.backend.pid;
        let place = self.record_block(pid, isolation);
        let handle = Handle(self.consort.clone());
        let flow = Some(Block::new(&handle, self.database));
        self.open = Some(Open { flow, place, isolation, failed: false, snapshot: None });
        self.stands(Some(&Reply::Done));
        true
    }

    fn record_block(&self, pid: i32, isolation: Isolation) -> usize {
        let mut record = self.world.record.borrow_mut();
        record.blocks.push(BlockRecord {
            pid,
            database: self.database,
            isolation,
            first: None,
            ending: None,
            ended: None,
            holds: Vec::new(),
            defers: self.world.ways.get().deferring,
            statements: Vec::new(),
            wrote: false,
        });
        record.blocks.len() - 1
    }

    /// Changes inside the open block.
    pub async fn change(&mut self, changes: &[Change], savepoint: bool) -> bool {
        let arrived = self.moment();
        let footprint = self.doubt(changes).await;
        let (Some(session), Some(open)) = (self.session.as_mut(), self.open.as_mut()) else { return false };
        self.world.record.borrow_mut().blocks[open.place].wrote = true;
        session.command(Request::Write { changes: changes.to_vec(), savepoint });
        let locks = changes.iter().any(Change::locks_out_readers);
        let flow = open.flow.as_mut().expect("a block at the primary");
        if changes.iter().any(|change| matches!(change, Change::Lock(_))) {
            flow.locks_by_command();
        }
        let outcome = flow.write(session, &footprint, locks, Reason::Stay("write")).await;
        if outcome == AtPrimary::ConnectionLost {
            self.lost();
            return false;
        }
        let reply = session.wire.reply.clone();
        let place = open.place;
        let answered = self.moment();
        self.world.record.borrow_mut().blocks[place].first.get_or_insert((arrived, answered));
        let open = self.open.as_ref().expect("still open");
        if open.failed && reply == Some(Reply::Done) {
            self.world.record.borrow_mut().breaches.push(Breach::RanInFailedBlock);
        }
        self.stands(reply.as_ref());
        if reply == Some(Reply::Done) {
            self.world.record.borrow_mut().blocks[place].statements.push(arrived.at);
        }
        reply == Some(Reply::Done)
    }

    /// COMMIT.
    pub async fn commit(&mut self, how: How) -> bool {
        let (handle, ways) = (Handle(self.consort.clone()), self.world.ways.get());
        if let Some(open) = &self.open {
            // Its end is sent: that it waits for its turn is not the client's doing.
            let now = self.world.env.now();
            self.world.record.borrow_mut().blocks[open.place].ending.get_or_insert(now);
        }
        let turn = match ways.serial {
            true => match transaction::turn(&handle, self.database, WHOLE_LIMIT).await {
                Ok(turn) => Some(turn),
                Err(_) => {
                    self.roll_back().await;
                    return false;
                }
            },
            false => None,
        };
        let (Some(session), Some(mut open)) = (self.session.as_mut(), self.open.take()) else { return false };
        session.command(Request::Commit(how.pace));
        session.dies_after = how.dies_after;
        let flow = open.flow.take().expect("a block at the primary");
        let sent = self.sent();
        self.world.record.borrow_mut().blocks[open.place].ending.get_or_insert(self.world.env.now());
        let session = self.session.as_mut().expect("connected");
        let outcome = flow.commit(session, Reason::Stay("commit")).await;
        if let Some(turn) = turn {
            turn.over(outcome);
        }
        self.world.record.borrow_mut().blocks[open.place].ended = Some(self.world.env.now());
        let done = self.done(sent, outcome);
        done && self.acknowledged(sent).await
    }

    /// True if so many replicas show the commit that its client may get the answer.
    async fn acknowledged(&self, sent: usize) -> bool {
        let (handle, wanted) = (Handle(self.consort.clone()), self.world.ways.get().shown_by);
        let shown = transaction::shown_by(&handle, self.database, wanted, WHOLE_LIMIT).await.is_ok();
        if shown && wanted > 0 {
            let mut record = self.world.record.borrow_mut();
            let Sent { pid, database, sent, .. } = record.sent[sent];
            let at = self.world.env.now();
            record.acknowledged.push(Acknowledged { pid, database, sent, at });
        }
        shown
    }

    /// ROLLBACK.
    pub async fn roll_back(&mut self) {
        let (Some(session), Some(mut open)) = (self.session.as_mut(), self.open.take()) else { return };
        session.command(Request::Rollback);
        let flow = open.flow.take().expect("a block at the primary");
        self.world.record.borrow_mut().blocks[open.place].ending.get_or_insert(self.world.env.now());
        let outcome = flow.roll_back(session, Reason::Stay("rollback")).await;
        self.world.record.borrow_mut().blocks[open.place].ended = Some(self.world.env.now());
        if outcome == AtPrimary::ConnectionLost {
            self.lost();
        }
    }

    /// A transaction declared REPEATABLE READ READ ONLY, with `consort.read_only_snapshots` on. Returns whether a
    /// standby's snapshot served it.
    pub async fn snapshot(&mut self, selects: &[Select], pause: Micros) -> bool {
        self.connected().await;
        let arrived = self.moment();
        if self.dirty || selects.iter().any(|select| self.may_leave(select).is_err()) {
            return self.snapshot_at_primary(selects, pause).await;
        }
        let Ok(footprint) = self.footprint(&selects[0]).await else { return false };
        let question = Question {
            database: self.database,
            footprint: Arc::new(footprint),
            consistency: Consistency::Strong,
            session: self.marks,
            prefer: None,
            now: Duration::from_micros(self.world.env.now()),
            at_copies: selects.iter().all(Select::is_equal_at_copies),
        };
        let handle = Handle(self.consort.clone());
        let session = self.session.as_mut().expect("connected");
        let opened = if self.world.ways.get().whole {
            match transaction::snapshot_whole(&handle, session, &question, WHOLE_LIMIT).await {
                Ok(Placed::At(pinned)) => Ok(pinned),
                Ok(Placed::Primary(reason)) | Err(reason) => Err(reason),
            }
        } else {
            transaction::snapshot(&handle, session, &question).await
        };
        let pid = session.backend.pid;
        self.took("snapshot", arrived.at, READ_LIMIT);
        let Ok(pinned) = opened else { return self.snapshot_at_primary(selects, pause).await };
        let place = self.record_block(pid, Isolation::Repeatable);
        self.open = Some(Open {
            flow: None,
            place,
            isolation: Isolation::Repeatable,
            failed: false,
            snapshot: Some(pinned),
        });
        for (number, select) in selects.iter().enumerate() {
            if number > 0 {
                self.world.env.executor.sleep(pause).await;
            }
            self.read_in_snapshot(select, if number == 0 { arrived } else { self.moment() }).await;
        }
        self.end_snapshot();
        true
    }

    async fn read_in_snapshot(&mut self, select: &Select, arrived: Moment) {
        let Some(session) = self.session.as_mut() else { return };
        let Some(result) = session.in_snapshot(select).await else { return };
        let pinned = self.open.as_ref().and_then(|open| open.snapshot.as_ref());
        if pinned.is_some_and(|pinned| !pinned.may_read()) {
            // The client gets an error instead.
            return;
        }
        session.wire.reply = Some(Reply::Rows(result));
        session.wire.place = Some(Where::Standby);
        self.answered(select, arrived, &Ended::Standby { seen: None });
    }

    fn end_snapshot(&mut self) {
        if let Some(open) = self.open.take() {
            self.world.record.borrow_mut().blocks[open.place].ended = Some(self.world.env.now());
            drop(open.snapshot);
        }
    }

    async fn snapshot_at_primary(&mut self, selects: &[Select], pause: Micros) -> bool {
        if !self.begin(Isolation::Repeatable).await {
            return false;
        }
        for select in selects {
            self.read(select).await;
            self.world.env.executor.sleep(pause).await;
        }
        self.commit(How::default()).await;
        false
    }

    /// The planted bug `rr_later_writes`: a REPEATABLE READ block that is not READ ONLY begins at a standby, and goes on
    /// at the primary when it writes. Without the bug it runs at the primary.
    pub async fn repeatable(&mut self, select: &Select, pause: Micros, change: Change) -> bool {
        if !self.world.planted.model.has(Bug::RrLaterWrites) {
            self.begin(Isolation::Repeatable).await;
            self.read(select).await;
            self.world.env.executor.sleep(pause).await;
            self.change(&[change], false).await;
            return self.commit(How::default()).await;
        }
        self.begin(Isolation::Repeatable).await;
        if let Some(open) = &mut self.open {
            open.isolation = Isolation::Committed;
        }
        self.read(select).await;
        self.world.env.executor.sleep(pause).await;
        self.change(&[change], false).await;
        self.commit(How::default()).await
    }

    // Settings.

    /// `SET app.tenant = n`.
    pub async fn set_tenant(&mut self, tenant: usize) {
        self.tenant_by(tenant, false).await;
    }

    /// `SELECT f()`, which calls `set_config`: whoever does not know the function cannot know that.
    pub async fn set_tenant_by_function(&mut self, tenant: usize) {
        self.tenant_by(tenant, true).await;
    }

    async fn tenant_by(&mut self, tenant: usize, hidden: bool) {
        self.connected().await;
        let session = self.session.as_mut().expect("connected");
        session.command(Request::Tenant(tenant));
        if transaction::Session::at_primary(session, Reason::Stay("setting")).await
            == AtPrimary::ConnectionLost
        {
            self.lost();
            return;
        }
        self.tenant = tenant;
        if hidden {
            self.dirty = true;
        } else {
            session.known_tenant = tenant;
        }
    }
}

async fn at_primary(session: &mut Session, reason: Reason) -> Ended {
    match transaction::Session::at_primary(session, reason).await {
        AtPrimary::Answered => Ended::Primary(reason),
        AtPrimary::ConnectionLost => Ended::PrimaryLost,
    }
}

/// A client that writes past every Consort.
pub struct Bypass {
    world: Rc<World>,
    database: DatabaseId,
}

impl Bypass {
    /// A writer of this database.
    pub fn new(world: &Rc<World>, database: DatabaseId) -> Bypass {
        Bypass { world: world.clone(), database }
    }

    /// One autocommit statement, and its answer.
    pub async fn write(&self, changes: &[Change], how: How) -> bool {
        let env = &self.world.env;
        let primary: Rc<Primary> = self.world.primary();
        let pid = self.world.pid();
        let Some(backend) = primary.connect(self.database, pid) else { return false };
        let sent = Sent { pid, database: self.database, sent: env.now(), answered: None };
        let place = {
            let mut record = self.world.record.borrow_mut();
            record.sent.push(sent);
            record.sent.len() - 1
        };
        env.step(|d| d.network).await;
        let request = Request::Auto {
            transactions: vec![changes.to_vec()],
            pace: how.pace,
            savepoint: how.savepoint,
            fails: how.fails,
        };
        let reply = primary.submit(&backend, request).take().await;
        env.step(|d| d.network).await;
        primary.close(&backend);
        if reply.is_some() {
            self.world.record.borrow_mut().sent[place].answered = Some(env.now());
        }
        reply == Some(Reply::Done)
    }
}
