//! Objects that a dump would not restore as they are: they are copied and fed all the same, or left out.

use super::{EPOCH, Fed, another_server, server};
use crate::{one, soon};
use history::Lsn;
use postgres::attach::{self, Patience, UnreplicableDdl};
use postgres::decoder::Decoder;
use postgres::programs::Programs;
use postgres::snapshot_probe::Gauger;
use replica_apply::apply::{Error, Feeder};
use replica_apply::clone::{Chosen, clone};
use testkit::Scratch;

/// Settings under which values and definitions would mean something else.
const SETTINGS: &str = "ALTER DATABASE shop SET array_nulls = off; ALTER DATABASE shop SET transform_null_equals = on; \
    ALTER DATABASE shop SET quote_all_identifiers = on; ALTER DATABASE shop SET standard_conforming_strings = off; \
    ALTER DATABASE shop SET intervalstyle = sql_standard; ALTER DATABASE shop SET datestyle = 'SQL, DMY'; \
    ALTER DATABASE shop SET bytea_output = 'escape'; ALTER DATABASE shop SET session_replication_role = replica";

/// Tables that hold the same at a replica, whatever their checks, triggers and indexes say by now.
const ALIKE: &str = "\
    CREATE TABLE lists (id int PRIMARY KEY, a text[] CHECK (a IS NULL OR a <> '{}'), v text CHECK (v = NULL OR v <> E'\\\\x')); \
    INSERT INTO lists VALUES (1, ARRAY[NULL, 'x', 'NULL'], E'it''s \\\\'); \
    CREATE TABLE fired (n int); CREATE TABLE always (id int PRIMARY KEY); CREATE TABLE ruled (id int PRIMARY KEY); \
    CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.fired VALUES (NEW.id); RETURN NEW; END'; \
    CREATE TRIGGER fires AFTER INSERT ON always FOR EACH ROW EXECUTE FUNCTION fires(); \
    ALTER TABLE always ENABLE ALWAYS TRIGGER fires; \
    CREATE TRIGGER fires_there AFTER INSERT OR UPDATE ON always FOR EACH ROW EXECUTE FUNCTION fires(); \
    ALTER TABLE always ENABLE REPLICA TRIGGER fires_there; \
    CREATE RULE also AS ON UPDATE TO ruled DO ALSO INSERT INTO public.fired VALUES (-NEW.id); ALTER TABLE ruled ENABLE ALWAYS RULE also; \
    INSERT INTO always VALUES (1); INSERT INTO ruled VALUES (1); \
    CREATE TABLE known (id int PRIMARY KEY); INSERT INTO known VALUES (1), (2), (3); \
    CREATE FUNCTION is_known(n int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN EXISTS (SELECT FROM known WHERE id = n); END'; \
    CREATE FUNCTION named(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN (SELECT max(id) + n FROM known); END'; \
    CREATE FUNCTION plain(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n + 1'; \
    CREATE DOMAIN known_one AS int CHECK (is_known(VALUE)); \
    CREATE TABLE checked (id int PRIMARY KEY CHECK (is_known(id)), d known_one, at timestamptz DEFAULT now() CHECK (at >= now()), \
      CHECK (id > 0), EXCLUDE (named(id) WITH =)); \
    CREATE TABLE checked_below () INHERITS (checked); \
    CREATE INDEX by_name ON checked (named(id)); CREATE INDEX by_plain ON checked (plain(id)); \
    INSERT INTO checked VALUES (1, 1); INSERT INTO checked_below VALUES (2, 2); \
    CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parts DEFAULT; \
    CREATE INDEX parts_by_name ON parts (named(id)); INSERT INTO parts VALUES (1); \
    CREATE TRIGGER fires AFTER INSERT ON parts FOR EACH ROW EXECUTE FUNCTION fires(); ALTER TABLE parts ENABLE ALWAYS TRIGGER fires; \
    CREATE TABLE keyed (a int, b text, k int GENERATED ALWAYS AS (a * 10) STORED PRIMARY KEY); INSERT INTO keyed VALUES (1), (2)";

/// Tables whose contents at a replica do not matter.
const UNLIKE: &str = "\
    CREATE EXTENSION citext; CREATE TABLE elder (a int); CREATE TABLE younger (own int PRIMARY KEY) INHERITS (elder); \
    ALTER TABLE elder ADD COLUMN b int; INSERT INTO younger VALUES (1, 2, 3); \
    CREATE TABLE refers (id int PRIMARY KEY, own int REFERENCES younger); INSERT INTO refers VALUES (1, 2); \
    CREATE TYPE mood AS ENUM ('sad', 'so', 'glad', 'gone'); CREATE TABLE moods (m mood PRIMARY KEY) PARTITION BY HASH (m); \
    CREATE TABLE moods_0 PARTITION OF moods FOR VALUES WITH (modulus 2, remainder 0); \
    CREATE TABLE moods_1 PARTITION OF moods FOR VALUES WITH (modulus 2, remainder 1); INSERT INTO moods VALUES ('sad'), ('so'); \
    CREATE TABLE dropped (); CREATE TABLE names (r regclass PRIMARY KEY, n int); INSERT INTO names VALUES ('dropped'), ('elder'); \
    CREATE TABLE extends (id int); ALTER EXTENSION citext ADD TABLE extends; INSERT INTO extends VALUES (1)";

const TABLES: &[&str] =
    &["lists", "fired", "always", "ruled", "checked", "ONLY checked_below", "part", "keyed", "refers"];
const LEFT_OUT: &[&str] = &["younger", "moods_0", "moods_1", "names"];

/// How the database comes to the replica.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Dump,
    Backup,
}

/// A copy of a database with all that, and what lies between.
async fn copied(by: By) -> Fed {
    let primary = server();
    primary.query("CREATE DATABASE shop");
    for sql in SETTINGS.split("; ") {
        primary.query(sql);
    }
    for sql in [ALIKE, UNLIKE] {
        primary.query_in("shop", &format!("SET session_replication_role = origin; {sql}"));
    }
    // Replaced when there are rows already.
    primary.query_in(
        "shop",
        "SET session_replication_role = origin; CREATE FUNCTION made(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n'; \
         CREATE TABLE computed (id int PRIMARY KEY, g int GENERATED ALWAYS AS (made(id)) STORED, v int); \
         INSERT INTO computed VALUES (1), (2); \
         CREATE OR REPLACE FUNCTION made(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -n'",
    );
    copy_of(primary, by).await
}

/// A copy of the database `shop`, and what lies between.
async fn copy_of(primary: Scratch, by: By) -> Fed {
    if by == By::Backup {
        return super::backed_up::backed_up(primary, true).await;
    }
    let replica = another_server();
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let control = crate::client(&from).await.unwrap();
    let attached = attach::attach(&control).await.unwrap();
    attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
    let mut decoder = Decoder::open(&from, &attached.slot, attached.database, EPOCH).await.unwrap();
    decoder.keep_rows(true);
    let gauger = Gauger::connect(&from, EPOCH).await.unwrap();
    soon("the copy", clone(&Programs::find().unwrap(), &from, (&to, &Chosen::default()), Lsn::ZERO, &drop))
        .await
        .unwrap();
    let feeder = Feeder::open(&to, EPOCH).await.unwrap();
    Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced: Vec::new() }
}

fn compare_shops(fed: &Fed, when: &str) {
    for table in TABLES {
        let rows = format!("SELECT t::text FROM {table} AS t ORDER BY 1");
        assert_eq!(
            fed.primary.query_in("shop", &rows),
            fed.replica.query_in("shop", &rows),
            "{when}: {table}"
        );
    }
    for table in LEFT_OUT {
        let rows = format!("SELECT count(*) FROM {table}");
        assert_eq!(one(&fed.replica.query_in("shop", &rows)), "0", "{when}: {table}");
    }
}

#[tokio::test]
async fn what_a_dump_would_not_restore_as_it_is() {
    copied_fed_and_changed(By::Dump).await;
}

#[tokio::test]
async fn what_came_with_a_base_backup_is_as_a_dump_would_have_made_it() {
    copied_fed_and_changed(By::Backup).await;
}

async fn copied_fed_and_changed(by: By) {
    let mut fed = copied(by).await;
    compare_shops(&fed, "copied");
    let indexes = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relname LIKE '%by\\_%' AND relkind = 'i'";
    assert_eq!(one(&fed.replica.query_in("shop", indexes)), "by_plain");
    let rows = "SET session_replication_role = origin; INSERT INTO lists VALUES (2, ARRAY[NULL, 'y']); \
        UPDATE lists SET a = a || ARRAY[NULL] WHERE id = 1; INSERT INTO always VALUES (2); UPDATE always SET id = 3 WHERE id = 2; \
        UPDATE ruled SET id = 2; INSERT INTO checked VALUES (3, 3); UPDATE checked_below SET d = 1, at = now(); \
        UPDATE keyed SET b = 'x' WHERE k = 10; UPDATE keyed SET a = 3 WHERE a = 2; DELETE FROM keyed WHERE a = 1; \
        INSERT INTO parts VALUES (2); UPDATE younger SET b = 5; INSERT INTO moods VALUES ('glad'); UPDATE moods SET m = 'gone'  \
        WHERE m = 'sad'; DELETE FROM moods WHERE m = 'so'; UPDATE extends SET id = 2; UPDATE computed SET v = 1 WHERE id = 1";
    let rows = rows.split("; ").map(str::trim).collect::<Vec<_>>();
    fed.primary.query_in("shop", &rows.join("; "));
    fed.primary.query_in(
        "shop",
        "DROP TABLE dropped; UPDATE names SET n = 1; DELETE FROM names WHERE r::text <> 'elder'",
    );
    fed.feed().await.unwrap();
    compare_shops(&fed, "fed");
    // Commands on all that run, and what they make is no other than what is copied.
    for command in [
        "ALTER TABLE always ENABLE REPLICA TRIGGER fires",
        "CREATE TABLE later (id int PRIMARY KEY CHECK (is_known(id)), at timestamptz DEFAULT clock_timestamp(), CHECK (at >= now()))",
        "INSERT INTO later VALUES (1); INSERT INTO always VALUES (4)",
        "ALTER TABLE checked ADD COLUMN more int DEFAULT 7, ADD CHECK (named(more) > 0)",
        "UPDATE checked SET more = 8, at = now()",
        "ALTER TABLE checked_below ADD CONSTRAINT late CHECK (now() > '2000-01-01') NOT VALID",
        "CREATE TABLE later_names (id int PRIMARY KEY, r regproc)",
        "INSERT INTO later_names VALUES (1, 'is_known')",
        "ALTER TABLE computed ADD COLUMN w int",
        "ALTER TABLE names ADD COLUMN w int",
    ] {
        fed.primary.query_in("shop", &format!("SET session_replication_role = origin; {command}"));
        fed.feed().await.unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    compare_shops(&fed, "changed");
    let later = "SELECT (SELECT count(*) FROM later) + (SELECT count(*) FROM later_names)";
    assert_eq!(one(&fed.replica.query_in("shop", later)), "1");
    // Tables that would be read from then on are copied again.
    for (command, says) in [
        ("ALTER TABLE computed ALTER g DROP EXPRESSION", "what was computed here goes on as it is"),
        ("ALTER TABLE computed ALTER g DROP EXPRESSION IF EXISTS", "what was computed here goes on as it is"),
        ("ALTER TABLE elder DROP COLUMN b", "stand in another order"),
        ("ALTER TABLE moods DETACH PARTITION moods_1", "the rows of moods_1 were left out"),
        ("ALTER TABLE names DROP COLUMN r", "the rows of names were left out"),
        (
            "ALTER EXTENSION citext DROP TABLE extends",
            if by == By::Dump { "does not exist" } else { "were left out" },
        ),
    ] {
        fed.primary.query_in("shop", &format!("BEGIN; {command}; COMMIT"));
        let before = fed.unplaced.len();
        match fed.feed().await {
            Err(Error::Ddl(unrun)) => assert!(unrun.why.contains(says), "{command}: {unrun}"),
            other => panic!("{command}: {other:?} {before}"),
        }
        let shown = fed.batch().await.to;
        let there = crate::client(&fed.replica.address("shop")).await.unwrap();
        replica_apply::apply::settle(&there, &shown).await.unwrap();
        fed.feeder = Feeder::open(&fed.replica.address("shop"), EPOCH).await.unwrap();
    }
}

/// As many columns as a table may have: whoever names all of them for each of them takes minutes.
#[tokio::test]
async fn a_table_of_very_many_columns_is_compared_quickly() {
    let mut fed = Fed::logging("CREATE TABLE other (id int PRIMARY KEY)").await;
    fed.primary.query(
        "DO $$ BEGIN EXECUTE (SELECT 'CREATE TABLE wide (' || string_agg(format('a_column_with_a_name_%s int DEFAULT %s', n, n), ', ') \
           || ')' FROM generate_series(1, 1599) AS n); END $$",
    );
    fed.primary.query("ALTER TABLE wide ADD COLUMN last int DEFAULT 5; INSERT INTO wide (last) VALUES (6)");
    let again = |number: i32| format!("ALTER TABLE wide ALTER COLUMN last SET DEFAULT {number}");
    fed.primary.query(&(0..8).map(again).collect::<Vec<_>>().join("; "));
    fed.feed().await.unwrap();
    fed.compare();
}

/// A role that tries to become a superuser wherever a superuser runs its code.
const SHADY: &str = "SET ROLE shady; \
    CREATE FUNCTION takes() RETURNS void LANGUAGE plpgsql AS \
      $$BEGIN IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE shady SUPERUSER; END IF; END$$; \
    CREATE FUNCTION same(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM public.takes(); RETURN n; END$$; \
    CREATE FUNCTION apart(n float8, m float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS \
      $$BEGIN PERFORM public.takes(); RETURN n - m; END$$; \
    CREATE TYPE mood AS ENUM ('sad', 'so'); CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = apart); \
    CREATE FUNCTION moods(t text) RETURNS mood[] LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM public.takes(); RETURN '{so}'; END$$; \
    CREATE CAST (text AS mood[]) WITH FUNCTION moods(text); \
    CREATE FUNCTION shown(m mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM public.takes(); RETURN 'so'; END$$; \
    CREATE CAST (mood AS text) WITH FUNCTION shown(mood); \
    CREATE TABLE plain (id int PRIMARY KEY, m mood); CREATE TABLE keyless (n int, m mood); \
    CREATE FUNCTION shown(r plain) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM public.takes(); RETURN ''; END$$; \
    CREATE CAST (plain AS text) WITH FUNCTION shown(plain); \
    CREATE TABLE indexed (id int PRIMARY KEY); CREATE INDEX ON indexed (same(id)); \
    CREATE TABLE partial (id int PRIMARY KEY); CREATE INDEX ON partial (id) WHERE same(id) > 0; \
    CREATE TABLE generated (id int PRIMARY KEY, g int GENERATED ALWAYS AS (same(id)) STORED); \
    CREATE TABLE lists (id int PRIMARY KEY, m mood[]); \
    CREATE TABLE spans (id int PRIMARY KEY, s span); CREATE INDEX ON spans USING gist (s); \
    CREATE TABLE points (id int PRIMARY KEY, a float8); CREATE INDEX ON points USING gist (span(a, a + 2)); \
    CREATE TABLE planned (id int PRIMARY KEY, v int); CREATE STATISTICS of_planned ON (v + same(1)), v FROM planned; \
    CREATE TABLE folded (id int PRIMARY KEY, v int); CREATE INDEX ON folded ((v + same(1))); \
    CREATE FUNCTION empties() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM public.takes(); RETURN NULL; END$$; \
    CREATE TRIGGER empties BEFORE TRUNCATE ON indexed EXECUTE FUNCTION empties(); ALTER TABLE indexed ENABLE ALWAYS TRIGGER empties; \
    CREATE MATERIALIZED VIEW seen AS SELECT id, same(id) FROM plain; CREATE INDEX ON seen (same(id)); CREATE INDEX ON seen ((id + same(1)))";

const SHE_WRITES: &str = "SET ROLE shady; \
    INSERT INTO plain VALUES (1, 'sad'); INSERT INTO keyless VALUES (1, 'sad'), (1, 'so'); INSERT INTO indexed VALUES (1); \
    INSERT INTO partial VALUES (1); INSERT INTO generated VALUES (1); INSERT INTO lists VALUES (1, ARRAY['sad'::mood]); \
    INSERT INTO spans SELECT n, span(n, n + 2) FROM generate_series(1, 1000) AS n; \
    INSERT INTO points SELECT n, n FROM generate_series(1, 1000) AS n; INSERT INTO planned VALUES (1, 1); INSERT INTO folded VALUES (1, 1)";

const SHE_CHANGES: &str = "SET ROLE shady; \
    UPDATE plain SET m = 'so'; DELETE FROM keyless WHERE m = 'sad'; UPDATE indexed SET id = 2; UPDATE partial SET id = 2; \
    UPDATE generated SET id = 2; UPDATE lists SET m = '{sad,so}'; UPDATE planned SET v = 2; \
    UPDATE folded SET v = 2; INSERT INTO points SELECT n, n FROM generate_series(1001, 2000) AS n; INSERT INTO spans SELECT n, span(n, n + 2) FROM generate_series(1001, 2000) AS n";

/// A superuser writes the rows at a replica, and logs the commands at the primary. No role becomes a
/// superuser by that.
#[tokio::test]
async fn nobody_becomes_a_superuser_by_what_is_computed() {
    for (by, made_before) in [(By::Dump, true), (By::Dump, false), (By::Backup, true)] {
        let primary = server();
        primary.query("CREATE ROLE shady");
        primary.query("CREATE DATABASE shop OWNER shady");
        primary.query_in("shop", "GRANT ALL ON SCHEMA public TO shady; CREATE FUNCTION ours(n int) RETURNS int LANGUAGE sql IMMUTABLE \
            AS 'SELECT -n'; CREATE TABLE trusting (id int PRIMARY KEY); CREATE INDEX ON trusting (ours(id)); \
            ALTER TABLE trusting OWNER TO shady");
        if made_before {
            primary.query_in("shop", SHADY);
            primary.query_in("shop", SHE_WRITES);
        }
        let mut fed = copy_of(primary, by).await;
        if !made_before {
            fed.primary.query_in("shop", SHADY);
            fed.feed().await.unwrap();
            fed.primary.query_in("shop", SHE_WRITES);
            fed.feed().await.unwrap();
        }
        fed.primary.query_in("shop", SHE_CHANGES);
        fed.feed().await.unwrap();
        // A rewritten table is compared by the texts of its rows.
        fed.primary.query_in(
            "shop",
            "SET ROLE shady; ALTER TABLE plain ADD COLUMN n bigint GENERATED ALWAYS AS (id + 1) STORED",
        );
        fed.feed().await.unwrap();
        for table in ["planned", "folded"] {
            fed.primary
                .query_in("shop", &format!("SET ROLE shady; ALTER TABLE {table} ALTER COLUMN v TYPE bigint"));
            fed.feed().await.unwrap();
        }
        fed.primary.query_in("shop", "SET ROLE shady; CREATE TABLE filled AS SELECT ARRAY['sad'::mood] AS m");
        fed.feed().await.unwrap();
        fed.primary.query_in("shop", "SET ROLE shady; INSERT INTO trusting VALUES (1)");
        fed.feed().await.unwrap();

        for server in [&fed.primary, &fed.replica] {
            let she = "SELECT rolsuper FROM pg_roles WHERE rolname = 'shady'";
            assert_eq!(
                one(&server.query_in("shop", she)),
                "f",
                "by {by:?}, made before the copy: {made_before}"
            );
        }
        let held = "SELECT (SELECT array_agg(ROW(m, n)::text) FROM plain), (SELECT array_agg(ROW(m)::text) FROM keyless), \
            (SELECT count(*) FROM trusting)";
        assert_eq!(fed.replica.query_in("shop", held), fed.primary.query_in("shop", held));
        let left_out = "SELECT string_agg(relation, ' ' ORDER BY relation) FROM consort.left_out";
        let expected = "filled folded generated indexed lists partial planned points spans";
        assert_eq!(one(&fed.replica.query_in("shop", left_out)), expected);
    }
}
