//! Statements of SQL's PREPARE that go along with their session from one pooled connection to the next.
//! PostgreSQL keeps them under the same names as the protocol's. A PREPARE of the client is noted when the
//! server has done it. A connection's remaining statements are queried after every statement that may have
//! prepared or deallocated some (`crates/session/src/transaction_pooling.rs`). A statement that was prepared
//! unseen pins its session.

use super::{Kept, Parsed, STATEMENTS_FOLLOWED, Statement, Statements, TEXT_FOLLOWED_BYTES, Under, key};
use crate::statement_description::Described;
use cluster::NamesAt;
use session_state::Settings;
use std::rc::Rc;

/// A statement that SQL's PREPARE made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BySql {
    /// The settings under which it was prepared: PostgreSQL makes constants of some of them.
    pub(super) settings: Settings,
    /// Offset of the statement in the text of the PREPARE.
    pub(super) inner: usize,
    /// Time of its PREPARE at the connection that has it, in microseconds of Unix time, if it was queried.
    pub(super) at_us: Option<i64>,
}

impl BySql {
    /// True if the statement that was made so there is the wanted one.
    pub(super) fn may_be(&self, there: &BySql) -> bool {
        self.settings == there.settings
    }
}

/// Steps that a connection needs before it has a statement of SQL's PREPARE.
pub struct Again {
    /// The connection has another statement of this name, to be closed first.
    pub closes: bool,
    /// The client's PREPARE.
    pub text: String,
    /// Offset of the statement in it.
    pub inner: usize,
    /// The settings under which the client prepared it.
    pub settings: Settings,
    /// The description that the client may have received.
    pub told: Option<Rc<Described>>,
}

impl Statements {
    /// SQL has prepared this statement under a name at the pooled connection, by a text in which it begins at
    /// `inner`.
    pub fn prepared_by_sql(&mut self, name: &[u8], text: &str, inner: usize, settings: Settings) {
        let Some(there) = &mut self.there else { return };
        if text.len() > TEXT_FOLLOWED_BYTES || self.named.len() >= STATEMENTS_FOLLOWED {
            // The statement is found where it was made, and pins the session there.
            there.remove(key(name));
            self.named.remove(key(name));
            return;
        }
        let statement = Rc::new(Statement::new(text.as_bytes(), []));
        let by_sql = Some(BySql { settings, inner, at_us: None });
        let kept = Kept { statement, described: None, by_sql, under: None };
        there.insert(key(name).into(), Some(kept.clone()));
        let parsed = Parsed { kept, ..Parsed::new(Rc::new(Statement::new([], [])), Under::default()) };
        self.named.insert(key(name).into(), parsed);
    }

    /// True if the pooled connection lacks the client's statement of SQL's PREPARE under this name.
    pub fn lacks_by_sql(&self, name: &[u8]) -> bool {
        let parses = self.lack(name).and_then(|lack| lack.parses);
        parses.is_some_and(|kept| kept.by_sql.is_some())
    }

    /// Under which settings the client prepared it, if that is so, and under which settings and names it was found to have its
    /// columns.
    pub fn lacking_by_sql(&self, name: &[u8]) -> Option<(&Settings, &Settings, &NamesAt)> {
        let parsed = self.named.get(key(name)).filter(|_| self.lacks_by_sql(name))?;
        let then = &parsed.kept.by_sql.as_ref()?.settings;
        Some((then, parsed.found_under.as_ref()?, parsed.found.as_ref()?))
    }

    /// Steps that the pooled connection needs before it has the statement; they count as sent.
    pub fn prepares_again(&mut self, name: &[u8]) -> Option<Again> {
        if !self.lacks_by_sql(name) {
            return None;
        }
        let lack = self.lacks(name)?;
        if let Some(by_sql) = self.by_sql_there(name) {
            by_sql.at_us = None;
        }
        let kept = lack.parses?;
        let BySql { settings, inner, .. } = kept.by_sql?;
        let text = String::from_utf8_lossy(&kept.statement.text).into_owned();
        Some(Again { closes: lack.closes, text, inner, settings, told: kept.described })
    }

    /// The pooled connection prepared it at this time.
    pub fn was_prepared_at(&mut self, name: &[u8], at_us: i64) {
        if let Some(by_sql) = self.by_sql_there(name) {
            by_sql.at_us = Some(at_us);
        }
    }

    fn by_sql_there(&mut self, name: &[u8]) -> Option<&mut BySql> {
        self.there.as_mut()?.get_mut(key(name))?.as_mut()?.by_sql.as_mut()
    }

    /// The pooled connection has these of SQL's PREPARE, and no others; `true`: all of them are known.
    pub fn found_by_sql(&mut self, found: &[(&[u8], i64)]) -> bool {
        let Some(there) = &mut self.there else { return found.is_empty() };
        let is_by_sql = |kept: &Option<Kept>| kept.as_ref().is_some_and(|kept| kept.by_sql.is_some());
        let names: Vec<Box<[u8]>> =
            there.iter().filter(|(_, kept)| is_by_sql(kept)).map(|(name, _)| name.clone()).collect();
        let mut known = 0;
        for name in names {
            let place = found.iter().find(|(of, _)| **of == *name);
            if let (Some((_, at_us)), Some(by_sql)) = (place, self.by_sql_there(&name))
                && by_sql.at_us.is_none_or(|known| known == *at_us)
            {
                by_sql.at_us = Some(*at_us);
                known += 1;
            } else {
                // The statement is gone, or another one has its name.
                self.lost(&name);
            }
        }
        known == found.len()
    }

    /// The pooled connection has lost this one, and so has the client if it was the client's.
    fn lost(&mut self, name: &[u8]) {
        let is_the_clients = self.named.contains_key(name) && self.lack(name).is_none();
        self.there.as_mut().map(|there| there.remove(name));
        if is_the_clients {
            self.named.remove(name);
        }
    }

    /// The server's description of a statement of SQL's PREPARE; `None`: no description can be had, and the
    /// statement is not followed.
    pub fn described_by_sql(&mut self, name: &[u8], described: Option<Described>) {
        match described {
            Some(described) => self.described(name, described),
            None => self.lost(key(name)),
        }
    }

    /// Statements of SQL's PREPARE that the client has here and that lack a description.
    pub fn undescribed(&self) -> Vec<Box<[u8]>> {
        let is_new = |parsed: &Parsed| parsed.kept.by_sql.is_some() && parsed.kept.described.is_none();
        self.named.iter().filter(|(_, parsed)| is_new(parsed)).map(|(name, _)| name.clone()).collect()
    }

    /// True if the pooled connection lacks the client's statement of this name.
    pub fn is_lacking(&self, name: &[u8]) -> bool {
        self.lack(name).is_some_and(|lack| lack.parses.is_some())
    }

    /// SQL is about to name these: if it does not find one that is refused, the client gets the reason.
    pub fn speaks_of(&mut self, names: &[Box<[u8]>]) {
        self.refused_in_sql = names.iter().find_map(|name| self.refused.get(key(name)).cloned());
    }

    /// The client's answer in place of the error that there is no such statement.
    pub fn refused_in_sql(&mut self) -> Option<Box<[u8]>> {
        self.refused_in_sql.take()
    }
}
