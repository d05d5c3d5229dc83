//! Whether everything belongs to the same roles, with the same privileges, at two servers.
//!
//! What is at one of them only does not count: it was made or dropped by DDL that is on its way to the replica.

use crate::Error;
use crate::address::Control;
use std::collections::BTreeMap;

/// By kind and name: the owner, and who may do what.
const OWNED: &str = "\
    SELECT i.type || ' ' || i.identity, concat_ws(' ', pg_get_userbyid(o.owner), \
      (SELECT string_agg(concat_ws(' ', pg_get_userbyid(g.grantee), g.privilege_type, g.is_grantable), ',' \
         ORDER BY pg_get_userbyid(g.grantee)::text, g.privilege_type) \
       FROM aclexplode(coalesce(o.acl, acldefault(o.kind, o.owner))) g)) \
    FROM (SELECT 'pg_class'::regclass AS class, oid AS id, relowner AS owner, relacl AS acl, \
        CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::\"char\" AS kind \
        FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND relpersistence <> 't' \
      UNION ALL SELECT 'pg_proc'::regclass, oid, proowner, proacl, 'f' FROM pg_proc \
      UNION ALL SELECT 'pg_namespace'::regclass, oid, nspowner, nspacl, 'n' FROM pg_namespace \
        WHERE nspname !~ '^pg_(toast_)?temp_' \
      UNION ALL SELECT 'pg_type'::regclass, oid, typowner, typacl, 'T' FROM pg_type WHERE typrelid = 0 AND typelem = 0 \
    ) AS o CROSS JOIN LATERAL pg_identify_object(o.class, o.id, 0) AS i \
    WHERE o.id >= 16384 AND 'consort' NOT IN (coalesce(i.schema, ''), i.identity)";

/// Whether what is at both belongs to the same and may be used by the same.
///
/// # Errors
/// As every query.
pub(super) async fn same(one: &Control, other: &Control) -> Result<bool, Error> {
    let (one, other) = (owned(one).await?, owned(other).await?);
    Ok(one.iter().all(|(object, owned)| other.get(object).is_none_or(|there| there == owned)))
}

async fn owned(control: &Control) -> Result<BTreeMap<String, String>, Error> {
    let rows = control.query(OWNED, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
