//! Connections to a back end, and the position that is stored there.

use crate::trouble::{Step, Trouble};
use postgres::address::{Address, Control};

/// Application name of the connections.
const APPLICATION: &str = "consort disk tier";

/// Objects of Consort at a back end.
pub(crate) const INSTALL: &str = "CREATE SCHEMA IF NOT EXISTS consort; \
     CREATE TABLE IF NOT EXISTS consort.tier (id int PRIMARY KEY DEFAULT 1 CHECK (id = 1), \
         name text NOT NULL, version bigint NOT NULL)";
/// Settings of a connection that applies: triggers and foreign keys have done their part in the tier.
const APPLIES: &str = "SET search_path = public, pg_catalog; SET session_replication_role = replica";

/// The position of a back end: whose history it has, and how far.
pub(crate) struct Position {
    pub(crate) name: String,
    pub(crate) version: u64,
}

/// Connects to a back end to write there.
pub(crate) async fn connect(address: &Address) -> Step<Control> {
    let control = Control::with_settings(address, APPLICATION, "").await?;
    control.batch_execute(APPLIES).await.map_err(|error| match Trouble::from(error) {
        Trouble::Refused(why) => Trouble::Refused(format!(
            "{why}; make the role a superuser, or GRANT SET ON PARAMETER session_replication_role TO it"
        )),
        away @ Trouble::Away(_) => away,
    })?;
    let encoding: String = control.query_one("SHOW server_encoding", &[]).await?.get(0);
    if encoding != "UTF8" {
        return Err(Trouble::Refused(format!("its encoding is {encoding}: a back end needs UTF8")));
    }
    Ok(control)
}

/// The position of a back end; `None`: it has none.
pub(crate) async fn position(control: &Control) -> Step<Option<Position>> {
    let is_there = "SELECT to_regclass('consort.tier') IS NOT NULL";
    if !control.query_one(is_there, &[]).await?.get::<_, bool>(0) {
        return Ok(None);
    }
    let found = control.query_opt("SELECT name, version FROM consort.tier", &[]).await?;
    Ok(found.map(|row| Position { name: row.get(0), version: row.get::<_, i64>(1).unsigned_abs() }))
}

/// A version as PostgreSQL's bigint.
pub(crate) fn bigint(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}
