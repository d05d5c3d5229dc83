WITH r AS (
    SELECT c.*, c.oid::regclass::text AS name FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relpersistence = 'p'
)
SELECT 'relation ' || concat_ws(' ', r.name, r.relkind, pg_get_userbyid(r.relowner), r.relrowsecurity, r.relforcerowsecurity,
    (SELECT amname FROM pg_am WHERE oid = r.relam), CASE WHEN r.reloftype <> 0 THEN r.reloftype::regtype END,
    coalesce(r.relacl, acldefault(CASE r.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", r.relowner)), r.reloptions,
    pg_get_expr(r.relpartbound, r.oid), (SELECT string_agg(i.inhparent::regclass::text, ',' ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = r.oid))
    FROM r WHERE r.relkind IN ('r', 'p', 'v', 'c', 'S', 'm', 'f')
UNION ALL SELECT 'column ' || concat_ws(' ', r.name, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated, a.attidentity,
    a.attstorage, a.attcompression, a.attstattarget, a.attfdwoptions, a.attacl, pg_get_expr(d.adbin, d.adrelid))
    FROM r JOIN pg_attribute a ON a.attrelid = r.oid LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p', 'v', 'c', 'm', 'f')
UNION ALL SELECT 'constraint ' || concat_ws(' ', coalesce(r.name, c.contypid::regtype::text), c.conname, pg_get_constraintdef(c.oid), c.convalidated)
    FROM pg_constraint c LEFT JOIN r ON r.oid = c.conrelid WHERE r.oid IS NOT NULL OR c.contypid <> 0 AND c.connamespace = 'public'::regnamespace
UNION ALL SELECT 'index ' || pg_get_indexdef(i.indexrelid) || ' ' || i.indisvalid FROM pg_index i JOIN r ON r.oid = i.indrelid
UNION ALL SELECT 'view ' || r.name || ' ' || pg_get_viewdef(r.oid) FROM r WHERE r.relkind IN ('v', 'm')
UNION ALL SELECT 'rule ' || pg_get_ruledef(u.oid) FROM pg_rewrite u JOIN r ON r.oid = u.ev_class
UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
UNION ALL SELECT 'policy ' || concat_ws(' ', r.name, p.polname, p.polcmd, pg_get_expr(p.polqual, p.polrelid)) FROM pg_policy p JOIN r ON r.oid = p.polrelid
UNION ALL SELECT 'statistics ' || pg_get_statisticsobjdef(s.oid) FROM pg_statistic_ext s JOIN r ON r.oid = s.stxrelid
UNION ALL SELECT 'function ' || CASE WHEN p.prokind = 'a' THEN p.oid::regprocedure::text ELSE pg_get_functiondef(p.oid) END
    FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
UNION ALL SELECT 'type ' || concat_ws(' ', t.oid::regtype, t.typtype, format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typdefault,
    (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
    FROM pg_type t WHERE t.typnamespace = 'public'::regnamespace AND (t.typrelid = 0 OR t.typtype <> 'c')
        AND t.typelem NOT IN (SELECT c.reltype FROM pg_class c WHERE c.relpersistence <> 'p')
UNION ALL SELECT 'cast ' || concat_ws(' ', castsource::regtype, casttarget::regtype, castfunc::regprocedure, castcontext) FROM pg_cast WHERE oid >= 16384
UNION ALL SELECT 'operator ' || oid::regoperator FROM pg_operator WHERE oprnamespace = 'public'::regnamespace
UNION ALL SELECT 'collation ' || concat_ws(' ', collname, collprovider, collcollate) FROM pg_collation WHERE collnamespace = 'public'::regnamespace
UNION ALL SELECT 'operator class ' || opcname FROM pg_opclass WHERE opcnamespace = 'public'::regnamespace
UNION ALL SELECT 'operator family ' || opfname FROM pg_opfamily WHERE opfnamespace = 'public'::regnamespace
UNION ALL SELECT 'conversion ' || conname FROM pg_conversion WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'language ' || lanname FROM pg_language WHERE oid >= 16384
UNION ALL SELECT 'access method ' || amname FROM pg_am WHERE oid >= 16384
UNION ALL SELECT 'text search configuration ' || cfgname FROM pg_ts_config WHERE cfgnamespace = 'public'::regnamespace
UNION ALL SELECT 'mapping ' || concat_ws(' ', c.cfgname, m.maptokentype, string_agg(m.mapdict::regdictionary::text, ',' ORDER BY m.mapseqno))
    FROM pg_ts_config_map m JOIN pg_ts_config c ON c.oid = m.mapcfg WHERE c.cfgnamespace = 'public'::regnamespace GROUP BY c.cfgname, m.maptokentype
UNION ALL SELECT 'dictionary ' || concat_ws(' ', dictname, dictinitoption) FROM pg_ts_dict WHERE dictnamespace = 'public'::regnamespace
UNION ALL SELECT 'template ' || tmplname FROM pg_ts_template WHERE tmplnamespace = 'public'::regnamespace
UNION ALL SELECT 'parser ' || prsname FROM pg_ts_parser WHERE prsnamespace = 'public'::regnamespace
UNION ALL SELECT 'default privileges ' || concat_ws(' ', pg_get_userbyid(defaclrole), defaclnamespace::regnamespace, defaclobjtype, defaclacl)
    FROM pg_default_acl
UNION ALL SELECT 'foreign data wrapper ' || concat_ws(' ', fdwname, fdwoptions) FROM pg_foreign_data_wrapper
UNION ALL SELECT 'server ' || concat_ws(' ', srvname, srvtype, srvversion, srvoptions, srvacl) FROM pg_foreign_server
UNION ALL SELECT 'user mapping ' || concat_ws(' ', srvname, usename, umoptions) FROM pg_user_mappings
UNION ALL SELECT 'foreign table ' || concat_ws(' ', r.name, s.srvname, f.ftoptions)
    FROM pg_foreign_table f JOIN r ON r.oid = f.ftrelid JOIN pg_foreign_server s ON s.oid = f.ftserver
UNION ALL SELECT 'extension ' || extname || ' ' || extversion FROM pg_extension
UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE oid >= 16384 AND nspname NOT LIKE 'pg\_%' AND nspname <> 'consort'
UNION ALL SELECT 'comment ' || concat_ws(' ', i.type, i.identity, d.description)
    FROM pg_description d CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) AS i
    WHERE d.objoid >= 16384 AND 'consort' NOT IN (coalesce(i.schema, ''), i.identity) AND i.type <> 'publication'
UNION ALL SELECT 'rows ' || r.name || ' ' || (xpath('//m/text()', query_to_xml(format(
        'SELECT count(*) || '' '' || coalesce(md5(string_agg(t::text, ''|'' ORDER BY t::text COLLATE "C")), '''') AS m FROM ONLY %s AS t', r.oid::regclass),
        false, true, '')))[1]
    FROM r WHERE r.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped AND t.typnamespace = 'pg_catalog'::regnamespace AND t.typname LIKE 'reg%')
ORDER BY 1
