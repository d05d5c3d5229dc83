//! Tables whose rows call code of users when they are applied: functions in CHECK constraints, domains, indexes and
//! generated columns, casts, and triggers and rules that fire at every node. Such code runs as the table's owner.

use history::Version;
use std::collections::HashSet;

/// Answer to the question whether a table's rows call code of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Rows that call no code of users.
    Nothing,
    /// Rows that may call code of users.
    Code,
    /// The node must look.
    Unknown,
}

/// Tables of one database at one node, as they were found at a version.
#[derive(Debug, Default)]
pub(crate) struct UserCode {
    found_at: Option<Version>,
    tables: HashSet<String>,
}

impl UserCode {
    /// These tables, found at a node that showed this version.
    pub(crate) fn found(at: Version, tables: impl Iterator<Item = String>) -> UserCode {
        UserCode { found_at: Some(at), tables: tables.collect() }
    }

    /// Whether the tables were found after the newest command that changes the catalog, which has this version.
    pub(crate) fn is_known_at(&self, catalog: Version) -> bool {
        self.found_at.is_some_and(|found| found >= catalog)
    }

    /// Whether rows of this table call any.
    pub(crate) fn of(&self, table: &str) -> Calls {
        match self.found_at {
            None => Calls::Unknown,
            Some(_) if self.tables.contains(table) => Calls::Code,
            Some(_) => Calls::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_unknown_until_they_were_looked_for() {
        let found = UserCode::found(Version::new(7), ["public.t".to_owned()].into_iter());
        assert_eq!((found.of("public.t"), found.of("public.u")), (Calls::Code, Calls::Nothing));
        assert!(found.is_known_at(Version::new(7)) && !found.is_known_at(Version::new(8)));
        assert_eq!(UserCode::default().of("public.t"), Calls::Unknown);
        assert!(!UserCode::default().is_known_at(Version::ZERO));
    }
}
