-- psql in ordinary use; every \if that is not met, and every error that is not asked for, ends it.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
DROP TABLE IF EXISTS drv_psql;
CREATE TABLE drv_psql (id int PRIMARY KEY, v text);
\copy drv_psql FROM PROGRAM 'seq 1 1000 | sed s/$/,x/' WITH (FORMAT csv)
SELECT count(*) = 1000 AS met FROM drv_psql \gset
\if :met \else \echo 'a copied row is missing' \q 3 \endif
\d drv_psql
\dt drv_psql
BEGIN;
DECLARE walk CURSOR FOR SELECT id FROM drv_psql ORDER BY id;
MOVE 10 IN walk;
FETCH 2 FROM walk;
SAVEPOINT s;
\set ON_ERROR_STOP off
INSERT INTO drv_psql VALUES (1, 'again');
\set ON_ERROR_STOP on
ROLLBACK TO s;
UPDATE drv_psql SET v = 'own' WHERE id = 1;
SELECT v FROM drv_psql WHERE id = 1;
COMMIT;
SELECT v = 'own' AS met FROM drv_psql WHERE id = 1 \gset
\if :met \else \echo 'the own write is not read' \q 3 \endif
PREPARE one (int) AS SELECT v FROM drv_psql WHERE id = $1;
EXECUTE one (1);
SELECT format('SELECT %L', v) FROM drv_psql WHERE id < 3 ORDER BY id \gexec
CREATE TEMP TABLE mine AS SELECT id FROM drv_psql WHERE id < 5;
SELECT sum(id) FROM mine;
\set ON_ERROR_STOP off
SELECT nothing FROM drv_psql;
\echo :LAST_ERROR_SQLSTATE
