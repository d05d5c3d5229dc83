//! The write guard of a copy: transactions are read-only by default in a database that Consort feeds. Feeding
//! sets the guard, and attaching the database as a primary's removes it.

use crate::Error;
use crate::address::Control;

/// The setting that guards a database.
pub const SETTING: &str = "default_transaction_read_only";

/// Query of the command that removes the guard from the database of the connection; empty if it has none, or
/// is no copy.
const NEEDLESS: &str = "\
    SELECT format('ALTER DATABASE %I RESET default_transaction_read_only', d.datname) \
    FROM pg_database d JOIN pg_db_role_setting s ON s.setdatabase = d.oid AND s.setrole = 0 \
    WHERE d.datname = current_database() AND 'default_transaction_read_only=on' = ANY (s.setconfig) \
      AND to_regclass('consort.position') IS NOT NULL";

/// Removes the guard from the database of this connection if that is, or was, a copy: it is going to be
/// written to.
///
/// # Errors
/// As every query.
pub async fn unguard(control: &Control) -> Result<(), Error> {
    run(control, NEEDLESS).await
}

/// Runs the commands that a query returns.
///
/// # Errors
/// As every query.
pub async fn run(control: &Control, query: &str) -> Result<(), Error> {
    for row in control.query(query, &[]).await? {
        let command: String = row.get(0);
        control.batch_execute(&command).await?;
    }
    Ok(())
}
