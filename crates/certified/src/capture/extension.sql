
-- Capture by the extension: notes are in the memory of a session, and its row trigger gets a plan as its argument. The
-- other functions and tables stay as they are. A table that no plan describes keeps the trigger in PL/pgSQL.
CREATE EXTENSION IF NOT EXISTS consort VERSION '1.0';
ALTER EXTENSION consort UPDATE TO '1.0';
CREATE OR REPLACE FUNCTION consort.spill() RETURNS void LANGUAGE sql AS $f$ SELECT consort.native_spill() $f$;
CREATE TRIGGER native_note_table_use AFTER INSERT ON consort.notes EXECUTE FUNCTION consort.native_note_table_use();
CREATE TRIGGER native_note_table_use AFTER INSERT ON consort.effects EXECUTE FUNCTION consort.native_note_table_use();
CREATE TRIGGER native_note_table_use AFTER INSERT ON consort.permits EXECUTE FUNCTION consort.native_note_table_use();

-- The source of the hash of a column; NULL if an expression other than the column is hashed.
CREATE OR REPLACE FUNCTION consort.plan_source(typ oid, coll oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT CASE consort.hashed('@', typ, coll) WHEN 'true' THEN 'k' WHEN '(@)' THEN 'v' WHEN '(@)::text' THEN 't' WHEN 'concat(@)' THEN 'c' END $f$;
-- The columns of a key with the sources of their hashes: by the types of the index, which differ for some, or by the table's.
CREATE OR REPLACE FUNCTION consort.plan_parts(ind oid, by_index boolean) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT CASE WHEN bool_and(source IS NOT NULL) THEN string_agg(x.indkey[n - 1] || source, ',' ORDER BY n) END
  FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS n,
    LATERAL (SELECT consort.plan_source(atttypid, attcollation) AS source FROM pg_attribute
      WHERE attrelid = CASE WHEN by_index THEN x.indexrelid ELSE x.indrelid END AND attnum = CASE WHEN by_index THEN n ELSE x.indkey[n - 1] END) AS hash
  WHERE x.indexrelid = ind $f$;
-- The item of a foreign key: its columns in the order of the parent's key. NULL if a cast of the columns is not one of PostgreSQL's
-- simplest.
CREATE OR REPLACE FUNCTION consort.plan_parent(foreign_key pg_constraint) RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE parts text; is_known boolean; is_hashed boolean;
BEGIN
  SELECT string_agg(a.attnum || source || CASE WHEN a.atttypid = p.atttypid THEN '' ELSE p.atttypid::text END, ',' ORDER BY place.n),
      bool_and(source IS NOT NULL AND (a.atttypid = p.atttypid OR source = 'v' AND (
        a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype) AND p.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
        OR a.atttypid IN ('text'::regtype, 'varchar'::regtype) AND p.atttypid IN ('text'::regtype, 'varchar'::regtype)))),
      bool_and(a.atttypid = p.atttypid OR consort.is_plain_type(a.atttypid) AND consort.is_plain_type(p.atttypid))
    INTO parts, is_known, is_hashed
    FROM (SELECT k.n, foreign_key.conkey[array_position(foreign_key.confkey, x.indkey[k.n - 1])] AS child, x.indkey[k.n - 1] AS parent
          FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n) WHERE x.indexrelid = foreign_key.conindid) AS place
    JOIN pg_attribute a ON a.attrelid = foreign_key.conrelid AND a.attnum = place.child
    JOIN pg_attribute p ON p.attrelid = foreign_key.confrelid AND p.attnum = place.parent,
    LATERAL (SELECT consort.plan_source(p.atttypid, p.attcollation) AS source) AS hash;
  IF NOT is_hashed THEN
    RETURN format('Q%s:%s', consort.table_item(foreign_key.confrelid), (SELECT string_agg(c || 'k', ',') FROM unnest(foreign_key.conkey) c));
  END IF;
  RETURN CASE WHEN is_known THEN format('P%s:%s', consort.key_seed(foreign_key.conindid), parts) END;
END $f$;
-- The plan of a table for the trigger of the extension; NULL if it has an index or a foreign key that no plan describes.
CREATE OR REPLACE FUNCTION consort.native_plan(relation oid, its_shape bigint, needs_settings boolean) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $f$
DECLARE i pg_index; c pg_constraint; own oid := consort.identity_index(relation); words text[]; columns text; key int2[];
BEGIN
  words := ARRAY['S' || its_shape] || CASE WHEN needs_settings THEN ARRAY['G'] ELSE '{}' END;
  SELECT words || ('A' || coalesce(string_agg(attnum || CASE WHEN own IS NOT NULL AND consort.is_plain_type(atttypid) THEN 'p' ELSE 'o' END || atttypid, ',' ORDER BY attnum), ''))
    INTO words FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped;
  SELECT coalesce(string_agg(attnum::text, ',' ORDER BY attnum), '') INTO columns
    FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
  IF own IS NULL THEN
    words := words || ('K' || columns) || ('N' || consort.table_item(relation));
  ELSE
    SELECT (indkey::int2[])[0:indnkeyatts - 1] INTO key FROM pg_index WHERE indexrelid = own;
    words := words || ('I' || columns) || ('K' || array_to_string(key, ','))
      || ('R' || consort.seed('row', consort.full_name(relation)) || ':' || consort.plan_parts(own, false));
  END IF;
  FOR i IN SELECT * FROM pg_index WHERE indrelid = relation AND indisunique AND indisvalid ORDER BY indexrelid LOOP
    words := words || CASE WHEN NOT (consort.is_plain(i.indexprs) AND consort.is_plain(i.indpred)) THEN format('B%1$s', consort.key_seed(i.indexrelid))
      WHEN i.indexprs IS NULL AND i.indpred IS NULL THEN CASE WHEN i.indnullsnotdistinct THEN 'D' ELSE 'U' END
        || consort.key_seed(i.indexrelid) || ':' || consort.plan_parts(i.indexrelid, true) END;
  END LOOP;
  FOR c IN SELECT * FROM pg_constraint WHERE conrelid = relation AND contype = 'f' ORDER BY oid LOOP
    words := words || consort.plan_parent(c);
  END LOOP;
  FOR c IN SELECT * FROM pg_constraint WHERE conrelid = relation AND contype = 'x' LOOP
    words := words || ('X' || consort.seed('exclusion', consort.full_name(relation) || ':' || c.conname));
  END LOOP;
  RETURN CASE WHEN array_position(words, NULL) IS NULL THEN array_to_string(words, ' ') END;
END $f$;
