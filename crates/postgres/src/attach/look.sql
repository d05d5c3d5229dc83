-- What an object is, as a text that is the same on every server: names instead of numbers, nothing of how it came to be, of
-- a table none of its indexes: a replica may have others; nor by which of them its rows lie: CLUSTER fires no event trigger. Nor
-- what checks rows (since 18 NOT NULL is a constraint, too; the columns tell it), and which triggers fire for a feeder: a replica is given what the primary has checked.
-- The primary and the replicas that Consort feeds both have these functions, and compare.

-- An expression without what a dump and its restoring may change: casts, parentheses, spaces.
CREATE OR REPLACE FUNCTION consort.plain(expression text) RETURNS text LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT regexp_replace(expression,
        '::[a-z_."]+( varying| precision| with(out)? time zone)?(\(\d+(,\d+)?\))?(\[\])*|[()\s]', '', 'g')
$$;

-- Privileges in one order; those that an object has from the beginning need not be written down.
CREATE OR REPLACE FUNCTION consort.grants(acl aclitem[], kind "char", owner oid) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(concat_ws(' ', g.grantee::regrole, g.grantor::regrole, g.privilege_type, g.is_grantable), ','
        ORDER BY g.grantee::regrole::text, g.grantor::regrole::text, g.privilege_type)
    FROM aclexplode(coalesce(acl, acldefault(kind, owner))) g
$$;

CREATE OR REPLACE FUNCTION consort.look_of_relation(object oid) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(line, E'\n' ORDER BY line COLLATE "C") FROM (
        SELECT concat_ws(' ', 'relation', c.relkind, c.relpersistence, c.relowner::regrole, c.relreplident,
            c.relrowsecurity, c.relforcerowsecurity, ARRAY(SELECT o FROM unnest(c.reloptions) o ORDER BY o),
            CASE WHEN c.reloftype <> 0 THEN c.reloftype::regtype END, consort.plain(pg_get_partkeydef(c.oid)),
            consort.plain(pg_get_expr(c.relpartbound, c.oid)),
            CASE WHEN c.relkind IN ('v', 'm') THEN consort.plain(pg_get_viewdef(c.oid)) END,
            CASE WHEN c.relkind IN ('i', 'I') THEN consort.plain(pg_get_indexdef(c.oid)) END,
            CASE WHEN c.relkind IN ('r', 'p', 'v', 'm', 'f') THEN consort.grants(c.relacl, 'r', c.relowner)
                 WHEN c.relkind = 'S' THEN consort.grants(c.relacl, 's', c.relowner) END,
            obj_description(c.oid, 'pg_class')) AS line
        FROM pg_class c WHERE c.oid = object
        UNION ALL SELECT concat_ws(' ', 'column', row_number() OVER (ORDER BY a.attnum), a.attname,
            format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation, a.attnotnull, 'i', a.attidentity, 'g',
            a.attgenerated, a.attstorage, a.attcompression, a.attstattarget,
            -- Minor releases since 15.20 keep a number of the server's own there.
            ARRAY(SELECT o FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg_attver=%' ORDER BY o), a.attfdwoptions,
            CASE WHEN a.attacl IS NOT NULL THEN consort.grants(a.attacl, 'c', c.relowner) END,
            -- Whoever deparses an expression for a table names all of its columns first; a default speaks of none.
            consort.plain(pg_get_expr(d.adbin, CASE WHEN a.attgenerated <> '' THEN d.adrelid ELSE 0 END)),
            col_description(a.attrelid, a.attnum))
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = object AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'S')
        UNION ALL SELECT concat_ws(' ', 'constraint', conname, consort.plain(pg_get_constraintdef(oid)),
            obj_description(oid, 'pg_constraint'))
        FROM pg_constraint WHERE conrelid = object AND contype NOT IN ('c', 'f', 'x', 'n')
        UNION ALL SELECT concat_ws(' ', 'index', consort.plain(pg_get_indexdef(indexrelid)))
        FROM pg_index WHERE indrelid = object AND indisreplident
        UNION ALL SELECT concat_ws(' ', 'trigger', consort.plain(pg_get_triggerdef(oid)), tgenabled = 'D')
        FROM pg_trigger WHERE tgrelid = object AND NOT tgisinternal
        UNION ALL SELECT concat_ws(' ', 'rule', consort.plain(pg_get_ruledef(oid)), ev_enabled = 'D')
        FROM pg_rewrite WHERE ev_class = object AND rulename <> '_RETURN'
        UNION ALL SELECT concat_ws(' ', 'policy', polname, polcmd, polpermissive, ARRAY(SELECT r::regrole::text
            FROM unnest(polroles) r ORDER BY 1), consort.plain(pg_get_expr(polqual, polrelid)), 'check',
            consort.plain(pg_get_expr(polwithcheck, polrelid)))
        FROM pg_policy WHERE polrelid = object
        UNION ALL SELECT concat_ws(' ', 'parent', inhparent::regclass, inhseqno) FROM pg_inherits WHERE inhrelid = object
        UNION ALL SELECT concat_ws(' ', 'sequence', seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache,
            seqcycle, (SELECT concat_ws(' ', d.refobjid::regclass, a.attname) FROM pg_depend d
                JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                WHERE d.classid = 'pg_class'::regclass AND d.objid = object AND d.deptype IN ('a', 'i')))
        FROM pg_sequence WHERE seqrelid = object
    ) AS lines
$$;

CREATE OR REPLACE FUNCTION consort.look_of_type(object oid) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', t.typtype, t.typowner::regrole, consort.grants(t.typacl, 'T', t.typowner), t.typnotnull,
        format_type(t.typbasetype, t.typtypmod), t.typcollation::regcollation, consort.plain(t.typdefault), t.typlen,
        t.typbyval, t.typcategory, t.typispreferred, t.typdelim, t.typalign, t.typstorage,
        CASE t.typtype WHEN 'c' THEN consort.look_of_relation(t.typrelid)
            WHEN 'b' THEN concat_ws(' ', t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout) END,
        (SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = object),
        (SELECT concat_ws(' ', rngsubtype::regtype, rngmultitypid::regtype, rngcollation::regcollation, rngcanonical, rngsubdiff)
         FROM pg_range WHERE rngtypid = object), obj_description(object, 'pg_type'))
    FROM pg_type t WHERE t.oid = object
$$;

CREATE OR REPLACE FUNCTION consort.look_of_function(object oid) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', p.proowner::regrole, consort.grants(p.proacl, 'f', p.proowner), p.prosupport,
        obj_description(object, 'pg_proc'),
        CASE WHEN p.prokind <> 'a' THEN consort.plain(pg_get_functiondef(object))
            ELSE (SELECT concat_ws(' ', p.proparallel, aggkind, aggnumdirectargs, aggtransfn, aggfinalfn, aggcombinefn, aggserialfn,
                aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn, aggfinalextra, aggtranstype::regtype, aggtransspace,
                agginitval, aggminitval) FROM pg_aggregate WHERE aggfnoid = object) END)
    FROM pg_proc p WHERE p.oid = object
$$;

CREATE OR REPLACE FUNCTION consort.look(class oid, object oid) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET timezone = 'UTC'
SET bytea_output = 'hex' SET extra_float_digits = 1 SET lc_monetary = 'C' SET quote_all_identifiers = off
SET standard_conforming_strings = on AS $$
BEGIN
    RETURN CASE class
        WHEN 'pg_class'::regclass THEN consort.look_of_relation(object)
        WHEN 'pg_type'::regclass THEN consort.look_of_type(object)
        WHEN 'pg_proc'::regclass THEN consort.look_of_function(object)
        WHEN 'pg_namespace'::regclass THEN (SELECT concat_ws(' ', nspowner::regrole, consort.grants(nspacl, 'n', nspowner),
            obj_description(object, 'pg_namespace')) FROM pg_namespace WHERE oid = object)
        WHEN 'pg_extension'::regclass THEN (SELECT concat_ws(' ', extowner::regrole, extnamespace::regnamespace, extversion,
            obj_description(object, 'pg_extension')) FROM pg_extension WHERE oid = object)
        WHEN 'pg_constraint'::regclass THEN (SELECT concat_ws(' ', consort.plain(pg_get_constraintdef(object)),
            obj_description(object, 'pg_constraint')))
        WHEN 'pg_trigger'::regclass THEN (SELECT concat_ws(' ', consort.plain(pg_get_triggerdef(object)), tgenabled = 'D',
            obj_description(object, 'pg_trigger')) FROM pg_trigger WHERE oid = object)
        WHEN 'pg_rewrite'::regclass THEN (SELECT concat_ws(' ', consort.plain(pg_get_ruledef(object)), ev_enabled = 'D',
            obj_description(object, 'pg_rewrite')) FROM pg_rewrite WHERE oid = object)
        WHEN 'pg_policy'::regclass THEN (SELECT consort.look_of_relation(polrelid) FROM pg_policy WHERE oid = object)
        WHEN 'pg_statistic_ext'::regclass THEN (SELECT concat_ws(' ', consort.plain(pg_get_statisticsobjdef(object)),
            stxstattarget, stxowner::regrole, obj_description(object, 'pg_statistic_ext')) FROM pg_statistic_ext WHERE oid = object)
        ELSE (SELECT concat_ws(' ', type, identity, obj_description(object, class::regclass::name))
            FROM pg_identify_object(class, object, 0))
    END;
END
$$;

-- Everybody's privileges on everything here, object by object, except what is temporary or Consort's, and the usual ones of such
-- an object. Where nothing is written down the usual ones hold, and the object is not named.
CREATE OR REPLACE FUNCTION consort.acls() RETURNS TABLE (object text, acl aclitem[], usual aclitem[]) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    SELECT concat_ws(' ', 'c', c.oid::regclass), c.relacl,
        acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner)
    FROM pg_class c
    WHERE c.oid >= 16384 AND c.relacl IS NOT NULL AND c.relpersistence <> 't' AND c.relnamespace::regnamespace::text <> 'consort'
    UNION ALL SELECT concat_ws(' ', 'a', c.oid::regclass, a.attname), a.attacl, acldefault('c', c.relowner)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.oid >= 16384 AND a.attacl IS NOT NULL AND c.relpersistence <> 't'
    UNION ALL SELECT concat_ws(' ', 'f', p.oid::regprocedure), p.proacl, acldefault('f', p.proowner)
    FROM pg_proc p WHERE p.oid >= 16384 AND p.proacl IS NOT NULL AND p.pronamespace::regnamespace::text <> 'consort'
    UNION ALL SELECT concat_ws(' ', 'n', n.nspname), n.nspacl, acldefault('n', n.nspowner)
    FROM pg_namespace n WHERE n.nspacl IS NOT NULL AND n.nspname <> 'consort' AND n.nspname !~ '^pg_'
    UNION ALL SELECT concat_ws(' ', 't', t.oid::regtype), t.typacl, acldefault('T', t.typowner)
    FROM pg_type t WHERE t.oid >= 16384 AND t.typacl IS NOT NULL
    UNION ALL SELECT concat_ws(' ', 'd', d.defaclrole::regrole, d.defaclnamespace::regnamespace, d.defaclobjtype), d.defaclacl, NULL
    FROM pg_default_acl d
    UNION ALL SELECT concat_ws(' ', 'l', l.lanname), l.lanacl, acldefault('l', l.lanowner)
    FROM pg_language l WHERE l.lanacl IS NOT NULL
$$;

-- The same, to be compared later with what there is then.
CREATE OR REPLACE FUNCTION consort.kept_acls() RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(object, acl::text), '{}') FROM consort.acls()
$$;

-- What has other privileges than in front of a command, and which it has now: a digest. It says nothing of all others: what
-- another transaction grants meanwhile is not seen by the command at the primary, and stands in front of it at a replica.
CREATE OR REPLACE FUNCTION consort.changed_acls(earlier jsonb) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(md5(string_agg(concat_ws(' ', object, here.acl IS NULL, consort.grants(here.acl, NULL, NULL)), E'\n'
        ORDER BY object COLLATE "C")), 'none')
    FROM consort.acls() AS here FULL JOIN jsonb_each_text(earlier) AS kept (object, acl) USING (object)
    WHERE here.acl::text IS DISTINCT FROM coalesce(kept.acl, here.usual::text)
$$;

-- Whether functions of somebody who is no superuser may run when a query of the table is planned.
CREATE OR REPLACE FUNCTION consort.runs_code(relation oid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_depend d LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
            JOIN pg_proc p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
            JOIN pg_roles r ON r.oid = p.proowner AND NOT r.rolsuper
        WHERE (d.classid, d.objid) IN (
            SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = relation
            UNION ALL SELECT 'pg_statistic_ext'::regclass, x.oid FROM pg_statistic_ext x WHERE x.stxrelid = relation))
$$;

-- The rows of a table, whatever their order; nothing is said of one that runs code. This runs as a superuser: checks are not
-- looked into, and of a record there is no cast to text but PostgreSQL's own.
CREATE OR REPLACE FUNCTION consort.contents(relation regclass) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET constraint_exclusion = off SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET timezone = 'UTC'
SET bytea_output = 'hex' SET extra_float_digits = 1 SET lc_monetary = 'C' AS $$
DECLARE
    digest text;
BEGIN
    IF consort.runs_code(relation) THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT concat_ws('' '', count(*), sum(hashtextextended(ROW(row_here.*)::text, 0)::numeric)) FROM ONLY %s AS row_here',
        relation) INTO digest;
    RETURN digest;
END
$$;

-- What the rows of a table have in a column that was added later, until they are written anew.
CREATE OR REPLACE FUNCTION consort.missing_value(attribute pg_attribute) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET timezone = 'UTC'
SET bytea_output = 'hex' SET extra_float_digits = 1 SET lc_monetary = 'C' AS $$
BEGIN
    RETURN attribute.attmissingval::text;
END
$$;
-- Both must compare the same; a newer Consort makes its own before it copies.
COMMENT ON FUNCTION consort.look(oid, oid) IS 'Consort: look 6';
