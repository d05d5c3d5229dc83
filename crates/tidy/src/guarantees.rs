//! The guarantee matrix promises nothing without a test: each claim names one, and the test exists.
//!
//! A claim is a table row of docs/reference/guarantee-matrix.md, numbered `G3.12` in its first cell. Its group `G3` is a
//! heading of GUARANTEES.md. The last cell names tests between backticks: `crate::function`, or the path of a script
//! (`crates/order/tests/scripts/doubt`). A row `O.4` describes a case outside the promise and needs no test.

use std::collections::BTreeSet;

use crate::dependencies::{cells, ticked};
use crate::tree::{Broken, Tree};

const DOCUMENT: &str = "GUARANTEES.md";
const MATRIX: &str = "docs/reference/guarantee-matrix.md";

/// First part of the numbers of rows about cases outside the promise.
const OUTSIDE: &str = "O";

/// Each claim of the matrix has a number of its own, stands in its group, and names only tests that exist.
pub fn tests_exist(tree: &Tree) -> Vec<Broken> {
    let (Some(document), Some(matrix)) = (tree.get(DOCUMENT), tree.get(MATRIX)) else {
        let missing = if tree.has(DOCUMENT) { MATRIX } else { DOCUMENT };
        return vec![Broken::new(missing, 0, "the guarantees are missing")];
    };
    let groups: BTreeSet<&str> = document.lines().filter_map(heading_group).collect();
    let claims = claims(matrix);
    let mut broken = claims_without_group(&claims, &groups);
    broken.extend(groups_without_claim(&claims, &groups));
    broken.extend(repeated_numbers(&claims));
    for claim in claims.iter().filter(|claim| claim.group() != Some(OUTSIDE)) {
        broken.extend(missing_tests(tree, claim));
    }
    broken
}

/// One table row of the matrix.
struct Claim<'a> {
    /// Line of the matrix, from 1.
    line: usize,
    /// First cell: `G3.12`, or `O.4`.
    number: &'a str,
    /// Last cell, with the names of the tests.
    tests: &'a str,
    /// Group of the heading above the row; nothing if that heading names none.
    section: Option<&'a str>,
}

impl<'a> Claim<'a> {
    /// Part of the number before the dot; nothing if the number is malformed.
    fn group(&self) -> Option<&'a str> {
        let (group, position) = self.number.split_once('.')?;
        (is_group(group) && is_number(position)).then_some(group)
    }
}

/// Rows of all tables of the matrix, without their heads.
fn claims(matrix: &str) -> Vec<Claim<'_>> {
    let lines: Vec<&str> = matrix.lines().collect();
    let mut section = None;
    let mut claims = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("## ") {
            section = heading_group(line);
        }
        if line.starts_with('|') && !is_head(&lines, at) {
            let cells = cells(line);
            let (number, tests) = (cells.first().copied(), cells.last().copied());
            let (number, tests) = (number.unwrap_or_default(), tests.unwrap_or_default());
            claims.push(Claim { line: at + 1, number, tests, section });
        }
    }
    claims
}

/// The group that a heading `## G3. Title` or `## Outside the promise` opens.
fn heading_group(line: &str) -> Option<&str> {
    let title = line.strip_prefix("## ")?;
    if title.starts_with("Outside the promise") {
        return Some(OUTSIDE);
    }
    title.split_once('.').map(|(group, _)| group).filter(|group| is_group(group))
}

/// True for `G` with a number, and for the group of cases outside the promise.
fn is_group(group: &str) -> bool {
    group == OUTSIDE || group.strip_prefix('G').is_some_and(is_number)
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Rows whose number is malformed, or whose group is not that of their section or none of GUARANTEES.md.
fn claims_without_group(claims: &[Claim<'_>], groups: &BTreeSet<&str>) -> Vec<Broken> {
    let why = |claim: &Claim<'_>| match claim.group() {
        None => Some(format!("{}: the first cell is no number like G3.12", claim.number)),
        group if group != claim.section => {
            Some(format!("{}: the row stands in another section", claim.number))
        }
        Some(group) if !groups.contains(group) => Some(format!("{group}: {DOCUMENT} has no such heading")),
        Some(_) => None,
    };
    let broken = |claim| why(claim).map(|why| Broken::new(MATRIX, claim.line, why));
    claims.iter().filter_map(broken).collect()
}

/// Headings of GUARANTEES.md without a row in the matrix.
fn groups_without_claim(claims: &[Claim<'_>], groups: &BTreeSet<&str>) -> Vec<Broken> {
    let claimed: BTreeSet<&str> = claims.iter().filter_map(Claim::group).collect();
    let broken = |group| Broken::new(DOCUMENT, 0, format!("{group}: {MATRIX} has no row of this group"));
    groups.difference(&claimed).map(broken).collect()
}

/// Rows whose number another row above them has.
fn repeated_numbers(claims: &[Claim<'_>]) -> Vec<Broken> {
    let mut numbers = BTreeSet::new();
    let repeated = claims.iter().filter(|claim| !numbers.insert(claim.number));
    repeated
        .map(|claim| Broken::new(MATRIX, claim.line, format!("{}: repeated number", claim.number)))
        .collect()
}

/// Tests that a claim names and that do not exist; the claim itself if it names none.
fn missing_tests(tree: &Tree, claim: &Claim<'_>) -> Vec<Broken> {
    let tests = ticked(claim.tests);
    if tests.is_empty() {
        return vec![Broken::new(MATRIX, claim.line, "no test is named in the last cell")];
    }
    let missing = tests.iter().filter(|test| !exists(tree, test));
    missing.map(|test| Broken::new(MATRIX, claim.line, format!("{test}: no such test"))).collect()
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

/// True if the text declares this function after a `#[test]` of some kind.
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
    const HEADINGS: &str = "# Guarantees\n\n## G1. Linearizable reads\n\n## Outside the promise\n";
    const RIGHT: &str = "G1.1 | `node::it_holds`, `crates/order/tests/scripts/doubt`";

    /// A tree whose matrix has these rows: number and tests in the section of G1, then one row outside the promise.
    fn matrix(rows: &[&str]) -> Tree {
        let mut text =
            "# Matrix\n\n## G1. Linearizable reads\n\n| no. | claim | tests |\n|---|---|---|\n".to_owned();
        for row in rows {
            let (number, tests) = row.split_once(" | ").expect("a number and tests");
            text += &format!("| {number} | reads are fresh | {tests} |\n");
        }
        text +=
            "\n## Outside the promise: rare cases\n\n| no. | case |\n|---|---|\n| O.1 | a stopped clock |\n";
        Tree::of([("crates/node/tests/it/a.rs", CODE), ("crates/order/tests/scripts/doubt", "")])
            .with(DOCUMENT, HEADINGS)
            .with(MATRIX, &text)
    }

    #[test]
    fn claim_names_tests_that_exist() {
        assert_eq!(tests_exist(&matrix(&[RIGHT])), []);
        for wrong in
            ["", "`node::gone`", "`node::no_test`", "`order::it_holds`", "`crates/order/tests/scripts/x`"]
        {
            let found = tests_exist(&matrix(&[&format!("G1.1 | {wrong}")]));
            assert_eq!(found.len(), 1, "{wrong}");
            assert_eq!((found[0].path.as_str(), found[0].line), (MATRIX, 7), "{wrong}");
        }
    }

    #[test]
    fn claim_number_is_unique_and_of_its_section() {
        for wrong in ["G1.1", "G1", "1.2", "G1.x", "G2.1", "O.2"] {
            let row = format!("{wrong} | `node::it_holds`");
            assert_eq!(tests_exist(&matrix(&[RIGHT, &row])).len(), 1, "{wrong}");
        }
        assert_eq!(tests_exist(&matrix(&[RIGHT, "G1.2 | `node::it_holds`"])), []);
    }

    #[test]
    fn claim_group_is_a_heading_of_the_guarantees() {
        let found =
            tests_exist(&matrix(&[RIGHT]).with(DOCUMENT, "## G2. Levels\n\n## Outside the promise\n"));
        let found: Vec<_> = found.iter().map(|broken| (broken.path.as_str(), broken.line)).collect();
        assert_eq!(found, [(MATRIX, 7), (DOCUMENT, 0)]);
    }

    #[test]
    fn documents_missing_are_reported() {
        let only = |path: &str| Tree::of([(path, HEADINGS)]);
        for (there, missing) in [(DOCUMENT, MATRIX), (MATRIX, DOCUMENT)] {
            let found = tests_exist(&only(there));
            assert_eq!(found.iter().map(|broken| broken.path.as_str()).collect::<Vec<_>>(), [missing]);
        }
    }
}
