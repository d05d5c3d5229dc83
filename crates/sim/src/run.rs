//! One seed: a cluster, a workload, faults, and then rest; what the checkers say of it.

use crate::bugs::{Bug, Planted};
use crate::checks::{self, Violation};
use crate::client::{Bypass, Client, How};
use crate::consort::Consort;
use crate::env::{Delays, Env};
use crate::executor::Micros;
use crate::model::primary::{Isolation, Pace};
use crate::model::schema::{DATABASES, ROWS, SERVED, Table, database};
use crate::model::statement::{Change, Part, Select};
use crate::random::Random;
use crate::record::Breach;
use crate::world::{Ways, World};
use history::Consistency;
use scheduler::{Options, Writers};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The group of the tasks that make faults.
const FAULTS: u32 = 900;
/// The group of those who write past Consort.
const BYPASS: u32 = 901;
/// Time limit until everything is at rest.
const REST: Micros = 400_000;

/// Result of one run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The checkers' findings.
    pub violations: Vec<Violation>,
    /// Reads answered.
    pub reads: usize,
    /// Commits shown.
    pub commits: usize,
    /// Reads that could have left.
    pub candidates: u64,
    /// Reads that did.
    pub offloaded: u64,
    /// Reasons of reads at the primary.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Work of a replica that joined meanwhile: reads that it answered, steps of transactions that it
    /// executed.
    pub at_joined: u64,
}

/// Probabilities of the events in one run.
struct Mix {
    writers: Writers,
    until: Micros,
    think: Micros,
    tables: Vec<Table>,
    writes: u64,
    blocks: u64,
    odd: u64,
    asynchronous: u64,
    savepoints: u64,
    dying: u64,
    paces: bool,
    /// True if clients drop and create a table now and then, and use it.
    makes: bool,
}

impl Mix {
    fn drawn(random: &mut Random, planted: &Planted) -> Mix {
        let bypassed = planted.model.has(Bug::BypassWriter) || planted.model.has(Bug::SecondNode);
        let closed = bypassed || random.chance(400);
        let all = [Table::Full, Table::Plain, Table::Parent, Table::Full, Table::Plain];
        let tables = (0..random.between(1, 3)).map(|_| random.one(&all)).collect();
        Mix {
            writers: if closed { Writers::ThroughConsort } else { Writers::Anywhere },
            until: random.between(30_000, 90_000),
            think: random.one(&[200, 1000, 4000]),
            tables,
            writes: random.between(100, 600),
            blocks: random.one(&[0, 100, 300]),
            odd: random.one(&[0, 100, 400]),
            asynchronous: random.one(&[0, 0, 200, 700]),
            savepoints: random.one(&[0, 100, 500]),
            dying: random.one(&[0, 50, 300]),
            paces: random.chance(300),
            makes: false,
        }
    }

    /// The same with a table that is dropped and created now and then: every other change and read is of that
    /// one.
    fn making(mut self) -> Mix {
        let others = self.tables.len();
        self.tables.extend(std::iter::repeat_n(Table::Made, others));
        self.makes = true;
        self
    }

    fn table(&self, random: &mut Random) -> Table {
        random.one(&self.tables)
    }

    fn how(&self, random: &mut Random) -> How {
        let mut long = |likely: bool| (likely && random.chance(200)).then(|| random.between(0, 12_000));
        let pace =
            Pace { asynchronous: false, visible: long(self.paces), answer: long(self.paces), record: None };
        How {
            pace: Pace { asynchronous: random.chance(self.asynchronous), ..pace },
            savepoint: random.chance(self.savepoints),
            fails: random.chance(80),
            miss: random.chance(100),
            dies_after: random.chance(self.dying).then(|| random.between(10, 3000)),
        }
    }

    fn change(&self, random: &mut Random) -> Change {
        if self.makes && random.chance(100) {
            return Change::Make;
        }
        let (table, row) = (self.table(random), random.below(ROWS as u64) as usize);
        let (a, b) = random.one(&[(true, true), (true, false), (false, true)]);
        match random.below(20) {
            0 => Change::Insert(table, row),
            1 => Change::Delete(table, row),
            2 => Change::MoveKey(table, row, (row + 1) % ROWS),
            3 if random.chance(300) => Change::Truncate(table),
            4 if random.chance(self.odd) => Change::Redefine,
            5 if random.chance(self.odd) => Change::Grants(random.chance(500)),
            6 if random.chance(self.odd) => Change::row(Table::Outside, 0),
            7 if random.chance(100) => Change::Lock(table),
            _ => Change::Set(table, row, a, b),
        }
    }

    fn changes(&self, random: &mut Random) -> Vec<Change> {
        (0..random.one(&[1, 1, 1, 2, 3])).map(|_| self.change(random)).collect()
    }

    fn select(&self, random: &mut Random) -> Select {
        let row = random.below(ROWS as u64) as usize;
        if self.makes && random.chance(300) {
            return Select::Typed(row);
        }
        if random.chance(self.odd) {
            return match random.below(10) {
                0 => Select::Generated(row),
                1 => Select::View,
                2 => Select::Policy(row),
                3 => Select::Function,
                4 => Select::Outside,
                5 => Select::Privileged(row),
                6 => Select::KeyText(row),
                7 => Select::Tenant,
                8 => Select::Clock,
                _ => Select::Place,
            };
        }
        let part = |random: &mut Random| {
            let row = random.chance(600).then(|| random.below(ROWS as u64) as usize);
            let (a, b) = random.one(&[(true, true), (true, false), (false, true), (false, false)]);
            Part { table: self.table(random), row, a, b }
        };
        Select::Parts((0..random.one(&[1, 1, 2])).map(|_| part(random)).collect())
    }
}

/// Runs one seed with these bugs planted.
pub fn run(seed: u64, planted: Planted) -> Outcome {
    run_in(seed, planted, Ways::default(), None)
}

/// Runs one seed of a cluster whose clients drop and create a table now and then, and use it meanwhile. The
/// table has a column of a type of the schema's own.
pub fn run_making(seed: u64, planted: Planted) -> Outcome {
    run_in(seed, planted, Ways { making: true, ..Ways::default() }, None)
}

/// Runs one seed of a cluster whose reads see the whole latest state at logical replicas: half of them with
/// commits that take turns, half with refreshes that lock.
pub fn run_whole(seed: u64, planted: Planted) -> Outcome {
    run_in(seed, planted, whole(&mut Random::new(seed ^ 0x3401E)), None)
}

fn whole(random: &mut Random) -> Ways {
    let serial = random.chance(500);
    let shown_by = if serial { random.below(3) as usize } else { 0 };
    Ways { whole: true, locking: !serial, serial, shown_by, ..Ways::default() }
}

/// Runs one seed of a cluster whose logical replicas execute independent commits in parallel.
pub fn run_parallel(seed: u64, planted: Planted) -> Outcome {
    run_in(seed, planted, parallel(), None)
}

fn parallel() -> Ways {
    Ways { parallel: true, ..Ways::default() }
}

/// Runs one seed of a cluster to which one more logical replica comes while clients work: reads see the whole
/// latest state, or replicas execute in parallel.
pub fn run_joining(seed: u64, planted: Planted) -> Outcome {
    let mut random = Random::new(seed ^ 0x701A5);
    let ways = if random.chance(300) { parallel() } else { whole(&mut random) };
    run_in(seed, planted, ways, Some(random.between(2_000, 20_000)))
}

fn run_in(seed: u64, planted: Planted, ways: Ways, joins: Option<Micros>) -> Outcome {
    let mut random = Random::new(seed ^ 0x5EED);
    let env = Env::new(seed, Delays::drawn(&mut random), planted.model);
    let mix = Mix::drawn(&mut random, &planted);
    let mix = Rc::new(if ways.making { mix.making() } else { mix });
    let standbys = u32::from(random.chance(500)) + 1;
    let (standbys, fed, joins) =
        if ways.whole || ways.parallel { (0, standbys, joins) } else { replicas(seed, standbys) };
    let world = World::new(&env, (standbys, fed), joins, planted);
    world.ways.set(ways);
    world.groups_boundaries.set(seed.is_multiple_of(2) || ways.parallel);
    world.proof_timeout.set(random.one(&[500, 2000, 2000, 10_000]));
    let cluster = Rc::new(Cluster::start(&world, &mix, &mut random));
    faults(&world, &cluster, &mix, &mut random);
    env.executor.run(mix.until + 300_000);
    rest(&world, &cluster);
    let outcome = judge(&world, mix.writers == Writers::ThroughConsort);
    env.executor.end();
    outcome
}

/// Number of standbys and of logical replicas, and the time at which another one joins. Random numbers of
/// their own, so that a run without logical replicas is the same as before there were any.
fn replicas(seed: u64, standbys: u32) -> (u32, u32, Option<Micros>) {
    let mut random = Random::new(seed ^ 0xFED);
    match random.below(10) {
        0..4 => (standbys, 0, None),
        4 => (standbys, 0, Some(random.between(5_000, 60_000))),
        5..8 => (0, standbys, random.chance(300).then(|| random.between(5_000, 60_000))),
        _ => (1, 1, None),
    }
}

/// Everything that the checkers say, and the figures.
pub fn judge(world: &World, closed: bool) -> Outcome {
    let violations = checks::all(world, closed);
    let record = world.record.borrow();
    Outcome {
        violations,
        reads: record.reads.len(),
        commits: world.primary().facts().len(),
        candidates: record.candidates,
        offloaded: record.offloaded,
        reasons: record.reasons.clone(),
        at_joined: record.at_joined,
    }
}

/// The Consorts and their clients.
struct Cluster {
    world: Rc<World>,
    mix: Rc<Mix>,
    consorts: RefCell<Vec<Rc<Consort>>>,
    clients: Vec<(u32, usize)>,
    options: Options,
}

impl Cluster {
    fn start(world: &Rc<World>, mix: &Rc<Mix>, random: &mut Random) -> Cluster {
        let closed = mix.writers == Writers::ThroughConsort;
        let alone = world.ways.get().whole;
        let several = !alone && (world.planted.model.has(Bug::SecondNode) || (!closed && random.chance(400)));
        let count = if several { 2 } else { 1 };
        let clients = (0..random.between(2, 5)).map(|_| random.below(2)).collect::<Vec<u64>>();
        let clients = clients
            .into_iter()
            .enumerate()
            .map(|(n, of)| (u32::from(several && n % 2 == 1), of as usize % SERVED));
        let mut options = Options::default();
        if random.chance(200) {
            (options.max_rows, options.max_tables, options.max_recent, options.max_unseen) = (8, 2, 6, 4);
        }
        let cluster = Cluster {
            world: world.clone(),
            mix: mix.clone(),
            consorts: RefCell::default(),
            clients: clients.collect(),
            options,
        };
        for number in 0..count {
            cluster.start_consort(number);
        }
        let bypass = world.planted.model.has(Bug::BypassWriter) || (!closed && random.chance(600));
        if bypass {
            (0..DATABASES).for_each(|place| cluster.start_bypass(place));
        }
        cluster
    }

    fn start_consort(&self, number: u32) {
        let consort = Consort::start(&self.world, number, self.mix.writers, self.options);
        let mut consorts = self.consorts.borrow_mut();
        consorts.retain(|other| other.number != number);
        consorts.push(consort.clone());
        for (place, (of, db)) in self.clients.iter().enumerate() {
            if *of == number {
                let client = Client::new(&consort, u32::try_from(place).expect("few"), database(*db));
                let (mix, env) = (self.mix.clone(), self.world.env.clone());
                let ways = self.world.ways.get();
                consort.spawn(async move { behave(client, &mix, &env, ways).await });
            }
        }
    }

    fn start_bypass(&self, place: usize) {
        let bypass = Bypass::new(&self.world, database(place));
        let (mix, env) = (self.mix.clone(), self.world.env.clone());
        self.world.env.executor.spawn(BYPASS, async move {
            while env.now() < mix.until {
                let (changes, how, pause) = {
                    let mut random = env.random.borrow_mut();
                    (mix.changes(&mut random), mix.how(&mut random), random.between(0, 4 * mix.think))
                };
                env.executor.sleep(pause.max(1)).await;
                bypass.write(&changes, how).await;
            }
        });
    }
}

/// Actions of one client until the end.
async fn behave(mut client: Client, mix: &Mix, env: &Env, ways: Ways) {
    while env.now() < mix.until {
        let pause = env.random.borrow_mut().between(1, mix.think);
        env.executor.sleep(pause).await;
        let dice = env.random.borrow_mut().below(1000);
        let drawn = |what: fn(&Mix, &mut Random) -> Select| what(mix, &mut env.random.borrow_mut());
        if dice < mix.blocks / 4 {
            let selects = [drawn(Mix::select), drawn(Mix::select)];
            client.snapshot(&selects, pause).await;
        } else if dice < mix.blocks {
            block(&mut client, mix, env).await;
        } else if dice < mix.blocks + mix.writes * (1000 - mix.blocks) / 1000 {
            write(&mut client, mix, env).await;
        } else if env.random.borrow_mut().chance(mix.odd / 8) {
            let tenant = env.random.borrow_mut().below(3) as usize;
            let hidden = env.random.borrow_mut().chance(200);
            if hidden {
                client.set_tenant_by_function(tenant).await;
            } else {
                client.set_tenant(tenant).await;
            }
        } else {
            let select = drawn(Mix::select);
            // In designs in which a refresh locks, reads of any age see one state, too.
            let any_age = ways.locking && env.random.borrow_mut().chance(200);
            client.consistency = if any_age { Consistency::Weak } else { Consistency::Strong };
            client.read(&select).await;
            client.consistency = Consistency::Strong;
        }
    }
}

async fn write(client: &mut Client, mix: &Mix, env: &Env) {
    let (transactions, how) = {
        let mut random = env.random.borrow_mut();
        let count = random.one(&[1, 1, 1, 2]);
        let transactions: Vec<Vec<Change>> = (0..count).map(|_| mix.changes(&mut random)).collect();
        (transactions, mix.how(&mut random))
    };
    client.call(transactions, how).await;
}

async fn block(client: &mut Client, mix: &Mix, env: &Env) {
    let isolation = {
        let mut random = env.random.borrow_mut();
        random.one(&[
            Isolation::Committed,
            Isolation::Committed,
            Isolation::Committed,
            Isolation::Repeatable,
            Isolation::Serializable,
        ])
    };
    if !client.begin(isolation).await {
        return;
    }
    let steps = env.random.borrow_mut().between(1, 4);
    for _ in 0..steps {
        let (reads, pause) = {
            let mut random = env.random.borrow_mut();
            (random.chance(500), random.between(1, mix.think))
        };
        env.executor.sleep(pause).await;
        if reads {
            let select = mix.select(&mut env.random.borrow_mut());
            client.read(&select).await;
        } else {
            let (change, how) = {
                let mut random = env.random.borrow_mut();
                (mix.change(&mut random), mix.how(&mut random))
            };
            client.change(&[change], how.savepoint).await;
        }
    }
    let how = mix.how(&mut env.random.borrow_mut());
    if how.fails {
        client.roll_back().await;
    } else {
        client.commit(how).await;
    }
}

/// Faults of this run, each at its time.
fn faults(world: &Rc<World>, cluster: &Rc<Cluster>, mix: &Mix, random: &mut Random) {
    let mut when = |per_mille: u64| random.chance(per_mille).then(|| random.between(2_000, mix.until));
    let (crash, standby, restart) = (when(150), when(250), when(200));
    let (decoders, replay, hang) = (when(150), when(250), when(100));
    let length = random.between(200, 15_000);
    let back = random.below(6) as usize;
    let which = world.standbys[random.below(world.standbys.len() as u64) as usize].clone();
    let later = |at: Option<Micros>, act: Box<dyn FnOnce(Rc<World>) -> Act>| {
        if let Some(at) = at {
            let (env, world) = (world.env.clone(), world.clone());
            world.env.clone().executor.spawn(FAULTS, async move {
                env.executor.sleep(at).await;
                act(world).await;
            });
        }
    };
    later(crash, Box::new(move |world| Box::pin(async move { world.primary().crash(length).await })));
    let crashing = which.clone();
    later(standby, Box::new(move |_| Box::pin(async move { crashing.crash(length, back).await })));
    later(
        decoders,
        Box::new(move |world| {
            Box::pin(async move {
                world.pause_decoders(true);
                world.env.executor.sleep(2 * length).await;
                world.pause_decoders(false);
            })
        }),
    );
    let pausing = which.clone();
    later(
        replay,
        Box::new(move |world| {
            Box::pin(async move {
                pausing.pause(true);
                world.env.executor.sleep(length).await;
                pausing.pause(false);
            })
        }),
    );
    later(
        hang,
        Box::new(move |world| {
            Box::pin(async move {
                which.hangs.set(true);
                world.env.executor.sleep(length).await;
                which.hangs.set(false);
            })
        }),
    );
    let cluster = cluster.clone();
    later(
        restart,
        Box::new(move |world| {
            Box::pin(async move {
                world.env.executor.kill(1);
                world.env.executor.sleep(length / 4).await;
                cluster.start_consort(0);
            })
        }),
    );
}

/// One fault.
type Act = std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// Everything is whole again and no client sends anything: in-flight write sets must end, and a read must be
/// offloaded.
fn rest(world: &Rc<World>, cluster: &Cluster) {
    let env = &world.env;
    *env.delays.borrow_mut() = Delays::quick();
    world.proof_timeout.set(2000);
    env.executor.run(env.now() + REST);
    let mut breaches = Vec::new();
    for consort in cluster.consorts.borrow().iter() {
        if consort.doubts() > 0 {
            breaches.push(Breach::NotLive("a doubt never ended"));
        }
        if consort.writers() != cluster.mix.writers {
            breaches.push(Breach::NotLive("the mode of writers switched"));
        }
        if consort.number == 0
            && world.standbys.iter().any(|replica| replica.is_fed() && !replica.has_come(&world.primary()))
        {
            breaches.push(Breach::NotLive("at rest, a fed replica does not show what the primary shows"));
        }
        // Only the first Consort feeds: another one may have no replica at all.
        if consort.number > 0 && world.standbys.iter().all(|standby| standby.is_fed()) {
            continue;
        }
        let left = Rc::new(Cell::new(0));
        for place in 0..SERVED {
            let (mut client, left) = (Client::new(consort, 99, database(place)), left.clone());
            let world = world.clone();
            consort.spawn(async move {
                for _ in 0..3 {
                    let before = world.record.borrow().offloaded;
                    client.read(&Select::row(Table::Full, 0)).await;
                    if world.record.borrow().offloaded > before {
                        left.set(left.get() + 1);
                        return;
                    }
                }
            });
            env.executor.run(env.now() + REST);
        }
        if left.get() < SERVED {
            breaches.push(Breach::NotLive("at rest, no read leaves the primary"));
        }
    }
    world.record.borrow_mut().breaches.extend(breaches);
}
