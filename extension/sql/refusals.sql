-- What is not certified is not committed.
CREATE TABLE r (id int PRIMARY KEY);
SELECT consort.watch('r'::regclass);
INSERT INTO r VALUES (1);
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO r VALUES (2); COMMIT; END $$;
CALL commits();
TRUNCATE r;
-- Deferred triggers run before the notes are answered, and after that nothing changes.
CREATE FUNCTION adds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO r VALUES (NEW.id + 100) ON CONFLICT DO NOTHING; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER adds AFTER INSERT ON r DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.id < 100) EXECUTE FUNCTION adds();
BEGIN;
INSERT INTO r VALUES (3);
SELECT string_agg(n->2->>0, ' ') FROM json_array_elements(consort.native_notes('told')::json) n;
INSERT INTO r VALUES (4);
ROLLBACK;
BEGIN;
INSERT INTO r VALUES (5);
SELECT json_array_length(consort.native_notes('told')::json);
SELECT consort.native_commit_at('told', '7');
COMMIT;
SELECT * FROM r ORDER BY id;
SELECT * FROM consort.version;
-- The secret, and rights of others.
SELECT consort.native_notes('guessed');
SELECT consort.native_commit_at('guessed', '9');
SELECT consort.native_commit_at('told', 'x');
CREATE ROLE regress_consort_client;
GRANT ALL ON r TO regress_consort_client;
GRANT USAGE ON SCHEMA consort TO regress_consort_client;
SET ROLE regress_consort_client;
SELECT consort.native_spill();
CREATE TEMP TABLE mine (id int);
CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION consort.native_note_row('S1');
BEGIN;
INSERT INTO r VALUES (6);
SELECT json_array_length(consort.native_notes('told')::json);
SELECT consort.native_commit_at('told', '8');
SELECT current_user, current_setting('search_path');
COMMIT;
RESET ROLE;
SELECT max(version) FROM consort.version;
DROP OWNED BY regress_consort_client;
DROP ROLE regress_consort_client;
-- A prepared transaction would leave the order.
BEGIN;
INSERT INTO r VALUES (8);
PREPARE TRANSACTION 'p';
-- A plan that is none.
CREATE TABLE badly (id int);
CREATE TRIGGER t AFTER INSERT ON badly FOR EACH ROW EXECUTE FUNCTION consort.native_note_row('S1 A1p99');
INSERT INTO badly VALUES (1);
SELECT consort.native_notes('told') IS NULL AS empty;
