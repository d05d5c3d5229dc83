-- What Consort installs in each database of each node: the capture of write sets by triggers. It is run in one
-- transaction by a superuser, as often as one likes.
--
--   notes      what the transaction has touched: table, key, change of the number of rows, items of the footprint
--   effects    what was gathered before a command that changes the catalog, and these commands
--   version    one row a version that this node shows; the newest counts, the others are pruned
--   place      which node this is, and of how many
--
-- The rows themselves are read when the transaction commits: an AFTER trigger of the user may have changed a row again
-- before its image reaches a trigger of ours.

CREATE SCHEMA IF NOT EXISTS consort;
GRANT USAGE ON SCHEMA consort TO public;
CREATE TABLE IF NOT EXISTS consort.version (version bigint PRIMARY KEY);
CREATE TABLE IF NOT EXISTS consort.place (number int NOT NULL, nodes int NOT NULL);
CREATE TABLE IF NOT EXISTS consort.strided (sequence oid PRIMARY KEY);
CREATE UNLOGGED TABLE IF NOT EXISTS consort.notes (
  xact xid8 NOT NULL, rel oid NOT NULL, delta int NOT NULL, key text[], writes bigint[], shares bigint[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0);
CREATE INDEX IF NOT EXISTS notes_xact ON consort.notes (xact);
CREATE UNLOGGED TABLE IF NOT EXISTS consort.effects (
  xact xid8 NOT NULL, place bigserial, effect json NOT NULL, writes bigint[], shares bigint[], intents bigint[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS effects_xact ON consort.effects (xact);

-- A commit of what was captured must come through the certifier.
CREATE OR REPLACE FUNCTION consort.must_be_certified() RETURNS trigger LANGUAGE plpgsql AS $f$
BEGIN
  IF pg_catalog.current_setting('consort.certifies', true) IS DISTINCT FROM 'on' THEN
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

-- The number of an item: the same at every node.
CREATE OR REPLACE FUNCTION consort.seed(kind text, name text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
  $f$ SELECT pg_catalog.hashtextextended(kind || ':' || name, 0) $f$;
CREATE OR REPLACE FUNCTION consort.full_name(rel oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT quote_ident(nspname) || '.' || quote_ident(relname)
      FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = rel $f$;
-- An index of a partition counts as the one of the whole table.
CREATE OR REPLACE FUNCTION consort.key_seed(ind oid) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT consort.seed('key', consort.full_name(coalesce(pg_partition_root(ind::regclass)::oid, ind))) $f$;
CREATE OR REPLACE FUNCTION consort.table_item(rel oid) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT consort.seed('table', consort.full_name(coalesce(pg_partition_root(rel::regclass)::oid, rel))) $f$;

-- An expression whose hash is equal where the values are: natively where the type's hash is the same at every node,
-- else by its text.
CREATE OR REPLACE FUNCTION consort.hashed(expression text, typ oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE base oid := typ; t record;
BEGIN
  LOOP
    SELECT * INTO t FROM pg_type WHERE oid = base;
    EXIT WHEN t.typtype <> 'd';
    base := t.typbasetype;
  END LOOP;
  IF t.typname = 'citext' THEN
    RETURN format('pg_catalog.lower((%s)::text)', expression);
  ELSIF base IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype,
      'uuid'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype, 'numeric'::regtype,
      'float4'::regtype, 'float8'::regtype, 'bool'::regtype, 'bytea'::regtype, 'name'::regtype, 'inet'::regtype,
      'cidr'::regtype, 'interval'::regtype, 'jsonb'::regtype) THEN
    RETURN format('(%s)', expression);
  END IF;
  RETURN format('(%s)::text', expression);
END $f$;

-- The columns by which a row is found at other nodes: the primary key, else a unique key of columns that are never null.
CREATE OR REPLACE FUNCTION consort.identity_index(relation oid) RETURNS oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT indexrelid FROM pg_index i
  WHERE indrelid = relation AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL
    AND NOT EXISTS (SELECT FROM pg_attribute a WHERE attrelid = relation
      AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]) AND NOT attnotnull)
  ORDER BY indisprimary DESC, indisreplident DESC, indexrelid LIMIT 1 $f$;

-- The items of one key of a row, which is called `side` (OLD or NEW): an array expression, empty where the key does not count.
CREATE OR REPLACE FUNCTION consort.key_items(ind oid, side text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE i record; parts text[] := '{}'; present text[] := '{}'; n int; a record; expression text;
BEGIN
  SELECT * INTO i FROM pg_index WHERE indexrelid = ind;
  FOR n IN 1..i.indnkeyatts LOOP
    SELECT * INTO a FROM pg_attribute WHERE attrelid = ind AND attnum = n;
    expression := pg_get_indexdef(ind, n, false);
    IF i.indkey[n - 1] <> 0 AND i.indexprs IS NULL AND i.indpred IS NULL THEN
      expression := side || '.' || expression;
    ELSE
      expression := '(' || expression || ')';
    END IF;
    parts := parts || consort.hashed(expression, a.atttypid);
    present := present || (expression || ' IS NOT NULL');
  END LOOP;
  IF i.indnullsnotdistinct THEN present := ARRAY['true']; END IF;
  IF i.indexprs IS NULL AND i.indpred IS NULL THEN
    RETURN format('CASE WHEN %s THEN ARRAY[hash_record_extended(ROW(%s), %s)] ELSE ''{}'' END',
      array_to_string(present, ' AND '), array_to_string(parts, ', '), consort.key_seed(ind));
  END IF;
  RETURN format('coalesce((SELECT array_agg(hash_record_extended(ROW(%s), %s)) FROM (SELECT %s.*) AS x WHERE %s AND (%s)), ''{}'')',
    array_to_string(parts, ', '), consort.key_seed(ind), side, array_to_string(present, ' AND '),
    coalesce(pg_get_expr(i.indpred, i.indrelid), 'true'));
END $f$;

-- Whether two rows differ in what a key is made of.
CREATE OR REPLACE FUNCTION consort.columns_differ(rel oid, columns int2[]) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT coalesce(string_agg(format('OLD.%1$I::text IS DISTINCT FROM NEW.%1$I::text', attname), ' OR '), 'false')
  FROM pg_attribute WHERE attrelid = rel AND attnum = ANY (columns) AND attnum > 0 $f$;

-- The body of the row trigger of one table.
CREATE OR REPLACE FUNCTION consort.note_body(relation oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE body text := ''; i record; c record; own oid := consort.identity_index(relation); key_old text; key_new text; same text; parts text;
BEGIN
  FOR i IN SELECT * FROM pg_index WHERE indrelid = relation AND indisunique AND indisvalid ORDER BY indexrelid LOOP
    body := body || format(E'  IF TG_OP = ''INSERT'' THEN w := w || %1$s;\n  ELSIF TG_OP = ''DELETE'' THEN w := w || %2$s;\n  ELSIF %3$s THEN w := w || %2$s || %1$s; END IF;\n',
      consort.key_items(i.indexrelid, 'NEW'), consort.key_items(i.indexrelid, 'OLD'),
      CASE WHEN i.indexprs IS NULL AND i.indpred IS NULL
        THEN consort.columns_differ(relation, (i.indkey::int2[])[0:i.indnkeyatts - 1]) ELSE 'true' END);
  END LOOP;
  FOR c IN SELECT * FROM pg_constraint WHERE conrelid = relation AND contype = 'f' ORDER BY oid LOOP
    SELECT string_agg(consort.hashed(format('(NEW.%I)::%s', a.attname, format_type(p.atttypid, NULL)), p.atttypid), ', ' ORDER BY place.n)
      INTO parts
      FROM (SELECT k.n, c.conkey[array_position(c.confkey, x.indkey[k.n - 1])] AS child, x.indkey[k.n - 1] AS parent
            FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n) WHERE x.indexrelid = c.conindid) AS place
      JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = place.child
      JOIN pg_attribute p ON p.attrelid = c.confrelid AND p.attnum = place.parent;
    SELECT string_agg(format('NEW.%I IS NOT NULL', attname), ' AND ') INTO same
      FROM pg_attribute WHERE attrelid = relation AND attnum = ANY (c.conkey);
    body := body || format(E'  IF TG_OP <> ''DELETE'' THEN IF (TG_OP = ''INSERT'' OR %s) AND %s THEN\n    s := s || hash_record_extended(ROW(%s), %s); END IF; END IF;\n',
      consort.columns_differ(relation, c.conkey), same, parts, consort.key_seed(c.conindid));
  END LOOP;
  FOR c IN SELECT * FROM pg_constraint WHERE conrelid = relation AND contype = 'x' LOOP
    body := body || format(E'  IF TG_OP <> ''DELETE'' THEN w := w || %s::bigint; END IF;\n',
      consort.seed('exclusion', consort.full_name(relation) || ':' || c.conname));
  END LOOP;
  IF own IS NULL THEN
    -- Nothing tells the rows apart: the whole table is the item, and a row is found by all its columns.
    SELECT string_agg(format('OLD.%I::text', attname), ', ' ORDER BY attnum), string_agg(format('NEW.%I::text', attname), ', ' ORDER BY attnum)
      INTO key_old, key_new FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    -- New rows get along with each other: the transaction's intent on the table is enough.
    body := body || format(E'  IF TG_OP <> ''INSERT'' THEN w := w || %s::bigint; END IF;\n', consort.table_item(relation));
    same := 'false';
  ELSE
    SELECT string_agg(format('OLD.%I::text', attname), ', ' ORDER BY k.n), string_agg(format('NEW.%I::text', attname), ', ' ORDER BY k.n),
           string_agg(consort.hashed(format('@.%I', attname), atttypid), ', ' ORDER BY k.n)
      INTO key_old, key_new, parts
      FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n), pg_attribute
      WHERE x.indexrelid = own AND attrelid = relation AND attnum = x.indkey[k.n - 1];
    parts := format('hash_record_extended(ROW(%s), %s)', parts, consort.seed('row', consort.full_name(relation)));
    body := body || format(E'  IF TG_OP <> ''INSERT'' THEN w := w || %s; END IF;\n  IF TG_OP <> ''DELETE'' THEN w := w || %s; END IF;\n',
      replace(parts, '@.', 'OLD.'), replace(parts, '@.', 'NEW.'));
    same := format('ARRAY[%s] = ARRAY[%s]', key_old, key_new);
  END IF;
  RETURN format($b$
DECLARE w bigint[] := '{}'; s bigint[] := '{}';
BEGIN
%1$s  IF TG_OP = 'INSERT' THEN
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, 1, ARRAY[%4$s], w, s);
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, -1, ARRAY[%3$s], w, s);
  ELSIF %5$s THEN
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, 0, ARRAY[%4$s], w, s);
  ELSE
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, -1, ARRAY[%3$s], w, s), (pg_current_xact_id(), %2$s, 1, ARRAY[%4$s], NULL, NULL);
  END IF;
  RETURN NULL;
END $b$, body, relation, key_old, key_new, same);
END $f$;

-- The body of the function that reads what a transaction has left of one table: for each key whether the row was there
-- before, and the row as it is now.
CREATE OR REPLACE FUNCTION consort.rows_body(relation oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE own oid := consort.identity_index(relation); columns json; keys json; fixed json; row_text text; matches text; first_key text; tab text := consort.full_name(relation);
BEGIN
  SELECT json_agg(quote_ident(attname) ORDER BY attnum), string_agg(format('t.%I::text', attname), ', ' ORDER BY attnum),
         coalesce(json_agg(quote_ident(attname)) FILTER (WHERE attidentity = 'a'), '[]')
    INTO columns, row_text, fixed
    FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
  IF own IS NULL THEN
    RETURN format($b$
BEGIN
  IF EXISTS (SELECT FROM consort.notes WHERE xact = x AND rel = %1$s AND key IS NULL) THEN
    RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'truncated', true,
      'rows', coalesce(json_agg(json_build_array(0, NULL, ARRAY[%4$s])), '[]'::json)) FROM ONLY %5$s t);
  END IF;
  RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'rows', json_agg(json_build_array(g.n, g.key, NULL)))
    FROM (SELECT key, sum(delta) AS n FROM consort.notes WHERE xact = x AND rel = %1$s GROUP BY key HAVING sum(delta) <> 0) g);
END $b$, relation, tab, columns, coalesce(row_text, 'NULL::text'), tab);
  END IF;
  SELECT json_agg(quote_ident(attname) ORDER BY k.n), min(format('t.%I', attname)) FILTER (WHERE k.n = 1),
         string_agg(format('t.%I = g.key[%s]::%s', attname, k.n, format_type(atttypid, atttypmod)), ' AND ' ORDER BY k.n)
    INTO keys, first_key, matches
    FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n), pg_attribute
    WHERE x.indexrelid = own AND attrelid = relation AND attnum = x.indkey[k.n - 1];
  RETURN format($b$
BEGIN
  IF EXISTS (SELECT FROM consort.notes WHERE xact = x AND rel = %1$s AND key IS NULL) THEN
    RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'keys', %4$L::json, 'fixed', %9$L::json, 'truncated', true,
      'rows', coalesce(json_agg(json_build_array(0, NULL, ARRAY[%5$s])), '[]'::json)) FROM ONLY %6$s t);
  END IF;
  RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'keys', %4$L::json, 'fixed', %9$L::json,
      'rows', json_agg(json_build_array((%7$s IS NOT NULL)::int - g.n, g.key, CASE WHEN %7$s IS NOT NULL THEN ARRAY[%5$s] END)))
    FROM (SELECT key, sum(delta)::int AS n FROM consort.notes WHERE xact = x AND rel = %1$s GROUP BY key) g
    LEFT JOIN ONLY %6$s t ON %8$s
    WHERE %7$s IS NOT NULL OR g.n < 0);
END $b$, relation, tab, columns, keys, row_text, tab, first_key, matches, fixed);
END $f$;

CREATE OR REPLACE FUNCTION consort.note_truncate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  INSERT INTO consort.notes VALUES (pg_current_xact_id(), TG_RELID, 0, NULL, ARRAY[consort.table_item(TG_RELID)], NULL);
  RETURN NULL;
END $f$;
CREATE OR REPLACE FUNCTION consort.refuse_foreign() RETURNS trigger LANGUAGE plpgsql AS $f$
BEGIN
  RAISE EXCEPTION 'cannot change a foreign table: the change cannot be certified' USING ERRCODE = '0A000',
    HINT = 'Change it at the server that it belongs to.';
END $f$;

-- Puts the triggers on one table, as its columns, keys and constraints are now.
CREATE OR REPLACE FUNCTION consort.watch(relation oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE c record; settings text := 'SET search_path = pg_catalog, pg_temp SET datestyle = ''ISO, MDY'' SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = ''C'' SET timezone = ''UTC''';
BEGIN
  SELECT * INTO c FROM pg_class WHERE oid = relation;
  IF c.oid IS NULL OR c.relpersistence = 't' THEN RETURN; END IF;
  IF c.relkind = 'f' THEN
    EXECUTE format('CREATE OR REPLACE TRIGGER consort_refuses BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s EXECUTE FUNCTION consort.refuse_foreign()', consort.full_name(relation));
  END IF;
  IF c.relkind <> 'r' THEN RETURN; END IF;
  EXECUTE format('CREATE OR REPLACE FUNCTION consort.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER %s AS %L',
    'note_' || relation, settings, consort.note_body(relation));
  EXECUTE format('CREATE OR REPLACE FUNCTION consort.%I(x xid8) RETURNS json LANGUAGE plpgsql VOLATILE AS %L',
    'rows_' || relation, consort.rows_body(relation));
  EXECUTE format('CREATE OR REPLACE TRIGGER consort_notes AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION consort.%I()',
    consort.full_name(relation), 'note_' || relation);
  EXECUTE format('CREATE OR REPLACE TRIGGER consort_truncates AFTER TRUNCATE ON %s EXECUTE FUNCTION consort.note_truncate()',
    consort.full_name(relation));
END $f$;

CREATE OR REPLACE FUNCTION consort.is_user_schema(namespace oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT nspname NOT IN ('pg_catalog', 'information_schema', 'consort') AND nspname !~ '^pg_(toast|temp)'
      FROM pg_namespace WHERE oid = namespace $f$;
CREATE OR REPLACE FUNCTION consort.watch_all() RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT consort.watch(oid) FROM pg_class WHERE relkind IN ('r', 'f') AND relpersistence <> 't' AND consort.is_user_schema(relnamespace) ORDER BY oid $f$;

-- Each node takes values of its own of each sequence: every n-th, from its place on.
CREATE OR REPLACE FUNCTION consort.stride_all() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE s record; p record; last bigint; called boolean; name text;
BEGIN
  SELECT * INTO p FROM consort.place LIMIT 1;
  IF p.nodes IS NULL OR p.nodes < 2 THEN RETURN; END IF;
  FOR s IN SELECT q.* FROM pg_sequence q JOIN pg_class c ON c.oid = seqrelid
      WHERE relpersistence <> 't' AND consort.is_user_schema(relnamespace) AND seqrelid NOT IN (SELECT sequence FROM consort.strided) LOOP
    name := consort.full_name(s.seqrelid);
    EXECUTE format('SELECT last_value, is_called FROM %s', name) INTO last, called;
    IF called THEN last := last + s.seqincrement; END IF;
    EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', name, s.seqincrement * p.nodes);
    PERFORM setval(s.seqrelid::regclass, last + p.number * s.seqincrement, false);
    INSERT INTO consort.strided VALUES (s.seqrelid);
  END LOOP;
END $f$;

-- A command that changes the catalog is an effect: it is executed as it stands at every node.
CREATE OR REPLACE FUNCTION consort.note_statement(statement text, role text, path text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.gather(pg_current_xact_id());
  INSERT INTO consort.effects (xact, effect, writes) VALUES (pg_current_xact_id(),
    json_build_object('statement', statement, 'role', role, 'path', path), ARRAY[consort.seed('database', '')]);
END $f$;
CREATE OR REPLACE FUNCTION consort.note_statement(statement text) RETURNS void LANGUAGE sql AS
  $f$ SELECT consort.note_statement(statement, current_user::text, pg_catalog.current_setting('search_path')) $f$;

-- A notification concerns no row.
CREATE OR REPLACE FUNCTION consort.note_effect(statement text, role text, path text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  $f$ INSERT INTO consort.effects (xact, effect) VALUES (pg_current_xact_id(),
        json_build_object('statement', statement, 'role', role, 'path', path)) $f$;
CREATE OR REPLACE FUNCTION consort.note_notify(statement text) RETURNS void LANGUAGE sql AS
  $f$ SELECT consort.note_effect(statement, current_user::text, pg_catalog.current_setting('search_path')) $f$;

-- Locks of whole tables, which nothing but an item tells other nodes of.
CREATE OR REPLACE FUNCTION consort.note_lock(item bigint, shared boolean) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  $f$ INSERT INTO consort.notes VALUES (pg_current_xact_id(), 0, 0, NULL,
    CASE WHEN NOT shared THEN ARRAY[item] END, CASE WHEN shared THEN ARRAY[item] END) $f$;
CREATE OR REPLACE FUNCTION consort.note_locks(tables text[], shared boolean) RETURNS void LANGUAGE sql AS
  $f$ SELECT consort.note_lock(coalesce((SELECT consort.table_item(c.oid) FROM pg_catalog.pg_class c
        WHERE c.oid = pg_catalog.to_regclass(t) AND c.relkind IN ('r', 'p')), consort.seed('database', '')), shared)
      FROM pg_catalog.unnest(tables) t $f$;

-- What the notes say becomes effects.
CREATE OR REPLACE FUNCTION consort.gather(x xid8) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex
SET lc_monetary = 'C' SET timezone = 'UTC' AS $f$
DECLARE r oid; e json;
BEGIN
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

-- The write set of this transaction; NULL if there is none.
CREATE OR REPLACE FUNCTION consort.capture() RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex
SET lc_monetary = 'C' SET timezone = 'UTC' AS $f$
DECLARE x xid8 := pg_current_xact_id_if_assigned(); answer text;
BEGIN
  IF x IS NULL THEN RETURN NULL; END IF;
  PERFORM consort.gather(x);
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
CREATE OR REPLACE FUNCTION consort.commit_at(v bigint) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  $f$ INSERT INTO consort.version VALUES (v) $f$;

-- Commands that change the catalog: they are recorded where a client runs them through Consort, and refused elsewhere.
CREATE OR REPLACE FUNCTION consort.after_ddl(tag text, dropped boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE r oid;
BEGIN
  IF dropped THEN RETURN; END IF;
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE classid IN ('pg_namespace'::regclass, 'pg_type'::regclass)
      OR object_type IN ('schema', 'type', 'extension')) AND tag !~ '^CREATE (SCHEMA|TYPE|DOMAIN)' THEN
    PERFORM consort.watch_all();
  ELSE
    FOR r IN WITH changed AS (
        SELECT coalesce(i.indrelid, c.objid) AS oid FROM pg_event_trigger_ddl_commands() c LEFT JOIN pg_index i ON i.indexrelid = c.objid
        WHERE c.classid = 'pg_class'::regclass
        UNION SELECT conrelid FROM pg_event_trigger_ddl_commands() c JOIN pg_constraint k ON k.oid = c.objid WHERE c.classid = 'pg_constraint'::regclass),
      parts AS (SELECT oid FROM changed UNION SELECT p.relid::oid FROM changed, pg_partition_tree(changed.oid::regclass) p)
      SELECT oid FROM parts UNION SELECT conrelid FROM pg_constraint, parts WHERE contype = 'f' AND confrelid = parts.oid
      UNION SELECT inhrelid FROM pg_inherits, parts WHERE inhparent = parts.oid
    LOOP
      IF EXISTS (SELECT FROM pg_class WHERE oid = r AND relkind IN ('r', 'f') AND consort.is_user_schema(relnamespace)) THEN
        PERFORM consort.watch(r);
      END IF;
    END LOOP;
  END IF;
  PERFORM consort.stride_all();
END $f$;
CREATE OR REPLACE FUNCTION consort.on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $f$
DECLARE lasts boolean; is_drop boolean := tg_tag LIKE 'DROP %';
BEGIN
  IF pg_catalog.current_setting('consort.inside', true) = 'on' THEN RETURN; END IF;
  -- What the script of an extension does is part of the command that makes it.
  IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() WHERE in_extension)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() WHERE NOT in_extension) THEN RETURN; END IF;
  IF is_drop THEN
    lasts := coalesce(pg_catalog.current_setting('consort.dropped', true) = 'on', false);
    PERFORM pg_catalog.set_config('consort.dropped', '', true);
  ELSE
    lasts := NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger_ddl_commands())
      OR EXISTS (SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() WHERE schema_name IS NULL OR schema_name <> 'pg_temp');
  END IF;
  IF NOT lasts THEN RETURN; END IF;
  IF pg_catalog.current_setting('consort.lane', true) IS DISTINCT FROM 'on' THEN
    IF pg_catalog.current_setting('consort.ddl', true) IS DISTINCT FROM 'on' THEN
      RAISE EXCEPTION 'cannot change the catalog here: % would not be certified', tg_tag USING ERRCODE = '0A000',
        HINT = 'Run it through Consort as a statement of its own, outside of functions and DO blocks.';
    END IF;
    PERFORM pg_catalog.set_config('consort.ddl', '', true);
    PERFORM consort.note_statement(pg_catalog.current_query());
  END IF;
  PERFORM pg_catalog.set_config('consort.inside', 'on', true);
  PERFORM consort.after_ddl(tg_tag, is_drop);
  PERFORM pg_catalog.set_config('consort.inside', '', true);
END $f$;
CREATE OR REPLACE FUNCTION consort.on_drop() RETURNS event_trigger LANGUAGE plpgsql AS $f$
BEGIN
  IF pg_catalog.current_setting('consort.inside', true) = 'on' THEN RETURN; END IF;
  IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger_dropped_objects()
      WHERE original AND NOT is_temporary AND schema_name IS DISTINCT FROM 'pg_temp') THEN
    PERFORM pg_catalog.set_config('consort.dropped', 'on', true);
  END IF;
END $f$;
DO $do$ BEGIN
  DROP EVENT TRIGGER IF EXISTS consort_ddl;
  DROP EVENT TRIGGER IF EXISTS consort_drop;
  CREATE EVENT TRIGGER consort_ddl ON ddl_command_end EXECUTE FUNCTION consort.on_ddl();
  CREATE EVENT TRIGGER consort_drop ON sql_drop EXECUTE FUNCTION consort.on_drop();
  ALTER EVENT TRIGGER consort_ddl ENABLE ALWAYS;
  ALTER EVENT TRIGGER consort_drop ENABLE ALWAYS;
END $do$;
