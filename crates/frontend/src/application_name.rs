//! The `application_name` of a client with transaction or statement pooling. The client takes it along as a
//! setting, and its server connections log in without it, so that clients of many names find the same ones.

use conn::log_in::{NAME_SETTING, SERVER_HOLD_BYTES};
use session::primary::Reported;
use std::rc::Rc;
use wire::tag::back;
use wire::{Answers, Side, Splitter, Step};

/// Maximum length of a server's names (`NAMEDATALEN - 1`).
const NAME_BYTES: usize = 63;

/// Takes the name out of start-up parameters. Of several the last one counts, as at a server. One in
/// `options` stays there.
pub(super) fn taken(parameters: &mut Vec<(String, String)>) -> Option<String> {
    let mut name = None;
    parameters.retain_mut(|(known, value)| {
        let is_name = known.eq_ignore_ascii_case(NAME_SETTING);
        if is_name {
            name = Some(std::mem::take(value));
        }
        !is_name
    });
    name
}

/// Returns a name as a server has it that reports these settings: cut, in UTF-8 at the end of a character,
/// and with a question mark for each byte that is no printable ASCII (`truncate_identifier`, and
/// `check_application_name` of PostgreSQL 15). `None`: the reported name is equal already.
pub(super) fn as_had(name: &str, reported: &Rc<Vec<(Vec<u8>, Vec<u8>)>>) -> Option<String> {
    let reported = Reported(reported.clone());
    let is_utf8 = reported.get("server_encoding") == Some(&b"UTF8"[..]);
    let mut end = name.len().min(NAME_BYTES);
    while is_utf8 && !name.is_char_boundary(end) {
        end -= 1;
    }
    let shown = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '?' };
    let had: String = name.as_bytes()[..end].iter().map(shown).collect();
    let is_other = reported.get(NAME_SETTING) != Some(had.as_bytes());
    is_other.then_some(had)
}

/// Greeting of a client with this name, where a client without one receives `messages`.
pub(super) fn greeting(messages: &[u8], name: &str) -> Vec<u8> {
    let mut told = Vec::with_capacity(messages.len() + name.len());
    let mut splitter = Splitter::new(Side::Server, SERVER_HOLD_BYTES);
    let mut at = 0;
    while let Ok(Step::Whole(frame)) = splitter.next(&messages[at..]) {
        at += frame.bytes().len();
        let is_status = frame.tag() == back::PARAMETER_STATUS;
        let of_name = wire::parameter_status(&frame).is_ok_and(|(of, _)| of == NAME_SETTING.as_bytes());
        if is_status && of_name {
            told.parameter_status(NAME_SETTING.as_bytes(), name.as_bytes());
        } else {
            told.extend_from_slice(frame.bytes());
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_out_of_start_up_parameters() {
        let pairs = [("TimeZone", "UTC"), (NAME_SETTING, "a"), ("Application_Name", "b"), ("options", "-c")];
        let mut parameters = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        assert_eq!(taken(&mut parameters).as_deref(), Some("b"));
        let left: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["TimeZone", "options"]);
        assert_eq!(taken(&mut parameters), None);
    }

    #[test]
    fn a_name_is_had_as_a_server_has_it() {
        let had = |name: &str, encoding: &str| {
            let pairs = [("server_encoding", encoding), (NAME_SETTING, "till")];
            let reported = pairs.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
            as_had(name, &Rc::new(reported.to_vec()))
        };
        assert_eq!(had("till", "UTF8"), None);
        assert_eq!(had("", "UTF8").as_deref(), Some(""));
        assert_eq!(had("a\tb ~\u{7f}", "UTF8").as_deref(), Some("a?b ~?"));
        let long = format!("\u{e9}{}\u{e9}{}", "a".repeat(60), "b".repeat(36));
        let cut = format!("??{}", "a".repeat(60));
        assert_eq!(had(&long, "UTF8"), Some(cut.clone()));
        assert_eq!(had(&long, "LATIN1"), Some(cut + "?"), "half of a character there");
    }

    #[test]
    fn a_greeting_tells_a_clients_own_name_and_all_else() {
        let told = |name: &str| {
            let mut out = Vec::new();
            out.parameter_status(b"TimeZone", b"UTC");
            out.parameter_status(NAME_SETTING.as_bytes(), name.as_bytes());
            out.parameter_status(b"is_superuser", b"off");
            out
        };
        assert_eq!(greeting(&told(""), "till"), told("till"));
        assert!(greeting(&[], "till").is_empty());
    }
}
