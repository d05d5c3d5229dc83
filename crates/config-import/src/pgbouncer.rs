//! PgBouncer's files. No crate for ini files reads them as PgBouncer does: `;` and `#` begin a comment at the start of a line
//! alone, a value is taken as it stands, `%include` goes on in the section that it stands in, names hold `*`, and the line of
//! a mistake is wanted. Its own reader, libusual's `cfparser`, is as short as what follows.

use std::io;
use std::path::{Path, PathBuf};

use config::auth_file::{AuthFile, BadLine};

use super::foreign::{At, Entry, Foreign, Product, Role, Setting};
use super::{Reads, Wrong, unreadable};
use statement_analysis::sql;

/// Files may include files this deep, as PgBouncer has it.
const DEEPEST: usize = 10;

/// Reads an ini file, what it includes, and looks into its `auth_file`.
pub(super) fn read(path: &Path, reads: Reads<'_>) -> Result<Foreign, Wrong> {
    let mut reader = Reader { foreign: Foreign::new(Product::Pgbouncer), section: String::new(), reads };
    reader.file(path, 0)?;
    let mut foreign = reader.foreign;
    said_twice(&mut foreign);
    look_into_auth_file(&mut foreign, reads)?;
    socket_hosts(&mut foreign);
    Ok(foreign)
}

struct Reader<'a> {
    foreign: Foreign,
    section: String,
    reads: Reads<'a>,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<(), Wrong> {
        let text = (self.reads)(path).map_err(|error| unreadable(path, &error))?;
        for (line, said) in text.lines().enumerate() {
            let at = At { file: path.display().to_string(), line: line + 1 };
            let said = said.trim();
            if said.is_empty() || said.starts_with([';', '#']) {
                continue;
            }
            if let Some(rest) = said.strip_prefix('[') {
                let (section, behind) =
                    rest.split_once(']').ok_or_else(|| wrong(&at, "expected [section]"))?;
                section.clone_into(&mut self.section);
                if !behind.trim().is_empty() {
                    self.pair(&at, behind.trim())?;
                }
            } else if let Some(name) =
                said.strip_prefix("%include").filter(|rest| rest.starts_with([' ', '\t']))
            {
                if depth == DEEPEST {
                    return Err(wrong(
                        &at,
                        "included files are nested too deeply (the same limit as in PgBouncer)",
                    ));
                }
                self.file(&self.beside(path, name.trim()), depth + 1)
                    .map_err(|failure| Wrong::new(format!("{at}: %include: {failure}")))?;
            } else {
                self.pair(&at, said)?;
            }
        }
        Ok(())
    }

    /// PgBouncer takes a relative name from the folder that it was started in; from there, or else from the
    /// folder of the file that names it.
    fn beside(&self, path: &Path, name: &str) -> PathBuf {
        let here = PathBuf::from(name);
        match (self.reads)(&here) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path.parent().unwrap_or(Path::new("")).join(name)
            }
            _ => here,
        }
    }

    /// `key = value` in the section that is open.
    fn pair(&mut self, at: &At, said: &str) -> Result<(), Wrong> {
        let (key, value) = said.split_once('=').ok_or_else(|| wrong(at, "expected key = value"))?;
        let (key, value) = (unquoted(key.trim()), value.trim());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-*".contains(c) || !c.is_ascii();
        if key.is_empty() || !(key.chars().all(is_name) || said.starts_with('"')) {
            return Err(wrong(at, "expected key = value"));
        }
        match self.section.as_str() {
            "" => Err(wrong(at, "setting outside of any section")),
            "databases" => self.database(at, &key, value),
            "users" | "peers" => {
                let section = self.section.clone();
                self.each_of(at, &section, &key, None, value).map(drop)
            }
            section => {
                let setting = Setting {
                    at: at.clone(),
                    section: section.to_owned(),
                    of: String::new(),
                    entry: None,
                    key,
                    value: value.to_owned(),
                };
                self.foreign.settings.push(setting);
                Ok(())
            }
        }
    }

    fn database(&mut self, at: &At, name: &str, value: &str) -> Result<(), Wrong> {
        let place = self.foreign.entries.len();
        let pairs = self.each_of(at, "databases", name, Some(place), value)?;
        let said =
            |key: &str| pairs.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        self.foreign.entries.push(Entry {
            at: at.clone(),
            name: name.to_owned(),
            database: said("dbname").unwrap_or_else(|| name.to_owned()),
            host: said("host").unwrap_or_default(),
            port: said("port").unwrap_or_else(|| "5432".to_owned()),
            role: Role::Unsaid,
            shard: "0".to_owned(),
        });
        Ok(())
    }

    /// The pairs of a connection string, each a setting of this name.
    fn each_of(
        &mut self,
        at: &At,
        section: &str,
        of: &str,
        entry: Option<usize>,
        value: &str,
    ) -> Result<Vec<(String, String)>, Wrong> {
        let pairs = connection_string(value).map_err(|why| wrong(at, &format!("{of}: {why}")))?;
        for (key, value) in &pairs {
            self.foreign.settings.push(Setting {
                at: at.clone(),
                section: section.to_owned(),
                of: of.to_owned(),
                entry,
                key: key.clone(),
                value: value.clone(),
            });
        }
        Ok(pairs)
    }
}

fn wrong(at: &At, what: &str) -> Wrong {
    Wrong::new(format!("{at}: {what}"))
}

/// A name in double quotes, as an identifier of SQL.
fn unquoted(name: &str) -> String {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    inner.map_or_else(|| name.to_owned(), |inner| inner.replace("\"\"", "\""))
}

/// `key=value key='a ''quoted'' value'`.
fn connection_string(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, behind) =
            rest.split_once('=').ok_or_else(|| format!("expected key=value, found {rest}"))?;
        let key = key.trim_end();
        if key.is_empty() || key.contains([' ', '\t']) {
            return Err(format!("expected key=value, found {key}"));
        }
        let (value, behind) =
            value(behind.trim_start()).ok_or_else(|| format!("{key}: unterminated quote"))?;
        if value.is_empty() {
            return Err(format!("{key} has no value"));
        }
        pairs.push((key.to_owned(), value));
        rest = behind.trim_start();
    }
    Ok(pairs)
}

/// The value at the beginning, and what follows.
fn value(text: &str) -> Option<(String, &str)> {
    if text.starts_with('\'') {
        return sql::unquoted(text, '\'');
    }
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    Some((text[..end].to_owned(), &text[end..]))
}

/// The last word of a setting counts.
fn said_twice(foreign: &mut Foreign) {
    let mut kept: Vec<Setting> = Vec::new();
    for setting in std::mem::take(&mut foreign.settings) {
        let is_same = |other: &Setting| {
            setting.of.is_empty() && other.section == setting.section && other.key == setting.key
        };
        if let Some(place) = kept.iter().position(is_same) {
            let earlier = kept.remove(place);
            let note = format!("{} is set again in {}, which takes precedence", earlier.path(), setting.at);
            foreign.notes.push((earlier.at, note));
        }
        kept.push(setting);
    }
    foreign.settings = kept;
}

/// Checks that its `auth_file` is one: Consort reads the same file. A missing file may be at another machine.
fn look_into_auth_file(foreign: &mut Foreign, reads: Reads<'_>) -> Result<(), Wrong> {
    let said = foreign.said("pgbouncer", "auth_file").filter(|file| !file.value.is_empty());
    let Some((at, value)) = said.map(|file| (file.at.clone(), file.value.clone())) else { return Ok(()) };
    let path = Path::new(&value);
    let text = reads(path).map_err(|error| BadLine { line: 0, message: error.to_string() });
    match text.and_then(|text| AuthFile::parse(&text)) {
        Ok(_) => {}
        Err(bad) if bad.line == 0 => {
            foreign.notes.push((at, format!("{}; its contents were not checked", bad.said_of(path))));
        }
        Err(bad) => return Err(Wrong::new(bad.said_of(path))),
    }
    Ok(())
}

/// A database without a host is reached by the socket in PgBouncer's own `unix_socket_dir`.
fn socket_hosts(foreign: &mut Foreign) {
    let folder = foreign.said("pgbouncer", "unix_socket_dir").map(|said| said.value.clone());
    let folder = folder.filter(|folder| !folder.is_empty()).unwrap_or_else(|| "/tmp".to_owned());
    for entry in foreign.entries.iter_mut().filter(|entry| entry.host.is_empty()) {
        foreign
            .notes
            .push((entry.at.clone(), format!("{} names no host; using the socket in {folder}", entry.name)));
        entry.host.clone_from(&folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        connection_string(text).unwrap()
    }

    #[test]
    fn a_connection_string_is_read_as_pgbouncer_reads_it() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            pairs("host = a  port=1 connect_query='SELECT ''x'' = 1' dbname=b"),
            [
                pair("host", "a"),
                pair("port", "1"),
                pair("connect_query", "SELECT 'x' = 1"),
                pair("dbname", "b")
            ]
        );
        assert_eq!(pairs("password='a''b'user=c"), [pair("password", "a'b"), pair("user", "c")]);
        assert_eq!(pairs("  "), []);
        for bad in ["host", "host=", "password='a", "a b=c", "=c", "dbname=''"] {
            assert!(connection_string(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_may_be_quoted() {
        assert_eq!(unquoted("\"a \"\"b\"\"\""), "a \"b\"");
        assert_eq!(unquoted("shop.x-y"), "shop.x-y");
    }
}
