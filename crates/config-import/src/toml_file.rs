//! TOML files of other products, with the line of each key.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::foreign::{At, Setting};
use super::{Reads, Wrong, unreadable};

/// A file's text and its name.
pub(super) struct File {
    name: String,
    text: String,
}

/// A key and its value.
pub(super) type Pair<'a, 'b> = (&'a Spanned<std::borrow::Cow<'b, str>>, &'a Spanned<DeValue<'b>>);

impl File {
    /// Reads a file.
    pub(super) fn read(path: &Path, reads: Reads<'_>) -> Result<Self, Wrong> {
        let text = reads(path).map_err(|error| unreadable(path, &error))?;
        Ok(Self::of(path, text))
    }

    /// One that has been read.
    pub(super) fn of(path: &Path, text: String) -> Self {
        Self { name: path.display().to_string(), text }
    }

    /// Its tables, or the line that is no TOML.
    pub(super) fn tables(&self) -> Result<Spanned<DeTable<'_>>, Wrong> {
        DeTable::parse(&self.text).map_err(|error| {
            let at = self.at(error.span().map_or(0, |span| span.start));
            Wrong::new(format!("{at}: {}", error.message()))
        })
    }

    /// The line of an offset.
    pub(super) fn at(&self, offset: usize) -> At {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        At { file: self.name.clone(), line: before.iter().filter(|byte| **byte == b'\n').count() + 1 }
    }

    /// A key and its value as a setting.
    pub(super) fn setting(&self, section: &str, of: &str, (key, value): Pair<'_, '_>) -> Setting {
        Setting {
            at: self.at(key.span().start),
            section: section.to_owned(),
            of: of.to_owned(),
            entry: None,
            key: key.get_ref().to_string(),
            value: shown(value.get_ref()),
        }
    }
}

/// A text of a table, empty if there is none.
pub(super) fn text(table: &DeTable<'_>, key: &str) -> String {
    table.get(key).map(|value| shown(value.get_ref())).unwrap_or_default()
}

/// The value as a person would write it without quotes.
pub(super) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().replace('_', ""),
        DeValue::Float(number) => number.as_str().replace('_', ""),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) => list.iter().map(|item| shown(item.get_ref())).collect::<Vec<_>>().join(","),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
