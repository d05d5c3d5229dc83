-- Gives the schema with all that is in it to control_user.
DO $$
DECLARE
    owner name := {owner};
    object regclass;
    routine regprocedure;
BEGIN
    EXECUTE format('ALTER SCHEMA consort OWNER TO %I', owner);
    FOR object IN SELECT oid FROM pg_class WHERE relnamespace = 'consort'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %I', object, owner);
    END LOOP;
    FOR routine IN SELECT oid FROM pg_proc WHERE pronamespace = 'consort'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', routine, owner);
    END LOOP;
END
$$;
