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

-- A column of a row in PL/pgSQL, which reserves words that SQL does not: NEW.begin is no field, NEW."begin" is.
CREATE OR REPLACE FUNCTION consort.field(side text, name text) RETURNS text LANGUAGE sql IMMUTABLE AS
  $f$ SELECT side || '."' || pg_catalog.replace(name, '"', '""') || '"' $f$;

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
      expression := consort.field(side, (SELECT attname FROM pg_attribute WHERE attrelid = i.indrelid AND attnum = i.indkey[n - 1]));
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
  SELECT coalesce(string_agg(format('%s IS DISTINCT FROM %s', consort.text_of(consort.field('OLD', attname), atttypid), consort.text_of(consort.field('NEW', attname), atttypid)), ' OR '), 'false')
  FROM pg_attribute WHERE attrelid = rel AND attnum = ANY (columns) AND attnum > 0 $f$;

