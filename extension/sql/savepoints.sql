-- Parts that were rolled back leave no note.
CREATE TABLE s (id int PRIMARY KEY, v text);
SELECT consort.watch('s'::regclass);
CREATE FUNCTION ids() RETURNS text LANGUAGE sql AS
  $$ SELECT string_agg((n->2->>0) || ':' || (n->>1), ' ') FROM json_array_elements(consort.native_notes('told')::json) n $$;
BEGIN;
INSERT INTO s VALUES (1);
SAVEPOINT a;
INSERT INTO s VALUES (2);
SAVEPOINT b;
INSERT INTO s VALUES (3);
RELEASE b;
ROLLBACK TO a;
INSERT INTO s VALUES (4);
SAVEPOINT c;
INSERT INTO s VALUES (5);
RELEASE c;
RELEASE a;
SELECT ids();
COMMIT;
-- Exceptions in PL/pgSQL, in a loop, and an error in the middle of a row's note.
BEGIN;
DO $$ BEGIN
  FOR i IN 10..14 LOOP
    BEGIN
      INSERT INTO s VALUES (i);
      IF i % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
  END LOOP;
END $$;
SAVEPOINT failed;
INSERT INTO s VALUES (1);
ROLLBACK TO failed;
INSERT INTO s VALUES (15);
SELECT ids();
COMMIT;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM s;
-- A command that changes the catalog gathers what came before; a savepoint takes that back.
BEGIN;
INSERT INTO s VALUES (20, 'kept');
SAVEPOINT a;
INSERT INTO s VALUES (21);
SELECT consort.gather(pg_current_xact_id());
SELECT effect->'rows' AS rows FROM consort.effects WHERE xact = pg_current_xact_id();
ROLLBACK TO a;
INSERT INTO s VALUES (22);
SELECT consort.gather(pg_current_xact_id());
SELECT effect->'rows' AS rows FROM consort.effects WHERE xact = pg_current_xact_id();
ROLLBACK;
BEGIN;
INSERT INTO s VALUES (20, 'kept');
SAVEPOINT a;
SELECT consort.gather(pg_current_xact_id());
RELEASE a;
INSERT INTO s VALUES (23);
UPDATE s SET v = 'again' WHERE id = 20;
SELECT consort.gather(pg_current_xact_id());
SELECT effect->'rows' AS rows FROM consort.effects WHERE xact = pg_current_xact_id() ORDER BY place;
SELECT consort.native_notes('told') = '' AS must_be_captured;
ROLLBACK;
-- A transaction that was rolled back leaves nothing to the next one.
BEGIN;
INSERT INTO s VALUES (30);
ROLLBACK;
SELECT consort.native_notes('told') IS NULL AS empty;
-- Notes that triggers have written, and the tables' own: TRUNCATE is read from there.
BEGIN;
INSERT INTO s VALUES (31);
TRUNCATE s;
INSERT INTO s VALUES (32);
SELECT json_array_length(consort.native_notes('told')::json) AS notes;
ROLLBACK;
