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
    SELECT a.classid, a.objid INTO class, id FROM pg_get_object_address(object ->> 0,
        ARRAY(SELECT jsonb_array_elements_text(object -> 1)), ARRAY(SELECT jsonb_array_elements_text(object -> 2))) a;
EXCEPTION WHEN OTHERS THEN
    NULL;
END
$$;

-- What is not here as the primary says; nothing if all is.
CREATE OR REPLACE FUNCTION consort.differs(effect jsonb) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    item jsonb;
    here record;
BEGIN
    FOR item IN SELECT jsonb_array_elements(nullif(effect -> 'made', 'null')) LOOP
        here := consort.address(item);
        IF here.id IS NULL THEN
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
        IF consort.contents((item ->> 0)::regclass) IS DISTINCT FROM item ->> 1 THEN
            RETURN format('rows of %s were computed otherwise than at the primary', item ->> 0);
        END IF;
    END LOOP;
    IF consort.all_grants() IS DISTINCT FROM effect ->> 'grants' AND effect ->> 'grants' IS NOT NULL THEN
        RETURN 'privileges are not those at the primary';
    END IF;
    RETURN NULL;
END
$$;
