//! Every fenced command of the README, run as it is written, in a folder of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::fixture::{CONSORT, run, up_folder};

/// Commands that continuous integration runs itself.
const RUN_ELSEWHERE: &[&str] = &["make demo", "make test"];

#[test]
fn every_command_of_the_readme_runs() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = fs::read_to_string(readme).expect("the README is there");
    let commands = tidy::documents::fenced(&text, "sh");
    assert!(!commands.is_empty());
    let home = up_folder();
    let program = Path::new(CONSORT).parent().expect("a program lies in a folder");
    let path = std::env::join_paths(
        std::iter::once(program.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .expect("no folder has a colon in its name");
    for (line, command) in commands.into_iter().filter(|(_, command)| !RUN_ELSEWHERE.contains(command)) {
        // The same words, but in a folder and at a port that belong to this test.
        let command = command
            .replace(
                "consort up",
                &format!("consort up --dir {} --listen 127.0.0.1:{}", home.path().display(), home.port),
            )
            .replace("consort status", &format!("consort status --dir {}", home.path().display()))
            .replace("consort psql", &format!("consort psql --dir {}", home.path().display()))
            .replace("consort down", &format!("consort down --dir {}", home.path().display()))
            .replace("127.0.0.1:6432", &format!("127.0.0.1:{}", home.port));
        let done = run(Command::new("sh").args(["-c", &command]).env("PATH", &path));
        assert!(done.status.success(), "README.md:{line}: {command}: {done:?}");
    }
}
