-- What a replica that Consort feeds needs to run a DDL command itself. Made behind attach.sql and look.sql, where replicas
-- are fed only: each command costs more, and its session keeps three settings of ours to the end of the transaction.
--
-- A command writes a row when it begins and one when it ends, deleted at once as those of consort.log. The first stands in
-- the stream before all that the command writes, the second behind it and says what came of it. Commands that run inside
-- others (in functions, in event triggers) write theirs between those, so the rows of a transaction are like brackets.
CREATE TABLE IF NOT EXISTS consort.command (
    step text NOT NULL,      -- begins, dropped, ended
    tag text NOT NULL,
    query text,              -- what the client sent, whole
    place text,              -- where in it the command ran: PL/pgSQL's context, innermost first
    body text,               -- the body of the SQL function in which it ran, if only one has its name
    author text,             -- as whom it ran
    login text,              -- who logged in
    settings text,           -- under which settings, as JSON
    came_of text,            -- nothing, own, temporary, something: what it made, changed or dropped
    instead text,            -- the same with a definition, where rows come in the stream
    effect text              -- what must be found where it was run, as JSON
);
DO $$
BEGIN
    -- As for the table consort.log.
    IF EXISTS (SELECT FROM pg_class WHERE oid = 'consort.command'::regclass AND relreplident <> 'f') THEN
        ALTER TABLE consort.command REPLICA IDENTITY FULL;
    END IF;
END
$$;

-- Runs as whoever runs the command, under its settings: every name is qualified.
CREATE OR REPLACE FUNCTION consort.note_author() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.set_config('consort.author', pg_catalog.jsonb_build_object('author', CURRENT_USER, 'settings',
        pg_catalog.jsonb_build_object(
            'search_path', pg_catalog.current_setting('search_path'),
            'DateStyle', pg_catalog.current_setting('DateStyle'),
            'IntervalStyle', pg_catalog.current_setting('IntervalStyle'),
            'TimeZone', pg_catalog.current_setting('TimeZone'),
            'extra_float_digits', pg_catalog.current_setting('extra_float_digits'),
            'bytea_output', pg_catalog.current_setting('bytea_output'),
            'lc_monetary', pg_catalog.current_setting('lc_monetary'),
            'lc_numeric', pg_catalog.current_setting('lc_numeric'),
            'lc_time', pg_catalog.current_setting('lc_time'),
            'array_nulls', pg_catalog.current_setting('array_nulls'),
            'xmloption', pg_catalog.current_setting('xmloption'),
            'xmlbinary', pg_catalog.current_setting('xmlbinary'),
            'backslash_quote', pg_catalog.current_setting('backslash_quote'),
            'standard_conforming_strings', pg_catalog.current_setting('standard_conforming_strings'),
            'transform_null_equals', pg_catalog.current_setting('transform_null_equals'),
            'default_text_search_config', pg_catalog.current_setting('default_text_search_config'),
            'default_toast_compression', pg_catalog.current_setting('default_toast_compression')))::pg_catalog.text, true);
END
$$;

-- The definition of what a query filled, without its rows.
CREATE OR REPLACE FUNCTION consort.definition(relation oid) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE c.relkind
        WHEN 'r' THEN format('CREATE%s TABLE %s (%s)%s', CASE c.relpersistence WHEN 'u' THEN ' UNLOGGED' END, c.oid::regclass,
            (SELECT string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                    CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || a.attcollation::regcollation END),
                ', ' ORDER BY a.attnum)
             FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0), w.options)
        WHEN 'm' THEN format('CREATE MATERIALIZED VIEW %s (%s)%s AS %s WITH NO DATA', c.oid::regclass,
            (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
             FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0), w.options, rtrim(pg_get_viewdef(c.oid), ';'))
        END
    FROM pg_class c CROSS JOIN LATERAL (SELECT ' WITH (' || string_agg(o, ', ') || ')' FROM unnest(c.reloptions) o) w (options)
    WHERE c.oid = relation
$$;

-- Whether a command may grant or revoke anything. The feeder knows the same (logged.rs).
CREATE OR REPLACE FUNCTION consort.may_grant(tag text) RETURNS boolean LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT tag IN ('GRANT', 'REVOKE', 'ALTER DEFAULT PRIVILEGES', 'CREATE SCHEMA')
$$;

-- Waits until no open transaction has written to tables whose rows this command makes mean something else without locking them:
-- those of a renamed schema, and those with values of an altered type, or of a table's row type. Who writes there afterwards waits for
-- the command's end. So no transaction comes out behind the command whose rows were taken down, by name, in front of it.
CREATE OR REPLACE FUNCTION consort.wait_for_writers(tag text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written oid;
BEGIN
    IF tag NOT IN ('ALTER SCHEMA', 'ALTER TYPE', 'ALTER TABLE')
        -- A new label changes no value. With anything else in the same text it is not looked at closely.
        OR tag = 'ALTER TYPE' AND current_query() ~* '^[[:space:]]*alter[[:space:]]+type[[:space:]]+[^;''[:space:]]+[[:space:]]+add[[:space:]]+value[^;]*;?[[:space:]]*$'
    THEN
        RETURN;
    END IF;
    FOR written IN
        WITH RECURSIVE altered (class, id) AS (
            SELECT d.classid, d.objid FROM pg_event_trigger_ddl_commands() d
        ), uses (class, id) AS (
            SELECT 'pg_type'::regclass::oid, a.id FROM altered a WHERE a.class = 'pg_type'::regclass
            UNION SELECT 'pg_type'::regclass, c.reltype FROM altered a JOIN pg_class c ON c.oid = a.id
                WHERE a.class = 'pg_class'::regclass AND c.reltype <> 0
            UNION SELECT u.class, u.id FROM uses CROSS JOIN LATERAL (
                SELECT d.classid, d.objid FROM pg_depend d
                WHERE uses.class = 'pg_type'::regclass AND d.refclassid = 'pg_type'::regclass AND d.refobjid = uses.id
                    AND d.classid IN ('pg_type'::regclass, 'pg_class'::regclass)
                UNION ALL SELECT 'pg_type'::regclass, c.reltype FROM pg_class c
                WHERE uses.class = 'pg_class'::regclass AND c.oid = uses.id AND c.reltype <> 0) AS u (class, id)
        )
        SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND (
            c.relnamespace IN (SELECT a.id FROM altered a WHERE a.class = 'pg_namespace'::regclass)
            OR c.oid IN (SELECT u.id FROM uses u WHERE u.class = 'pg_class'::regclass))
        ORDER BY c.oid
    LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', written::regclass);
    END LOOP;
END
$$;

-- What came of the command that has just ended, for its row.
CREATE OR REPLACE FUNCTION consort.note_effect(noted consort.command) RETURNS consort.command
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rewritten oid[] := string_to_array(nullif(current_setting('consort.rewritten', true), ''), ',')::oid[];
    filled oid;
    -- What privileges there were in front of each command that has not ended, this one the last.
    kept jsonb := CASE WHEN consort.may_grant(noted.tag) THEN nullif(current_setting('consort.grants', true), '')::jsonb END;
BEGIN
    SELECT CASE WHEN count(*) FILTER (WHERE t.kind = 'something') > 0 THEN 'something' ELSE coalesce(min(t.kind), 'nothing') END,
        jsonb_build_object(
            'made', jsonb_agg(jsonb_build_array(CASE d.classid WHEN 'pg_class'::regclass THEN 'relation' ELSE a.type END,
                    a.object_names, a.object_args, md5(consort.look(d.classid, d.objid)), d.object_identity))
                FILTER (WHERE t.kind = 'something' AND a.type IS NOT NULL),
            'grants', CASE WHEN bool_or(d.objid IS NULL) THEN consort.changed_acls(kept -> -1) END),
        min(d.objid) FILTER (WHERE t.kind = 'something' AND d.classid = 'pg_class'::regclass
            AND noted.tag IN ('CREATE TABLE AS', 'SELECT INTO', 'CREATE MATERIALIZED VIEW'))
    INTO noted.came_of, noted.effect, filled
    FROM pg_event_trigger_ddl_commands() d
        LEFT JOIN LATERAL pg_identify_object_as_address(d.classid, d.objid, d.objsubid) a ON d.objid IS NOT NULL
        CROSS JOIN LATERAL (SELECT CASE
            WHEN 'pg_temp' IN (d.schema_name, a.object_names[1]) THEN 'temporary'
            WHEN 'consort' IN (d.schema_name, d.object_identity) THEN 'own'
            ELSE 'something' END) AS t (kind);
    IF kept IS NOT NULL THEN
        PERFORM set_config('consort.grants', (kept - (-1))::text, true);
    END IF;
    IF filled IS NOT NULL THEN
        noted.instead := consort.definition(filled);
    END IF;
    IF noted.tag = 'ALTER TABLE' THEN
        -- Values of columns that were added without writing the rows anew: of the table and of those below it.
        WITH RECURSIVE below (id) AS (
            SELECT d.objid FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass
            UNION SELECT i.inhrelid FROM pg_inherits i JOIN below ON i.inhparent = below.id)
        SELECT jsonb_set(noted.effect::jsonb, '{missing}',
            coalesce(jsonb_agg(jsonb_build_array(below.id::regclass, a.attname, consort.missing_value(a))), 'null'))
        INTO noted.effect
        FROM below JOIN pg_attribute a ON a.attrelid = below.id WHERE a.atthasmissing AND NOT a.attisdropped;
    END IF;
    IF rewritten IS NOT NULL THEN
        PERFORM set_config('consort.rewritten', '', true);
        SELECT jsonb_set(noted.effect::jsonb, '{contents}',
            coalesce(jsonb_agg(jsonb_build_array(c.oid::regclass, consort.contents(c.oid))), 'null'))
        INTO noted.effect
        FROM pg_class c WHERE c.oid = ANY (rewritten) AND c.relkind = 'r' AND c.relpersistence = 'p';
    END IF;
    RETURN noted;
END
$$;

-- A command inside a function of SQL is named by that function and its number there.
CREATE OR REPLACE FUNCTION consort.body_of(place text) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE count(*) WHEN 1 THEN min(p.prosrc) END FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE l.lanname = 'sql' AND p.proname = substring(place FROM '^SQL function "(.*?)" statement ')
$$;

-- Its messages are PostgreSQL's own words: the context is read.
CREATE OR REPLACE FUNCTION consort.note_step() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lc_messages = 'C' AS $$
DECLARE
    context text;
    noted consort.command;
    written tid;
BEGIN
    IF tg_tag = 'REINDEX' THEN
        RETURN;
    END IF;
    IF tg_event = 'table_rewrite' THEN
        PERFORM set_config('consort.rewritten', concat_ws(',', nullif(current_setting('consort.rewritten', true), ''),
            pg_event_trigger_table_rewrite_oid()), true);
        RETURN;
    END IF;
    IF tg_event = 'ddl_command_start' AND consort.refuses_unreplicable() AND (tg_tag IN ('DROP OWNED', 'IMPORT FOREIGN SCHEMA')
        -- It cannot be one of several statements; in front of it there may be comments.
        OR tg_tag = 'ALTER TABLE' AND regexp_replace(current_query(), '/[*].*?[*]/|--[^' || chr(10) || ']*', '', 'g')
            ~* ('^[[:space:]]*alter[[:space:]]+table[[:space:]][^;]*detach[[:space:]]+partition[[:space:]][^;]*[[:space:]]'
                || 'concurrently[[:space:]]*;?[[:space:]]*$'))
    THEN
        RAISE EXCEPTION '% cannot be run at replicas with the same effect', CASE tg_tag
            WHEN 'ALTER TABLE' THEN 'DETACH PARTITION CONCURRENTLY' ELSE tg_tag END
            USING ERRCODE = 'feature_not_supported', HINT = 'With unreplicable_ddl = "copy" in the configuration of Consort it '
                'runs, and the replicas are copied anew.';
    END IF;
    IF tg_event = 'ddl_command_start' AND tg_tag IN ('CREATE INDEX', 'DROP INDEX') AND current_query() ~* 'concurrently' THEN
        -- It must be the first that its transaction does, and commits before its end.
        RETURN;
    END IF;
    noted.tag := tg_tag;
    IF tg_event = 'sql_drop' THEN
        noted.step := 'dropped';
        SELECT CASE WHEN count(*) FILTER (WHERE t.kind = 'something') > 0 THEN 'something' ELSE min(t.kind) END,
            jsonb_build_object('dropped', jsonb_agg(jsonb_build_array(d.object_type, d.address_names, d.address_args, NULL, d.object_identity))
                FILTER (WHERE d.original AND t.kind = 'something'))
        INTO noted.came_of, noted.effect
        FROM pg_event_trigger_dropped_objects() d CROSS JOIN LATERAL (SELECT CASE
            WHEN d.is_temporary OR 'pg_temp' IN (d.schema_name, d.address_names[1]) THEN 'temporary'
            WHEN 'consort' IN (d.schema_name, d.object_identity) THEN 'own'
            ELSE 'something' END) AS t (kind);
    ELSE
        GET DIAGNOSTICS context = PG_CONTEXT;
        noted.step := CASE tg_event WHEN 'ddl_command_start' THEN 'begins' ELSE 'ended' END;
        noted.query := current_query();
        noted.place := substring(context FROM E'\n(.*)');
        noted.body := consort.body_of(noted.place);
        noted.login := session_user;
        noted.author := current_setting('consort.author')::jsonb ->> 'author';
        noted.settings := current_setting('consort.author')::jsonb ->> 'settings';
        IF tg_event = 'ddl_command_end' THEN
            PERFORM consort.wait_for_writers(noted.tag);
            noted := consort.note_effect(noted);
        ELSIF consort.may_grant(noted.tag) THEN
            PERFORM set_config('consort.grants', (coalesce(nullif(current_setting('consort.grants', true), ''), '[]')::jsonb
                || jsonb_build_array(consort.kept_acls()))::text, true);
        END IF;
    END IF;
    INSERT INTO consort.command SELECT noted.* RETURNING ctid INTO written;
    DELETE FROM consort.command WHERE ctid = written;
END
$$;
GRANT USAGE ON SCHEMA consort TO PUBLIC;

-- Event triggers fire in the order of their names: the author's first, and these before those of attach.sql, which alter
-- tables themselves.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT * FROM (VALUES
        ('consort_author_begins', 'ddl_command_start', 'note_author'), ('consort_author_ended', 'ddl_command_end', 'note_author'),
        ('consort_command_begins', 'ddl_command_start', 'note_step'), ('consort_command_ended', 'ddl_command_end', 'note_step'),
        ('consort_command_dropped', 'sql_drop', 'note_step'), ('consort_command_rewrites', 'table_rewrite', 'note_step'))
        AS t (name, event, function)
    LOOP
        IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = made.name) THEN
            EXECUTE format('CREATE EVENT TRIGGER %I ON %s EXECUTE FUNCTION consort.%I()', made.name, made.event, made.function);
        END IF;
        EXECUTE format('ALTER EVENT TRIGGER %I ENABLE ALWAYS', made.name);
    END LOOP;
END
$$;
