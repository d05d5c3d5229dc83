//! Statements of SQL's PREPARE go along with pooled clients: such a client gets the answers of one server.

use crate::messages::{parse_named, run_named};
use crate::pooled::{shared, sharing};
use crate::session::{answer, query, until_it_leaves};
use crate::stage::{LIMIT, Open, Raw, SERVERS, database, database_at, until};
use config::pooling::Pools;
use scheduler::Writers;
use std::time::Instant;
use testkit::Scratch;
use wire::{Asks, Target};

/// A client of one server, one that shares connections, and another that shares them with it.
struct Three {
    plain: Raw,
    kept: Raw,
    other: Raw,
}

impl Three {
    fn come(open: &Open, database: &str) -> Three {
        Three::come_to(&SERVERS, open, database)
    }

    fn come_to(servers: &Scratch, open: &Open, database: &str) -> Three {
        let ready = || Raw::ready(open, database);
        Three { plain: Raw::past(servers, database), kept: ready(), other: ready() }
    }

    /// One server says the same, and so it does while another client has used the connection in the meantime.
    fn says(&mut self, does: impl Fn(&mut Raw) -> (Vec<String>, String), what: &str) -> Vec<String> {
        // The settings that a connection reports may be reported again.
        let heard = [&mut self.plain, &mut self.kept].map(|raw| {
            let (values, tags) = does(raw);
            (values, tags.replace('S', ""))
        });
        let [expected, heard] = heard;
        assert_eq!(heard, expected, "{what}");
        heard.0
    }

    fn query(&mut self, text: &str) -> Vec<String> {
        let heard = |raw: &mut Raw| {
            raw.ask(|out| out.query(text.as_bytes()));
            answer(raw)
        };
        self.says(heard, text)
    }

    /// The same as the only statement of a batch.
    fn batch(&mut self, text: &str) -> Vec<String> {
        let heard = |raw: &mut Raw| {
            raw.ask(|out| {
                out.parse(b"", text.as_bytes(), &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
                out.sync();
            });
            answer(raw)
        };
        self.says(heard, text)
    }

    /// These queries, one after the other; another client has the connection wherever no block is open.
    fn queries(&mut self, texts: &[&str]) {
        let mut in_block = false;
        for text in texts {
            self.query(text);
            in_block = *text == "BEGIN" || in_block && !["COMMIT", "ROLLBACK"].contains(text);
            if !in_block {
                self.in_between();
            }
        }
    }

    /// Another client has the connection, and other statements of these names.
    fn in_between(&mut self) {
        for name in ["q", "Q q", "r"] {
            query(&mut self.other, &format!("DEALLOCATE \"{name}\""));
            assert_eq!(query(&mut self.other, &format!("PREPARE \"{name}\" AS SELECT 'other'")), [""; 0]);
            assert_eq!(query(&mut self.other, &format!("EXECUTE \"{name}\"")), ["other"]);
        }
    }
}

fn ties(open: &Open) -> Vec<&'static str> {
    open.door(|door| door.registry.seats().iter().filter_map(|seat| *seat.tie.borrow()).collect())
}

const LIST: &str =
    "SELECT name, statement, from_sql, parameter_types::text FROM pg_prepared_statements ORDER BY name";

#[test]
fn what_sql_prepares_goes_with_its_session() {
    database("by_sql");
    let open = sharing(1);
    let mut three = Three::come(&open, "by_sql");
    let long = "n".repeat(70);
    three.queries(&[
        "PREPARE q (int) AS UPDATE items SET name = name WHERE id = $1 RETURNING name",
        "EXECUTE q(7)",
        "prepare Q AS SELECT 2",
        "PREPARE \"Q q\" AS SELECT id + $1 FROM items WHERE name = $2 -- behind it",
        "EXECUTE \"Q q\"(1, 'item 4')",
        "EXPLAIN (COSTS OFF) EXECUTE q(7)",
        "BEGIN; CREATE TABLE made AS EXECUTE \"Q q\"(1, 'item 4'); SELECT * FROM made; ROLLBACK",
        "EXECUTE none",
        "EXECUTE q",
        LIST,
        "BEGIN",
        "PREPARE r AS SELECT 'rolled back'",
        "EXECUTE r",
        "DEALLOCATE q",
        "ROLLBACK",
        "EXECUTE r",
        "EXECUTE q(7)",
        "DISCARD PLANS",
        LIST,
        "BEGIN; PREPARE t AS SELECT 1; DEALLOCATE t; COMMIT",
        "DEALLOCATE \"Q q\"",
        "DEALLOCATE \"Q q\"",
        &format!("PREPARE {long} AS SELECT 'long'"),
        &format!("EXECUTE {}", &long[..63]),
        "DEALLOCATE PREPARE r",
        "EXECUTE r",
        LIST,
        "PREPARE q AS SELECT 1 / 0",
        "EXECUTE q",
        "DEALLOCATE ALL",
        LIST,
        "PREPARE q AS SELECT 3",
        "DISCARD ALL",
        "EXECUTE q",
        "PREPARE q AS SELECT * FROM nowhere",
        LIST,
    ]);
    for text in [
        "PREPARE q AS SELECT $1 || 'x'",
        "EXECUTE q('in a batch')",
        LIST,
        "PREPARE q AS SELECT 4",
        "EXECUTE q('it')",
        "DEALLOCATE ALL",
        "EXECUTE q('it')",
    ] {
        three.batch(text);
        three.in_between();
    }
    assert_eq!(ties(&open), [""; 0]);
}

#[test]
fn names_of_sql_and_of_the_protocol_are_the_same_names() {
    database("by_both");
    let open = sharing(1);
    let mut three = Three::come(&open, "by_both");
    let run = |raw: &mut Raw| (run_named(raw, b"q"), String::new());
    let parse = |raw: &mut Raw| (vec![parse_named(raw, b"q", "SELECT 'parsed'")], String::new());
    let close = |raw: &mut Raw| {
        raw.ask(|out| {
            Asks::close(out, Target::Statement, b"q");
            out.sync();
        });
        answer(raw)
    };
    let describe = |raw: &mut Raw| {
        raw.ask(|out| {
            out.describe(Target::Statement, b"q");
            out.sync();
        });
        answer(raw)
    };
    three.query("PREPARE q AS SELECT 'prepared' FROM pg_backend_pid()");
    for _ in 0..2 {
        three.in_between();
        assert_eq!(three.says(run, "Bind"), ["prepared"]);
        three.in_between();
        assert_eq!(three.says(parse, "Parse"), ["42P05"]);
        three.in_between();
        three.says(describe, "Describe");
        three.in_between();
        assert_eq!(three.query("EXECUTE q"), ["prepared"]);
        three.in_between();
    }
    three.says(close, "Close");
    three.in_between();
    assert_eq!(three.query("EXECUTE q"), ["26000"]);
    assert_eq!(three.says(parse, "Parse"), [""]);
    three.in_between();
    assert_eq!(three.query("PREPARE q AS SELECT 1"), ["42P05"]);
    three.in_between();
    assert_eq!(three.query("EXECUTE q"), ["parsed"]);
    three.in_between();
    three.query(LIST);
}

#[test]
fn what_sql_prepared_goes_on_meaning_what_it_meant() {
    // After many invalidations at the same time a server forgets its plans, and has the present settings
    // decide.
    let mut options = Scratch::options();
    options.standbys = 0;
    let servers = Scratch::with(options);
    database_at(&servers, "by_sql_meant");
    servers.query_in(
        "by_sql_meant",
        "CREATE SCHEMA apart; CREATE TABLE apart.items (id int, name text); INSERT INTO apart.items VALUES (7, 'apart')",
    );
    let pools = Pools::of_all(shared(1));
    let open = Open::before(&servers, Writers::Anywhere, |setup| setup.pools = pools);
    let mut three = Three::come_to(&servers, &open, "by_sql_meant");
    three.queries(&[
        "SET datestyle = 'ISO, DMY'",
        "PREPARE q AS SELECT '01/02/2003'::date::text, current_setting('datestyle')",
        "SET datestyle = 'ISO, MDY'",
        "EXECUTE q",
        "EXECUTE q",
        "SHOW datestyle",
        "BEGIN",
        "SET LOCAL datestyle = 'ISO, YMD'",
        "EXECUTE q",
        "COMMIT",
        // The path of today counts, as PostgreSQL says.
        "PREPARE r AS SELECT name FROM items WHERE id = 7",
        "EXECUTE r",
        "SET search_path = apart",
        "EXECUTE r",
        "SET ROLE pg_monitor",
        "EXECUTE r",
        "RESET ROLE",
        "EXECUTE r",
        "EXECUTE q",
        "RESET search_path",
        "SET datestyle = 'ISO, DMY'",
    ]);
    // So it is with what the protocol has parsed, also where another client has parsed the very same otherwise.
    let dated = "SELECT '01/02/2003'::date::text FROM pg_backend_pid()";
    three.says(|raw| (vec![parse_named(raw, b"p", dated)], String::new()), "Parse");
    three.queries(&["SET datestyle = 'ISO, MDY'"]);
    for _ in 0..2 {
        takes(&mut three.other, dated);
        assert_eq!(run_named(&mut three.other, b"p"), ["2003-01-02"]);
        assert_eq!(three.says(|raw| (run_named(raw, b"p"), String::new()), "Bind"), ["2003-02-01"]);
        assert_eq!(three.query("SHOW datestyle"), ["ISO, MDY"]);
        takes(&mut three.other, dated);
        assert_eq!(three.query("EXECUTE p"), ["2003-02-01"]);
    }
}

/// The connection has another client's statement of the name `p` now.
fn takes(other: &mut Raw, text: &str) {
    other.ask(|out| Asks::close(out, Target::Statement, b"p"));
    assert_eq!(parse_named(other, b"p", text), "");
}

#[test]
fn another_path_that_gives_a_statement_other_columns_is_said_as_by_one_server() {
    database("other_path");
    SERVERS.query_in(
        "other_path",
        "CREATE SCHEMA apart; CREATE TABLE apart.items (id int, name varchar(9), more int); \
         INSERT INTO apart.items VALUES (7, 'apart', 1)",
    );
    let open = sharing(1);
    let mut three = Three::come(&open, "other_path");
    // With read offload, only the path causes a query.
    until_it_leaves(&open, &mut three.kept, "SELECT name FROM items WHERE id = 8");
    let text = "UPDATE items SET id = id WHERE id = 7 RETURNING *";
    three.says(|raw| (vec![parse_named(raw, b"p", text)], String::new()), "Parse");
    three.query(&format!("PREPARE q AS {text}"));
    let used = |raw: &mut Raw, name: &[u8]| (run_named(raw, name), String::new());
    let describe = |raw: &mut Raw| {
        raw.ask(|out| {
            out.describe(Target::Statement, b"p");
            out.sync();
        });
        answer(raw)
    };
    for _ in 0..5 {
        for (path, says) in [("apart", &["0A000"][..]), ("public", &["7", "item 7"])] {
            three.query(&format!("SET search_path = {path}"));
            for name in ["p", "q"] {
                three.in_between();
                takes(&mut three.other, "SELECT 'other'");
                assert_eq!(three.says(|raw| used(raw, name.as_bytes()), "Bind"), says, "{path}: {name}");
                three.in_between();
                takes(&mut three.other, "SELECT 'other'");
                assert_eq!(three.query(&format!("EXECUTE {name}")), says, "{path}: {name}");
            }
            three.in_between();
            takes(&mut three.other, "SELECT 'other'");
            three.says(describe, "Describe");
        }
    }
}

#[test]
fn what_sql_prepared_keeps_its_columns() {
    database("by_sql_columns");
    let open = sharing(1);
    let mut three = Three::come(&open, "by_sql_columns");
    let selects = "SELECT * FROM items WHERE id = $1";
    let ddl = [
        ("ALTER TABLE items ALTER COLUMN name TYPE varchar", "0A000", "0A000"),
        ("ALTER TABLE items ADD COLUMN more int", "0A000", "0A000"),
        ("ALTER TABLE items RENAME COLUMN more TO most", "0A000", "0A000"),
        ("ALTER TABLE items ALTER COLUMN id TYPE text", "0A000", "42883"),
        ("ALTER TABLE items RENAME TO others", "42P01", "42P01"),
    ];
    for (ddl, changed, its_own) in ddl {
        for text in [&format!("PREPARE q AS {selects}"), "EXECUTE q(7)"] {
            three.query(text);
            three.in_between();
        }
        // A statement of the protocol is refused in SQL too.
        three.says(|raw| (vec![parse_named(raw, b"p", "SELECT * FROM items")], String::new()), "Parse");
        query(&mut three.other, ddl);
        for text in ["EXECUTE q(7)", "EXECUTE p", "EXPLAIN EXECUTE q(7)", "CREATE TABLE made AS EXECUTE q(7)"]
        {
            three.in_between();
            let said = three.query(text);
            assert!(
                said == [changed] || text.ends_with("(7)") && said == [its_own],
                "{text}: {ddl}: {said:?}"
            );
            three.in_between();
            three.batch(text);
        }
        for text in ["BEGIN", "EXECUTE q(7)", "EXECUTE q(7)", "ROLLBACK"] {
            three.query(text);
        }
        let bind = |raw: &mut Raw| {
            raw.ask(|out| {
                out.bind(b"", b"q", &[&[0, 0, 0, 1, 0, 0, 0, 1][..], b"7", &[0, 0]].concat());
                out.execute(b"", 0);
                out.sync();
            });
            answer(raw)
        };
        three.in_between();
        three.says(bind, "Bind");
        for text in ["DEALLOCATE q", "DEALLOCATE p", "EXECUTE q(7)"] {
            three.in_between();
            three.query(text);
        }
        three.query(LIST);
    }
    // An irrelevant change does not matter; nor do the types of parameters that stay the same.
    query(&mut three.other, "ALTER TABLE others RENAME TO items");
    query(&mut three.other, "ALTER TABLE items ALTER COLUMN id TYPE int USING id::int");
    three.query("PREPARE q AS UPDATE items SET name = name WHERE id = $1 RETURNING name");
    for ddl in ["ALTER TABLE items DROP COLUMN most", "ALTER TABLE items ALTER COLUMN id TYPE bigint"] {
        query(&mut three.other, ddl);
        three.in_between();
        assert_eq!(three.query("EXECUTE q(7)"), ["item 7"], "{ddl}");
        three.in_between();
        three.query("SELECT parameter_types::text FROM pg_prepared_statements");
    }
}

#[test]
fn what_nobody_saw_prepared_keeps_its_session_where_it_is() {
    database("by_sql_unseen");
    let open = sharing(2);
    let mut three = Three::come(&open, "by_sql_unseen");
    let long = format!("PREPARE q AS SELECT 'mine' /* {} */", "x".repeat(70_000));
    for prepares in [
        "DO $$ BEGIN EXECUTE 'PREPARE q AS SELECT ''mine'''; END $$",
        "SELECT 1; PREPARE q AS SELECT 'mine'",
        &long,
    ] {
        three.query(prepares);
        until(|| ties(&open) == ["session_prepared_statement"]);
        for _ in 0..2 {
            three.in_between();
            assert_eq!(three.query("EXECUTE q"), ["mine"]);
        }
        three.query("DEALLOCATE q");
        until(|| ties(&open).is_empty());
        three.query("EXECUTE q");
    }
    // A statement that was prepared in its sight may leave it.
    three.query("PREPARE q AS SELECT 'seen'");
    three.in_between();
    three.query("DO $$ BEGIN EXECUTE 'DEALLOCATE q'; END $$");
    assert_eq!(three.query("EXECUTE q"), ["26000"]);
    three.query("PREPARE q AS SELECT 'seen'");
    three.in_between();
    three.query("DO $$ BEGIN EXECUTE 'DEALLOCATE q'; EXECUTE 'PREPARE q AS SELECT ''unseen'''; END $$");
    until(|| ties(&open) == ["session_prepared_statement"]);
    three.in_between();
    assert_eq!(three.query("EXECUTE q"), ["unseen"]);
}

/// A driver prepares a statement once, with its first execution: before Consort has analysed the text. Also
/// at once after a restart of Consort.
#[test]
fn named_before_analysis_leaves() {
    let servers = Scratch::start(1);
    database_at(&servers, "named_early");
    let read = "SELECT name FROM items WHERE id = 7";
    for round in 0..2 {
        let open = Open::before(&servers, Writers::Anywhere, |setup| setup.pools = Pools::of_all(shared(1)));
        let mut raw = Raw::ready(&open, "named_early");
        if round == 0 {
            until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
        }
        raw.ask(|out| {
            out.parse(b"early", read.as_bytes(), &[]);
            out.bind(b"", b"early", &[0; 6]);
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw).0, ["item 7"], "{round}");
        let limit = Instant::now() + LIMIT / 6;
        let before = open.reads_at_standbys();
        while open.reads_at_standbys() == before {
            assert_eq!(run_named(&mut raw, b"early"), ["item 7"]);
            assert!(Instant::now() < limit, "{}", open.why_at_primary());
        }
    }
}

/// A Parse behind a statement that has changed the settings in the same batch is not repeated under others.
#[test]
fn named_behind_a_change_of_settings_keeps_its_meaning() {
    let servers = Scratch::start(1);
    database_at(&servers, "named_behind");
    servers.query_in(
        "named_behind",
        "CREATE TABLE days AS SELECT date '2020-01-01' + n AS day FROM generate_series(0, 99) n",
    );
    let open = Open::before(&servers, Writers::Anywhere, |setup| setup.pools = Pools::of_all(shared(1)));
    let mut raw = Raw::ready(&open, "named_behind");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM days");
    raw.ask(|out| {
        out.parse(b"", b"SELECT set_config('DateStyle', 'ISO, DMY', false)", &[]);
        out.bind(b"", b"", &[0; 6]);
        out.execute(b"", 0);
        out.parse(b"behind", b"SELECT day FROM days WHERE day = '01/02/2020'", &[]);
        out.sync();
    });
    raw.until_ready();
    query(&mut raw, "SET DateStyle = 'ISO, MDY'");
    // Its tree is known meanwhile, and reads of the same text leave.
    until_it_leaves(&open, &mut raw, "SELECT day FROM days WHERE day = '01/02/2020'");
    for _ in 0..5 {
        assert_eq!(run_named(&mut raw, b"behind"), ["2020-02-01"]);
    }
}
