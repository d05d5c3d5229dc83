//! SQL's PREPARE, EXECUTE and DEALLOCATE in pooled sessions: a statement is prepared again at the connection
//! where the session goes on. Its text is the client's own, and its settings are those of the original.

use super::Session;
use super::primary::Ended;
use super::transaction_pooling::{BETWEEN, LEFT};
use backend::prepared_statements::{Again, deallocated, executed, types};
use backend::statement_description::{Described, other_columns};
use cluster::NamesAt;
use postgres::sql::literal;
use postgres::sql::quoted;
use session_state::Settings;
use session_state::utility::{Statement, Utility, What};
use std::rc::Rc;
use wire::Status;

/// Query for the time when a statement was prepared, in microseconds of Unix time; its name follows.
const PREPARED_AT: &str = "SELECT (extract(epoch FROM prepare_time) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 \
     FROM pg_catalog.pg_prepared_statements WHERE name OPERATOR(pg_catalog.=) ";
/// Separator between the name and the time of a statement, see [`BETWEEN`].
const BEFORE_TIME: char = '\u{2}';
const PATH: &str = "search_path";
/// Settings of the session's identity, which count at a statement's execution, not at its preparation.
pub(super) const OF_TODAY: [&str; 2] = ["role", "session_authorization"];
/// Settings that decide how a text is read.
pub(super) const OF_TEXTS: [&str; 2] = ["standard_conforming_strings", "backslash_quote"];

/// A PREPARE that is about to run.
struct Prepares {
    name: String,
    text: String,
    inner: usize,
    settings: Settings,
}

impl Session {
    /// Runs a statement without a query tree. A statement prepared by PREPARE goes along with the session
    /// from then on.
    pub(super) async fn utility_or_prepare(&mut self, statements: Rc<[Statement]>) {
        let prepares = self.prepares(&statements);
        self.utility(statements).await;
        if let Some(Prepares { name, text, inner, settings }) = prepares
            && !self.current.said.failed
            && self.ended.is_none()
        {
            self.line.statements.prepared_by_sql(name.as_bytes(), &text, inner, settings);
        }
    }

    /// The statement of a PREPARE, if it can go along.
    fn prepares(&self, statements: &[Statement]) -> Option<Prepares> {
        let [Statement { what: What::Utility(Utility::Prepare { name, inner }), .. }] = statements else {
            return None;
        };
        self.line.lent.as_ref()?;
        self.state.known_settings()?;
        let (text, settings) = (self.words.text.clone(), self.state.settings().clone());
        Some(Prepares { name: name.clone(), text, inner: inner.start, settings })
    }

    /// Attaches the session if it is detached, before SQL that may refer to prepared statements by their
    /// names.
    pub(super) async fn at_home_with_statements(&mut self) -> Result<(), Ended> {
        self.at_home().await?;
        if self.line.lent.is_none() {
            return Ok(());
        }
        let has_any = self.line.statements.named() > 0;
        let names = if has_any { executed(&self.words.text) } else { Vec::new() };
        match self.line.primary.status {
            Status::Idle => {
                self.keep_all_columns().await?;
                let all = self.line.statements.names();
                self.line.primary.learn_all(all, &mut self.line.statements);
            }
            Status::InBlock => {
                self.line.statements.refuses_nothing();
                self.keep_columns(names.clone()).await?;
                // The BEGIN may have come in a batch, before which none is learnt.
                self.line.primary.learn_all(names.clone(), &mut self.line.statements);
            }
            Status::Failed => return Ok(()),
        }
        if let Some(name) = deallocated(self.words.text.as_bytes())
            && self.line.statements.is_lacking(&name)
        {
            // The connection lacks the statement because it is refused.
            self.line.primary.ask_place(&name);
            self.line.settled().await?;
            self.line.statements.unlearned(&name);
        }
        self.line.statements.speaks_of(&names);
        Ok(())
    }

    /// Has the connection prepare at once all statements that the client has prepared by SQL and that it
    /// lacks, if no change is possible since.
    pub(super) async fn prepare_all_again(&mut self) -> Result<(), Ended> {
        let now = self.state.settings().clone();
        let mut told = false;
        for name in self.line.statements.names() {
            let is_same = |(then, found_under, since): (&Settings, &Settings, &NamesAt)| {
                let is_found = found_under.find_as(&now) && !self.columns_may_have_changed(since);
                is_found && self.settings_of(then, &now) == now
            };
            if self.line.statements.lacking_by_sql(&name).is_some_and(is_same)
                && let Some(Again { closes, text, told: Some(described), .. }) =
                    self.line.statements.prepares_again(&name)
            {
                self.line.primary.ask_prepared(&name, &text, closes, described);
                told = true;
            }
        }
        if told && let Some(row) = self.line.ask(LEFT).await? {
            let listed = row.first().and_then(Option::as_deref).unwrap_or_default();
            self.line.statements.found_by_sql(&listing(listed));
        }
        Ok(())
    }

    /// Has the connection prepare the statement that the client has prepared by SQL under this name. If it
    /// cannot be equal to the original, it is refused in this request.
    pub(super) async fn prepare_again(&mut self, name: &[u8]) -> Result<(), Ended> {
        let Some(again) = self.line.statements.prepares_again(name) else { return Ok(()) };
        let under = self.database.names().now(None);
        if again.closes {
            self.line.primary.ask_closed(name);
        }
        let idle = self.line.primary.status == Status::Idle;
        let now = self.state.settings().clone();
        // In a block SET would undo an earlier SET LOCAL.
        let then = if idle { self.settings_of(&again.settings, &now) } else { now.clone() };
        let first = self.line.lent.as_ref().map(|lent| lent.first.clone());
        // The client receives no report of settings that are set and set back here.
        self.line.primary.holds_reports = true;
        self.take_settings(now.to_become_at_primary(&then, first.as_ref())).await?;
        // In a block there is one try.
        let declaring = if idle { None } else { self.declaring(name, &again).await? };
        let text = declaring.as_deref().unwrap_or(&again.text);
        let mut difference = self.prepare_by(name, text, &again).await?;
        if difference.is_none() && declaring.is_none() {
            let found_under = self.settings_if_known();
            self.line.statements.has_columns(name, under, found_under);
        }
        if difference.is_some()
            && idle
            && let Some(declaring) = self.declaring(name, &again).await?
        {
            difference = self.prepare_by(name, &declaring, &again).await?;
        }
        self.take_settings(then.to_become_at_primary(&now, first.as_ref())).await?;
        self.tell_reports();
        // By the client's own words alone the statement would differ from the original: so it is checked
        // again at the next connection.
        if let Some(error) = difference {
            self.line.statements.refuse(name, error);
        }
        Ok(())
    }

    /// The settings under which a statement is to be prepared again: those of PostgreSQL's last analysis.
    /// With another search_path, PostgreSQL repeats the analysis, but not the reading of the text
    /// (`RevalidateCachedQuery`).
    fn settings_of(&self, then: &Settings, now: &Settings) -> Settings {
        let mut interner = self.service.interner.borrow_mut();
        let (base, others, names) =
            if then.get(PATH) == now.get(PATH) { (then, now, OF_TODAY) } else { (now, then, OF_TEXTS) };
        names.iter().fold(base.clone(), |made, name| interner.with(&made, name, others.get(name)))
    }

    /// Prepares a statement again by this text. Returns the error for the client that uses it, if it differs
    /// from the original; the connection then has none of that name.
    async fn prepare_by(
        &mut self,
        name: &[u8],
        text: &str,
        again: &Again,
    ) -> Result<Option<Box<[u8]>>, Ended> {
        self.line.primary.own_error();
        self.line.ask(text).await?;
        if let Some(error) = self.line.primary.own_error() {
            return Ok(Some(error.into()));
        }
        let now = self.what_is(name).await?;
        if now.as_ref().is_some_and(|now| again.told.as_ref().is_none_or(|told| **told == *now)) {
            return Ok(None);
        }
        self.line.primary.ask_closed(name);
        self.line.settled().await?;
        Ok(Some(other_columns()))
    }

    /// The server's description of a statement, and the time when it was prepared.
    async fn what_is(&mut self, name: &[u8]) -> Result<Option<Described>, Ended> {
        self.line.primary.ask_what_is(name);
        if self.line.primary.status == Status::Idle {
            self.line.primary.ask(&format!("{PREPARED_AT}{}", literal(&String::from_utf8_lossy(name))));
        }
        self.line.settled().await?;
        let (error, said) = (self.line.primary.own_error(), self.line.primary.aside());
        let row = self.line.primary.own_answer().unwrap_or_default();
        let at_us = row.first().and_then(Option::as_deref).and_then(|text| text.parse().ok());
        if let Some(at_us) = at_us {
            self.line.statements.was_prepared_at(name, at_us);
        }
        Ok(if error.is_some() { None } else { Described::read(&said).ok() })
    }

    /// A PREPARE that declares the types of the parameters that the statement has had so far; `None` if it
    /// has none.
    async fn declaring(&mut self, name: &[u8], again: &Again) -> Result<Option<String>, Ended> {
        let Some(told) = again.told.as_ref().filter(|told| !told.parameters.is_empty()) else {
            return Ok(None);
        };
        let oids: Vec<String> = types(&told.parameters).iter().map(u32::to_string).collect();
        let question = format!(
            "SELECT pg_catalog.string_agg(oid::pg_catalog.regtype::pg_catalog.text, ', ' ORDER BY at) \
             FROM pg_catalog.unnest('{{{}}}'::pg_catalog.oid[]) WITH ORDINALITY AS types (oid, at)",
            oids.join(",")
        );
        let row = self.line.ask(&question).await?.unwrap_or_default();
        let Some(Some(types)) = row.first() else { return Ok(None) };
        let Some(inner) = again.text.get(again.inner..) else { return Ok(None) };
        let name = quoted(&String::from_utf8_lossy(name));
        Ok(Some(format!("PREPARE {name} ({types}) AS {inner}")))
    }

    /// Records that the connection has these statements of SQL's PREPARE and no others, with their times.
    /// `true`: all can go along.
    pub(super) async fn found_prepared(&mut self, listed: &str) -> Result<bool, Ended> {
        let mut follows = self.line.statements.found_by_sql(&listing(listed));
        // A change during this query counts as a change after it.
        let (under, settings) = (self.database.names().now(None), self.settings_if_known());
        for name in self.line.statements.undescribed() {
            self.line.primary.ask_what_is(&name);
            self.line.settled().await?;
            let (error, said) = (self.line.primary.own_error(), self.line.primary.aside());
            let described = Described::read(&said).ok().filter(|_| error.is_none());
            follows &= described.is_some();
            self.line.statements.described_by_sql(&name, described);
            self.line.statements.has_columns(&name, under.clone(), settings.clone());
        }
        Ok(follows)
    }
}

/// Names and times in the result of the query [`LEFT`].
fn listing(listed: &str) -> Vec<(&[u8], i64)> {
    let parts = listed.split(BETWEEN).filter(|part| !part.is_empty());
    let times = parts.filter_map(|part| part.rsplit_once(BEFORE_TIME));
    times.filter_map(|(name, at_us)| Some((name.as_bytes(), at_us.parse().ok()?))).collect()
}
