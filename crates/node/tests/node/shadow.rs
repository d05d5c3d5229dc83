//! Shadow mode: what standbys answer is what the primary says, for every statement of the analysis' corpus that may
//! leave; and an answer that is not is reported.

use crate::messages::{parse_named, run_named};
use crate::pooled::shared;
use crate::stage::{LIMIT, Open, Raw, until};
use cluster::Setup;
use cluster::shadow::Report;
use config::pooling::Pools;
use local_cluster::Options;
use scheduler::Writers;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testkit::Scratch;
use wire::{Asks, Frame, Target};

/// Compared answers of a standby, at least, when all of the corpus is read.
const LEAST: u64 = 1_000;
/// Compared answers of a copy, at least: rows that it lacks keep more reads at the primary.
const LEAST_OF_A_COPY: u64 = 500;

/// Parts of statements of the corpus whose answers may differ between two servers, and why.
const REVIEWED: [(&str, &str); 1] = [(
    "SELECT to_tsquery('english'::regconfig, 'a')",
    "a notice that planning gives: a standby plans a statement once for as long as it knows it",
)];

/// A report in a file of its own, which goes with it.
struct ReportFile(PathBuf);

impl ReportFile {
    fn new() -> ReportFile {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        ReportFile(std::env::temp_dir().join(format!("consort-shadow-{}-{number}", std::process::id())))
    }

    /// Switches shadow mode on.
    fn on(&self) -> impl FnOnce(&mut Setup) + Send + use<> {
        let path = self.0.clone();
        move |setup| {
            setup.shadow = Some(Rc::new(Report::new(&path).unwrap()));
            setup.held_answer_bytes = usize::MAX;
            setup.proof_timeout = Duration::from_millis(300);
            setup.harmless = vec!["public.declared".to_owned(), "citext".to_owned()];
        }
    }

    /// The lines of this verdict.
    fn lines(&self, verdict: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        let of = |line: &&str| line.split('\t').next() == Some(verdict);
        text.lines().filter(of).map(str::to_owned).collect()
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn verdicts(open: &Open) -> BTreeMap<&'static str, u64> {
    open.cluster(|cluster| cluster.metrics().shadowed.get())
}

fn query(raw: &mut Raw, text: &str) -> String {
    raw.ask(|out| out.query(text.as_bytes()));
    raw.until_ready()
}

#[test]
fn a_stale_answer_is_reported() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE items (id int PRIMARY KEY, name text)");
    servers.query("INSERT INTO items VALUES (1, 'old'), (2, 'old')");
    servers.catch_up(LIMIT);
    let report = ReportFile::new();
    let open = Open::before(&servers, Writers::Anywhere, report.on());
    let mut raw = Raw::ready(&open, "postgres");
    query(&mut raw, "SET consort.consistency = 'weak'");
    let read = "SELECT id,\tname FROM items ORDER BY id";
    until(|| {
        query(&mut raw, read);
        verdicts(&open).get("same").is_some_and(|count| *count > 0)
    });
    assert_eq!(verdicts(&open).len(), 1, "both say the same as long as nothing was written");
    let standby = servers.standby(0);
    standby.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
    until(|| {
        let state = standby.query("postgres", "SELECT pg_get_wal_replay_pause_state()").unwrap();
        state[0][0].as_deref() == Some("paused")
    });
    query(&mut raw, "UPDATE items SET name = 'new' WHERE id = 2");
    query(&mut raw, read);
    query(&mut raw, "SELECT name FROM items WHERE id = 1");
    standby.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
    assert_eq!(verdicts(&open)["different"], 1);
    let expected =
        "different\tpostgres\tstandby unproven\t\tSELECT id,\\tname FROM items ORDER BY id\t2 | new\t2 | old";
    assert_eq!(report.lines("different"), [expected]);
}

/// The primary's comparison runs the session's own statement, even if the connection has another under its
/// name.
#[test]
fn named_statements_are_those_of_their_session() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE items (id int PRIMARY KEY, name text)");
    servers.query("INSERT INTO items VALUES (1, 'one'), (2, 'two')");
    servers.catch_up(LIMIT);
    let report = ReportFile::new();
    let on = report.on();
    let open = Open::before(&servers, Writers::Anywhere, |setup| {
        on(setup);
        setup.pools = Pools::of_all(shared(1));
    });
    let mut clients = [Raw::ready(&open, "postgres"), Raw::ready(&open, "postgres")];
    for (raw, id) in clients.iter_mut().zip(1..) {
        assert_eq!(parse_named(raw, b"S", &format!("SELECT name FROM items WHERE id = {id}")), "");
    }
    until(|| {
        for (raw, name) in clients.iter_mut().zip(["one", "two"]) {
            assert_eq!(run_named(raw, b"S"), [name]);
        }
        verdicts(&open).get("same").is_some_and(|count| *count >= 4)
    });
    assert_eq!(verdicts(&open).len(), 1, "{:?}", report.lines("different"));
}

/// A statement of the corpus.
#[derive(Clone, Debug)]
enum Line {
    /// May be offloaded.
    Reads(String),
    /// Changes data or state.
    Writes(String),
    /// Prepares the session for the next statements.
    Sets(String),
}

impl Line {
    /// The statement, if it changes something.
    fn written(&self) -> Option<&str> {
        match self {
            Line::Writes(text) => Some(text),
            Line::Reads(_) | Line::Sets(_) => None,
        }
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../statement-analysis/corpus")
}

/// The files of the corpus, as far as they read or write: what is said there of a statement decides.
fn files() -> Vec<Vec<Line>> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(corpus()).unwrap().map(|file| file.unwrap().path()).collect();
    names.retain(|name| name.extension().is_some_and(|extension| extension == "txt"));
    names.sort();
    names.iter().map(|name| lines(&std::fs::read_to_string(name).unwrap())).collect()
}

fn lines(text: &str) -> Vec<Line> {
    let (mut found, mut statement) = (Vec::new(), String::new());
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("=>", answer)) => {
                let statement = std::mem::take(&mut statement).trim().to_owned();
                if answer.starts_with("read") && answer.contains("| may leave") {
                    found.push(Line::Reads(statement));
                } else if answer.starts_with("write") && !answer.contains("dirties") {
                    found.push(Line::Writes(statement));
                }
            }
            _ if line.starts_with('@') => found.push(Line::Sets(line[1..].to_owned())),
            _ if line.starts_with('#') => {}
            _ => statement += &(line.to_owned() + "\n"),
        }
    }
    found
}

/// The types of a statement's parameters, once it is prepared under this name; `None` if it cannot be.
fn prepare(raw: &mut Raw, name: &[u8], text: &str) -> Option<Vec<u32>> {
    raw.ask(|out| {
        out.close(Target::Statement, name);
        out.parse(name, text.as_bytes(), &[]);
        out.describe(Target::Statement, name);
        out.sync();
    });
    let mut types = None;
    loop {
        let message = raw.message().unwrap();
        let frame = Frame::new(&message).unwrap();
        match frame.tag() {
            b't' => {
                let oids = frame.body()[2..].chunks_exact(4);
                types = Some(oids.map(|oid| u32::from_be_bytes(oid.try_into().unwrap())).collect());
            }
            b'Z' => return types,
            _ => {}
        }
    }
}

/// The bytes after the statement's name in a Bind: a value of each type, in text.
fn values(types: &[u32]) -> Vec<u8> {
    let count = u16::try_from(types.len()).unwrap().to_be_bytes();
    let mut bytes = vec![0, 0];
    bytes.extend(count);
    for of in types {
        let value = match of {
            16 => "true",
            20 | 21 | 23 => "3",
            25 | 1042 | 1043 | 19 => "abc",
            700 | 701 | 1700 => "1.5",
            1082 => "2024-01-01",
            1114 | 1184 => "2024-01-01 00:00:00",
            2950 => "1b4e28ba-2fa1-11d2-883f-0016d3cca421",
            114 | 3802 => r#"{"a": "b"}"#,
            1005 | 1007 | 1016 => "{1,2,3}",
            1009 | 1015 => "{a,abc}",
            17 => "\\xdeadbeef",
            _ => {
                bytes.extend((-1_i32).to_be_bytes());
                continue;
            }
        };
        bytes.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        bytes.extend(value.as_bytes());
    }
    bytes.extend([0, 0]);
    bytes
}

/// Reads once in each protocol.
fn read(raw: &mut Raw, text: &str) {
    let Some(types) = prepare(raw, b"theirs", text) else { return };
    let values = values(&types);
    if types.is_empty() {
        query(raw, text);
    }
    for (name, parses) in [(&b"theirs"[..], false), (b"", true), (b"", false)] {
        raw.ask(|out| {
            if parses {
                out.parse(b"", text.as_bytes(), &[]);
            }
            out.bind(b"", name, &values);
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
            out.sync();
        });
        raw.until_ready();
    }
}

/// The reads of the corpus that a test takes: each whose number leaves this rest.
#[derive(Clone, Copy)]
struct Share {
    of: u64,
    rest: u64,
}

impl Share {
    /// All reads.
    const WHOLE: Share = Share { of: 1, rest: 0 };

    /// Every third read, from this one on; all of them if `CORPUS_SHARE` is 1.
    fn third(rest: u64) -> Share {
        let of = std::env::var("CORPUS_SHARE").map_or(3, |share| share.parse().unwrap());
        Share { of, rest: rest % of }
    }

    fn takes(self, number: u64) -> bool {
        number % self.of == self.rest
    }
}

#[test]
fn the_corpus_says_the_same_with_writers_through_consort() {
    the_corpus_says_the_same(Writers::ThroughConsort, Scratch::start(1), false, Share::WHOLE);
}

#[test]
fn the_corpus_says_the_same_with_writers_anywhere() {
    the_corpus_says_the_same(Writers::Anywhere, Scratch::start(1), false, Share::third(1));
}

#[test]
fn the_corpus_says_the_same_at_a_copy() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    the_corpus_says_the_same(Writers::ThroughConsort, servers, true, Share::third(2));
}

/// Runs this share of the corpus. Before each read a write commits.
fn the_corpus_says_the_same(writers: Writers, servers: Scratch, at_copy: bool, share: Share) {
    let text = |name: &str| std::fs::read_to_string(corpus().join(name)).unwrap();
    let report = ReportFile::new();
    let open = Open::before(&servers, writers, report.on());
    let (mut reader, mut writer) = (Raw::ready(&open, "postgres"), Raw::ready(&open, "postgres"));
    // The database is attached by now: Consort's own publication is there.
    let schema = text("schema.sql");
    let publishes = |line: &&str| line.starts_with("CREATE PUBLICATION consort ");
    assert_eq!(schema.lines().filter(publishes).count(), 1);
    let schema: Vec<&str> = schema.lines().filter(|line| !publishes(line)).collect();
    assert_eq!(query(&mut writer, &schema.join("\n")).matches('E').count(), 0);
    // Rows that break their own foreign key (a rule kept them) cannot be copied: the constraint is checked at the copy.
    let data = text("data.sql");
    let data: Vec<&str> = data.lines().filter(|line| !line.contains(" ruled_children ")).collect();
    query(&mut writer, &data.join("\n"));
    let why = || open.cluster(|cluster| cluster.metrics().statements_at_primary.get());
    let limit = Instant::now() + LIMIT;
    while !verdicts(&open).contains_key("same") {
        query(&mut reader, "SELECT count(*) FROM customers");
        assert!(Instant::now() < limit, "{:?}; {}", verdicts(&open), open.why_at_primary());
    }
    let files = files();
    let mut writes = files.iter().flatten().filter_map(Line::written).cycle();
    let mut reads = 0..;
    for file in &files {
        query(&mut reader, "DISCARD ALL");
        for line in file {
            match line {
                Line::Sets(text) => drop(query(&mut reader, text)),
                Line::Reads(_) if !reads.next().is_some_and(|number| share.takes(number)) => {}
                Line::Reads(text) => {
                    query(&mut writer, writes.next().unwrap());
                    read(&mut reader, text);
                }
                Line::Writes(_) => {}
            }
        }
    }
    assert_eq!(open.cluster(|cluster| cluster.scheduler().writers()), writers, "a doubt covered too little");
    // Rows lie in another order at a copy: where the answer depends on it, it is another one that a server may give.
    let by_chance =
        |line: &String| at_copy && line.split('\t').nth(3).is_some_and(|chance| !chance.is_empty());
    let is_reviewed = |line: &String| by_chance(line) || REVIEWED.iter().any(|(part, _)| line.contains(part));
    let unreviewed: Vec<String> =
        report.lines("different").into_iter().filter(|line| !is_reviewed(line)).collect();
    let verdicts = verdicts(&open);
    let why = why();
    println!("{verdicts:?}; at the primary: {why:?}");
    assert!(unreviewed.is_empty(), "{}", unreviewed.join("\n"));
    assert!(
        verdicts.values().sum::<u64>() >= if at_copy { LEAST_OF_A_COPY } else { LEAST } / share.of,
        "{verdicts:?}; at the primary: {why:?}"
    );
}
