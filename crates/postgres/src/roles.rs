//! Roles, their memberships and settings, and databases: they belong to the whole server, and no event
//! trigger fires for them. None fires for REASSIGN OWNED either, which decides the roles that row-level
//! policies spare. A digest of their catalogs is compared with the snapshot probes that are sent while
//! anything may be committed, and every second.

use crate::Error;
use crate::address::Control;

/// Query: true if the role of the connection is a superuser.
pub(crate) const IS_SUPERUSER: &str = "SELECT current_setting('is_superuser') = 'on'";

/// Expression of the privilege type with which `pg_has_role` asks whether SET ROLE is allowed. Until 15 each member may.
pub(crate) const MAY_SET_ROLE: &str = "CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 \
     OPERATOR(pg_catalog.>=) 160000 THEN 'SET' ELSE 'MEMBER' END";

/// Query: true if the role may read WAL.
pub(crate) const MAY_READ_WAL: &str = "SELECT has_function_privilege('pg_read_binary_file(text, bigint, bigint, boolean)', 'EXECUTE') \
       AND has_function_privilege('pg_read_file(text, bigint, bigint, boolean)', 'EXECUTE')";

/// Rows of roles for a superuser. Each version of a row has a place and a writer of its own: no row is taken apart.
const VERSIONS: &str = "SELECT hashtidextended(ctid, xmin::text::bigint) FROM pg_catalog.pg_authid";
/// The same for other roles, which may not read `pg_authid`. Passwords are missing, and no analysis needs them.
const CONTENTS: &str = "SELECT hashtextextended(r::text, 0) FROM pg_catalog.pg_roles r";

/// The digest, as an expression. Nothing is sorted. Vacuum changes `pg_database` in place, and so nothing here. Two
/// connections of one role have equal digests.
pub(crate) fn digest_of_roles(is_superuser: bool) -> String {
    let roles = if is_superuser { VERSIONS } else { CONTENTS };
    format!(
        "(SELECT bit_xor(part) FROM ( \
           {roles} \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (1::bigint << 40)) FROM pg_catalog.pg_auth_members \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (2::bigint << 40)) FROM pg_catalog.pg_db_role_setting \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (3::bigint << 40)) FROM pg_catalog.pg_parameter_acl \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (4::bigint << 40)) FROM pg_catalog.pg_database \
         ) AS parts (part))"
    )
}

/// Returns the SQL of [`digest`] for the role of this connection.
///
/// # Errors
/// As every query.
pub async fn digest_sql(control: &Control) -> Result<String, Error> {
    let is_superuser = control.query_one(IS_SUPERUSER, &[]).await?.get(0);
    Ok(format!("SELECT {}", digest_of_roles(is_superuser)))
}

/// Returns the digest, with the SQL of [`digest_sql`]. Two equal ones mean, almost surely, that nothing has changed.
///
/// # Errors
/// As every query.
pub async fn digest(control: &Control, sql: &str) -> Result<u64, Error> {
    let row = control.query_one(sql, &[]).await?;
    Ok(row.get::<_, i64>(0).cast_unsigned())
}
