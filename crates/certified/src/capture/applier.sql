-- Whether an applier that changes rows of a table may call code of users.
CREATE OR REPLACE FUNCTION consort.has_code(relation oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relation AND tgenabled IN ('A', 'R'))
    OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class = relation AND ev_enabled IN ('A', 'R'))
    OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND NOT consort.is_plain(conbin))
    OR EXISTS (SELECT FROM pg_index WHERE indrelid = relation AND NOT (consort.is_plain(indexprs) AND consort.is_plain(indpred)))
    OR EXISTS (SELECT FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum AND attgenerated <> ''
      WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND NOT (consort.is_plain_type(atttypid) AND consort.is_plain(adbin)))
    OR EXISTS (SELECT FROM pg_partition_ancestors(relation::regclass) a JOIN pg_partitioned_table ON partrelid = a.relid
      WHERE NOT consort.is_plain(partexprs)) $f$;
CREATE OR REPLACE FUNCTION consort.tables_with_code() RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT consort.full_name(c.oid) FROM pg_class c JOIN pg_roles o ON o.oid = relowner
  WHERE relkind = 'r' AND relpersistence <> 't' AND NOT rolsuper AND consort.is_user_schema(relnamespace) AND consort.has_code(c.oid) $f$;
-- What appliers could not do with the rights of a table's owner is refused. Deferred triggers would run as the applier.
CREATE OR REPLACE FUNCTION consort.refuse_unappliable() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE it text;
BEGIN
  SELECT format('%I on %s', tgname, consort.full_name(tgrelid)) INTO it FROM pg_trigger
    WHERE tgenabled IN ('A', 'R') AND tgdeferrable AND NOT tgisinternal LIMIT 1;
  IF it IS NOT NULL THEN
    RAISE EXCEPTION 'deferrable triggers that fire at every node are not supported by this design: %', it USING ERRCODE = '0A000',
      HINT = 'Leave DEFERRABLE out, or ENABLE ALWAYS and ENABLE REPLICA.';
  END IF;
  SELECT consort.full_name(c.oid) INTO it FROM pg_class c JOIN pg_roles o ON o.oid = relowner
    WHERE relkind = 'r' AND relpersistence <> 't' AND NOT rolsuper
      AND (relrowsecurity AND relforcerowsecurity AND NOT rolbypassrls OR NOT has_schema_privilege(relowner, relnamespace, 'USAGE')
        OR NOT has_table_privilege(relowner, c.oid, 'SELECT') OR NOT has_table_privilege(relowner, c.oid, 'INSERT')
        OR NOT has_table_privilege(relowner, c.oid, 'UPDATE') OR NOT has_table_privilege(relowner, c.oid, 'DELETE'))
      AND consort.is_user_schema(relnamespace) AND consort.has_code(c.oid) LIMIT 1;
  IF it IS NOT NULL THEN
    RAISE EXCEPTION 'the owner of % could not change its rows at other nodes', it USING ERRCODE = '0A000',
      HINT = 'The table calls functions, which run as its owner there. Leave FORCE ROW LEVEL SECURITY out, and leave the owner its rights.';
  END IF;
END $f$;

-- The function that runs a text with the rights of a role: code that the text calls cannot become another role there. It
-- lives for a part of a transaction, so that no role owns it when commands about roles run.
CREATE OR REPLACE FUNCTION consort.function_of(its_role name) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE x xid8 := pg_current_xact_id(); its_name text := 'as_' || oid FROM pg_roles WHERE rolname = its_role;
BEGIN
  IF EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'consort'::regnamespace AND proname = its_name) THEN RETURN its_name; END IF;
  INSERT INTO consort.permits (xact, running) VALUES (x, true);
  EXECUTE format('CREATE FUNCTION consort.%I(s text, OUT n bigint) LANGUAGE plpgsql SECURITY DEFINER AS %L', its_name,
    'BEGIN EXECUTE s; GET DIAGNOSTICS n = ROW_COUNT; END');
  EXECUTE format('ALTER FUNCTION consort.%I(text) OWNER TO %I', its_name, its_role);
  DELETE FROM consort.permits WHERE xact = x;
  RETURN its_name;
END $f$;
CREATE OR REPLACE FUNCTION consort.drop_functions() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE x xid8 := pg_current_xact_id(); f text;
BEGIN
  INSERT INTO consort.permits (xact, running) VALUES (x, true) ON CONFLICT (xact) DO UPDATE SET running = true;
  FOR f IN SELECT proname FROM pg_proc WHERE pronamespace = 'consort'::regnamespace AND proname ~ '^as_[0-9]+$' LOOP
    EXECUTE format('DROP FUNCTION consort.%I(text)', f);
  END LOOP;
  DELETE FROM consort.permits WHERE xact = x;
END $f$;
-- Takes back what code of users has left for the applier: settings, and cursors that the COMMIT would run.
CREATE OR REPLACE FUNCTION consort.forget_code() RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  EXECUTE 'RESET ALL';
  EXECUTE 'CLOSE ALL';
END $f$;
-- An applier changes rows of a table. Answers a row for each row.
CREATE OR REPLACE FUNCTION consort.apply(relation text, statement text, calls_code boolean) RETURNS SETOF boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $f$
DECLARE owner record; n bigint;
BEGIN
  SELECT rolname, rolsuper INTO owner FROM pg_class c JOIN pg_roles o ON o.oid = relowner WHERE c.oid = relation::regclass;
  IF owner.rolsuper OR NOT (calls_code OR consort.has_code(relation::regclass)) THEN
    EXECUTE statement;
    GET DIAGNOSTICS n = ROW_COUNT;
  ELSE
    EXECUTE format('SELECT consort.%I($1)', consort.function_of(owner.rolname)) INTO n USING statement;
    PERFORM consort.forget_code();
  END IF;
  RETURN QUERY SELECT true FROM generate_series(1, n);
END $f$;
-- An applier runs a command as the role that has run it first.
CREATE OR REPLACE FUNCTION consort.run_as(its_role text, settings text, statement text) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE f text := consort.function_of(its_role);
BEGIN
  INSERT INTO consort.permits (xact, role) VALUES (pg_catalog.pg_current_xact_id(), its_role);
  PERFORM pg_catalog.set_config(key, value, true) FROM pg_catalog.json_each_text(settings::pg_catalog.json);
  EXECUTE pg_catalog.format('SELECT consort.%I($1)', f) USING statement;
  PERFORM consort.forget_code();
  PERFORM consort.drop_functions();
END $f$;

