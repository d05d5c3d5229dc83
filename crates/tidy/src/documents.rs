//! Documents are true: their links lead somewhere, and what the README tells one to type is run by a test.

use crate::tree::{Broken, Tree};

/// Commands of the README that the continuous integration runs by itself.
const RUN_ELSEWHERE: &[&str] = &["make demo", "make test"];

/// The test that reads the README's fenced commands and runs each.
const README_TEST: &str = "crates/consort/tests/it/readme.rs";

/// Relative links lead to a file of the tree and to a heading in it.
pub fn links(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (path, text) in tree.documents() {
        for (line, target) in link_targets(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { Some(path.to_owned()) } else { join(path, file) };
            let Some(file) = file.filter(|file| tree.has(file)) else {
                broken.push(Broken::new(path, line, format!("{target}: no such file")));
                continue;
            };
            if !heading.is_empty()
                && !headings(tree.get(&file).unwrap_or_default()).any(|slug| slug == heading)
            {
                broken.push(Broken::new(path, line, format!("{target}: no such heading")));
            }
        }
    }
    broken
}

/// A document that a comment or a message names exists.
pub fn cited(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    let sources = tree
        .files()
        .filter(|(path, _)| path.ends_with(".rs") || path.ends_with(".toml") || *path == "Makefile");
    for (path, text) in sources.filter(|(path, _)| !path.starts_with("crates/tidy/")) {
        for (at, line) in text.lines().enumerate() {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "._-/".contains(c)));
            for word in words
                .map(|word| word.trim_matches('.'))
                .filter(|word| word.ends_with(".md") && word.len() > 3)
            {
                let word = word.trim_start_matches("../").trim_start_matches('/').trim_start_matches("../");
                if !tree.files().any(|(file, _)| file == word || file.ends_with(&format!("/{word}"))) {
                    broken.push(Broken::new(path, at + 1, format!("{word}: no such document")));
                }
            }
        }
    }
    broken
}

/// Each fenced `sh` command of the README is run: by the README's test, or by the Makefile's own targets.
pub fn readme_commands(tree: &Tree) -> Vec<Broken> {
    let commands = fenced(tree.get("README.md").unwrap_or_default(), "sh");
    let others = commands.iter().filter(|(_, command)| !RUN_ELSEWHERE.contains(command));
    if tree.has(README_TEST) {
        return Vec::new();
    }
    others
        .map(|(line, _)| Broken::new("README.md", *line, format!("no test runs this ({README_TEST})")))
        .collect()
}

/// The lines of fenced blocks of one language: line (from 1) and command, comments and blank lines left out.
pub fn fenced<'a>(document: &'a str, language: &str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    let mut open: Option<bool> = None;
    for (at, line) in document.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(_), Some(_)) => open = None,
            (Some(tag), None) => open = Some(tag.trim() == language),
            (None, Some(true)) if !line.trim().is_empty() && !line.trim().starts_with('#') => {
                found.push((at + 1, line.trim()));
            }
            (None, _) => {}
        }
    }
    found
}

/// Targets of `[text](target)` outside of fenced blocks.
fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        }
        for (start, _) in line.match_indices("](").filter(|_| !inside) {
            let rest = &line[start + 2..];
            targets.extend(rest.find(')').map(|end| (at + 1, &rest[..end])));
        }
    }
    targets
}

/// The anchors of a document's headings: lower case, blanks as `-`, signs left out.
fn headings(document: &str) -> impl Iterator<Item = String> {
    let titles = document.lines().filter_map(|line| line.strip_prefix('#'));
    titles.map(|title| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>()
            .replace(' ', "-")
    })
}

/// A link's file, seen from the document that holds it; nothing if it leaves the tree.
fn join(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        let text = "# A title, here\n[a](b.md) [b](../README.md#a-title-here) [c](#a-title-here)\n";
        let tree = Tree::of([("docs/a.md", text), ("docs/b.md", ""), ("README.md", text)]);
        let found = links(&tree);
        assert_eq!(found.len(), 2, "{found:?}: from the root, b.md and ../README.md are wrong");
        assert!(found.iter().all(|broken| broken.path == "README.md"));
        assert_eq!(links(&Tree::of([("a.md", "[x](#nowhere)")])).len(), 1);
    }

    #[test]
    fn a_cited_document_exists() {
        let tree =
            Tree::of([("crates/x/src/a.rs", "// See docs/none.md and README.md.\n"), ("README.md", "")]);
        assert_eq!(cited(&tree).len(), 1);
    }

    #[test]
    fn commands_of_the_readme_are_run() {
        let text = "```sh\nmake demo\n# a comment\nconsort up\n```\n```text\nanything\n```\n";
        let tree = Tree::of([("README.md", text)]);
        assert_eq!(readme_commands(&tree).len(), 1);
        assert_eq!(fenced(text, "sh"), [(2, "make demo"), (4, "consort up")]);
        assert_eq!(readme_commands(&tree.with(README_TEST, "")), []);
    }
}
