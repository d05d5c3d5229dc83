//! What the primary is asked about a session: its state, its prepared statements, and its process.

use super::Session;
use super::primary::Ended;

impl Session {
    /// Asks the primary what the session's state is.
    pub(super) async fn probe(&mut self) -> Result<(), Ended> {
        let Some(question) = self.state.probe() else { return Ok(()) };
        self.at_home().await?;
        if self.who.backend.started_us == 0 {
            self.ask_backend_start().await?;
        }
        let row = self.line.ask(&question).await?;
        match row {
            Some(row) => {
                let row: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
                // What is still wrong shows when the session is asked whether it may leave.
                let _ = self.state.probed(&row, &mut self.service.interner.borrow_mut());
                self.listens_for_us();
            }
            None => self.state.probe_failed(),
        }
        self.count_statements().await
    }

    /// Code may have deallocated prepared statements, and no answer has said so.
    async fn count_statements(&mut self) -> Result<(), Ended> {
        let followed = self.line.statements.named();
        if followed == 0 || self.line.lent.is_some() {
            return Ok(());
        }
        let question = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements \
                        WHERE NOT from_sql AND name OPERATOR(pg_catalog.<>) 'consort_question'";
        let row = self.line.ask(question).await?.unwrap_or_default();
        let there = row.first().and_then(Option::as_deref).and_then(|text| text.parse().ok());
        if there != Some(followed) {
            self.line.statements.forget_named();
        }
        Ok(())
    }

    /// When its backend began: with its process it is one of a kind.
    async fn ask_backend_start(&mut self) -> Result<(), Ended> {
        let question = "SELECT (extract(epoch FROM backend_start) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 \
                        FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())";
        let row = self.line.ask(question).await?.unwrap_or_default();
        let started = row.first().and_then(Option::as_deref).and_then(|text| text.parse().ok());
        self.who.backend.started_us = started.unwrap_or(0);
        Ok(())
    }
}
