-- What Consort installs in a database, with the extension, and a secret that the tests know.
\set ECHO none
SET client_min_messages = warning;
\getenv abs_srcdir PG_ABS_SRCDIR
\set capture :abs_srcdir '/../crates/certified/src/capture/'
\set file :capture tables.sql
\i :file
\set file :capture items.sql
\i :file
\set file :capture row_triggers.sql
\i :file
\set file :capture sequences.sql
\i :file
\set file :capture commands.sql
\i :file
\set file :capture applier.sql
\i :file
\set file :capture notes.sql
\i :file
\set file :capture extension.sql
\i :file
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA consort FROM public;
GRANT EXECUTE ON FUNCTION consort.native_notes(text), consort.native_commit_at(text, text), consort.native_take_turn(text, text, text), consort.native_flush() TO public;
RESET client_min_messages;
INSERT INTO consort.secret VALUES ('told');
\set ECHO all
SELECT extversion FROM pg_extension WHERE extname = 'consort';
-- Triggers of both kinds on one table.
CREATE FUNCTION watch_twice(relation regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM consort.watch(relation);
  EXECUTE format('CREATE OR REPLACE FUNCTION consort.sql_%s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER '
    'SET search_path = pg_catalog, pg_temp SET datestyle = ''ISO, MDY'' SET intervalstyle = postgres SET extra_float_digits = 1 '
    'SET bytea_output = hex SET lc_monetary = ''C'' SET timezone = ''UTC'' AS %L',
    relation::oid, consort.note_body(relation, consort.shape_of(relation)));
  EXECUTE format('CREATE OR REPLACE TRIGGER consort_sql AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION consort.sql_%s()',
    relation, relation::oid);
  RETURN (SELECT regexp_replace(proname, '[0-9]+', 'OID') FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid WHERE tgrelid = relation AND tgname = 'consort_notes');
END $$;
CREATE FUNCTION sorted(list jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
  $$ SELECT CASE WHEN jsonb_typeof(list) = 'array' THEN (SELECT coalesce(jsonb_agg(v ORDER BY v), '[]') FROM jsonb_array_elements(list) v) ELSE list END $$;
-- The number of notes, and notes that one kind of trigger has written alone.
CREATE FUNCTION compare() RETURNS TABLE (notes bigint, only_by text, note jsonb) LANGUAGE sql AS $$
  WITH everything AS MATERIALIZED (SELECT consort.native_notes('told')::jsonb AS list),
    both_kinds AS (SELECT jsonb_set(jsonb_set(n, '{4}', sorted(n->4)), '{5}', sorted(n->5)) AS n FROM everything, jsonb_array_elements(list) n),
    in_sql AS (SELECT jsonb_build_array(shape, delta, key, image, sorted(to_jsonb(writes)), sorted(to_jsonb(shares))) AS n
      FROM consort.notes WHERE xact = pg_current_xact_id_if_assigned()),
    in_c AS (SELECT * FROM both_kinds EXCEPT ALL SELECT * FROM in_sql)
  SELECT count(*), NULL, NULL FROM in_c
  UNION ALL SELECT NULL, 'C', n FROM (SELECT * FROM in_c EXCEPT ALL SELECT * FROM in_sql) a
  UNION ALL SELECT NULL, 'SQL', n FROM (SELECT * FROM in_sql EXCEPT ALL SELECT * FROM in_c) b
$$;
