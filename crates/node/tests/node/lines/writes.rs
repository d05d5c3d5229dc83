//! Writes and locks, in every form: they are the primary's, and reads see what they did.

use super::Line;
use super::Step::{As, Fresh, Leaves, Other, Runs, Stays};

const READ: &str = "SELECT name FROM items WHERE id = 1";

const WRITES_AND_LOCKS: Line = Line {
    objects: &[
        "CREATE TABLE log (id int)",
        "CREATE VIEW seen AS SELECT id, name FROM items",
        "CREATE MATERIALIZED VIEW kept AS SELECT count(*) FROM items",
        "CREATE FUNCTION logs() RETURNS int LANGUAGE sql AS 'INSERT INTO public.log VALUES (16) RETURNING id'",
        "CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (2); COMMIT; INSERT INTO log VALUES (3); END'",
    ],
    shared: &[],
    scenarios: &[
        ("INSERT", &[Stays("writes", "INSERT INTO log VALUES (1)")]),
        ("UPDATE", &[Stays("writes", "UPDATE items SET name = name || '.' WHERE id = 9")]),
        ("DELETE", &[Stays("writes", "DELETE FROM items WHERE id = 9 RETURNING name")]),
        (
            "MERGE",
            &[Stays("writes", "MERGE INTO items i USING log l ON i.id = l.id WHEN MATCHED THEN DELETE")],
        ),
        (
            "CTE with DML",
            &[
                Stays("writes", "WITH gone AS (DELETE FROM log RETURNING id) SELECT count(*) FROM gone"),
                Stays("writes", "WITH gone AS (DELETE FROM log WHERE id = 7) SELECT 1"),
                Fresh(
                    &["WITH made AS (INSERT INTO log VALUES (4) RETURNING id) SELECT count(*) FROM made"],
                    "SELECT count(*) FROM log",
                ),
            ],
        ),
        (
            "SELECT INTO",
            &[
                Stays("utility", "SELECT id INTO made FROM items"),
                Leaves("SELECT count(*) FROM made"),
                Stays("ddl", "CREATE TABLE made_as AS SELECT id FROM items"),
                Leaves("SELECT count(*) FROM made_as"),
                Fresh(&["UPDATE made SET id = id + 1"], "SELECT sum(id) FROM made"),
            ],
        ),
        (
            "FOR UPDATE and its kin",
            &[
                Stays("locks_rows", "SELECT name FROM items WHERE id = 2 FOR UPDATE"),
                Stays("locks_rows", "SELECT name FROM items WHERE id = 2 FOR NO KEY UPDATE"),
                Stays("locks_rows", "SELECT name FROM items WHERE id = 2 FOR SHARE"),
                Stays("locks_rows", "SELECT name FROM items WHERE id = 2 FOR KEY SHARE"),
                Stays("locks_rows", "SELECT name FROM items WHERE id = 2 FOR UPDATE SKIP LOCKED"),
                Stays("locks_rows", "SELECT name FROM items WHERE id = 2 FOR SHARE NOWAIT"),
                Stays("locks_rows", "SELECT a.name FROM items a, bystander b WHERE a.id = 2 FOR UPDATE OF b"),
                Stays("locks_rows", "SELECT name FROM (SELECT name FROM items WHERE id = 2 FOR UPDATE) s"),
                Stays(
                    "locks_rows",
                    "WITH s AS (SELECT name FROM items WHERE id = 2 FOR UPDATE) SELECT name FROM s",
                ),
                Stays("locks_rows", "SELECT (SELECT name FROM items WHERE id = 2 FOR UPDATE)"),
                Stays("locks_rows", "SELECT name FROM seen WHERE id = 2 FOR UPDATE"),
                Runs("BEGIN"),
                Stays("locks_rows", "SELECT name FROM items WHERE id = 2 FOR UPDATE"),
                Other("SELECT name FROM items WHERE id = 2 FOR UPDATE NOWAIT"),
                Other("SELECT name FROM items WHERE id < 4 ORDER BY id FOR UPDATE SKIP LOCKED"),
                Runs("COMMIT"),
                Other("SELECT name FROM items WHERE id = 2 FOR UPDATE NOWAIT"),
            ],
        ),
        (
            "LOCK",
            &[
                Leaves(READ),
                Other("BEGIN"),
                Other("LOCK TABLE items"),
                Runs("SET statement_timeout = '100ms'"),
                // The statement waits, as at one server.
                Runs(READ),
                Other("COMMIT"),
                Runs("RESET statement_timeout"),
                Leaves(READ),
                Runs("BEGIN"),
                Stays("lock", "LOCK TABLE items IN SHARE MODE"),
                Other("LOCK TABLE items IN EXCLUSIVE MODE NOWAIT"),
                Runs("COMMIT"),
            ],
        ),
        (
            "COPY",
            &[
                Stays("copy_from", "COPY log FROM PROGRAM 'echo 5'"),
                Stays("copy_to", "COPY log TO STDOUT"),
                Stays("copy_to", "COPY (SELECT name FROM items ORDER BY id) TO STDOUT"),
                Fresh(&["COPY log FROM PROGRAM 'echo 6'"], "SELECT count(*) FROM log"),
                Fresh(
                    &["COPY (DELETE FROM log WHERE id = 6 RETURNING id) TO STDOUT"],
                    "SELECT count(*) FROM log",
                ),
            ],
        ),
        ("CALL", &[Stays("call", "CALL p()"), Fresh(&["CALL p()"], "SELECT count(*) FROM log")]),
        (
            "DO",
            &[
                Stays("do", "DO 'BEGIN INSERT INTO log VALUES (7); COMMIT; END'"),
                Fresh(
                    &["DO 'BEGIN INSERT INTO log VALUES (7); COMMIT; INSERT INTO log VALUES (8); END'"],
                    "SELECT count(*) FROM log",
                ),
            ],
        ),
        (
            "cursors",
            &[
                Runs("BEGIN"),
                Runs("DECLARE c CURSOR FOR SELECT id FROM items ORDER BY id"),
                Stays("fetch", "FETCH 2 FROM c"),
                Stays("fetch", "MOVE 1 IN c"),
                Other("UPDATE items SET id = 400 WHERE id = 4"),
                Stays("fetch", "FETCH ALL FROM c"),
                Stays("close", "CLOSE c"),
                Runs("COMMIT"),
                Runs("BEGIN"),
                Stays("declare", "DECLARE held CURSOR WITH HOLD FOR SELECT id FROM items ORDER BY id"),
                Runs("COMMIT"),
                Other("UPDATE items SET id = 4 WHERE id = 400"),
                Stays("fetch", "FETCH ALL FROM held"),
                Runs("CLOSE held"),
                Fresh(
                    &[
                        "BEGIN",
                        "DECLARE c CURSOR FOR SELECT name FROM items WHERE id = 5 FOR UPDATE",
                        "FETCH c",
                        "UPDATE items SET name = 'current' WHERE CURRENT OF c",
                        "COMMIT",
                    ],
                    "SELECT name FROM items WHERE id = 5",
                ),
                Fresh(
                    &["BEGIN", "DECLARE c CURSOR FOR SELECT logs()", "FETCH c", "COMMIT"],
                    "SELECT count(*) FROM log",
                ),
                Fresh(
                    &["BEGIN", "DECLARE c CURSOR WITH HOLD FOR SELECT logs()", "COMMIT", "CLOSE c"],
                    "SELECT count(*) FROM log",
                ),
            ],
        ),
        (
            "EXPLAIN",
            &[
                Stays("explain", "EXPLAIN (COSTS off) SELECT name FROM items"),
                Fresh(
                    &[
                        "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) INSERT INTO log VALUES (9)",
                    ],
                    "SELECT count(*) FROM log",
                ),
            ],
        ),
        (
            "SHOW and SET",
            &[
                Stays("show", "SHOW transaction_read_only"),
                Stays("set", "SET extra_float_digits = 0"),
                Stays("set", "RESET extra_float_digits"),
                Stays("discard", "DISCARD PLANS"),
            ],
        ),
        (
            "LISTEN and NOTIFY",
            &[
                Stays("listen", "LISTEN a"),
                Stays("notify", "NOTIFY a"),
                Stays("effect", "SELECT pg_notify('a', 'b')"),
                Stays("unlisten", "UNLISTEN a"),
            ],
        ),
        (
            "PREPARE",
            &[
                Stays("prepare", "PREPARE q AS SELECT name FROM items WHERE id = 1"),
                Stays("execute", "EXECUTE q"),
                Stays("deallocate", "DEALLOCATE q"),
                Fresh(&["PREPARE w AS INSERT INTO log VALUES (10)", "EXECUTE w"], "SELECT count(*) FROM log"),
            ],
        ),
        (
            "PREPARE TRANSACTION",
            &[
                Runs("BEGIN"),
                Runs("INSERT INTO log VALUES (11)"),
                Stays("prepare_transaction", "PREPARE TRANSACTION 'one'"),
                Stays("commit_prepared", "COMMIT PREPARED 'one'"),
                Stays("rollback_prepared", "ROLLBACK PREPARED 'two'"),
                Fresh(
                    &[
                        "BEGIN",
                        "INSERT INTO log VALUES (12)",
                        "PREPARE TRANSACTION 'three'",
                        "COMMIT PREPARED 'three'",
                    ],
                    "SELECT count(*) FROM log",
                ),
            ],
        ),
        (
            "several at once",
            &[
                Fresh(
                    &["INSERT INTO log VALUES (13); COMMIT; INSERT INTO log VALUES (14)"],
                    "SELECT count(*) FROM log",
                ),
                Fresh(&["BEGIN; INSERT INTO log VALUES (15); COMMIT; SELECT 1"], "SELECT count(*) FROM log"),
            ],
        ),
        (
            "commands",
            &[
                Stays("truncate", "TRUNCATE log"),
                Stays("vacuum", "VACUUM log"),
                Stays("maintain", "REINDEX TABLE items"),
                Stays("maintain", "REFRESH MATERIALIZED VIEW kept"),
                Stays("checkpoint", "CHECKPOINT"),
                Stays("ddl", "ALTER TABLE log ADD COLUMN IF NOT EXISTS more int"),
                Stays("ddl", "GRANT SELECT ON log TO public"),
            ],
        ),
    ],
};

#[test]
fn writes_and_locks() {
    WRITES_AND_LOCKS.holds();
}

/// Writes with side effects, and the reads that must see these.
const WHAT_WRITES_BRING_ALONG: Line = Line {
    objects: &[
        "CREATE TABLE audit (id int)",
        "CREATE FUNCTION audits() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.audit VALUES (1); RETURN NULL; END'",
        "CREATE TABLE watched (id int)",
        "CREATE TRIGGER comes AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION audits()",
        "CREATE TRIGGER goes AFTER DELETE ON watched FOR EACH ROW EXECUTE FUNCTION audits()",
        "CREATE FUNCTION passes(int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.audit VALUES ($1); RETURN true; END'",
        "CREATE TABLE checked (id int CHECK (passes(id)))",
        "CREATE TABLE parents (id int PRIMARY KEY)",
        "INSERT INTO parents VALUES (1)",
        "CREATE TABLE ruled (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE)",
        "CREATE RULE too AS ON DELETE TO ruled DO ALSO INSERT INTO audit VALUES (OLD.id)",
        "INSERT INTO ruled VALUES (1, 1)",
        "CREATE TABLE loose (id int PRIMARY KEY, item int REFERENCES items ON DELETE SET NULL ON UPDATE SET NULL)",
        "INSERT INTO loose VALUES (1, 4), (2, 5)",
        "CREATE TABLE mails (id int PRIMARY KEY, email text UNIQUE, n int)",
        "INSERT INTO mails VALUES (1, 'a', 1), (2, 'b', 2)",
        "CREATE ROLE carol LOGIN",
        "CREATE TABLE shown (id int PRIMARY KEY, is_open boolean)",
        // Only whole old rows show which columns changed.
        "ALTER TABLE shown REPLICA IDENTITY FULL",
        "INSERT INTO shown VALUES (1, true), (2, false)",
        "ALTER TABLE shown ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY opened ON shown USING (is_open)",
        "GRANT SELECT ON shown, bystander TO carol",
    ],
    shared: &[],
    scenarios: &[
        (
            "triggers of every event",
            &[
                Fresh(&["INSERT INTO watched VALUES (1)"], "SELECT count(*) FROM audit"),
                Fresh(&["DELETE FROM watched"], "SELECT count(*) FROM audit"),
            ],
        ),
        ("a CHECK that writes", &[Fresh(&["INSERT INTO checked VALUES (1)"], "SELECT count(*) FROM audit")]),
        (
            "a rule where a foreign key deletes",
            &[Fresh(&["DELETE FROM parents"], "SELECT count(*) FROM audit")],
        ),
        (
            "SET NULL",
            &[
                Fresh(&["DELETE FROM items WHERE id = 4"], "SELECT count(*) FROM loose WHERE item IS NULL"),
                Fresh(
                    &["UPDATE items SET id = 500 WHERE id = 5"],
                    "SELECT count(*) FROM loose WHERE item IS NULL",
                ),
            ],
        ),
        (
            "MERGE",
            &[Fresh(
                &[
                    "MERGE INTO mails m USING bystander b ON m.id = b.id + 1 WHEN MATCHED THEN UPDATE SET n = m.n + 1",
                ],
                "SELECT n FROM mails WHERE id = 2",
            )],
        ),
        (
            "ON CONFLICT with the row of another key",
            &[Fresh(
                &["INSERT INTO mails VALUES (50, 'a', 9) ON CONFLICT (email) DO UPDATE SET n = EXCLUDED.n"],
                "SELECT n FROM mails WHERE id = 1",
            )],
        ),
        (
            "a column that a policy alone reads",
            &[As("carol"), Fresh(&["UPDATE shown SET is_open = true WHERE id = 2"], "SELECT id FROM shown")],
        ),
    ],
};

#[test]
fn what_writes_bring_along() {
    WHAT_WRITES_BRING_ALONG.holds();
}
