//! The statements that were parsed on a connection, under names of ours. PostgreSQL makes constants of some settings when
//! it parses, so a statement is another one under other settings. Bounded: the one that was used longest ago makes place.

use crate::prepared_statements::Statement;
use statement_analysis::cache::SettingsId;
use std::collections::HashMap;
use std::rc::Rc;

/// Most statements that are kept on one connection.
const KNOWN_MAX: usize = 256;

/// The statements that were parsed on a connection.
#[derive(Debug, Default)]
pub(super) struct Known {
    statements: HashMap<Key, Entry>,
    /// The settings that the connection has.
    settings: Option<SettingsId>,
    next: u64,
    clock: u64,
}

/// A statement, and the settings under which it was parsed.
type Key = (Rc<Statement>, Option<SettingsId>);

#[derive(Debug)]
struct Entry {
    name: Rc<str>,
    used: u64,
}

/// A statement's name on a connection.
#[derive(Debug)]
pub(super) struct Name {
    /// The name.
    pub(super) text: Rc<str>,
    /// The connection must parse the statement under it first.
    pub(super) is_new: bool,
    /// The statement of this name must be closed first.
    pub(super) evicted: Option<Rc<str>>,
}

impl Known {
    /// The connection has these settings from now on.
    pub(super) fn under(&mut self, settings: Option<SettingsId>) {
        self.settings = settings;
    }

    /// The name of a statement; a new one is known from now on.
    pub(super) fn name(&mut self, statement: &Rc<Statement>) -> Name {
        self.clock += 1;
        let key = (statement.clone(), self.settings);
        if let Some(entry) = self.statements.get_mut(&key) {
            entry.used = self.clock;
            return Name { text: entry.name.clone(), is_new: false, evicted: None };
        }
        let evicted = (self.statements.len() >= KNOWN_MAX).then(|| self.evict());
        self.next += 1;
        let text: Rc<str> = format!("consort_{}", self.next).into();
        self.statements.insert(key, Entry { name: text.clone(), used: self.clock });
        Name { text, is_new: true, evicted }
    }

    fn evict(&mut self) -> Rc<str> {
        let oldest = self.statements.iter().min_by_key(|(_, entry)| entry.used);
        let oldest = oldest.map(|(key, _)| key.clone()).expect("there are many");
        self.statements.remove(&oldest).expect("just found").name
    }

    /// Its Parse failed, or its meaning changed: it is parsed again when it is next wanted.
    pub(super) fn forget(&mut self, statement: &Rc<Statement>) {
        self.statements.remove(&(statement.clone(), self.settings));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(number: usize) -> Rc<Statement> {
        Rc::new(Statement::new(number.to_string().into_bytes(), []))
    }

    #[test]
    fn the_one_used_longest_ago_makes_place() {
        let mut known = Known::default();
        for number in 0..KNOWN_MAX {
            assert!(known.name(&statement(number)).is_new);
        }
        assert!(!known.name(&statement(0)).is_new);
        let name = known.name(&statement(KNOWN_MAX));
        assert_eq!(name.evicted.as_deref(), Some("consort_2"));
        assert!(known.name(&statement(1)).is_new);
        assert_eq!(known.statements.len(), KNOWN_MAX);
        known.forget(&statement(0));
        assert!(known.name(&statement(0)).is_new);
        known.under(Some(SettingsId::new(1)));
        assert!(known.name(&statement(0)).is_new);
        known.under(None);
        assert!(!known.name(&statement(0)).is_new);
    }
}
