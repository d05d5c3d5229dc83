//! The words of a request: its text, and the shape of that.

use session_state::SessionState;
use statement_analysis::Parameter;
use statement_analysis::shape::{Shape, Strings};
use std::rc::Rc;

/// A text longer than this is not kept while the session is idle.
pub const TEXT_KEPT_BYTES: usize = 4096;

/// A text, and its shape.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The text.
    pub text: String,
    /// The shape of the text.
    pub shape: Shape,
}

impl Words {
    /// Takes in a text and reads its shape; `false` if it cannot be read.
    pub fn read(&mut self, state: &SessionState, text: &[u8]) -> bool {
        self.text.clear();
        self.text.shrink_to(TEXT_KEPT_BYTES);
        let Ok(text) = std::str::from_utf8(text) else { return false };
        if !state.text_is_plain(text.as_bytes()) {
            return false;
        }
        self.text.push_str(text);
        self.shape.read(&self.text, state.strings());
        true
    }

    /// True if the statement may be a read, so that its tree is worth a short wait.
    pub fn may_be_a_read(&self) -> bool {
        let text = self.text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
        ["select", "with", "values", "table", "/*", "--"]
            .iter()
            .any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
    }
}

/// The words of a statement that is prepared once and executed often, and what a backslash meant when they were read.
#[derive(Debug)]
pub struct Read {
    /// The meaning of a backslash at the time of reading.
    pub strings: Strings,
    /// The words.
    pub words: Rc<Words>,
}

/// True if a text calls a function that shows a session's use of sequences.
pub fn asks_sequences(text: &[u8]) -> bool {
    names(text, b"currval") || names(text, b"lastval")
}

/// True if a text contains a word, given in small letters.
pub fn names(text: &[u8], word: &[u8]) -> bool {
    memchr::memchr2_iter(word[0], word[0].to_ascii_uppercase(), text)
        .any(|at| text[at..].get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

/// A parameter that outlives its message.
#[derive(Debug)]
pub enum KeptParameter {
    /// NULL.
    Null,
    /// A value as text.
    Text(Box<[u8]>),
    /// A value in binary.
    Binary(Box<[u8]>),
    /// A value that is not known.
    Unknown,
}

impl KeptParameter {
    /// Copies a parameter.
    pub fn of(parameter: &Parameter<'_>) -> KeptParameter {
        match parameter {
            Parameter::Null => KeptParameter::Null,
            Parameter::Text(value) => KeptParameter::Text((*value).into()),
            Parameter::Binary(value) => KeptParameter::Binary((*value).into()),
            Parameter::Unknown => KeptParameter::Unknown,
        }
    }

    /// Returns the parameter.
    pub fn parameter(&self) -> Parameter<'_> {
        match self {
            KeptParameter::Null => Parameter::Null,
            KeptParameter::Text(value) => Parameter::Text(value),
            KeptParameter::Binary(value) => Parameter::Binary(value),
            KeptParameter::Unknown => Parameter::Unknown,
        }
    }
}

/// A parameter of a Bind message, for the template.
pub fn parameter((binary, value): (bool, Option<&[u8]>)) -> Parameter<'_> {
    match value {
        None => Parameter::Null,
        Some(value) if binary => Parameter::Binary(value),
        Some(value) => Parameter::Text(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_ask_for_sequences() {
        for (text, asks) in [
            ("SELECT CurrVal('s')", true),
            ("INSERT INTO t VALUES (lastval())", true),
            ("SELECT nextval('s'), LASTVAL(), 1", true),
            ("lastval", true),
            ("SELECT nextval('s')", false),
            ("lastva", false),
            ("", false),
        ] {
            assert_eq!(asks_sequences(text.as_bytes()), asks, "{text}");
        }
    }
}
