//! Readers and a writer of one counter row through Consort while a component fails. Each of them must see no
//! count below one that was acknowledged or read before the read began, and none that is not written yet.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use local_cluster::{Node, NodeState, wait_until};
use tokio::runtime::Runtime;
use tokio_postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};

use crate::fixture::{LIMIT, Serving, eventually, run};

/// Connection failures, and what a server says that goes down or comes up.
const AWAY: &[&str] = &["57P01", "57P02", "57P03", "08006"];

/// No other client writes.
pub(crate) const THROUGH: &str = "writers = \"through-consort\"\nattach_on_first_use = true";
/// Others may write.
pub(crate) const ANYWHERE: &str = "writers = \"anywhere\"\nattach_on_first_use = true";

/// The tables: a row that is counted up, and one that stays unchanged.
pub(crate) const TABLES: &str = "CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL); \
     CREATE TABLE quiet (id int PRIMARY KEY, v bigint NOT NULL); \
     INSERT INTO counter VALUES (1, 0); INSERT INTO quiet VALUES (1, 7)";

const COUNT: &str = "UPDATE counter SET n = n + 1 WHERE id = 1 RETURNING n";
pub(crate) const READ: &str = "SELECT n FROM counter WHERE id = 1";
pub(crate) const READ_QUIET: &str = "SELECT v FROM quiet WHERE id = 1";

const READERS: usize = 2;

/// Between two writes each reader reads so often: some of them find the row at rest.
const READS_PER_WRITE: u64 = 3;

/// Failure of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// `None`: the connection ended without a word.
    pub(crate) sqlstate: Option<String>,
    /// For whoever reads why a test failed.
    pub(crate) text: String,
}

impl Trouble {
    fn of(error: &tokio_postgres::Error) -> Trouble {
        let told = error.as_db_error();
        let text = told.map_or_else(|| error.to_string(), |told| told.message().to_owned());
        Trouble { sqlstate: told.map(|told| told.code().code().to_owned()), text }
    }

    /// True for the errors that clients of one PostgreSQL server expect when it goes away.
    pub(crate) fn says_away(&self) -> bool {
        self.sqlstate.as_deref().is_none_or(|state| AWAY.contains(&state))
    }
}

/// A session that waits for each answer.
pub(crate) struct Client {
    runtime: Runtime,
    client: tokio_postgres::Client,
    driver: Option<tokio::task::JoinHandle<Result<(), tokio_postgres::Error>>>,
}

impl Client {
    pub(crate) fn connect(url: &str) -> Result<Client, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let connected = runtime.block_on(async {
            tokio::time::timeout(LIMIT, tokio_postgres::connect(url, NoTls)).await.expect("a log-in in time")
        });
        let (client, connection) = connected.map_err(|error| Trouble::of(&error))?;
        let driver = Some(runtime.spawn(connection));
        Ok(Client { runtime, client, driver })
    }

    /// The rows of all statements in this text.
    pub(crate) fn rows(&mut self, sql: &str) -> Result<Vec<SimpleQueryRow>, Trouble> {
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        Ok(self.messages(sql)?.into_iter().filter_map(row).collect())
    }

    /// All that is answered to this text.
    pub(crate) fn messages(&mut self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Trouble> {
        let asked = self.runtime.block_on(async {
            tokio::time::timeout(LIMIT, self.client.simple_query(sql)).await.expect("an answer in time")
        });
        match asked {
            Ok(messages) => Ok(messages),
            Err(error) if error.is_closed() => Err(self.last_word(&error)),
            Err(error) => Err(Trouble::of(&error)),
        }
    }

    /// The server's last error before it ended the connection.
    fn last_word(&mut self, closed: &tokio_postgres::Error) -> Trouble {
        let said = self.driver.take().map(|driver| self.runtime.block_on(driver));
        match said {
            Some(Ok(Err(error))) => Trouble::of(&error),
            _ => Trouble::of(closed),
        }
    }

    /// The first column of the first row.
    pub(crate) fn one(&mut self, sql: &str) -> Result<String, Trouble> {
        let rows = self.rows(sql)?;
        let value = rows.first().and_then(|row| row.get(0));
        Ok(value.unwrap_or_else(|| panic!("{sql}: no value")).to_owned())
    }

    /// Parses a statement under a name of its own.
    pub(crate) fn prepare(&mut self, sql: &str) -> tokio_postgres::Statement {
        let prepared =
            async { tokio::time::timeout(LIMIT, self.client.prepare(sql)).await.expect("in time") };
        self.runtime.block_on(prepared).expect("it is prepared")
    }

    /// The text in the only row of a statement that was prepared.
    pub(crate) fn execute(&mut self, statement: &tokio_postgres::Statement) -> String {
        let row = async {
            tokio::time::timeout(LIMIT, self.client.query_one(statement, &[])).await.expect("in time")
        };
        self.runtime.block_on(row).expect("it runs").get(0)
    }

    /// Runs a statement that was prepared and answers nothing.
    pub(crate) fn run(&mut self, statement: &tokio_postgres::Statement) {
        let ran = async {
            tokio::time::timeout(LIMIT, self.client.execute(statement, &[])).await.expect("in time")
        };
        self.runtime.block_on(ran).expect("it runs");
    }

    pub(crate) fn number(&mut self, sql: &str) -> Result<i64, Trouble> {
        Ok(self.one(sql)?.parse().expect("a number"))
    }
}

/// Connection string of this node, past Consort.
pub(crate) fn past(node: &Node) -> String {
    format!("host={} port={} user=postgres dbname=postgres", node.socket_folder().display(), node.port())
}

/// The console's row of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) serving: bool,
    pub(crate) why: String,
    pub(crate) served: u64,
}

/// The console's row of a database at a logical replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    pub(crate) state: String,
    pub(crate) why: String,
    pub(crate) version: String,
    pub(crate) newest_version: String,
    pub(crate) pending_commits: u64,
    pub(crate) pending_file_bytes: u64,
    pub(crate) catch_up_left_ms: String,
    pub(crate) copies: u64,
}

/// The console of a Consort.
pub(crate) struct Console(Client);

impl Console {
    pub(crate) fn connect(url: &str) -> Console {
        Console(Client::connect(url).expect("the console lets us in"))
    }

    pub(crate) fn node(&mut self, name: &str) -> Shown {
        let rows = self.0.rows("SHOW REPLICAS").expect("the console answers");
        let row = rows.iter().find(|row| row.get("name") == Some(name)).expect("the node is listed");
        let text = |column: &str| row.get(column).unwrap_or_default().to_owned();
        Shown {
            serving: text("state") == "serving",
            why: text("why"),
            served: text("reads_served").parse().expect("a number"),
        }
    }

    /// Reason why the reads of this database stay at the primary; empty if they may be offloaded.
    pub(crate) fn stays(&mut self, database: &str) -> String {
        let rows = self.0.rows("SHOW SNAPSHOTS").expect("the console answers");
        let row = rows.iter().find(|row| row.get("database") == Some(database));
        row.map_or("nobody uses it", |row| row.get("why_not_serving").unwrap_or_default()).to_owned()
    }

    /// The rows of a command.
    pub(crate) fn rows(&mut self, command: &str) -> Vec<SimpleQueryRow> {
        self.0.rows(command).expect("the console answers")
    }

    /// State of a replica's feed of a database; empty before it begins.
    pub(crate) fn feed(&mut self, replica: &str, database: &str) -> Feed {
        let rows = self.0.rows("SHOW REPLICATION").expect("the console answers");
        let mine =
            |row: &&SimpleQueryRow| row.get("name") == Some(replica) && row.get("database") == Some(database);
        let Some(row) = rows.iter().find(mine) else { return Feed::default() };
        let text = |column: &str| row.get(column).unwrap_or_default().to_owned();
        Feed {
            state: text("state"),
            why: text("why"),
            version: text("version"),
            newest_version: text("newest_version"),
            pending_commits: text("pending_commits").parse().unwrap_or_default(),
            pending_file_bytes: text("pending_file_bytes").parse().unwrap_or_default(),
            catch_up_left_ms: text("catch_up_left_ms"),
            copies: text("copies").parse().unwrap_or_default(),
        }
    }

    /// The clients that count as writers.
    pub(crate) fn writers(&mut self) -> String {
        let rows = self.0.rows("SHOW SNAPSHOTS").expect("the console answers");
        rows.first().and_then(|row| row.get("writers")).expect("a database is used").to_owned()
    }
}

/// Consort in front of servers with the tables, every standby serving.
pub(crate) fn serving(standbys: usize, lines: &str) -> (Serving, Console, String) {
    serves_all(Serving::start(standbys, lines))
}

/// The same with a Consort that runs.
pub(crate) fn serves_all(serving: Serving) -> (Serving, Console, String) {
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    for standby in serving.servers.cluster().standbys() {
        eventually("a standby that serves", || console.node(standby.name()).serving);
    }
    (serving, console, url)
}

/// Waits until this standby serves reads that come now.
pub(crate) fn serves(console: &mut Console, name: &str) {
    let before = served(console, name);
    eventually("reads at a standby", || served(console, name) > before + 20);
}

/// Number of reads that this standby has served.
pub(crate) fn served(console: &mut Console, name: &str) -> u64 {
    console.node(name).served
}

/// Kills one of the server's backends: all its clients are cut off, and it recovers under the same postmaster.
pub(crate) fn kill_a_backend(node: &Node) {
    let NodeState::Running { pid } = node.state() else { panic!("{} does not run", node.name()) };
    let checkpointer = "SELECT pid, backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    let life = || node.query("postgres", checkpointer).ok();
    let before = life();
    let ours =
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let victim = node.query("postgres", ours).expect("it answers")[0][0].clone().expect("a backend");
    run(std::process::Command::new("kill").args(["-KILL", &victim])).worked();
    // The server answers for a moment before it has noticed.
    eventually("a server that has recovered", || {
        life().is_some_and(|now| !now.is_empty() && Some(now) != before)
    });
    assert_eq!(node.state(), NodeState::Running { pid }, "the same postmaster");
}

/// Counts so far.
#[derive(Debug, Default)]
struct Tally {
    /// The newest count that a client knows of, acknowledged or read.
    known: i64,
    /// The newest count that was acknowledged to the writer.
    acknowledged: i64,
    /// The highest count that may have been written.
    tried: i64,
    /// By each reader.
    reads: [u64; READERS],
    writes: u64,
    /// Each should not be.
    wrong: Vec<String>,
    stopped: bool,
}

impl Tally {
    fn fewest_reads(&self) -> u64 {
        self.reads.iter().copied().min().unwrap_or_default()
    }
}

struct Shared {
    url: String,
    /// True if the primary may go away in this run.
    tolerates_away: bool,
    tally: Mutex<Tally>,
    moved: Condvar,
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, note: impl FnOnce(&mut Tally)) {
        note(&mut self.tally());
        self.moved.notify_all();
    }

    fn stopped(&self) -> bool {
        self.tally().stopped
    }

    /// A session, tried for as long as the primary is away.
    fn connect(&self) -> Option<Client> {
        let mut client = None;
        wait_until(LIMIT, || {
            match Client::connect(&self.url) {
                Ok(connected) => client = Some(connected),
                Err(trouble) => self.trouble("a log-in", &trouble),
            }
            client.is_some() || self.stopped()
        });
        client
    }

    fn trouble(&self, what: &str, trouble: &Trouble) {
        if !(self.tolerates_away && trouble.says_away()) {
            self.note(|tally| tally.wrong.push(format!("{what}: {:?} {}", trouble.sqlstate, trouble.text)));
        }
    }

    fn write(&self) {
        let mut client = self.connect();
        let mut pause_until = 0;
        while let Some(session) = &mut client {
            let tally = self.tally();
            let waited = self.moved.wait_timeout_while(tally, LIMIT, |tally| {
                !tally.stopped && tally.fewest_reads() < pause_until
            });
            let (mut tally, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if tally.stopped {
                return;
            }
            tally.tried += 1;
            pause_until = tally.fewest_reads() + READS_PER_WRITE;
            let known = tally.known;
            drop(tally);
            match session.number(COUNT) {
                Ok(count) => self.note(|tally| {
                    if count <= known {
                        tally.wrong.push(format!("a write returned {count} when {known} was known"));
                    }
                    tally.writes += 1;
                    tally.acknowledged = tally.acknowledged.max(count);
                    tally.known = tally.known.max(count);
                }),
                Err(trouble) => {
                    self.trouble("a write", &trouble);
                    client = self.connect();
                }
            }
        }
    }

    fn read(&self, reader: usize) {
        let mut client = self.connect();
        while let Some(session) = &mut client {
            let tally = self.tally();
            if tally.stopped {
                return;
            }
            let known = tally.known;
            drop(tally);
            let read = session.number(READ).and_then(|count| Ok((count, session.number(READ_QUIET)?)));
            match read {
                Ok((count, quiet)) => self.note(|tally| {
                    if count < known || count > tally.tried {
                        let tried = tally.tried;
                        tally.wrong.push(format!("read {count}: {known} was known, {tried} were tried"));
                    }
                    if quiet != 7 {
                        tally.wrong.push(format!("the quiet row read {quiet}"));
                    }
                    tally.known = tally.known.max(count);
                    tally.reads[reader] += 1;
                }),
                Err(trouble) => {
                    self.trouble("a read", &trouble);
                    client = self.connect();
                }
            }
        }
    }
}

/// Two readers and a writer, each on a thread of its own, until [`Load::end`].
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Nothing that fails may be noticed.
    pub(crate) fn start(url: &str) -> Load {
        Load::with(url, false)
    }

    /// The primary, or Consort, goes away: clients get an error, and come back.
    pub(crate) fn that_comes_back(url: &str) -> Load {
        Load::with(url, true)
    }

    fn with(url: &str, tolerates_away: bool) -> Load {
        let mut client = Client::connect(url).expect("a log-in");
        let count = client.number(READ).expect("a read");
        let tally = Tally { known: count, acknowledged: count, tried: count, ..Tally::default() };
        let shared = Arc::new(Shared {
            url: url.to_owned(),
            tolerates_away,
            tally: Mutex::new(tally),
            moved: Condvar::new(),
        });
        let spawn = |work: Box<dyn FnOnce(&Shared) + Send>| {
            let shared = shared.clone();
            std::thread::spawn(move || work(&shared))
        };
        let mut threads = vec![spawn(Box::new(Shared::write))];
        threads.extend((0..READERS).map(|reader| spawn(Box::new(move |shared| shared.read(reader)))));
        Load { shared, threads }
    }

    /// Waits until so many more reads of each reader are answered, and so many writes: no client is held up.
    pub(crate) fn goes_on(&self, reads: u64, writes: u64) {
        let tally = self.shared.tally();
        let wanted = (tally.reads.map(|so_far| so_far + reads), tally.writes + writes);
        let enough = |tally: &Tally| {
            tally.writes >= wanted.1
                && tally.reads.iter().zip(wanted.0).all(|(reads, wanted)| *reads >= wanted)
        };
        let waited = self
            .shared
            .moved
            .wait_timeout_while(tally, LIMIT, |tally| tally.wrong.is_empty() && !enough(tally));
        let (tally, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(tally.wrong.is_empty(), "{tally:?}");
        assert!(enough(&tally), "{reads} and {writes} in {LIMIT:?}: {tally:?}");
    }

    /// Ends it, and checks the result: nothing was wrong, and the counter has the value that the clients
    /// know.
    pub(crate) fn end(mut self) {
        self.stop();
        let tally = std::mem::take(&mut *self.shared.tally());
        assert!(tally.wrong.is_empty(), "{tally:?}");
        let mut client = Client::connect(&self.shared.url).expect("a log-in");
        let count = client.number(READ).expect("a read");
        assert!((tally.acknowledged..=tally.tried).contains(&count), "{count}: {tally:?}");
    }

    fn stop(&mut self) {
        self.shared.note(|tally| tally.stopped = true);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a client's thread panicked");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}
