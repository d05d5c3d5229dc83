//! Preparation of a connection.

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::context::Context;
use crate::functions;
use crate::numeric::compare_text;

/// Registers the dialect's functions and collation with a connection and sets its limits: foreign keys are enforced, a
/// string in double quotes is an error.
pub fn install(conn: &Connection) -> rusqlite::Result<Context> {
    let context = Context::default();
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    conn.set_prepared_statement_cache_capacity(256);
    conn.create_collation("consort_numeric", compare_text)?;
    functions::register(conn, &context)?;
    Ok(context)
}
