//! A random primary with standbys, writers and readers, against the scheduler. The model knows what each server has
//! shown at each step; an answer that the scheduler calls proven must be one that the primary would have given at some
//! step between the read's arrival and its end.

use crate::chance::Chance;
use history::{
    Access, Commit, Consistency, DatabaseId, Epoch, Footprint, Incarnation, Lsn, RelationId, Snapshot,
    Timeline, Xid,
};
use order::{DoubtId, Gauge, GaugeNumber};
use scheduler::{
    Bug, Bugs, End, Options, Proof, Question, Ran, Reason, Route, Scheduler, Serving, SessionMarks,
    StandbyId, Ticket, Verdict, Writers,
};
use std::sync::Arc;
use std::time::Duration;

const DATABASE: DatabaseId = DatabaseId::new(5);
const STANDBYS: u32 = 2;
const PAGE: u64 = 8192;

fn incarnation(life: i64) -> Incarnation {
    Incarnation { epoch: Epoch::new(1), timeline: Timeline::new(1), started_us: life }
}

/// A record of the WAL; the record of a commit names its transaction.
struct Record {
    start: Lsn,
    end: Lsn,
    commit: Option<usize>,
}

struct Transaction {
    xid: Xid,
    wrote: Footprint,
    doubt: Option<DoubtId>,
    record: Option<usize>,
    /// The step at which the primary showed it.
    visible: Option<u64>,
    aborted: bool,
    asynchronous: bool,
    lost: bool,
    done: bool,
}

/// Redo shows a commit before the position moves past it: `shown` may be one ahead of `replayed`. Both count records.
struct Standby {
    life: i64,
    shown: usize,
    replayed: usize,
}

struct Read {
    footprint: Arc<Footprint>,
    ticket: Ticket,
    arrived: u64,
    /// Number of records that its snapshot showed, and the incarnation.
    snapshot: Option<(usize, i64)>,
    ran: Option<Ran>,
    patience: u32,
}

struct Cluster {
    scheduler: Scheduler,
    chance: Chance,
    weights: [usize; 11],
    step: u64,
    next_xid: u64,
    transactions: Vec<Transaction>,
    log: Vec<Record>,
    flushed: usize,
    decoded: usize,
    standbys: Vec<Standby>,
    in_flight: Option<(GaugeNumber, Option<Gauge>)>,
    reads: Vec<Read>,
    bypass: bool,
    proven: u64,
    plain: u64,
    routed: u64,
}

impl Cluster {
    fn new(seed: u64, mut options: Options) -> Cluster {
        if seed.is_multiple_of(4) {
            (options.max_recent, options.max_unseen, options.max_tables) = (6, 4, 3);
        }
        let mut scheduler = Scheduler::new(options);
        scheduler.order_mut().incarnate(incarnation(1));
        scheduler.slot_opened(DATABASE, Lsn::new(8000));
        scheduler.order_mut().orphans_gone();
        for id in (0..STANDBYS).map(StandbyId::new) {
            scheduler.standby_joined(id, 1);
            scheduler.standby_serving(id, Serving::Yes);
        }
        let mut chance = Chance::new(seed);
        let weights = [2, 8, 3, 8, 3, 6, 8, 4, 3, 4, 8].map(|usual| 1 + usual * chance.below(4));
        let standby = |_| Standby { life: 1, shown: 0, replayed: 0 };
        Cluster {
            scheduler,
            chance,
            weights,
            step: 0,
            next_xid: 100,
            transactions: Vec::new(),
            log: Vec::new(),
            flushed: 0,
            decoded: 0,
            standbys: (0..STANDBYS).map(standby).collect(),
            in_flight: None,
            reads: Vec::new(),
            bypass: options.writers == Writers::Anywhere,
            proven: 0,
            plain: 0,
            routed: 0,
        }
    }

    fn run(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.step += 1;
            match self.action() {
                0 => self.begin(),
                1 => self.advance(),
                2 => self.resolve(),
                3 => self.gauge(),
                4 => self.flushed = self.flushed.max(self.chance.below(self.log.len() + 1)),
                5 => self.decode(),
                6 => self.replay(),
                7 => self.watch(),
                8 if self.chance.one_in(40) => self.crash_standby(),
                8 => self.fill(),
                9 => self.arrive(),
                _ => self.read_on()?,
            }
        }
        self.reads
            .drain(..)
            .for_each(|read| self.scheduler.finish(read.ticket, End::Refused(Reason::TimedOut)));
        Ok(())
    }

    /// The next event. Frequencies of events differ from run to run.
    fn action(&mut self) -> usize {
        let mut at = self.chance.below(self.weights.iter().sum());
        self.weights
            .iter()
            .position(|weight| {
                let here = at < *weight;
                at = at.saturating_sub(*weight);
                here
            })
            .expect("it lies below the sum")
    }

    fn position(&self, records: usize) -> Lsn {
        records.checked_sub(1).map_or(Lsn::new(8000), |last| self.log[last].end)
    }

    /// The primary's next insert position: at a page boundary after the page's header.
    fn insert_position(&self) -> Lsn {
        let end = self.position(self.log.len());
        if end.get().is_multiple_of(PAGE) { Lsn::new(end.get() + 24) } else { end }
    }

    fn append(&mut self, commit: Option<usize>) -> usize {
        let start = self.insert_position();
        let mut end = start.get() + 40 + 8 * self.chance.below(6) as u64;
        let boundary = start.get().next_multiple_of(PAGE);
        // Records that would cross a page end at its boundary: that case is the rare one.
        if end > boundary && boundary >= start.get() + 32 {
            end = boundary;
        }
        self.log.push(Record { start, end: Lsn::new(end), commit });
        self.log.len() - 1
    }

    fn fill(&mut self) {
        self.append(None);
    }

    fn tables(&mut self, most: usize) -> Footprint {
        let mut footprint = Footprint::NOTHING;
        for _ in 0..=self.chance.below(most) {
            footprint.add(RelationId::new(self.chance.below(5) as u32), Access::WHOLE);
        }
        footprint
    }

    fn begin(&mut self) {
        let wrote = self.tables(2);
        let bypasses = self.bypass && self.chance.one_in(2);
        let doubted = if self.chance.one_in(8) { Footprint::Everything } else { wrote.clone() };
        let doubt = (!bypasses).then(|| self.scheduler.order_mut().doubt(DATABASE, doubted));
        let xid = Xid::new(self.next_xid);
        self.next_xid += 1 + u64::from(self.chance.one_in(4));
        self.transactions.push(Transaction {
            xid,
            wrote,
            doubt,
            record: None,
            visible: None,
            aborted: false,
            asynchronous: self.chance.one_in(4),
            lost: false,
            done: false,
        });
    }

    fn advance(&mut self) {
        let running = |transaction: &Transaction| transaction.visible.is_none() && !transaction.aborted;
        let open: Vec<usize> =
            (0..self.transactions.len()).filter(|n| running(&self.transactions[*n])).collect();
        if open.is_empty() {
            return;
        }
        let which = open[self.chance.below(open.len())];
        let aborts = self.chance.one_in(8);
        let transaction = &mut self.transactions[which];
        match transaction.record {
            None if aborts => transaction.aborted = true,
            None => {
                let record = self.append(Some(which));
                self.transactions[which].record = Some(record);
            }
            Some(record) if transaction.asynchronous || record < self.flushed => {
                // One that waits for a synchronous standby is shown late.
                if !transaction.xid.get().is_multiple_of(4) || self.chance.one_in(20) {
                    self.transactions[which].visible = Some(self.step);
                }
            }
            Some(record) => self.flushed = self.flushed.max(record + 1),
        }
    }

    fn resolve(&mut self) {
        let open: Vec<usize> = (0..self.transactions.len()).filter(|n| !self.transactions[*n].done).collect();
        if open.is_empty() {
            return;
        }
        let which = open[self.chance.below(open.len())];
        let dies = self.chance.one_in(5);
        let transaction = &mut self.transactions[which];
        let finished = transaction.visible.is_some() || transaction.aborted;
        let Some(doubt) = transaction.doubt else {
            transaction.done = finished;
            return;
        };
        match (transaction.lost, finished) {
            (false, _) if dies => {
                transaction.lost = true;
                self.scheduler.order_mut().connection_lost(doubt);
            }
            (false, true) => {
                transaction.done = true;
                self.scheduler.order_mut().answered(doubt);
            }
            (true, true) => {
                transaction.done = true;
                self.scheduler.order_mut().backend_gone(doubt);
            }
            (_, false) => {}
        }
    }

    fn gauge(&mut self) {
        match self.in_flight.take() {
            None => {
                if self.chance.one_in(4) {
                    self.scheduler.order_mut().want_gauge();
                }
                self.in_flight = self.scheduler.gauge_to_send(Duration::ZERO).map(|number| (number, None));
            }
            Some((number, None)) => {
                let running =
                    |transaction: &&Transaction| transaction.visible.is_none() && !transaction.aborted;
                let running =
                    self.transactions.iter().filter(running).map(|transaction| transaction.xid).collect();
                let snapshot = Snapshot::new(Xid::new(self.next_xid), running);
                let gauge =
                    Gauge { incarnation: incarnation(1), snapshot, insert_lsn: self.insert_position() };
                self.in_flight = Some((number, Some(gauge)));
            }
            Some((number, Some(gauge))) if !self.chance.one_in(30) => {
                self.scheduler.gauge_answered(number, gauge).expect("it is the one in flight");
            }
            Some((number, _)) => self.scheduler.order_mut().gauge_lost(number),
        }
    }

    fn decode(&mut self) {
        if self.decoded >= self.flushed {
            return;
        }
        let record = &self.log[self.decoded];
        self.decoded += 1;
        let Some(which) = record.commit else {
            self.scheduler.decoded_to(DATABASE, record.end);
            return;
        };
        let Transaction { xid, wrote, .. } = &self.transactions[which];
        let (start, end) = (record.start, record.end);
        let commit = Commit { database: DATABASE, xid: *xid, start, end, wrote: wrote.clone() };
        assert!(self.scheduler.decoded(commit).fresh);
    }

    fn replay(&mut self) {
        let which = self.chance.below(self.standbys.len());
        let standby = &mut self.standbys[which];
        if standby.shown > standby.replayed {
            standby.replayed = standby.shown;
        } else if standby.shown < self.flushed {
            standby.shown += 1;
        }
    }

    fn watch(&mut self) {
        let which = self.chance.below(self.standbys.len());
        let at = self.position(self.standbys[which].replayed);
        let id = StandbyId::new(which as u32);
        self.scheduler.standby_marked(id, incarnation(self.standbys[which].life), at);
    }

    /// The standby loses its connections, and comes back at an earlier position.
    fn crash_standby(&mut self) {
        let which = self.chance.below(self.standbys.len());
        let back = self.chance.below(20);
        let standby = &mut self.standbys[which];
        standby.life += 1;
        standby.replayed = standby.replayed.saturating_sub(back);
        standby.shown = standby.replayed;
        self.scheduler.standby_lost(StandbyId::new(which as u32));
    }

    fn arrive(&mut self) {
        let footprint = Arc::new(self.tables(3));
        let question = Question {
            database: DATABASE,
            footprint: footprint.clone(),
            consistency: Consistency::Strong,
            session: SessionMarks::default(),
            prefer: None,
            now: Duration::ZERO,
            at_copies: true,
        };
        if let Route::Standby(ticket) = self.scheduler.route(&question) {
            self.routed += 1;
            let (arrived, patience) = (self.step, 30);
            self.reads.push(Read { footprint, ticket, arrived, snapshot: None, ran: None, patience });
        }
    }

    /// One read goes on: its snapshot is taken, its position is read, or it is judged.
    fn read_on(&mut self) -> Result<(), String> {
        if self.reads.is_empty() {
            return Ok(());
        }
        let which = self.chance.below(self.reads.len());
        let read = &mut self.reads[which];
        let standby = &self.standbys[read.ticket.standby().get() as usize];
        let Some((shown, life)) = read.snapshot else {
            read.snapshot = Some((standby.shown, standby.life));
            return if self.chance.one_in(2) { self.read_on() } else { Ok(()) };
        };
        if read.ran.is_none() {
            let alive = standby.life == life;
            let at = self.standbys[self.reads[which].ticket.standby().get() as usize].replayed;
            let replayed = self.reads[which].ticket.asks_position().then(|| self.position(at));
            self.reads[which].ran =
                alive.then_some(Ran { incarnation: incarnation(life), replayed, locked: replayed });
            if !alive {
                self.give_up(which, Reason::StandbyFailed);
            }
            return Ok(());
        }
        let ran = read.ran.expect("it has run");
        match self.scheduler.judge(&mut read.ticket, &ran) {
            Verdict::Proven => {
                self.proven += 1;
                self.plain += u64::from(read.ticket.proof() == Proof::Plain);
                let read = self.reads.swap_remove(which);
                self.verify(&read, shown)?;
                self.scheduler.finish(read.ticket, End::Delivered);
            }
            Verdict::Refused(reason) => self.give_up(which, reason),
            Verdict::Wait(reason) => {
                read.patience -= 1;
                if read.patience == 0 {
                    self.give_up(which, reason);
                }
            }
        }
        Ok(())
    }

    fn give_up(&mut self, which: usize, reason: Reason) {
        let read = self.reads.swap_remove(which);
        self.scheduler.finish(read.ticket, End::Refused(reason));
    }

    /// At some step since its arrival the primary showed, of what the read reads, just what its snapshot showed.
    fn verify(&self, read: &Read, shown: usize) -> Result<(), String> {
        let overlapping: Vec<&Transaction> = self
            .transactions
            .iter()
            .filter(|transaction| transaction.record.is_some() && transaction.wrote.overlaps(&read.footprint))
            .collect();
        let equal = |step: u64| {
            overlapping.iter().all(|transaction| {
                let at_primary = transaction.visible.is_some_and(|visible| visible <= step);
                at_primary == transaction.record.is_some_and(|record| record < shown)
            })
        };
        if (read.arrived..=self.step).any(equal) {
            return Ok(());
        }
        Err(format!("step {}: {:?} was never the primary's since {}", self.step, read.ticket, read.arrived))
    }
}

fn check(writers: Writers, seeds: u64) -> (u64, u64, u64) {
    let (mut proven, mut plain, mut routed) = (0, 0, 0);
    for seed in 1..=seeds {
        let mut cluster = Cluster::new(seed, Options { writers, ..Options::default() });
        cluster.run(1_500).unwrap_or_else(|wrong| panic!("{writers:?}, seed {seed}: {wrong}"));
        cluster.scheduler.order().audit();
        assert!(cluster.scheduler.standbys().all(|standby| standby.pending == 0));
        (proven, plain, routed) = (proven + cluster.proven, plain + cluster.plain, routed + cluster.routed);
    }
    (proven, plain, routed)
}

#[test]
fn what_is_proven_with_writers_anywhere_is_right() {
    let (proven, plain, routed) = check(Writers::Anywhere, 400);
    assert!(proven * 12 > routed && plain == 0, "{proven} of {routed} are proven, {plain} without a gauge");
}

#[test]
fn what_is_proven_with_writers_through_consort_is_right() {
    let (proven, plain, routed) = check(Writers::ThroughConsort, 400);
    assert!(
        proven * 12 > routed && plain * 50 > routed,
        "{proven} of {routed} are proven, {plain} without a gauge"
    );
}

fn caught(options: Options) -> Option<u64> {
    (1..=600).find(|seed| {
        let outcome = std::panic::catch_unwind(|| Cluster::new(*seed, options).run(1_500));
        outcome.expect("a planted bug breaks no invariant of the machine").is_err()
    })
}

#[test]
fn the_model_notices_the_planted_bugs() {
    let (anywhere, through) = (Writers::Anywhere, Writers::ThroughConsort);
    for (name, writers, bugs) in [
        ("standby_no_plus_one", anywhere, Bugs::only(Bug::StandbyNoPlusOne)),
        ("standby_between_counts", anywhere, Bugs::only(Bug::StandbyBetweenCounts)),
        ("standby_old_gauge", anywhere, Bugs::only(Bug::StandbyOldGauge)),
        ("standby_unsettled", anywhere, Bugs::only(Bug::StandbyUnsettled)),
        ("standby_hold_only", anywhere, Bugs::only(Bug::StandbyHoldOnly)),
        ("standby_live", anywhere, Bugs::only(Bug::StandbyLive)),
        ("closed_doubt_at_arrival_only", through, Bugs::only(Bug::ClosedDoubtAtArrivalOnly)),
        ("closed_no_freshness", through, Bugs::only(Bug::ClosedNoFreshness)),
        ("backend_crash_keeps_low", through, Bugs::only(Bug::BackendCrashKeepsLow)),
    ] {
        let seed = caught(Options { writers, bugs, ..Options::default() });
        assert!(seed.is_some(), "{name} is not noticed");
        println!("{name}: seed {}", seed.unwrap_or_default());
    }
    let mut options = Options { writers: through, ..Options::default() };
    options.order.bugs.plant(order::Bug::DoubtUntilAck);
    assert!(caught(options).is_some(), "doubt_until_ack is not noticed");
}
