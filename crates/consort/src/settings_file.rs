//! The configuration that `consort up` writes. A person's changes in it stay: an option of the command line
//! replaces its own line, and the servers below the mark are written again, except the tables that a replica
//! is to have.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use local_cluster::{Node, Role};

/// Everything below this line is written again by each `up`.
const MARK: &str = "# Servers of `consort up`. Each `consort up` rewrites the file from here on.";

const HEAD: &str = "\
# Written by `consort up`, which reads it at each start. docs/configuration.md has every key. Changes above the
# servers are kept, unless an option of `consort up` overrides them.
";

/// A file in the making.
pub struct SettingsFile {
    lines: Vec<String>,
    /// Tables of replicas that are not to have all, by the replica's name, as written.
    tables: BTreeMap<String, String>,
}

impl SettingsFile {
    /// The part of a file that people may change; `None` begins a new one.
    pub fn of(text: Option<&str>) -> Self {
        let kept = text.unwrap_or(HEAD).lines().take_while(|line| *line != MARK);
        let mut lines: Vec<String> = kept.map(str::to_owned).collect();
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        let servers = text.unwrap_or_default().lines().skip_while(|line| *line != MARK);
        Self { lines, tables: tables(servers) }
    }

    /// Has a replica have these tables alone.
    pub fn set_tables(&mut self, replica: &str, tables: &[String]) {
        let tables: Vec<String> = tables.iter().map(|table| quoted(table)).collect();
        self.tables.insert(replica.to_owned(), format!("[{}]", tables.join(", ")));
    }

    /// The file's value of a global key, as written.
    pub fn get(&self, key: &str) -> Option<&str> {
        let line = &self.lines[self.place(key)?];
        line.split_once('=').map(|(_, value)| value.trim())
    }

    /// True if the part that people may change contains servers.
    pub fn names_servers(&self) -> bool {
        self.lines.iter().any(|line| {
            let head: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            ["[primary]", "[[standby]]", "[[replica]]", "[[node]]", "[store]"].contains(&head.as_str())
        })
    }

    /// Gives a global key a value, written as in the file: in its own line if it has one, else as a new line before the
    /// first table.
    pub fn set(&mut self, key: &str, value: &str) {
        let line = format!("{key} = {value}");
        match self.place(key) {
            Some(place) => self.lines[place] = line,
            None => {
                let end =
                    self.lines.iter().position(|line| line.starts_with('[')).unwrap_or(self.lines.len());
                self.lines.insert(end, line);
            }
        }
    }

    /// The same if the file does not say anything of the key yet.
    pub fn set_at_first(&mut self, key: &str, value: &str) {
        if self.place(key).is_none() {
            self.set(key, value);
        }
    }

    /// The whole file, with these servers, the primary first.
    pub fn with_servers<'a>(&self, nodes: impl IntoIterator<Item = &'a Node>) -> String {
        let mut text = self.head();
        for node in nodes {
            let table = match node.role() {
                Role::Primary => "[primary]",
                Role::Standby => "[[standby]]",
                Role::Replica => "[[replica]]",
                Role::Peer => "[[node]]",
            };
            let host = node.socket_folder().display().to_string();
            write_server(&mut text, table, node.name(), &host, node.port());
            if let Some(tables) = self.tables.get(node.name()).filter(|_| node.role() == Role::Replica) {
                let _ = writeln!(text, "tables = {tables}");
            }
        }
        text
    }

    /// The whole file, with these servers and a node that is not made yet.
    pub(crate) fn with_node<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a Node>,
        (name, host, port): (&str, &str, u16),
    ) -> String {
        let mut text = self.with_servers(nodes);
        write_server(&mut text, "[[node]]", name, host, port);
        text
    }

    /// The whole file, with the nodes of an in-memory tier: their names and addresses.
    pub(crate) fn with_tier<'a>(&self, nodes: impl IntoIterator<Item = (&'a str, SocketAddr)>) -> String {
        let mut text = self.head();
        for (name, address) in nodes {
            write_server(&mut text, "[[node]]", name, &address.ip().to_string(), address.port());
        }
        text
    }

    /// The whole file, with an embedded store in this folder.
    pub(crate) fn with_store(&self, folder: &str) -> String {
        format!("{}\n[store]\nembedded = {}\n", self.head(), quoted(folder))
    }

    fn head(&self) -> String {
        format!("{}\n\n{MARK}\n", self.lines.join("\n"))
    }

    fn place(&self, key: &str) -> Option<usize> {
        let global = self.lines.iter().take_while(|line| !line.starts_with('['));
        global
            .enumerate()
            .find(|(_, line)| line.split_once('=').is_some_and(|(name, _)| name.trim() == key))
            .map(|(at, _)| at)
    }
}

fn write_server(text: &mut String, table: &str, name: &str, host: &str, port: u16) {
    let _ = write!(text, "\n{table}\nname = {}\nhost = {}\nport = {port}\n", quoted(name), quoted(host));
}

/// Tables that replicas are to have, of the servers that a file names.
fn tables<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let (mut tables, mut is_replica, mut name) = (BTreeMap::new(), false, "");
    for line in lines {
        if line.starts_with('[') {
            (is_replica, name) = (line == "[[replica]]", "");
        }
        match line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("name", value)) => name = value.trim_matches('"'),
            Some(("tables", value)) if is_replica => drop(tables.insert(name.to_owned(), value.to_owned())),
            _ => {}
        }
    }
    tables
}

/// A text as TOML writes it.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_changed_stays() {
        let text = "# mine\nproof_timeout = \"5ms\"\ndesign = \"consort\"\n\n[database.shop]\nconsistency = \"weak\"\n";
        let mut file = SettingsFile::of(Some(text));
        file.set("design", "\"weak\"");
        file.set("max_clients", "9");
        file.set_at_first("proof_timeout", "\"2ms\"");
        let again = file.with_servers(&[]);
        let wanted = "# mine\nproof_timeout = \"5ms\"\ndesign = \"weak\"\n\nmax_clients = 9\n[database.shop]\nconsistency = \"weak\"\n";
        assert!(again.starts_with(wanted), "{again}");
        assert_eq!(SettingsFile::of(Some(&again)).with_servers(&[]), again, "written twice it is the same");
        assert_eq!(file.get("design"), Some("\"weak\""));
        assert_eq!(file.get("consistency"), None, "a key of a table is not a global one");
    }

    #[test]
    fn servers_of_ones_own_are_seen_however_they_are_written() {
        for line in ["[primary]", " [primary] # mine", "[[ standby ]]", "[[replica]]\t"] {
            assert!(SettingsFile::of(Some(&format!("{line}\nhost = \"db\"\n"))).names_servers(), "{line}");
        }
        let other = "# [primary]\n[database.primary]\nhost = \"#[primary]\"\n";
        assert!(!SettingsFile::of(Some(other)).names_servers());
    }

    #[test]
    fn which_tables_a_replica_has_is_not_forgotten() {
        let text = format!(
            "{MARK}\n\n[[standby]]\nname = \"standby1\"\ntables = [\"no\"]\n\n[[replica]]\nname = \"replica1\"\n\
             host = \"/a\"\nport = 1\ntables = [\"orders\", \"shop.*\"]\n\n[[replica]]\nname = \"replica2\"\n"
        );
        let mut file = SettingsFile::of(Some(&text));
        let kept = BTreeMap::from([("replica1".to_owned(), r#"["orders", "shop.*"]"#.to_owned())]);
        assert_eq!(file.tables, kept);
        file.set_tables("replica2", &["a".to_owned(), "b\"c".to_owned()]);
        assert_eq!(file.tables["replica2"], r#"["a", "b\"c"]"#);
    }

    #[test]
    fn texts_keep_their_quotes() {
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}
