//! The messages of a session one by one: what fails and what is passed over, the unnamed statement, long answers, notices.

use crate::session::{answer, query, until_it_leaves};
use crate::stage::{LIMIT, Open, Raw, SERVERS, apart, database, database_at, until};
use cluster::routes::Went;
use scheduler::Writers;
use std::sync::LazyLock;
use std::time::Instant;
use testkit::Scratch;
use wire::{Asks, Target};

/// The bytes after the statement's name in a Bind without parameters: all results in text.
const NO_PARAMETERS: [u8; 6] = [0; 6];

pub(crate) fn run_named(raw: &mut Raw, name: &[u8]) -> Vec<String> {
    raw.ask(|out| {
        out.bind(b"", name, &NO_PARAMETERS);
        out.execute(b"", 0);
        out.sync();
    });
    answer(raw).0
}

/// Parses a statement under a name; the code of the error, if that is the answer.
pub(crate) fn parse_named(raw: &mut Raw, name: &[u8], text: &str) -> String {
    raw.ask(|out| {
        out.parse(name, text.as_bytes(), &[]);
        out.sync();
    });
    answer(raw).0.concat()
}

/// Parses and runs a text as the unnamed statement until a standby has answered.
fn unnamed_that_leaves(open: &Open, raw: &mut Raw, text: &str) -> Vec<String> {
    let limit = Instant::now() + LIMIT;
    while Instant::now() < limit {
        let before = open.reads_at_standbys();
        raw.ask(|out| out.parse(b"", text.as_bytes(), &[]));
        let values = run_named(raw, b"");
        if open.reads_at_standbys() > before {
            return values;
        }
    }
    panic!("{text} never left the primary: {}", open.why_at_primary());
}

#[test]
fn the_unnamed_statement_that_a_standby_parsed_never_means_something_else() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE dated (id int PRIMARY KEY, v text); INSERT INTO dated VALUES (1, 'old')");
    servers.query("CREATE SCHEMA s");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = Raw::ready(&open, "postgres");
    query(&mut raw, "SET search_path = s, public; SET datestyle = 'ISO, DMY'");
    let dated = "SELECT ('01/02/2024'::date + 0)::text FROM dated WHERE id = 1";
    assert_eq!(unnamed_that_leaves(&open, &mut raw, dated), ["2024-02-01"]);
    raw.ask(|out| out.parse(b"turn", b"SET datestyle = 'ISO, MDY'", &[]));
    run_named(&mut raw, b"turn");
    assert_eq!(run_named(&mut raw, b""), ["0A000"], "nobody parsed it at the primary before that");
    query(&mut raw, "SET datestyle = 'ISO, DMY'");
    // Another table comes to stand before the one that it was parsed for.
    assert_eq!(unnamed_that_leaves(&open, &mut raw, "SELECT v FROM dated WHERE id = 1"), ["old"]);
    servers.query("CREATE TABLE s.dated AS SELECT 1 AS id, 'hides it'::text AS v");
    let mut other = Raw::ready(&open, "postgres");
    query(&mut other, "SET search_path = s, public");
    assert_eq!(until_it_leaves(&open, &mut other, "SELECT v FROM dated WHERE id = 1"), ["hides it"]);
    let said = run_named(&mut raw, b"");
    assert!(said == ["old"] || said == ["0A000"], "{said:?}");
}

#[test]
fn what_a_bind_alone_runs_counts() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE w AS SELECT 'old'::text AS v; CREATE SCHEMA s");
    servers.query("CREATE TABLE s.w AS SELECT 'new'::text AS v");
    let body = "BEGIN PERFORM set_config('search_path', 's', false); RETURN value = value; END";
    servers.query(&format!(
        "CREATE FUNCTION turns(value int) RETURNS bool LANGUAGE plpgsql AS $${body}$$; \
         CREATE DOMAIN turning AS int CHECK (public.turns(VALUE))"
    ));
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = Raw::ready(&open, "postgres");
    for _ in 0..3 {
        query(&mut raw, "SET search_path = public");
        assert_eq!(until_it_leaves(&open, &mut raw, "SELECT v FROM w"), ["old"]);
        raw.ask(|out| {
            out.parse(b"", b"SELECT $1::public.turning", &[]);
            out.bind(b"", b"", &[&[0, 0, 0, 1, 0, 0, 0, 1][..], b"1", &[0, 0]].concat());
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec![], "12Z".to_owned()));
        for _ in 0..20 {
            assert_eq!(query(&mut raw, "SELECT v FROM w"), ["new"]);
        }
    }
}

#[test]
fn an_empty_statement_in_a_batch_counts_as_one() {
    database("empty_batch");
    SERVERS.query_in(
        "empty_batch",
        "CREATE SCHEMA s; CREATE TABLE s.items AS SELECT 7 AS id, 'new'::text AS name",
    );
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "empty_batch");
    let read = "SELECT name FROM items WHERE id = 7";
    for empty in [&b""[..], b"-- ping", b";"] {
        query(&mut raw, "SET search_path = public");
        assert_eq!(until_it_leaves(&open, &mut raw, read), ["item 7"]);
        raw.ask(|out| {
            for text in [empty, b"SET search_path = s"] {
                out.parse(b"", text, &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
            }
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "12I12CZ");
        for _ in 0..20 {
            assert_eq!(query(&mut raw, read), ["new"]);
        }
    }
}

/// The literals of a statement are those that it has where it runs, whatever a backslash meant in between: nothing else is
/// hidden of it, and nothing else is taken for its values.
#[test]
fn what_a_backslash_means_is_read_anew() {
    database("backslashes");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "backslashes");
    parse_named(&mut raw, b"read", r"SELECT name FROM items WHERE name <> '\' AND id = 8 --'");
    query(&mut raw, "SET standard_conforming_strings = off");
    assert_eq!(run_named(&mut raw, b"read"), ["item 8"]);
    query(&mut raw, "SET standard_conforming_strings = on");
    named_gives(&open, &mut raw, b"read", "item 8");
    let shown = open.cluster(|cluster| {
        let rows = cluster.routes().rows();
        rows.into_iter().find(|row| matches!(row.went, Went::Standby(..))).map(|row| row.statement)
    });
    assert_eq!(shown.as_deref(), Some("SELECT name FROM items WHERE name <> ? AND id = ? --'"));
}

/// The server passes over it, as it passes over all that comes before the Sync.
#[test]
fn a_query_behind_a_message_that_failed_is_not_answered() {
    database("passed_over");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "passed_over");
    let read = "SELECT name FROM items WHERE id = 7";
    unnamed_that_leaves(&open, &mut raw, read);
    for _ in 0..2 {
        raw.ask(|out| {
            out.parse(b"", b"selec", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.query(b"SELECT 1");
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["42601".to_owned()], "EZ".to_owned()));
        raw.ask(|out| {
            out.parse(b"", b"selec", &[]);
            Asks::flush(out);
        });
        assert_eq!(raw.message().unwrap()[0], b'E');
        raw.ask(|out| {
            out.query(b"SELECT 1");
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "Z");
        // Also the messages after the Query, up to the Sync.
        raw.ask(|out| {
            out.bind(b"", b"nobody", &[0; 6]);
            out.query(b"SELECT 1");
        });
        assert_eq!(raw.message().unwrap()[0], b'E');
        raw.ask(|out| {
            out.query(b"SELECT 1");
            out.parse(b"", read.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "Z");
        // A statement that did not fail is answered, and so is the Query after it, and the Sync.
        raw.ask(|out| {
            out.parse(b"", b"SELECT 2", &[]);
            out.bind_plain(b"");
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
            out.query(b"SELECT 1 / 0");
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "12TDCEZ");
        assert_eq!(answer(&mut raw).1, "Z");
    }
}

#[test]
fn what_is_passed_over_leaves_the_unnamed_statement_as_it_was() {
    // Servers of its own: where another test changes a role, names may mean something else to a statement that a standby parsed.
    let servers = Scratch::start(1);
    database_at(&servers, "unnamed_kept");
    servers.query_in("unnamed_kept", "CREATE TABLE w (v int)");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = Raw::ready(&open, "unnamed_kept");
    let long = format!("SELECT '{}'", "x".repeat(300_000));
    type Middle<'a> = &'a dyn Fn(&mut Vec<u8>);
    let middles: [Middle<'_>; 4] = [
        &|out| {
            out.bind(b"", b"nobody", &[0; 6]);
            out.parse(b"", b"SELECT 2", &[]);
        },
        &|out| {
            out.bind(b"", b"nobody", &[0; 6]);
            out.query(b"SELECT 2");
        },
        &|out| {
            out.bind(b"", b"nobody", &[0; 6]);
            out.bind_plain(b"");
            out.parse(b"", b"SELECT 2", &[]);
        },
        &|out| out.parse(b"long", long.as_bytes(), &[]),
    ];
    for (n, middle) in (1..).zip(middles) {
        raw.ask(|out| out.parse(b"", b"INSERT INTO w VALUES (1) RETURNING v", &[]));
        assert_eq!(run_named(&mut raw, b""), ["1"]);
        assert_eq!(unnamed_that_leaves(&open, &mut raw, "SELECT name FROM items WHERE id = 7"), ["item 7"]);
        raw.ask(|out| {
            middle(out);
            out.sync();
        });
        answer(&mut raw);
        assert_eq!(run_named(&mut raw, b""), ["item 7"]);
        assert_eq!(query(&mut raw, "SELECT count(*) FROM w"), [n.to_string()]);
    }
    // The refused statement has replaced it all the same.
    raw.ask(|out| out.parse(b"", b"INSERT INTO w VALUES (1) RETURNING v", &[]));
    assert_eq!(run_named(&mut raw, b""), ["1"]);
    raw.ask(|out| {
        for text in ["SET consort.consistency = 'weak'", "SELECT 1"] {
            out.parse(b"", text.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
        }
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["0A000"]);
    assert_eq!(run_named(&mut raw, b""), ["26000"]);
    assert_eq!(query(&mut raw, "SELECT count(*) FROM w"), ["5"]);
}

/// A description of many columns, and errors that quote a long value.
#[test]
fn long_answers_besides_rows_are_understood() {
    database("long_answers");
    let columns: Vec<String> = (0..300).map(|n| format!("column_number_{n:03} int")).collect();
    SERVERS.query_in("long_answers", &format!("CREATE TABLE wide ({})", columns.join(", ")));
    SERVERS.query_in(
        "long_answers",
        "CREATE SCHEMA s; CREATE TABLE s.items AS SELECT 7 AS id, 's'::text AS name",
    );
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "long_answers");
    let wide = "SELECT * FROM wide";
    raw.ask(|out| {
        for name in [&b"a"[..], b"b"] {
            out.parse(name, wide.as_bytes(), &[]);
            out.describe(Target::Statement, name);
        }
        out.sync();
    });
    assert_eq!(answer(&mut raw).1, "1tT1tTZ");
    raw.ask(|out| {
        for _ in 0..2 {
            out.parse(b"", wide.as_bytes(), &[]);
            out.bind_plain(b"");
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
        }
        Asks::close(out, Target::Statement, b"a");
        out.sync();
    });
    assert_eq!(answer(&mut raw).1, "12TC12TC3Z");
    assert_eq!(until_it_leaves(&open, &mut raw, wide), Vec::<String>::new());
    let read = "SELECT name FROM items WHERE id = 7";
    for length in [10_000, 2_000_000] {
        let failing = format!("SELECT repeat('x', {length})::int FROM items");
        assert_eq!(until_it_leaves(&open, &mut raw, read), ["item 7"]);
        raw.ask(|out| {
            for text in ["SET search_path = s", &failing] {
                out.parse(b"", text.as_bytes(), &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
            }
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "12C1EZ");
        for _ in 0..20 {
            assert_eq!(query(&mut raw, read), ["item 7"], "the SET was taken back");
        }
        raw.ask(|out| {
            out.parse(b"", failing.as_bytes(), &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.query(b"SELECT 1");
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "1EZ");
        assert_eq!(query(&mut raw, &failing), ["22P02"]);
    }
}

#[test]
fn each_parse_gives_its_notices() {
    database("warned_of");
    let open = Open::serving(Writers::Anywhere);
    let mut raw = Raw::ready(&open, "warned_of");
    let notices = |tags: &str| tags.matches('N').count();
    let long = format!("SELECT name AS {} FROM items WHERE id = 7", "a".repeat(70));
    let escaped = "SELECT name FROM items WHERE id = length('\\\\a') + 5";
    for (escapes, text, same) in [
        (false, &*long, "SELECT name FROM items WHERE id = 7"),
        (true, escaped, "SELECT name FROM items WHERE id = length('ab') + 5"),
    ] {
        if escapes {
            query(&mut raw, "SET standard_conforming_strings = off");
        }
        until_it_leaves(&open, &mut raw, same);
        for _ in 0..2 {
            for _ in 0..12 {
                raw.ask(|out| {
                    out.parse(b"", text.as_bytes(), &[]);
                    out.bind_plain(b"");
                    out.execute(b"", 0);
                    out.sync();
                });
                assert_eq!(answer(&mut raw), (vec!["item 7".to_owned()], "N12DCZ".to_owned()));
                raw.ask(|out| out.query(text.as_bytes()));
                assert_eq!(notices(&answer(&mut raw).1), 1, "{text}");
            }
            // The statement is analysed by now.
            until_it_leaves(&open, &mut raw, same);
        }
        raw.ask(|out| {
            out.parse(b"n", text.as_bytes(), &[]);
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "N1Z");
        for _ in 0..12 {
            raw.ask(|out| {
                out.bind_plain(b"n");
                out.execute(b"", 0);
                out.sync();
            });
            assert_eq!(answer(&mut raw).1, "2DCZ");
        }
        query(&mut raw, "DEALLOCATE n");
    }
}

#[test]
fn the_unnamed_statement_is_no_business_of_what_comes_behind_it() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE one (v int); CREATE TABLE other (v int); INSERT INTO other VALUES (7)");
    let open = Open::before(&servers, Writers::Anywhere, |_| {});
    let mut raw = Raw::ready(&open, "postgres");
    let run = |raw: &mut Raw, text: &[u8]| {
        raw.ask(|out| out.parse(b"named", text, &[]));
        let values = run_named(raw, b"named");
        query(raw, "DEALLOCATE named");
        values
    };
    let read = "SELECT count(*)::text FROM one";
    assert_eq!(unnamed_that_leaves(&open, &mut raw, read), ["0"]);
    assert_eq!(run(&mut raw, b"BEGIN ISOLATION LEVEL REPEATABLE READ"), Vec::<String>::new());
    assert_eq!(raw.status_after("COMMIT"), 'I');
    // Another session holds the table that was read before.
    assert_eq!(unnamed_that_leaves(&open, &mut raw, read), ["0"]);
    let mut holder = Raw::ready(&open, "postgres");
    query(&mut holder, "BEGIN");
    query(&mut holder, "LOCK TABLE one");
    raw.ask(|out| out.parse(b"named", b"UPDATE other SET v = v RETURNING v", &[]));
    assert_eq!(run_named(&mut raw, b"named"), ["7"]);
    query(&mut holder, "COMMIT");
}

static APART: LazyLock<Scratch> = LazyLock::new(apart);

/// No follower can follow a database as long as this lives: no mark can be written there.
struct Unfollowed {
    database: &'static str,
    holder: Option<std::thread::JoinHandle<()>>,
}

impl Unfollowed {
    fn begin(open: &Open, database: &'static str) -> Unfollowed {
        let sleeps = format!("/* {database} */ BEGIN; LOCK TABLE consort.log; SELECT pg_sleep(600)");
        let holder = std::thread::spawn(move || {
            assert!(APART.primary().query(database, &sleeps).is_err(), "it is cancelled");
        });
        let held = "SELECT count(*) FROM pg_locks WHERE relation = 'consort.log'::regclass AND granted \
            AND mode = 'AccessExclusiveLock'";
        let one = |sql: &str| APART.primary().query(database, sql).unwrap()[0][0].clone();
        until(|| one(held).as_deref() == Some("1"));
        one(&format!(
            "SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots WHERE database = '{database}'"
        ));
        until(|| open.cluster(move |cluster| cluster.database(database).not_serving().is_some()));
        Unfollowed { database, holder: Some(holder) }
    }
}

impl Drop for Unfollowed {
    fn drop(&mut self) {
        APART.query(&format!(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
             WHERE datname = '{}' AND query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()",
            self.database
        ));
        let ended = self.holder.take().map(std::thread::JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

/// Following again begins another version of the catalog, in which all names stand for the same objects as
/// before.
#[test]
fn what_a_block_prepared_while_nobody_followed_leaves_later() {
    database_at(&APART, "unfollowed");
    let open = Open::before(&APART, Writers::Anywhere, |_| {});
    let mut raw = Raw::ready(&open, "unfollowed");
    until_it_leaves(&open, &mut raw, "SELECT name FROM items WHERE id = 7");
    let unfollowed = Unfollowed::begin(&open, "unfollowed");
    query(&mut raw, "BEGIN");
    let name = |n: usize| format!("s{n}").into_bytes();
    for n in 0..20 {
        // A statement of a new shape.
        let text = format!("SELECT name FROM items WHERE id = 7{}", " AND true".repeat(n + 1));
        assert_eq!(parse_named(&mut raw, &name(n), &text), "");
        assert_eq!(run_named(&mut raw, &name(n)), ["item 7"]);
    }
    query(&mut raw, "COMMIT");
    drop(unfollowed);
    (0..20).for_each(|n| named_leaves(&open, &mut raw, &name(n)));
}

fn named_leaves(open: &Open, raw: &mut Raw, name: &[u8]) {
    named_gives(open, raw, name, "item 7");
}

/// Runs a named statement, which gives this, until a standby has answered.
fn named_gives(open: &Open, raw: &mut Raw, name: &[u8], value: &str) {
    let limit = Instant::now() + LIMIT;
    let before = open.reads_at_standbys();
    while open.reads_at_standbys() == before {
        assert_eq!(run_named(raw, name), [value]);
        let why = || format!("{} never left: {}", String::from_utf8_lossy(name), open.why_at_primary());
        assert!(Instant::now() < limit, "{}", why());
    }
}

/// The tags of so many messages.
fn heard(raw: &mut Raw, count: usize) -> String {
    (0..count).map(|_| char::from(raw.message().unwrap()[0])).collect()
}

/// Has a statement parsed and described with a Flush after it, as asyncpg does.
fn flush_parsed(raw: &mut Raw, name: &[u8], text: &str) {
    raw.ask(|out| {
        out.parse(name, text.as_bytes(), &[]);
        out.describe(Target::Statement, name);
        out.flush();
    });
}

#[test]
fn what_is_parsed_with_a_flush_leaves() {
    database("flushed_reads");
    let text = "SELECT name FROM items WHERE id = 7";
    for open in [Open::serving(Writers::Anywhere), crate::pooled::sharing(1)] {
        let mut raw = Raw::ready(&open, "flushed_reads");
        for name in [&b""[..], b"kept"] {
            let limit = Instant::now() + LIMIT;
            let before = open.reads_at_standbys();
            while open.reads_at_standbys() == before {
                assert!(Instant::now() < limit, "it never left: {}", open.why_at_primary());
                raw.ask(|out| Asks::close(out, Target::Statement, b"kept"));
                flush_parsed(&mut raw, name, text);
                assert_eq!(heard(&mut raw, 4), "31tT");
                assert_eq!(run_named(&mut raw, name), ["item 7"]);
            }
        }
    }
}

/// Each client gets the same answers through Consort as at the primary, step by step.
#[test]
fn flushes_are_those_of_one_server() {
    database("flushed_errors");
    let open = Open::serving(Writers::Anywhere);
    let shared = crate::pooled::sharing(1);
    let mut clients = [
        Raw::at_primary("flushed_errors"),
        Raw::ready(&open, "flushed_errors"),
        Raw::ready(&shared, "flushed_errors"),
    ];
    type Step = (fn(&mut Vec<u8>), usize);
    let good: fn(&mut Vec<u8>) = |out| {
        out.parse(b"good", b"UPDATE items SET name = 'flushed' WHERE id = 7 RETURNING name", &[]);
        out.describe(Target::Statement, b"good");
        out.flush();
    };
    let bad: fn(&mut Vec<u8>) = |out| {
        out.parse(b"bad", b"SELECT nothing FROM items", &[]);
        out.describe(Target::Statement, b"bad");
        out.flush();
    };
    let run: fn(&mut Vec<u8>) = |out| {
        out.bind_plain(b"good");
        out.execute(b"", 0);
        out.flush();
    };
    let close: fn(&mut Vec<u8>) = |out| {
        Asks::close(out, Target::Statement, b"good");
        out.flush();
    };
    let sync: fn(&mut Vec<u8>) = |out| out.sync();
    let begin: fn(&mut Vec<u8>) = |out| out.query(b"BEGIN");
    let rollback: fn(&mut Vec<u8>) = |out| out.query(b"ROLLBACK");
    let passed_over: fn(&mut Vec<u8>) = |out| out.query(b"SELECT 1");
    let name: fn(&mut Vec<u8>) = |out| out.query(b"SELECT name FROM items WHERE id = 7");
    let steps: &[&[Step]] = &[
        // An error before the Sync undoes statements that ran before a Flush.
        &[(good, 3), (run, 3), (bad, 1), (run, 0), (sync, 1), (name, 4), (close, 1), (sync, 1)],
        // After an error all is skipped up to the Sync.
        &[(bad, 1), (good, 0), (passed_over, 0), (run, 0), (sync, 1), (run, 1), (sync, 1)],
        &[(good, 3), (bad, 1), (bad, 0), (sync, 1), (run, 3), (sync, 1), (name, 4), (close, 1), (sync, 1)],
        &[
            (begin, 2),
            (good, 3),
            (bad, 1),
            (sync, 1),
            (good, 1),
            (sync, 1),
            (rollback, 2),
            (run, 3),
            (sync, 1),
        ],
        // A Flush alone, and a Query in the place of the Sync.
        &[(|out| out.flush(), 0), (sync, 1), (close, 1), (good, 3), (passed_over, 4), (close, 1), (sync, 1)],
    ];
    for (number, steps) in steps.iter().enumerate() {
        let mut told = Vec::new();
        for raw in &mut clients {
            SERVERS.query_in("flushed_errors", "UPDATE items SET name = 'item 7' WHERE id = 7");
            let mut all = Vec::new();
            for (write, count) in *steps {
                raw.ask(write);
                all.extend((0..*count).map(|_| {
                    let message = raw.message().unwrap();
                    if message[0] == b'E' { vec![b'E'] } else { message }
                }));
            }
            told.push(all);
        }
        assert_eq!(told[1], told[0], "steps {number}");
        assert_eq!(told[2], told[0], "steps {number}, shared");
    }
}

#[test]
fn a_pipeline_is_not_counted_as_the_statement_before_it() {
    let open = Open::trusting();
    let mut raw = Raw::ready(&open, "postgres");
    raw.ask(|out| out.query(b"SELECT 'asked before', 1 AS counted_once"));
    raw.until_ready();
    raw.ask(|out| {
        out.parse(b"", b"SELECT 2", &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.flush();
    });
    raw.ask(|out| out.sync());
    assert_eq!(raw.until_ready(), "12DCZ");
    let counted = open.cluster(|cluster| {
        let rows = cluster.routes().rows();
        rows.into_iter()
            .filter(|row| row.statement.contains("counted_once"))
            .map(|row| row.count)
            .sum::<u64>()
    });
    assert_eq!(counted, 1);
}

/// PostgreSQL completes the statement of a client that has left. Until it is over its process is Consort's; a
/// later client past Consort is seen.
#[test]
fn a_statement_whose_client_has_left_is_no_writer_past_consort() {
    let servers = Scratch::start(0);
    let open = Open::before(&servers, Writers::ThroughConsort, |_| {});
    let writers = || open.cluster(|cluster| cluster.scheduler().writers());
    let mut raw = Raw::ready(&open, "postgres");
    raw.ask(|out| {
        out.parse(b"", b"SELECT pg_sleep(3) AS left_alone", &[]);
        out.bind(b"", b"", &NO_PARAMETERS);
        out.execute(b"", 0);
        out.flush();
    });
    let goes_on = "SELECT FROM pg_stat_activity WHERE query LIKE '%AS left_alone' AND query NOT LIKE '%activity%' \
                   AND state = 'active'";
    until(|| !servers.query(goes_on).is_empty());
    drop(raw);
    until(|| open.door(|door| door.registry.seats().is_empty()));
    assert!(!servers.query(goes_on).is_empty(), "the server goes on");
    until(|| servers.query(goes_on).is_empty());
    assert_eq!(writers(), Writers::ThroughConsort);
    let _past = Raw::past(&servers, "postgres");
    until(|| writers() == Writers::Anywhere);
}
