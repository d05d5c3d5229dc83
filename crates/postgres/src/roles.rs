//! Roles, their memberships and settings, and databases: they belong to the whole server, and no event
//! trigger fires for them. None fires for REASSIGN OWNED either, which decides the roles that row-level
//! policies spare. A digest of their catalogs is compared with the snapshot probes that are sent while
//! anything may be committed, and every second.

use crate::Error;
use crate::address::Control;

/// The digest, as an expression. Each version of a row has a place and a writer of its own: no row is taken
/// apart, and nothing is sorted. Vacuum changes `pg_database` in place, and so nothing here.
macro_rules! digest_of_roles {
    () => {
        "(SELECT bit_xor(part) FROM ( \
           SELECT hashtidextended(ctid, xmin::text::bigint) FROM pg_catalog.pg_authid \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (1::bigint << 40)) FROM pg_catalog.pg_auth_members \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (2::bigint << 40)) FROM pg_catalog.pg_db_role_setting \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (3::bigint << 40)) FROM pg_catalog.pg_parameter_acl \
           UNION ALL SELECT hashtidextended(ctid, xmin::text::bigint + (4::bigint << 40)) FROM pg_catalog.pg_database \
         ) AS parts (part))"
    };
}
pub(crate) use digest_of_roles;

const DIGEST: &str = concat!("SELECT ", digest_of_roles!());

/// Returns the digest. Two equal ones mean, almost surely, that nothing has changed.
///
/// # Errors
/// As every query; [`Error::Refused`] with 42501 if the role may not read `pg_authid`.
pub async fn digest(control: &Control) -> Result<u64, Error> {
    let row = control.query_one(DIGEST, &[]).await?;
    Ok(row.get::<_, i64>(0).cast_unsigned())
}
