//! Any bytes as values of a key: as text, as a literal, as a parameter in binary format, as a datum, as arrays of these.

use statement_analysis::catalog::KeyForm;
use statement_analysis::key::{Canonical, elements_of_binary, elements_of_text, unquote};
use statement_analysis::oid;

const FORMS: [KeyForm; 5] = [KeyForm::Integer, KeyForm::Uuid, KeyForm::Text, KeyForm::Bytes, KeyForm::Date];
const TYPES: [u32; 8] =
    [oid::BYTEA, oid::INT8, oid::INT2, oid::INT4, oid::TEXT, oid::VARCHAR, oid::DATE, oid::UUID];

/// Values that are read in two ways are the same.
pub(crate) fn check(bytes: &[u8]) {
    for type_id in TYPES {
        let _ = Canonical::of_datum(type_id, bytes);
        for form in FORMS {
            if let Some(value) = Canonical::of_binary(form, type_id, bytes) {
                let _ = value.is_ascii();
            }
        }
    }
    if let Some((_, elements)) = elements_of_binary(bytes) {
        assert!(elements.iter().map(|element| element.len() + 4).sum::<usize>() <= bytes.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for form in FORMS {
        let plain = Canonical::of_text(form, text);
        let _ = Canonical::of_literal(form, text, true);
        let literal = format!("'{}'", text.replace('\'', "''"));
        if !text.contains('\\') {
            assert_eq!(unquote(&literal).as_deref(), Some(text));
            assert_eq!(Canonical::of_literal(form, &literal, false), plain);
        }
    }
    let _ = unquote(text);
    if let Some(elements) = elements_of_text(text) {
        let quoted = |element: &String| format!("\"{}\"", element.replace('\\', "\\\\").replace('"', "\\\""));
        let again = format!("{{{}}}", elements.iter().map(quoted).collect::<Vec<_>>().join(","));
        assert_eq!(elements_of_text(&again), Some(elements));
    }
}
