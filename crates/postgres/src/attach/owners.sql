-- What is in the schema runs as its owner: control_user or a superuser. No other role may have made it, or change it.
DO $$
DECLARE
    stranger text;
BEGIN
    SELECT o.whose INTO stranger FROM (
        SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'consort'
        UNION SELECT relowner FROM pg_catalog.pg_class WHERE relnamespace = 'consort'::regnamespace
        UNION SELECT proowner FROM pg_catalog.pg_proc WHERE pronamespace = 'consort'::regnamespace
    ) AS owners (owner) JOIN LATERAL (SELECT rolname AS whose FROM pg_catalog.pg_roles
        WHERE oid = owner AND NOT rolsuper AND rolname <> current_user) o ON true
    LIMIT 1;
    IF stranger IS NOT NULL THEN
        RAISE EXCEPTION 'what is in the schema consort belongs to %, who is neither % nor a superuser', stranger, current_user
            USING ERRCODE = 'insufficient_privilege', HINT = format('DROP SCHEMA consort CASCADE, or give it to %I.', current_user);
    END IF;
END
$$;
