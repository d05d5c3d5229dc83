//! A statement's shape: its text with the literals taken out, by the rules of PostgreSQL's own scanner
//! (`scan.l`), in one pass and without allocation. Two statements of one shape have one parse tree but for
//! the values of their literals, so facts about one of them hold for all. A text that the lexer is not sure
//! of has no shape: such a statement is never analysed and runs at the primary.
//!
//! The shape does not know tables or parameters; the meaning of a literal is the judge's business.

mod lexer;
mod words;

use crate::declared_tables::Declaration;
use history::Consistency;
use std::ops::Range;
pub use words::tells_the_clock;

/// Texts longer than this have no shape.
pub const MAX_TEXT: usize = 16 * 1024;
/// Texts longer than this are not even looked through for a second statement.
pub const MAX_LOOK: usize = 1024 * 1024;
/// Statements with more literals than this have no shape.
pub const MAX_LITERALS: usize = 1024;

/// Meaning of a backslash in a plain string literal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strings {
    /// Itself: `standard_conforming_strings` is on.
    #[default]
    Standard,
    /// An escape, as in `E''`: `standard_conforming_strings` is off.
    Escaping,
}

/// Class of a literal. PostgreSQL gives an integer its type by its magnitude, and the types decide which
/// operators and functions a statement uses: so the magnitude is part of the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// An integer up to 2^31 - 1: `int4`, with or without a minus before it.
    Int4,
    /// Exactly 2^31: `int4` after a minus, else `int8`.
    Int4Edge,
    /// A larger integer up to 2^63 - 1: `int8`.
    Int8,
    /// Exactly 2^63: `int8` after a minus, else `numeric`.
    Int8Edge,
    /// A larger integer, or a number with a point or an exponent: `numeric`.
    Numeric,
    /// `'..'` under [`Strings::Standard`].
    String,
    /// `E'..'`, or `'..'` under [`Strings::Escaping`].
    Escaped,
    /// `$tag$..$tag$`.
    Dollar,
    /// `B'..'` or `X'..'`.
    Bits,
}

impl Class {
    /// The byte that stands for a literal of this class in a key.
    fn mark(self) -> u8 {
        match self {
            Class::Int4 => b'i',
            Class::Int4Edge => b'j',
            Class::Int8 => b'l',
            Class::Int8Edge => b'm',
            Class::Numeric => b'n',
            Class::String => b's',
            Class::Escaped => b'e',
            Class::Dollar => b'd',
            Class::Bits => b'b',
        }
    }
}

/// A literal that was taken out: the bytes of the text that it stands in, quotes included, a minus before it not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
    /// Class of the literal.
    pub class: Class,
}

impl Literal {
    /// Its place in the text.
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Why a text has no shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unsure {
    /// Longer than [`MAX_TEXT`].
    TooLong,
    /// More than [`MAX_LITERALS`] literals.
    TooManyLiterals,
    /// A quote or a comment that does not end.
    Unterminated,
    /// `N'..'`, whose type is another one.
    NationalString,
    /// `U&'..'` or `U&".."`.
    UnicodeString,
    /// An escape that makes letters: `\x41`, `\u0041`, `\101`, `\o`.
    Escape,
    /// `'a'`, a line break, `'b'`: one literal in two pieces.
    Continuation,
    /// A number that versions of PostgreSQL read differently: `0x1F`, `1_000`, `1..2`, `1.5e`, `12ab`.
    Number,
    /// A byte that begins nothing.
    Junk,
}

impl Unsure {
    /// Every reason.
    pub const ALL: [Unsure; 9] = [
        Unsure::TooLong,
        Unsure::TooManyLiterals,
        Unsure::Unterminated,
        Unsure::NationalString,
        Unsure::UnicodeString,
        Unsure::Escape,
        Unsure::Continuation,
        Unsure::Number,
        Unsure::Junk,
    ];

    /// Its name in metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Unsure::TooLong => "text_too_long",
            Unsure::TooManyLiterals => "too_many_literals",
            Unsure::Unterminated => "unterminated",
            Unsure::NationalString => "national_string",
            Unsure::UnicodeString => "unicode_string",
            Unsure::Escape => "string_escape",
            Unsure::Continuation => "string_continuation",
            Unsure::Number => "number_syntax",
            Unsure::Junk => "junk",
        }
    }
}

/// Source of a statement's footprint, by its first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// None needed: nothing but blanks, comments and semicolons.
    #[default]
    Empty,
    /// Its query tree: SELECT, INSERT, UPDATE, DELETE, MERGE, WITH, VALUES, TABLE, or an opening parenthesis.
    Tree,
    /// PostgreSQL's grammar: it has no query tree.
    Utility,
}

/// Request of a comment before the first word, or in a BEGIN: `/* consort: primary */ SELECT ..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// This consistency, for this statement.
    Level(Consistency),
    /// [Declares](Shape::declaration) tables.
    Declares,
    /// Something that Consort does not know. The statement runs at the primary.
    Unknown,
}

/// The shape of one text. Made to be used again: reading the next text frees nothing and, once warm, allocates nothing.
///
/// Invariants: literals ascend and do not overlap; each stands for one place in the key; without sureness there is no key
/// and there are no literals.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    key: Vec<u8>,
    hash: u64,
    literals: Vec<Literal>,
    unsure: Option<Unsure>,
    verb: Verb,
    several: bool,
    hint: Option<Hint>,
    /// The place of what the hint says.
    said: Range<usize>,
    /// The place after the first statement.
    end: usize,
}

impl Shape {
    /// The shape of the empty text.
    pub fn new() -> Shape {
        Shape::default()
    }

    /// The shape of this text.
    pub fn of(text: &str, strings: Strings) -> Shape {
        let mut shape = Shape::new();
        shape.read(text, strings);
        shape
    }

    /// Becomes the shape of this text.
    pub fn read(&mut self, text: &str, strings: Strings) {
        self.key.clear();
        self.literals.clear();
        let read = lexer::read(text.as_bytes(), strings, &mut self.key, &mut self.literals);
        self.verb = read.verb;
        self.several = read.several;
        (self.hint, self.said, self.end) = (read.hint, read.said, read.end);
        self.unsure = read.unsure;
        if self.unsure.is_some() {
            self.key.clear();
            self.literals.clear();
        }
        self.hash = hash(&self.key);
    }

    /// Returns an error with the reason if the text has no shape.
    pub fn sure(&self) -> Result<(), Unsure> {
        self.unsure.map_or(Ok(()), Err)
    }

    /// The text without its literals: two texts with one key have one parse tree but for the literals' values.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// A fixed hash of the key: the same in every process.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Source of the statement's footprint.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// True if something may follow a semicolon. Also true for one statement that has semicolons inside, such
    /// as a function with an SQL body, and if the lexer is not sure.
    pub fn several(&self) -> bool {
        self.several
    }

    /// The place after the first statement, the only one whose literals are taken out: after its semicolon,
    /// or the end of the text.
    pub fn end(&self) -> usize {
        self.end
    }

    /// The literals that were taken out.
    pub fn literals(&self) -> &[Literal] {
        &self.literals
    }

    /// The places of the literals.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.literals.iter().map(Literal::range).collect()
    }

    /// The literals as they stand in `text`, which must be the text that was read. Earlier content of `into`
    /// is dropped.
    pub fn texts<'t>(&self, text: &'t str, into: &mut Vec<&'t str>) {
        into.clear();
        into.extend(self.literals.iter().map(|literal| &text[literal.range()]));
    }

    /// Request of a comment before the first word, or in a BEGIN.
    pub fn hint(&self) -> Option<Hint> {
        self.hint
    }

    /// Text of the hint, in the words of `text`, which must be the text that was read.
    pub fn said<'t>(&self, text: &'t str) -> &'t str {
        text[self.said.clone()].trim()
    }

    /// The tables that a comment of `text`, which must be the text that was read, declares.
    pub fn declaration(&self, text: &str) -> Option<Declaration> {
        Declaration::of(self.said(text)).filter(|_| self.hint == Some(Hint::Declares))
    }
}

/// A fixed hash, eight bytes at a time: folded multiplication as in wyhash (Wang Yi, 2019). The hash spreads
/// keys over a table; equality always compares the bytes themselves.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        state = fold(state ^ word, 0xA076_1D64_78BD_642F);
    }
    let rest = chunks.remainder().iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    fold(state ^ rest, 0xE703_7ED1_A0B4_28DB)
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64 ^ a.rotate_left(23)
}

#[cfg(test)]
mod tests;
