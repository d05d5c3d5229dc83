//! Words that only some places may use: the papers' names in `design`, calls that listen or start tasks in
//! listed crates. Empty names stand in no place.

use crate::source::{Line, lines};
use crate::tree::{Broken, Tree};

/// Names of the designs that papers describe. Only `design` may know them in code; documents may speak of them.
const PAPERS: &[&str] = &["hihooi", "ganymed", "tashkent", "dmv", "ph1"];

/// What opens a listening socket, or starts a task or a thread.
const LISTENING: &[&str] = &[
    "TcpListener",
    "UnixListener",
    "tokio::spawn",
    "task::spawn",
    "spawn_local",
    "thread::spawn",
    "JoinSet",
];

/// Crates of the process that start tasks.
const OF_THE_PROCESS: &[&str] = &[
    "admin",
    "backend",
    "certified",
    "cluster",
    "conn",
    "disk-tier",
    "frontend",
    "kv-frontend",
    "memory-tier",
    "node",
    "session",
];
/// Those of them that open listening sockets.
const OPENS_SOCKETS: &[&str] = &["admin", "frontend", "kv-frontend", "memory-tier", "node"];

/// Who else may do either, and why.
const LISTENING_ELSEWHERE: &[(&str, &str)] = &[
    ("crates/load-clients/", "plays many clients at once"),
    ("crates/workloads/", "a program of its own, that plays many clients at once"),
    ("crates/postgres/src/address.rs", "drives one control connection, and ends with it"),
    ("crates/postgres/src/decoder/relay.rs", "carries one slot's encrypted stream, and ends with it"),
    ("crates/local-cluster/src/port.rs", "looks for a port that is free"),
    ("crates/experiments/src/acceptance/faults.rs", "makes faults, which take their time, while clients run"),
    (
        "crates/experiments/src/experiment/faults.rs",
        "kills a server, which takes its time, while clients run",
    ),
    ("crates/experiments/src/experiment/key_value/load.rs", "plays many clients at once"),
    ("crates/ledger/src/writer.rs", "writes and syncs on one thread, which blocks, and ends with the ledger"),
    ("crates/cells/src/recovery.rs", "starts the driver of one database, which ends with it"),
    ("crates/cells/examples/", "plays many clients at once"),
    ("crates/stores/src/conformance.rs", "puts at the same time, in the suite that tests of stores run"),
    ("crates/stores/src/embedded.rs", "writes one file on a thread for what blocks"),
    ("crates/stores/src/redis/connection.rs", "drives one connection to a store, and ends with it"),
    ("crates/tidy/src/words.rs", "the list itself"),
];

/// Names of files that say nothing about what lives in them.
const EMPTY_FILES: &[&str] =
    &["utils.rs", "util.rs", "common.rs", "types.rs", "core.rs", "misc.rs", "helpers.rs"];

/// Last parts of a type's name that say nothing about it.
const EMPTY_ENDINGS: &[&str] = &["Manager", "Handler", "Helper", "Impl", "Utils"];

/// Only `design` knows the papers' names.
pub fn papers(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    let elsewhere = |path: &str| !path.starts_with("crates/design/") && path != "crates/tidy/src/words.rs";
    for (path, text) in tree.rust().filter(|(path, _)| elsewhere(path)) {
        for line in lines(path, text) {
            let code = line.code.to_lowercase();
            let mut words = code.split(|c: char| !c.is_ascii_alphanumeric());
            if let Some(name) = words.find(|word| PAPERS.contains(word)) {
                broken.push(Broken::new(
                    path,
                    line.number,
                    format!("only the crate design knows \"{name}\""),
                ));
            }
        }
    }
    broken
}

/// Only the crates of the process open listening sockets and start tasks and threads; tests may.
pub fn listening(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    let of_one = |path: &str, crates: &[&str]| {
        path.strip_prefix("crates/")
            .and_then(|path| path.split('/').next())
            .is_some_and(|name| crates.contains(&name))
    };
    let watched = |path: &str| {
        !of_one(path, OPENS_SOCKETS) && !LISTENING_ELSEWHERE.iter().any(|(place, _)| path.starts_with(place))
    };
    for (path, text) in tree.rust().filter(|(path, _)| watched(path)) {
        for line in lines(path, text).into_iter().filter(|line| !line.test) {
            let is_free = |name: &str| of_one(path, OF_THE_PROCESS) && !name.ends_with("Listener");
            let found = LISTENING.iter().find(|name| line.code.contains(**name) && !is_free(name));
            if let Some(name) = found {
                let rule = "only frontend, admin and node listen, and only crates of the process spawn";
                broken.push(Broken::new(path, line.number, format!("{name}: {rule}")));
            }
        }
    }
    broken
}

/// No file and no type has a name that says nothing.
pub fn empty_names(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (path, text) in tree.rust() {
        let file = path.rsplit('/').next().unwrap_or(path);
        if EMPTY_FILES.contains(&file) {
            broken.push(Broken::new(path, 0, "name the file for what lives in it"));
        }
        for line in lines(path, text) {
            if let Some(name) = declared_type(&line)
                && let Some(ending) = EMPTY_ENDINGS.iter().find(|ending| name.ends_with(**ending))
            {
                broken.push(Broken::new(
                    path,
                    line.number,
                    format!("{name}: \"{ending}\" says nothing; name what it is"),
                ));
            }
        }
    }
    broken
}

/// The type that a line declares.
fn declared_type<'a>(line: &Line<'a>) -> Option<&'a str> {
    let mut words = line.code.split_whitespace();
    words.find(|word| ["struct", "enum", "trait", "type"].contains(word))?;
    words.next()?.split(|c: char| !c.is_alphanumeric()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_named_in_design_alone() {
        let code = "//! As in Ganymed, section 4.\nconst NAME: &str = \"ganymed\";\n";
        let found = papers(&Tree::of([("crates/node/src/x.rs", code), ("crates/design/src/lib.rs", code)]));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].path.as_str(), found[0].line),
            ("crates/node/src/x.rs", 2),
            "a comment may cite"
        );
    }

    #[test]
    fn sockets_and_tasks_are_for_crates_of_the_process() {
        let code = "//! x\nfn f() { std::net::TcpListener::bind(\"\"); }\n#[cfg(test)]\nmod tests { fn g() { std::thread::spawn(f); } }\n";
        let task = "//! x\nfn f() { tokio::task::spawn_local(f()); }\n";
        let found = listening(&Tree::of([
            ("crates/node/src/x.rs", code),
            ("crates/session/src/x.rs", code),
            ("crates/session/src/task.rs", task),
            ("crates/wire/src/task.rs", task),
            ("crates/wire/src/x.rs", code),
        ]));
        let found: Vec<_> = found.iter().map(|broken| (broken.path.as_str(), broken.line)).collect();
        let listens = ["crates/session/src/x.rs", "crates/wire/src/task.rs", "crates/wire/src/x.rs"];
        assert_eq!(found, listens.map(|path| (path, 2)));
    }

    #[test]
    fn names_say_something() {
        let tree =
            Tree::of([("crates/x/src/utils.rs", concat!("pub struct Pool", "Manager {}\nstruct Pool;\n"))]);
        assert_eq!(empty_names(&tree).len(), 2);
    }
}
