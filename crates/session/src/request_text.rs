//! The words of a request, read into the session's own buffer.

use super::Session;
use backend::prepared_statements::Statement;
use backend::request::Request;
use backend::request_text::{Read, Words};
use session_state::SessionState;
use std::rc::Rc;
use wire::{Frame, Malformed};

/// Words that no statement shares.
struct Blank(Rc<Words>);

impl Blank {
    fn filled(mut self, state: &SessionState, text: &[u8]) -> Option<Rc<Words>> {
        let is_read = Rc::get_mut(&mut self.0).is_some_and(|words| words.read(state, text));
        is_read.then_some(self.0)
    }
}

impl Session {
    /// Reads the words of the current Query, as those of the request; `None`: they cannot be read.
    pub(super) fn reads_query(&mut self, request: Request) -> Result<Option<Rc<Words>>, Malformed> {
        let words = self.blank();
        let frame = Frame::new(self.line.bytes(request))?;
        let words = words.filled(&self.state, wire::query_text(&frame)?);
        Ok(self.says(words))
    }

    /// Reads the words of this text, as those of the request.
    pub(super) fn reads(&mut self, text: &[u8]) -> Option<Rc<Words>> {
        let words = self.blank().filled(&self.state, text);
        self.says(words)
    }

    /// Words to be overwritten. The words of a statement are its own.
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

    /// Makes the words of this statement those of the request. They are read once.
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

    /// Clears the words: the request runs no counted statement.
    pub(super) fn says_nothing(&mut self) {
        match Rc::get_mut(&mut self.words) {
            Some(words) => words.text.clear(),
            None => self.words = self.service.no_words.clone(),
        }
    }
}
