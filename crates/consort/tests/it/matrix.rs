//! The same statements, of every type and every class of DDL, through every design. Each is answered as by a
//! single server, and after each part all nodes have the data of that server. No replica has them by a new
//! copy, except for statements that are known to need one. `MATRIX_DESIGNS=7` runs them through all designs.

mod copies;

use std::io::Write;
use std::process::Stdio;

use copies::Copies;
use design::{Design, Reads};
use local_cluster::{Node, Options};
use testkit::Scratch;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use crate::fixture::{LIMIT, Serving, eventually};
use crate::load::{Client, Console, THROUGH, past, served};

/// The answer to what a design does not execute.
const REFUSED: &str = "error 0A000";

const STATEMENTS: &str = include_str!("matrix/statements.sql");

/// Behind them: what is defined more rarely. Most of it designs in which every server executes what writes refuse.
const DEFINITIONS: &str = include_str!("matrix/definitions.sql");

/// No read fails because a busy machine makes the replica late.
const PATIENT: &str = "replica_wait_timeout = \"60s\"";

/// Separator between a COPY and its client's rows.
const FROM_CLIENT: &str = " <- ";

/// The application's data at a node, a line each. Some data are left out: data that no replica is given (rows
/// that are not logged, contents of sequences and materialized views, names of objects as values, the order
/// of CLUSTER), publications, event triggers, and roles, which are the server's.
const HELD: &str = include_str!("matrix/held.sql");

/// Statements that run one after the other; then everything is compared.
struct Part {
    name: &'static str,
    statements: Vec<&'static str>,
}

impl Part {
    fn reads(&self) -> impl Iterator<Item = &'static str> {
        self.statements.iter().copied().filter(|statement| reads(statement))
    }
}

fn parts(statements: &'static str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for line in statements.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("-- "), parts.last_mut()) {
            (Some(name), _) => parts.push(Part { name, statements: Vec::new() }),
            (None, Some(part)) => part.statements.push(line),
            (None, None) => panic!("a statement before the first part: {line}"),
        }
    }
    parts
}

/// True if it only reads: it may be answered by a replica.
fn reads(statement: &str) -> bool {
    ["SELECT ", "VALUES ", "WITH RECURSIVE "].iter().any(|word| statement.starts_with(word))
        && !["grow()", "nextval(", "setval(", "INTO "].iter().any(|word| statement.contains(word))
}

/// All that comes back, as lines. A COPY that takes rows from its client is psql's, at the same address.
fn answer(url: &str, client: &mut Client, statement: &str) -> String {
    match statement.split_once(FROM_CLIENT) {
        Some((copy, rows)) => copied(url, copy, rows),
        None => answered(client, statement),
    }
}

/// Output of psql for a COPY.
fn copied(url: &str, copy: &str, rows: &str) -> String {
    let mut psql = testkit::program("psql");
    psql.args(["-X", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate", "-d", url, "-c", copy]);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = psql.spawn().expect("psql runs");
    let rows = rows.replace("\\t", "\t").replace("\\n", "\n");
    // The command reads nothing if it is refused.
    let _ = child.stdin.take().expect("a pipe").write_all(rows.as_bytes());
    let done = child.wait_with_output().expect("psql ends");
    let (said, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    match error.trim().strip_prefix("ERROR:") {
        Some(sqlstate) => format!("error {}", sqlstate.trim()),
        None => format!("{}{}", said.trim(), error.trim()),
    }
}

fn answered(client: &mut Client, statement: &str) -> String {
    let messages = match client.messages(statement) {
        Ok(messages) => messages,
        Err(trouble) => return format!("error {}", trouble.sqlstate.unwrap_or(trouble.text)),
    };
    let line = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let values: Vec<_> = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL")).collect();
            values.join("|")
        }
        SimpleQueryMessage::RowDescription(columns) => {
            columns.iter().map(|column| column.name()).collect::<Vec<_>>().join("|")
        }
        SimpleQueryMessage::CommandComplete(rows) => format!("done {rows}"),
        _ => "something else".to_owned(),
    };
    messages.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// An answer whose order no statement asks for: servers that execute for themselves may have rows lie otherwise.
fn in_any_order<'a>(statement: &str, answer: &'a str) -> Vec<&'a str> {
    let mut lines: Vec<&str> = answer.lines().collect();
    if !statement.contains("ORDER BY") {
        lines.sort_unstable();
    }
    lines
}

/// Answers to the reads of a part in a session that has done nothing else.
fn again(url: &str, part: &Part) -> Vec<String> {
    let mut client = Client::connect(url).expect("a log-in");
    part.reads().map(|statement| answered(&mut client, statement)).collect()
}

fn held(node: &Node) -> Vec<String> {
    let rows = node.query("postgres", HELD).unwrap_or_else(|error| panic!("{}: {error}", node.name()));
    rows.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect()
}

/// A single server's answers to a part, and its data afterwards.
struct Expected {
    /// To each statement.
    answers: Vec<String>,
    /// Answers to the reads, in a session of their own after the part.
    again: Vec<String>,
    held: Vec<String>,
}

fn expected(parts: &[Part]) -> Vec<Expected> {
    let server = Scratch::start(0);
    let node = server.primary();
    let url = past(node);
    let mut client = Client::connect(&url).expect("a log-in");
    let part = |part: &Part| Expected {
        answers: part.statements.iter().map(|statement| answer(&url, &mut client, statement)).collect(),
        again: again(&url, part),
        held: held(node),
    };
    parts.iter().map(part).collect()
}

/// Lines that are here and not there.
fn lacking<'a>(here: &'a [String], there: &[String]) -> Vec<&'a String> {
    here.iter().filter(|line| !there.contains(line)).collect()
}

fn compare(of: &str, node: &Node, expected: &[String]) -> Vec<String> {
    let held = held(node);
    let missing = lacking(expected, &held).into_iter().map(|line| format!("lacks {line}"));
    let more = lacking(&held, expected).into_iter().map(|line| format!("holds {line}"));
    missing.chain(more).map(|line| format!("{of}: {} {line}", node.name())).collect()
}

/// Runs everything through one design. Returns the differences from the single server.
fn run(design: &Design, parts: &[Part], expected: &[Expected]) -> Vec<String> {
    let standbys = usize::from(!design.needs_replicas());
    let servers = Scratch::with(Options { standbys, replicas: 1, ..Scratch::options() });
    let lines = format!("design = \"{}\"\nstatement_rows = 1\n{PATIENT}\n{THROUGH}", design.name);
    let serving = Serving::over(servers, &lines);
    let url = serving.url("postgres", "postgres");
    let mut client = Client::connect(&url).expect("a log-in");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let (mut wrong, mut copies) = (Vec::new(), Copies::default());
    client.rows("SELECT 1").expect("it answers");
    copies.wait_until_fed(&mut console);
    for (part, expected) in parts.iter().zip(expected) {
        for (&statement, alone) in part.statements.iter().zip(&expected.answers) {
            let answered = answer(&url, &mut client, statement);
            if answered != *alone && !(design.reads == Reads::AnyAge && reads(statement)) {
                wrong.push(format!("{statement}: {answered:?}, and alone {alone:?}"));
            }
            copies.behind(statement, &serving.servers, &mut client, &mut console);
        }
        copies.wait_until_shown(&mut client, serving.servers.replica(0), &mut console);
        serving.servers.catch_up(LIMIT);
        wrong.extend(verified(&mut console));
        for ((statement, answered), alone) in part.reads().zip(again(&url, part)).zip(&expected.again) {
            if answered != *alone {
                wrong.push(format!("{statement}, again: {answered:?}, and alone {alone:?}"));
            }
        }
        for node in serving.servers.cluster().nodes() {
            wrong.extend(compare(part.name, node, &expected.held));
        }
    }
    copies.wait_until_fed(&mut console);
    wrong.extend(copies.without_reason());
    if served(&mut console, "replica1") < 20 {
        wrong.push("the replica has served next to nothing".to_owned());
    }
    wrong.iter().map(|line| format!("{}: {line}", design.name)).collect()
}

/// The same through a design that refuses statements that servers might execute differently: the single
/// server does not get refused ones either. Returns the differences, and for each part the number of
/// statements that were not refused.
fn run_what_is_not_refused(design: &Design, parts: &[Part]) -> (Vec<String>, Vec<usize>) {
    let alone = Scratch::start(0);
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    // The tables of a block are declared, if the design demands it.
    let lines = format!("design = \"{}\"\n{PATIENT}\nattach_on_first_use = true", design.name);
    let serving = Serving::over(servers, &lines);
    let (url, url_alone) = (serving.url("postgres", "postgres"), past(alone.primary()));
    let mut client = Client::connect(&url).expect("a log-in");
    let mut client_alone = Client::connect(&url_alone).expect("a log-in");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    client.rows("SET consort.tables_written = '*'").expect("all tables are declared");
    let (mut wrong, mut done, mut copies) = (Vec::new(), Vec::new(), Copies::default());
    for part in parts {
        copies.wait_until_executing(&mut console);
        let mut done_of_part = 0;
        for statement in &part.statements {
            let answer_here = answer(&url, &mut client, statement);
            if answer_here == REFUSED {
                // Its block has failed.
                answered(&mut client_alone, "SELECT 1 / 0");
                continue;
            }
            done_of_part += 1;
            let said_alone = answer(&url_alone, &mut client_alone, statement);
            if in_any_order(statement, &answer_here) != in_any_order(statement, &said_alone) {
                wrong.push(format!("{statement}: {answer_here:?}, and alone {said_alone:?}"));
            }
        }
        done.push(done_of_part);
        for ((statement, answered), alone) in part.reads().zip(again(&url, part)).zip(again(&url_alone, part))
        {
            if in_any_order(statement, &answered) != in_any_order(statement, &alone) {
                wrong.push(format!("{statement}, again: {answered:?}, and alone {alone:?}"));
            }
        }
        wrong.extend(verified(&mut console));
        let expected = held(alone.primary());
        for node in serving.servers.cluster().nodes() {
            wrong.extend(compare(part.name, node, &expected));
        }
    }
    copies.wait_until_executing(&mut console);
    wrong.extend(copies.all());
    (wrong.iter().map(|line| format!("{}: {line}", design.name)).collect(), done)
}

/// Differences from the primary, as Consort itself finds them. A node that it loses for a moment is compared
/// when it is back.
fn verified(console: &mut Console) -> Vec<String> {
    let line =
        |row: &SimpleQueryRow| (0..row.len()).filter_map(|at| row.get(at)).collect::<Vec<_>>().join("|");
    let mut lines: Vec<String> = Vec::new();
    eventually("a comparison with the replica", || {
        lines = console.rows("VERIFY postgres").iter().map(line).collect();
        !lines.iter().any(|line| line.contains("|unreached|"))
    });
    lines.retain(|line| line.contains("|differs|"));
    lines
}

/// The first designs of a kind: one, or as many as `MATRIX_DESIGNS` says.
fn designs(of_kind: impl Fn(&Design) -> bool) -> impl Iterator<Item = Design> {
    let wished = std::env::var("MATRIX_DESIGNS").ok().and_then(|count| count.parse().ok());
    design::PRIMARY_COPY.into_iter().filter(of_kind).take(wished.unwrap_or(1))
}

#[test]
fn every_design_answers_and_holds_what_a_single_server_does() {
    let parts: Vec<Part> = [STATEMENTS, DEFINITIONS].into_iter().flat_map(parts).collect();
    let count: usize = parts.iter().map(|part| part.statements.len()).sum();
    assert!(count >= 600, "{count} statements");
    let expected = expected(&parts);
    let wrong: Vec<String> =
        designs(|design| !design.orders_first()).flat_map(|design| run(&design, &parts, &expected)).collect();
    assert!(wrong.is_empty(), "{} are otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn designs_that_order_first_answer_and_hold_what_a_single_server_does_or_refuse() {
    let (mut parts, definitions) = (parts(STATEMENTS), parts(DEFINITIONS));
    let usual = parts.len();
    let count: usize = parts.iter().map(|part| part.statements.len()).sum();
    parts.extend(definitions);
    for design in designs(Design::orders_first) {
        let (wrong, done) = run_what_is_not_refused(&design, &parts);
        assert!(wrong.is_empty(), "{} are otherwise:\n{}", wrong.len(), wrong.join("\n"));
        let done: usize = done.iter().take(usual).sum();
        assert!(done * 10 >= count * 9, "{} has refused all but {done} of {count}", design.name);
    }
}
