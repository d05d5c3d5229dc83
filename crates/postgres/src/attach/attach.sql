-- What Consort keeps inside a served database. Run in one transaction by control_user, who is a superuser, or for whom an
-- administrator has made the event triggers. May be run again at any time. The publication is made separately: it has no "if not exists".
CREATE SCHEMA IF NOT EXISTS consort;
COMMENT ON SCHEMA consort IS 'Consort: what it needs to see every change of this database. consort detach removes it.';

-- One row per DDL command, deleted in the transaction that writes it: the row is only there to come out of the decoder,
-- in its place between the commits.
CREATE TABLE IF NOT EXISTS consort.log (command text NOT NULL, objects text);
DO $$
BEGIN
    -- A transaction that has run DDL holds the log until its end, and would hold this up.
    IF EXISTS (SELECT FROM pg_class WHERE oid = 'consort.log'::regclass AND relreplident <> 'f') THEN
        ALTER TABLE consort.log REPLICA IDENTITY FULL;
    END IF;
END
$$;

-- Whether UPDATE and DELETE of a table would fail under a publication: without a usable key, or with NOTHING by choice. The
-- condition is PostgreSQL's own (RelationGetReplicaIndex). And with a key that is computed: what is computed is not in the
-- stream. Each command asks for its own tables, one by one, so that its cost does not grow with the number of all tables. Where
-- there are few of them the planner would read pg_index from end to end, and the plan is kept while it grows.
CREATE OR REPLACE FUNCTION consort.lacks_identity(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pg_class c
        WHERE c.oid = relation AND c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384 AND c.relreplident <> 'f'
          -- No identity of all columns may have one that is virtual (since 18).
          AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped)
          AND (c.relreplident = 'n' OR NOT EXISTS (
            SELECT FROM pg_index i
            WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate AND i.indisunique AND i.indpred IS NULL
              AND CASE c.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END
              AND NOT EXISTS (SELECT FROM pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attgenerated <> ''))));
END
$$;

-- Whether UPDATE and DELETE of a table fail under every publication, because it has a virtual generated column: its identity is
-- all columns, or it has no usable key.
CREATE OR REPLACE FUNCTION consort.is_unwritable(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pg_class c
        WHERE c.oid = relation AND c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384
          AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attgenerated = 'v' AND NOT a.attisdropped)
          AND NOT EXISTS (
            SELECT FROM pg_index i
            WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate AND i.indisunique AND i.indpred IS NULL
              AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END));
END
$$;

-- A client's own command never fails because control_user may not alter the table: its author is told what is left to do.
CREATE OR REPLACE FUNCTION consort.warn_of_no_identity(relation oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING 'UPDATE and DELETE of % fail until it has a primary key or REPLICA IDENTITY FULL', relation::regclass
        USING HINT = format('ALTER TABLE %s REPLICA IDENTITY FULL', relation::regclass);
END
$$;

-- No event trigger fires for commands on roles, databases and tablespaces, nor for REASSIGN OWNED: digests of the catalogs
-- show those. Runs as its owner, whoever the command's author is, and resolves no name but the system's.
-- Without scans by ctid the DELETE would read the whole log, which SERIALIZABLE transactions would take for a conflict.
CREATE OR REPLACE FUNCTION consort.note_command() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_tidscan = on AS $$
DECLARE
    objects text;
    noted boolean := false;
    place tid;
    bare oid;
    touched oid[];
BEGIN
    -- It changes no answer and no replica. Since PostgreSQL 17 event triggers fire for it.
    IF tg_tag = 'REINDEX' THEN
        RETURN;
    END IF;
    IF tg_event = 'ddl_command_start' THEN
        -- DETACH PARTITION .. CONCURRENTLY commits once before its end, and is then visible. (It is never part of another
        -- statement.)
        objects := 'not known yet';
        noted := current_query() ~* 'concurrently';
    ELSIF tg_event = 'table_rewrite' THEN
        SELECT c.oid::regclass::text, true INTO objects, noted FROM pg_class c
        WHERE c.oid = pg_event_trigger_table_rewrite_oid() AND c.relpersistence <> 't';
    ELSIF tg_event = 'sql_drop' THEN
        -- Tables that are still there and lost a constraint or a column with it. A dropped index does not say whose it
        -- was: those that have chosen an index and have none now. No other table may be touched: somebody may hold it.
        SELECT left(string_agg(d.object_identity, ', '), 1000), count(*) > 0,
               array_agg(to_regclass(format('%I.%I', d.address_names[1], d.address_names[2]))::oid)
                   FILTER (WHERE d.object_type IN ('table constraint', 'table column'))
                 || CASE WHEN bool_or(d.object_type = 'index' AND (d.original OR d.normal))
                    THEN array(SELECT c.oid FROM pg_class c WHERE c.relreplident = 'i' AND c.relkind = 'r') END
        INTO objects, noted, touched FROM pg_event_trigger_dropped_objects() d
        WHERE NOT d.is_temporary AND d.address_names[1] IS DISTINCT FROM 'pg_temp'
          AND d.schema_name IS DISTINCT FROM 'pg_temp';
    ELSE
        -- A command that names no object is noted too, unless it made or dropped nothing (IF NOT EXISTS, IF EXISTS).
        SELECT left(string_agg(d.object_identity, ', '), 1000),
               count(*) FILTER (WHERE d.schema_name IS DISTINCT FROM 'pg_temp') > 0
                 OR count(*) = 0 AND (tg_tag = 'DROP OWNED' OR tg_tag !~ '^(CREATE|DROP) '),
               array_agg(d.objid) FILTER (WHERE d.classid = 'pg_class'::regclass)
        INTO objects, noted, touched FROM pg_event_trigger_ddl_commands() d;
    END IF;
    IF NOT coalesce(noted, false) THEN
        RETURN;
    END IF;
    INSERT INTO consort.log VALUES (tg_tag, objects) RETURNING ctid INTO place;
    DELETE FROM consort.log WHERE ctid = place;
    FOREACH bare IN ARRAY coalesce(touched, '{}') LOOP
        IF consort.lacks_identity(bare) THEN
            BEGIN
                EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', bare::regclass);
            EXCEPTION
                WHEN object_in_use THEN
                    -- Its own transaction reads it in a loop, or has triggers to run for it, and ALTER TABLE would not have that.
                    BEGIN
                        UPDATE pg_class SET relreplident = 'f' WHERE oid = bare;
                    EXCEPTION WHEN insufficient_privilege THEN
                        PERFORM consort.warn_of_no_identity(bare);
                    END;
                WHEN insufficient_privilege THEN
                    PERFORM consort.warn_of_no_identity(bare);
            END;
        ELSIF consort.is_unwritable(bare) THEN
            -- A key that came later serves, once the identity is no longer all columns.
            IF EXISTS (SELECT FROM pg_index i WHERE i.indrelid = bare AND i.indisprimary AND i.indimmediate) THEN
                BEGIN
                    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY DEFAULT', bare::regclass);
                EXCEPTION WHEN insufficient_privilege THEN
                    PERFORM consort.warn_of_no_identity(bare);
                END;
            ELSE
                RAISE WARNING 'UPDATE and DELETE of % fail until it has a primary key', bare::regclass
                    USING HINT = 'It has a virtual generated column: without a key its rows cannot be told apart in the stream of changes. '
                        'A stored one can.';
            END IF;
        END IF;
    END LOOP;
END
$$;

-- EXPLAIN ANALYZE of CREATE TABLE AS or SELECT INTO makes a table, and no event trigger fires. Whoever sees such a command
-- pass calls this behind it, as the command's author; it does for him only what he could do himself.
CREATE OR REPLACE FUNCTION consort.give_identity(made regclass) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = made AND pg_has_role(session_user, c.relowner, 'MEMBER'))
        AND consort.lacks_identity(made)
    THEN
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', made);
    END IF;
END
$$;
GRANT USAGE ON SCHEMA consort TO PUBLIC;
GRANT EXECUTE ON FUNCTION consort.give_identity(regclass) TO PUBLIC;
