//! Utility statements by example, and the treatment of hostile ones.

use super::*;
use statement_analysis::shape::{Shape, Strings};

fn statements(text: &str) -> Vec<Statement> {
    split(text, Strings::Standard)
}

/// The one utility statement of a text.
fn utility(text: &str) -> Utility {
    match statements(text).as_slice() {
        [Statement { what: What::Utility(utility), .. }] => utility.clone(),
        other => panic!("{text}: {other:?}"),
    }
}

fn set(name: &str, value: &str) -> Utility {
    let value = NewValue::To(value.to_owned());
    Utility::Set(Assignment { name: name.to_owned(), value, local: false })
}

fn modes(isolation: Option<Isolation>, read_only: Option<bool>, deferrable: Option<bool>) -> Modes {
    Modes { isolation, read_only, deferrable, snapshot: false }
}

#[test]
fn transaction_control() {
    use Isolation::{RepeatableRead, Serializable};
    let none = Modes::default();
    for (text, expected) in [
        ("BEGIN", Utility::Begin(none)),
        ("begin work", Utility::Begin(none)),
        (
            "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            Utility::Begin(modes(Some(RepeatableRead), Some(true), None)),
        ),
        (
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE DEFERRABLE",
            Utility::Begin(modes(Some(Serializable), Some(false), Some(true))),
        ),
        ("COMMIT", Utility::Commit { chain: false }),
        ("END TRANSACTION;", Utility::Commit { chain: false }),
        ("COMMIT AND CHAIN", Utility::Commit { chain: true }),
        ("COMMIT AND NO CHAIN", Utility::Commit { chain: false }),
        ("ROLLBACK", Utility::Rollback { chain: false }),
        ("/* x */ ABORT AND CHAIN -- y", Utility::Rollback { chain: true }),
        ("SAVEPOINT \"A b\"", Utility::Savepoint("A b".into())),
        ("RELEASE SAVEPOINT A", Utility::Release("a".into())),
        ("RELEASE a", Utility::Release("a".into())),
        ("ROLLBACK WORK TO SAVEPOINT a", Utility::RollbackTo("a".into())),
        ("PREPARE TRANSACTION 'x'", Utility::PrepareTransaction("x".into())),
        ("COMMIT PREPARED 'x'", Utility::CommitPrepared("x".into())),
        ("ROLLBACK PREPARED 'x'", Utility::RollbackPrepared("x".into())),
        ("SET TRANSACTION READ ONLY", Utility::SetTransaction(modes(None, Some(true), None))),
        (
            "SET LOCAL transaction_isolation = 'repeatable read'",
            Utility::SetTransaction(modes(Some(RepeatableRead), None, None)),
        ),
        (
            "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'",
            Utility::SetTransaction(Modes { snapshot: true, ..none }),
        ),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            Utility::SetCharacteristics(modes(Some(Serializable), None, None)),
        ),
        ("SET CONSTRAINTS ALL IMMEDIATE", Utility::SetConstraints),
    ] {
        assert_eq!(utility(text), expected, "{text}");
    }
}

#[test]
fn settings() {
    for (text, expected) in [
        ("SET Search_Path TO a, \"B c\", 'd', \"$user\"", set("search_path", "a, \"B c\", d, \"$user\"")),
        ("SET search_path = ''", set("search_path", "\"\"")),
        ("SET search_path = 'a, b'", set("search_path", "\"a, b\"")),
        ("SET DateStyle = ISO, DMY", set("datestyle", "iso, dmy")),
        ("SET SESSION statement_timeout = 1000", set("statement_timeout", "1000")),
        ("SET extra_float_digits TO -15", set("extra_float_digits", "-15")),
        ("SET x.y = 1.5", set("x.y", "1.5")),
        ("SET enable_seqscan = off", set("enable_seqscan", "off")),
        ("SET enable_seqscan = true", set("enable_seqscan", "true")),
        ("SET NAMES 'LATIN1'", set("client_encoding", "LATIN1")),
        ("SET TIME ZONE 'Europe/Rome'", set("timezone", "Europe/Rome")),
        ("SET SCHEMA 'a b'", set("search_path", "\"a b\"")),
        ("SET ROLE \"R\"", set("role", "R")),
        ("SET ROLE NONE", set("role", "none")),
        ("SET SESSION AUTHORIZATION joe", set("session_authorization", "joe")),
        ("SET consort.consistency = 'bounded 200ms'", set("consort.consistency", "bounded 200ms")),
        ("RESET ALL", Utility::ResetAll),
        ("SHOW TIME ZONE", Utility::Show("timezone".into())),
        ("SHOW Consort.Consistency", Utility::Show("consort.consistency".into())),
        ("DISCARD ALL", Utility::Discard(Discard::All)),
        ("DISCARD TEMPORARY", Utility::Discard(Discard::Temp)),
    ] {
        assert_eq!(utility(text), expected, "{text}");
    }
    let assigned = |name: &str, value, local| Utility::Set(Assignment { name: name.into(), value, local });
    assert_eq!(utility("SET LOCAL a.b = 'c'"), assigned("a.b", NewValue::To("c".into()), true));
    assert_eq!(utility("RESET a.b"), assigned("a.b", NewValue::Reset, false));
    assert_eq!(utility("SET x TO DEFAULT"), assigned("x", NewValue::Default, false));
    assert_eq!(utility("RESET ROLE"), assigned("role", NewValue::Reset, false));
    assert_eq!(utility("SET TIME ZONE LOCAL"), assigned("timezone", NewValue::Default, false));
    let zone = utility("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE");
    assert_eq!(zone, assigned("timezone", NewValue::Unknown, false));
    assert_eq!(zone.dirties(), Some(Dirt::Setting));
    assert_eq!(utility("RESET consort.consistency").consort_setting(), Some("consort.consistency"));
    assert_eq!(utility("SET consortium = 1").consort_setting(), None);
}

#[test]
fn maintenance_runs_functions_of_indexes_and_views() {
    for text in ["ANALYZE t", "VACUUM t", "VACUUM FULL t", "REINDEX TABLE t", "REFRESH MATERIALIZED VIEW v"] {
        assert_eq!(utility(text).dirties(), Some(Dirt::Function), "{text}");
    }
}

#[test]
fn the_other_kinds() {
    for (text, name) in [
        ("EXECUTE p (1, 'a')", "execute"),
        ("DEALLOCATE ALL", "deallocate"),
        ("FETCH 10 FROM c", "fetch"),
        ("MOVE FORWARD ALL IN c", "fetch"),
        ("CLOSE ALL", "close"),
        ("LISTEN c", "listen"),
        ("UNLISTEN *", "unlisten"),
        ("NOTIFY c, 'x'", "notify"),
        ("COPY t FROM STDIN", "copy_from"),
        ("COPY s.t (a, b) FROM '/x' WITH (FORMAT csv)", "copy_from"),
        ("COPY t TO STDOUT", "copy_to"),
        ("COPY (SELECT 1) TO STDOUT", "copy_to"),
        ("CALL p(1)", "call"),
        ("DO $$BEGIN COMMIT; END$$", "do"),
        ("VACUUM t", "vacuum"),
        ("VACUUM (ANALYZE, VERBOSE)", "vacuum"),
        ("ANALYZE t (a)", "vacuum"),
        ("VACUUM FULL", "maintain"),
        ("VACUUM (FULL) t", "maintain"),
        ("CLUSTER", "maintain"),
        ("REINDEX TABLE CONCURRENTLY t", "maintain"),
        ("REFRESH MATERIALIZED VIEW v", "maintain"),
        ("CHECKPOINT", "checkpoint"),
        ("LOAD 'x'", "load"),
        ("CREATE TABLE t (a int)", "ddl"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT 2; END", "ddl"),
        ("CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM u; DELETE FROM v)", "ddl"),
        ("ALTER ROLE r SET search_path = x", "ddl"),
        ("DROP DATABASE d", "ddl"),
        ("GRANT SELECT ON t TO r", "ddl"),
        ("REVOKE ALL ON t FROM PUBLIC", "ddl"),
        ("COMMENT ON TABLE t IS 'x'", "ddl"),
        ("SECURITY LABEL ON TABLE t IS 'x'", "ddl"),
        ("IMPORT FOREIGN SCHEMA s FROM SERVER v INTO w", "ddl"),
        ("REASSIGN OWNED BY a TO b", "ddl"),
        ("EXPLAIN SELECT 1", "explain"),
        ("SELEC 1", "unknown"),
        ("'x'", "unknown"),
        ("BEGIN ISOLATION LEVEL CHAOS", "unknown"),
    ] {
        assert_eq!(utility(text).name(), name, "{text}");
    }
}

#[test]
fn temporary_objects_are_seen() {
    for text in [
        "CREATE TEMP TABLE t (a int)",
        "CREATE LOCAL TEMPORARY TABLE t AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        "CREATE TEMP SEQUENCE s",
        "CREATE TABLE pg_temp.t (a int)",
        "CREATE TYPE PG_TEMP.y AS (a int)",
    ] {
        assert!(matches!(utility(text), Utility::Ddl { temporary: true, .. }), "{text}");
    }
    assert!(matches!(utility("CREATE TABLE t (a int)"), Utility::Ddl { temporary: false, .. }));
}

#[test]
fn locks_and_truncations_say_their_names() {
    let name = |schema: Option<&str>, name: &str| Name { schema: schema.map(Into::into), name: name.into() };
    let lock = utility("LOCK TABLE a, ONLY s.\"B\"");
    assert_eq!(lock.relations(), Some(&[name(None, "a"), name(Some("s"), "B")][..]));
    assert!(lock.doubt_at_statement() && utility("LOCK a IN ACCESS EXCLUSIVE MODE").doubt_at_statement());
    assert!(!utility("LOCK a IN EXCLUSIVE MODE").doubt_at_statement());
    assert_eq!(utility("TRUNCATE a, b").relations().map(<[Name]>::len), Some(2));
    assert_eq!(utility("TRUNCATE a CASCADE").relations(), None);
    assert!(utility("TRUNCATE a").doubt_at_statement());
}

/// A statement that may commit has its write set in flight from its first byte: not only COMMIT.
#[test]
fn what_may_commit() {
    use BlockStatus::{Idle, Open};
    for text in ["COMMIT", "END AND CHAIN", "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'", "nonsense"] {
        assert!(utility(text).may_commit(Idle) && utility(text).may_commit(Open), "{text}");
    }
    for text in [
        "CALL p()",
        "DO ''",
        "EXECUTE p",
        "COPY t FROM STDIN",
        "COPY (DELETE FROM t RETURNING a) TO STDOUT",
        "TRUNCATE t",
        "CREATE TABLE t ()",
        "VACUUM FULL",
        "EXPLAIN ANALYZE DELETE FROM t",
        "GRANT a TO b",
    ] {
        assert!(utility(text).may_commit(Idle) && !utility(text).may_commit(Open), "{text}");
        assert!(utility(text).may_write(), "{text}");
    }
    for text in [
        "BEGIN",
        "ROLLBACK",
        "SAVEPOINT a",
        "ROLLBACK TO a",
        "RELEASE a",
        "SET a.b = 1",
        "SHOW a.b",
        "RESET ALL",
        "DISCARD ALL",
        "PREPARE p AS SELECT 1",
        "DEALLOCATE p",
        "FETCH c",
        "CLOSE c",
        "LISTEN c",
        "NOTIFY c",
        "VACUUM",
        "ANALYZE",
        "CHECKPOINT",
        "ROLLBACK PREPARED 'x'",
        "SET CONSTRAINTS ALL DEFERRED",
    ] {
        assert!(!utility(text).may_commit(Idle) && !utility(text).may_commit(Open), "{text}");
    }
}

#[test]
fn inner_statements_have_their_place() {
    for (text, inner) in [
        ("EXPLAIN SELECT 1", "SELECT 1"),
        ("EXPLAIN ANALYZE VERBOSE UPDATE t SET a = 1;", "UPDATE t SET a = 1"),
        ("EXPLAIN (COSTS off, ANALYZE) SELECT (1)", "SELECT (1)"),
        ("EXPLAIN (SELECT 1)", "(SELECT 1)"),
        ("PREPARE p (int, numeric(3,2)) AS SELECT $1", "SELECT $1"),
        ("PREPARE p AS INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)"),
        ("DECLARE c CURSOR FOR SELECT 1", "SELECT 1"),
        ("DECLARE c BINARY INSENSITIVE NO SCROLL CURSOR WITH HOLD FOR VALUES (1)", "VALUES (1)"),
        ("COPY (SELECT (a) FROM t) TO STDOUT", "SELECT (a) FROM t"),
        ("SHOW x; EXPLAIN SELECT 2", "SELECT 2"),
    ] {
        let all = statements(text);
        let What::Utility(utility) = &all[all.len() - 1].what else { panic!("{text}") };
        assert_eq!(&text[utility.inner().unwrap()], inner, "{text}");
    }
    let analyze = |text| matches!(utility(text), Utility::Explain { analyze: true, .. });
    assert!(analyze("EXPLAIN (ANALYSE) SELECT 1") && analyze("explain analyze select 1"));
    assert!(!analyze("EXPLAIN (VERBOSE) SELECT 1") && !analyze("EXPLAIN SELECT 1 AS analyze"));
    assert!(matches!(
        utility("DECLARE c CURSOR WITH HOLD FOR SELECT 1"),
        Utility::Declare { hold: true, .. }
    ));
    assert!(matches!(
        utility("DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1"),
        Utility::Declare { hold: false, .. }
    ));
}

#[test]
fn what_an_explained_statement_makes() {
    let makes = |text: &str| match utility(text) {
        Utility::Explain { makes, .. } => {
            makes.map(|name| format!("{}.{}", name.schema.unwrap_or_default(), name.name))
        }
        other => panic!("{text}: {other:?}"),
    };
    for (text, made) in [
        ("EXPLAIN ANALYZE CREATE TABLE T AS SELECT 1", ".t"),
        (
            "EXPLAIN (COSTS off, ANALYZE) CREATE UNLOGGED TABLE IF NOT EXISTS s.\"A \"\"b\" (x) AS SELECT 1",
            "s.A \"b",
        ),
        ("EXPLAIN ANALYZE CREATE TABLE d.s.t AS EXECUTE p", "s.t"),
        ("explain analyze create materialized view if not exists v as select 1", ".v"),
        ("EXPLAIN ANALYZE SELECT 1 AS n INTO t FROM u", ".t"),
        ("EXPLAIN ANALYZE WITH x AS (SELECT 1) SELECT * INTO UNLOGGED TABLE s.t FROM x", "s.t"),
        ("EXPLAIN ANALYZE WITH x AS (INSERT INTO u VALUES (1) RETURNING *) SELECT * INTO t FROM x", ".t"),
        ("EXPLAIN ANALYZE (SELECT 1 AS n INTO t)", ".t"),
        ("EXPLAIN ANALYZE SELECT 1 AS temp INTO t", ".t"),
    ] {
        assert_eq!(makes(text).as_deref(), Some(made), "{text}");
    }
    for text in [
        "EXPLAIN CREATE TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
        "EXPLAIN ANALYZE MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
        "EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE SELECT 1 INTO TEMPORARY TABLE t",
        "EXPLAIN ANALYZE SELECT 'a INTO b' -- INTO c",
    ] {
        assert_eq!(makes(text), None, "{text}");
    }
}

#[test]
fn texts_are_split_as_the_server_splits_them() {
    let names = |text: &str| -> Vec<String> {
        let name = |what: &What| match what {
            What::Tree => "tree".to_owned(),
            What::Utility(utility) => utility.name().to_owned(),
        };
        statements(text).iter().map(|s| format!("{} {}", name(&s.what), &text[s.range.clone()])).collect()
    };
    assert_eq!(
        names(" BEGIN; UPDATE t SET a = ';' ;/* ; */ COMMIT ; "),
        ["begin BEGIN", "tree UPDATE t SET a = ';'", "commit COMMIT"]
    );
    assert_eq!(
        names(
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT \u{2603}.a; \u{e9}"
        ),
        [
            "unknown CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT \u{2603}.a; \u{e9}"
        ],
        "a syntax error anywhere: the server runs nothing"
    );
    assert_eq!(
        names("SELECT '\u{2603}' ; SET a.b = '\u{e9}'"),
        ["tree SELECT '\u{2603}'", "set SET a.b = '\u{e9}'"]
    );
    assert!(names(" ;; -- x").is_empty() && names("").is_empty());
    assert_eq!(names("BEGIN;;COMMIT").len(), 2);
}

#[test]
fn backslashes_may_hide_a_semicolon() {
    let what =
        |text| split(text, Strings::Escaping).into_iter().map(|statement| statement.what).collect::<Vec<_>>();
    assert_eq!(what("SET a.b = 'x\\'; COMMIT; --'"), [What::Utility(set("a.b", "x'; COMMIT; --"))]);
    assert_eq!(what("SELECT 'x\\'; COMMIT; --'"), [What::Tree]);
    assert_eq!(what("SELECT 'x\\''; COMMIT"), [What::Utility(Utility::Unknown)]);
    assert_eq!(what("SELECT 'x'; COMMIT").len(), 2);
    assert_eq!(what(" -- \\"), []);
}

/// A client's text must never end the process. These run on a thread's usual stack.
#[test]
fn hostile_texts_are_unknown_and_no_more() {
    let deep = |begin: &str, middle: &str, end: &str, n: usize| {
        format!("{}{middle}{}", begin.repeat(n), end.repeat(n))
    };
    for n in [40, 1000, 20_000, 100_000] {
        for expression in [
            deep("(", "1", ")", n),
            deep("1+", "1", "", n),
            deep("NOT ", "true", "", n),
            deep("(SELECT ", "1", ")", n),
            deep("CASE WHEN true THEN ", "1", " END", n / 4),
            deep("ARRAY[", "1", "]", n),
        ] {
            for text in [
                format!("EXPLAIN SELECT {expression}"),
                format!("CREATE VIEW v AS SELECT {expression}"),
                format!("SELECT {expression}; COMMIT"),
                format!("SET a.b = {expression}"),
                format!("NOTIFY {expression}"),
            ] {
                let all = statements(&text);
                assert!(!all.is_empty());
                assert!(all.len() == 2 || !matches!(all[0].what, What::Tree));
            }
        }
    }
    for text in [
        "\0",
        "SET a.b = '\0'",
        "\u{feff}SELECT 1",
        "SET",
        "SET a.b = ",
        "EXPLAIN",
        "COPY",
        "COPY (",
        "PREPARE p",
        "DECLARE",
    ] {
        assert_eq!(
            statements(text).iter().filter(|s| s.what == What::Utility(Utility::Unknown)).count(),
            1,
            "{text:?}"
        );
    }
}

#[test]
fn the_cache_asks_once_and_stays_small() {
    let mut utilities = Utilities::new(64 * 1024);
    let mut look = |text: &str, strings| utilities.look(&Shape::of(text, strings), text, strings);
    assert_eq!(look(" ; ", Strings::Standard), Held::Nothing);
    assert_eq!(look("SELECT 1;", Strings::Standard), Held::Tree);
    let Held::Statements(first) = look("BEGIN", Strings::Standard) else { panic!() };
    let Held::Statements(second) = look("BEGIN", Strings::Standard) else { panic!() };
    assert!(std::rc::Rc::ptr_eq(&first, &second));
    let text = "SELECT 'x\\'; SELECT 'y'";
    let Held::Statements(two) = look(text, Strings::Standard) else { panic!() };
    let Held::Statements(unknown) = look(text, Strings::Escaping) else { panic!() };
    assert_eq!((two.len(), &unknown[0].what), (2, &What::Utility(Utility::Unknown)));
    for n in 0..5_000 {
        look(&format!("SET a.b = {n}"), Strings::Standard);
    }
    assert!(utilities.bytes() <= 64 * 1024 && utilities.bytes() > 16 * 1024);
}

#[test]
fn what_a_backslash_meant_in_the_last_text_is_nothing_to_the_next() {
    let text = r"COPY t FROM g('a' b ']\'y'";
    let first = split(text, Strings::Escaping);
    assert_eq!(split(text, Strings::Escaping), first);
}
