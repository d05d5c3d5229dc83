//! A random primary with many writers, against the order. The model knows the truth; the order must never
//! claim more.
//!
//! Checks after each step: a snapshot probe counts as settled only if all that it sees has come out; it was
//! taken after every wish that it serves; and every commit that may be visible is in flight until it is both
//! visible and decoded.

use history::{
    Access, Commit, DatabaseId, Epoch, Footprint, Incarnation, Lsn, RelationId, Snapshot, Timeline, Xid,
};
use order::{Bug, Bugs, DoubtId, Gauge, GaugeNumber, Options, Order};

const INCARNATION: Incarnation =
    Incarnation { epoch: Epoch::new(1), timeline: Timeline::new(1), started_us: 1 };
const DATABASES: u32 = 2;

/// xorshift64*: the same steps for the same seed, everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Running,
    /// Its commit record is in the log.
    Logged,
    Visible,
    Aborted,
}

#[derive(Debug)]
struct Transaction {
    xid: Xid,
    database: DatabaseId,
    table: RelationId,
    stage: Stage,
    record: (Lsn, Lsn),
    doubt: Option<DoubtId>,
    lost: bool,
    done: bool,
    decoded: bool,
    /// In which step it became visible.
    visible: Option<u64>,
}

struct Primary {
    order: Order,
    chance: Chance,
    next_xid: u64,
    end: u64,
    transactions: Vec<Transaction>,
    /// Commit records, in the order of the log.
    log: Vec<usize>,
    /// Number of WAL records that each database's decoder has passed.
    passed: [usize; DATABASES as usize],
    in_flight: Option<(GaugeNumber, Option<Gauge>)>,
    /// Steps at which each snapshot probe was taken, and at which each wish was made.
    looked: Vec<u64>,
    step: u64,
    /// Commits shown by each database's boundaries so far, and the newest version.
    shown: Vec<(Vec<Xid>, u64)>,
    boundaries: usize,
}

impl Primary {
    fn new(seed: u64, bugs: Bugs) -> Primary {
        let small = Options {
            max_unsettled_gauges: 4,
            max_owed_xids: 8,
            max_out_xids: 8,
            max_ending_doubts: 3,
            max_waiting_commits: 1_024,
            bugs,
        };
        let roomy = Options { bugs, ..Options::default() };
        let mut order = Order::new(if seed.is_multiple_of(3) { small } else { roomy });
        order.incarnate(INCARNATION);
        order.orphans_gone();
        (0..DATABASES).for_each(|database| order.place_commits(DatabaseId::new(database)));
        (0..DATABASES).for_each(|database| order.slot_opened(DatabaseId::new(database), Lsn::new(1000)));
        Primary {
            order,
            chance: Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            next_xid: 100,
            end: 1000,
            transactions: Vec::new(),
            log: Vec::new(),
            passed: [0; DATABASES as usize],
            in_flight: None,
            looked: vec![0],
            step: 0,
            shown: vec![(Vec::new(), 0); DATABASES as usize],
            boundaries: 0,
        }
    }

    fn run(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.step += 1;
            match self.chance.below(10) {
                0 => self.begin(),
                1..=4 => self.advance(),
                5 => self.resolve(),
                6..=7 => self.gauge(),
                _ => self.decode(),
            }
            self.order.audit();
            self.verify()?;
            if self.chance.one_in(3) {
                self.take()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        let database = DatabaseId::new(self.chance.below(DATABASES as usize) as u32);
        let table = RelationId::new(self.chance.below(4) as u32);
        let footprint =
            if self.chance.one_in(10) { Footprint::Everything } else { Footprint::of(table, Access::WHOLE) };
        let doubt = Some(self.order.doubt(database, footprint));
        let xid = Xid::new(self.next_xid);
        // A savepoint takes an identity that never comes out.
        self.next_xid += 1 + u64::from(self.chance.one_in(4));
        self.transactions.push(Transaction {
            xid,
            database,
            table,
            stage: Stage::Running,
            record: (Lsn::ZERO, Lsn::ZERO),
            doubt,
            lost: false,
            done: false,
            decoded: false,
            visible: None,
        });
    }

    /// One transaction moves on: into the log, into sight, or to its end without a commit.
    fn advance(&mut self) {
        let unfinished: Vec<usize> = (0..self.transactions.len())
            .filter(|n| matches!(self.transactions[*n].stage, Stage::Running | Stage::Logged))
            .collect();
        if unfinished.is_empty() {
            return;
        }
        let which = unfinished[self.chance.below(unfinished.len())];
        let abort = self.chance.one_in(5);
        let transaction = &mut self.transactions[which];
        match transaction.stage {
            Stage::Running if abort => transaction.stage = Stage::Aborted,
            Stage::Running => {
                transaction.record = (Lsn::new(self.end), Lsn::new(self.end + 50));
                self.end += 50;
                transaction.stage = Stage::Logged;
                self.log.push(which);
            }
            _ => (transaction.stage, transaction.visible) = (Stage::Visible, Some(self.step)),
        }
    }

    /// A client hears the answer, or a connection dies at any time and its backend ends later.
    fn resolve(&mut self) {
        let open: Vec<usize> = (0..self.transactions.len()).filter(|n| !self.transactions[*n].done).collect();
        if open.is_empty() {
            return;
        }
        let which = open[self.chance.below(open.len())];
        let dies = self.chance.one_in(4);
        let transaction = &mut self.transactions[which];
        let Some(doubt) = transaction.doubt else { return };
        let finished = matches!(transaction.stage, Stage::Visible | Stage::Aborted);
        match (transaction.lost, finished) {
            (false, _) if dies => {
                transaction.lost = true;
                self.order.connection_lost(doubt);
            }
            (false, true) => {
                transaction.done = true;
                self.order.answered(doubt);
            }
            (true, true) => {
                transaction.done = true;
                self.order.backend_gone(doubt);
            }
            (_, false) => {}
        }
    }

    /// A snapshot probe is wanted, sent, taken, answered or lost: each at its own time.
    fn gauge(&mut self) {
        match self.in_flight.take() {
            None => {
                let wanted = self.order.want_gauge();
                assert!(
                    wanted.get() >= self.looked.len() as u64,
                    "who wants a gauge gets one that has not looked"
                );
                self.in_flight = self.order.gauge_to_send().map(|number| (number, None));
            }
            Some((number, None)) => {
                self.looked.resize(number.get() as usize + 1, self.step);
                let running = self.transactions.iter();
                let running = running
                    .filter(|transaction| matches!(transaction.stage, Stage::Running | Stage::Logged))
                    .map(|transaction| transaction.xid)
                    .collect();
                let snapshot = Snapshot::new(Xid::new(self.next_xid), running);
                let gauge = Gauge { incarnation: INCARNATION, snapshot, insert_lsn: Lsn::new(self.end) };
                self.in_flight = Some((number, Some(gauge)));
            }
            Some((number, Some(gauge))) => {
                if self.chance.one_in(20) {
                    self.order.gauge_lost(number);
                } else {
                    self.order.gauge_answered(number, gauge).expect("it is the one in flight");
                }
            }
        }
    }

    fn decode(&mut self) {
        let place = self.chance.below(DATABASES as usize);
        let database = DatabaseId::new(place as u32);
        let Some(which) = self.log.get(self.passed[place]).copied() else {
            // A keep-alive says where the decoder is when nothing comes.
            self.order.decoded_to(database, Lsn::new(self.end));
            return;
        };
        self.passed[place] += 1;
        let transaction = &mut self.transactions[which];
        let (start, end) = transaction.record;
        if transaction.database == database {
            transaction.decoded = true;
            let wrote = Footprint::of(transaction.table, Access::WHOLE);
            let commit = Commit { database, xid: transaction.xid, start, end, wrote };
            assert!(self.order.explained(&commit), "its doubt cannot have ended");
            assert!(self.order.decoded(&commit));
        } else if self.chance.one_in(2) {
            self.order.decoded_to(database, end);
        }
    }

    /// Each boundary shows just what its snapshot probe sees, and says so; versions have no gaps.
    fn take(&mut self) -> Result<(), String> {
        for boundary in self.order.take_boundaries() {
            self.boundaries += 1;
            let (shown, newest) = &mut self.shown[boundary.database.get() as usize];
            for commit in &boundary.commits {
                *newest += 1;
                assert_eq!(commit.version.get(), *newest, "no gaps");
                shown.push(commit.xid);
            }
            assert_eq!(boundary.reached.get(), *newest);
            let (position, looked) = (boundary.position(), self.looked[boundary.number.get() as usize]);
            for transaction in self.transactions.iter().filter(|one| one.database == boundary.database) {
                let (start, end) = transaction.record;
                let seen = transaction.visible.is_some_and(|visible| visible <= looked);
                let placed = shown.contains(&transaction.xid);
                let says = end > Lsn::ZERO && position.shows(transaction.xid, end);
                if seen != placed || seen != says || (!seen && end > Lsn::ZERO && start < position.resume()) {
                    return Err(format!("step {}: {boundary:?} and {transaction:?}", self.step));
                }
            }
        }
        Ok(())
    }

    fn verify(&self) -> Result<(), String> {
        for database in (0..DATABASES).map(DatabaseId::new) {
            let Some((number, gauge)) = self.order.settled(database) else { continue };
            let missing = self.transactions.iter().find(|transaction| {
                transaction.database == database
                    && transaction.stage != Stage::Aborted
                    && gauge.snapshot.sees(transaction.xid)
                    && !transaction.decoded
            });
            if let Some(missing) = missing {
                return Err(format!("step {}: {number} is settled without {missing:?}", self.step));
            }
        }
        for transaction in &self.transactions {
            let certain = transaction.stage == Stage::Visible && transaction.decoded;
            let nothing = matches!(transaction.stage, Stage::Running | Stage::Aborted);
            let read = Footprint::of(transaction.table, Access::WHOLE);
            if !certain && !nothing && !self.order.in_flight(transaction.database, &read) {
                return Err(format!("step {}: {transaction:?} is not in doubt", self.step));
            }
        }
        Ok(())
    }
}

#[test]
fn the_order_never_claims_what_is_not_so() {
    let (mut ended, mut boundaries, mut placed) = (0, 0, 0);
    for seed in 1..=400 {
        let mut primary = Primary::new(seed, Bugs::default());
        primary.run(400).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        ended += primary.order.counts().doubts_ended;
        placed += primary.order.counts().placed;
        boundaries += primary.boundaries;
    }
    assert!(boundaries > 2_000 && placed > 2_000, "{placed} commits in {boundaries} boundaries");
    assert!(ended > 2_000, "doubts end: {ended}");
}

#[test]
fn the_model_notices_the_planted_bugs() {
    let planted = [
        ("proof_before_settled", Bugs::only(Bug::ProofBeforeSettled)),
        ("settled_by_finished_without_fallback", Bugs::only(Bug::SettledByFinishedWithoutFallback)),
        ("other_database_counts_as_out", Bugs::only(Bug::OtherDatabaseCountsAsOut)),
        ("doubt_until_ack", Bugs::only(Bug::DoubtUntilAck)),
        ("forget_dead_commit", Bugs::only(Bug::ForgetDeadCommit)),
        ("publish_any_prefix", Bugs::only(Bug::PublishAnyPrefix)),
        ("publish_when_all_visible", Bugs::only(Bug::PublishWhenAllVisible)),
        ("proof_superset", Bugs::only(Bug::ProofSuperset)),
    ];
    for (name, bugs) in planted {
        let caught = (1..=400).any(|seed| {
            let outcome = std::panic::catch_unwind(|| Primary::new(seed, bugs).run(400));
            outcome.is_err() || outcome.is_ok_and(|run| run.is_err())
        });
        assert!(caught, "{name} is not noticed");
    }
}
