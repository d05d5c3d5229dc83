CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT * FROM t ORDER BY id;
UPDATE t SET v = 'c' WHERE id = 2 RETURNING id, v;
DELETE FROM t WHERE id = 9;
-- Several statements are one transaction.
INSERT INTO t VALUES (3, 'x')\; INSERT INTO t VALUES (1, 'y');
SELECT count(*) FROM t;
INSERT INTO t VALUES (3, 'x')\; SELECT count(*) FROM t;
INSERT INTO t VALUES (4, 'x')\; COMMIT\; INSERT INTO t VALUES (1, 'y');
SELECT count(*) FROM t;
BEGIN\; INSERT INTO t VALUES (5, 'x');
SELECT count(*) FROM t;
ROLLBACK;
SELECT count(*) FROM t;
INSERT INTO t VALUES (5, 'x')\; BEGIN\; INSERT INTO t VALUES (6, 'x');
ROLLBACK;
SELECT count(*) FROM t;
;
SELECT 1\; \; SELECT 2;
SELEC 1;
SELECT 1\; SELEC 2;
SELECT no_such FROM t;
SELECT * FROM no_such;
-- Blocks.
COMMIT;
ROLLBACK;
BEGIN;
BEGIN;
SELECT 1 / 0;
SELECT 1;
SHOW application_name;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO t VALUES (10, 'x');
COMMIT AND CHAIN;
INSERT INTO t VALUES (11, 'x');
ROLLBACK AND CHAIN;
SELECT id FROM t WHERE id >= 10;
COMMIT;
COMMIT AND CHAIN;
START TRANSACTION READ ONLY;
SELECT count(*) FROM t;
INSERT INTO t VALUES (12, 'x');
SELECT count(*) FROM t;
ROLLBACK;
SAVEPOINT s;
RELEASE s;
ROLLBACK TO s;
BEGIN;
INSERT INTO t VALUES (20, 'x');
SAVEPOINT s;
INSERT INTO t VALUES (21, 'x');
SAVEPOINT s2;
INSERT INTO t VALUES (20, 'x');
INSERT INTO t VALUES (22, 'x');
ROLLBACK TO s2;
INSERT INTO t VALUES (23, 'x');
RELEASE SAVEPOINT s;
SELECT id FROM t WHERE id >= 20 ORDER BY id;
ROLLBACK TO s;
SELECT 1;
ROLLBACK TO s2;
COMMIT;
SELECT id FROM t WHERE id >= 20 ORDER BY id;
BEGIN;
INSERT INTO t VALUES (20, 'x');
SAVEPOINT a;
INSERT INTO t VALUES (21, 'x');
ROLLBACK TO a;
SELECT id FROM t WHERE id >= 20 ORDER BY id;
COMMIT;
SELECT id FROM t WHERE id >= 20 ORDER BY id;
-- Settings.
SHOW client_encoding;
SHOW standard_conforming_strings;
SHOW no_such;
SET no_such = 1;
SET application_name = 'one';
SHOW application_name;
BEGIN;
SET application_name = 'two';
SET LOCAL statement_timeout = '5s';
SHOW statement_timeout;
SAVEPOINT s;
SET application_name = 'three';
ROLLBACK TO s;
SHOW application_name;
ROLLBACK;
SHOW application_name;
SHOW statement_timeout;
BEGIN;
SET application_name = 'four';
SET LOCAL statement_timeout = 90000;
COMMIT;
SHOW application_name;
SHOW statement_timeout;
SET LOCAL statement_timeout = '1s';
SET application_name = 'five'\; SELECT 1 / 0;
SHOW application_name;
RESET application_name;
SET my.own = 'x';
SHOW my.own;
SET statement_timeout = 'soon';
DISCARD ALL;
SHOW my.own;
-- Prepared statements.
PREPARE p (int) AS SELECT v FROM t WHERE id = $1;
PREPARE p AS SELECT 1;
EXECUTE p (1);
EXECUTE p ('2');
EXECUTE p (1, 2);
EXECUTE no_such;
DEALLOCATE p;
EXECUTE p (1);
DEALLOCATE p;
DEALLOCATE ALL;
-- COPY.
COPY t FROM STDIN;
30	thirty
31	\N
32	tab\tand\\
\.
SELECT id, v IS NULL, length(v) FROM t WHERE id >= 30 ORDER BY id;
COPY t (v, id) FROM STDIN WITH (FORMAT csv, HEADER);
v,id
"forty, ""quoted""",40
,41
"",42
\.
COPY t FROM STDIN;
50
\.
COPY t FROM STDIN;
50	fifty
30	again
\.
COPY no_such FROM STDIN;
COPY (SELECT id, v FROM t WHERE id >= 30 ORDER BY id) TO STDOUT;
COPY (SELECT id, v FROM t WHERE id >= 30 ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER);
DROP TABLE t;
