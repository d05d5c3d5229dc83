//! What must not stand in the files: hosts that nobody outside can reach, registries and mirrors, paths of one machine.

use crate::tree::{Broken, Tree};

/// Hosts that a link or a command may name: documentation, standards, the installer of Rust, this machine's own loops.
const HOSTS: &[&str] = &[
    "www.postgresql.org",
    "cloud.google.com",
    "docs.aws.amazon.com",
    "learn.microsoft.com",
    "neon.com",
    "supabase.com",
    "www.pgbouncer.org",
    "sh.rustup.rs",
    "rustup.rs",
    "docs.rs",
    "doc.rust-lang.org",
    "www.apache.org",
    "keepachangelog.com",
    "semver.org",
    "prometheus.io",
    // The name of the language of plots.
    "www.w3.org",
    "localhost",
    "127.0.0.1",
];

/// The only source of packages that the lock file may name: the registry that cargo uses by itself.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Starts of paths that exist on one machine only. Put together here, so that this file does not hold them.
const MACHINE: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Every link names a known host, and packages come from the registry that cargo uses by itself.
pub fn hosts(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (path, text) in tree.files() {
        let lock = path.ends_with("Cargo.lock");
        for (at, line) in text.lines().enumerate() {
            if lock && line.starts_with("source = ") && line != format!("source = \"{REGISTRY}\"") {
                broken.push(Broken::new(path, at + 1, "packages come from crates.io"));
            }
            if !lock && path != "crates/tidy/src/secrets.rs" {
                broken.extend(unknown_hosts(line).map(|host| {
                    Broken::new(
                        path,
                        at + 1,
                        format!("{host} is not among the known hosts (crates/tidy/src/secrets.rs)"),
                    )
                }));
            }
        }
        let is_cargos = path.ends_with(".cargo/config.toml") || path.ends_with(".cargo/config");
        if is_cargos && !(path == ".cargo/config.toml" && has_flags_of_sqlite_alone(text)) {
            broken.push(Broken::new(path, 0, "settings of one machine's cargo stay on that machine"));
        }
    }
    broken
}

/// The one setting of cargo that every machine needs: how SQLite is compiled.
fn has_flags_of_sqlite_alone(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    text.contains("LIBSQLITE3_FLAGS")
        && lines.all(|line| line == "[env]" || line.starts_with("LIBSQLITE3_FLAGS = \""))
}

/// No path of one machine stands in a file.
pub fn machine_paths(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (path, text) in tree.files() {
        for (at, line) in text.lines().enumerate() {
            if let Some(start) = MACHINE.iter().find(|start| names_path(line, start)) {
                broken.push(Broken::new(path, at + 1, format!("{start} exists on one machine only")));
            }
        }
    }
    broken
}

fn unknown_hosts(line: &str) -> impl Iterator<Item = &str> {
    let after =
        |scheme: &'static str| line.match_indices(scheme).map(move |(at, _)| &line[at + scheme.len()..]);
    let hosts = after("https://").chain(after("http://"));
    let hosts = hosts.map(|rest| {
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-')).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    });
    hosts.filter(|host| !host.is_empty() && !HOSTS.contains(host))
}

/// True if a path that begins so stands in the line, not as the middle of another path or of a link.
fn names_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || ".-_/*$}~".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_ones() {
        let mirror = concat!("see https://mir", "ror.example/simple and https://www.postgresql.org/docs/15/");
        assert_eq!(hosts(&Tree::of([("docs/a.md", mirror)])).len(), 1);
        let lock = format!("source = \"{REGISTRY}\"\nsource = \"registry+https://mirror.example/index\"\n");
        assert_eq!(hosts(&Tree::of([("Cargo.lock", lock.as_str())])).len(), 1);
        assert_eq!(hosts(&Tree::of([(".cargo/config.toml", "")])).len(), 1);
    }

    #[test]
    fn paths_belong_to_no_machine() {
        let path = concat!("cd /wo", "rk/main");
        assert_eq!(machine_paths(&Tree::of([("Makefile", path)])).len(), 1);
        assert_eq!(machine_paths(&Tree::of([("Makefile", concat!("cd $DIR/wo", "rk/main"))])), []);
    }
}
