//! GUARANTEES.md promises nothing that no test shows: each row of its tables names one, and the test exists.
//!
//! A test is named `crate::function`, or by the path of its script (`crates/order/tests/scripts/doubt`), between backticks
//! in the row's last cell.

use crate::dependencies::{cells, ticked};
use crate::tree::{Broken, Tree};

const DOCUMENT: &str = "GUARANTEES.md";

/// Each row of a table names at least one test in its last cell, and every test that it names exists.
pub fn tests_exist(tree: &Tree) -> Vec<Broken> {
    let Some(document) = tree.get(DOCUMENT) else {
        return vec![Broken::new(DOCUMENT, 0, "the guarantees are gone")];
    };
    let lines: Vec<&str> = document.lines().collect();
    let mut broken = Vec::new();
    for (at, line) in
        lines.iter().enumerate().filter(|(at, line)| line.starts_with('|') && !is_head(&lines, *at))
    {
        let tests = ticked(cells(line).last().copied().unwrap_or_default());
        if tests.is_empty() {
            broken.push(Broken::new(DOCUMENT, at + 1, "no test is named in the last cell"));
        }
        broken.extend(
            tests
                .iter()
                .filter(|test| !exists(tree, test))
                .map(|test| Broken::new(DOCUMENT, at + 1, format!("{test}: no such test"))),
        );
    }
    broken
}

/// The head of a table and the dashes below it.
fn is_head(lines: &[&str], at: usize) -> bool {
    let dashes = |line: Option<&&str>| line.is_some_and(|line| line.starts_with("|-"));
    dashes(lines.get(at)) || dashes(lines.get(at + 1))
}

fn exists(tree: &Tree, test: &str) -> bool {
    let Some((name, function)) = test.split_once("::") else { return tree.has(test) };
    let folder = format!("crates/{name}/");
    let signature = format!("fn {}(", function.rsplit("::").next().unwrap_or(function));
    let sources = tree.rust().filter(|(path, _)| path.starts_with(&folder));
    sources.into_iter().any(|(_, text)| declares_test(text, &signature))
}

/// True if the text declares this function behind a `#[test]` of some kind.
fn declares_test(text: &str, signature: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().enumerate().filter(|(_, line)| line.contains(signature)).any(|(at, _)| {
        let attributes = lines[..at].iter().rev().take_while(|line| {
            let line = line.trim_start();
            line.starts_with('#') || line.starts_with("//")
        });
        attributes.into_iter().any(|line| line.contains("test]") || line.contains("test("))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str =
        "/// Why.\n#[tokio::test(flavor = \"current_thread\")]\nasync fn it_holds() {}\nfn no_test() {}\n";

    fn row(test: &str) -> Tree {
        let text = format!("| promise | test |\n|---|---|\n| reads are fresh | {test} |\n");
        Tree::of([("crates/node/tests/it/a.rs", CODE), ("crates/order/tests/scripts/doubt", "")])
            .with(DOCUMENT, &text)
    }

    #[test]
    fn a_row_names_a_test_that_exists() {
        assert_eq!(tests_exist(&row("`node::it_holds`, `crates/order/tests/scripts/doubt`")), []);
        for wrong in
            ["", "`node::gone`", "`node::no_test`", "`order::it_holds`", "`crates/order/tests/scripts/x`"]
        {
            assert_eq!(tests_exist(&row(wrong)).len(), 1, "{wrong}");
        }
    }
}
