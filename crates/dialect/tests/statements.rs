//! Statements through plan and execution on an SQLite database in memory.

use std::ops::ControlFlow;

use dialect::{Catalog, Class, Context, Parameter, Problem, Settings};
use rusqlite::Connection;

/// An empty database with the dialect's functions.
struct Database {
    conn: Connection,
    context: Context,
}

impl Database {
    fn new() -> Database {
        let conn = Connection::open_in_memory().expect("memory");
        Catalog::create(&conn).expect("a catalogue");
        let context = dialect::install(&conn).expect("functions");
        context.begin(0, 7);
        Database { conn, context }
    }

    /// Messages of the rows and the tag of one statement.
    fn run(
        &self,
        text: &str,
        parameters: &[Parameter],
        formats: &[i16],
    ) -> Result<(Vec<Vec<u8>>, String), Problem> {
        let statement = dialect::split(text)?.remove(0);
        let catalog = Catalog::load(&self.conn).expect("a catalogue");
        let plan = dialect::plan(&statement, &catalog, &[], &Settings::default())?;
        let mut rows = Vec::new();
        let mut keep = |row: &[u8]| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        };
        let done = plan.execute(&self.conn, &self.context, parameters, formats, &mut keep)?;
        Ok((rows, done.tag))
    }

    fn tag(&self, text: &str) -> String {
        self.run(text, &[], &[]).unwrap_or_else(|problem| panic!("{text}: {problem}")).1
    }

    fn refusal(&self, text: &str) -> Problem {
        self.run(text, &[], &[]).expect_err(text)
    }
}

fn text(value: &str) -> Parameter {
    Parameter { format: 0, value: Some(value.as_bytes().to_vec()) }
}

fn binary(value: &[u8]) -> Parameter {
    Parameter { format: 1, value: Some(value.to_vec()) }
}

#[test]
fn parameters_bind_by_number_in_both_formats() {
    let database = Database::new();
    database.tag("CREATE TABLE t (a int, b text, n numeric)");
    let parameters = [text("bee"), binary(&7_i32.to_be_bytes()), text("1.50")];
    let insert = "INSERT INTO t (a, b, n) VALUES ($2, $1, $3)";
    assert_eq!(database.run(insert, &parameters, &[]).expect("a row").1, "INSERT 0 1");
    let (rows, tag) =
        database.run("SELECT a, b, n FROM t WHERE a = $1", &[text("7")], &[1, 0, 1]).expect("a row");
    let numeric = [0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88];
    let mut expected =
        vec![b'D', 0, 0, 0, 37, 0, 3, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 3, b'b', b'e', b'e', 0, 0, 0, 12];
    expected.extend_from_slice(&numeric);
    assert_eq!((rows, tag.as_str()), (vec![expected], "SELECT 1"));
}

#[test]
fn errors_have_the_sqlstate_and_detail() {
    let database = Database::new();
    database.tag("CREATE TABLE t (a int PRIMARY KEY, b varchar(3) CHECK (b <> 'no'))");
    database.tag("INSERT INTO t VALUES (1, 'abc')");
    let twice = database.refusal("INSERT INTO t VALUES (1, 'x')");
    assert_eq!(twice.sqlstate, "23505");
    assert_eq!(twice.message, "duplicate key value violates unique constraint \"t_pkey\"");
    assert_eq!(twice.detail.as_deref(), Some("Key (a)=(1) already exists."));
    assert_eq!(database.refusal("INSERT INTO t VALUES (2, 'no')").sqlstate, "23514");
    assert_eq!(database.refusal("INSERT INTO t VALUES (NULL, 'x')").sqlstate, "23502");
    assert_eq!(database.refusal("INSERT INTO t VALUES (2, 'long')").sqlstate, "22001");
    assert_eq!(database.refusal("SELECT * FROM u").sqlstate, "42P01");
    assert_eq!(database.refusal("SELECT nothing FROM t").sqlstate, "42703");
}

#[test]
fn restricted_deletes_name_their_foreign_key() {
    let database = Database::new();
    database.tag("CREATE TABLE rp (id int PRIMARY KEY)");
    database.tag("CREATE TABLE rc (id int REFERENCES rp ON DELETE RESTRICT)");
    database.tag("INSERT INTO rp VALUES (1)");
    database.tag("INSERT INTO rc VALUES (1)");
    let refused = database.refusal("DELETE FROM rp");
    assert_eq!(refused.sqlstate, "23503");
    let text =
        "update or delete on table \"rp\" violates foreign key constraint \"rc_id_fkey\" on table \"rc\"";
    assert_eq!(refused.message, text);
}

#[test]
fn locks_that_promise_more_are_refused() {
    let database = Database::new();
    database.tag("CREATE TABLE t (a int)");
    for lock in ["FOR UPDATE", "FOR SHARE", "FOR UPDATE OF t"] {
        database.tag(&format!("SELECT a FROM t {lock}"));
    }
    for text in [
        "SELECT a FROM t FOR UPDATE SKIP LOCKED",
        "SELECT a FROM t FOR SHARE NOWAIT",
        "DELETE FROM t WHERE a = (SELECT a FROM t LIMIT 1 FOR UPDATE SKIP LOCKED)",
    ] {
        assert_eq!(database.refusal(text).sqlstate, "0A000", "{text}");
    }
}

#[test]
fn refusals_name_their_cause() {
    let database = Database::new();
    database.context.session("ann", "shop");
    database.tag("CREATE TABLE t (a int, b text)");
    database.tag("CREATE INDEX t_a ON t (a)");
    database.tag("CREATE VIEW v AS SELECT a FROM t");
    let no_roles = "The in-memory tier has one database and no roles.";
    let read_only = "Views are read only here. Change the tables that they read.";
    let cast = "Cast a parameter that is a position to integer.";
    let manual = "Rewrite the statement without it. docs/memory-tier.md lists what is supported.";
    for (text, what, hint) in [
        ("INSERT INTO v VALUES (1)", "a change of view \"v\"", read_only),
        ("UPDATE v SET a = 1", "a change of view \"v\"", read_only),
        ("DELETE FROM v", "a change of view \"v\"", read_only),
        ("ALTER VIEW v RENAME TO w", "RENAME of this kind of object", manual),
        ("ALTER INDEX t_a RENAME TO t_b", "RENAME of this kind of object", manual),
        ("SELECT substring(b, 'b') FROM t", "substring with a pattern", cast),
        ("SELECT substring(b FROM 'b+') FROM t", "substring with a pattern", cast),
        ("SELECT substring(b FROM b) FROM t", "substring with a pattern", cast),
        ("CREATE TABLE u AS SELECT 1", "CREATE TABLE AS", manual),
        ("ALTER TABLE t OWNER TO bob", "the owner \"bob\"", no_roles),
        ("CREATE ROLE bob", "CREATE ROLE", no_roles),
        ("CREATE USER bob PASSWORD 'x'", "CREATE USER", no_roles),
        ("CREATE DATABASE bob", "CREATE DATABASE", no_roles),
        ("DROP DATABASE bob", "DROP DATABASE", no_roles),
    ] {
        let refused = database.refusal(text);
        assert_eq!(refused.sqlstate, "0A000", "{text}: {refused}");
        assert_eq!(refused.message, format!("the in-memory tier does not support {what}"), "{text}");
        assert_eq!(refused.hint.as_deref(), Some(hint), "{text}");
    }
    for owner in ["ann", "CURRENT_USER"] {
        database.tag(&format!("ALTER TABLE t OWNER TO {owner}"));
    }
    assert_eq!(database.refusal("SELECT $1").sqlstate, "42P02");
}

/// psycopg asks for the OIDs of types this way.
#[test]
fn types_are_found_by_name() {
    let database = Database::new();
    let query = "SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, \
        typdelim AS delimiter FROM pg_type t WHERE t.oid = to_regtype($1) ORDER BY t.oid";
    let found = |name: &str| {
        let (rows, _) = database.run(query, &[text(name)], &[]).expect(name);
        rows.iter().map(|row| values(row)).collect::<Vec<_>>()
    };
    for name in ["int4", "INTEGER", " pg_catalog.int4 "] {
        assert_eq!(found(name), ["int4|23|1007|integer|,"], "{name}");
    }
    assert_eq!(found("timestamp with time zone"), ["timestamptz|1184|1185|timestamp with time zone|,"]);
    for name in ["hstore", "", "int4) + (1", "int4; SELECT 1", "'"] {
        assert_eq!(found(name), [""; 0], "{name}");
    }
}

/// Rows of RETURNING leave when the statement has ended well, foreign keys included.
#[test]
fn failed_returning_sends_no_rows() {
    let database = Database::new();
    database.tag("CREATE TABLE t (a int UNIQUE)");
    database.tag("CREATE TABLE u (a int REFERENCES t (a))");
    for (text, sqlstate) in [
        ("INSERT INTO t VALUES (1), (2), (1) RETURNING a", "23505"),
        ("INSERT INTO u VALUES (NULL), (9) RETURNING a", "23503"),
    ] {
        let mut sent = 0;
        let statement = dialect::split(text).expect("a statement").remove(0);
        let catalog = Catalog::load(&database.conn).expect("a catalogue");
        let plan = dialect::plan(&statement, &catalog, &[], &Settings::default()).expect("a plan");
        let mut count = |_: &[u8]| {
            sent += 1;
            ControlFlow::Continue(())
        };
        let result = plan.execute(&database.conn, &database.context, &[], &[], &mut count);
        assert_eq!((result.expect_err(text).sqlstate, sent), (sqlstate, 0));
    }
}

#[test]
fn epoch_changes_with_each_definition() {
    let database = Database::new();
    let mut epochs = vec![Catalog::epoch(&database.conn).expect("an epoch")];
    for definition in [
        "CREATE TABLE t (a int)",
        "CREATE SEQUENCE s",
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5",
        "CREATE VIEW v AS SELECT a FROM t",
        "DROP VIEW v",
    ] {
        database.tag(definition);
        epochs.push(Catalog::epoch(&database.conn).expect("an epoch"));
    }
    assert!(epochs.is_sorted_by(|one, other| one < other), "{epochs:?}");
}

#[test]
fn classes_are_known_without_a_catalogue() {
    let class = |text: &str| format!("{:?}", dialect::split(text).expect("a statement").remove(0).class);
    assert!(matches!(dialect::split(" ; ").as_deref(), Ok([])));
    assert_eq!(class("SELECT 1"), "Read");
    assert_eq!(class("SELECT a FROM t FOR UPDATE"), "Write");
    assert_eq!(
        class("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"),
        "Begin { read_only: Some(true), isolation: Some(Serializable) }"
    );
    assert_eq!(class("vacuum analyze t"), "NoOperation(\"VACUUM\")");
    assert_eq!(
        class("SET TIME ZONE 'UTC'"),
        "Set { name: \"timezone\", value: Some(\"UTC\"), local: false }"
    );
    let Class::CopyIn(copy) =
        dialect::split("COPY t (a, b) FROM STDIN").expect("a statement").remove(0).class
    else {
        panic!("no COPY");
    };
    assert_eq!(copy.columns, ["a", "b"]);
}

/// Queries that psql 15 sends for `\dt`, `\d`, `\d t`, `\di` and `\dn`, separated by lines of `;;`.
const PSQL: &str = include_str!("psql.sql");

/// The values of a DataRow message in text format, joined by bars.
fn values(row: &[u8]) -> String {
    let (mut at, mut out) = (7, Vec::new());
    while at < row.len() {
        let length = i32::from_be_bytes(row[at..at + 4].try_into().expect("a length"));
        at += 4;
        let Ok(length) = usize::try_from(length) else {
            out.push("NULL".to_owned());
            continue;
        };
        out.push(String::from_utf8_lossy(&row[at..at + length]).into_owned());
        at += length;
    }
    out.join("|")
}

#[test]
fn queries_of_psql_describe_the_tables() {
    let database = Database::new();
    database.context.session("ann", "shop");
    database.tag("CREATE TABLE p (id int PRIMARY KEY)");
    database.tag(
        "CREATE TABLE t (id serial PRIMARY KEY, n numeric(10,2) CHECK (n > 0), v varchar(5) DEFAULT 'x' NOT NULL, \
         p int REFERENCES p)",
    );
    database.tag("CREATE INDEX t_v ON t (v)");
    database.tag("CREATE VIEW w AS SELECT id FROM t");
    let catalog = Catalog::load(&database.conn).expect("a catalogue");
    let oid = catalog.table("t").expect("the table").oid.to_string();
    let answers = PSQL.split("\n;;\n").map(|query| {
        let query = query.replace("{oid}", &oid);
        let (rows, _) = database.run(&query, &[], &[]).unwrap_or_else(|problem| panic!("{query}: {problem}"));
        rows.iter().map(|row| values(row).replace(&oid, "OID")).collect::<Vec<_>>()
    });
    let expected: &[&[&str]] = &[
        &["public|p|table|ann", "public|t|table|ann"],
        &["public|p|table|ann", "public|t|table|ann", "public|t_id_seq|sequence|ann", "public|w|view|ann"],
        &["OID|public|t"],
        &["1|r|t|f|t|f|f|f|f||0||p|d|heap"],
        &[
            "id|integer|nextval('t_id_seq'::regclass)|t|NULL||",
            "n|numeric(10,2)|NULL|f|NULL||",
            "v|character varying(5)|'x'|t|NULL||",
            "p|integer|NULL|f|NULL||",
        ],
        &[
            "t_pkey|t|t|f|t|CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)|PRIMARY KEY (id)|p|f|f|f|0",
            "t_v|f|f|f|t|CREATE INDEX t_v ON public.t USING btree (v)|NULL|NULL|NULL|NULL|f|0",
        ],
        &["t_n_check|CHECK (n > 0)"],
        &["t|t_p_fkey|FOREIGN KEY (p) REFERENCES p(id)|t"],
        &[],
        &[],
        &[],
        &[],
        &[],
        &[],
        &[],
        &["public|p_pkey|index|ann|p", "public|t_pkey|index|ann|t", "public|t_v|index|ann|t"],
        &["public|ann"],
    ];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
    let (rows, _) = database
        .run(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY 1",
            &[],
            &[],
        )
        .expect("columns");
    assert_eq!(values(&rows[0]), "id|integer");
    assert_eq!(database.refusal("SELECT * FROM pg_class").sqlstate, "0A000");
    assert_eq!(database.refusal("SELECT relacl FROM pg_class").sqlstate, "0A000");
    assert_eq!(database.refusal("SELECT 1 FROM pg_proc").sqlstate, "0A000");
}

#[test]
fn copied_lines_become_rows() {
    let database = Database::new();
    database.tag("CREATE TABLE t (id serial, a int, b text)");
    let import = |text: &str, pieces: &[&str]| -> Result<usize, Problem> {
        let Class::CopyIn(copy) = dialect::split(text)?.remove(0).class else { panic!("no COPY") };
        let plan = copy.plan(&Catalog::load(&database.conn).expect("a catalogue"))?;
        let (mut lines, mut count) = (plan.lines(), 0);
        let mut rows = Vec::new();
        for piece in pieces {
            rows.extend(lines.take(piece.as_bytes())?);
        }
        rows.extend(lines.finish()?);
        for row in &rows {
            plan.insert
                .execute(&database.conn, &database.context, row, &[], &mut |_| ControlFlow::Continue(()))?;
            count += 1;
        }
        Ok(count)
    };
    assert_eq!(
        import("COPY t (a, b) FROM STDIN", &["1\tone\n2\t\\N\n3\tt", "ab\\tnew\\nline\\\\\n4\t"]),
        Ok(4)
    );
    assert_eq!(
        import("COPY t (b, a) FROM STDIN (FORMAT csv, HEADER)", &["b,a\n\"x, \"\"y\"\"\nz\",5\n,6\n"]),
        Ok(2)
    );
    assert_eq!(import("COPY t (a) FROM STDIN", &["x\n"]).map_err(|problem| problem.sqlstate), Err("22P02"));
    assert_eq!(
        import("COPY t (a) FROM STDIN", &["1\t2\n"]).map_err(|problem| problem.sqlstate),
        Err("22P04")
    );
    database.tag("CREATE VIEW v AS SELECT a FROM t");
    assert_eq!(import("COPY v FROM STDIN", &[]).map_err(|problem| problem.sqlstate), Err("0A000"));
    assert_eq!(import("COPY u FROM STDIN", &[]).map_err(|problem| problem.sqlstate), Err("42P01"));
    let (rows, _) = database.run("COPY t (a, b) TO STDOUT", &[], &[]).expect("rows");
    let shown: Vec<String> = rows.iter().map(|row| values(row)).collect();
    assert_eq!(shown, ["1|one", "2|NULL", "3|tab\tnew\nline\\", "4|", "5|x, \"y\"\nz", "6|NULL"]);
}

#[test]
fn deep_and_long_statements_are_refused() {
    let deep = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(dialect::split(&deep).expect_err("too deep").sqlstate, "54001");
    let chain = format!("SELECT 1{}", " + 1".repeat(5_000));
    assert_eq!(dialect::split(&chain).expect_err("too deep").sqlstate, "54001");
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    assert_eq!(dialect::split(&long).expect_err("too long").sqlstate, "54000");
}

#[test]
fn random_numbers_repeat_with_their_seed() {
    let database = Database::new();
    let draw = || {
        database.context.begin(5, 42);
        let (first, _) = database.run("SELECT random(), now()", &[], &[]).expect("a row");
        let (second, _) = database.run("SELECT random(), now()", &[], &[]).expect("a row");
        (first, second)
    };
    let (first, second) = draw();
    assert_ne!(first, second);
    assert_eq!(draw(), (first, second));
}

#[test]
fn settings_that_change_answers_have_one_value() {
    let mut settings = Settings::default();
    assert_eq!(settings.show("TimeZone").as_deref(), Ok("UTC"));
    assert_eq!(
        settings.set("timezone", Some("Europe/Berlin")).map_err(|problem| problem.sqlstate),
        Err("0A000")
    );
    assert_eq!(settings.set("application_name", Some("psql")), Ok(()));
    assert_eq!(settings.show("application_name").as_deref(), Ok("psql"));
    assert_eq!(settings.set("nothing", Some("x")).map_err(|problem| problem.sqlstate), Err("42704"));
}
