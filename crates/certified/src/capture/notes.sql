-- The command has run, whether an event trigger heard of it or not.
CREATE OR REPLACE FUNCTION consort.no_permit(secret text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  DELETE FROM consort.permits WHERE xact = pg_current_xact_id_if_assigned();
END $f$;

-- A notification concerns no row.
CREATE OR REPLACE FUNCTION consort.note_notify(secret text, statement text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  INSERT INTO consort.effects (xact, effect) VALUES (pg_current_xact_id(), json_build_object('statement', statement, 'plain', true));
END $f$;

-- Locks of whole tables, which nothing but an item tells other nodes of. Names are resolved under the client's path.
CREATE OR REPLACE FUNCTION consort.note_lock(secret text, relations pg_catalog.oid[], shared boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  INSERT INTO consort.notes SELECT pg_current_xact_id(), 0, 0, NULL, CASE WHEN NOT shared THEN ARRAY[item] END, CASE WHEN shared THEN ARRAY[item] END
    FROM (SELECT coalesce((SELECT consort.table_item(c.oid) FROM pg_class c WHERE c.oid = r AND relkind IN ('r', 'p')), consort.seed('database', '')) AS item
          FROM unnest(relations) r) AS items;
END $f$;
CREATE OR REPLACE FUNCTION consort.note_locks(secret text, tables text[], shared boolean) RETURNS void LANGUAGE sql AS
  $f$ SELECT consort.note_lock(secret, (SELECT pg_catalog.array_agg(pg_catalog.to_regclass(t)::pg_catalog.oid) FROM pg_catalog.unnest(tables) t), shared) $f$;

-- Notes in the memory of the session are written to their table. Without the extension there are none.
CREATE OR REPLACE FUNCTION consort.spill() RETURNS void LANGUAGE sql AS $f$ $f$;
-- What the notes say becomes effects.
CREATE OR REPLACE FUNCTION consort.gather(x xid8) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex
SET lc_monetary = 'C' SET timezone = 'UTC' AS $f$
DECLARE r oid; e json;
BEGIN
  PERFORM consort.spill();
  FOR r IN SELECT DISTINCT rel FROM consort.notes WHERE xact = x LOOP
    e := '{}';
    IF r <> 0 THEN EXECUTE format('SELECT consort.%I($1)', 'rows_' || r) INTO e USING x; END IF;
    INSERT INTO consort.effects (xact, effect, writes, shares, intents)
      SELECT x, e, array_agg(DISTINCT i) FILTER (WHERE k = 1), array_agg(DISTINCT i) FILTER (WHERE k = 2),
             CASE WHEN r <> 0 THEN ARRAY[consort.table_item(r)] END
      FROM (SELECT 1 AS k, unnest(writes) AS i FROM consort.notes WHERE xact = x AND rel = r
            UNION ALL SELECT 2, unnest(shares) FROM consort.notes WHERE xact = x AND rel = r) AS all_items;
  END LOOP;
  DELETE FROM consort.notes WHERE xact = x;
END $f$;

-- The notes of this transaction; NULL if there are none, no JSON if they are not all of it.
CREATE OR REPLACE FUNCTION consort.notes(secret text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE x xid8 := pg_current_xact_id_if_assigned(); answer text;
BEGIN
  PERFORM consort.check_secret(secret);
  -- What the COMMIT itself still writes is not certified.
  PERFORM set_config('session_preload_libraries', '', true);
  IF x IS NULL THEN RETURN NULL; END IF;
  SELECT CASE WHEN EXISTS (SELECT FROM consort.effects WHERE xact = x) OR EXISTS (SELECT FROM consort.permits WHERE xact = x) THEN ''
    ELSE (SELECT json_agg(json_build_array(shape, delta, key, image, writes, shares))::text FROM consort.notes WHERE xact = x) END INTO answer;
  RETURN answer;
END $f$;
CREATE OR REPLACE FUNCTION consort.shape(secret text, its_shape text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  RETURN (SELECT meta FROM consort.shapes WHERE shape = its_shape::bigint);
END $f$;
-- The write set of this transaction, read from its tables; NULL if there is none.
CREATE OR REPLACE FUNCTION consort.capture(secret text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex
SET lc_monetary = 'C' SET timezone = 'UTC' AS $f$
DECLARE x xid8 := pg_current_xact_id_if_assigned(); answer text;
BEGIN
  PERFORM consort.check_secret(secret);
  IF x IS NULL THEN RETURN NULL; END IF;
  DELETE FROM consort.permits WHERE xact = x;
  PERFORM set_config('session_preload_libraries', 'consort certifies', true);
  PERFORM consort.gather(x);
  PERFORM set_config('session_preload_libraries', '', true);
  SELECT json_build_object('effects', json_agg(effect ORDER BY place),
      'writes', (SELECT json_agg(DISTINCT i) FROM consort.effects, unnest(writes) i WHERE xact = x),
      'shares', (SELECT json_agg(DISTINCT i) FROM consort.effects, unnest(shares) i WHERE xact = x),
      'intents', (SELECT json_agg(DISTINCT i) FROM consort.effects, unnest(intents) i WHERE xact = x),
      'database', consort.seed('database', ''))::text
    INTO answer FROM consort.effects WHERE xact = x HAVING count(*) > 0;
  DELETE FROM consort.effects WHERE xact = x;
  RETURN answer;
END $f$;

-- The life of the server that a session speaks to: each recovery starts another checkpointer.
CREATE OR REPLACE FUNCTION consort.incarnation() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT pid::text || backend_start::text FROM pg_stat_activity WHERE backend_type = 'checkpointer' $f$;

-- The chain of commits. A transaction that is to be committed holds a lock of its own, whose key only Consort computes. The
-- next one waits for that lock: PostgreSQL releases it when the first one is visible, or has failed. Answers the number of the
-- transaction; NULL if it has none, or if another session has its lock: then the next one is sent when this one is shown.
CREATE OR REPLACE FUNCTION consort.link(secret text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE x xid8 := pg_current_xact_id_if_assigned();
BEGIN
  PERFORM consort.check_secret(secret);
  RETURN CASE WHEN x IS NOT NULL AND pg_try_advisory_xact_lock(hashtextextended(secret || ' ' || x, 0)) THEN x END;
END $f$;
-- Waits for the end of a link of the chain, less than Consort waits for the answer to a COMMIT. Its lock tells that it has
-- ended, its status tells how: after one that has failed nothing may commit.
CREATE OR REPLACE FUNCTION consort.follow_link(secret text, link text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '4s' AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  PERFORM pg_advisory_xact_lock_shared(hashtextextended(secret || ' ' || link, 0));
  IF pg_xact_status(link::xid8) IS DISTINCT FROM 'committed' THEN
    RAISE EXCEPTION 'the version before was not committed here' USING ERRCODE = '55000';
  END IF;
END $f$;
CREATE OR REPLACE FUNCTION consort.commit_at(secret text, v text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  DELETE FROM consort.notes WHERE xact = pg_current_xact_id_if_assigned();
  INSERT INTO consort.version VALUES (v::bigint);
END $f$;

