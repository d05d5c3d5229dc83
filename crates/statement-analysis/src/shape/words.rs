//! The few words that change what a number after them means, and the words inside a string that mean the clock.

/// A word, as far as the lexer cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// `BY`: numbers in the list after it are places in the target list.
    By,
    /// `DISTINCT`, after which `ON (..)` is such a list too.
    Distinct,
    On,
    /// `AS`: a type may follow, as in `CAST(x AS numeric(10, 2))`.
    As,
    /// A type's word, after which parentheses hold a type modifier.
    Type,
    /// A word that ends the list of a `BY`.
    EndsList,
    Other,
}

/// The class of a word, in any case.
pub(super) fn class(word: &[u8]) -> Word {
    let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
    let any = |others: &[&str]| others.iter().any(|other| is(other));
    match word.len() {
        2 if is("by") => Word::By,
        2 if is("on") => Word::On,
        2 if is("as") => Word::As,
        3 if any(&["for"]) => Word::EndsList,
        3 if any(&["dec", "bit"]) => Word::Type,
        4 if any(&["from"]) => Word::EndsList,
        4 if any(&["char", "time"]) => Word::Type,
        5 if any(&["limit", "where", "fetch", "union"]) => Word::EndsList,
        5 if any(&["float", "nchar"]) => Word::Type,
        6 if any(&["select", "having", "offset", "except", "values", "window"]) => Word::EndsList,
        7 if any(&["numeric", "decimal", "varchar", "varying"]) => Word::Type,
        8 if is("distinct") => Word::Distinct,
        8 if is("interval") => Word::Type,
        9 if is("intersect") => Word::EndsList,
        9 if any(&["character", "timestamp"]) => Word::Type,
        _ => Word::Other,
    }
}

/// True if a statement that begins with this word is judged by its query tree.
pub(super) fn has_tree(word: &[u8]) -> bool {
    let any = |others: &[&str]| others.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()));
    match word.len() {
        4 => any(&["with"]),
        5 => any(&["merge", "table"]),
        6 => any(&["select", "insert", "update", "delete", "values"]),
        _ => false,
    }
}

/// True if a statement that begins with this word begins a block.
pub(super) fn begins_block(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"begin") || word.eq_ignore_ascii_case(b"start")
}

/// True if a string holds a word that PostgreSQL's date and time input reads from the clock: `now`, `today`,
/// `tomorrow`, `yesterday`, alone or inside something longer (`today 12:00`, `{now,today}`), in any case. A
/// word is a run of letters; a backslash and the character after it count as none.
pub fn tells_the_clock(string: &[u8]) -> bool {
    let mut at = 0;
    while at < string.len() {
        let from = at;
        while string.get(at).is_some_and(u8::is_ascii_alphabetic) {
            at += 1;
        }
        let word = &string[from..at];
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        match word.len() {
            3 if is("now") => return true,
            5 if is("today") => return true,
            8 if is("tomorrow") => return true,
            9 if is("yesterday") => return true,
            _ => {}
        }
        at += if string.get(at) == Some(&b'\\') { 2 } else { 1 };
    }
    false
}
