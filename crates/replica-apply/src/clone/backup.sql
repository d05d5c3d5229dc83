-- Makes of a database that came with a base backup what a dump would have made of it, once `consort.left_out` says what
-- replicas have no rows of. Nothing that is not a superuser's runs: triggers are off, nothing is planned, what is emptied has
-- no rows to compute an index of.
DO $$
DECLARE
    command text;
BEGIN
    -- Foreign keys from or to a table without rows, each as a whole: of a partitioned table it is one.
    FOR command IN
        WITH RECURSIVE without_rows (id) AS (
            SELECT to_regclass(format('%I.%I', schema, relation))::oid FROM consort.left_out),
        keys (id, whole) AS (
            SELECT c.oid, c.conparentid FROM pg_constraint c JOIN without_rows w ON w.id IN (c.conrelid, c.confrelid)
            WHERE c.contype = 'f'
            UNION SELECT c.oid, c.conparentid FROM keys k JOIN pg_constraint c ON c.oid = k.whole)
        SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', c.conrelid::regclass, c.conname)
        FROM keys k JOIN pg_constraint c ON c.oid = k.id WHERE k.whole = 0
    LOOP
        EXECUTE command;
    END LOOP;
    -- The rows of an extension's own tables stay: its script would have made some of them, and its functions read them.
    SELECT 'TRUNCATE ONLY ' || string_agg(c.oid::regclass::text, ', ') INTO command
    FROM consort.left_out l JOIN pg_class c ON c.oid = to_regclass(format('%I.%I', l.schema, l.relation))
    WHERE c.relkind = 'r' AND l.why <> 'extension';
    IF command IS NOT NULL THEN
        EXECUTE command;
    END IF;
    FOR command IN
        SELECT format('REFRESH MATERIALIZED VIEW %s WITH NO DATA', oid::regclass) FROM pg_class
        WHERE relkind = 'm' AND relispopulated
        -- What CREATE INDEX CONCURRENTLY had begun: the command comes when it has ended.
        UNION ALL SELECT format('DROP INDEX %s', i.indexrelid::regclass) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE NOT i.indisvalid AND c.relkind = 'i' AND NOT c.relispartition AND i.indexrelid >= 16384
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)
    LOOP
        EXECUTE command;
    END LOOP;
END
$$;
