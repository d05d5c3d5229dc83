//! The tables that a transaction says it will touch, before it begins: `SET consort.tables_written = 'orders, shop.items'`.

use crate::sql::unquoted;
use std::sync::Arc;

/// A list of tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared(Option<Arc<List>>);

#[derive(Debug, PartialEq, Eq)]
struct List {
    text: String,
    names: Vec<TableName>,
}

/// Declaration in a comment: `tables_read = 'a, b', tables_written = 'c'`, one of them or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// Tables read. `None`: not declared.
    pub read: Option<Declared>,
    /// Tables written. `None`: not declared.
    pub written: Option<Declared>,
}

/// A table's name in such a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// Its schema; `None`: any.
    pub schema: Option<String>,
    /// Its name, or `*` for all tables.
    pub name: String,
}

impl TableName {
    /// True if the declaration names this table. Letter case is ignored: a declaration that is too wide only
    /// causes longer waits.
    pub fn means(&self, schema: &str, name: &str) -> bool {
        let alike = |one: &str, other: &str| one.to_lowercase() == other.to_lowercase();
        self.schema.as_ref().is_none_or(|wanted| alike(wanted, schema)) && alike(&self.name, name)
    }
}

impl Declaration {
    /// Parses the text of a comment. Returns `None` if it declares nothing or contains unknown words.
    pub fn of(said: &str) -> Option<Declaration> {
        let (mut declaration, mut rest) = (Declaration::default(), said.trim());
        loop {
            let (name, value) = rest.split_once('=')?;
            let (text, behind) = unquoted(value.trim_start(), '\'')?;
            let list = match name.trim().to_ascii_lowercase().as_str() {
                "tables_read" => &mut declaration.read,
                "tables_written" => &mut declaration.written,
                _ => return None,
            };
            if list.replace(Declared::read(&text)?).is_some() {
                return None;
            }
            rest = behind.trim_start();
            if rest.is_empty() {
                return Some(declaration);
            }
            rest = rest.strip_prefix(',')?;
        }
    }
}

impl Declared {
    /// Reads a list: names between commas, a schema in front of a dot, quotes where a name needs them; `*` for all. `None`
    /// if it is no such list.
    pub fn read(text: &str) -> Option<Declared> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Declared(None));
        }
        let mut names = Vec::new();
        for piece in split(text, ',')? {
            let mut words = split(piece, '.')?.into_iter().map(word).collect::<Option<Vec<_>>>()?;
            let name = words.pop()?;
            let schema = words.pop();
            if !words.is_empty() {
                return None;
            }
            names.push(TableName { schema, name });
        }
        Some(Declared(Some(Arc::new(List { text: text.to_owned(), names }))))
    }

    /// The list as it was written.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", |list| &list.text)
    }

    /// No table is declared.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// All tables are.
    pub fn is_all(&self) -> bool {
        self.names().iter().any(|name| name.name == "*")
    }

    /// The names.
    pub fn names(&self) -> &[TableName] {
        self.0.as_ref().map_or(&[], |list| &list.names)
    }
}

/// The pieces between separators that do not stand between quotes; `None` if a quote is not closed.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut pieces, mut from, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            pieces.push(&text[from..at]);
            from = at + c.len_utf8();
        }
    }
    pieces.push(&text[from..]);
    (!quoted).then_some(pieces)
}

/// A name, without its quotes.
fn word(piece: &str) -> Option<String> {
    let piece = piece.trim();
    let inner = piece.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let name = match inner {
        Some(inner) => inner.replace("\"\"", "\""),
        None if piece.contains(|c: char| c == '"' || c.is_whitespace()) => return None,
        None => piece.to_owned(),
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tables() {
        let read = |text: &str| {
            let declared = Declared::read(text)?;
            let names = declared.names().iter();
            Some(names.map(|name| (name.schema.clone(), name.name.clone())).collect::<Vec<_>>())
        };
        let own = |schema: Option<&str>, name: &str| (schema.map(str::to_owned), name.to_owned());
        assert_eq!(read(""), Some(vec![]));
        assert_eq!(read("a, s.b"), Some(vec![own(None, "a"), own(Some("s"), "b")]));
        assert_eq!(read("\"a,.\"\"\" . \"B\""), Some(vec![own(Some("a,.\""), "B")]));
        for wrong in ["a,", ",", "a b", "a.b.c", "\"a", "a..b", "\"\""] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(Declared::read("a, *").is_some_and(|declared| declared.is_all()));
        let name = TableName { schema: None, name: "Orders".to_owned() };
        assert!(name.means("any", "orders") && !name.means("any", "order"));
    }

    #[test]
    fn comments_that_declare() {
        let list = |text: &str| Declared::read(text);
        let read = |read: Option<Declared>, written: Option<Declared>| Some(Declaration { read, written });
        assert_eq!(Declaration::of(" tables_read='a, b' "), read(list("a, b"), None));
        assert_eq!(Declaration::of("TABLES_WRITTEN = '*' , tables_read = ''"), read(list(""), list("*")));
        assert_eq!(Declaration::of("tables_read = '\"it''s\"'"), read(list("\"it's\""), None));
        for wrong in [
            "",
            "tables_read",
            "tables_read = a",
            "tables_read = 'a",
            "tables_read = 'a b'",
            "tables_read = 'a',",
            "tables_read = 'a' tables_written = 'b'",
            "tables_read = 'a', tables_read = 'b'",
            "table_read = 'a'",
            "primary, tables_read = 'a'",
        ] {
            assert_eq!(Declaration::of(wrong), None, "{wrong}");
        }
    }
}
