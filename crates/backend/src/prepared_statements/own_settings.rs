//! Prepared statements that show Consort's own settings. A server refuses their Parse, because it does not know the
//! settings. Therefore it parses a stand-in under their name, which DEALLOCATE, DISCARD and `pg_prepared_statements` find.
//! Consort answers their Describe and their Execute.

use super::types;
use crate::request_text::names;
use session_state::utility::{What, split};
use statement_analysis::shape::Strings;
use wire::{Answers, Column, Problem};

/// Text of the stand-in. Code or an unfinished pipeline may execute it: the error then quotes these words.
const STAND_IN: &[u8] = b"EXECUTE \"SHOW of a consort setting needs a batch of its own\"";

/// Text that a server parses instead of this one, if that shows one of Consort's own settings.
pub fn stand_in(text: &[u8]) -> Option<&'static [u8]> {
    shown(text).map(|_| STAND_IN)
}

/// Answer to a Describe of the statement, if it shows one of Consort's own settings. `declared`: the parameter types of its
/// Parse.
pub fn description(text: &[u8], declared: &[u8]) -> Option<Box<[u8]>> {
    let name = shown(text)?;
    let mut said = Vec::new();
    said.parameter_description(&types(declared));
    said.row_description(&[Column::text(&name)]);
    Some(said.into())
}

/// Error of a batch that has other statements as well as one about a setting of Consort.
pub fn not_alone() -> Problem {
    let message = "a SET, RESET or SHOW of a consort setting must be the only statement of its batch";
    Problem::error("0A000", message).hint("Send the SET, RESET or SHOW as a separate batch.")
}

/// Name of the setting of Consort that the text shows, if it is that and nothing else. Costs next to nothing for other texts
/// than SHOW.
fn shown(text: &[u8]) -> Option<String> {
    let start = text.trim_ascii_start();
    let is_show = start.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"show"));
    let is_commented = [&b"/*"[..], b"--"].iter().any(|mark| start.starts_with(mark));
    if !(is_show || is_commented && names(text, b"show")) || !names(text, b"consort") {
        return None;
    }
    let statements = split(std::str::from_utf8(text).ok()?, Strings::default());
    let [one] = &*statements else { return None };
    let What::Utility(utility) = &one.what else { return None };
    utility.shown_consort_setting().map(str::to_owned)
}

/// Error for `set_config` of one of Consort's own settings.
pub fn set_at_server() -> Problem {
    Problem::error("0A000", "set_config() cannot change a setting of Consort")
        .hint("Send SET consort... or RESET consort... as a separate query.")
}

/// Error for storing one of Consort's own settings in a role, a database or a function at the server.
pub fn kept_at_server() -> Problem {
    Problem::error("0A000", "a setting of Consort cannot be stored for a role, a database or a function")
        .hint("Set it in Consort's configuration ([database.NAME], [user.NAME]), or in the client's options.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_show_of_consort_settings_has_a_stand_in() {
        let shows =
            ["SHOW consort.last_commit", " show Consort.consistency ;", "/* x */ SHOW consort.not_before"];
        for text in shows {
            assert_eq!(stand_in(text.as_bytes()), Some(STAND_IN), "{text}");
        }
        for text in [
            "SHOW work_mem",
            "SHOW consortium.x",
            "SET consort.consistency = 'weak'",
            "SELECT 'SHOW consort.last_commit'",
            "SHOW consort.last_commit; SELECT 1",
            "/* SHOW consort.last_commit */ SELECT 1",
            "",
        ] {
            assert_eq!(stand_in(text.as_bytes()), None, "{text}");
        }
        assert!(description(b"SELECT 1", &[]).is_none());
        assert!(description(b"SHOW consort.last_commit", &[]).is_some_and(|said| said.starts_with(b"t")));
    }
}
