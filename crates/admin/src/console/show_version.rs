//! `SHOW VERSION`: the version of this Consort.

use super::view::View;
use super::{Column, Show, Table, text, value};

pub(super) const SHOW: Show = Show { name: "VERSION", meaning: "version of Consort", rows };

const COLUMNS: &[Column] = &[text("version")];

fn rows(_: &dyn View) -> Table {
    Table { columns: COLUMNS, rows: vec![vec![value(concat!("Consort ", env!("CARGO_PKG_VERSION")))]] }
}
