//! Lines of `pg_hba.conf` and `pg_ident.conf` as fields of words, exactly as PostgreSQL cuts them (its
//! `hba.c`): words part at blanks, a comma joins words to one field, `"` quotes, `#` begins a comment, a
//! backslash at the end of a line joins the next one, `@file` stands for the words of a file, `include`,
//! `include_if_exists` and `include_dir` for the lines of files.

use crate::Mistake;
use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Files name other files no deeper than this (PostgreSQL's `CONF_FILE_MAX_DEPTH`).
const MAX_DEPTH: usize = 10;

/// A word. In quotes it is a name and never a keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) quoted: bool,
}

impl Token {
    /// Returns true if the token is this keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }
}

/// A line that is neither empty nor a comment.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) file: String,
    /// Number of its first line, from 1.
    pub(super) number: usize,
    /// Fields of the line: never empty, and no field is.
    pub(super) fields: VecDeque<Vec<Token>>,
}

impl Line {
    pub(super) fn mistake(&self, message: String) -> Mistake {
        Mistake { file: self.file.clone(), line: self.number, key: String::new(), message }
    }

    /// The next field, which must be there and a single word.
    pub(super) fn word(&mut self, what: &str) -> Result<Token, String> {
        let field =
            self.fields.pop_front().ok_or_else(|| format!("end-of-line before {what} specification"))?;
        match <[Token; 1]>::try_from(field) {
            Ok([token]) => Ok(token),
            Err(_) => Err(format!("multiple values specified for {what}")),
        }
    }
}

/// All lines of a file and of those that it includes, in their order, and every mistake in cutting them.
pub(super) fn lines(path: &Path) -> (Vec<Line>, Vec<Mistake>) {
    match fs::read_to_string(path) {
        Ok(text) => lines_of(&text, path),
        Err(error) => {
            let (file, message) = (path.display().to_string(), error.to_string());
            (Vec::new(), vec![Mistake { file, line: 0, key: String::new(), message }])
        }
    }
}

/// Lines of a file with this text, and every mistake in cutting them.
pub(super) fn lines_of(text: &str, path: &Path) -> (Vec<Line>, Vec<Mistake>) {
    let mut reading = Reading::default();
    reading.file(path, text, 0);
    (reading.lines, reading.mistakes)
}

#[derive(Default)]
struct Reading {
    lines: Vec<Line>,
    mistakes: Vec<Mistake>,
}

impl Reading {
    fn file(&mut self, path: &Path, text: &str, depth: usize) {
        for (number, text) in whole_lines(text) {
            let mut line = Line { file: path.display().to_string(), number, fields: VecDeque::new() };
            let cut = fields(&text, path, depth).and_then(|fields| {
                line.fields = fields;
                included(&line, path, depth)
            });
            match cut {
                Err(why) => self.mistakes.push(line.mistake(why)),
                Ok(Some(files)) => files.iter().for_each(|(path, text)| self.file(path, text, depth + 1)),
                Ok(None) if line.fields.is_empty() => {}
                Ok(None) => self.lines.push(line),
            }
        }
    }
}

/// Lines with their numbers; one that ends in a backslash goes on in the next.
fn whole_lines(text: &str) -> Vec<(usize, String)> {
    let mut whole: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        let (line, next) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
        match whole.last_mut().filter(|_| goes_on) {
            Some((_, begun)) => begun.push_str(line),
            None => whole.push((at + 1, line.to_owned())),
        }
        goes_on = next;
    }
    whole
}

/// The fields of a line.
fn fields(mut text: &str, path: &Path, depth: usize) -> Result<VecDeque<Vec<Token>>, String> {
    let mut fields = VecDeque::new();
    while let Some(field) = field(&mut text, path, depth)? {
        // A file without words leaves a field without any, which PostgreSQL does not take either.
        if field.is_empty() {
            return Err("empty field".to_owned());
        }
        fields.push_back(field);
    }
    Ok(fields)
}

/// Words up to one that no comma follows. `None`: the line is at its end.
fn field(text: &mut &str, path: &Path, depth: usize) -> Result<Option<Vec<Token>>, String> {
    let mut field: Option<Vec<Token>> = None;
    while let Some((token, comma)) = token(text) {
        let words = field.get_or_insert_default();
        match token.text.strip_prefix('@').filter(|name| !token.quoted && !name.is_empty()) {
            Some(name) => words.extend(words_of(&beside(path, name), depth + 1)?),
            None => words.push(token),
        }
        if !comma {
            break;
        }
    }
    Ok(field)
}

/// Every word of a file.
fn words_of(path: &Path, depth: usize) -> Result<Vec<Token>, String> {
    let text = read(path, depth)?;
    let mut words = Vec::new();
    for (_, line) in whole_lines(&text) {
        words.extend(fields(&line, path, depth)?.into_iter().flatten());
    }
    Ok(words)
}

/// The files that a line includes, if it is such a line.
fn included(line: &Line, path: &Path, depth: usize) -> Result<Option<Vec<(PathBuf, String)>>, String> {
    let [first, second] = [0, 1].map(|at| line.fields.get(at).and_then(|field| field.first()));
    let (Some(first), Some(second), 2) = (first, second, line.fields.len()) else { return Ok(None) };
    let named = beside(path, &second.text);
    let files = match first.text.as_str() {
        "include" => vec![named],
        "include_if_exists" => match fs::metadata(&named) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            _ => vec![named],
        },
        "include_dir" => in_folder(&named)?,
        _ => return Ok(None),
    };
    let read = |file: PathBuf| read(&file, depth + 1).map(|text| (file, text));
    files.into_iter().map(read).collect::<Result<_, _>>().map(Some)
}

/// The files `*.conf` of a folder by name, but for hidden ones.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let named = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(named)? {
        let path = entry.map_err(named)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.ends_with(".conf") || name.starts_with('.') {
            continue;
        }
        let what = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if !what.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path, depth: usize) -> Result<String, String> {
    if depth > MAX_DEPTH {
        return Err(format!("{}: included files are nested more than {MAX_DEPTH} deep", path.display()));
    }
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file that another one names: from that one's folder on.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(name)
}

/// The next word, and whether a comma follows it.
fn token(rest: &mut &str) -> Option<(Token, bool)> {
    *rest = rest.trim_start_matches(|c| is_blank(c) || c == ',');
    let mut token = Token { text: String::new(), quoted: false };
    let (mut in_quotes, mut saw_quote, mut was_quote, mut comma) = (false, false, false, false);
    let mut end = rest.len();
    for (at, c) in rest.char_indices() {
        if !in_quotes && (is_blank(c) || matches!(c, '#' | ',')) {
            comma = c == ',';
            // A comment is only the end of the line.
            end = if c == '#' { rest.len() } else { at };
            break;
        }
        // Two quotes inside quotes are one.
        if c != '"' || was_quote {
            token.text.push(c);
        }
        was_quote = in_quotes && c == '"' && !was_quote;
        if c == '"' {
            (in_quotes, saw_quote) = (!in_quotes, true);
            token.quoted |= token.text.is_empty();
        }
    }
    *rest = &rest[end..];
    (saw_quote || !token.text.is_empty()).then_some((token, comma))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<Vec<String>> {
        let word = |token: Token| if token.quoted { format!("\"{}\"", token.text) } else { token.text };
        let fields = fields(text, Path::new("none"), 0).unwrap();
        fields.into_iter().map(|field| field.into_iter().map(word).collect()).collect()
    }

    #[test]
    fn words_part_as_postgresql_parts_them() {
        assert_eq!(cut("host all,a , b\tc#d"), [vec!["host"], vec!["all", "a"], vec!["b"], vec!["c"]]);
        assert_eq!(cut("\"a b\",\"c,\"\"d\" e\"f g\"h"), [vec!["\"a b\"", "\"c,\"d\""], vec!["ef gh"]]);
        assert_eq!(cut("\"\" x # \"y\""), [["\"\""], ["x"]]);
        assert_eq!(cut(" , # nothing"), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_backslash_joins_lines_and_the_first_number_counts() {
        let joined = [(1, "a b".to_owned()), (3, "c".to_owned()), (4, "d".to_owned())];
        assert_eq!(whole_lines("a \\\nb\r\nc\nd\\"), joined);
    }
}
