//! Objects of Consort at the nodes do not serve clients, and changes that would make nodes different are refused or carried.

use local_cluster::Options;
use testkit::Scratch;

use super::{Peers, in_memory, with_each_capture};
use crate::fixture::eventually;
use crate::load::Client;

fn refused(client: &mut Client, sql: &str, sqlstate: &str) {
    let trouble = client.rows(sql).expect_err(sql);
    assert_eq!(trouble.sqlstate.as_deref(), Some(sqlstate), "{sql}: {}", trouble.text);
}

/// Functions, tables and settings of the schema have no effect for a role without rights.
#[test]
fn functions_and_settings_of_consort_serve_no_client() {
    with_each_capture(|peers| {
        let mut owner = peers.client();
        for sql in
            ["CREATE ROLE mallory LOGIN", "CREATE TABLE t (id int PRIMARY KEY)", "GRANT ALL ON t TO mallory"]
        {
            owner.rows(sql).expect(sql);
        }
        peers.equal("SELECT count(*) FROM pg_roles WHERE rolname = 'mallory'");
        let mut mallory = Client::connect(&peers.serving.url("mallory", "postgres")).expect("a log-in");
        for sql in [
            "SELECT value FROM consort.secret",
            "INSERT INTO consort.permits (xact, running) VALUES (pg_current_xact_id(), true)",
            "DELETE FROM consort.notes",
            "SELECT consort.capture('guessed')",
            "SELECT consort.certifies('guessed')",
            "SELECT consort.renews('guessed')",
            "SELECT set_config('session_preload_libraries', 'consort certifies', false)",
            "SELECT consort.commit_at('guessed', '99')",
            "SELECT consort.link('guessed')",
            "SELECT consort.follow_link('guessed', '3')",
            "SELECT consort.spill()",
            "SELECT consort.permit('guessed', 'postgres', '')",
            "SELECT consort.run_as('postgres', '', 'DROP TABLE t')",
            "SELECT consort.note_statement('guessed', 'DROP TABLE t', 'postgres', 'public')",
            "SELECT consort.note_notify('guessed', 'DROP TABLE t')",
            "SELECT consort.note_sequences('guessed')",
            "SELECT consort.note_lock('guessed', ARRAY['t'::regclass::oid], false)",
            "SELECT consort.gather(pg_current_xact_id())",
            "SELECT consort.record_statement('DROP TABLE t', 'postgres', 'public')",
            "SELECT consort.watch('t'::regclass)",
            "SELECT consort.check_secret('guessed')",
            "CREATE FUNCTION consort.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        ] {
            refused(&mut mallory, sql, "42501");
        }
        mallory
            .rows("SELECT set_config('consort.certifies', 'on', false)")
            .expect("a setting without effect");
        mallory.rows("INSERT INTO t VALUES (1)").expect("an ordinary change");
        assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"1\")]]");
        becomes_no_other_role(peers, &mut owner, &mut mallory);
        // Behind Consort's back nothing commits that it would have to know of.
        let node = &peers.cluster().nodes()[0];
        let direct = node.query(
            "postgres",
            "SET consort.certifies = 'on'; SET consort.inside = 'on'; INSERT INTO t VALUES (2)",
        );
        assert!(direct.expect_err("refused").to_string().contains("was not certified"));
        let direct = node.query("postgres", "SET consort.ddl = 'on'; CREATE TABLE hidden (a int)");
        assert!(direct.expect_err("refused").to_string().contains("would not be certified"));
        assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"1\")]]");
    });
}

/// Code that a command calls runs once, and at no node as another role than the client's.
/// Every function of the schema that a role may call asks for the secret, or has no effect.
#[test]
fn functions_that_roles_may_call_ask_for_the_secret() {
    with_each_capture(|peers| {
        let mut owner = peers.client();
        owner.rows("CREATE ROLE mallory LOGIN").expect("a role");
        peers.equal("SELECT count(*) FROM pg_roles WHERE rolname = 'mallory'");
        let callable = "SELECT proname, format('SELECT consort.%I(%s)', proname, (SELECT string_agg(format('%L::%s', \
                CASE WHEN n = 1 THEN 'guessed' WHEN t = 'bool'::regtype THEN 'true' WHEN typelem <> 0 AND typlen = -1 THEN '{}' ELSE '1' END, \
                t::regtype), ', ' ORDER BY n) FROM unnest(proargtypes) WITH ORDINALITY a (t, n) JOIN pg_type y ON y.oid = t)) \
            FROM pg_proc WHERE pronamespace = 'consort'::regnamespace AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) \
              AND has_function_privilege('mallory', oid, 'EXECUTE') ORDER BY 1, 2";
        let node = &peers.cluster().nodes()[0];
        let mut mallory = Client::connect(&peers.serving.url("mallory", "postgres")).expect("a log-in");
        let mut asked = 0;
        for row in node.query("postgres", callable).expect("functions") {
            let [Some(name), Some(call)] = &row[..] else { panic!("{row:?}") };
            // The settings of the session, the life of the server, and the session's own flush.
            if matches!(name.as_str(), "settings" | "incarnation" | "native_flush") {
                continue;
            }
            refused(&mut mallory, call, "42501");
            asked += 1;
        }
        assert!(asked > 10, "{asked}");
    });
}

fn becomes_no_other_role(peers: &Peers, owner: &mut Client, mallory: &mut Client) {
    owner.rows("CREATE SCHEMA own AUTHORIZATION mallory").expect("a schema");
    peers.equal("SELECT count(*) FROM pg_namespace WHERE nspname = 'own'");
    for sql in [
        "CREATE TABLE own.seen (who text)",
        "CREATE FUNCTION own.looks() RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
           INSERT INTO own.seen VALUES (current_user); RETURN current_user; END $$",
        "CREATE TABLE own.made AS SELECT own.looks() AS who",
        "CREATE FUNCTION own.rises() RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
           PERFORM set_config('role', 'none', true); EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN 'x'; \
           EXCEPTION WHEN OTHERS THEN RETURN 'y'; END $$",
        "CREATE TABLE own.risen (a int)",
        "INSERT INTO own.risen VALUES (1)",
        "ALTER TABLE own.risen ADD COLUMN b text DEFAULT own.rises()",
    ] {
        mallory.rows(sql).expect(sql);
    }
    let seen =
        "SELECT (SELECT string_agg(who, ',') FROM own.seen), (SELECT string_agg(who, ',') FROM own.made)";
    assert_eq!(peers.equal(seen), "[[Some(\"mallory\"), Some(\"mallory\")]]");
    let owner = "SELECT tableowner, rolsuper FROM pg_tables, pg_roles WHERE tablename = 'made' AND rolname = 'mallory'";
    assert_eq!(peers.equal(owner), "[[Some(\"mallory\"), Some(\"f\")]]");
}

/// The owner of a table cannot take the capture away from it.
#[test]
fn capture_of_a_table_cannot_be_removed() {
    with_each_capture(|peers| {
        let mut client = peers.client();
        client.rows("CREATE TABLE t (id int PRIMARY KEY)").expect("a table");
        refused(&mut client, "DROP TRIGGER consort_notes ON t", "42501");
        refused(&mut client, "ALTER TRIGGER consort_notes ON t RENAME TO other", "42501");
        refused(&mut client, "DROP TABLE consort.notes CASCADE", "42501");
        refused(&mut client, "CREATE UNLOGGED TABLE u (id int)", "0A000");
        refused(&mut client, "ALTER TABLE t SET UNLOGGED", "0A000");
        client.rows("ALTER TABLE t DISABLE TRIGGER ALL").expect("a command");
        client.rows("INSERT INTO t VALUES (1)").expect("a row");
        client.rows("ALTER TABLE t DISABLE TRIGGER consort_notes").expect("a command");
        client.rows("INSERT INTO t VALUES (2)").expect("a row");
        assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"2\")]]");
    });
}

/// Nodes give values of their own, also after a sequence was set, restarted, or given another increment.
#[test]
fn values_of_sequences_are_distinct_whatever_is_done_to_them() {
    let peers = Peers::start(in_memory());
    let mut clients = peers.clients::<3>();
    clients[0].rows("CREATE TABLE t (id serial PRIMARY KEY, a int)").expect("a table");
    for sql in [
        "SELECT 1",
        "ALTER SEQUENCE t_id_seq RESTART WITH 1000",
        "SELECT setval('t_id_seq', 2000)",
        "SELECT pg_catalog.setval('t_id_seq', max(id), true) FROM t",
        "ALTER SEQUENCE t_id_seq INCREMENT BY 10",
        "SELECT setval('t_id_seq', 5001, false)",
        "TRUNCATE t RESTART IDENTITY",
        "ALTER TABLE t ALTER id SET DEFAULT nextval('t_id_seq')",
    ] {
        clients[1].rows(sql).expect(sql);
        peers.equal("SELECT count(*) FROM t");
        for client in &mut clients {
            for _ in 0..3 {
                client
                    .rows("INSERT INTO t (a) VALUES (1)")
                    .unwrap_or_else(|trouble| panic!("{sql}: {}", trouble.text));
            }
        }
    }
    clients[2].rows("SELECT setval('t_id_seq', 90001)").expect("a value");
    peers.equal("SELECT count(*) FROM t");
    for client in &mut clients {
        let value = client.number("SELECT nextval('t_id_seq')").expect("a value");
        assert!(value > 90_001, "{value}");
    }
}

/// Equal keys with other texts are found: of two transactions one commits.
#[test]
fn equal_keys_with_other_texts_conflict() {
    with_each_capture(|peers| {
        let mut clients = peers.clients::<2>();
        for sql in [
            "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            "CREATE TABLE named (name text COLLATE ci PRIMARY KEY)",
            "CREATE TABLE ranged (r numrange PRIMARY KEY)",
        ] {
            clients[0].rows(sql).expect(sql);
        }
        peers.equal("SELECT count(*) FROM named");
        for (one, other) in [
            ("INSERT INTO named VALUES ('ann')", "INSERT INTO named VALUES ('ANN')"),
            ("INSERT INTO ranged VALUES ('[1.0,2)')", "INSERT INTO ranged VALUES ('[1.00,2)')"),
        ] {
            for (client, sql) in clients.iter_mut().zip([one, other]) {
                client.rows("BEGIN").expect("a block");
                client.rows(sql).expect(sql);
            }
            clients[0].rows("COMMIT").expect("the first one");
            refused(&mut clients[1], "COMMIT", "40001");
            clients[1].rows("ROLLBACK").expect("the end");
        }
        peers.equal("SELECT (SELECT count(*) FROM named), (SELECT count(*) FROM ranged)");
    });
}

/// A node whose rows are others than those of the node that changes them stops, says why, and takes no sessions.
#[test]
fn node_with_other_rows_leaves() {
    let peers = Peers::start(in_memory());
    let mut client = peers.client();
    client.rows("CREATE TABLE t (id int PRIMARY KEY, v int)").expect("a table");
    client.rows("INSERT INTO t VALUES (1, 0), (2, 0)").expect("rows");
    peers.equal("SELECT count(*) FROM t");
    let at = client.number("SELECT number FROM consort.place").expect("a node");
    let other = &peers.cluster().nodes()[usize::from(at == 0)];
    other
        .query("postgres", "SET session_replication_role = replica; DELETE FROM t WHERE id = 1")
        .expect("behind its back");
    client.rows("UPDATE t SET v = 1 WHERE id = 1").expect("a change");
    let mut console = Client::connect(&peers.serving.url("postgres", "consort")).expect("the console");
    eventually("the node leaves", || {
        let rows = console.rows("SHOW NODES").expect("nodes");
        let of_node = |row: &&tokio_postgres::SimpleQueryRow| row.get("node") == Some(other.name());
        rows.iter().filter(of_node).any(|row| row.get("why").is_some_and(|why| why.contains("other rows")))
    });
    client.rows("UPDATE t SET v = 2 WHERE id = 1").expect("the others go on");
    for _ in 0..3 {
        assert_ne!(peers.client().number("SELECT v FROM t WHERE id = 1").expect("a row"), 0);
    }
}

/// Commands in functions are refused whatever came before, and writes of a COMMIT itself are on no node or on all.
#[test]
fn writes_that_no_capture_sees_are_refused() {
    with_each_capture(|peers| {
        let mut client = peers.client();
        for sql in [
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE FUNCTION makes() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE made (id int); RETURN 1; END $$",
            "CREATE FUNCTION adds(id int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (id) RETURNING id'",
        ] {
            client.rows(sql).expect(sql);
        }
        for before in ["CREATE TEMP TABLE tt (i int)", "DROP TABLE IF EXISTS nothing", "REINDEX TABLE t"] {
            client.rows("BEGIN").expect("a block");
            client.rows(before).expect(before);
            refused(&mut client, "SELECT makes()", "0A000");
            client.rows("ROLLBACK").expect("the end");
        }
        client.rows("BEGIN").expect("a block");
        client.rows("INSERT INTO t VALUES (1)").expect("a row");
        client.rows("DECLARE c CURSOR WITH HOLD FOR SELECT adds(2)").expect("a cursor");
        let _ = client.rows("COMMIT");
        peers.equal("SELECT string_agg(id::text, ' ') FROM t");
        refused(&mut client, "EXPLAIN ANALYZE CREATE TABLE e AS SELECT 1", "0A000");
        // Errors tell no parameters of Consort's own commands.
        client.rows("SET log_parameter_max_length_on_error = -1").expect("a setting");
        client.rows("BEGIN READ ONLY").expect("a block");
        let trouble = client.rows("NOTIFY x").expect_err("read-only");
        assert!(!format!("{trouble:?}").contains("parameters:"), "{trouble:?}");
    });
}

/// COPY may follow a change in one text, and a session hears its own notifications.
#[test]
fn psql_copies_behind_a_change_and_hears_itself() {
    with_each_capture(|peers| {
        let url = peers.url();
        crate::fixture::psql(&url, "CREATE TABLE t (id int PRIMARY KEY)").worked();
        let (worked, said) =
            super::write_sets::by_psql_command(&url, &["DELETE FROM t; COPY t FROM STDIN"], "1\n2\n");
        assert!(worked, "{said}");
        assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"2\")]]");
        let (worked, said) =
            super::write_sets::by_psql_command(&url, &["LISTEN c", "NOTIFY c", "SELECT 1"], "");
        assert!(worked && said.contains("notification \"c\""), "{said}");
    });
}

/// A client of COPY looks no further than CommandComplete, so that this one comes behind the commit only. Half of the COPY
/// commands are refused by force.
#[test]
fn a_refused_copy_has_not_completed() {
    let servers = Scratch::with(Options { standbys: 0, peers: 3, ..Scratch::options() });
    let peers = Peers::over_with(servers, in_memory(), "sql", "debug.abort_percent = 50\n");
    let url = peers.url();
    crate::fixture::psql(&url, "CREATE TABLE t (id int PRIMARY KEY)").worked();
    let completed = (0..20).filter(|id| {
        let (_, said) = super::write_sets::by_psql_command(&url, &["COPY t FROM STDIN"], &format!("{id}\n"));
        assert!(said.contains("COPY 1") != said.contains("could not serialize"), "{said}");
        said.contains("COPY 1")
    });
    let completed = completed.count();
    assert!((1..20).contains(&completed), "some of both: {completed}");
    assert_eq!(peers.equal("SELECT count(*) FROM t"), format!("[[Some(\"{completed}\")]]"));
}
