-- What a replica that Consort feeds holds otherwise than the primary, or not at all, although it is given the same rows: a
-- relation, an attribute of it or 0 for all of it, and why. Whoever reads that is answered elsewhere. Only what is `order` is
-- of a copy that a dump made; all else is the same where the same commands ran.
WITH RECURSIVE
-- Functions that may be replaced. C code of an extension goes with the extension's version.
code (class, id) AS (
    SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.oid >= 16384 AND NOT (l.lanname IN ('internal', 'c') AND EXISTS (SELECT FROM pg_depend d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'))
),
-- What calls them, or searches text as somebody has configured it.
calls (class, id) AS (
    SELECT d.classid, d.objid FROM pg_depend d JOIN code c ON d.refclassid = c.class AND d.refobjid = c.id
    UNION SELECT d.classid, d.objid FROM pg_depend d JOIN pg_operator o
        ON d.refclassid = 'pg_operator'::regclass AND d.refobjid = o.oid JOIN code c ON c.id = o.oprcode
    UNION SELECT d.classid, d.objid FROM pg_depend d
        WHERE d.refclassid IN ('pg_ts_config'::regclass, 'pg_ts_dict'::regclass) AND d.refobjid >= 16384
),
-- Computed when the row was written, by what the function was then; or by settings that the text of a number depends on.
computed (id, attribute) AS (
    SELECT g.adrelid, g.adnum FROM pg_attrdef g JOIN pg_attribute a ON a.attrelid = g.adrelid AND a.attnum = g.adnum
    WHERE a.attgenerated <> '' AND (
        EXISTS (SELECT FROM calls c WHERE c.class = 'pg_attrdef'::regclass AND c.id = g.oid)
        OR g.adbin::text LIKE '%{COERCEVIAIO %' AND EXISTS (SELECT FROM pg_attribute b
            WHERE b.attrelid = g.adrelid AND b.atttypid IN ('float4'::regtype, 'float8'::regtype, 'bytea'::regtype)))
),
-- Functions of somebody who is no superuser: a replica's rows are written by one, who shall not run them.
untrusted (id) AS (
    SELECT p.oid FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner WHERE p.oid >= 16384 AND NOT r.rolsuper
),
-- Range types that call one, and domains over them.
spans (id) AS (
    SELECT t.id FROM pg_range r JOIN untrusted u ON u.id = r.rngsubdiff, unnest(ARRAY[r.rngtypid, r.rngmultitypid]) AS t (id)
    UNION SELECT t.oid FROM spans JOIN pg_type t ON t.typbasetype = spans.id
),
-- Tables whose rows cannot be written, or planned for, without them: indexes, statistics or columns are computed by one.
theirs (id) AS (
    SELECT coalesce(i.indrelid, g.adrelid, x.stxrelid) FROM (
            SELECT d.classid, d.objid FROM pg_depend d JOIN untrusted u ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = u.id
            UNION ALL SELECT d.classid, d.objid FROM pg_depend d JOIN pg_operator o
                ON d.refclassid = 'pg_operator'::regclass AND d.refobjid = o.oid JOIN untrusted u ON u.id = o.oprcode
        ) AS d
        LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
        LEFT JOIN pg_statistic_ext x ON d.classid = 'pg_statistic_ext'::regclass AND x.oid = d.objid
        LEFT JOIN pg_attrdef g ON d.classid = 'pg_attrdef'::regclass AND g.oid = d.objid AND EXISTS (SELECT FROM pg_attribute a
            WHERE a.attrelid = g.adrelid AND a.attnum = g.adnum AND a.attgenerated <> '')
    WHERE coalesce(i.indrelid, g.adrelid, x.stxrelid) IS NOT NULL
    UNION SELECT i.indrelid FROM spans JOIN pg_attribute a ON a.atttypid = spans.id JOIN pg_index i ON i.indexrelid = a.attrelid
),
-- Children: a dump puts the parents' columns first. Which of several parents comes first it does not say.
misplaced (id) AS (
    SELECT p.id FROM (
        SELECT a.attrelid AS id, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS place,
            row_number() OVER (PARTITION BY a.attrelid ORDER BY (
                SELECT min(b.attnum) FROM pg_inherits i JOIN pg_attribute b ON b.attrelid = i.inhparent
                WHERE i.inhrelid = a.attrelid AND b.attname = a.attname AND b.attnum > 0 AND NOT b.attisdropped), a.attnum) AS dumped,
            (SELECT count(*) FROM pg_inherits i WHERE i.inhrelid = a.attrelid) AS parents
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relkind IN ('r', 'f') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
            AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)) AS p
    WHERE p.place <> p.dumped OR p.parents > 1
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN misplaced m ON m.id = i.inhparent
),
-- Values are numbers of objects, which are others at another server, or have no text that could be read again; or an index
-- of them, or what reads their texts, calls a function of somebody who is no superuser.
odd (id) AS (
    SELECT t.oid FROM pg_type t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND (t.typname IN ('aclitem', 'pg_node_tree',
        'pg_ndistinct', 'pg_dependencies', 'pg_mcv_list', 'anyarray') OR t.typname LIKE 'reg%' AND t.typtype = 'b')
    UNION SELECT id FROM spans
    UNION SELECT t.oid FROM pg_cast c JOIN untrusted u ON u.id = c.castfunc JOIN pg_type t ON t.oid = c.casttarget AND t.typarray = 0
    UNION SELECT c.reltype FROM misplaced m JOIN pg_class c ON c.oid = m.id
    UNION SELECT t.oid FROM odd JOIN pg_type t ON t.typbasetype = odd.id OR t.typelem = odd.id AND t.typcategory = 'A'
        OR t.typrelid >= 16384 AND EXISTS (SELECT FROM pg_attribute a
            WHERE a.attrelid = t.typrelid AND a.atttypid = odd.id AND a.attnum > 0 AND NOT a.attisdropped)
),
-- Rows lie in the partition that a function, or a hash of such numbers, has chosen.
parted (id) AS (
    SELECT p.partrelid FROM pg_partitioned_table p
    WHERE EXISTS (SELECT FROM calls c WHERE c.class = 'pg_class'::regclass AND c.id = p.partrelid)
        OR EXISTS (SELECT FROM unnest(p.partattrs::int2[], p.partclass::oid[]) AS k (attribute, class)
            JOIN pg_opclass o ON o.oid = k.class
            LEFT JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.attribute AND k.attribute > 0
            WHERE o.oid >= 16384 OR p.partstrat = 'h' AND coalesce(a.atttypid, 16384) >= 16384 AND o.opcintype IN
                ('anyenum'::regtype, 'anyarray'::regtype, 'record'::regtype, 'anyrange'::regtype, 'anymultirange'::regtype))
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN parted p ON p.id = i.inhparent
)
SELECT u.id, u.attribute, min(u.why) AS why FROM (
    SELECT id, attribute, 'computed' AS why FROM computed
    UNION ALL SELECT id, 0, 'order' FROM misplaced
    UNION ALL SELECT a.attrelid, 0, 'types' FROM pg_attribute a JOIN odd ON odd.id = a.atttypid
        WHERE a.attrelid >= 16384 AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT id, 0, 'parted' FROM parted
    UNION ALL SELECT id, 0, 'code' FROM theirs
    UNION ALL SELECT d.objid, 0, 'extension' FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e'
) AS u JOIN pg_class c ON c.oid = u.id
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND c.oid >= 16384 GROUP BY u.id, u.attribute
