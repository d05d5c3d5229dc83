//! Description of the primary's foreign sessions: a writer that bypasses Consort is named to the operator.

use crate::Cluster;
use crate::trouble::answered;
use history::Footprint;
use postgres::Error;
use postgres::address::{APPLICATION_NAME, Control};

/// Maximum number of sessions, and of tables, that a log line names.
const NAMED_AT_MOST: usize = 3;

/// Query of the sessions of other programs in a database, the most recently active first.
const SESSIONS: &str = "SELECT pid, usename::text, coalesce(application_name, ''), \
     coalesce(pg_catalog.host(client_addr), 'a Unix socket') FROM pg_catalog.pg_stat_activity \
     WHERE datname = $1 AND backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid() \
     AND coalesce(application_name, '') <> $2 ORDER BY state_change DESC NULLS LAST";

/// Reports a commit past Consort that came out of this database's slot. The log line names its tables, and
/// the sessions that may have written it: the stream itself names no role.
pub(super) fn committed(cluster: &Cluster, database: &str, tables: String) {
    let (cluster, database) = (cluster.clone(), database.to_owned());
    tokio::task::spawn_local(async move {
        let by = match sessions(&cluster, &database).await {
            Ok(found) if found.is_empty() => {
                "a session that has ended (log_connections = on at the primary logs each log-in)".to_owned()
            }
            Ok(found) => found.join(", "),
            Err(error) => format!("cannot read the sessions of the primary: {error}"),
        };
        tracing::warn!(
            database,
            tables,
            by,
            "found a commit that bypasses Consort; from now on reads are proven for writers = anywhere"
        );
    });
}

async fn sessions(cluster: &Cluster, database: &str) -> Result<Vec<String>, Error> {
    let asked = async {
        let control = Control::connect(&cluster.setup().primary).await?;
        Ok(control.query(SESSIONS, &[&database, &APPLICATION_NAME]).await?)
    };
    let rows = answered(asked).await?;
    let own = cluster.backends().own();
    let others = rows.iter().filter(|row| !own.contains(&row.get(0)));
    let named = others.map(|row| session(row.get(1), row.get(2), row.get(3), row.get(0)));
    Ok(named.take(NAMED_AT_MOST).collect())
}

/// Returns the description of one session.
pub(super) fn session(user: &str, application: &str, from: &str, pid: i32) -> String {
    let application = if application.is_empty() { String::new() } else { format!(" with {application}") };
    format!("{user}{application} from {from} (process {pid})")
}

/// Returns the tables of a commit, by their names.
pub(super) fn tables(wrote: &Footprint, name: impl Fn(history::RelationId) -> String) -> String {
    let Some(tables) = wrote.tables() else { return "all (DDL)".to_owned() };
    let names: Vec<String> = tables.map(|(table, _)| name(table)).collect();
    match names.len().checked_sub(NAMED_AT_MOST) {
        Some(more) if more > 0 => format!("{} and {more} more", names[..NAMED_AT_MOST].join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Access, ColumnSet, RelationId, Rows};

    /// The log line names the table and the role, not "wrote=16388(*)[1 row]".
    #[test]
    fn foreign_commit_is_told_by_names() {
        let mut wrote = Footprint::NOTHING;
        for table in 16388..16393 {
            let access = Access { columns: ColumnSet::All, rows: Rows::All, existence: true };
            wrote.add(RelationId::new(table), access);
        }
        let name = |table: RelationId| format!("t{table}");
        assert_eq!(tables(&wrote, name), "t16388, t16389, t16390 and 2 more");
        assert_eq!(tables(&Footprint::Everything, name), "all (DDL)");
        assert_eq!(session("app", "psql", "10.0.0.7", 812), "app with psql from 10.0.0.7 (process 812)");
        assert_eq!(session("app", "", "a Unix socket", 812), "app from a Unix socket (process 812)");
    }
}
