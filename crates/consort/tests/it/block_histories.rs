//! Histories of READ COMMITTED blocks: reads before writes, savepoints, and alongside them TRUNCATE and ALTER TABLE, through
//! Consort and past it. `HISTORY_SECONDS=600` goes on for so long.
//!
//! At READ COMMITTED each statement has its own snapshot. So each read counts as a transaction of its own, without what its
//! block has appended, and the appends of a block as one more that takes effect between COMMIT and its answer. One server
//! keeps such a history strictly serializable.
//!
//! TRUNCATE and ALTER TABLE need `epoch` for themselves, and raise the number in it and in `mark`. Whatever a block shows
//! after it has read `epoch` shows that number, as long as it holds the lock of that read.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use load_clients::session::{Cell, Protocol, Rows, Session, Trouble};
use load_clients::stop::Stop;
use tokio::sync::watch;
use tokio::task::JoinSet;
use workloads::check::{History, Key, Model, Operation, Outcome, Transaction, Value, check};

use crate::fixture::{Ends, Serving, eventually, history_time};
use crate::load::{ANYWHERE, Client as One, Console, THROUGH, past, served, serving};

const BEGINS: [&str; 3] = ["BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED", "START TRANSACTION READ WRITE"];
const APPEND: &str = "INSERT INTO list AS l (k, v) VALUES ($1, ARRAY[$2::bigint]) \
                      ON CONFLICT (k) DO UPDATE SET v = l.v || EXCLUDED.v";
const OWN: &str = "SELECT n FROM own WHERE client = $1";
const OWN_AND_MARK: &str =
    "UPDATE own SET n = n + 1 WHERE client = $1 RETURNING n, (SELECT m.n FROM mark m WHERE m.id = 1)";
const EPOCH: &str = "SELECT n FROM epoch WHERE id = 1";
const MARK: &str = "SELECT n FROM mark WHERE id = 1";
const BOTH: &str = "SELECT e.n, m.n FROM epoch e, mark m WHERE e.id = 1 AND m.id = 1";

/// On a machine with other work, proofs come later than by default, and reads are to leave all the same.
const PATIENT: &str = "proof_timeout = \"200ms\"";

const CLIENTS: usize = 6;
/// Lists in use at a time.
const LISTS: u32 = 12;
/// After so many appends another list takes the place of one.
const APPENDS_PER_LIST: u32 = 40;
/// Blocks between two changes of `epoch`.
const BLOCKS_PER_CHANGE: u64 = 25;
/// Changes from one ALTER TABLE to the next. After each, reads wait until the catalog is read again.
const CHANGES_PER_ALTER: i64 = 10;
/// Blocks between two faults.
const BLOCKS_PER_FAULT: u64 = 120;
/// Changes of `epoch`, and reads at standbys, that a history has at least.
const ENOUGH: (i64, u64) = (4, 51);
/// Longest time in which a history comes to have them.
const LIMIT: Duration = Duration::from_secs(120);

/// State that all clients of a run share.
struct Shared {
    through: String,
    past: String,
    /// One client, and some of the changes, go past Consort.
    foreign: bool,
    stop: Stop,
    start: Instant,
    /// The lists in use, each with its appends so far, and the next list.
    lists: Mutex<(Vec<(u32, u32)>, u32)>,
    next_value: AtomicU32,
    next_process: AtomicU32,
    /// The highest number of `epoch` that a client knows, and the highest that may be there.
    known: AtomicI64,
    tried: AtomicI64,
    blocks: watch::Sender<u64>,
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("a run is short")
    }

    fn list(&self, random: &mut fastrand::Rng) -> Key {
        let lists = self.lists.lock().expect("no holder panics");
        Key(lists.0[random.usize(..lists.0.len())].0)
    }

    /// Counts an append to this list.
    fn appends(&self, key: Key) {
        let mut lists = self.lists.lock().expect("no holder panics");
        let (in_use, next) = &mut *lists;
        let Some(list) = in_use.iter_mut().find(|list| list.0 == key.0) else { return };
        list.1 += 1;
        if list.1 >= APPENDS_PER_LIST {
            *list = (*next, 0);
            *next += 1;
        }
    }

    /// Waits until so many more blocks have ended.
    fn blocks(&self, more: u64) {
        let from = *self.blocks.borrow();
        eventually("more blocks", || *self.blocks.borrow() >= from + more);
    }
}

/// Findings of a client.
#[derive(Default)]
struct Log {
    transactions: Vec<Transaction>,
    wrong: Vec<String>,
    /// Blocks that failed, and may be repeated.
    repeated: u64,
    blocks: u64,
    lost_sessions: u64,
}

impl Log {
    fn add(&mut self, other: Log) {
        self.transactions.extend(other.transactions);
        self.wrong.extend(other.wrong);
        self.repeated += other.repeated;
        self.blocks += other.blocks;
        self.lost_sessions += other.lost_sessions;
    }
}

/// Statements of a block so far.
#[derive(Clone, Default)]
struct Block {
    appends: Vec<(Key, Value)>,
    /// The number of `epoch`, from the block's first read of it on.
    epoch: Option<i64>,
    /// Updates of the client's own row.
    own: i64,
}

struct Client {
    shared: Arc<Shared>,
    random: fastrand::Rng,
    url: String,
    protocol: Protocol,
    process: u32,
    /// The number in the client's own row.
    own: i64,
    block: Block,
    log: Log,
}

impl Client {
    fn new(shared: Arc<Shared>, seed: u64, number: usize) -> Client {
        let is_foreign = shared.foreign && number == 0;
        Client {
            url: if is_foreign { shared.past.clone() } else { shared.through.clone() },
            shared,
            random: fastrand::Rng::with_seed(seed),
            protocol: [Protocol::Simple, Protocol::Extended, Protocol::Prepared][number % 3],
            process: 0,
            own: 0,
            block: Block::default(),
            log: Log::default(),
        }
    }

    async fn live(mut self) -> Log {
        while !self.shared.stop.is_due() {
            if let Err(trouble) = self.run_session().await {
                self.log.lost_sessions += 1;
                self.wrong(format!("the session is lost: {trouble}"));
                tokio::task::yield_now().await;
            }
        }
        self.log
    }

    fn wrong(&mut self, what: String) {
        if self.log.wrong.len() < 20 {
            self.log.wrong.push(format!("session {}: {what}", self.process));
        }
    }

    async fn run_session(&mut self) -> Result<(), Trouble> {
        self.process = self.shared.next_process.fetch_add(1, Ordering::SeqCst);
        self.own = 0;
        let mut session = Session::open(&self.url, self.protocol).await?;
        session.run("INSERT INTO own VALUES ($1, 0)", &[i64::from(self.process)]).await?;
        while !self.shared.stop.is_due() {
            self.block = Block::default();
            match self.run_block(&mut session).await {
                Ok(()) => {}
                Err(trouble) if trouble.surely_rolled_back() => {
                    self.log.repeated += 1;
                    self.undone(0);
                    session.execute("ROLLBACK").await?;
                }
                Err(trouble) => {
                    self.undone(0);
                    return Err(trouble);
                }
            }
            self.log.blocks += 1;
            self.shared.blocks.send_modify(|blocks| *blocks += 1);
        }
        session.close().await;
        Ok(())
    }

    async fn run_block(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let begin = BEGINS[self.random.usize(..BEGINS.len())];
        session.execute(begin).await?;
        for _ in 0..self.random.usize(0..4) {
            self.read(session).await?;
        }
        if self.random.f64() < 0.6 {
            for _ in 0..self.random.usize(1..5) {
                match self.random.u8(0..6) {
                    0 => self.savepoint(session).await?,
                    1 | 2 => self.append(session).await?,
                    3 => self.update_own(session).await?,
                    _ => self.read(session).await?,
                }
            }
        }
        if self.random.u8(0..10) == 0 {
            session.execute("ROLLBACK").await?;
            self.undone(0);
            return Ok(());
        }
        let began = self.shared.now();
        let ended = session.execute("COMMIT").await;
        let appends = std::mem::take(&mut self.block.appends);
        match &ended {
            Ok(()) => {
                self.own += self.block.own;
                self.writes(began, appends, Outcome::Committed);
            }
            Err(_) => self.writes(began, appends, Outcome::Unknown),
        }
        ended
    }

    /// Records appends as one transaction that ends now.
    fn writes(&mut self, began: u64, appends: Vec<(Key, Value)>, outcome: Outcome) {
        if appends.is_empty() {
            return;
        }
        let operations = appends.into_iter().map(|(key, value)| Operation::Append(key, value)).collect();
        let (process, ended) = (self.process, self.shared.now());
        self.log.transactions.push(Transaction { process, began, ended, outcome, operations });
    }

    /// Records that the block's appends from this one on are undone.
    fn undone(&mut self, from: usize) {
        let undone = self.block.appends.split_off(from);
        let now = self.shared.now();
        self.writes(now, undone, Outcome::Failed);
    }

    async fn savepoint(&mut self, session: &mut Session) -> Result<(), Trouble> {
        session.execute("SAVEPOINT s").await?;
        let saved = self.block.clone();
        for _ in 0..self.random.usize(1..4) {
            match self.random.u8(0..3) {
                0 => self.append(session).await?,
                1 => self.update_own(session).await?,
                _ => self.read(session).await?,
            }
        }
        if self.random.bool() {
            return session.execute("RELEASE s").await;
        }
        session.execute("ROLLBACK TO s").await?;
        self.undone(saved.appends.len());
        self.block = saved;
        Ok(())
    }

    async fn read(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let known = self.shared.known.load(Ordering::SeqCst);
        match self.random.u8(0..8) {
            0 | 1 => {
                let rows = session.run(EPOCH, &[]).await?;
                let [epoch] = numbers(&rows)?;
                self.epoch_is(epoch, known);
            }
            2 => {
                let rows = session.run(MARK, &[]).await?;
                let [mark] = numbers(&rows)?;
                self.mark_is(mark, known);
            }
            3 => {
                let rows = session.run(BOTH, &[]).await?;
                let [epoch, mark] = numbers(&rows)?;
                self.epoch_is(epoch, known);
                self.mark_is(mark, known);
            }
            4 => {
                let rows = session.run(OWN, &[i64::from(self.process)]).await?;
                let [own] = numbers(&rows)?;
                self.own_is(own);
            }
            _ => self.read_lists(session).await?,
        }
        Ok(())
    }

    async fn read_lists(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let count = self.random.usize(1..=3);
        let mut keys: Vec<Key> = (0..count).map(|_| self.shared.list(&mut self.random)).collect();
        keys.sort();
        keys.dedup();
        let places: Vec<String> = (1..=keys.len()).map(|place| format!("${place}")).collect();
        let text = format!("SELECT k, v FROM list WHERE k IN ({})", places.join(", "));
        let values: Vec<i64> = keys.iter().map(|key| i64::from(key.0)).collect();
        let began = self.shared.now();
        let rows = session.run(&text, &values).await?;
        let ended = self.shared.now();
        let mut operations = Vec::new();
        for key in keys {
            let row = rows.iter().find(|row| row.first().and_then(Cell::number) == Some(i64::from(key.0)));
            let list = match row.and_then(|row| row.get(1)) {
                Some(Cell::List(list)) => list.as_slice(),
                _ => &[],
            };
            let list = list.iter().map(|value| Value(u32::try_from(*value).expect("values are small")));
            operations.push(Operation::Read(key, self.without_own(key, list.collect())));
        }
        let (process, outcome) = (self.process, Outcome::Committed);
        self.log.transactions.push(Transaction { process, began, ended, outcome, operations });
        Ok(())
    }

    /// The list without the block's own appends, which stand at its end: the row is locked since the first one.
    fn without_own(&mut self, key: Key, mut list: Vec<Value>) -> Vec<Value> {
        let own = self.block.appends.iter().filter(|(appended, _)| *appended == key);
        let own: Vec<Value> = own.map(|(_, value)| *value).collect();
        if !list.ends_with(&own) {
            self.wrong(format!("appended {own:?} to list {key} and then read {list:?}"));
            return list;
        }
        list.truncate(list.len() - own.len());
        list
    }

    async fn append(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let key = self.shared.list(&mut self.random);
        // Rows are locked in the order of their keys: no client waits for the detection of a deadlock.
        if self.block.appends.iter().any(|(appended, _)| *appended > key) {
            return self.read(session).await;
        }
        self.shared.appends(key);
        let value = Value(self.shared.next_value.fetch_add(1, Ordering::SeqCst));
        self.block.appends.push((key, value));
        session.run(APPEND, &[i64::from(key.0), i64::from(value.0)]).await.map(drop)
    }

    async fn update_own(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let known = self.shared.known.load(Ordering::SeqCst);
        let rows = session.run(OWN_AND_MARK, &[i64::from(self.process)]).await?;
        let [own, mark] = numbers(&rows)?;
        self.block.own += 1;
        self.own_is(own);
        self.mark_is(mark, known);
        Ok(())
    }

    fn own_is(&mut self, read: i64) {
        let expected = self.own + self.block.own;
        if read != expected {
            self.wrong(format!("its own row is {expected}, and it read {read}"));
        }
    }

    fn epoch_is(&mut self, read: i64, known: i64) {
        self.number_is("epoch", read, known);
        self.block.epoch.get_or_insert(read);
    }

    fn mark_is(&mut self, read: i64, known: i64) {
        self.number_is("mark", read, known);
    }

    fn number_is(&mut self, table: &str, read: i64, known: i64) {
        let tried = self.shared.tried.load(Ordering::SeqCst);
        if read < known || read > tried {
            self.wrong(format!("read {read} in {table}: {known} was known, {tried} was tried"));
        }
        if let Some(epoch) = self.block.epoch.filter(|epoch| *epoch != read) {
            self.wrong(format!("read {read} in {table}, and {epoch} in epoch before in the same block"));
        }
        self.shared.known.fetch_max(read, Ordering::SeqCst);
    }
}

/// The numbers of the only row.
fn numbers<const N: usize>(rows: &Rows) -> Result<[i64; N], Trouble> {
    let unexpected = || Trouble::Unexpected(format!("{rows:?} for one row of {N} numbers"));
    let [row] = rows.as_slice() else { return Err(unexpected()) };
    let numbers: Option<Vec<i64>> = row.iter().map(Cell::number).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(unexpected)
}

/// Changes `epoch` again and again, each time in one transaction that locks its readers out.
async fn change(shared: Arc<Shared>, seed: u64) -> Log {
    let (mut random, mut log) = (fastrand::Rng::with_seed(seed), Log::default());
    let mut blocks = shared.blocks.subscribe();
    while !shared.stop.is_due() {
        let next = *blocks.borrow_and_update() + BLOCKS_PER_CHANGE;
        while *blocks.borrow_and_update() < next && !shared.stop.is_due() {
            // The sender is there as long as the run.
            let _ = blocks.changed().await;
        }
        let url = if shared.foreign && random.bool() { &shared.past } else { &shared.through };
        let number = shared.tried.fetch_add(1, Ordering::SeqCst) + 1;
        match changed(url, number, &mut random).await {
            Ok(()) => {
                shared.known.fetch_max(number, Ordering::SeqCst);
            }
            Err(trouble) if trouble.surely_rolled_back() => log.repeated += 1,
            Err(trouble) => log.wrong.push(format!("a change of epoch: {trouble}")),
        }
    }
    log
}

async fn changed(url: &str, number: i64, random: &mut fastrand::Rng) -> Result<(), Trouble> {
    let session = Session::open(url, Protocol::Simple).await?;
    let mark = format!("UPDATE mark SET n = {number}");
    let mut statements = match number % (2 * CHANGES_PER_ALTER) {
        CHANGES_PER_ALTER => vec![
            "ALTER TABLE epoch ADD COLUMN IF NOT EXISTS more int".to_owned(),
            format!("UPDATE epoch SET n = {number}"),
        ],
        0 => vec![
            "ALTER TABLE epoch DROP COLUMN IF EXISTS more".to_owned(),
            format!("UPDATE epoch SET n = {number}"),
        ],
        _ => vec!["TRUNCATE epoch".to_owned(), format!("INSERT INTO epoch VALUES (1, {number})")],
    };
    statements.insert(random.usize(..=statements.len()), mark);
    statements.insert(0, "BEGIN".to_owned());
    statements.push("COMMIT".to_owned());
    if random.bool() {
        return session.execute(&statements.join("; ")).await;
    }
    for statement in statements {
        session.execute(&statement).await?;
    }
    session.close().await;
    Ok(())
}

/// Records blocks while this is done to the servers, for this time at least, and judges them. The history goes on
/// until it has enough changes and reads at standbys.
fn is_of_one_server(
    (serving, console, url): (&Serving, &mut Console, &str),
    foreign: bool,
    time: Duration,
    strike: impl Fn(&dyn Fn()) + Sync,
) {
    for table in [
        "CREATE TABLE list (k bigint PRIMARY KEY, v bigint[] NOT NULL)",
        "CREATE TABLE own (client bigint PRIMARY KEY, n bigint NOT NULL)",
        "CREATE TABLE epoch (id bigint PRIMARY KEY, n bigint NOT NULL)",
        "CREATE TABLE mark (id bigint PRIMARY KEY, n bigint NOT NULL)",
        "INSERT INTO epoch VALUES (1, 0); INSERT INTO mark VALUES (1, 0)",
    ] {
        One::connect(url).and_then(|mut client| client.rows(table)).expect("tables");
    }
    // Clients that wait for each other behind a change of `epoch` go on soon.
    serving.servers.primary().set("deadlock_timeout", "50ms").expect("it is set");
    let shared = Arc::new(Shared {
        through: url.to_owned(),
        past: past(serving.servers.primary()),
        foreign,
        stop: Stop::new(),
        start: Instant::now(),
        lists: Mutex::new(((0..LISTS).map(|list| (list, 0)).collect(), LISTS)),
        next_value: AtomicU32::new(1),
        next_process: AtomicU32::new(0),
        known: AtomicI64::new(0),
        tried: AtomicI64::new(0),
        blocks: watch::Sender::new(0),
    });
    let seed = fastrand::u64(..);
    println!("blocks of seed {seed}");
    let before = served(console, "standby1") + served(console, "standby2");
    let mut seen = || {
        let offloaded = served(console, "standby1") + served(console, "standby2") - before;
        (shared.known.load(Ordering::SeqCst), offloaded)
    };
    let is_enough = |(changes, offloaded): (i64, u64)| changes >= ENOUGH.0 && offloaded >= ENOUGH.1;
    let log = std::thread::scope(|scope| {
        let striking = scope.spawn(|| {
            let _ending = Ends(shared.stop.clone());
            let began = Instant::now();
            while began.elapsed() < time || began.elapsed() < LIMIT && !is_enough(seen()) {
                shared.blocks(BLOCKS_PER_FAULT);
                strike(&|| shared.blocks(BLOCKS_PER_FAULT));
            }
        });
        let log = recorded(&shared, seed);
        striking.join().expect("the faults come and go");
        log
    });
    let (changes, offloaded) = seen();
    let findings = check(&History { transactions: log.transactions });
    println!("{} blocks, {} repeated, {changes} changes, {offloaded} reads", log.blocks, log.repeated);
    assert!(log.wrong.is_empty(), "{:#?}", log.wrong);
    assert!(findings.holds(Model::StrictSerializable), "{findings}");
    let reasons: Vec<String> = console
        .rows("SHOW REASONS")
        .iter()
        .map(|row| (0..row.len()).filter_map(|at| row.get(at)).collect::<Vec<_>>().join(" "))
        .collect();
    assert!(is_enough((changes, offloaded)), "{changes} changes, {offloaded} reads: {reasons:#?}");
}

fn recorded(shared: &Arc<Shared>, seed: u64) -> Log {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(Client::new(shared.clone(), seeds.u64(..), number).live());
        }
        clients.spawn(change(shared.clone(), seeds.u64(..)));
        let mut log = Log::default();
        while let Some(ended) = clients.join_next().await {
            log.add(ended.expect("a client does not panic"));
            // Wakes the task that waits for blocks.
            shared.blocks.send_modify(|_| {});
        }
        log
    })
}

#[test]
fn block_histories_are_of_one_server() {
    for (lines, foreign) in [(THROUGH, false), (ANYWHERE, true)] {
        let (serving, mut console, url) = serving(2, &format!("{lines}\n{PATIENT}"));
        let time = history_time(20) / 4;
        is_of_one_server((&serving, &mut console, &url), foreign, time, |_| {});
    }
}

/// Standbys that are killed, hang and pause their replay.
#[test]
fn block_histories_hold_while_standbys_fail() {
    let (serving, mut console, url) = serving(2, &format!("{ANYWHERE}\n{PATIENT}"));
    let random = Mutex::new(fastrand::Rng::new());
    let servers = serving.servers.clone();
    let strike = |more_blocks: &dyn Fn()| {
        let (number, fault) = {
            let mut random = random.lock().expect("no holder panics");
            (random.usize(0..2), random.u8(0..3))
        };
        let standby = servers.standby(number);
        match fault {
            0 => {
                standby.kill();
                more_blocks();
                standby.start().expect("it starts");
            }
            1 => {
                standby.hang();
                more_blocks();
                standby.resume();
            }
            _ => {
                standby.query("postgres", "SELECT pg_wal_replay_pause()").expect("it pauses");
                more_blocks();
                standby.query("postgres", "SELECT pg_wal_replay_resume()").expect("it goes on");
            }
        }
    };
    is_of_one_server((&serving, &mut console, &url), true, history_time(20) / 2, strike);
}
