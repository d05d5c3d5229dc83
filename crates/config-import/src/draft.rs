//! Consort's configuration in the making. Whether a key is known and a value is sound is said by the code that reads
//! configurations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use config::{Config, Mistake};

use super::convert::{list, quoted};
use super::foreign::{At, Entry};

/// A server as our file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    host: String,
    port: String,
    at: At,
}

impl Server {
    /// The one of this entry, at this host.
    pub(super) fn of(entry: &Entry, host: &str) -> Self {
        Self { host: host.to_owned(), port: entry.port.clone(), at: entry.at.clone() }
    }

    /// True if it is the server of this entry.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        self.host == entry.host && self.port == entry.port
    }

    fn render(&self, table: &str) -> String {
        format!("\n{table}  # {}\nhost = {}\nport = {}\n", self.at, quoted(&self.host), self.port)
    }
}

/// Place of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// At the top.
    Global,
    /// In `[database.NAME]`.
    Database(String),
    /// In `[user.NAME]`.
    User(String),
}

impl Place {
    fn table(&self) -> Option<String> {
        match self {
            Self::Global => None,
            Self::Database(name) => Some(format!("[database.{}]", quoted(name))),
            Self::User(name) => Some(format!("[user.{}]", quoted(name))),
        }
    }
}

struct Line {
    key: String,
    value: String,
    from: String,
}

/// A configuration in the making.
pub(super) struct Draft {
    /// The file's name to be.
    path: PathBuf,
    pub(super) primary: Option<Server>,
    standbys: Vec<Server>,
    /// The databases that are followed; empty: those that are by default.
    pub(super) databases: Vec<String>,
    lines: BTreeMap<Place, Vec<Line>>,
}

impl Draft {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, primary: None, standbys: Vec::new(), databases: Vec::new(), lines: BTreeMap::new() }
    }

    /// Another standby, if it is not there yet.
    pub(super) fn standby(&mut self, server: Server) {
        let is_same = |known: &Server| known.host == server.host && known.port == server.port;
        if !self.standbys.iter().any(is_same) {
            self.standbys.push(server);
        }
    }

    /// Sets a key, if the reader of configurations takes it; else why not.
    pub(super) fn set(&mut self, place: &Place, key: &str, value: &str, from: &str) -> Result<(), Refusal> {
        let line = format!("{key} = {value}");
        let (text, at) = match place.table() {
            None => (format!("{line}\n{LEAST}"), 1),
            Some(table) => (format!("{LEAST}{table}\n{line}\n"), LEAST.lines().count() + 2),
        };
        let mistakes = Config::parse(&text, &self.path).err().unwrap_or_default();
        if let Some(mistake) = mistakes.into_iter().find(|mistake| mistake.line == at) {
            return Err(Refusal::of(mistake, key));
        }
        let lines = self.lines.entry(place.clone()).or_default();
        match lines.iter().find(|known| known.key == key) {
            Some(known) if known.value == value => {}
            Some(known) => {
                return Err(Refusal::Other(format!(
                    "{} sets {}, which takes precedence",
                    known.from, known.value
                )));
            }
            None => lines.push(Line { key: key.to_owned(), value: value.to_owned(), from: from.to_owned() }),
        }
        Ok(())
    }

    /// Takes a global key back, and returns its origin; `None` if it was not set.
    pub(super) fn take_back(&mut self, key: &str) -> Option<String> {
        let lines = self.lines.get_mut(&Place::Global)?;
        let place = lines.iter().position(|line| line.key == key)?;
        Some(lines.remove(place).from)
    }

    /// The whole file, and what its reader says of it.
    pub(super) fn text(&self) -> (String, Vec<Mistake>) {
        let mut text = HEAD.to_owned();
        self.write_lines(&mut text, &Place::Global);
        if !self.databases.is_empty() {
            let _ = writeln!(text, "databases = {}", list(&self.databases));
        }
        if let Some(primary) = &self.primary {
            text += &primary.render("[primary]");
        }
        for standby in &self.standbys {
            text += &standby.render("[[standby]]");
        }
        for place in self.lines.keys() {
            if let Some(table) = place.table() {
                let _ = write!(text, "\n{table}\n");
                self.write_lines(&mut text, place);
            }
        }
        let mistakes = Config::parse(&text, &self.path).err().unwrap_or_default();
        (text, mistakes)
    }

    fn write_lines(&self, text: &mut String, place: &Place) {
        for Line { key, value, from } in self.lines.get(place).into_iter().flatten() {
            let _ = writeln!(text, "{key} = {value}  # {from}");
        }
    }
}

const HEAD: &str = "\
# Written by `consort import`. The comment at the end of a line names its source. docs/configuration.md has every key.
";

/// Minimal configuration around the line that is tried.
const LEAST: &str = "[primary]\nhost = \"localhost\"\n";

/// Reason why a key is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// This build does not know it.
    Unknown,
    /// Anything else, for a person.
    Other(String),
}

impl Refusal {
    fn of(mistake: Mistake, key: &str) -> Self {
        match mistake.message.starts_with("unknown key") {
            true => Self::Unknown,
            false => Self::Other(format!("{key}: {}", mistake.message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(draft: &mut Draft, place: &Place, key: &str, value: &str) -> Result<(), Refusal> {
        draft.set(place, key, value, "f:1")
    }

    #[test]
    fn the_reader_of_configurations_says_what_is_taken() {
        let mut draft = Draft::new(PathBuf::from("c.toml"));
        let shop = Place::Database("shop".to_owned());
        assert_eq!(set(&mut draft, &Place::Global, "max_clients", "7"), Ok(()));
        assert_eq!(set(&mut draft, &Place::Global, "max_servers", "7"), Err(Refusal::Unknown));
        assert_eq!(set(&mut draft, &shop, "consistency", "\"weak\""), Ok(()));
        assert_eq!(set(&mut draft, &shop, "listen", "[]"), Err(Refusal::Unknown));
        for (value, words) in [("0", "expected a whole number"), ("8", "f:1 sets 7, which takes precedence")]
        {
            let refused = set(&mut draft, &Place::Global, "max_clients", value);
            assert!(matches!(&refused, Err(Refusal::Other(why)) if why.contains(words)), "{refused:?}");
        }
        assert_eq!(draft.take_back("max_clients").as_deref(), Some("f:1"));
        assert_eq!(draft.take_back("max_clients"), None);
    }
}
