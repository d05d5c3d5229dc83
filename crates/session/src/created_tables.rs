//! Tables that `EXPLAIN ANALYZE` of CREATE TABLE AS or SELECT INTO creates. No event trigger fires for them.
//! So they have no replica identity, without which their UPDATE fails, and the replication stream does not
//! show that the catalog has changed.
//!
//! The session therefore does both itself. After the answer it calls the function that attaching has created,
//! on the client's own connection and in its transaction. Its transaction is marked, as a change of roles is.
//! A table that is created inside a function, or written to in the same query string, is not seen.

use super::request_analysis::{Several, Todo};
use super::{Ended, Session};
use postgres::sql::quoted;
use session_state::utility::{Name, Utility, What};
use wire::Status;

/// The relations that a request creates in this way.
pub(super) fn made(todo: &Todo) -> Vec<Name> {
    let (Todo::Utility(statements) | Todo::Several(Several { statements, .. })) = todo else {
        return Vec::new();
    };
    let made = |what: &What| match what {
        What::Utility(Utility::Explain { makes, .. }) => makes.clone(),
        _ => None,
    };
    statements.iter().filter_map(|statement| made(&statement.what)).collect()
}

/// The command that gives the relation a replica identity if it needs one. The command never fails, because
/// an error would abort the client's transaction. The session's own search path resolves the name.
fn command(name: &Name) -> Option<String> {
    let schema = name.schema.iter().map(|schema| quoted(schema) + ".").collect::<String>();
    let name = schema + &quoted(&name.name);
    // Dollar quotes: the session may read backslashes in others.
    (!name.contains("$consort")).then(|| {
        format!(
            "DO LANGUAGE plpgsql $consort_do$BEGIN \
             PERFORM consort.give_identity(pg_catalog.to_regclass($consort_name${name}$consort_name$)); \
             EXCEPTION WHEN OTHERS THEN NULL; END$consort_do$"
        )
    })
}

impl Session {
    /// Sets the replica identities, after the answer.
    pub(super) async fn give_identities(&mut self, made: &[Name]) -> Result<(), Ended> {
        if !self.service.cluster.setup().design.follows_commits() {
            return Ok(());
        }
        for command in made.iter().filter_map(command) {
            if self.database.id().is_some() && self.line.primary.status != Status::Failed {
                self.line.ask(&command).await?;
            }
        }
        Ok(())
    }
}
