//! `SHOW CONFIG`: every global key with its value, its default, and true if RELOAD applies it.

use super::view::View;
use super::{Column, Show, Table, text, value};
use config::keys::{ALIASES, shown_default};

pub(super) const SHOW: Show =
    Show { name: "CONFIG", meaning: "settings with their current and default values", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[text("key"), text("value"), text("default"), text("changeable")];

fn rows(view: &dyn View) -> Table {
    let row = |(key, written): (&config::keys::Key, &str)| {
        let changeable = if key.reloads { "yes" } else { "no" };
        vec![value(key.name), value(written), Some(shown_default(key)), value(changeable)]
    };
    // A setting with another name in PgBouncer has a row under that name as well.
    let alias = |(alias, name): &(&'static str, &'static str)| {
        let (key, written) = view.config().shown().find(|(key, _)| key.name == *name)?;
        let mut row = row((key, written));
        row[0] = value(alias);
        Some(row)
    };
    let aliases = ALIASES.iter().filter_map(alias);
    Table { columns: COLUMNS, rows: view.config().shown().map(row).chain(aliases).collect() }
}
