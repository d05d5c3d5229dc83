//! Columns of named statements that go along with a session from one pooled connection to another. They stay
//! fixed, as PostgreSQL's do: a statement that would have other columns when it is parsed again is refused.
//! DDL or another search path may have changed the columns since the client's description. Then they are
//! checked before the client's request is sent, so that no part of it has run. The check is also made after
//! the client has changed a setting that decides how a text is read: the statement keeps its earlier meaning.

use super::Session;
use super::primary::Ended;
use super::sql_prepare::OF_TEXTS;
use backend::batch;
use backend::prepared_statements::Lacking;
use backend::request::{Kind, Request};
use backend::statement_description::{self, Described};
use cluster::NamesAt;
use history::Footprint;
use session_state::{PARSED_UNDER, Settings};
use wire::Status;

impl Session {
    /// Checks the statements of a request that goes to the primary and that the connection lacks: they still
    /// have their columns, or are refused in the request. Runs once for each request, as early as its place
    /// is known.
    pub(super) async fn keep_columns_in(&mut self, request: Request) -> Result<(), Ended> {
        if std::mem::replace(&mut self.current.columns_kept, true) {
            return Ok(());
        }
        self.line.statements.refuses_nothing();
        if self.line.lent.is_none() || !matches!(request.kind, Kind::Batch | Kind::Flushed | Kind::Open) {
            return Ok(());
        }
        let mut names = batch::statements_used(self.line.bytes(request), self.line.client.splitter)
            .map_err(Ended::Malformed)?;
        if request.kind == Kind::Open {
            // The rest is sent as it comes, and SQL can prepare no statement in the middle of it.
            let all = self.line.statements.names();
            names.extend(all.into_iter().filter(|name| self.line.statements.lacks_by_sql(name)));
        }
        self.keep_columns(names).await
    }

    /// Checks all statements, before SQL that may refer to them.
    pub(super) async fn keep_all_columns(&mut self) -> Result<(), Ended> {
        self.line.statements.refuses_nothing();
        self.prepare_all_again().await?;
        let names = self.line.statements.names();
        self.keep_columns(names).await
    }

    pub(super) async fn keep_columns(&mut self, names: Vec<Box<[u8]>>) -> Result<(), Ended> {
        for name in names {
            // A failed block would refuse the check.
            let stands = self.line.primary.status != Status::Failed;
            if stands && self.line.statements.lacks_by_sql(&name) {
                self.prepare_again(&name).await?;
                continue;
            }
            let is_doubted = |lacking: Lacking<'_>| {
                self.columns_may_have_changed(lacking.found) || self.is_understood_otherwise(&lacking)
            };
            if !stands || !self.line.statements.lacking(&name).is_some_and(is_doubted) {
                continue;
            }
            // A change during this query counts as a change after it.
            let (names, settings) = (self.database.names().now(None), self.settings_if_known());
            match self.learn_as_parsed(&name).await? {
                Ok(()) => self.line.statements.has_columns(&name, names, settings),
                Err(error) => self.line.statements.refuse(&name, error),
            }
        }
        Ok(())
    }

    /// Has the connection learn a named statement that it lacks, under the settings by which PostgreSQL would
    /// have read it last.
    async fn learn_as_parsed(&mut self, name: &[u8]) -> Result<Result<(), Box<[u8]>>, Ended> {
        let now = self.state.settings().clone();
        let then = self.reads_under(name, &now);
        if then == now {
            return self.line.learn_described(name).await;
        }
        let first = self.line.lent.as_ref().map(|lent| lent.first.clone());
        self.line.primary.holds_reports = true;
        self.take_settings(now.to_become_at_primary(&then, first.as_ref())).await?;
        let learnt = self.line.learn_described(name).await?;
        self.take_settings(then.to_become_at_primary(&now, first.as_ref())).await?;
        self.tell_reports();
        Ok(learnt)
    }

    /// The session's settings, except for those that decide how the text of this statement is read: they are
    /// as at the client's Parse. With another search path PostgreSQL repeats the analysis of names, from the
    /// text as read then.
    fn reads_under(&self, name: &[u8], now: &Settings) -> Settings {
        // In a block SET would undo an earlier SET LOCAL.
        let may_set = self.line.primary.status == Status::Idle && self.state.knows_settings();
        let lacking = self.line.statements.lacking(name).filter(|_| may_set);
        let Some(then) = lacking.and_then(|lacking| lacking.parsed_under) else { return now.clone() };
        let names: &[&str] = if then.find_as(now) { &PARSED_UNDER } else { &OF_TEXTS };
        let mut interner = self.service.interner.borrow_mut();
        names.iter().fold(now.clone(), |made, name| interner.with(&made, name, then.get(name)))
    }

    /// True if this statement might be understood differently today: its names may be found elsewhere, or its
    /// text is read in another way.
    fn is_understood_otherwise(&self, lacking: &Lacking<'_>) -> bool {
        let Some(now) = self.settings_if_known() else { return true };
        let is_read_otherwise = lacking.parsed_under.is_some_and(|then| !then.read_as(&now));
        is_read_otherwise || lacking.found_under.is_none_or(|found| !found.find_as(&now))
    }

    /// The session's settings, where they are known.
    pub(super) fn settings_if_known(&self) -> Option<Settings> {
        self.state.knows_settings().then(|| self.state.settings().clone())
    }

    /// True if the columns of a statement may have changed since this moment: by DDL of any session that has
    /// come out of the decoder, or may be committing now, or by the session's own transaction.
    pub(super) fn columns_may_have_changed(&self, since: &NamesAt) -> bool {
        let in_block = self.line.primary.status == Status::InBlock;
        let own = self.txn.block().map_or(in_block, |block| *block.wrote() == Footprint::Everything);
        let known = self.database.id().filter(|_| self.database.reads_may_leave());
        let order = |id| self.service.cluster.scheduler().order().everything_in_doubt(id);
        own || known.is_none_or(order) || !self.database.names().are_those_of(since)
    }
}

/// The error for a client that has the description `told`, when a server answers so; `None`: the description
/// still holds.
pub(super) fn difference(told: &Described, answer: &[u8]) -> Option<Box<[u8]>> {
    let is_same = Described::read(answer).is_ok_and(|now| told.has_columns_of(&now));
    (!is_same).then(statement_description::other_columns)
}
