//! Changes that fire no event trigger: roles and memberships, databases, owners. Nothing of them comes out of a slot, so
//! a mark is written behind them in every followed database: it comes out as DDL would, and whoever reads at a standby
//! reads behind it. Until then everything is in doubt, everywhere.

use crate::cluster::{Cluster, Database, Hold};
use crate::follow::answered;
use history::Footprint;
use order::DoubtId;
use postgres::Error;
use postgres::address::Control;
use postgres::attach;
use std::rc::Rc;
use std::time::Duration;
use transaction::{Backend, Cluster as _};

const ACTIVE_SLOTS: &str = "SELECT FROM pg_catalog.pg_replication_slots WHERE database = $1 AND active";
/// How often a walsender that ends is looked for.
const SLOT_ROUND: Duration = Duration::from_millis(5);

/// Such a change, from before its first byte is sent until it is marked.
pub(crate) struct Everywhere {
    cluster: Cluster,
    /// Who makes it; nobody if it was only found.
    backend: Option<Backend>,
    doubts: Vec<(DoubtId, Rc<Database>)>,
}

impl Everywhere {
    /// It begins.
    pub(crate) fn begin(cluster: &Cluster, backend: Option<Backend>) -> Everywhere {
        let doubt = |database: Rc<Database>| {
            let id = database.id()?;
            Some((cluster.scheduler().order_mut().doubt(id, Footprint::Everything), database))
        };
        let doubts = cluster.databases().into_iter().filter_map(doubt).collect();
        Everywhere { cluster: cluster.clone(), backend, doubts }
    }

    /// It is over, whichever way: marks it.
    pub(crate) async fn end(mut self) {
        while let Some((doubt, database)) = self.doubts.pop() {
            if database.not_serving().is_none()
                && let Err(error) = mark(&self.cluster, &database).await
            {
                tracing::warn!(database = database.name(), %error, "a change of roles could not be marked");
            }
            self.cluster.scheduler().order_mut().answered(doubt);
            self.cluster.gauge_wanted();
        }
    }
}

async fn mark(cluster: &Cluster, database: &Database) -> Result<(), Error> {
    let address = cluster.setup().primary.with_database(database.name());
    answered(async { attach::mark(&Control::connect(&address).await?).await }).await
}

/// Lets go of a database until what this returns is dropped. The server refuses at once if a slot of the database is
/// active, so its walsender must be gone too.
pub(crate) async fn let_go(cluster: &Cluster, database: &Rc<Database>) -> Hold {
    let hold = database.let_go().await;
    let gone = async {
        let control = Control::connect(&cluster.setup().primary).await?;
        while !control.query(ACTIVE_SLOTS, &[&database.name()]).await?.is_empty() {
            tokio::time::sleep(SLOT_ROUND).await;
        }
        Ok(())
    };
    if let Err(error) = answered(gone).await {
        tracing::debug!(database = database.name(), %error, "its slot may be active still");
    }
    hold
}

/// Dropped before its end: the backend may go on.
impl Drop for Everywhere {
    fn drop(&mut self) {
        for (doubt, _) in self.doubts.drain(..) {
            match self.backend {
                Some(backend) => {
                    self.cluster.scheduler().order_mut().connection_lost(doubt);
                    self.cluster.orphaned(doubt, backend);
                }
                None => self.cluster.scheduler().order_mut().answered(doubt),
            }
        }
    }
}

/// Whether this DDL command changes what is the whole server's, or owners: it fires no event trigger.
pub(crate) fn is_everywhere(command: &str) -> bool {
    let words = words(command, 3);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["create" | "alter" | "drop", "role" | "user" | "group" | "database" | "tablespace", ..]
        | ["reassign" | "drop", "owned", ..] => true,
        ["grant" | "revoke", ..] => !command.to_ascii_lowercase().contains(" on "),
        _ => false,
    }
}

/// Whether this DDL command needs a database that nobody is connected to.
pub(crate) fn wants_databases_alone(command: &str) -> bool {
    let words = words(command, 2);
    matches!(words.as_slice(), [first, second] if second == "database" && first != "comment")
}

/// The first words, in small letters, without comments between them.
fn words(command: &str, count: usize) -> Vec<String> {
    let mut text = command.trim_start();
    let mut words = Vec::new();
    while words.len() < count && !text.is_empty() {
        if let Some(rest) = text.strip_prefix("--") {
            text = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
        } else if let Some(rest) = text.strip_prefix("/*") {
            text = rest.split_once("*/").map_or("", |(_, rest)| rest).trim_start();
        } else {
            let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()).max(1);
            let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            words.push(text[..end].to_ascii_lowercase());
            text = text[end..].trim_start();
        }
    }
    words
}

/// Whether a command names this database: as a word of its own, or between double quotes.
pub(crate) fn names(command: &str, database: &str) -> bool {
    let quoted = format!("\"{}\"", database.replace('"', "\"\""));
    let plain = |c: char| !c.is_alphanumeric() && c != '_' && c != '$';
    command.contains(&quoted) || command.to_lowercase().split(plain).any(|word| word == database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fires_no_event_trigger() {
        for command in [
            "CREATE ROLE a",
            "alter user a set x = 1",
            "DROP GROUP a",
            "GRANT a TO b",
            "revoke a from b",
            "REASSIGN OWNED BY a TO b",
            "drop owned by a",
            "/* c */ ALTER -- x\n DATABASE d SET a = 1",
        ] {
            assert!(is_everywhere(command), "{command}");
        }
        for command in ["CREATE TABLE role (a int)", "GRANT SELECT ON t TO b", "DROP VIEW v", "", "é"] {
            assert!(!is_everywhere(command), "{command}");
        }
    }

    #[test]
    fn databases_are_named_plain_or_quoted() {
        assert!(
            wants_databases_alone("DROP DATABASE IF EXISTS a") && names("DROP DATABASE IF EXISTS a", "a")
        );
        assert!(names("CREATE DATABASE b TEMPLATE \"A b\"", "A b"));
        assert!(names("drop database AB", "ab") && !names("drop database abc", "ab"));
        assert!(!wants_databases_alone("DROP TABLE database"));
    }
}
