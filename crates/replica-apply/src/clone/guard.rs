//! Guards a replica's database against accidental writes. Its server takes writes as any other, and a write
//! that bypasses Consort is on no other server. So transactions are read-only there by default, for every
//! role that logs in: a write fails with PostgreSQL's own 25006. The guard is no lock: a transaction that
//! says that it writes (BEGIN READ WRITE, SET) goes around it.
//!
//! Consort's own connections, and connections on which a replica executes the primary's transactions, say the
//! opposite when they log in. That takes precedence, also after RESET ALL. Clients' reads there set it
//! explicitly. So a client that comes through Consort sees only the primary's value of this setting.
//!
//! The line is the replica's own: the primary's per-database and per-role values of this setting are not
//! copied (`roles.rs`), for a role's own `off` would take precedence over the guard.

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

/// Guards the copy at a replica, if it is not guarded: it may be older than the guard, or the guard was
/// removed.
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

/// The same for the database of this connection, while no other writer changes settings at its server.
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
