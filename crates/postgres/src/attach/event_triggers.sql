-- The event triggers. Those that are as they should be are left alone, so that a role may attach that could not make them.
DO $$
DECLARE
    event text;
BEGIN
    FOREACH event IN ARRAY ARRAY['ddl_command_start', 'ddl_command_end', 'sql_drop', 'table_rewrite'] LOOP
        IF EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'consort_' || event AND (
            evtevent <> event OR evtfoid <> 'consort.note_command'::regproc
            OR evttags IS DISTINCT FROM CASE event WHEN 'ddl_command_start' THEN ARRAY['ALTER TABLE'] END))
        THEN
            -- Somebody has made another one of this name.
            EXECUTE format('DROP EVENT TRIGGER %I', 'consort_' || event);
        END IF;
        IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'consort_' || event) THEN
            EXECUTE format('CREATE EVENT TRIGGER %I ON %s %s EXECUTE FUNCTION consort.note_command()', 'consort_' || event,
                           event, CASE event WHEN 'ddl_command_start' THEN 'WHEN TAG IN (''ALTER TABLE'')' END);
        END IF;
        -- Also for sessions that set session_replication_role.
        IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'consort_' || event AND evtenabled = 'A') THEN
            EXECUTE format('ALTER EVENT TRIGGER %I ENABLE ALWAYS', 'consort_' || event);
        END IF;
    END LOOP;
END
$$;
