//! The lexer: PostgreSQL's `scan.l` (chapter 4.1 of its documentation), dense, for one purpose. The lexer
//! walks over a text once and copies it into a key with literals replaced by their class, blanks and comments
//! folded to one space.

use super::words::{self, Word};
use super::{Class, Hint, Literal, MAX_LITERALS, MAX_LOOK, MAX_TEXT, Strings, Unsure, Verb};
use crate::declared_tables::Declaration;
use history::Consistency;
use std::ops::Range;

/// Mark of a literal in a key, before its class. The byte cannot stand anywhere else in a key but inside
/// quotes.
const LITERAL: u8 = 1;
/// As [`LITERAL`], for one whose text is part of the key: the clock is meant.
const CLOCK: u8 = 2;

/// Result of a reading, besides the key and the literals.
pub(super) struct Read {
    pub(super) verb: Verb,
    pub(super) several: bool,
    pub(super) hint: Option<Hint>,
    /// The place of what the hint says.
    pub(super) said: Range<usize>,
    /// The place after the first statement: its semicolon, or the end of the text.
    pub(super) end: usize,
    pub(super) unsure: Option<Unsure>,
}

/// Reads a text. `key` and `literals` must be empty; they are filled, and mean nothing if the reader is unsure.
pub(super) fn read(text: &[u8], strings: Strings, key: &mut Vec<u8>, literals: &mut Vec<Literal>) -> Read {
    let mut lexer = Lexer {
        text,
        at: 0,
        copied: 0,
        strings,
        key,
        literals,
        found: Read {
            verb: Verb::Empty,
            several: false,
            hint: None,
            said: 0..0,
            end: text.len(),
            unsure: (text.len() > MAX_TEXT).then_some(Unsure::TooLong),
        },
        ended: false,
        begins_block: false,
        last: Last::Nothing,
        depth: 0,
        list: None,
        modifier: None,
    };
    let unsure = if text.len() > MAX_LOOK { Err(Unsure::TooLong) } else { lexer.run() }.err();
    let mut found = lexer.found;
    // A lexer that lost its way does not know what follows. A long text was looked through to its end.
    let lost = unsure.is_some();
    if lost && found.verb == Verb::Empty {
        found.verb = Verb::Utility;
    }
    found.several |= lost;
    found.unsure = unsure.or(found.unsure);
    found
}

/// The last token, as far as it matters for a number that follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    /// A word, or a quoted name.
    Word(Word),
    /// `::`: a type follows.
    Cast,
    /// A name that is, or may be, a type's.
    TypeName,
    /// The dot in a qualified name, and whether that may be a type's.
    Dot {
        of_type: bool,
    },
    /// A comma or an opening parenthesis.
    Separator,
    Other,
}

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    /// Up to here the text is in the key.
    copied: usize,
    strings: Strings,
    key: &'t mut Vec<u8>,
    literals: &'t mut Vec<Literal>,
    /// With a reason to be unsure there will be no key: from then on only the end of the first statement is looked for.
    found: Read,
    /// True if a semicolon has been seen after something.
    ended: bool,
    /// Its first word begins a block.
    begins_block: bool,
    last: Last,
    depth: u32,
    /// The parentheses' depth of a list after `BY` or `DISTINCT ON`, the outermost.
    list: Option<u32>,
    /// The depth inside the parentheses of a type modifier.
    modifier: Option<u32>,
}

#[derive(Clone, Copy)]
enum Byte {
    Blank,
    Letter,
    Digit,
    Dot,
    Quote,
    Name,
    Dollar,
    Operator,
    Open,
    Close,
    Comma,
    Semicolon,
    Colon,
    Bracket,
    Junk,
}

const BYTES: [Byte; 256] = {
    let mut bytes = [Byte::Junk; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => Byte::Blank,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xff => Byte::Letter,
            b'0'..=b'9' => Byte::Digit,
            b'.' => Byte::Dot,
            b'\'' => Byte::Quote,
            b'"' => Byte::Name,
            b'$' => Byte::Dollar,
            b'(' => Byte::Open,
            b')' => Byte::Close,
            b',' => Byte::Comma,
            b';' => Byte::Semicolon,
            b':' => Byte::Colon,
            b'[' | b']' => Byte::Bracket,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'+' | b'-' | b'*' | b'/'
            | b'%' | b'<' | b'>' | b'=' => Byte::Operator,
            _ => Byte::Junk,
        };
        byte += 1;
    }
    bytes
};

fn letter(byte: Option<&u8>) -> bool {
    byte.is_some_and(|&byte| matches!(BYTES[byte as usize], Byte::Letter))
}

fn digit(byte: Option<&u8>) -> bool {
    byte.is_some_and(u8::is_ascii_digit)
}

impl<'t> Lexer<'t> {
    fn run(&mut self) -> Result<(), Unsure> {
        while let Some(&byte) = self.text.get(self.at) {
            match BYTES[byte as usize] {
                Byte::Letter => self.word()?,
                Byte::Blank => self.blanks()?,
                Byte::Digit => self.number()?,
                Byte::Operator => self.operator(byte)?,
                Byte::Open | Byte::Close | Byte::Comma | Byte::Bracket | Byte::Colon => {
                    self.punctuation(byte)
                }
                Byte::Dot => self.dot()?,
                Byte::Quote => self.string(self.at, self.strings)?,
                Byte::Name => self.quoted_name()?,
                Byte::Dollar => self.dollar()?,
                Byte::Semicolon => self.semicolon(),
                Byte::Junk => return Err(Unsure::Junk),
            }
        }
        if !self.ended {
            self.flush(self.text.len());
            if self.key.last() == Some(&b' ') {
                self.key.pop();
            }
        }
        Ok(())
    }

    /// Copies the text up to `to` into the key.
    fn flush(&mut self, to: usize) {
        if self.found.unsure.is_none() && !self.ended {
            self.key.extend_from_slice(&self.text[self.copied..to]);
        }
        self.copied = to;
    }

    /// Leaves out the text up to the current place, and puts `byte` there instead.
    fn replace(&mut self, byte: u8) {
        self.copied = self.at;
        if self.found.unsure.is_none() && !self.ended {
            self.key.push(byte);
        }
    }

    /// A token of the statement begins: it has a verb, and if a semicolon came before there are several.
    fn begins(&mut self, verb: Verb) {
        if self.found.verb == Verb::Empty {
            self.found.verb = verb;
        }
        self.found.several |= self.ended;
    }

    /// Blanks and comments: one space in the key, none at its beginning.
    fn blanks(&mut self) -> Result<(), Unsure> {
        let from = self.at;
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0c) => self.at += 1,
                Some(b'-') if self.text.get(self.at + 1) == Some(&b'-') => self.line_comment(),
                Some(b'/') if self.text.get(self.at + 1) == Some(&b'*') => self.block_comment()?,
                _ => break,
            }
        }
        let one_space = self.at == from + 1 && self.text[from] == b' ';
        if !one_space || self.found.verb == Verb::Empty {
            self.flush(from);
            self.copied = self.at;
            if self.found.verb != Verb::Empty {
                self.replace(b' ');
            }
        }
        Ok(())
    }

    fn line_comment(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| !matches!(byte, b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn block_comment(&mut self) -> Result<(), Unsure> {
        let from = self.at + 2;
        let mut depth = 0u32;
        loop {
            match (self.text.get(self.at), self.text.get(self.at + 1)) {
                (Some(b'/'), Some(b'*')) => depth += 1,
                (Some(b'*'), Some(b'/')) => depth -= 1,
                (Some(_), Some(_)) => {
                    self.at += 1;
                    continue;
                }
                _ => return Err(Unsure::Unterminated),
            }
            self.at += 2;
            if depth == 0 {
                break;
            }
        }
        let heard = self.found.verb == Verb::Empty || self.begins_block && !self.ended;
        if heard
            && self.found.hint.is_none()
            && let Some((hint, word)) = hint(&self.text[from..self.at - 2])
        {
            self.found.hint = Some(hint);
            self.found.said = from + word..self.at - 2;
        }
        Ok(())
    }

    fn operator(&mut self, byte: u8) -> Result<(), Unsure> {
        let next = self.text.get(self.at + 1);
        if matches!((byte, next), (b'-', Some(b'-')) | (b'/', Some(b'*'))) {
            return self.blanks();
        }
        self.begins(Verb::Utility);
        self.at += 1;
        self.last = Last::Other;
        Ok(())
    }

    fn punctuation(&mut self, byte: u8) {
        self.begins(if byte == b'(' { Verb::Tree } else { Verb::Utility });
        self.at += 1;
        match byte {
            b'(' => {
                self.depth += 1;
                if self.modifier.is_none() && matches!(self.last, Last::TypeName | Last::Word(Word::Type)) {
                    self.modifier = Some(self.depth);
                }
                self.last = Last::Separator;
            }
            b')' => {
                self.depth = self.depth.saturating_sub(1);
                self.modifier = self.modifier.filter(|&depth| depth <= self.depth);
                self.list = self.list.filter(|&depth| depth <= self.depth);
                self.last = Last::Other;
            }
            b',' => self.last = Last::Separator,
            b':' if self.text.get(self.at) == Some(&b':') => {
                self.at += 1;
                self.last = Last::Cast;
            }
            _ => self.last = Last::Other,
        }
    }

    fn semicolon(&mut self) {
        if self.found.verb != Verb::Empty && !self.ended {
            self.flush(self.at);
            if self.key.last() == Some(&b' ') {
                self.key.pop();
            }
            (self.ended, self.found.end) = (true, self.at);
        }
        self.at += 1;
        self.copied = self.at;
        self.last = Last::Nothing;
    }

    fn dot(&mut self) -> Result<(), Unsure> {
        match self.text.get(self.at + 1) {
            Some(b'.') => Err(Unsure::Number),
            Some(b'0'..=b'9') => self.number(),
            _ => {
                self.begins(Verb::Utility);
                self.at += 1;
                self.last = Last::Dot { of_type: self.last == Last::TypeName };
                Ok(())
            }
        }
    }

    fn word(&mut self) -> Result<(), Unsure> {
        let from = self.at;
        while self
            .text
            .get(self.at)
            .is_some_and(|&byte| matches!(BYTES[byte as usize], Byte::Letter | Byte::Digit | Byte::Dollar))
        {
            self.at += 1;
        }
        let word = &self.text[from..self.at];
        if let [letter] = word
            && let Some(done) = self.prefixed(*letter, from)
        {
            return done;
        }
        if self.found.verb == Verb::Empty {
            self.begins_block = words::begins_block(word);
        }
        self.begins(if words::has_tree(word) { Verb::Tree } else { Verb::Utility });
        self.named(words::class(word));
        Ok(())
    }

    /// Reads a letter that may belong to the quote that follows.
    fn prefixed(&mut self, letter: u8, from: usize) -> Option<Result<(), Unsure>> {
        let quote = self.text.get(self.at) == Some(&b'\'');
        match letter | 0x20 {
            b'e' if quote => Some(self.string(from, Strings::Escaping)),
            b'b' | b'x' if quote => Some(self.bits(from)),
            b'n' if quote => Some(Err(Unsure::NationalString)),
            b'u' if matches!(self.text.get(self.at..self.at + 2), Some(b"&'" | b"&\"")) => {
                Some(Err(Unsure::UnicodeString))
            }
            _ => None,
        }
    }

    /// Reads the end of a name or a keyword: decides the meaning of numbers that follow.
    fn named(&mut self, word: Word) {
        self.last = match self.last {
            // The name of a type, or the next part of it: `::public.geometry(Point, 4326)`.
            Last::Cast | Last::Dot { of_type: true } | Last::Word(Word::As) => Last::TypeName,
            Last::Dot { of_type: false } => Last::Word(Word::Other),
            Last::Word(Word::Distinct) if word == Word::On => {
                self.list.get_or_insert(self.depth + 1);
                Last::Other
            }
            _ => Last::Word(word),
        };
        match self.last {
            Last::Word(Word::By) => _ = self.list.get_or_insert(self.depth),
            Last::Word(Word::EndsList) => self.list = self.list.filter(|&depth| depth < self.depth),
            _ => {}
        }
    }

    fn quoted_name(&mut self) -> Result<(), Unsure> {
        self.begins(Verb::Utility);
        self.at = self.past(self.at + 1, b'"').ok_or(Unsure::Unterminated)?;
        self.named(Word::Other);
        Ok(())
    }

    /// The place after the quote that closes what began before `from`. A doubled quote closes nothing.
    fn past(&self, mut from: usize, quote: u8) -> Option<usize> {
        loop {
            from += self.text.get(from..)?.iter().position(|&byte| byte == quote)? + 1;
            if self.text.get(from) != Some(&quote) {
                return Some(from);
            }
            from += 1;
        }
    }

    /// A string literal; `from` is its prefix or its quote, the current place its quote.
    fn string(&mut self, from: usize, strings: Strings) -> Result<(), Unsure> {
        let open = self.at;
        self.at = match strings {
            Strings::Standard => self.past(open + 1, b'\'').ok_or(Unsure::Unterminated)?,
            Strings::Escaping => self.past_escaped(open + 1)?,
        };
        let class = if strings == Strings::Standard { Class::String } else { Class::Escaped };
        let clock = words::tells_the_clock(&self.text[open + 1..self.at - 1]);
        self.literal(from, class, clock)?;
        self.not_continued()
    }

    fn past_escaped(&self, mut from: usize) -> Result<usize, Unsure> {
        loop {
            match (self.text.get(from), self.text.get(from + 1)) {
                (Some(b'\\'), Some(b'b' | b'f' | b'n' | b'r' | b't')) => from += 2,
                (Some(b'\\'), Some(byte)) if byte.is_ascii_alphanumeric() => return Err(Unsure::Escape),
                (Some(b'\\'), Some(_)) | (Some(b'\''), Some(b'\'')) => from += 2,
                (Some(b'\''), _) => return Ok(from + 1),
                (Some(_), Some(_)) => from += 1,
                _ => return Err(Unsure::Unterminated),
            }
        }
    }

    /// A bit string; a doubled quote inside it means nothing special.
    fn bits(&mut self, from: usize) -> Result<(), Unsure> {
        let mut body = self.text[self.at + 1..].iter();
        self.at += 2 + body.position(|&byte| byte == b'\'').ok_or(Unsure::Unterminated)?;
        self.literal(from, Class::Bits, false)?;
        self.not_continued()
    }

    /// Refuses a quote after blanks with a line break: it goes on with the literal before it.
    fn not_continued(&self) -> Result<(), Unsure> {
        let mut at = self.at;
        let mut line_break = false;
        loop {
            match self.text.get(at) {
                Some(b'\n' | b'\r') => line_break = true,
                Some(b' ' | b'\t' | 0x0c) => {}
                Some(b'-') if self.text.get(at + 1) == Some(&b'-') => {
                    while self.text.get(at).is_some_and(|byte| !matches!(byte, b'\n' | b'\r')) {
                        at += 1;
                    }
                    continue;
                }
                Some(b'\'') if line_break => return Err(Unsure::Continuation),
                _ => return Ok(()),
            }
            at += 1;
        }
    }

    /// A parameter, or a dollar-quoted string.
    fn dollar(&mut self) -> Result<(), Unsure> {
        let from = self.at;
        self.begins(Verb::Utility);
        self.at += 1;
        if digit(self.text.get(self.at)) {
            while digit(self.text.get(self.at)) {
                self.at += 1;
            }
            self.last = Last::Other;
            return if letter(self.text.get(self.at)) { Err(Unsure::Number) } else { Ok(()) };
        }
        while letter(self.text.get(self.at)) || (self.at > from + 1 && digit(self.text.get(self.at))) {
            self.at += 1;
        }
        if self.text.get(self.at) != Some(&b'$') {
            return Err(Unsure::Junk);
        }
        self.at += 1;
        let tag = &self.text[from..self.at];
        let body = self.at;
        while self.text.get(self.at..self.at + tag.len()).ok_or(Unsure::Unterminated)? != tag {
            self.at += 1;
        }
        let clock = words::tells_the_clock(&self.text[body..self.at]);
        self.at += tag.len();
        self.literal(from, Class::Dollar, clock)
    }

    fn number(&mut self) -> Result<(), Unsure> {
        let from = self.at;
        let digits = |lexer: &mut Lexer<'_>| {
            while digit(lexer.text.get(lexer.at)) {
                lexer.at += 1;
            }
        };
        digits(self);
        let mut class = magnitude(&self.text[from..self.at]);
        if self.text.get(self.at) == Some(&b'.') {
            class = Class::Numeric;
            self.at += 1;
            digits(self);
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            class = Class::Numeric;
            let signed = matches!(self.text.get(self.at + 1), Some(b'+' | b'-'));
            self.at += if signed { 2 } else { 1 };
            if !digit(self.text.get(self.at)) {
                return Err(Unsure::Number);
            }
            digits(self);
        }
        if letter(self.text.get(self.at)) || matches!(self.text.get(self.at), Some(b'.' | b'$')) {
            return Err(Unsure::Number);
        }
        let place = self.list.is_some() && matches!(self.last, Last::Word(Word::By) | Last::Separator);
        if self.modifier.is_some() || place {
            self.begins(Verb::Utility);
            self.last = Last::Other;
            return Ok(());
        }
        self.literal(from, class, false)
    }

    /// A literal from `from` to the current place is taken out. One that means the clock is listed, and stays in the key.
    fn literal(&mut self, from: usize, class: Class, clock: bool) -> Result<(), Unsure> {
        self.begins(Verb::Utility);
        self.last = Last::Other;
        if self.found.unsure.is_some() || self.ended {
            return Ok(());
        }
        if self.literals.len() == MAX_LITERALS {
            self.found.unsure = Some(Unsure::TooManyLiterals);
            return Ok(());
        }
        self.flush(from);
        self.literals.push(Literal { start: from as u32, end: self.at as u32, class });
        self.replace(if clock { CLOCK } else { LITERAL });
        self.key.push(class.mark());
        if clock {
            self.key.extend_from_slice(&((self.at - from) as u32).to_le_bytes());
            self.key.extend_from_slice(&self.text[from..self.at]);
        }
        Ok(())
    }
}

/// The type that PostgreSQL gives an integer literal.
fn magnitude(digits: &[u8]) -> Class {
    const EDGE4: u64 = 1 << 31;
    const EDGE8: u64 = 1 << 63;
    if digits.len() < 10 {
        return Class::Int4;
    }
    let value = digits
        .iter()
        .try_fold(0u64, |value, &digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    match value {
        Some(0..EDGE4) => Class::Int4,
        Some(EDGE4) => Class::Int4Edge,
        Some(value) if value < EDGE8 => Class::Int8,
        Some(EDGE8) => Class::Int8Edge,
        _ => Class::Numeric,
    }
}

/// The hint in a comment that speaks to Consort, and the place in the comment where the hint begins.
fn hint(comment: &[u8]) -> Option<(Hint, usize)> {
    const CALL: &str = "consort:";
    let comment = str::from_utf8(comment).ok()?;
    let trimmed = comment.trim_start();
    trimmed.get(..CALL.len()).filter(|word| word.eq_ignore_ascii_case(CALL))?;
    let begins = comment.len() - trimmed.len() + CALL.len();
    let said = comment[begins..].trim();
    let hint = match said.parse::<Consistency>() {
        Ok(level) => Hint::Level(level),
        Err(_) if Declaration::of(said).is_some() => Hint::Declares,
        Err(_) => Hint::Unknown,
    };
    Some((hint, begins))
}
