-- Commands that change the catalog: they are recorded where a client runs them through Consort, run by the applier where
-- they were recorded, and refused elsewhere. The applier alone has this replication role.
CREATE OR REPLACE FUNCTION consort.after_ddl(tag text, dropped boolean) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE r oid;
BEGIN
  IF dropped THEN
    IF tag NOT IN ('DROP TABLE', 'DROP VIEW', 'DROP PROCEDURE', 'DROP TRIGGER', 'DROP SEQUENCE') THEN PERFORM consort.watch_all(); END IF;
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() c JOIN pg_trigger t ON t.oid = c.objid JOIN pg_proc p ON p.oid = tgfoid
      WHERE c.classid = 'pg_trigger'::regclass AND pronamespace = 'consort'::regnamespace) THEN
    RAISE EXCEPTION 'cannot change a trigger of Consort' USING ERRCODE = '42501';
  END IF;
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() c JOIN pg_class p ON p.oid = c.objid
      WHERE c.classid = 'pg_class'::regclass AND relpersistence = 'u' AND relkind IN ('r', 'S')) THEN
    RAISE EXCEPTION 'unlogged tables are not supported by this design' USING ERRCODE = '0A000',
      HINT = 'A node that crashes would have the table empty. Leave UNLOGGED out.';
  END IF;
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE classid IN ('pg_namespace'::regclass, 'pg_type'::regclass)
      OR object_type IN ('schema', 'type', 'extension')) AND tag !~ '^CREATE (SCHEMA|TYPE|DOMAIN)'
    OR tag IN ('CREATE CAST', 'ALTER FUNCTION', 'ALTER ROUTINE', 'ALTER COLLATION', 'ALTER OPERATOR') THEN
    PERFORM consort.watch_all();
  ELSE
    FOR r IN WITH RECURSIVE changed AS (
        SELECT coalesce(i.indrelid, c.objid) AS oid FROM pg_event_trigger_ddl_commands() c LEFT JOIN pg_index i ON i.indexrelid = c.objid
        WHERE c.classid = 'pg_class'::regclass
        UNION SELECT conrelid FROM pg_event_trigger_ddl_commands() c JOIN pg_constraint k ON k.oid = c.objid WHERE c.classid = 'pg_constraint'::regclass),
      parts AS (SELECT oid FROM changed UNION SELECT inhrelid FROM pg_inherits, parts WHERE inhparent = parts.oid)
      SELECT oid FROM parts UNION SELECT conrelid FROM pg_constraint, parts WHERE contype = 'f' AND confrelid = parts.oid
    LOOP
      IF EXISTS (SELECT FROM pg_class WHERE oid = r AND relkind IN ('r', 'f') AND consort.is_user_schema(relnamespace)) THEN
        PERFORM consort.watch(r);
      END IF;
    END LOOP;
  END IF;
  PERFORM consort.stride_all();
  PERFORM consort.refuse_unappliable();
END $f$;
CREATE OR REPLACE FUNCTION consort.on_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE x xid8 := pg_current_xact_id(); p consort.permits; elsewhere text; is_drop boolean := tg_tag LIKE 'DROP %'; applies boolean := current_setting('session_replication_role') = 'replica';
BEGIN
  SELECT * INTO p FROM consort.permits WHERE xact = x;
  IF p.running THEN RETURN; END IF;
  -- What the script of an extension does is part of the command that makes it.
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE in_extension)
    AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE NOT in_extension) THEN RETURN; END IF;
  -- Nothing that other nodes have: the permit was for this.
  IF is_drop AND p.dropped IS NOT TRUE
    OR NOT is_drop AND EXISTS (SELECT FROM pg_event_trigger_ddl_commands())
      AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS NULL OR schema_name <> 'pg_temp') THEN
    DELETE FROM consort.permits WHERE xact = x;
    RETURN;
  END IF;
  IF p.role IS NULL THEN
    RAISE EXCEPTION 'cannot change the catalog here: % would not be certified', tg_tag USING ERRCODE = '0A000',
      HINT = 'Run it through Consort as a statement of its own, outside of functions and DO blocks.';
  END IF;
  INSERT INTO consort.permits (xact, running) VALUES (x, true) ON CONFLICT (xact) DO UPDATE SET running = true;
  IF NOT applies THEN
    -- Other nodes make the table of a query as it is, and get its rows: the query may name what they do not have.
    SELECT format('CREATE TABLE %s (%s)', consort.full_name(c.oid), (SELECT string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod),
        CASE WHEN attcollation <> typcollation THEN (SELECT format(' COLLATE %I.%I', nspname, collname) FROM pg_collation l JOIN pg_namespace n ON n.oid = collnamespace
          WHERE l.oid = attcollation) END), ', ' ORDER BY attnum) FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = c.oid AND attnum > 0))
      INTO elsewhere FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON c.oid = d.objid
      WHERE tg_tag IN ('CREATE TABLE AS', 'SELECT INTO') AND d.classid = 'pg_class'::regclass AND relkind = 'r';
    PERFORM consort.record_statement(coalesce(elsewhere, current_query()), p.role, p.path);
  END IF;
  PERFORM consort.after_ddl(tg_tag, is_drop);
  IF NOT applies THEN
    -- Rows that the command has made: other nodes get these in the place of their own.
    INSERT INTO consort.notes SELECT x, c.oid, 1, NULL, ARRAY[consort.table_item(c.oid)], NULL
      FROM pg_class c WHERE relkind = 'r' AND relpersistence <> 't' AND (oid = ANY (p.rewritten) OR tg_tag IN ('CREATE TABLE AS', 'SELECT INTO')
        AND oid IN (SELECT objid FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass));
  END IF;
  DELETE FROM consort.permits WHERE xact = x;
END $f$;
CREATE OR REPLACE FUNCTION consort.on_drop() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE own text;
BEGIN
  IF EXISTS (SELECT FROM consort.permits WHERE xact = pg_current_xact_id_if_assigned() AND running) THEN RETURN; END IF;
  -- DROP OWNED runs in a function that the role owns.
  SELECT object_identity INTO own FROM pg_event_trigger_dropped_objects() WHERE original AND object_identity !~ '^consort\.as_[0-9]+\('
    AND (schema_name = 'consort' OR object_identity = 'consort' OR object_type = 'trigger' AND address_names[array_upper(address_names, 1)] ~ '^consort_');
  IF own IS NOT NULL THEN
    RAISE EXCEPTION 'cannot drop %: it is part of Consort', own USING ERRCODE = '42501',
      HINT = 'How to leave Consort stands in its manual, in the chapter on multi-primary designs.';
  END IF;
  IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects()
      WHERE original AND NOT is_temporary AND schema_name IS DISTINCT FROM 'pg_temp') THEN
    INSERT INTO consort.permits (xact, dropped) VALUES (pg_current_xact_id(), true) ON CONFLICT (xact) DO UPDATE SET dropped = true;
  END IF;
END $f$;
-- A default that gives each row another value: other nodes would have others.
CREATE OR REPLACE FUNCTION consort.on_rewrite() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  IF pg_event_trigger_table_rewrite_reason() & 2 = 2 THEN
    INSERT INTO consort.permits AS p (xact, rewritten) VALUES (pg_current_xact_id(), ARRAY[pg_event_trigger_table_rewrite_oid()])
      ON CONFLICT (xact) DO UPDATE SET rewritten = p.rewritten || pg_event_trigger_table_rewrite_oid();
  END IF;
END $f$;

-- Clients may call what follows, and nothing else.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA consort FROM public;
GRANT EXECUTE ON FUNCTION consort.incarnation(), consort.certifies(text), consort.renews(text), consort.notes(text), consort.shape(text, text), consort.capture(text), consort.commit_at(text, text), consort.link(text), consort.follow_link(text, text),
  consort.permit(text), consort.permit(text, text, text), consort.no_permit(text), consort.settings(), consort.note_statement(text, text), consort.note_statement(text, text, text, text),
  consort.note_notify(text, text), consort.note_sequences(text),
  consort.note_locks(text, text[], boolean), consort.note_lock(text, oid[], boolean) TO public;

DO $do$ BEGIN
  IF to_regproc('consort.native_notes') IS NOT NULL THEN
    GRANT EXECUTE ON FUNCTION consort.native_notes(text), consort.native_commit_at(text, text),
      consort.native_take_turn(text, text, text), consort.native_flush() TO public;
  END IF;
END $do$;

CREATE EVENT TRIGGER consort_ddl ON ddl_command_end EXECUTE FUNCTION consort.on_ddl();
CREATE EVENT TRIGGER consort_drop ON sql_drop EXECUTE FUNCTION consort.on_drop();
CREATE EVENT TRIGGER consort_rewrite ON table_rewrite EXECUTE FUNCTION consort.on_rewrite();
ALTER EVENT TRIGGER consort_ddl ENABLE ALWAYS;
ALTER EVENT TRIGGER consort_drop ENABLE ALWAYS;
