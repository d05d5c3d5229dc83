//! Texts that name one of Consort's objects in a database.

use crate::objects::SCHEMA;

/// Suffixes of the event triggers' names, after the schema's name.
const OF_TRIGGERS: [&[u8]; 3] = [b"_ddl_command_", b"_sql_drop", b"_table_rewrite"];

/// Names of Consort's functions, which a search_path may find without the schema.
const FUNCTIONS: [&[u8]; 4] =
    [b"note_command", b"lacks_identity", b"tables_without_identity", b"give_identity"];

/// True if the schema, the publication (which has its name) or one of the event triggers is named.
pub fn names_ours(bytes: &[u8]) -> bool {
    let ours = SCHEMA.as_bytes();
    let is_there = |name: &&[u8]| bytes.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name));
    if FUNCTIONS.iter().any(is_there) {
        return true;
    }
    let goes_on =
        |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'$' || !byte.is_ascii();
    (0..bytes.len().saturating_sub(ours.len() - 1)).any(|at| {
        let (name, behind) = bytes[at..].split_at(ours.len());
        let of_trigger =
            |suffix: &&[u8]| behind.get(..suffix.len()).is_some_and(|part| part.eq_ignore_ascii_case(suffix));
        name.eq_ignore_ascii_case(ours)
            && !bytes[..at].last().is_some_and(goes_on)
            && (!behind.first().is_some_and(goes_on) || OF_TRIGGERS.iter().any(of_trigger))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_has_its_names() {
        for ours in [
            "ALTER EVENT TRIGGER consort_ddl_command_end DISABLE",
            "drop event trigger Consort_SQL_Drop",
            "DROP SCHEMA consort CASCADE",
            "DROP SCHEMA \"consort\"",
            "CREATE OR REPLACE FUNCTION consort.note_command() RETURNS event_trigger",
            "DROP TABLE consort.log",
            "DROP FUNCTION Note_Command() CASCADE",
        ] {
            assert!(names_ours(ours.as_bytes()), "{ours}");
        }
        for other in
            ["CREATE TABLE consort_bench_hot ()", "DROP TABLE myconsort", "CREATE TABLE t ()", "", "conso"]
        {
            assert!(!names_ours(other.as_bytes()), "{other}");
        }
    }
}
