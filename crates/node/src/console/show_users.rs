//! `SHOW USERS`: the roles that are known.

use super::view::View;
use super::{Column, Show, Table, text};

pub(super) const SHOW: Show = Show { name: "USERS", meaning: "the roles that are known", rows };

/// PgBouncer's columns.
const COLUMNS: &[Column] = &[text("name"), text("pool_mode")];

fn rows(view: &dyn View) -> Table {
    Table { columns: COLUMNS, rows: view.users().into_iter().map(|user| vec![Some(user), None]).collect() }
}
