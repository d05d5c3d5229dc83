//! Commands of DDL that lock no readers out: they take no ACCESS EXCLUSIVE lock on a relation that was there
//! before (PostgreSQL's chapter "Explicit Locking").

use crate::objects::MARK;

/// Command tags without such a lock. Each other tag may take one.
const WITHOUT: &[&str] = &[
    "ALTER DEFAULT PRIVILEGES",
    "ALTER FUNCTION",
    "ALTER PROCEDURE",
    "COMMENT",
    "CREATE AGGREGATE",
    "CREATE FUNCTION",
    "CREATE INDEX",
    "CREATE PROCEDURE",
    "CREATE SEQUENCE",
    "CREATE STATISTICS",
    "CREATE TABLE AS",
    "CREATE TRIGGER",
    "CREATE TYPE",
    "GRANT",
    "REVOKE",
    "SECURITY LABEL",
    "SELECT INTO",
];

/// True if a command with this tag may lock readers out of a relation.
pub(super) fn locks_readers_out(tag: &str) -> bool {
    tag != MARK && !WITHOUT.contains(&tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_lock_readers_out() {
        for tag in
            ["ALTER TABLE", "DROP TABLE", "DROP INDEX", "CREATE TABLE", "REFRESH MATERIALIZED VIEW", ""]
        {
            assert!(locks_readers_out(tag), "{tag}");
        }
        for tag in ["GRANT", "CREATE INDEX", "CREATE TRIGGER", MARK] {
            assert!(!locks_readers_out(tag), "{tag}");
        }
    }
}
