//! Roles, their memberships and settings, and databases: they are of the whole server, and no event trigger fires for
//! them; nor does one for REASSIGN OWNED, which decides whom row-level policies spare. Digests of their catalogs are
//! compared every second; what they miss in between is named in the guarantees.

use crate::Error;
use crate::address::Control;

/// Of the databases only what decides who may do what, and how: the rest changes with every vacuum.
const DIGEST: &str = "\
    SELECT ('x' || substr(md5(string_agg(part, E'\\n' ORDER BY part)), 1, 16))::bit(64)::bigint FROM ( \
      SELECT a::text FROM pg_catalog.pg_authid a \
      UNION ALL SELECT m::text FROM pg_catalog.pg_auth_members m \
      UNION ALL SELECT s::text FROM pg_catalog.pg_db_role_setting s \
      UNION ALL SELECT p::text FROM pg_catalog.pg_parameter_acl p \
      UNION ALL SELECT concat_ws(' ', d.oid, d.datname, d.datdba, d.datallowconn, d.datconnlimit, d.datacl) \
        FROM pg_catalog.pg_database d \
    ) AS parts (part)";

/// The digest. Two that are equal mean, as good as surely, that nothing has changed.
///
/// # Errors
/// As every query; [`Error::Refused`] with 42501 if the role may not read `pg_authid`.
pub async fn digest(control: &Control) -> Result<u64, Error> {
    let row = control.query_one(DIGEST, &[]).await?;
    Ok(row.get::<_, i64>(0).cast_unsigned())
}

/// Hashes are added up: no sorting, and a few milliseconds for ten thousand objects.
const OWNERS: &str = "\
    SELECT sum(hashint8extended((owned.oid::bigint << 32) | owned.owner::bigint, 0))::text FROM ( \
      SELECT oid, relowner FROM pg_catalog.pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S') \
      UNION ALL SELECT oid, proowner FROM pg_catalog.pg_proc WHERE oid >= 16384 \
      UNION ALL SELECT oid, nspowner FROM pg_catalog.pg_namespace WHERE oid >= 16384 OR nspname = 'public' \
    ) AS owned (oid, owner)";

/// The digest of who owns what in the connection's database. It changes with every object made or dropped too.
///
/// # Errors
/// As every query.
pub async fn owners(control: &Control) -> Result<String, Error> {
    let row = control.query_one(OWNERS, &[]).await?;
    Ok(row.get::<_, Option<String>>(0).unwrap_or_default())
}
