//! The words of a request: its text, and the shape of that.

use super::Session;
use super::request::Request;
use super::statements::Statement;
use statement_analysis::shape::{Shape, Strings};
use std::rc::Rc;
use wire::{Frame, Malformed};

/// A text longer than this is not kept while the session is idle.
pub(super) const TEXT_KEPT_BYTES: usize = 4096;

/// A text, and its shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    pub(super) text: String,
    pub(super) shape: Shape,
}

impl Words {
    /// Takes in a text and reads its shape; `false` if it cannot be read.
    pub(super) fn read(&mut self, session: &Session, text: &[u8]) -> bool {
        self.text.clear();
        self.text.shrink_to(TEXT_KEPT_BYTES);
        let Ok(text) = std::str::from_utf8(text) else { return false };
        if !session.state.text_is_plain(text.as_bytes()) {
            return false;
        }
        self.text.push_str(text);
        self.shape.read(&self.text, session.state.strings());
        true
    }

    /// It may be a read, so that its tree is worth a short wait.
    pub(super) fn may_be_a_read(&self) -> bool {
        let text = self.text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
        ["select", "with", "values", "table", "/*", "--"]
            .iter()
            .any(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
    }
}

/// Words that nobody else has.
struct Blank(Rc<Words>);

impl Blank {
    fn filled(mut self, session: &Session, text: &[u8]) -> Option<Rc<Words>> {
        let is_read = Rc::get_mut(&mut self.0).is_some_and(|words| words.read(session, text));
        is_read.then_some(self.0)
    }
}

/// The words of a statement that is prepared once and executed often, and what a backslash meant when they were read.
#[derive(Debug)]
pub(super) struct Read {
    strings: Strings,
    words: Rc<Words>,
}

impl Session {
    /// The words of the current Query are those of the request; `None`: they cannot be read.
    pub(super) fn reads_query(&mut self, request: Request) -> Result<Option<Rc<Words>>, Malformed> {
        let words = self.blank();
        let frame = Frame::new(self.line.bytes(request))?;
        let words = words.filled(self, wire::query_text(&frame)?);
        Ok(self.says(words))
    }

    /// The same of this text.
    pub(super) fn reads(&mut self, text: &[u8]) -> Option<Rc<Words>> {
        let words = self.blank().filled(self, text);
        self.says(words)
    }

    /// Words to be written over. Those of a statement are its own.
    fn blank(&mut self) -> Blank {
        let mut words = std::mem::replace(&mut self.words, self.service.no_words.clone());
        if Rc::get_mut(&mut words).is_none() {
            words = Rc::default();
        }
        Blank(words)
    }

    fn says(&mut self, words: Option<Rc<Words>>) -> Option<Rc<Words>> {
        self.words = words.clone().unwrap_or_else(|| self.service.no_words.clone());
        words
    }

    /// The words of this statement are those of the request. They are read once.
    pub(super) fn reads_prepared(&mut self, prepared: &Statement) -> Option<Rc<Words>> {
        let strings = self.state.strings();
        match prepared.read.get() {
            Some(read) if read.strings == strings && self.state.text_is_plain(&prepared.text) => {
                self.words = read.words.clone();
                Some(read.words.clone())
            }
            _ => {
                let words = self.reads(&prepared.text)?;
                let _ = prepared.read.set(Read { strings, words: words.clone() });
                Some(words)
            }
        }
    }

    /// Nothing that is counted is asked.
    pub(super) fn says_nothing(&mut self) {
        match Rc::get_mut(&mut self.words) {
            Some(words) => words.text.clear(),
            None => self.words = self.service.no_words.clone(),
        }
    }
}
