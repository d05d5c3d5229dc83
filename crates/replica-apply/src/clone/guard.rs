//! Keeps people from writing by accident to a database that Consort feeds. Its server takes writes as any other, and what somebody
//! writes there past Consort no other server has. So transactions are read-only there by default, for whoever logs in: he hears
//! PostgreSQL's own 25006. It is no lock: who says that his transaction writes (BEGIN READ WRITE, SET) goes around it.
//!
//! Consort's own connections, and those on which a replica executes what the primary executes, say the opposite when they log in,
//! which counts for more, also behind RESET ALL. Clients' reads there say it by themselves. So nobody who comes through Consort sees
//! of this setting what is not the primary's.
//!
//! The line is the replica's own: what the primary's databases and roles have of this setting is not brought there (`roles.rs`), for
//! a role's own `off` would count for more than the guard.

use super::shared_objects::SharedWriter;
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::write_guard::{run, unguard};

/// The commands that guard the database of the connection; none if it is guarded. A dump, or a base backup, has brought along what
/// the primary has for roles in this database.
const MISSING: &str = "\
    SELECT format('ALTER DATABASE %I SET default_transaction_read_only = on', d.datname) FROM pg_database d \
    WHERE d.datname = current_database() AND NOT EXISTS (SELECT FROM pg_db_role_setting s \
      WHERE s.setdatabase = d.oid AND s.setrole = 0 AND 'default_transaction_read_only=on' = ANY (s.setconfig)) \
    UNION ALL \
    SELECT format('ALTER ROLE %I IN DATABASE %I RESET default_transaction_read_only', r.rolname, d.datname) \
    FROM pg_database d JOIN pg_db_role_setting s ON s.setdatabase = d.oid JOIN pg_roles r ON r.oid = s.setrole \
      CROSS JOIN LATERAL unnest(s.setconfig) AS c (setting) \
    WHERE d.datname = current_database() AND split_part(c.setting, '=', 1) = 'default_transaction_read_only'";

/// The databases of a server that may be guarded.
const GUARDED: &str = "\
    SELECT d.datname::text FROM pg_database d JOIN pg_db_role_setting s ON s.setdatabase = d.oid AND s.setrole = 0 \
    WHERE d.datallowconn AND 'default_transaction_read_only=on' = ANY (s.setconfig) ORDER BY 1";

/// Guards the copy at a replica, if it is not guarded: it may have been made before there was a guard, or somebody has taken it away.
///
/// # Errors
/// As every query.
pub async fn guard(replica: &Address) -> Result<(), Error> {
    let there = Control::connect(replica).await?;
    if there.query(MISSING, &[]).await?.is_empty() {
        return Ok(());
    }
    set(&there, &SharedWriter::take(replica).await?).await
}

/// The same for the database of this connection, while nobody else writes settings at its server.
pub(super) async fn set(there: &Control, _writer: &SharedWriter) -> Result<(), Error> {
    run(there, MISSING).await
}

/// Takes the guard away from the copies of these databases at a server that is fed no more: what is done there is its owner's business.
///
/// # Errors
/// As every query; of several databases the first one's, when the others are done.
pub async fn release(server: &Address, of: impl Fn(&str) -> bool) -> Result<(), Error> {
    let control = SharedWriter::take(server).await?;
    let mut first = Ok(());
    for row in control.query(GUARDED, &[]).await? {
        let database: String = row.get(0);
        if of(&database) {
            let address = server.with_database(&database);
            first = first.and(async { unguard(&Control::connect(&address).await?).await }.await);
        }
    }
    first
}
