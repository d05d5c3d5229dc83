//! How Rust files look: their first lines, their length, nothing left open, tests that wait for conditions.

use crate::tree::{Broken, Tree};

/// Lines that a file may have, tests apart.
pub const MAX_LINES: usize = 800;

/// What is written when something is not finished. Put together here, so that this file does not hold it.
const LEFT_OPEN: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("HA", "CK"),
];

/// Time passes only virtually here: to sleep costs nothing and is sure.
const VIRTUAL_TIME: &[&str] = &[
    "crates/sim/",
    "crates/virtual-time/",
    "crates/cells/tests/it/simulation/",
    "crates/cells/tests/it/halts.rs",
];

/// A line of a Rust file.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// The line without its comment.
    pub code: &'a str,
    /// The whole line.
    pub text: &'a str,
    /// It belongs to tests: a file below `tests/`, or a module behind `#[cfg(test)]`.
    pub test: bool,
}

/// The lines of a Rust file.
pub fn lines<'a>(path: &str, text: &'a str) -> Vec<Line<'a>> {
    let test_file = path.contains("/tests/") || path.ends_with("/tests.rs");
    let test_module = text.lines().position(|line| line == "#[cfg(test)]").unwrap_or(usize::MAX);
    let numbered = text.lines().enumerate();
    numbered
        .map(|(at, text)| Line {
            number: at + 1,
            code: code(text),
            text,
            test: test_file || at >= test_module,
        })
        .collect()
}

/// A line without its comment. A `//` inside a string stays when no blank stands before it.
fn code(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.find(" //").map_or(line, |at| &line[..at])
}

/// Each file of `src/` begins with what lives in it.
pub fn first_lines(tree: &Tree) -> Vec<Broken> {
    let sources = tree.rust().filter(|(path, _)| path.contains("/src/"));
    sources
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| Broken::new(path, 1, "the first lines (//!) say what lives here and why"))
        .collect()
}

/// A file has at most [`MAX_LINES`] lines, tests apart.
pub fn length(tree: &Tree) -> Vec<Broken> {
    let counted =
        tree.rust().map(|(path, text)| (path, lines(path, text).iter().filter(|line| !line.test).count()));
    counted
        .filter(|(_, count)| *count > MAX_LINES)
        .map(|(path, count)| {
            Broken::new(path, 0, format!("{count} lines; split it by what it does ({MAX_LINES})"))
        })
        .collect()
}

/// Nothing is half built.
pub fn left_open(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (path, text) in tree.rust() {
        for (at, line) in text.lines().enumerate() {
            if let Some(word) = LEFT_OPEN.iter().find(|word| has_word(line, word)) {
                broken.push(Broken::new(path, at + 1, format!("{word}: finish it, or leave it out")));
            }
        }
    }
    broken
}

/// Tests wait for conditions with a bound, never for a while; none is skipped.
pub fn tests_wait(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (path, text) in tree.rust() {
        for line in lines(path, text) {
            if line.code.contains(concat!("#[ign", "ore")) {
                broken.push(Broken::new(path, line.number, "a skipped test proves nothing"));
            }
            let sleeps = line.code.match_indices(concat!("sl", "eep(")).any(|(at, _)| {
                !line.code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
            });
            if line.test && sleeps && !VIRTUAL_TIME.iter().any(|place| path.starts_with(place)) {
                broken.push(Broken::new(path, line.number, "wait for the condition, with a bound"));
            }
        }
    }
    broken
}

/// An exception to a lint is an `expect` with its reason, outside tests.
pub fn exceptions(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (path, text) in tree.rust() {
        let all: Vec<_> = lines(path, text);
        for (at, line) in all.iter().enumerate().filter(|(_, line)| !line.test) {
            let code = line.code.trim_start();
            if code.starts_with("#[allow(") || code.starts_with("#![allow(") {
                broken.push(Broken::new(path, line.number, "use #[expect(.., reason = \"..\")]"));
            }
            let attribute = all[at..].iter().take(6).map(|line| line.code).collect::<String>();
            let until = attribute.find(")]").unwrap_or(attribute.len());
            if (code.starts_with("#[expect(") || code.starts_with("#![expect("))
                && !attribute[..until].contains("reason =")
            {
                broken.push(Broken::new(path, line.number, "say the reason of the exception"));
            }
        }
    }
    broken
}

/// True if `word` stands in the line and is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !inside(before) && (word.ends_with('(') || !inside(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Tree {
        Tree::of([("crates/x/src/a.rs", text)])
    }

    #[test]
    fn a_file_says_first_what_it_is() {
        assert_eq!(first_lines(&one("use a;\n")).len(), 1);
        assert_eq!(first_lines(&one("//! The a.\nuse a;\n")), []);
    }

    #[test]
    fn lines_of_tests_do_not_count() {
        let long = "x\n".repeat(MAX_LINES);
        assert_eq!(length(&one(&long)), []);
        assert_eq!(length(&one(&format!("{long}y\n"))).len(), 1);
        assert_eq!(length(&one(&format!("{long}#[cfg(test)]\nmod tests {{\n{long}}}\n"))), []);
    }

    #[test]
    fn nothing_is_left_open() {
        for word in LEFT_OPEN {
            assert_eq!(left_open(&one(&format!("fn f() {{ {word}) }}\n"))).len(), 1, "{word}");
        }
        assert_eq!(left_open(&one("const FFXXX: u8 = 1; // SQLSTATE 25XXXA\n")), []);
    }

    #[test]
    fn tests_neither_rest_nor_skip() {
        let rest = concat!("thread::sl", "eep(second);\n");
        assert_eq!(tests_wait(&one(rest)), [], "not a test");
        assert_eq!(tests_wait(&one(&format!("#[cfg(test)]\nmod tests {{ {rest} }}\n"))).len(), 1);
        assert_eq!(tests_wait(&Tree::of([("crates/x/tests/it/a.rs", rest)])).len(), 1);
        assert_eq!(
            tests_wait(&Tree::of([("crates/x/tests/a.rs", concat!("sql(\"select pg_sl", "eep(1)\")"))])),
            []
        );
        assert_eq!(tests_wait(&one(concat!("#[ign", "ore]\n"))).len(), 1);
    }

    #[test]
    fn exceptions_say_why() {
        assert_eq!(exceptions(&one("#[allow(dead_code)]\n")).len(), 1);
        assert_eq!(exceptions(&one("#[expect(dead_code)]\nfn f() {}\n")).len(), 1);
        assert_eq!(exceptions(&one("#[expect(\n  dead_code,\n  reason = \"kept\"\n)]\n")), []);
    }
}
