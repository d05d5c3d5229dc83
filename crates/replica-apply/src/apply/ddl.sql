-- What the feeder needs at a replica to run a DDL command and to look whether it did there what it did at the primary.

-- Runs a statement as the function's owner, which the feeder sets: what the statement calls cannot become anybody else.
CREATE OR REPLACE FUNCTION consort.run(statement text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    EXECUTE statement;
END
$$;
REVOKE EXECUTE ON FUNCTION consort.run(text) FROM PUBLIC;

-- How many rows this transaction has written so far, by table.
CREATE OR REPLACE FUNCTION consort.written() RETURNS jsonb LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(relid, n_tup_ins + n_tup_upd + n_tup_del), '{}') FROM pg_stat_xact_user_tables
    WHERE schemaname <> 'consort' AND n_tup_ins + n_tup_upd + n_tup_del > 0
        -- No rows of these come in the stream: the script of an extension fills its own tables, as spatial_ref_sys of PostGIS.
        AND schemaname NOT LIKE 'pg\_temp\_%'
        AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = relid AND deptype = 'e')
$$;

-- What may be otherwise here than at the primary. The query is that of the analysis.
CREATE OR REPLACE FUNCTION consort.unlike() RETURNS TABLE (relation oid, attribute int, why text) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $unlike$ {unlike} $unlike$;

-- Columns that are computed here otherwise, maybe.
CREATE OR REPLACE FUNCTION consort.computed() RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(relation || ' ' || attribute, ',') FROM consort.unlike() WHERE why = 'computed'
$$;

-- Whether one of them goes on as a column that is not computed any more: what it has here is not what it has at the primary.
CREATE OR REPLACE FUNCTION consort.goes_on(computed text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM string_to_table(computed, ',') AS c JOIN pg_attribute a
        ON a.attrelid = split_part(c, ' ', 1)::oid AND a.attnum = split_part(c, ' ', 2)::int2
        WHERE a.attgenerated = '' AND NOT a.attisdropped)
$$;

-- Whether an expression gives the same whenever and wherever it is computed: PostgreSQL's own immutable functions alone.
CREATE OR REPLACE FUNCTION consort.is_plain(tree text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT tree !~ '{(COERCEVIAIO|COERCETODOMAIN|SQLVALUEFUNCTION|ROWCOMPAREEXPR|XMLEXPR) '
        AND NOT EXISTS (SELECT FROM regexp_matches(tree, ':(?:op)?funcid ([0-9]+)', 'g') AS f LEFT JOIN pg_proc p ON p.oid = f[1]::oid
            WHERE p.oid >= 16384 OR p.provolatile IS DISTINCT FROM 'i')
$$;

-- What would disturb the feeder goes: triggers and rules that fire for it too (event triggers are those of extensions: others are
-- not here), checks that may be refused here what the
-- primary has accepted (a clock, a function that looks for names, one that was replaced since). No row changes by that.
CREATE OR REPLACE FUNCTION consort.tame() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    command text;
    found_any boolean;
BEGIN
    LOOP
        found_any := false;
        FOR command IN
            SELECT format('ALTER TABLE ONLY %s ENABLE TRIGGER %I', tgrelid::regclass, tgname)
            FROM pg_trigger WHERE tgenabled IN ('A', 'R')
            UNION ALL SELECT format('ALTER EVENT TRIGGER %I ENABLE', evtname) FROM pg_event_trigger WHERE evtenabled IN ('A', 'R')
            UNION ALL SELECT format('ALTER TABLE ONLY %s ENABLE RULE %I', ev_class::regclass, rulename)
            FROM pg_rewrite JOIN pg_class c ON c.oid = ev_class
            WHERE ev_enabled IN ('A', 'R') AND c.relkind IN ('r', 'p') AND ev_class >= 16384
            -- Those that were inherited are dropped with the parent's, or are the table's own then.
            UNION ALL SELECT CASE conrelid WHEN 0 THEN format('ALTER DOMAIN %s DROP CONSTRAINT %I', contypid::regtype, conname)
                ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) END
            FROM pg_constraint WHERE contype = 'c' AND coninhcount = 0 AND oid >= 16384 AND NOT consort.is_plain(conbin::text)
        LOOP
            EXECUTE command;
            found_any := true;
        END LOOP;
        EXIT WHEN NOT found_any;
    END LOOP;
END
$$;

-- Whether a replica that is not to have all tables is to have this one: it is named, or something above it.
CREATE OR REPLACE FUNCTION consort.is_chosen(object oid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE above (id) AS (SELECT object UNION SELECT i.inhparent FROM pg_inherits i JOIN above ON i.inhrelid = above.id)
    SELECT EXISTS (SELECT FROM above JOIN pg_class c ON c.oid = above.id JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN consort.chosen w ON coalesce(w.schema, n.nspname) = n.nspname AND coalesce(w.relation, c.relname) = c.relname)
$$;

-- Leaves out, from now on, what a command has made of that kind; says what cannot be left out any more, if anything.
CREATE OR REPLACE FUNCTION consort.leave_out() RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unlike oid[];
    reasons text[];
    alike text;
BEGIN
    SELECT array_agg(u.relation), array_agg(u.why) INTO unlike, reasons
    FROM consort.unlike() u WHERE u.attribute = 0 AND u.why <> 'order';
    -- What is there no more, by this name, comes again as something new.
    DELETE FROM consort.left_out l WHERE to_regclass(format('%I.%I', l.schema, l.relation)) IS NULL;
    SELECT l.relation INTO alike
    FROM consort.left_out l CROSS JOIN LATERAL to_regclass(format('%I.%I', l.schema, l.relation)) AS here
    WHERE l.why NOT IN ('order', 'not chosen') AND here <> ALL (coalesce(unlike, '{}'));
    IF alike IS NULL THEN
        SELECT c.relname INTO alike FROM consort.tables t JOIN pg_class c ON c.oid = t.here
        WHERE NOT t.has_rows AND consort.is_chosen(t.here);
    END IF;
    IF alike IS NOT NULL THEN
        RETURN format('the rows of %s were left out', alike);
    END IF;
    INSERT INTO consort.left_out SELECT n.nspname, c.relname, u.why
    FROM unnest(unlike, reasons) AS u (relation, why)
        JOIN pg_class c ON c.oid = u.relation JOIN pg_namespace n ON n.oid = c.relnamespace ON CONFLICT DO NOTHING;
    -- What has rows keeps them, under whatever name; what is new has them if it is chosen.
    IF EXISTS (SELECT FROM consort.chosen) THEN
        DELETE FROM consort.tables t WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.here);
        INSERT INTO consort.tables SELECT c.oid, NULL, consort.is_chosen(c.oid)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND c.oid >= 16384 AND n.nspname <> 'consort'
        ON CONFLICT DO NOTHING;
        DELETE FROM consort.left_out WHERE left_out.why = 'not chosen';
        INSERT INTO consort.left_out SELECT n.nspname, c.relname, 'not chosen'
        FROM consort.tables t JOIN pg_class c ON c.oid = t.here JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE NOT t.has_rows ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;

-- Whether it has written more since then: code that a command called did, and the same rows come in the stream.
CREATE OR REPLACE FUNCTION consort.has_written(before jsonb) RETURNS boolean LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM jsonb_each(consort.written()) n WHERE n.value IS DISTINCT FROM before -> n.key)
$$;

CREATE OR REPLACE FUNCTION consort.address(object jsonb, OUT class oid, OUT id oid) LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF object ->> 0 = 'relation' THEN
        class := 'pg_class'::regclass;
        id := to_regclass(format('%I.%I', object #>> '{1,0}', object #>> '{1,1}'));
        RETURN;
    END IF;
    IF object ->> 0 = 'operator' AND jsonb_array_length(object -> 2) = 1 THEN
        -- A prefix operator: pg_get_object_address takes no address with one argument.
        class := 'pg_operator'::regclass;
        id := to_regoperator(format('%I.%s(NONE, %s)', object #>> '{1,0}', object #>> '{1,1}', object #>> '{2,0}'));
        RETURN;
    END IF;
    SELECT a.classid, a.objid INTO class, id FROM pg_get_object_address(object ->> 0,
        ARRAY(SELECT jsonb_array_elements_text(object -> 1)), ARRAY(SELECT jsonb_array_elements_text(object -> 2))) a;
EXCEPTION WHEN OTHERS THEN
    NULL;
END
$$;

-- Whether the columns of a table, or of one below it, stand here in another order: nobody here can say what a command made of
-- that.
CREATE OR REPLACE FUNCTION consort.has_left_out(object oid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE below (id) AS (SELECT object UNION SELECT i.inhrelid FROM pg_inherits i JOIN below ON i.inhparent = below.id)
    SELECT EXISTS (SELECT FROM consort.left_out l JOIN below ON below.id = to_regclass(format('%I.%I', l.schema, l.relation))
    WHERE l.why = 'order')
$$;

-- What is not here as the primary says; nothing if all is. Of privileges what a command has changed is compared, if any: those
-- that there were in front of it are needed.
CREATE OR REPLACE FUNCTION consort.differs(effect jsonb, earlier jsonb) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    item jsonb;
    here record;
BEGIN
    FOR item IN SELECT jsonb_array_elements(nullif(effect -> 'made', 'null')) LOOP
        here := consort.address(item);
        IF here.class = 'pg_class'::regclass AND consort.has_left_out(here.id) THEN
            RETURN format('columns of %s, or below it, stand in another order', item ->> 4);
        ELSIF here.id IS NULL THEN
            RETURN format('%s is not there', item ->> 4);
        ELSIF md5(consort.look(here.class, here.id)) IS DISTINCT FROM item ->> 3 THEN
            RETURN format('%s is not as it is at the primary', item ->> 4);
        END IF;
    END LOOP;
    FOR item IN SELECT jsonb_array_elements(nullif(effect -> 'dropped', 'null')) LOOP
        here := consort.address(item);
        IF here.id IS NOT NULL THEN
            RETURN format('%s is still there', item ->> 4);
        END IF;
    END LOOP;
    FOR item IN SELECT jsonb_array_elements(nullif(effect -> 'missing', 'null')) LOOP
        IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass(item ->> 0) AND a.attname = item ->> 1
            AND a.atthasmissing AND consort.missing_value(a) IS DISTINCT FROM item ->> 2)
        THEN
            RETURN format('rows of %s have another %s than at the primary', item ->> 0, item ->> 1);
        END IF;
    END LOOP;
    FOR item IN SELECT jsonb_array_elements(nullif(effect -> 'contents', 'null')) LOOP
        IF item ->> 1 IS NULL AND EXISTS (SELECT FROM consort.left_out l
            WHERE to_regclass(format('%I.%I', l.schema, l.relation)) = (item ->> 0)::regclass)
        THEN
            CONTINUE;
        ELSIF item ->> 1 IS NULL OR consort.contents((item ->> 0)::regclass) IS DISTINCT FROM item ->> 1 THEN
            RETURN format('rows of %s were computed otherwise than at the primary', item ->> 0);
        END IF;
    END LOOP;
    IF effect ->> 'grants' IS NOT NULL AND consort.changed_acls(earlier) IS DISTINCT FROM effect ->> 'grants' THEN
        RETURN 'privileges were changed otherwise than at the primary';
    END IF;
    RETURN NULL;
END
$$;
