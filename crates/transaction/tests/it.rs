//! Guarantees of the flows when they are dropped half-way; the simulator tests the rest of their behaviour.

use history::{
    Access, ColumnSet, Commit, Consistency, DatabaseId, Epoch, Footprint, Incarnation, Lsn, RelationId, Rows,
    Snapshot, Timeline, Xid,
};
use order::{DoubtId, DoubtState, Gauge};
use scheduler::{
    End, Options, Proof, Question, Ran, Reason, Scheduler, Serving, SessionMarks, StandbyId, Ticket, Whole,
};
use std::cell::{Cell, RefCell, RefMut};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use transaction::{
    AtPrimary, Backend, Block, Cluster, Delivered, Ended, Locks, Session, StandbyFailed, Standing, quiet,
    read, read_whole, refresh, write,
};

const DATABASE: DatabaseId = DatabaseId::new(5);
const STANDBY: StandbyId = StandbyId::new(1);

struct Inner {
    scheduler: RefCell<Scheduler>,
    orphans: RefCell<Vec<(DoubtId, Backend)>>,
    waits: Cell<u32>,
    /// Position that the standby reaches while a flow waits.
    comes: Cell<Option<Lsn>>,
    /// Events while a flow waits, one in each wait.
    happens: RefCell<Vec<fn(&mut Scheduler)>>,
    leads: Cell<bool>,
}

#[derive(Clone)]
struct Scene(Rc<Inner>);

impl Scene {
    /// One serving standby, nothing decoded.
    fn new() -> Scene {
        Scene::with(Options::default())
    }

    fn with(options: Options) -> Scene {
        let mut scheduler = Scheduler::new(options);
        scheduler.standby_joined(STANDBY, 1);
        scheduler.standby_marked(STANDBY, life(), Lsn::new(100));
        scheduler.standby_serving(STANDBY, Serving::Yes);
        let scheduler = RefCell::new(scheduler);
        Scene(Rc::new(Inner {
            scheduler,
            orphans: RefCell::default(),
            waits: Cell::new(0),
            comes: Cell::new(None),
            happens: RefCell::default(),
            leads: Cell::new(true),
        }))
    }

    fn pending(&self) -> u32 {
        self.scheduler().standbys().map(|standby| standby.pending).sum()
    }

    fn doubts(&self) -> Vec<DoubtState> {
        self.scheduler().order().doubts().map(|doubt| doubt.state).collect()
    }
}

impl Cluster for Scene {
    fn scheduler(&self) -> RefMut<'_, Scheduler> {
        self.0.scheduler.borrow_mut()
    }

    async fn changed(&self, within: Duration) -> Option<Duration> {
        self.0.waits.set(self.0.waits.get() + 1);
        if let Some(happens) = self.0.happens.borrow_mut().pop() {
            happens(&mut self.scheduler());
            return Some(within);
        }
        self.scheduler().standby_marked(STANDBY, life(), self.0.comes.take()?);
        Some(within)
    }

    fn gauge_wanted(&self) {}

    fn orphaned(&self, doubt: DoubtId, backend: Backend) {
        self.0.orphans.borrow_mut().push((doubt, backend));
    }

    fn proof_timeout(&self) -> Duration {
        Duration::from_millis(2)
    }

    fn leads(&self) -> bool {
        self.0.leads.get()
    }
}

/// Behaviour of the nodes.
#[derive(Clone, Copy)]
struct Nodes {
    standby: Result<(), Reason>,
    delivered: Delivered,
    primary_answers: bool,
    standby_answers: bool,
}

const WELL: Nodes =
    Nodes { standby: Ok(()), delivered: Delivered::Whole, primary_answers: true, standby_answers: true };

struct Client {
    nodes: Nodes,
    log: Vec<&'static str>,
    /// Scene in which its locks are granted, and the proof of a read when it is offloaded.
    scene: Option<Scene>,
    proof: Option<Proof>,
}

fn client(nodes: Nodes) -> Client {
    Client { nodes, log: Vec::new(), scene: None, proof: None }
}

impl Session for Client {
    type Answer = ();

    fn backend(&self) -> Backend {
        Backend { pid: 7, started_us: 1 }
    }

    async fn at_standby(&mut self, ticket: &Ticket) -> Result<((), Ran), StandbyFailed> {
        if !self.nodes.standby_answers {
            std::future::pending::<()>().await;
        }
        self.log.push("standby");
        self.proof = Some(ticket.proof());
        let ran = Ran { incarnation: ticket.incarnation(), replayed: None, locked: None };
        self.nodes.standby.map(|()| ((), ran)).map_err(StandbyFailed)
    }

    async fn deliver(&mut self, (): ()) -> Delivered {
        self.log.push("deliver");
        self.nodes.delivered
    }

    async fn discard(&mut self, (): ()) {
        self.log.push("discard");
    }

    async fn at_primary(&mut self, _reason: Reason) -> AtPrimary {
        self.log.push("primary");
        AtPrimary::Answered
    }

    async fn commit_at_primary(&mut self, _doubt: DoubtId) -> AtPrimary {
        self.log.push("commit");
        if !self.nodes.primary_answers {
            std::future::pending::<()>().await;
        }
        AtPrimary::Answered
    }

    async fn ask_locks(&mut self) -> AtPrimary {
        self.log.push("ask locks");
        AtPrimary::Answered
    }

    async fn locks_granted(&mut self) -> Locks {
        self.log.push("locks");
        if let Some(scene) = &self.scene {
            assert!(scene.scheduler().gauge_to_send(Duration::ZERO).is_some(), "the read has wanted it");
        }
        Locks::Granted
    }

    fn has_room_for_locks(&self) -> bool {
        true
    }

    fn defer_locks(&mut self) {
        self.log.push("defer locks");
    }

    async fn take_deferred_locks(&mut self) -> Locks {
        self.log.push("take locks");
        Locks::Granted
    }

    async fn fail_unlocked_block(&mut self) -> AtPrimary {
        self.log.push("fail");
        AtPrimary::Answered
    }

    async fn open_snapshot(&mut self, _ticket: &Ticket) -> Result<Ran, StandbyFailed> {
        Err(StandbyFailed(Reason::NoConnection))
    }

    async fn close_snapshot(&mut self) {}
}

fn life() -> Incarnation {
    Incarnation { epoch: Epoch::new(1), timeline: Timeline::new(1), started_us: 1 }
}

/// A question that any standby may answer: proofs are the scheduler's tests' business.
fn question() -> Question {
    Question {
        database: DATABASE,
        footprint: Arc::new(Footprint::NOTHING),
        consistency: Consistency::Weak,
        session: SessionMarks::default(),
        prefer: None,
        now: Duration::ZERO,
        at_copies: true,
    }
}

/// Polls once: a ready future gives its result, a waiting one is dropped where it stands.
fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn a_proven_answer_is_delivered_and_the_ticket_given_back() {
    let (scene, mut client) = (Scene::new(), client(WELL));
    assert_eq!(poll(read(&scene, &mut client, &question())), Some(Ended::Standby { seen: None }));
    assert_eq!(client.log, ["standby", "deliver"]);
    assert_eq!(scene.pending(), 0);
}

#[test]
fn a_read_waits_for_a_standby_that_is_a_moment_behind_and_rarely_for_one_that_is_far() {
    let scene = Scene::new();
    {
        let mut scheduler = scene.scheduler();
        scheduler.order_mut().incarnate(life());
        scheduler.slot_created(DATABASE, Lsn::new(50));
        let (xid, start, end) = (Xid::new(9), Lsn::new(190), Lsn::new(200));
        scheduler.decoded(Commit { database: DATABASE, xid, start, end, wrote: Footprint::Everything });
    }
    let everything = Arc::new(Footprint::Everything);
    let strong = Question { consistency: Consistency::Strong, footprint: everything, ..question() };
    let read = || {
        let mut client = client(WELL);
        poll(read(&scene, &mut client, &strong)).expect("it ends");
        client.log
    };
    for _ in 0..100 {
        assert_eq!(read(), ["primary"]);
    }
    assert_eq!(scene.0.waits.get(), 6, "1, 3, 7, 15 and 31 reads went between them without a wait");

    // While the next one waits, the standby comes so far. (The answer has no position here, and so no proof.)
    scene.0.comes.set(Some(Lsn::new(200)));
    while read() == ["primary"] {}
    assert_eq!(scene.0.waits.get(), 7);
    scene.scheduler().decoded(Commit {
        database: DATABASE,
        xid: Xid::new(10),
        start: Lsn::new(290),
        end: Lsn::new(300),
        wrote: Footprint::Everything,
    });
    scene.0.comes.set(Some(Lsn::new(300)));
    assert_eq!(read(), ["standby", "discard", "primary"], "the next wait is tried at once");
}

#[test]
fn a_read_that_is_dropped_gives_its_ticket_back() {
    let (scene, mut client) = (Scene::new(), client(Nodes { standby_answers: false, ..WELL }));
    assert_eq!(poll(read(&scene, &mut client, &question())), None);
    assert_eq!(scene.pending(), 0);
}

#[test]
fn what_is_proven_when_another_consort_may_lead_is_not_handed_out() {
    let (scene, mut client) = (Scene::new(), client(WELL));
    scene.0.leads.set(false);
    let ended = poll(read(&scene, &mut client, &question()));
    assert_eq!(ended, Some(Ended::Primary(Reason::MayNotLead)));
    assert_eq!(client.log, ["standby", "discard", "primary"]);
    assert_eq!(scene.pending(), 0);
}

#[test]
fn a_standby_that_fails_for_its_own_sake_is_not_noticed() {
    let (scene, mut client) = (Scene::new(), client(Nodes { standby: Err(Reason::StandbyRefused), ..WELL }));
    let ended = poll(read(&scene, &mut client, &question()));
    assert_eq!(ended, Some(Ended::Primary(Reason::StandbyRefused)));
    assert_eq!(client.log, ["standby", "primary"]);
    assert_eq!(scene.pending(), 0);
}

#[test]
fn nothing_is_repeated_after_the_first_byte() {
    let (scene, mut client) = (Scene::new(), client(Nodes { delivered: Delivered::CutOff, ..WELL }));
    assert_eq!(poll(read(&scene, &mut client, &question())), Some(Ended::CutOff));
    assert_eq!(client.log, ["standby", "deliver"]);
}

#[test]
fn a_write_that_is_dropped_stays_in_doubt_and_its_backend_is_watched() {
    let (scene, mut client) = (Scene::new(), client(Nodes { primary_answers: false, ..WELL }));
    assert_eq!(poll(write(&scene, &mut client, DATABASE, Footprint::Everything)), None);
    assert_eq!(scene.doubts(), [DoubtState::Lost]);
    assert_eq!(scene.0.orphans.borrow()[0].1, Backend { pid: 7, started_us: 1 });
}

#[test]
fn an_answered_write_waits_for_a_gauge() {
    let (scene, mut client) = (Scene::new(), client(WELL));
    assert_eq!(poll(write(&scene, &mut client, DATABASE, Footprint::Everything)), Some(AtPrimary::Answered));
    // Neither open nor lost; before the first snapshot probe the order's floor may have taken it over.
    assert!(scene.doubts().iter().all(|state| matches!(state, DoubtState::Ending(_))));
    assert!(scene.scheduler().order().in_flight(DATABASE, &Footprint::Everything));
    assert!(scene.0.orphans.borrow().is_empty());
}

#[test]
fn a_block_leaves_only_while_it_stands_and_has_not_written() {
    let (scene, mut client) = (Scene::new(), client(WELL));
    let mut block = Block::new(&scene, DATABASE);
    let mut reads = |block: &mut Block<Scene>, standing| {
        block.stands(standing);
        client.log.clear();
        let ended = poll(block.read(&mut client, &question(), None));
        (ended.unwrap(), client.log.clone())
    };
    let (ended, log) = reads(&mut block, Standing::Open);
    assert_eq!(
        (ended, log),
        (Ended::Standby { seen: None }, vec!["ask locks", "locks", "standby", "deliver"])
    );
    assert_eq!(reads(&mut block, Standing::Failed).1, ["primary"]);
    assert_eq!(reads(&mut block, Standing::Unknown).1, ["primary"]);
    let wrote = poll(block.write(&mut self::client(WELL), &Footprint::Everything, true, Reason::Stay("ddl")));
    assert_eq!(wrote, Some(AtPrimary::Answered));
    assert_eq!(reads(&mut block, Standing::Open).0, Ended::Primary(transaction::OWN_WRITES));
    drop(block);
    assert_eq!(scene.doubts(), [DoubtState::Lost]);
}

#[test]
fn what_a_block_has_locked_is_not_locked_again() {
    let (scene, mut client) = (Scene::new(), client(WELL));
    let mut block = Block::new(&scene, DATABASE);
    block.stands(Standing::Open);
    let mut asks = |block: &mut Block<Scene>, relations: &[u32]| {
        client.log.clear();
        let locks = relations.iter().map(|relation| RelationId::new(*relation)).collect();
        poll(block.read(&mut client, &question(), Some(&locks))).unwrap();
        client.log.contains(&"ask locks")
    };
    assert!(asks(&mut block, &[]), "the primary must know that the block has read");
    assert!(!asks(&mut block, &[]) && asks(&mut block, &[1, 2]));
    assert!(!asks(&mut block, &[1]) && !asks(&mut block, &[2, 1]));
    assert!(asks(&mut block, &[1, 3]) && !asks(&mut block, &[3]));
    block.goes_back();
    assert!(asks(&mut block, &[1]));
}

/// A snapshot probe sent before the locks were granted does not show which tables were emptied while they
/// were waited for.
#[test]
fn a_read_in_a_block_is_proven_behind_its_locks() {
    let scene = Scene::new();
    scene.scheduler().order_mut().incarnate(life());
    scene.scheduler().slot_opened(DATABASE, Lsn::new(100));
    scene.scheduler().order_mut().orphans_gone();
    let first = scene.scheduler().gauge_to_send(Duration::ZERO).unwrap();
    let snapshot = Snapshot::new(Xid::new(10), Vec::new());
    let gauge = Gauge { incarnation: life(), snapshot, insert_lsn: Lsn::new(100) };
    scene.scheduler().gauge_answered(first, gauge).unwrap();
    let mut block = Block::new(&scene, DATABASE);
    block.stands(Standing::Open);
    let mut client = Client { scene: Some(scene.clone()), ..client(WELL) };
    let strong = Question { consistency: Consistency::Strong, ..question() };
    let before = scene.scheduler().order_mut().want_gauge();
    assert_eq!(poll(block.read(&mut client, &strong, None)), Some(Ended::Primary(Reason::NoPosition)));
    assert_eq!(client.log, ["ask locks", "locks", "standby", "discard", "primary"]);
    let Some(Proof::Positioned(proof)) = client.proof else { panic!("{:?}", client.proof) };
    assert!(proof > before, "{proof} leaves behind the locks, {before} did before");
}

#[test]
fn behind_a_write_a_read_that_nothing_proves_stays_with_its_block() {
    let (scene, mut client) = (Scene::new(), client(WELL));
    let mut block = Block::new(&scene, DATABASE);
    block.stands(Standing::Open);
    let table = Footprint::of(RelationId::new(1), Access::read(ColumnSet::All, Rows::All));
    assert!(!table.overlaps(&question().footprint));
    poll(block.write(&mut client, &table, false, Reason::Stay("write")));
    let ended = poll(block.read(&mut client, &question(), None));
    assert_eq!(ended, Some(Ended::Primary(transaction::OWN_WRITES)), "a trigger may have written more");
}

/// Writes of a statement that was analysed before a change of the catalog came out.
#[test]
fn a_read_that_a_change_of_the_catalog_has_overtaken_is_in_doubt_about_everything() {
    for overtaken in [false, true] {
        let (scene, mut client) = (Scene::new(), client(WELL));
        scene.scheduler().order_mut().incarnate(life());
        scene.scheduler().slot_opened(DATABASE, Lsn::new(100));
        let understood = scene.scheduler().catalog(DATABASE);
        if overtaken {
            let (start, end) = (Lsn::new(110), Lsn::new(150));
            let wrote = Footprint::Everything;
            scene.scheduler().ddl(Commit { database: DATABASE, xid: Xid::new(10), start, end, wrote });
        }
        poll(quiet(&scene, &mut client, DATABASE, understood, Reason::Stay("isolation")));
        assert_eq!(client.log, ["primary"]);
        assert_eq!(scene.doubts().len(), usize::from(overtaken), "answered, and no gauge has settled");
    }
}

/// Sends and answers a snapshot probe: it sees nothing new.
fn gauge(scheduler: &mut Scheduler) {
    scheduler.order_mut().want_gauge();
    let number = scheduler.gauge_to_send(Duration::ZERO).expect("none is in flight");
    let snapshot = Snapshot::new(Xid::new(9), Vec::new());
    let gauge = Gauge { incarnation: life(), snapshot, insert_lsn: Lsn::new(50) };
    scheduler.gauge_answered(number, gauge).expect("it is the one in flight");
}

/// One logical replica in the place of the standby. The replica shows the first boundary.
fn fed_scene() -> Scene {
    feeds(Scene::new())
}

fn feeds(scene: Scene) -> Scene {
    {
        let mut scheduler = scene.scheduler();
        scheduler.replica_left(STANDBY);
        scheduler.fed_joined(STANDBY, 1);
        scheduler.standby_serving(STANDBY, Serving::Yes);
        scheduler.fed_takes(STANDBY, DATABASE);
        scheduler.order_mut().incarnate(life());
        scheduler.slot_opened(DATABASE, Lsn::new(50));
        gauge(&mut scheduler);
        for boundary in scheduler.take_boundaries() {
            scheduler.fed_shows(STANDBY, life(), &boundary);
        }
    }
    scene
}

#[test]
fn a_read_at_a_fed_replica_is_sent_when_it_is_proven() {
    let (scene, mut client) = (fed_scene(), client(WELL));
    let strong = Question { consistency: Consistency::Strong, ..question() };
    scene.0.happens.borrow_mut().push(gauge);
    let ended = poll(read(&scene, &mut client, &strong));
    assert_eq!(ended, Some(Ended::Standby { seen: Some(Lsn::new(50)) }));
    assert_eq!((client.log, scene.0.waits.get()), (vec!["standby", "deliver"], 1));
    assert!(matches!(client.proof, Some(Proof::Before(Some(_)))));
    assert_eq!(scene.pending(), 0);
}

#[test]
fn a_read_that_no_fed_replica_can_answer_in_time_is_sent_to_the_primary_alone() {
    let (scene, mut client) = (fed_scene(), client(WELL));
    let strong = Question { consistency: Consistency::Strong, ..question() };
    let ended = poll(read(&scene, &mut client, &strong));
    assert_eq!(ended, Some(Ended::Primary(Reason::GaugeNotSettled)));
    assert_eq!(client.log, ["primary"]);
    assert_eq!(scene.pending(), 0);
    // Its connection is lost while the read waits.
    scene.0.happens.borrow_mut().push(|scheduler| {
        scheduler.standby_lost(STANDBY);
        gauge(scheduler);
    });
    let ended = poll(read(&scene, &mut client, &strong));
    assert_eq!(ended, Some(Ended::Primary(Reason::ReplicasBehind)));
    assert_eq!(client.log, ["primary", "primary"]);
}

#[test]
fn a_refresh_lets_go_who_reads_for_too_long_and_what_is_dropped_gives_its_lock_back() {
    let scene = feeds(Scene::with(Options { refresh_locks: true, ..Options::default() }));
    let (at, limit) = ((STANDBY, DATABASE), Duration::from_secs(1));
    let (locked, let_go) = poll(refresh(&scene, at, limit)).expect("nobody reads");
    assert_eq!(let_go, 0);
    let late = poll(read_whole(&scene, &mut client(WELL), &question(), limit));
    assert_eq!(late, Some(Err(Reason::ReplicasBehind)), "who comes waits for it");
    drop(locked);

    let mut hangs = client(Nodes { standby_answers: false, ..WELL });
    assert_eq!(poll(read_whole(&scene, &mut hangs, &question(), limit)), None, "dropped while it runs");
    let (locked, let_go) = poll(refresh(&scene, at, limit)).expect("nobody reads any more");
    assert_eq!(let_go, 0);
    drop(locked);

    let arrived = scene.scheduler().whole_arrives(&question()).expect("few wait");
    let Whole::At(ticket) = scene.scheduler().whole_place(arrived) else { panic!("it is open") };
    let (locked, let_go) = poll(refresh(&scene, at, limit)).expect("the limit has passed");
    assert_eq!(let_go, 1);
    assert!(!scene.scheduler().may_read(ticket.pass().expect("it held the refresh back")));
    scene.scheduler().finish(ticket, End::Delivered);
    drop(locked);
    let ended = poll(read_whole(&scene, &mut client(WELL), &question(), limit));
    assert_eq!(ended, Some(Ok(Ended::Standby { seen: None })));
}
