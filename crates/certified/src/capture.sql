-- What Consort installs in each database of each node: the capture of write sets by triggers. It is run in one
-- transaction by a superuser, as often as one likes.
--
--   notes      what the transaction has touched: table, key, change of the number of rows, items of the footprint, and the row
--              as it was then
--   shapes     tables as they were when a note was written: their columns and their keys
--   effects    what was gathered before a command that changes the catalog, and these commands
--   version    one row a version that this node shows; the newest counts, the others are pruned
--   place      which node this is, and of how many
--   secret     what Consort says with each command of its own: clients call nothing here with an effect
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
CREATE TABLE IF NOT EXISTS consort.place (number int NOT NULL, nodes int NOT NULL);
CREATE TABLE IF NOT EXISTS consort.strided (sequence oid PRIMARY KEY, increment bigint NOT NULL, nodes int NOT NULL);
ALTER TABLE consort.strided ADD COLUMN IF NOT EXISTS increment bigint, ADD COLUMN IF NOT EXISTS nodes int;
UPDATE consort.strided SET increment = seqincrement / p.nodes, nodes = p.nodes FROM pg_catalog.pg_sequence, consort.place p WHERE seqrelid = sequence AND increment IS NULL;
CREATE TABLE IF NOT EXISTS consort.secret (value text NOT NULL);
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

-- Whether an expression calls PostgreSQL's own immutable functions alone: others may run any code, set_config and
-- query_to_xml among them.
CREATE OR REPLACE FUNCTION consort.is_plain(tree pg_node_tree) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT tree IS NULL OR tree::text !~ '{(COERCEVIAIO|COERCETODOMAIN|SQLVALUEFUNCTION|ROWCOMPAREEXPR|XMLEXPR) '
    AND NOT EXISTS (SELECT FROM regexp_matches(tree::text, ':(?:op)?funcid ([0-9]+)', 'g') AS f LEFT JOIN pg_proc p ON p.oid = f[1]::oid
      WHERE p.oid >= 16384 OR p.provolatile IS DISTINCT FROM 'i') $f$;
-- Whether values of a type are read, written, cast and compared without code of users. Only superusers make base types, and
-- functions in C.
CREATE OR REPLACE FUNCTION consort.is_plain_type(typ oid) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE t pg_type;
BEGIN
  WHILE typ >= 16384 LOOP
    SELECT * INTO t FROM pg_type WHERE oid = typ;
    IF t.typtype NOT IN ('b', 'd', 'e') OR EXISTS (SELECT FROM pg_constraint WHERE contypid = typ AND NOT consort.is_plain(conbin))
      OR EXISTS (SELECT FROM pg_cast JOIN pg_proc p ON p.oid = castfunc JOIN pg_language l ON l.oid = prolang
        WHERE typ IN (castsource, casttarget) AND lanname NOT IN ('internal', 'c')) THEN
      RETURN false;
    END IF;
    typ := CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END;
  END LOOP;
  RETURN true;
END $f$;
-- The text of a value, as other nodes read it: what the type's output function gives, which no cast replaces.
CREATE OR REPLACE FUNCTION consort.output_of(expression text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT format('(CASE WHEN num_nonnulls(%1$s) = 1 THEN concat(%1$s) END)', expression) $f$;
CREATE OR REPLACE FUNCTION consort.text_of(expression text, typ oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT CASE WHEN consort.is_plain_type(typ) THEN format('%s::text', expression) ELSE consort.output_of(expression) END $f$;

CREATE OR REPLACE FUNCTION consort.is_composite(typ oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  WITH RECURSIVE base AS (SELECT typ AS oid UNION SELECT typbasetype FROM pg_type t JOIN base ON t.oid = base.oid WHERE typtype = 'd')
  SELECT EXISTS (SELECT FROM base JOIN pg_type t ON t.oid = base.oid WHERE typtype = 'c') $f$;

-- An expression whose hash is equal where the values are, and the same at every node. Where no such is known all values
-- count as one.
CREATE OR REPLACE FUNCTION consort.hashed(expression text, typ oid, coll oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE base oid := typ; t record;
BEGIN
  IF EXISTS (SELECT FROM pg_collation WHERE oid = coll AND NOT collisdeterministic) THEN RETURN 'true'; END IF;
  LOOP
    SELECT * INTO t FROM pg_type WHERE oid = base;
    IF t.typtype = 'd' THEN base := t.typbasetype;
    ELSIF t.typcategory = 'A' AND t.typelem <> 0 THEN base := t.typelem;
    ELSIF t.typtype = 'r' THEN base := (SELECT rngsubtype FROM pg_range WHERE rngtypid = base);
    ELSE EXIT;
    END IF;
  END LOOP;
  IF t.typname = 'citext' AND base = typ THEN
    RETURN format('pg_catalog.lower((%s)::text)', expression);
  ELSIF t.typtype = 'e' THEN
    RETURN format('concat(%s)', expression);
  ELSIF base IN ('macaddr'::regtype, 'macaddr8'::regtype, 'bit'::regtype, 'varbit'::regtype) THEN
    RETURN format('(%s)::text', expression);
  ELSIF base IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype,
      'uuid'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype, 'numeric'::regtype,
      'float4'::regtype, 'float8'::regtype, 'bool'::regtype, 'bytea'::regtype, 'name'::regtype, 'inet'::regtype,
      'cidr'::regtype, 'interval'::regtype, 'jsonb'::regtype) THEN
    RETURN format('(%s)', expression);
  END IF;
  RETURN 'true';
END $f$;

-- The columns by which a row is found at other nodes: the primary key, else a unique key of columns that are never null.
-- A constant of a composite type is compared with no value.
CREATE OR REPLACE FUNCTION consort.identity_index(relation oid) RETURNS oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT indexrelid FROM pg_index i
  WHERE indrelid = relation AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL
    AND NOT EXISTS (SELECT FROM pg_attribute a WHERE attrelid = relation
      AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]) AND (NOT attnotnull OR consort.is_composite(atttypid)))
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
    parts := parts || consort.hashed(expression, a.atttypid, a.attcollation);
    present := present || (expression || ' IS NOT NULL');
  END LOOP;
  IF i.indnullsnotdistinct THEN present := ARRAY['true']; END IF;
  -- Code of users does not run here, with the rights of Consort: all values are one.
  IF NOT (consort.is_plain(i.indexprs) AND consort.is_plain(i.indpred)) THEN RETURN format('%s::bigint', consort.key_seed(ind)); END IF;
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
  SELECT coalesce(string_agg(format('%s IS DISTINCT FROM %s', consort.text_of(format('OLD.%I', attname), atttypid), consort.text_of(format('NEW.%I', attname), atttypid)), ' OR '), 'false')
  FROM pg_attribute WHERE attrelid = rel AND attnum = ANY (columns) AND attnum > 0 $f$;

-- The body of the row trigger of one table.
CREATE OR REPLACE FUNCTION consort.note_body(relation oid, its_shape bigint) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE body text := ''; i record; c record; own oid := consort.identity_index(relation); key_old text; key_new text; same text; parts text; is_hashed boolean; image text;
BEGIN
  FOR i IN SELECT * FROM pg_index WHERE indrelid = relation AND indisunique AND indisvalid ORDER BY indexrelid LOOP
    body := body || format(E'  IF TG_OP = ''INSERT'' THEN w := w || %1$s;\n  ELSIF TG_OP = ''DELETE'' THEN w := w || %2$s;\n  ELSIF %3$s THEN w := w || %2$s || %1$s; END IF;\n',
      consort.key_items(i.indexrelid, 'NEW'), consort.key_items(i.indexrelid, 'OLD'),
      CASE WHEN i.indexprs IS NULL AND i.indpred IS NULL
        THEN consort.columns_differ(relation, (i.indkey::int2[])[0:i.indnkeyatts - 1]) ELSE 'true' END);
  END LOOP;
  FOR c IN SELECT * FROM pg_constraint WHERE conrelid = relation AND contype = 'f' ORDER BY oid LOOP
    -- A cast that users have made does not run here: the whole parent counts.
    SELECT string_agg(consort.hashed(CASE WHEN a.atttypid = p.atttypid THEN format('NEW.%I', a.attname) ELSE format('(NEW.%I)::%s', a.attname, format_type(p.atttypid, NULL)) END,
        p.atttypid, p.attcollation), ', ' ORDER BY place.n),
        bool_and(a.atttypid = p.atttypid OR consort.is_plain_type(a.atttypid) AND consort.is_plain_type(p.atttypid))
      INTO parts, is_hashed
      FROM (SELECT k.n, c.conkey[array_position(c.confkey, x.indkey[k.n - 1])] AS child, x.indkey[k.n - 1] AS parent
            FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n) WHERE x.indexrelid = c.conindid) AS place
      JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = place.child
      JOIN pg_attribute p ON p.attrelid = c.confrelid AND p.attnum = place.parent;
    SELECT string_agg(format('NEW.%I IS NOT NULL', attname), ' AND ') INTO same
      FROM pg_attribute WHERE attrelid = relation AND attnum = ANY (c.conkey);
    body := body || format(E'  IF TG_OP <> ''DELETE'' THEN IF (TG_OP = ''INSERT'' OR %s) AND %s THEN\n    s := s || %s; END IF; END IF;\n',
      consort.columns_differ(relation, c.conkey), same, CASE WHEN is_hashed THEN format('hash_record_extended(ROW(%s), %s)', parts, consort.key_seed(c.conindid))
        ELSE format('%s::bigint', consort.table_item(c.confrelid)) END);
  END LOOP;
  FOR c IN SELECT * FROM pg_constraint WHERE conrelid = relation AND contype = 'x' LOOP
    body := body || format(E'  IF TG_OP <> ''DELETE'' THEN w := w || %s::bigint; END IF;\n',
      consort.seed('exclusion', consort.full_name(relation) || ':' || c.conname));
  END LOOP;
  SELECT 'ARRAY[' || string_agg(consort.text_of(format('NEW.%I', attname), atttypid), ', ' ORDER BY attnum) || ']' INTO image
    FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND own IS NOT NULL;
  IF own IS NULL THEN
    -- Nothing tells the rows apart: the whole table is the item, and a row is found by all its columns.
    SELECT string_agg(consort.output_of(format('OLD.%I', attname)), ', ' ORDER BY attnum), string_agg(consort.output_of(format('NEW.%I', attname)), ', ' ORDER BY attnum)
      INTO key_old, key_new FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    -- New rows get along with each other: the transaction's intent on the table is enough.
    body := body || format(E'  IF TG_OP <> ''INSERT'' THEN w := w || %s::bigint; END IF;\n', consort.table_item(relation));
    same := 'false';
  ELSE
    SELECT string_agg(consort.text_of(format('OLD.%I', attname), atttypid), ', ' ORDER BY k.n), string_agg(consort.text_of(format('NEW.%I', attname), atttypid), ', ' ORDER BY k.n),
           string_agg(consort.hashed(format('@.%I', attname), atttypid, attcollation), ', ' ORDER BY k.n)
      INTO key_old, key_new, parts
      FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n), pg_attribute
      WHERE x.indexrelid = own AND attrelid = relation AND attnum = x.indkey[k.n - 1];
    parts := format('hash_record_extended(ROW(%s), %s)', parts, consort.seed('row', consort.full_name(relation)));
    body := body || format(E'  IF TG_OP <> ''INSERT'' THEN w := w || %s; END IF;\n  IF TG_OP <> ''DELETE'' THEN w := w || %s; END IF;\n',
      replace(parts, '@.', 'OLD.'), replace(parts, '@.', 'NEW.'));
    same := format('ARRAY[%s] = ARRAY[%s]', key_old, key_new);
  END IF;
  RETURN format($b$
#variable_conflict use_column
DECLARE w bigint[] := '{}'; s bigint[] := '{}';
BEGIN
%1$s  IF TG_OP = 'INSERT' THEN
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, 1, ARRAY[%4$s], w, s, %6$s, %7$s);
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, -1, ARRAY[%3$s], w, s, %6$s, NULL);
  ELSIF %5$s THEN
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, 0, ARRAY[%4$s], w, s, %6$s, %7$s);
  ELSE
    INSERT INTO consort.notes VALUES (pg_current_xact_id(), %2$s, -1, ARRAY[%3$s], w, s, %6$s, NULL),
      (pg_current_xact_id(), %2$s, 1, ARRAY[%4$s], NULL, NULL, %6$s, %7$s);
  END IF;
  RETURN NULL;
END $b$, body, relation, key_old, key_new, same, its_shape, coalesce(image, 'NULL'));
END $f$;

-- The shape of a table as it is now.
CREATE OR REPLACE FUNCTION consort.shape_of(relation oid) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE own oid := consort.identity_index(relation); said text; found bigint;
BEGIN
  SELECT json_build_object('table', consort.full_name(relation), 'intent', consort.table_item(relation), 'database', consort.seed('database', ''),
      'columns', (SELECT coalesce(json_agg(quote_ident(attname) ORDER BY attnum), '[]') FROM pg_attribute
        WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = ''),
      'fixed', (SELECT coalesce(json_agg(quote_ident(attname) ORDER BY attnum), '[]') FROM pg_attribute
        WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attidentity = 'a'),
      'keys', (SELECT coalesce(json_agg(quote_ident(attname) ORDER BY k.n), '[]') FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n), pg_attribute
        WHERE x.indexrelid = own AND attrelid = relation AND attnum = x.indkey[k.n - 1]))::text INTO said;
  SELECT shape INTO found FROM consort.shapes WHERE rel = relation AND meta = said;
  IF found IS NULL THEN INSERT INTO consort.shapes (rel, meta) VALUES (relation, said) RETURNING shape INTO found; END IF;
  RETURN found;
END $f$;

-- How other nodes empty a table of which they get all rows: it was truncated, or a command has filled it, whose values
-- may be others there.
CREATE OR REPLACE FUNCTION consort.emptied(x xid8, relation oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT CASE max(delta) WHEN 0 THEN 'Truncated' ELSE 'Deleted' END FROM consort.notes WHERE xact = x AND rel = relation AND key IS NULL $f$;

-- The body of the function that reads what a transaction has left of one table: for each key whether the row was there
-- before, and the row as it is now.
CREATE OR REPLACE FUNCTION consort.rows_body(relation oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE own oid := consort.identity_index(relation); columns json; keys json; fixed json; row_text text; matches text; tab text := consort.full_name(relation);
BEGIN
  SELECT json_agg(quote_ident(attname) ORDER BY attnum), string_agg(consort.text_of(format('t.%I', attname), atttypid), ', ' ORDER BY attnum),
         coalesce(json_agg(quote_ident(attname)) FILTER (WHERE attidentity = 'a'), '[]')
    INTO columns, row_text, fixed
    FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
  IF own IS NULL THEN
    RETURN format($b$
BEGIN
  IF EXISTS (SELECT FROM consort.notes WHERE xact = x AND rel = %1$s AND key IS NULL) THEN
    RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'emptied', consort.emptied(x, %1$s),
      'rows', coalesce(json_agg(json_build_array(0, NULL, ARRAY[%4$s])), '[]'::json)) FROM ONLY %5$s t);
  END IF;
  RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'rows', json_agg(json_build_array(g.n, g.key, NULL)))
    FROM (SELECT key, sum(delta) AS n FROM consort.notes WHERE xact = x AND rel = %1$s GROUP BY key HAVING sum(delta) <> 0) g);
END $b$, relation, tab, columns, coalesce(row_text, 'NULL::text'), tab);
  END IF;
  SELECT json_agg(quote_ident(attname) ORDER BY k.n),
         string_agg(CASE WHEN consort.is_plain_type(atttypid) THEN format('t.%I = g.key[%s]::%s AND ', attname, k.n, format_type(atttypid, atttypmod)) ELSE '' END
           || format('%s = g.key[%s]', consort.text_of(format('t.%I', attname), atttypid), k.n), ' AND ' ORDER BY k.n)
    INTO keys, matches
    FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n), pg_attribute
    WHERE x.indexrelid = own AND attrelid = relation AND attnum = x.indkey[k.n - 1];
  RETURN format($b$
BEGIN
  IF EXISTS (SELECT FROM consort.notes WHERE xact = x AND rel = %1$s AND key IS NULL) THEN
    RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'keys', %4$L::json, 'fixed', %8$L::json, 'emptied', consort.emptied(x, %1$s),
      'rows', coalesce(json_agg(json_build_array(0, NULL, ARRAY[%5$s])), '[]'::json)) FROM ONLY %6$s t);
  END IF;
  RETURN (SELECT json_build_object('table', %2$L, 'columns', %3$L::json, 'keys', %4$L::json, 'fixed', %8$L::json,
      'rows', json_agg(json_build_array((t.ctid IS NOT NULL)::int - g.n, g.key, CASE WHEN t.ctid IS NOT NULL THEN ARRAY[%5$s] END)))
    FROM (SELECT key, sum(delta)::int AS n FROM consort.notes WHERE xact = x AND rel = %1$s GROUP BY key) g
    LEFT JOIN ONLY %6$s t ON %7$s
    WHERE t.ctid IS NOT NULL OR g.n < 0);
END $b$, relation, tab, columns, keys, row_text, tab, matches, fixed);
END $f$;

CREATE OR REPLACE FUNCTION consort.note_truncate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  INSERT INTO consort.notes VALUES (pg_current_xact_id(), TG_RELID, 0, NULL, ARRAY[consort.table_item(TG_RELID)], NULL, NULL, NULL);
  RETURN NULL;
END $f$;
CREATE OR REPLACE FUNCTION consort.refuse_foreign() RETURNS trigger LANGUAGE plpgsql AS $f$
BEGIN
  RAISE EXCEPTION 'cannot change a foreign table: the change cannot be certified' USING ERRCODE = '0A000',
    HINT = 'Change it at the server that it belongs to.';
END $f$;

-- Puts the triggers on one table, as its columns, keys and constraints are now. It changes nothing that is so already.
CREATE OR REPLACE FUNCTION consort.watch(relation oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE c record; tab text := consort.full_name(relation); notes text; r text; number int;
  settings text := 'SET search_path = pg_catalog, pg_temp'; texts text := ' SET datestyle = ''ISO, MDY'' SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = ''C'' SET timezone = ''UTC''';
BEGIN
  SELECT * INTO c FROM pg_class WHERE oid = relation;
  IF c.oid IS NULL OR c.relpersistence = 't' THEN RETURN; END IF;
  IF c.relkind = 'f' AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relation AND tgname = 'consort_refuses') THEN
    EXECUTE format('CREATE TRIGGER consort_refuses BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s EXECUTE FUNCTION consort.refuse_foreign()', tab);
  END IF;
  IF c.relkind <> 'r' THEN RETURN; END IF;
  -- Settings cost time at each row: they are left out where no column's text depends on them.
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND atttypid NOT IN
      ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'bool'::regtype,
       'uuid'::regtype, 'numeric'::regtype, 'json'::regtype, 'jsonb'::regtype)) THEN settings := settings || texts; END IF;
  notes := consort.note_body(relation, consort.shape_of(relation));
  r := consort.rows_body(relation);
  IF NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'consort'::regnamespace AND proname = 'note_' || relation AND prosrc = notes AND (cardinality(proconfig) > 1) = (settings ~ 'datestyle')) THEN
    EXECUTE format('CREATE OR REPLACE FUNCTION consort.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER %s AS %L', 'note_' || relation, settings, notes);
    EXECUTE format('REVOKE ALL ON FUNCTION consort.%I() FROM public', 'note_' || relation);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'consort'::regnamespace AND proname = 'rows_' || relation AND prosrc = r) THEN
    EXECUTE format('CREATE OR REPLACE FUNCTION consort.%I(x xid8) RETURNS json LANGUAGE plpgsql VOLATILE AS %L', 'rows_' || relation, r);
    EXECUTE format('REVOKE ALL ON FUNCTION consort.%I(xid8) FROM public', 'rows_' || relation);
  END IF;
  SELECT count(*) INTO number FROM pg_trigger WHERE tgrelid = relation AND tgenabled = 'O'
    AND (tgname = 'consort_truncates' OR tgname = 'consort_notes' AND tgfoid = to_regproc('consort.note_' || relation));
  IF number < 2 THEN
    EXECUTE format('CREATE OR REPLACE TRIGGER consort_notes AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION consort.%I()', tab, 'note_' || relation);
    EXECUTE format('CREATE OR REPLACE TRIGGER consort_truncates AFTER TRUNCATE ON %s EXECUTE FUNCTION consort.note_truncate()', tab);
    EXECUTE format('ALTER TABLE ONLY %s ENABLE TRIGGER consort_notes, ENABLE TRIGGER consort_truncates', tab);
  END IF;
END $f$;

CREATE OR REPLACE FUNCTION consort.is_user_schema(namespace oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT nspname NOT IN ('pg_catalog', 'information_schema', 'consort') AND nspname !~ '^pg_(toast|temp)'
      FROM pg_namespace WHERE oid = namespace $f$;
CREATE OR REPLACE FUNCTION consort.watch_all() RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT consort.watch(oid) FROM pg_class WHERE relkind IN ('r', 'f') AND relpersistence <> 't' AND consort.is_user_schema(relnamespace) ORDER BY oid $f$;

-- Each node takes values of its own of each sequence: those whose distance from its start, counted in increments, leaves
-- the node's number as the remainder. A sequence is moved on to the node's next value where it stands at another's.
CREATE OR REPLACE FUNCTION consort.own_value(start bigint, increment bigint, next numeric) RETURNS numeric LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT start + increment * (steps + ((number - steps) % nodes + nodes) % nodes)
  FROM consort.place, LATERAL (SELECT ceil((next - start) / increment) AS steps) AS counted $f$;
CREATE OR REPLACE FUNCTION consort.stride_all() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE s pg_sequence; nodes int := (SELECT p.nodes FROM consort.place p LIMIT 1); base bigint; stride bigint; last bigint; called boolean; own numeric; name text;
BEGIN
  IF nodes IS NULL OR nodes < 2 THEN RETURN; END IF;
  DELETE FROM consort.strided WHERE NOT EXISTS (SELECT FROM pg_sequence WHERE seqrelid = sequence);
  FOR s IN SELECT q.* FROM pg_sequence q JOIN pg_class c ON c.oid = seqrelid
      WHERE relpersistence <> 't' AND consort.is_user_schema(relnamespace) ORDER BY seqrelid LOOP
    name := consort.full_name(s.seqrelid);
    SELECT t.increment, t.increment * t.nodes INTO base, stride FROM consort.strided t WHERE sequence = s.seqrelid;
    IF base IS NULL OR s.seqincrement <> stride OR stride <> base * nodes THEN
      -- A new sequence, a new increment, or another number of nodes.
      IF base IS NULL OR s.seqincrement <> stride THEN base := s.seqincrement; END IF;
      EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', name, base * nodes);
      INSERT INTO consort.strided VALUES (s.seqrelid, base, nodes)
        ON CONFLICT (sequence) DO UPDATE SET increment = EXCLUDED.increment, nodes = EXCLUDED.nodes;
    END IF;
    EXECUTE format('SELECT last_value, is_called FROM %s', name) INTO last, called;
    own := consort.own_value(s.seqstart, base, last::numeric + CASE WHEN called THEN base ELSE 0 END);
    -- A sequence that has no more values than nodes stays as it is.
    IF consort.own_value(s.seqstart, base, last) <> last AND own BETWEEN s.seqmin AND s.seqmax THEN
      PERFORM setval(s.seqrelid::regclass, own::bigint, false);
    END IF;
  END LOOP;
END $f$;
-- The node becomes this one of so many.
CREATE OR REPLACE FUNCTION consort.take_place(its_number int, of_nodes int) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  DELETE FROM consort.place;
  INSERT INTO consort.place VALUES (its_number, of_nodes);
  PERFORM consort.watch_all();
  PERFORM consort.stride_all();
  PERFORM consort.refuse_unappliable();
END $f$;
-- Sequences go on behind the values that are in their columns: the node may be a copy, have a new neighbour, or have lost
-- values that it gave before a crash.
CREATE OR REPLACE FUNCTION consort.pass_columns() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE s record; newest numeric;
BEGIN
  FOR s IN SELECT t.sequence, t.increment, consort.full_name(d.refobjid) AS relation, a.attname
      FROM consort.strided t JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = t.sequence AND d.refclassid = 'pg_class'::regclass
        AND d.deptype IN ('a', 'i') JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid LOOP
    EXECUTE format('SELECT %s(%I) FROM %s', CASE WHEN s.increment > 0 THEN 'max' ELSE 'min' END, s.attname, s.relation) INTO newest;
    IF newest IS NOT NULL THEN
      PERFORM consort.advance_sequences(json_build_array(json_build_object('name', consort.full_name(s.sequence), 'next', newest + s.increment)));
    END IF;
  END LOOP;
END $f$;
-- Values of sequences that clients have set: all nodes go on behind them.
CREATE OR REPLACE FUNCTION consort.advance_sequences(positions json) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE s record; last bigint; own numeric;
BEGIN
  FOR s IN SELECT q.seqrelid, q.seqstart, q.seqmin, q.seqmax, t.increment, j.next FROM json_to_recordset(positions) AS j(name text, next numeric)
      JOIN consort.strided t ON t.sequence = to_regclass(j.name) JOIN pg_sequence q ON q.seqrelid = t.sequence LOOP
    EXECUTE format('SELECT last_value FROM %s', consort.full_name(s.seqrelid)) INTO last;
    own := consort.own_value(s.seqstart, s.increment, s.next);
    IF (own - last) * sign(s.increment) > 0 AND own BETWEEN s.seqmin AND s.seqmax THEN PERFORM setval(s.seqrelid::regclass, own::bigint, false); END IF;
  END LOOP;
END $f$;
CREATE OR REPLACE FUNCTION consort.note_sequences(secret text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE positions json; s record; last bigint; called boolean; found jsonb := '[]';
BEGIN
  PERFORM consort.check_secret(secret);
  FOR s IN SELECT sequence, increment, consort.full_name(sequence) AS name FROM consort.strided ORDER BY sequence LOOP
    EXECUTE format('SELECT last_value, is_called FROM %s', s.name) INTO last, called;
    found := found || jsonb_build_object('name', s.name, 'next', last::numeric + CASE WHEN called THEN s.increment ELSE 0 END);
  END LOOP;
  IF found <> '[]' THEN
    INSERT INTO consort.effects (xact, effect) VALUES (pg_current_xact_id(), json_build_object('statement',
      format('SELECT consort.advance_sequences(%L)', found), 'plain', true));
  END IF;
  PERFORM consort.stride_all();
END $f$;

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
CREATE OR REPLACE FUNCTION consort.commit_at(secret text, v text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM consort.check_secret(secret);
  DELETE FROM consort.notes WHERE xact = pg_current_xact_id_if_assigned();
  INSERT INTO consort.version VALUES (v::bigint);
END $f$;

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
GRANT EXECUTE ON FUNCTION consort.incarnation(), consort.certifies(text), consort.renews(text), consort.notes(text), consort.shape(text, text), consort.capture(text), consort.commit_at(text, text),
  consort.permit(text), consort.permit(text, text, text), consort.no_permit(text), consort.settings(), consort.note_statement(text, text), consort.note_statement(text, text, text, text),
  consort.note_notify(text, text), consort.note_sequences(text),
  consort.note_locks(text, text[], boolean), consort.note_lock(text, oid[], boolean) TO public;

CREATE EVENT TRIGGER consort_ddl ON ddl_command_end EXECUTE FUNCTION consort.on_ddl();
CREATE EVENT TRIGGER consort_drop ON sql_drop EXECUTE FUNCTION consort.on_drop();
CREATE EVENT TRIGGER consort_rewrite ON table_rewrite EXECUTE FUNCTION consort.on_rewrite();
ALTER EVENT TRIGGER consort_ddl ENABLE ALWAYS;
ALTER EVENT TRIGGER consort_drop ENABLE ALWAYS;
