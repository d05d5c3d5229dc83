-- Settings on which the meaning of a command depends.
CREATE OR REPLACE FUNCTION consort.settings() RETURNS text LANGUAGE plpgsql AS $f$
BEGIN
  RETURN (SELECT pg_catalog.json_object_agg(name, pg_catalog.current_setting(name)) FROM pg_catalog.unnest(ARRAY['search_path', 'TimeZone', 'DateStyle',
    'IntervalStyle', 'check_function_bodies', 'standard_conforming_strings', 'default_tablespace', 'default_table_access_method', 'lc_monetary', 'xmloption']) name);
END $f$;
-- A command that changes the catalog is an effect: it is executed as it stands at every node.
CREATE OR REPLACE FUNCTION consort.record_statement(statement text, role text, path text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.gather(pg_current_xact_id());
  INSERT INTO consort.effects (xact, effect, writes) VALUES (pg_current_xact_id(),
    json_build_object('statement', statement, 'role', role, 'path', path), ARRAY[consort.seed('database', '')]);
END $f$;
CREATE OR REPLACE FUNCTION consort.note_statement(secret text, statement text, role text, path text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  PERFORM consort.record_statement(statement, role, path);
END $f$;
CREATE OR REPLACE FUNCTION consort.note_statement(secret text, statement text) RETURNS void LANGUAGE sql AS
  $f$ SELECT consort.note_statement(secret, statement, current_user::pg_catalog.text, consort.settings()) $f$;
-- The next command that changes the catalog is one of a client's own, with this role and these settings.
CREATE OR REPLACE FUNCTION consort.permit(secret text, its_role text, its_path text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  PERFORM consort.gather(pg_current_xact_id());
  INSERT INTO consort.permits (xact, role, path) VALUES (pg_current_xact_id(), its_role, its_path)
    ON CONFLICT (xact) DO UPDATE SET role = its_role, path = its_path, running = false, dropped = false, rewritten = '{}';
END $f$;
CREATE OR REPLACE FUNCTION consort.permit(secret text) RETURNS void LANGUAGE sql AS
  $f$ SELECT consort.permit(secret, current_user::pg_catalog.text, consort.settings()) $f$;
