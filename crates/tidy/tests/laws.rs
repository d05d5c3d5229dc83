//! The laws, on this repository.

use std::path::Path;
use std::process::Command;

use tidy::{LAWS, Tree, licences};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .and_then(Path::parent)
        .expect("the crate lies two folders deep")
}

/// All laws in one test, so that one run names every place that breaks one.
#[test]
fn the_laws_hold() {
    let tree = Tree::read(root()).expect("the repository can be read");
    let mut report = String::new();
    for (name, law) in LAWS {
        for broken in law(&tree) {
            report += &format!("{name}: {broken}\n");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// The commit after which subjects have a scope and at most 72 characters.
const SHORT_SUBJECTS_SINCE: &str = "33f26a0478122c51e5c0fbe44015aaa3ddee7d81";

/// A tree without its history, such as an archive, has no subjects.
#[test]
fn subjects_of_commits_are_short() {
    let range = format!("{SHORT_SUBJECTS_SINCE}..HEAD");
    let answer = Command::new("git")
        .args(["log", "--no-merges", "--format=%s", &range])
        .current_dir(root())
        .output()
        .expect("git runs");
    let subjects = String::from_utf8_lossy(&answer.stdout);
    let wrong: Vec<&str> =
        subjects.lines().filter(|subject| subject.len() > 72 || !subject.contains(": ")).collect();
    assert!(wrong.is_empty(), "a subject is `scope: imperative`, in at most 72 characters: {wrong:#?}");
}

#[test]
fn licences_of_dependencies_are_accepted() {
    let answer = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let metadata = serde_json::from_slice(&answer.stdout).expect("cargo metadata answers in JSON");
    let refused = licences::refused(&metadata);
    assert!(refused.is_empty(), "{refused:#?}");
}
