-- What Consort installs in each database of each node: the capture of write sets by triggers. It is run in one
-- transaction by a superuser, as often as one likes.
--
--   notes      what the transaction has touched: table, key, change of the number of rows, items of the footprint, and the row
--              as it was then
--   shapes     tables as they were when a note was written: their columns and their keys
--   effects    what was gathered before a command that changes the catalog, and these commands
--   version    one row a version that this node shows; the newest counts, the others are pruned
--   epoch      the ledger that the versions are of
--   place      which node this is, and of how many
--   secret     what Consort says with each command of its own: clients call nothing here with an effect
--   diverged   why the node has other rows than the others: it is not served until it is made again
--   permits    transactions in which Consort has announced a command that changes the catalog
--
-- A row that has one note is as that note has it. Others are read when the transaction commits: an AFTER trigger of the user
-- may have changed a row again before its image reaches a trigger of ours.

DROP EVENT TRIGGER IF EXISTS consort_ddl;
DROP EVENT TRIGGER IF EXISTS consort_drop;
DROP EVENT TRIGGER IF EXISTS consort_rewrite;
CREATE SCHEMA IF NOT EXISTS consort;
GRANT USAGE ON SCHEMA consort TO public;
CREATE TABLE IF NOT EXISTS consort.version (version bigint PRIMARY KEY);
CREATE TABLE IF NOT EXISTS consort.epoch (value text NOT NULL);
CREATE TABLE IF NOT EXISTS consort.place (number int NOT NULL, nodes int NOT NULL);
CREATE TABLE IF NOT EXISTS consort.strided (sequence oid PRIMARY KEY, increment bigint NOT NULL, nodes int NOT NULL);
ALTER TABLE consort.strided ADD COLUMN IF NOT EXISTS increment bigint, ADD COLUMN IF NOT EXISTS nodes int;
UPDATE consort.strided SET increment = seqincrement / p.nodes, nodes = p.nodes FROM pg_catalog.pg_sequence, consort.place p WHERE seqrelid = sequence AND increment IS NULL;
CREATE TABLE IF NOT EXISTS consort.secret (value text NOT NULL);
CREATE TABLE IF NOT EXISTS consort.diverged (why text NOT NULL);
CREATE TABLE IF NOT EXISTS consort.installed (text_md5 text NOT NULL);
DROP TABLE IF EXISTS consort.notes, consort.effects, consort.permits;
CREATE UNLOGGED TABLE consort.notes (
  xact xid8 NOT NULL, rel oid NOT NULL, delta int NOT NULL, key text[], writes bigint[], shares bigint[], shape bigint, image text[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0);
CREATE TABLE IF NOT EXISTS consort.shapes (shape bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, rel oid NOT NULL, meta text NOT NULL);
CREATE INDEX notes_xact ON consort.notes (xact);
CREATE UNLOGGED TABLE consort.effects (
  xact xid8 NOT NULL, place bigserial, effect json NOT NULL, writes bigint[], shares bigint[], intents bigint[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX effects_xact ON consort.effects (xact);
CREATE UNLOGGED TABLE consort.permits (
  xact xid8 PRIMARY KEY, role text, path text, running boolean NOT NULL DEFAULT false, dropped boolean NOT NULL DEFAULT false,
  rewritten oid[] NOT NULL DEFAULT '{}'
);

-- Names in functions without a search_path of their own are qualified, operators too: they run under the client's path.
CREATE OR REPLACE FUNCTION consort.check_secret(said text) RETURNS void LANGUAGE plpgsql STABLE AS $f$
BEGIN
  IF NOT EXISTS (SELECT FROM consort.secret WHERE value OPERATOR(pg_catalog.=) said) THEN
    RAISE EXCEPTION 'this function is for Consort alone' USING ERRCODE = '42501';
  END IF;
END $f$;
-- Inside of a transaction a parameter shows that Consort certifies it. It is one that only superusers set and read, and that
-- has an effect at the start of a session alone.
CREATE OR REPLACE FUNCTION consort.certifies(secret text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  PERFORM set_config('session_preload_libraries', 'consort certifies', true);
END $f$;

-- The client has had constraints checked, and with them what is due at the COMMIT: that is due again.
CREATE OR REPLACE FUNCTION consort.renews(secret text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE x xid8 := pg_current_xact_id_if_assigned();
BEGIN
  PERFORM consort.check_secret(secret);
  PERFORM set_config('session_preload_libraries', '', true);
  IF x IS NOT NULL THEN INSERT INTO consort.notes (xact, rel, delta) VALUES (x, 0, 0); END IF;
END $f$;

-- A commit of what was captured must come through the certifier.
CREATE OR REPLACE FUNCTION consort.must_be_certified() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $f$
BEGIN
  IF pg_catalog.current_setting('session_preload_libraries') OPERATOR(pg_catalog.<>) 'consort certifies' THEN
    RAISE EXCEPTION 'the transaction changes rows and was not certified' USING ERRCODE = '0A000',
      HINT = 'Commit through Consort, and outside of procedures and DO blocks.';
  END IF;
  RETURN NULL;
END $f$;
DO $do$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'must_be_certified' AND tgrelid = 'consort.notes'::regclass) THEN
    CREATE CONSTRAINT TRIGGER must_be_certified AFTER INSERT ON consort.notes DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION consort.must_be_certified();
    CREATE CONSTRAINT TRIGGER must_be_certified AFTER INSERT ON consort.effects DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION consort.must_be_certified();
  END IF;
END $do$;

