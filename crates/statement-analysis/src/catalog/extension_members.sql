-- Functions that belong to extensions: OID, extension, its version, signature without schemas, digest of the code, and the body of
-- a function in SQL that names what it uses. The digest leaves the name of the extension's schema out, which the script of an
-- extension writes into bodies. scripts/extension_functions.py runs the same query.
SELECT p.oid, e.extname, e.extversion,
       p.proname || '(' || pg_catalog.regexp_replace(pg_catalog.oidvectortypes(p.proargtypes), '(\m\w+|"[^"]+")\.', '', 'g') || ')',
       pg_catalog.left(pg_catalog.md5(pg_catalog.concat_ws(' ', l.lanname, pg_catalog.replace(coalesce(
           pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc), pg_catalog.quote_ident(n.nspname) || '.', '@.'),
           pg_catalog.regexp_replace(p.probin, '^.*/', ''))), 8),
       CASE WHEN l.lanname = 'sql' AND p.prosqlbody IS NULL THEN p.prosrc END
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
     AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE p.oid >= 16384
