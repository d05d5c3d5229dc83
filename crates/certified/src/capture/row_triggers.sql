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
    SELECT string_agg(consort.hashed(CASE WHEN a.atttypid = p.atttypid THEN consort.field('NEW', a.attname) ELSE format('(%s)::%s', consort.field('NEW', a.attname), format_type(p.atttypid, NULL)) END,
        p.atttypid, p.attcollation), ', ' ORDER BY place.n),
        bool_and(a.atttypid = p.atttypid OR consort.is_plain_type(a.atttypid) AND consort.is_plain_type(p.atttypid))
      INTO parts, is_hashed
      FROM (SELECT k.n, c.conkey[array_position(c.confkey, x.indkey[k.n - 1])] AS child, x.indkey[k.n - 1] AS parent
            FROM pg_index x, generate_series(1, x.indnkeyatts::int) AS k(n) WHERE x.indexrelid = c.conindid) AS place
      JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = place.child
      JOIN pg_attribute p ON p.attrelid = c.confrelid AND p.attnum = place.parent;
    SELECT string_agg(consort.field('NEW', attname) || ' IS NOT NULL', ' AND ') INTO same
      FROM pg_attribute WHERE attrelid = relation AND attnum = ANY (c.conkey);
    body := body || format(E'  IF TG_OP <> ''DELETE'' THEN IF (TG_OP = ''INSERT'' OR %s) AND %s THEN\n    s := s || %s; END IF; END IF;\n',
      consort.columns_differ(relation, c.conkey), same, CASE WHEN is_hashed THEN format('hash_record_extended(ROW(%s), %s)', parts, consort.key_seed(c.conindid))
        ELSE format('%s::bigint', consort.table_item(c.confrelid)) END);
  END LOOP;
  FOR c IN SELECT * FROM pg_constraint WHERE conrelid = relation AND contype = 'x' LOOP
    body := body || format(E'  IF TG_OP <> ''DELETE'' THEN w := w || %s::bigint; END IF;\n',
      consort.seed('exclusion', consort.full_name(relation) || ':' || c.conname));
  END LOOP;
  SELECT 'ARRAY[' || string_agg(consort.text_of(consort.field('NEW', attname), atttypid), ', ' ORDER BY attnum) || ']' INTO image
    FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND own IS NOT NULL;
  IF own IS NULL THEN
    -- Nothing tells the rows apart: the whole table is the item, and a row is found by all its columns.
    SELECT string_agg(consort.output_of(consort.field('OLD', attname)), ', ' ORDER BY attnum), string_agg(consort.output_of(consort.field('NEW', attname)), ', ' ORDER BY attnum)
      INTO key_old, key_new FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    -- New rows get along with each other: the transaction's intent on the table is enough.
    body := body || format(E'  IF TG_OP <> ''INSERT'' THEN w := w || %s::bigint; END IF;\n', consort.table_item(relation));
    same := 'false';
  ELSE
    SELECT string_agg(consort.text_of(consort.field('OLD', attname), atttypid), ', ' ORDER BY k.n), string_agg(consort.text_of(consort.field('NEW', attname), atttypid), ', ' ORDER BY k.n),
           string_agg(consort.hashed(consort.field('@', attname), atttypid, attcollation), ', ' ORDER BY k.n)
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

-- The plan of a table for the row trigger of the extension, which is not installed: the triggers are in PL/pgSQL.
CREATE OR REPLACE FUNCTION consort.native_plan(relation oid, its_shape bigint, needs_settings boolean) RETURNS text LANGUAGE sql STABLE AS
  $f$ SELECT NULL::text $f$;

-- Puts the triggers on one table, as its columns, keys and constraints are now. It changes nothing that is so already.
CREATE OR REPLACE FUNCTION consort.watch(relation oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE c record; tab text := consort.full_name(relation); notes text; r text; number int; shape bigint; plan text; trigger_function text;
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
  shape := consort.shape_of(relation);
  plan := consort.native_plan(relation, shape, settings ~ 'datestyle');
  notes := consort.note_body(relation, shape);
  r := consort.rows_body(relation);
  IF plan IS NULL AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'consort'::regnamespace AND proname = 'note_' || relation AND prosrc = notes AND (cardinality(proconfig) > 1) = (settings ~ 'datestyle')) THEN
    EXECUTE format('CREATE OR REPLACE FUNCTION consort.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER %s AS %L', 'note_' || relation, settings, notes);
    EXECUTE format('REVOKE ALL ON FUNCTION consort.%I() FROM public', 'note_' || relation);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'consort'::regnamespace AND proname = 'rows_' || relation AND prosrc = r) THEN
    EXECUTE format('CREATE OR REPLACE FUNCTION consort.%I(x xid8) RETURNS json LANGUAGE plpgsql VOLATILE AS %L', 'rows_' || relation, r);
    EXECUTE format('REVOKE ALL ON FUNCTION consort.%I(xid8) FROM public', 'rows_' || relation);
  END IF;
  trigger_function := CASE WHEN plan IS NULL THEN 'consort.note_' || relation ELSE 'consort.native_note_row' END;
  SELECT count(*) INTO number FROM pg_trigger WHERE tgrelid = relation AND tgenabled = 'O' AND (tgname = 'consort_truncates'
    OR tgname = 'consort_notes' AND tgfoid = to_regproc(trigger_function) AND (plan IS NULL OR tgargs = convert_to(plan, 'UTF8') || '\x00'::bytea));
  IF number < 2 THEN
    EXECUTE format('CREATE OR REPLACE TRIGGER consort_notes AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION %s(%s)',
      tab, trigger_function, quote_literal(plan));
    EXECUTE format('CREATE OR REPLACE TRIGGER consort_truncates AFTER TRUNCATE ON %s EXECUTE FUNCTION consort.note_truncate()', tab);
    EXECUTE format('ALTER TABLE ONLY %s ENABLE TRIGGER consort_notes, ENABLE TRIGGER consort_truncates', tab);
  END IF;
END $f$;

CREATE OR REPLACE FUNCTION consort.is_user_schema(namespace oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT nspname NOT IN ('pg_catalog', 'information_schema', 'consort') AND nspname !~ '^pg_(toast|temp)'
      FROM pg_namespace WHERE oid = namespace $f$;
CREATE OR REPLACE FUNCTION consort.watch_all() RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
  $f$ SELECT consort.watch(oid) FROM pg_class WHERE relkind IN ('r', 'f') AND relpersistence <> 't' AND consort.is_user_schema(relnamespace) ORDER BY oid $f$;

