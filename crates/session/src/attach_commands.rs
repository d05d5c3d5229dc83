//! Commands that concern Consort's own objects in a database. Without Consort's event triggers DDL goes
//! unnoticed. So the database is detached until the command's transaction has ended; attaching it again
//! checks that all objects are there.

use super::Session;
use super::request_analysis::{Several, Todo};
use backend::request::Request;
use cluster::barrier;
use postgres::object_names::names_ours;
use session_state::utility::{Utility, What};

impl Session {
    /// Detaches the database if a DDL command of the request names one of Consort's objects.
    pub(super) async fn before_a_change_of_ours(&mut self, request: Request, todo: &Todo) {
        let (Todo::Utility(statements) | Todo::Several(Several { statements, .. })) = todo else { return };
        let changes = |what: &What| matches!(what, What::Utility(Utility::Ddl { .. }));
        if statements.iter().any(|statement| changes(&statement.what))
            && (names_ours(self.line.bytes(request)) || self.prepared_names_ours())
            && self.txn.begins().ours_changes.is_none()
        {
            let hold = Box::pin(barrier::let_go(&self.service.cluster, &self.database)).await;
            self.txn.begins().ours_changes = Some(hold);
        }
    }

    /// True if a prepared statement in use names one of Consort's objects.
    fn prepared_names_ours(&self) -> bool {
        self.current.statement.as_ref().is_some_and(|statement| names_ours(&statement.text))
    }
}
