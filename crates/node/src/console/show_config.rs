//! `SHOW CONFIG`: every global key, what it is now, its default, and whether RELOAD takes it over.

use super::view::View;
use super::{Column, Show, Table, text, value};
use crate::config::keys::shown_default;

pub(super) const SHOW: Show =
    Show { name: "CONFIG", meaning: "every setting with the value that counts now, and its default", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[text("key"), text("value"), text("default"), text("changeable")];

fn rows(view: &dyn View) -> Table {
    let row = |(key, written): (&crate::config::keys::Key, &str)| {
        let changeable = if key.reloads { "yes" } else { "no" };
        vec![value(key.name), value(written), Some(shown_default(key)), value(changeable)]
    };
    Table { columns: COLUMNS, rows: view.config().shown().map(row).collect() }
}
