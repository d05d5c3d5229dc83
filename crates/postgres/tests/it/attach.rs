//! Attaching, its effect on DDL, and complete removal.

use crate::one;
use history::{Epoch, Lsn};
use postgres::address::Control;
use postgres::attach::{self, Attached, Patience, UnreplicableDdl};
use postgres::{Decoder, Error};
use std::time::Duration;
use testkit::Scratch;

async fn attached(scratch: &Scratch) -> (Control, Attached) {
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    let attached = attach::attach(&control).await.unwrap();
    (control, attached)
}

/// Output of a slot of the test decoder, as text: the noted DDL.
fn noted(scratch: &Scratch) -> Vec<String> {
    let rows = scratch.query(
        "SELECT data FROM pg_logical_slot_get_changes('ears', NULL, NULL, 'skip-empty-xacts', '1') \
         WHERE data LIKE 'table consort.log: INSERT%'",
    );
    rows.iter().map(|row| row[0].clone().unwrap()).collect()
}

/// The database of a replica whose server has become a primary.
#[tokio::test]
async fn what_was_a_copy_is_no_more_read_only_by_default_when_it_is_attached() {
    let scratch = Scratch::start(0);
    let guard = "ALTER DATABASE postgres SET default_transaction_read_only = on";
    let guards = "SELECT count(*) FROM pg_db_role_setting WHERE setrole = 0 AND setdatabase <> 0";
    scratch.query(guard);
    let (control, _) = attached(&scratch).await;
    assert_eq!(one(&scratch.query(guards)), "1", "a primary's own stays");
    attach::detach(&control).await.unwrap();
    scratch.query("CREATE SCHEMA consort; CREATE TABLE consort.position (shown text NOT NULL)");
    attach::attach(&control).await.unwrap();
    assert_eq!(one(&scratch.query(guards)), "0");
    scratch.query(guard);
    attach::attach(&control).await.unwrap();
    assert_eq!(one(&scratch.query(guards)), "1", "what is attached already is left as it is");
}

#[tokio::test]
async fn attaching_may_be_repeated_and_undone() {
    let scratch = Scratch::start(0);
    scratch.query(
        "CREATE TABLE keyed (id int PRIMARY KEY); CREATE TABLE bare (n int); CREATE TABLE held (n int); \
         CREATE TABLE late (id int PRIMARY KEY DEFERRABLE); CREATE UNLOGGED TABLE gone (n int); \
         CREATE TABLE nothing (id int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING",
    );
    let (control, first) = attached(&scratch).await;
    assert_eq!(first.given_identity, ["public.bare", "public.held", "public.late", "public.nothing"]);
    assert_eq!(first.slot, format!("consort_postgres_{}", first.database));
    assert!(first.created && first.from > Lsn::ZERO && first.locked.is_empty());

    // The table is bare again, and locked by a transaction that is younger than the event triggers.
    scratch.query(
        "ALTER EVENT TRIGGER consort_ddl_command_end DISABLE; ALTER TABLE held REPLICA IDENTITY DEFAULT",
    );
    scratch.query("ALTER EVENT TRIGGER consort_ddl_command_end ENABLE ALWAYS");
    let holder = crate::client(&scratch.address("postgres")).await.unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE held IN ACCESS SHARE MODE").await.unwrap();
    let locked = attach::attach(&control).await.unwrap();
    assert_eq!((locked.given_identity.len(), locked.locked), (0, vec!["public.held".to_owned()]));
    holder.batch_execute("COMMIT").await.unwrap();

    let second = attach::attach(&control).await.unwrap();
    assert_eq!(second.given_identity, ["public.held"]);
    assert_eq!((second.created, second.locked.len()), (false, 0));
    assert!(attach::missing(&control).await.unwrap().is_empty());
    scratch.query(
        "UPDATE bare SET n = 1; UPDATE late SET id = 1; UPDATE nothing SET id = 1; UPDATE held SET n = 1",
    );

    scratch.query("ALTER EVENT TRIGGER consort_sql_drop DISABLE; DROP PUBLICATION consort");
    let missing = attach::missing(&control).await.unwrap();
    assert_eq!(missing, ["event trigger consort_sql_drop", "publication consort"]);
    attach::attach(&control).await.unwrap();
    assert!(attach::missing(&control).await.unwrap().is_empty());

    scratch.query(
        "CREATE OR REPLACE FUNCTION consort.note_command() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'",
    );
    assert_eq!(attach::missing(&control).await.unwrap().len(), 4, "they do nothing");
    attach::attach(&control).await.unwrap();
    assert!(attach::missing(&control).await.unwrap().is_empty());

    scratch.query(
        "ALTER PUBLICATION consort SET (publish = 'insert'); DROP EVENT TRIGGER consort_sql_drop; \
         CREATE FUNCTION idle() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; \
         CREATE EVENT TRIGGER consort_sql_drop ON sql_drop EXECUTE FUNCTION idle(); \
         ALTER EVENT TRIGGER consort_sql_drop ENABLE ALWAYS",
    );
    assert_eq!(attach::missing(&control).await.unwrap().len(), 2, "they are others");
    attach::attach(&control).await.unwrap();
    assert!(attach::missing(&control).await.unwrap().is_empty());

    scratch.query("ALTER TABLE consort.log SET UNLOGGED");
    let wrong = attach::attach(&control).await.unwrap_err();
    assert!(wrong.to_string().contains("table consort.log, logged"), "{wrong}");
    scratch.query("ALTER TABLE consort.log SET LOGGED");
    attach::attach(&control).await.unwrap();

    attach::detach(&control).await.unwrap();
    holder.batch_execute("BEGIN; INSERT INTO keyed VALUES (1)").await.unwrap();
    let waited = attach::attach(&control).await.unwrap_err();
    assert!(matches!(waited, postgres::Error::NotReady(_)), "{waited:?}");
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_replication_slots")), "0");
    holder.batch_execute("COMMIT").await.unwrap();
    attach::attach(&control).await.unwrap();
    assert!(attach::detach(&control).await.unwrap());
    assert!(!attach::detach(&control).await.unwrap(), "nothing was there any more");
    assert_eq!(attach::missing(&control).await.unwrap().len(), 7);
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_replication_slots")), "0");
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_event_trigger")), "0");
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_namespace WHERE nspname = 'consort'")), "0");
}

/// The owner of a database makes objects there that Consort would run as a superuser.
#[tokio::test]
async fn nothing_of_a_lesser_role_is_taken_for_consorts_own() {
    let scratch = Scratch::start(0);
    scratch
        .query("CREATE ROLE owner LOGIN; CREATE TABLE caught (who text); GRANT INSERT ON caught TO PUBLIC");
    scratch.query("ALTER DATABASE postgres OWNER TO owner");
    let owner = crate::client(&scratch.address("postgres").with_user("owner")).await.unwrap();
    owner
        .batch_execute(
            "CREATE SCHEMA consort; CREATE FUNCTION consort.f() RETURNS text LANGUAGE plpgsql \
             AS 'BEGIN INSERT INTO public.caught VALUES (current_user); RETURN NULL; END'; \
             CREATE TABLE consort.log (command text NOT NULL, objects text, x text DEFAULT consort.f())",
        )
        .await
        .unwrap();
    let control = Control::connect(&scratch.address("postgres")).await.unwrap();
    let refused = attach::attach(&control).await.unwrap_err();
    assert!(refused.is("42501") && refused.to_string().contains("belongs to owner"), "{refused}");
    assert!(
        attach::missing(&control)
            .await
            .unwrap()
            .contains(&"schema consort of control_user or a superuser".to_owned())
    );
    scratch.query("DROP SCHEMA consort CASCADE");

    // A name of PostgreSQL's own, found first or better by a search_path of the database.
    owner
        .batch_execute(
            "CREATE SCHEMA mine; CREATE FUNCTION mine.to_regclass(text) RETURNS regclass LANGUAGE plpgsql \
             AS 'BEGIN INSERT INTO public.caught VALUES (current_user); RETURN NULL; END'; \
             ALTER DATABASE postgres SET search_path = mine, pg_catalog",
        )
        .await
        .unwrap();
    let control = Control::connect(&scratch.address("postgres")).await.unwrap();
    attach::attach(&control).await.unwrap();
    assert!(attach::missing(&control).await.unwrap().is_empty());
    assert_eq!(one(&scratch.query("SELECT count(*) FROM public.caught")), "0");
}

#[tokio::test]
async fn every_ddl_command_is_noted_and_temporary_tables_are_not() {
    let scratch = Scratch::start(0);
    let (_control, _) = attached(&scratch).await;
    scratch.query("SELECT pg_create_logical_replication_slot('ears', 'test_decoding')");
    for (sql, noted_times) in [
        ("CREATE TABLE t (id int PRIMARY KEY, n int)", 1),
        ("CREATE VIEW v AS SELECT id FROM t", 1),
        ("CREATE OR REPLACE VIEW v AS SELECT id + 0 AS id FROM t", 1),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", 1),
        ("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 2'", 1),
        ("GRANT SELECT ON t TO PUBLIC", 1),
        ("CREATE POLICY p ON t USING (true)", 1),
        ("DROP POLICY p ON t", 1),
        ("ALTER TABLE t RENAME COLUMN n TO m", 1),
        ("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC", 1),
        ("CREATE INDEX ON t (m)", 1),
        ("CREATE ROLE anna; CREATE ROLE bert; REASSIGN OWNED BY anna TO bert", 0),
        ("GRANT SELECT ON t TO anna", 1),
        ("DROP OWNED BY anna", 1),
        ("COMMENT ON TABLE t IS 'x'", 1),
        ("CREATE FUNCTION pg_temp.g() RETURNS int LANGUAGE sql AS 'SELECT 1'", 0),
        // Rewritten, and then altered.
        ("ALTER TABLE t ALTER m TYPE bigint", 2),
        ("DO $$ BEGIN CREATE TYPE e AS ENUM ('a'); END $$", 1),
        ("SET session_replication_role = replica; CREATE SEQUENCE s", 1),
        ("DROP FUNCTION f()", 1),
        ("CREATE TABLE IF NOT EXISTS t (n int)", 0),
        ("DROP TABLE IF EXISTS nowhere", 0),
        ("INSERT INTO t VALUES (1, 2); UPDATE t SET m = 3; TRUNCATE t", 0),
        (
            "CREATE TEMP TABLE x (id serial PRIMARY KEY, n int DEFAULT 1); CREATE INDEX ON x (n); \
          ALTER TABLE x ADD y int; CREATE TEMP VIEW xv AS SELECT id FROM x; \
          ALTER TABLE x ALTER y TYPE bigint; DROP VIEW xv; DROP TABLE x",
            0,
        ),
        ("CREATE TEMP TABLE x ON COMMIT DROP AS SELECT 1", 0),
        ("VACUUM t", 0),
    ] {
        scratch.query(sql);
        let lines = noted(&scratch);
        assert_eq!(lines.len(), noted_times, "{sql}: {lines:?}");
    }
    scratch.query("CREATE TABLE u (n int); SELECT 1 AS n INTO w; CREATE TABLE z AS SELECT 1 AS n");
    assert_eq!(one(&scratch.query("SELECT count(*) FROM consort.log")), "0");
}

#[tokio::test]
async fn tables_without_a_key_get_an_identity_in_the_same_transaction() {
    let scratch = Scratch::start(0);
    let (_control, _) = attached(&scratch).await;
    scratch.query(
        "CREATE ROLE anna LOGIN; GRANT CREATE ON SCHEMA public TO anna; GRANT CREATE ON DATABASE postgres TO anna; CREATE EXTENSION hstore; \
         CREATE SCHEMA \"O'Hara \"\"x\"\"\"",
    );
    let anna = scratch.address("postgres").with_user("anna");
    let anna = crate::client(&anna).await.unwrap();
    for sql in [
        "CREATE TABLE bare (n int)",
        "CREATE TABLE filled AS SELECT 1 AS n",
        "SELECT 1 AS n INTO chosen",
        "BEGIN; CREATE TABLE inblock (n int); INSERT INTO inblock VALUES (1); UPDATE inblock SET n = 2; COMMIT",
        "CREATE TABLE parent (n int) PARTITION BY LIST (n); CREATE TABLE leaf PARTITION OF parent DEFAULT",
        "CREATE TABLE keyed (n int PRIMARY KEY); ALTER TABLE keyed DROP CONSTRAINT keyed_pkey",
        "CREATE TABLE chosen_index (n int NOT NULL); CREATE UNIQUE INDEX ci ON chosen_index (n); \
         ALTER TABLE chosen_index REPLICA IDENTITY USING INDEX ci; DROP INDEX ci",
        "CREATE UNLOGGED TABLE logged (n int); ALTER TABLE logged SET LOGGED",
        "CREATE TABLE deferred (n int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE nothing (n int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING",
        "CREATE SCHEMA AUTHORIZATION anna CREATE TABLE inner_one (n int)",
    ] {
        anna.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let table =
            sql.split_whitespace().skip_while(|word| !["TABLE", "INTO"].contains(word)).nth(1).unwrap();
        if sql.contains("SCHEMA") {
            continue;
        }
        anna.batch_execute(&format!("UPDATE {table} SET n = n; DELETE FROM {table}")).await.expect(table);
    }
    scratch.query(
        "CREATE TABLE \"O'Hara \"\"x\"\"\".\"a b\" (n int); UPDATE \"O'Hara \"\"x\"\"\".\"a b\" SET n = 1",
    );
    // ALTER TABLE is impossible, too, while its own transaction reads the table.
    for sql in [
        "CREATE DOMAIN few AS int; CREATE TABLE looped (id few PRIMARY KEY, n int)",
        "INSERT INTO looped VALUES (1, 1)",
        "DO 'DECLARE r record; BEGIN FOR r IN SELECT FROM looped LOOP DROP DOMAIN few CASCADE; END LOOP; END'",
        "UPDATE looped SET n = 2",
    ] {
        anna.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    // With a key nothing is changed.
    scratch.query("CREATE TABLE own (id int PRIMARY KEY)");
    assert_eq!(one(&scratch.query("SELECT relreplident FROM pg_class WHERE relname = 'own'")), "d");
    assert_eq!(one(&scratch.query("SELECT relreplident FROM pg_class WHERE relname = 'inner_one'")), "f");
    // An author of DDL cannot make Consort's function call a function of the author's.
    anna.batch_execute(
        "CREATE FUNCTION public.format(text, regclass) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE ''caught''; END'; \
         SET search_path = public, pg_catalog; CREATE TABLE trap (n int)",
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_table_of_a_transaction_that_overlaps_attaching_gets_an_identity_before_it_is_published() {
    let scratch = Scratch::start(0);
    let author = crate::client(&scratch.address("postgres")).await.unwrap();
    let looker = crate::client(&scratch.address("postgres")).await.unwrap();
    author.batch_execute("BEGIN; CREATE TABLE young (n int); INSERT INTO young VALUES (1)").await.unwrap();
    let writes = async {
        // Attaching waits for the transaction, or has gone on without.
        let gone_on = "SELECT FROM pg_stat_activity WHERE query LIKE '%pg_stat_progress_vacuum%' AND pid <> pg_backend_pid() \
                       UNION ALL SELECT FROM pg_publication";
        while looker.query(gone_on, &[]).await.unwrap().is_empty() {}
        author.batch_execute("COMMIT").await.unwrap();
        author.batch_execute("UPDATE young SET n = 2").await.expect("at once");
    };
    let writes = tokio::time::timeout(Duration::from_secs(120), writes);
    let ((_, attached), written) = tokio::join!(attached(&scratch), writes);
    written.unwrap();
    assert_eq!((attached.given_identity, attached.locked.len()), (vec!["public.young".to_owned()], 0));
    scratch.query("UPDATE young SET n = 3");
}

#[tokio::test]
async fn a_drop_waits_for_no_table_but_its_own() {
    let scratch = Scratch::start(0);
    let (_control, _) = attached(&scratch).await;
    scratch.query(
        "CREATE TABLE bare (n int); CREATE TABLE left_bare (id int NOT NULL); CREATE UNIQUE INDEX lb ON left_bare (id); \
         CREATE TABLE gone (id int PRIMARY KEY); CREATE TABLE other (n int); CREATE INDEX other_n ON other (n)",
    );
    // Bare tables that another session held when the database was attached, for example.
    scratch.query("ALTER EVENT TRIGGER consort_ddl_command_end DISABLE");
    scratch.query(
        "ALTER TABLE bare REPLICA IDENTITY DEFAULT; ALTER TABLE left_bare REPLICA IDENTITY USING INDEX lb",
    );
    scratch.query("ALTER EVENT TRIGGER consort_ddl_command_end ENABLE ALWAYS");
    let holder = crate::client(&scratch.address("postgres")).await.unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE bare, left_bare IN ACCESS SHARE MODE").await.unwrap();
    let other = crate::client(&scratch.address("postgres")).await.unwrap();
    other.batch_execute("SET lock_timeout = '2s'").await.unwrap();
    for sql in ["DROP TABLE gone", "DROP INDEX CONCURRENTLY other_n", "DROP TABLE other"] {
        other.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    let identity = "SELECT relreplident FROM pg_class WHERE relname = 'bare'";
    assert_eq!(one(&scratch.query(identity)), "d");
}

#[tokio::test]
async fn what_a_drop_bares_gets_an_identity() {
    let scratch = Scratch::start(0);
    let (_control, _) = attached(&scratch).await;
    scratch.query("SELECT pg_create_logical_replication_slot('ears', 'test_decoding')");
    let chosen = "CREATE TABLE t (n int NOT NULL); CREATE UNIQUE INDEX i ON t (n); ALTER TABLE t REPLICA IDENTITY USING INDEX i";
    for (prepare, drop) in [
        (chosen, "DROP INDEX CONCURRENTLY i"),
        (chosen, "DROP INDEX i"),
        ("CREATE TABLE t (n int PRIMARY KEY)", "ALTER TABLE t DROP CONSTRAINT t_pkey"),
        (
            "CREATE DOMAIN d AS int; CREATE TABLE t (k d DEFAULT 1 PRIMARY KEY, n int)",
            "DROP DOMAIN d CASCADE",
        ),
        (
            "CREATE DOMAIN d AS int; CREATE TABLE t (k d DEFAULT 1 NOT NULL, n int); CREATE UNIQUE INDEX i ON t (k); \
             ALTER TABLE t REPLICA IDENTITY USING INDEX i",
            "DROP DOMAIN d CASCADE",
        ),
        (
            "CREATE TABLE p (n int PRIMARY KEY) PARTITION BY LIST (n); CREATE TABLE t PARTITION OF p DEFAULT",
            "ALTER TABLE p DROP CONSTRAINT p_pkey",
        ),
        (
            "CREATE SCHEMA \"s t\"; CREATE TABLE \"s t\".\"a.b\" (n int PRIMARY KEY); CREATE VIEW t AS TABLE \"s t\".\"a.b\"",
            "ALTER TABLE \"s t\".\"a.b\" DROP CONSTRAINT \"a.b_pkey\"",
        ),
    ] {
        scratch.query(prepare);
        scratch.query("INSERT INTO t (n) VALUES (1)");
        noted(&scratch);
        scratch.query(drop);
        assert!(!noted(&scratch).is_empty(), "{drop}");
        scratch.query("UPDATE t SET n = 2; DELETE FROM t");
        scratch.query("DROP DOMAIN IF EXISTS d CASCADE; DROP TABLE IF EXISTS p; DROP SCHEMA IF EXISTS \"s t\" CASCADE; DROP TABLE IF EXISTS t");
    }
}

#[tokio::test]
async fn an_identity_is_given_on_demand_to_ones_own_tables_only() {
    let scratch = Scratch::start(0);
    let (control, _) = attached(&scratch).await;
    scratch.query("CREATE ROLE anna LOGIN; GRANT CREATE ON SCHEMA public TO anna");
    // An older Consort left it like this: attaching again adds the newer objects.
    scratch.query("DROP FUNCTION consort.give_identity; REVOKE USAGE ON SCHEMA consort FROM PUBLIC");
    assert_eq!(attach::missing(&control).await.unwrap(), ["function consort.give_identity"]);
    attach::attach(&control).await.unwrap();
    assert!(attach::missing(&control).await.unwrap().is_empty());

    let anna = crate::client(&scratch.address("postgres").with_user("anna")).await.unwrap();
    scratch.query("EXPLAIN ANALYZE CREATE TABLE others AS SELECT 1 AS n");
    anna.batch_execute("EXPLAIN ANALYZE SELECT 1 AS n INTO \"o w n\"").await.unwrap();
    for table in ["others", "\"o w n\"", "nowhere"] {
        anna.batch_execute(&format!("SELECT consort.give_identity(to_regclass('{table}'))")).await.unwrap();
    }
    anna.batch_execute("UPDATE \"o w n\" SET n = 2").await.unwrap();
    assert_eq!(one(&scratch.query("SELECT relreplident FROM pg_class WHERE relname = 'others'")), "d");
    let log = anna.batch_execute("SELECT FROM consort.log").await.map_err(Error::from).unwrap_err();
    assert!(log.is("42501"), "{log:?}");
}

#[tokio::test]
async fn a_dump_of_an_attached_database_can_be_restored() {
    let scratch = Scratch::start(0);
    let (_control, _) = attached(&scratch).await;
    scratch.query("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)");
    scratch.query("CREATE DATABASE other");
    let primary = scratch.primary();
    let run = |program: &str, arguments: &[&str], input: &[u8]| {
        use std::io::Write;
        let mut child = testkit::program(program)
            .args(["-U", "postgres", "-p", &primary.port().to_string(), "-h"])
            .arg(primary.socket_folder())
            .args(arguments)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}");
        output.stdout
    };
    let dump = run("pg_dump", &["postgres"], b"");
    run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "other"], &dump);
    assert_eq!(one(&scratch.query_in("other", "SELECT count(*) FROM t")), "2");
    let other = crate::client(&scratch.address("other")).await.unwrap();
    let again = attach::attach(&other).await.unwrap();
    assert!(again.created && attach::missing(&other).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_missing_is_listed_with_what_mends_it() {
    let mut options = Scratch::options();
    options.standbys = 1;
    options.settings.extend(
        [
            ("wal_level", "replica"),
            ("max_replication_slots", "2"),
            ("max_slot_wal_keep_size", "-1"),
            ("wal_writer_delay", "200ms"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let scratch = Scratch::with(options);
    scratch.query("CREATE ROLE anna LOGIN");
    let control = crate::client(&scratch.address("postgres").with_user("anna")).await.unwrap();
    let findings = attach::check(&control, Some(&["a", "b", "c"].map(str::to_owned))).await.unwrap();
    let text: Vec<&str> = findings.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(text.len(), 10, "{text:?}");
    assert!(text[0].contains("wal_level is replica") && findings[0].fatal);
    assert!(text[1].contains("max_replication_slots leaves 1 free, 3 more are needed"), "{text:?}");
    for (at, right) in
        ["REPLICATION", "pg_monitor", "pg_signal_backend", "log_min_messages", "read WAL", "pg_file_settings"]
            .iter()
            .enumerate()
    {
        assert!(text[2 + at].starts_with("the role anna ") && text[2 + at].contains(right), "{text:?}");
    }
    assert!(text[8].contains("max_slot_wal_keep_size") && !findings[8].fatal);
    assert!(text[9].contains("wal_writer_delay is 200 ms") && !findings[9].fatal);
    assert!(attach::check_standby(&control, Some(&[])).await.unwrap().iter().any(|finding| finding.fatal));
    let standby = crate::client(&scratch.standby(0).address("postgres", "postgres")).await.unwrap();
    // The standby serves reads as it is. Its missing settings for a promotion are reported beforehand.
    let missing =
        async |databases: &[String]| attach::check_standby(&standby, Some(databases)).await.unwrap();
    let promoted = missing(&["a", "b", "c"].map(str::to_owned)).await;
    let text: Vec<&str> = promoted.iter().map(|finding| finding.what.as_str()).collect();
    assert!(promoted.iter().all(|finding| !finding.fatal), "{promoted:?}");
    assert_eq!(text[0], "if it is promoted: wal_level is replica");
    assert!(text[1].contains("max_replication_slots leaves 2 free, 3 more are needed"), "{text:?}");
    assert!(text[2].starts_with("if it is promoted: max_slot_wal_keep_size is -1"), "{text:?}");
    assert_eq!(text.len(), 4, "{text:?}");
    let fatal = async || {
        let all = missing(&[]).await;
        all.into_iter().filter(|finding| finding.fatal).collect::<Vec<_>>()
    };
    assert_eq!(fatal().await, []);
    standby.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
    let paused = fatal().await;
    assert!(
        paused.len() == 1 && paused[0].fatal && paused[0].what.contains("replay is paused"),
        "{paused:?}"
    );
    standby.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
    assert_eq!(fatal().await, []);
    assert!(attach::check(&standby, Some(&["a".to_owned()])).await.unwrap()[0].what.contains("a standby"));
}

#[tokio::test]
async fn a_slot_that_falls_behind_is_seen_and_made_anew() {
    let mut options = Scratch::options();
    options.standbys = 0;
    options.settings.extend(
        [("max_slot_wal_keep_size", "16MB"), ("min_wal_size", "32MB"), ("max_wal_size", "32MB")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let scratch = Scratch::with(options);
    let (control, attached) = attached(&scratch).await;
    let slots = attach::slots(&control).await.unwrap();
    assert_eq!((slots.len(), slots[0].name.as_str(), slots[0].lost), (1, attached.slot.as_str(), false));
    assert!(slots[0].left_bytes.is_some_and(|left| left > 0) && !slots[0].active);
    assert!(
        matches!(attach::attached(&control).await.unwrap(), attach::State::Attached(found) if !found.created)
    );

    // One segment more than the slot may keep, and the checkpoint that removes it.
    for _ in 0..4 {
        scratch.query("SELECT pg_logical_emit_message(true, '', '')");
        scratch.query("SELECT pg_switch_wal()");
    }
    scratch.query("CHECKPOINT");
    let slots = attach::slots(&control).await.unwrap();
    assert!(slots[0].lost, "{slots:?}");
    let state = attach::attached(&control).await.unwrap();
    assert_eq!(state, attach::State::Missing(format!("the WAL of slot {}", attached.slot)));
    let address = scratch.address("postgres");
    let opened = Decoder::open(&address, &attached.slot, attached.database, Epoch::default()).await;
    assert!(matches!(opened, Err(Error::Setup(_))));
    let again = attach::attach(&control).await.unwrap();
    assert!(again.created && again.from > attached.from);
    Decoder::open(&address, &again.slot, again.database, Epoch::default()).await.unwrap();
}

/// Content of the log of commands: each step and its outcome.
fn steps(scratch: &Scratch) -> Vec<String> {
    let rows = scratch.query(
        "SELECT data FROM pg_logical_slot_get_changes('ears', NULL, NULL, 'skip-empty-xacts', '1') \
         WHERE data LIKE 'table consort.command: INSERT%'",
    );
    let word = |data: &str, column: &str| {
        let start = data.find(&format!(" {column}[text]:")).unwrap() + column.len() + 8;
        data[start..].split(' ').next().unwrap().trim_matches('\'').to_owned()
    };
    let step = |row: &Vec<Option<String>>| {
        let data = row[0].as_deref().unwrap();
        format!("{} {}", word(data, "step"), word(data, "came_of")).replace(" null", "")
    };
    rows.iter().map(step).collect()
}

#[tokio::test]
async fn a_log_of_commands_is_made_on_demand_and_undone() {
    let scratch = Scratch::start(0);
    let (control, _) = attached(&scratch).await;
    assert!(!attach::logs_commands(&control).await.unwrap());
    for _ in 0..2 {
        attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
        assert!(attach::logs_commands(&control).await.unwrap());
    }
    scratch.query("SELECT pg_create_logical_replication_slot('ears', 'test_decoding')");
    for (sql, wanted) in [
        ("CREATE TABLE t (id int PRIMARY KEY, n int)", "begins, ended something"),
        ("CREATE TABLE IF NOT EXISTS t ()", "begins, ended nothing"),
        ("CREATE INDEX CONCURRENTLY i ON t (n)", "ended something"),
        ("DROP INDEX CONCURRENTLY i", "dropped something, ended nothing"),
        (
            "CREATE TEMP TABLE x (n int); DROP TABLE x",
            "begins, ended temporary, begins, dropped temporary, ended nothing",
        ),
        ("CREATE TEMP TABLE x ON COMMIT DROP AS SELECT 1", "begins, ended temporary"),
        ("BEGIN; SAVEPOINT s; CREATE TABLE u (); ROLLBACK TO s; COMMIT", ""),
        ("ALTER TABLE t DROP COLUMN n", "begins, dropped something, ended something"),
        ("CREATE ROLE anna; GRANT anna TO postgres", ""),
        ("INSERT INTO t VALUES (1)", ""),
    ] {
        scratch.query(sql);
        assert_eq!(steps(&scratch).join(", "), wanted, "{sql}");
    }
    // Attaching once more is a separate matter.
    attach::attach(&control).await.unwrap();
    attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
    let other = |step: &String| !matches!(step.as_str(), "begins" | "ended own" | "ended nothing");
    let others: Vec<String> = steps(&scratch).into_iter().filter(other).collect();
    // Such a step grants rights that others need.
    assert!(others.iter().all(|step| step == "ended something") && others.len() <= 4, "{others:?}");
    scratch.query("ALTER EVENT TRIGGER consort_command_ended DISABLE");
    assert!(!attach::logs_commands(&control).await.unwrap());
    attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
    scratch.query("SELECT pg_drop_replication_slot('ears')");
    attach::detach(&control).await.unwrap();
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_event_trigger")), "0");
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_namespace WHERE nspname = 'consort'")), "0");
}

#[tokio::test]
async fn the_log_of_commands_tells_whose_command_it_was_whatever_names_mean_to_him() {
    let scratch = Scratch::start(0);
    let (control, _) = attached(&scratch).await;
    attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
    scratch.query("CREATE ROLE anna; CREATE SCHEMA hers AUTHORIZATION anna");
    scratch.query("SELECT pg_create_logical_replication_slot('ears', 'test_decoding')");
    // The session tries to appear as another role in the log.
    scratch.query(
        "SET ROLE anna; SET search_path = hers, pg_catalog; \
         CREATE FUNCTION hers.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT $2'; \
         CREATE FUNCTION hers.jsonb_build_object(VARIADIC text[]) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb'; \
         SET consort.author = '{\"author\": \"postgres\"}'; CREATE TABLE t (id int PRIMARY KEY)",
    );
    let rows = scratch.query(
        "SELECT data FROM pg_logical_slot_get_changes('ears', NULL, NULL, 'skip-empty-xacts', '1') \
         WHERE data LIKE 'table consort.command: INSERT%CREATE TABLE t%'",
    );
    assert!(rows.len() >= 2, "{rows:?}");
    for row in rows {
        let data = row[0].clone().unwrap();
        assert!(data.contains(" author[text]:'anna'") && data.contains("hers, pg_catalog"), "{data}");
    }
}
