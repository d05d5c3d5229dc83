//! Placement of each class of statements, line by line: a test for each line, and in it a scenario for each
//! member. Every step runs through Consort, with reads that may be offloaded at the strictest level, and at
//! one server alongside it. Both must say the same, and Consort must have run the step at the stated place.
//! All of it runs twice, each time in a database of its own: with sessions that have connections of their own
//! at the primary, and with pooled sessions.
//!
//! | class | scenarios | also in |
//! |---|---|---|
//! | writes, CTEs with DML, SELECT INTO, FOR UPDATE, LOCK, COPY, CALL, DO, EXPLAIN ANALYZE, cursors, PREPARE TRANSACTION | `writes` | `door`, `session`, `in_block` |
//! | the clock, transactions, sequences, session, advisory locks, server, large objects, catalogs and OIDs | `classes` | `pooled`, `copies` |
//! | types inside of types, operators without functions, texts and trees that are not read | `classes` | |
//! | functions inside functions, operators, casts, domains, text that is run, foreign tables | `classes` | `statements` |
//! | unlogged, temporary and materialized tables, temporary tables that hide others | `classes` | `session`, `messages` |
//! | isolation, failed blocks, own writes, DDL in blocks, limits for idle blocks, settings | `state` | `in_block`, `session`, `pooled` |
//! | settings that code changes, what keeps a session | `state` | `session` |
//! | REPEATABLE READ and above on one node, BEGIN READ ONLY elsewhere | `state` | `snapshot`, `in_block` |
//! | views, rules, triggers, foreign keys, generated columns, inheritance, partitions, policies, roles | `words` | `in_block`, `snapshot` |
//! | triggers, rules and keys that write, CHECKs that do, rows that are found by other keys | `writes` | |
//! | prepared statements whose table or search_path changes | `words` | `session`, `messages`, `pooled` |

mod classes;
mod state;
mod words;
mod writes;

use crate::stage::{Open, Raw, until};
use config::pooling::{PoolMode, Pools, Said};
use scheduler::Writers;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testkit::Scratch;
use wire::{Asks, Complaint, Frame};

/// One server, to compare with: each test has a database of its own there.
static ONE: LazyLock<Scratch> = LazyLock::new(|| {
    let mut options = Scratch::options();
    options.standbys = 0;
    options.settings.extend(prepares_transactions());
    Scratch::with(options)
});

fn prepares_transactions() -> [(String, String); 1] {
    [("max_prepared_transactions".to_owned(), "4".to_owned())]
}

/// Both have these tables.
const TABLES: &str = "CREATE TABLE items (id int PRIMARY KEY, name text); \
    INSERT INTO items SELECT n, 'item ' || n FROM generate_series(1, 10) n; \
    CREATE TABLE bystander (id int PRIMARY KEY); INSERT INTO bystander VALUES (1)";
const BYSTANDER: &str = "SELECT id FROM bystander";

/// Reason of a read at the primary that no standby has replayed far enough for.
const BEHIND: &str = "standbys_behind";

/// Reasons why any statement may be at the primary for a moment.
const PASSING: &[&str] = &[
    "between",
    "catalog_being_read",
    "catalog_changed",
    "database_not_followed",
    "decoder_behind",
    "probe_not_settled",
    "in_flight",
    "none_serving",
    "not_analysed_yet",
    "roles_changed",
    "session_before_reload",
    "session_not_judged_yet",
    "session_not_probed",
    "session_ran_code",
    "session_ran_probed_code",
    "session_ran_unknown",
    "standby_behind",
    BEHIND,
    "unknown_relation",
    "written_meanwhile",
];

/// Time after which an expected condition counts as failed.
const STUCK: Duration = Duration::from_secs(60);

/// Number of checks that a passing reason is over.
const ROUNDS: usize = 1_000;

/// One step of a scenario.
enum Step {
    /// The session runs this, wherever.
    Runs(&'static str),
    /// Another session runs this, wherever.
    Other(&'static str),
    /// The session starts again as this role.
    As(&'static str),
    /// For this reason the session runs this at the primary, however often it does.
    Stays(&'static str, &'static str),
    /// The same of a statement with one parameter, in text.
    StaysWith(&'static str, &'static str, &'static str),
    /// A standby answers the session this.
    Leaves(&'static str),
    /// The session has this parsed under this name.
    Parses(&'static str, &'static str),
    /// A standby answers the session what was parsed under this name.
    NamedLeaves(&'static str),
    /// The session runs what was parsed under this name, wherever.
    Named(&'static str),
    /// While the standby stands still, another session runs these statements, and the read after them sees
    /// their effects. Other reads are offloaded again.
    Fresh(&'static [&'static str], &'static str),
    /// These run while the standby stands still.
    Still(&'static [Step]),
}

/// Claim about a class of statements.
struct Line {
    /// Objects that the scenarios use.
    objects: &'static [&'static str],
    /// The scenarios of which something is otherwise, by design, where sessions share connections.
    shared: &'static [(&'static str, Shared)],
    /// Whose each one is, and its steps.
    scenarios: &'static [(&'static str, &'static [Step])],
}

/// Pool mode of the sessions at the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Each has one of its own.
    Alone,
    /// They share them.
    Sharing,
}

/// Difference of a scenario under transaction pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    /// Does not run: the answers may differ from a single server's.
    Not,
    /// The answers are a single server's, but statements that otherwise stay may be offloaded.
    Anywhere,
}

/// Connections at the primary that sessions of one role share: one for each of a pair's, and one for whoever comes while the others
/// are kept.
const SHARED_CONNECTIONS: usize = 3;

/// Servers and clients of one line's scenarios.
struct Stage {
    servers: Scratch,
    open: Open,
    mode: Mode,
    /// The database at the one server.
    there: String,
}

/// Runs a statement on both sides; what they say, if it is the same.
type Run<'a> = dyn FnMut() -> Result<String, String> + 'a;

/// A session through Consort, and the same at the one server.
struct Pair {
    here: Raw,
    there: Raw,
}

impl Stage {
    fn start() -> Stage {
        let mut options = Scratch::options();
        options.standbys = 1;
        options.settings.extend(prepares_transactions());
        let servers = Scratch::with(options);
        servers.query(&format!("CREATE DATABASE {}", Mode::Sharing.database()));
        // With writers through Consort, an unrecognised write is found as one that comes past it.
        let open = Open::before(&servers, Writers::ThroughConsort, |setup| setup.pools = pools());
        Stage { servers, open, mode: Mode::Alone, there: new_database_at_the_one() }
    }

    /// Switches to this mode, in databases in which nothing has run.
    fn turns_to(&mut self, mode: Mode) {
        self.mode = mode;
        self.there = new_database_at_the_one();
    }

    fn pair(&self, role: &str) -> Pair {
        let there = Raw::past_as(&ONE, role, &self.there);
        Pair { here: Raw::ready_as(&self.open, role, self.mode.database()), there }
    }

    fn reasons(&self) -> BTreeMap<&'static str, u64> {
        self.open.cluster(|cluster| cluster.metrics().statements_at_primary.get())
    }

    /// Runs what `ask` writes on both sides; what they say, if it is the same.
    fn both(&self, pair: &mut Pair, what: &str, ask: &dyn Fn(&mut Vec<u8>)) -> Result<String, String> {
        pair.here.ask(ask);
        pair.there.ask(ask);
        let (here, there) = (heard(&mut pair.here), heard(&mut pair.there));
        if here == there { Ok(here) } else { Err(format!("{what}: {here} instead of {there}")) }
    }

    fn query(&self, pair: &mut Pair, text: &str) -> Result<String, String> {
        self.both(pair, text, &|out| out.query(text.as_bytes()))
    }

    /// The primary's counts while `run` runs.
    fn counted(&self, run: &mut Run<'_>) -> Result<(bool, BTreeSet<&'static str>), String> {
        let (left, before) = (self.open.reads_at_standbys(), self.reasons());
        run()?;
        let mut after = self.reasons();
        after.retain(|reason, count| before.get(reason) != Some(count));
        Ok((self.open.reads_at_standbys() > left, after.into_keys().collect()))
    }

    /// Runs it until it is counted at the primary for this reason.
    fn stays(
        &self,
        pair: &mut Pair,
        why: &str,
        what: &str,
        ask: &dyn Fn(&mut Vec<u8>),
    ) -> Result<(), String> {
        let limit = Instant::now() + STUCK;
        while Instant::now() < limit {
            let (left, reasons) = self.counted(&mut || self.both(pair, what, ask))?;
            match () {
                () if left => return Err(format!("{what}: it left")),
                () if reasons.contains(why) => return Ok(()),
                () if reasons.iter().any(|reason| !PASSING.contains(reason)) => {
                    return Err(format!("{what}: {reasons:?} instead of {why}"));
                }
                () => self.settles(pair)?,
            }
        }
        Err(format!("{what}: never {why}; {}", self.open.why_at_primary()))
    }

    /// Waits for what passes: a session is probed when it is idle, before what is understood.
    fn settles(&self, pair: &mut Pair) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let (left, reasons) = self.counted(&mut || self.query(pair, BYSTANDER))?;
            // A standby that stands still lags for as long as it does.
            let is_over = |reason: &&str| !PASSING.contains(reason) || *reason == BEHIND;
            if left || reasons.iter().any(is_over) {
                break;
            }
        }
        Ok(())
    }

    /// Runs it until a standby has answered it.
    fn leaves(&self, what: &str, run: &mut Run<'_>) -> Result<(), String> {
        let limit = Instant::now() + STUCK;
        while Instant::now() < limit {
            let (left, reasons) = self.counted(run)?;
            if left {
                return Ok(());
            }
            if reasons.iter().any(|reason| !PASSING.contains(reason)) {
                return Err(format!("{what}: {reasons:?}, and did not leave"));
            }
        }
        Err(format!("{what}: it never left; {}", self.open.why_at_primary()))
    }

    fn replay(&self, pauses: bool) {
        let (act, state) = if pauses { ("pause", "paused") } else { ("resume", "not paused") };
        let standby = self.servers.standby(0);
        standby.query("postgres", &format!("SELECT pg_wal_replay_{act}()")).unwrap();
        until(|| {
            let is = standby.query("postgres", "SELECT pg_get_wal_replay_pause_state()").unwrap();
            is[0][0].as_deref() == Some(state)
        });
    }

    fn fresh(&self, reader: &mut Pair, writer: &mut Pair, write: &[&str], read: &str) -> Result<(), String> {
        for text in [read, BYSTANDER] {
            self.leaves(text, &mut || self.query(reader, text))?;
        }
        self.replay(true);
        let seen = self.while_replay_is_paused(reader, writer, write, read);
        self.replay(false);
        seen?;
        self.leaves(read, &mut || self.query(reader, read))
    }

    fn while_replay_is_paused(
        &self,
        reader: &mut Pair,
        writer: &mut Pair,
        write: &[&str],
        read: &str,
    ) -> Result<(), String> {
        self.leaves(read, &mut || self.query(reader, read))?;
        let old = self.query(reader, read)?;
        for text in write {
            let told = self.query(writer, text)?;
            if told.contains('E') {
                return Err(format!("{text}: {told}"));
            }
        }
        let left = self.open.reads_at_standbys();
        // At once, and when its commit is known.
        let first = self.query(reader, read)?;
        if first == old {
            return Err(format!("{write:?} changed nothing for {read}: {old}"));
        }
        if self.open.reads_at_standbys() > left {
            return Err(format!("{read} left behind {write:?}"));
        }
        self.leaves(BYSTANDER, &mut || self.query(reader, BYSTANDER))?;
        let left = self.open.reads_at_standbys();
        self.query(reader, read)?;
        if self.open.reads_at_standbys() > left {
            return Err(format!("{read} left when the commit of {write:?} was known"));
        }
        Ok(())
    }

    fn still(&self, steps: &[Step], pair: &mut Pair, other: &mut Pair) -> Result<(), String> {
        self.replay(true);
        let ran = steps.iter().try_for_each(|step| self.step(step, pair, other));
        self.replay(false);
        ran
    }

    fn step(&self, step: &Step, pair: &mut Pair, other: &mut Pair) -> Result<(), String> {
        match step {
            Step::Runs(text) => self.query(pair, text).map(drop),
            Step::Other(text) => self.query(other, text).map(drop),
            Step::As(role) => {
                *pair = self.pair(role);
                Ok(())
            }
            Step::Stays(why, text) => self.stays(pair, why, text, &|out| out.query(text.as_bytes())),
            Step::StaysWith(why, text, value) => self.stays(pair, why, text, &|out| bound(out, text, value)),
            Step::Leaves(text) => self.leaves(text, &mut || self.query(pair, text)),
            Step::Parses(name, text) => {
                let parse = |out: &mut Vec<u8>| {
                    out.parse(name.as_bytes(), text.as_bytes(), &[]);
                    out.sync();
                };
                self.both(pair, text, &parse).map(drop)
            }
            Step::Named(name) => self.both(pair, name, &|out| named(out, name)).map(drop),
            Step::NamedLeaves(name) => {
                self.leaves(name, &mut || self.both(pair, name, &|out| named(out, name)))
            }
            Step::Fresh(write, read) => self.fresh(pair, other, write, read),
            Step::Still(steps) => self.still(steps, pair, other),
        }
    }

    /// Runs the steps of a scenario. `anywhere`: what stays otherwise may leave.
    fn run(&self, steps: &[Step], anywhere: bool) -> Result<(), String> {
        let (mut pair, mut other) = (self.pair("postgres"), self.pair("postgres"));
        // The DDL of the scenario before has come out: what is parsed now means what it will mean.
        self.leaves(BYSTANDER, &mut || self.query(&mut other, BYSTANDER))?;
        for step in steps {
            match *step {
                Step::Stays(_, text) if anywhere => self.step(&Step::Runs(text), &mut pair, &mut other)?,
                _ => self.step(step, &mut pair, &mut other)?,
            }
        }
        match self.open.cluster(|cluster| cluster.scheduler().writers()) {
            Writers::ThroughConsort => Ok(()),
            Writers::Anywhere => Err("a doubt covered too little".to_owned()),
        }
    }
}

impl Mode {
    /// The database in which sessions come to their connections so.
    fn database(self) -> &'static str {
        match self {
            Mode::Alone => "postgres",
            Mode::Sharing => "shared",
        }
    }
}

/// Clients of one of the databases share connections.
fn pools() -> Pools {
    let shares =
        Said { mode: Some(PoolMode::Transaction), size: Some(SHARED_CONNECTIONS), ..Said::default() };
    let databases = BTreeMap::from([(Mode::Sharing.database().to_owned(), shares)]);
    Pools { databases, ..Pools::default() }
}

fn new_database_at_the_one() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("lines_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    ONE.query(&format!("CREATE DATABASE {name}"));
    name
}

impl Line {
    /// Runs its scenarios.
    fn holds(&self) {
        let mut stage = Stage::start();
        let mut wrong = self.wrong(&stage);
        stage.turns_to(Mode::Sharing);
        wrong.extend(self.wrong(&stage));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Makes what the scenarios stand on, and runs them: what is wrong.
    fn wrong(&self, stage: &Stage) -> Vec<String> {
        let mut pair = stage.pair("postgres");
        for sql in [TABLES].iter().chain(self.objects) {
            // Roles are those of all databases.
            if stage.mode == Mode::Sharing && sql.starts_with("CREATE ROLE") {
                continue;
            }
            let told = stage.query(&mut pair, sql).unwrap();
            assert!(!told.contains('E'), "{sql}: {told}");
        }
        drop(pair);
        let mut wrong = Vec::new();
        for (name, steps) in self.scenarios {
            let shared = self.shared.iter().find(|(of, _)| of == name).map(|(_, shared)| *shared);
            let shared = shared.filter(|_| stage.mode == Mode::Sharing);
            if shared == Some(Shared::Not) {
                continue;
            }
            let ran = stage.run(steps, shared == Some(Shared::Anywhere));
            wrong.extend(ran.err().map(|why| format!("{:?}, {name}: {why}", stage.mode)));
        }
        wrong
    }
}

/// Parse, Bind with one value in text, Execute.
fn bound(out: &mut Vec<u8>, text: &str, value: &str) {
    let mut rest = vec![0, 0, 0, 1];
    rest.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
    rest.extend(value.as_bytes());
    rest.extend([0, 0]);
    out.parse(b"", text.as_bytes(), &[]);
    out.bind(b"", b"", &rest);
    out.execute(b"", 0);
    out.sync();
}

fn named(out: &mut Vec<u8>, name: &str) {
    out.bind_plain(name.as_bytes());
    out.execute(b"", 0);
    out.sync();
}

/// A server's answer up to ReadyForQuery, as far as two servers must say the same.
fn heard(raw: &mut Raw) -> String {
    let mut heard = String::new();
    loop {
        let message = raw.message().unwrap_or_else(|| panic!("the session goes on: {heard}"));
        let frame = Frame::new(&message).unwrap();
        let text = String::from_utf8_lossy(frame.body());
        match frame.tag() {
            b'D' => {
                let texts = wire::row_texts(&frame).map(|texts| {
                    let texts: Vec<_> = texts.iter().map(|text| text.as_deref().unwrap_or("NULL")).collect();
                    texts.join("|")
                });
                // In another encoding it is no text here.
                write!(heard, "({})", texts.unwrap_or_else(|_| format!("{:?}", frame.body()))).unwrap();
            }
            b'C' | b'd' => write!(heard, "<{}>", text.trim_end_matches(['\0', '\n']).to_lowercase()).unwrap(),
            tag @ (b'E' | b'N') => {
                let sqlstate = String::from_utf8_lossy(Complaint::read(&frame).sqlstate()).into_owned();
                write!(heard, "{}{sqlstate}", char::from(tag)).unwrap();
            }
            // These messages name the process.
            b'A' | b'S' => {}
            b'Z' => {
                heard.push(frame.body()[0].into());
                return heard;
            }
            tag => heard.push(char::from(tag).to_ascii_lowercase()),
        }
    }
}
