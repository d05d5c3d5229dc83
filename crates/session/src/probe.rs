//! Internal queries about a session: its state, its prepared statements, and its backend.

use super::Session;
use super::primary::Ended;

impl Session {
    /// Runs the probe of the session's state.
    pub(super) async fn probe(&mut self) -> Result<(), Ended> {
        let Some(question) = self.state.probe() else { return Ok(()) };
        self.at_home().await?;
        if self.who.backend.started_us == 0 {
            self.ask_backend_start().await?;
        }
        // A late cancellation of the client's would leave the session's state unknown.
        let row = self.line.ask_unreached(&question).await?;
        match row {
            Some(row) => {
                let row: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
                // The remaining dirt shows when the session is next to be offloaded.
                let _ = self.state.probed(&row, &mut self.service.interner.borrow_mut());
                self.listens_for_us();
            }
            None => self.state.probe_failed(),
        }
        self.count_statements().await
    }

    /// Checks the prepared statements: code may have deallocated some, without a sign in an answer.
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

    /// Reads the start time of the backend: together with the process number it is unique.
    async fn ask_backend_start(&mut self) -> Result<(), Ended> {
        let question = "SELECT (extract(epoch FROM backend_start) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 \
                        FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())";
        let row = self.line.ask(question).await?.unwrap_or_default();
        let started = row.first().and_then(Option::as_deref).and_then(|text| text.parse().ok());
        self.who.backend.started_us = started.unwrap_or(0);
        Ok(())
    }
}
