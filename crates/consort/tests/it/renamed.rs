//! Names that change their meaning: databases and roles that are renamed or created again, tables that
//! precede others. A connection at a standby, and the statements parsed on it, must not keep their old
//! meaning.

use tokio_postgres::Statement;

use crate::fixture::eventually;
use crate::load::{ANYWHERE, Client, Console, READ_QUIET, THROUGH, served, serving};

/// Repetitions of a read that must be right each time.
const AGAIN: usize = 40;

/// Reads until a standby has served one; each answer must be this one.
fn leaves_as(console: &mut Console, mut read: impl FnMut() -> String, expected: &str) {
    let before = served(console, "standby1");
    eventually("a read at the standby", || {
        assert_eq!(read(), expected);
        served(console, "standby1") > before
    });
}

/// True if a standby soon serves one of these reads; each answer must be this one.
fn leaves_soon(console: &mut Console, mut read: impl FnMut() -> String, expected: &str) -> bool {
    let before = served(console, "standby1");
    (0..10).any(|_| {
        (0..AGAIN).for_each(|_| assert_eq!(read(), expected));
        served(console, "standby1") > before
    })
}

/// A prepared statement that is offloaded. On a machine that stood still for a moment, its analysis may be
/// incomplete at the parse. Then it may stay at the primary for good once the catalog changes: it is prepared
/// again.
fn prepared(console: &mut Console, client: &mut Client, sql: &str, expected: &str) -> Statement {
    let mut leaving = None;
    eventually("a prepared statement that leaves", || {
        let statement = client.prepare(sql);
        let leaves = leaves_soon(console, || client.execute(&statement), expected);
        leaving = leaves.then_some(statement);
        leaves
    });
    leaving.expect("it leaves")
}

#[test]
fn a_database_made_anew_under_the_name_of_another() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(1, lines);
        let mut admin = Client::connect(&url).unwrap();
        for value in ["the first", "the second"] {
            admin.rows("CREATE DATABASE stage").unwrap();
            let mut client = Client::connect(&serving.url("postgres", "stage")).unwrap();
            client.rows(&format!("CREATE TABLE t AS SELECT '{value}' AS v")).unwrap();
            leaves_as(&mut console, || client.one("SELECT v FROM t").unwrap(), value);
            drop(client);
            admin.rows(&format!("ALTER DATABASE stage RENAME TO \"{value}\"")).unwrap();
        }
    }
}

/// A database goes on under another name, and writes there before that count as known. No client is taken for
/// a writer past Consort.
#[test]
fn a_database_goes_on_under_another_name() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut admin = Client::connect(&url).unwrap();
    for round in 0..3 {
        let name = |kind: &str| format!("{kind}{round}");
        let (first, second) = (name("first"), name("second"));
        admin.rows(&format!("CREATE DATABASE {first}")).unwrap();
        let mut client = Client::connect(&serving.url("postgres", &first)).unwrap();
        client.rows("CREATE TABLE t AS SELECT 1 AS v").unwrap();
        leaves_as(&mut console, || client.one("SELECT v FROM t").unwrap(), "1");
        drop(client);
        admin.rows(&format!("ALTER DATABASE {first} RENAME TO {second}")).unwrap();
        admin.rows(&format!("CREATE DATABASE {first}")).unwrap();
        let mut client = Client::connect(&serving.url("postgres", &second)).unwrap();
        client.rows("UPDATE t SET v = 2").unwrap();
        leaves_as(&mut console, || client.one("SELECT v FROM t").unwrap(), "2");
        let mut client = Client::connect(&serving.url("postgres", &first)).unwrap();
        client.rows("CREATE TABLE t AS SELECT 3 AS v").unwrap();
        leaves_as(&mut console, || client.one("SELECT v FROM t").unwrap(), "3");
        assert_eq!(console.writers(), "through-consort");
    }
}

#[test]
fn a_role_made_anew_under_the_name_of_another() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(1, lines);
        let mut admin = Client::connect(&url).unwrap();
        admin.rows("CREATE ROLE alice LOGIN; GRANT SELECT ON quiet TO alice").unwrap();
        let expected = admin.one(READ_QUIET).unwrap();
        let as_alice = serving.url("alice", "postgres");
        let mut first = Client::connect(&as_alice).unwrap();
        leaves_as(&mut console, || first.one(READ_QUIET).unwrap(), &expected);

        admin.rows("ALTER ROLE alice RENAME TO bob; CREATE ROLE alice LOGIN").unwrap();
        let mut second = Client::connect(&as_alice).unwrap();
        for _ in 0..AGAIN {
            let refused = second.rows(READ_QUIET).map(|_| ()).unwrap_err();
            assert_eq!(refused.sqlstate.as_deref(), Some("42501"), "it has no right: {}", refused.text);
            assert_eq!(first.one(READ_QUIET).unwrap(), expected, "it has the right still");
        }
        admin.rows("REVOKE SELECT ON quiet FROM bob; GRANT SELECT ON quiet TO alice").unwrap();
        leaves_as(&mut console, || second.one(READ_QUIET).unwrap(), &expected);
        for _ in 0..AGAIN {
            assert!(first.rows(READ_QUIET).is_err(), "it has no right any more");
        }

        drop((first, second));
        admin.rows("DROP OWNED BY alice; DROP ROLE alice").unwrap();
        admin.rows("CREATE ROLE alice LOGIN; GRANT SELECT ON quiet TO alice").unwrap();
        let mut third = Client::connect(&as_alice).unwrap();
        leaves_as(&mut console, || third.one(READ_QUIET).unwrap(), &expected);
    }
}

/// There is one connection for all who come under the name.
#[test]
fn a_session_of_a_renamed_role_gets_no_connection_of_the_one_that_has_its_name() {
    let (serving, _console, url) = serving(1, &format!("{THROUGH}\ndefault_pool_size = 1"));
    let mut admin = Client::connect(&url).unwrap();
    admin.rows("CREATE ROLE alice LOGIN").unwrap();
    let as_alice = serving.url("alice", "postgres");
    let who = "SELECT session_user FROM pg_backend_pid()";
    let mut first = Client::connect(&as_alice).unwrap();
    assert_eq!(first.one(who).unwrap(), "alice");
    admin.rows("ALTER ROLE alice RENAME TO bob; CREATE ROLE alice LOGIN").unwrap();
    let mut second = Client::connect(&as_alice).unwrap();
    assert_eq!(second.one(who).unwrap(), "alice");
    let refused = first.rows(who).map(|_| ()).unwrap_err();
    assert_eq!(refused.sqlstate.as_deref(), Some("28000"), "{}", refused.text);
    assert_eq!(second.one(who).unwrap(), "alice", "it goes on");
}

#[test]
fn a_table_that_goes_before_another_is_read_by_what_is_parsed_behind_it() {
    for lines in [THROUGH, ANYWHERE] {
        let (_serving, mut console, url) = serving(1, lines);
        let mut admin = Client::connect(&url).unwrap();
        admin.rows("CREATE SCHEMA near; CREATE TABLE public.place AS SELECT 'public' AS v").unwrap();
        let mut client = Client::connect(&url).unwrap();
        client.rows("SET search_path = near, public").unwrap();
        let read = "SELECT v FROM place";
        let parsed_anew = |client: &mut Client| {
            let statement = client.prepare(read);
            client.execute(&statement)
        };
        leaves_as(&mut console, || parsed_anew(&mut client), "public");
        admin.rows("CREATE TABLE near.place AS SELECT 'near' AS v").unwrap();
        leaves_as(&mut console, || parsed_anew(&mut client), "near");
    }
}

#[test]
fn a_statement_goes_on_reading_the_table_that_it_was_prepared_for() {
    for lines in [THROUGH, ANYWHERE] {
        let (_serving, mut console, url) = serving(1, &format!("{lines}\npool_mode = \"session\""));
        let mut admin = Client::connect(&url).unwrap();
        let setup = "CREATE SCHEMA near; CREATE TABLE public.place AS SELECT 'public' AS v; \
                     CREATE TABLE public.other AS SELECT 'other' AS v";
        admin.rows(setup).unwrap();
        let mut client = Client::connect(&url).unwrap();
        client.rows("SET search_path = near, public").unwrap();
        let place = prepared(&mut console, &mut client, "SELECT v FROM place", "public");
        let other = prepared(&mut console, &mut client, "SELECT v FROM other", "other");
        admin.rows("CREATE TABLE near.place AS SELECT 'near' AS v").unwrap();
        for _ in 0..AGAIN {
            assert_eq!(client.execute(&place), "public", "the server has not looked at its names again");
        }
        // Nothing of this one has changed, nor of one that runs for the first time when the catalog has changed.
        leaves_as(&mut console, || client.execute(&other), "other");
        eventually("what ran for the first time behind a change", || {
            let later = client.prepare("SELECT v || '' FROM other");
            admin.rows("COMMENT ON TABLE public.other IS 'changed'").unwrap();
            leaves_soon(&mut console, || client.execute(&later), "other")
        });
        // Now the server looks again.
        admin.rows("ALTER TABLE public.place ADD COLUMN w int").unwrap();
        for _ in 0..AGAIN {
            assert_eq!(client.execute(&place), "near");
        }
        prepared(&mut console, &mut client, "SELECT v FROM place", "near");
    }
}

#[test]
fn what_was_prepared_before_its_database_was_followed_leaves_too() {
    let (mut serving, mut console, url) = serving(1, ANYWHERE);
    let mut first = Client::connect(&url).unwrap();
    let expected = first.one(READ_QUIET).unwrap();
    leaves_as(&mut console, || first.one(READ_QUIET).unwrap(), &expected);
    for in_block in [false, true] {
        eventually("a statement of the first moment that leaves", || {
            serving.signal("TERM");
            serving.ended();
            serving.start_again();
            let mut client = Client::connect(&url).unwrap();
            // In a block the session's settings cannot be queried.
            if in_block {
                client.rows("BEGIN").unwrap();
            }
            let statement = client.prepare("SELECT v::text FROM quiet WHERE id = 1");
            if in_block {
                client.rows("COMMIT").unwrap();
            }
            // Others leave by now: it does, or it never will.
            let mut console = Console::connect(&serving.url("postgres", "consort"));
            leaves_as(&mut console, || client.one(READ_QUIET).unwrap(), &expected);
            leaves_soon(&mut console, || client.execute(&statement), &expected)
        });
    }
}

/// A primary that comes back lets what was decoded before come out a second time, DDL too. On a machine that stands still for a moment
/// a statement may be kept there for another reason (see [`prepared`]): once, not each time.
#[test]
fn what_was_prepared_before_a_killed_primary_is_followed_again_leaves_too() {
    let (serving, mut console, url) = serving(1, ANYWHERE);
    let primary = serving.servers.primary();
    let mut all_leave = 0;
    for round in 0..3 {
        let mut admin = Client::connect(&url).unwrap();
        admin.rows(&format!("CREATE TABLE repeated{round} (v int)")).unwrap();
        let expected = admin.one(READ_QUIET).unwrap();
        leaves_as(&mut console, || admin.one(READ_QUIET).unwrap(), &expected);
        primary.kill();
        primary.start().unwrap();
        let mut clients = Vec::new();
        eventually("log-ins behind the crash", || {
            clients.extend(Client::connect(&url));
            clients.len() == 8
        });
        let prepares = |(at, mut client): (usize, Client)| {
            client.rows("BEGIN").unwrap();
            let text = format!("SELECT v::text, {at} AS a{round} FROM quiet WHERE id = 1");
            let statement = client.prepare(&text);
            client.rows("COMMIT").unwrap();
            (client, statement)
        };
        let prepared: Vec<_> = clients.into_iter().enumerate().map(prepares).collect();
        let mut admin = Client::connect(&url).unwrap();
        leaves_as(&mut console, || admin.one(READ_QUIET).unwrap(), &expected);
        let leaves = |(mut client, statement): (Client, Statement)| {
            leaves_soon(&mut console, || client.execute(&statement), &expected)
        };
        all_leave += usize::from(prepared.into_iter().all(leaves));
    }
    assert!(all_leave >= 2, "{all_leave}");
}

/// A select list of so many columns: a new shape, which takes a while to analyse.
fn columns(many: usize) -> String {
    (0..many).map(|at| format!("1 AS c{at}")).collect::<Vec<_>>().join(", ")
}

/// A statement that runs in a block before its tree is known may have changed anything, until the tree shows
/// that it has not.
#[test]
fn what_was_prepared_behind_a_statement_that_was_not_known_yet_leaves() {
    let (_serving, mut console, url) = serving(1, ANYWHERE);
    let expected = Client::connect(&url).unwrap().one(READ_QUIET).unwrap();
    let mut many = 400;
    eventually("a statement that was prepared behind an unknown one, and leaves", || {
        let mut client = Client::connect(&url).unwrap();
        leaves_as(&mut console, || client.one(READ_QUIET).unwrap(), &expected);
        many += 1;
        client.rows("BEGIN").unwrap();
        client.rows(&format!("SELECT {}", columns(many))).unwrap();
        let statement = client.prepare("SELECT v::text FROM quiet WHERE id = 1");
        client.rows("COMMIT").unwrap();
        leaves_soon(&mut console, || client.execute(&statement), &expected)
    });
}

#[test]
fn what_an_unknown_statement_set_holds_for_what_is_prepared_behind_it() {
    let (_serving, mut console, url) = serving(1, ANYWHERE);
    let mut admin = Client::connect(&url).unwrap();
    admin.rows("CREATE TABLE w AS SELECT 'old'::text AS v; CREATE SCHEMA s").unwrap();
    admin.rows("CREATE TABLE s.w AS SELECT 'new'::text AS v").unwrap();
    leaves_as(&mut console, || admin.one("SELECT v FROM w").unwrap(), "old");
    for many in 500..510 {
        let mut client = Client::connect(&url).unwrap();
        leaves_as(&mut console, || client.one("SELECT v FROM w").unwrap(), "old");
        client.rows("BEGIN").unwrap();
        client.rows(&format!("SELECT {}, set_config('search_path', 's', false)", columns(many))).unwrap();
        let statement = client.prepare("SELECT v FROM w");
        client.rows("COMMIT").unwrap();
        for _ in 0..AGAIN {
            assert_eq!(client.execute(&statement), "new", "prepared under the search_path that was set");
            assert_eq!(client.one("SELECT v FROM w").unwrap(), "new");
        }
    }
}

#[test]
fn a_label_that_takes_the_name_of_another_is_not_what_a_statement_was_prepared_for() {
    for lines in [THROUGH, ANYWHERE] {
        let (_serving, mut console, url) = serving(1, &format!("{lines}\npool_mode = \"session\""));
        let mut admin = Client::connect(&url).unwrap();
        let moods = "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE moods (m mood, v text); \
                     INSERT INTO moods VALUES ('happy', 'the first'), ('sad', 'the second')";
        admin.rows(moods).unwrap();
        let mut client = Client::connect(&url).unwrap();
        let read = "SELECT v FROM moods WHERE m = 'happy'";
        let happy = prepared(&mut console, &mut client, read, "the first");
        let rename =
            "ALTER TYPE mood RENAME VALUE 'happy' TO 'x'; ALTER TYPE mood RENAME VALUE 'sad' TO 'happy'";
        admin.rows(rename).unwrap();
        for _ in 0..AGAIN {
            assert_eq!(
                client.execute(&happy),
                "the first",
                "a label is looked for when a statement is parsed"
            );
        }
        prepared(&mut console, &mut client, read, "the second");
    }
}

#[test]
fn a_statement_that_code_deallocates_is_gone() {
    for lines in [THROUGH, ANYWHERE] {
        let (_serving, mut console, url) = serving(1, &format!("{lines}\npool_mode = \"session\""));
        let mut client = Client::connect(&url).unwrap();
        let read = prepared(&mut console, &mut client, "SELECT v::text FROM quiet WHERE id = 1", "7");
        let name =
            client.one("SELECT name FROM pg_prepared_statements ORDER BY prepare_time DESC LIMIT 1").unwrap();
        let prepare = format!("PREPARE {name} AS SELECT ''another''");
        client.rows(&format!("DO $$BEGIN EXECUTE 'DEALLOCATE {name}'; EXECUTE '{prepare}'; END$$")).unwrap();
        for _ in 0..AGAIN {
            assert_eq!(client.execute(&read), "another");
        }
    }
}

/// Code that runs without a call by name counts: a trigger may change the session.
#[test]
fn a_setting_that_a_trigger_changes_holds() {
    let (_serving, mut console, url) = serving(1, ANYWHERE);
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE SCHEMA s; CREATE TABLE w AS SELECT 'old'::text AS v").unwrap();
    client
        .rows("CREATE TABLE s.w AS SELECT 'new'::text AS v; CREATE TABLE fires (id int PRIMARY KEY, n int)")
        .unwrap();
    let body = "BEGIN PERFORM set_config('search_path', 's', false); RETURN NULL; END";
    client.rows(&format!("CREATE FUNCTION turns() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")).unwrap();
    let trigger = "CREATE TRIGGER turns AFTER UPDATE ON fires FOR EACH ROW EXECUTE FUNCTION turns()";
    client.rows(&format!("INSERT INTO fires VALUES (1, 0); {trigger}")).unwrap();
    leaves_as(&mut console, || client.one("SELECT v FROM w").unwrap(), "old");
    for _ in 0..3 {
        client.rows("SET search_path = public").unwrap();
        leaves_as(&mut console, || client.one("SELECT v FROM w").unwrap(), "old");
        client.rows("UPDATE public.fires SET n = n + 1 WHERE id = 1").unwrap();
        for _ in 0..AGAIN {
            assert_eq!(client.one("SELECT v FROM w").unwrap(), "new");
        }
    }
}

/// A setting of one block alone is part of the statements that are prepared in it.
#[test]
fn what_is_prepared_under_what_ends_with_the_block_stays() {
    let (_serving, mut console, url) = serving(1, ANYWHERE);
    let mut client = Client::connect(&url).unwrap();
    let expected = client.one(READ_QUIET).unwrap();
    for _ in 0..3 {
        leaves_as(&mut console, || client.one(READ_QUIET).unwrap(), &expected);
        client.rows("BEGIN; SET LOCAL transform_null_equals = on").unwrap();
        let nulls = client.prepare("SELECT count(*)::text FROM quiet WHERE NULL = NULL");
        client.rows("COMMIT").unwrap();
        let all = client.execute(&nulls);
        for _ in 0..AGAIN {
            assert_ne!(client.execute(&nulls), "0", "NULL = NULL was prepared as NULL IS NULL");
            assert_eq!(client.execute(&nulls), all);
        }
    }
}

/// PostgreSQL goes on writing the table that a statement was prepared for, whether or not it is known yet what the
/// statement would touch if it were prepared now.
#[test]
fn a_write_goes_on_writing_what_it_was_prepared_for() {
    let (_serving, mut console, url) = serving(1, &format!("{THROUGH}\npool_mode = \"session\""));
    let mut admin = Client::connect(&url).unwrap();
    admin.rows("CREATE SCHEMA s").unwrap();
    for (table, is_known) in [("w", true), ("x", false), ("y", false)] {
        let columns = "(id int PRIMARY KEY, n int)";
        admin.rows(&format!("CREATE TABLE {table} {columns}; INSERT INTO {table} VALUES (1, 0)")).unwrap();
        let write = format!("UPDATE {table} SET n = n + 1 WHERE id = 1 RETURNING n::text");
        let mut writer = Client::connect(&url).unwrap();
        writer.rows("SET search_path = s, public; SET synchronous_commit = off").unwrap();
        let prepared = writer.prepare(&write);
        let read = format!("SELECT n::text FROM public.{table} WHERE id = 1");
        leaves_as(&mut console, || admin.one(&read).unwrap(), "0");
        admin
            .rows(&format!("CREATE TABLE s.{table} {columns}; INSERT INTO s.{table} VALUES (1, 100)"))
            .unwrap();
        if is_known {
            let mut other = Client::connect(&url).unwrap();
            other.rows("SET search_path = s, public").unwrap();
            for _ in 0..10 {
                other.rows(&write).unwrap();
            }
        } else {
            leaves_as(&mut console, || admin.one(&read).unwrap(), "0");
        }
        for n in 1..=AGAIN {
            assert_eq!(writer.execute(&prepared), n.to_string());
            assert_eq!(admin.one(&read).unwrap(), n.to_string());
            assert_eq!(writer.one(&read).unwrap(), n.to_string());
            if n == 1 {
                leaves_as(&mut console, || admin.one(&read).unwrap(), "1");
            }
        }
    }
    assert_eq!(console.writers(), "through-consort", "nobody is taken for a writer past Consort");
}
