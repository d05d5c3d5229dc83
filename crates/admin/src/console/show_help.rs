//! `SHOW HELP`: every command of the console.

use super::view::View;
use super::{COMMANDS, Column, SHOWS, Show, Table, text, value};

pub(super) const SHOW: Show = Show { name: "HELP", meaning: "this list", rows };

const COLUMNS: &[Column] = &[text("command"), text("meaning")];

fn rows(_: &dyn View) -> Table {
    let shows = SHOWS.iter().map(|show| vec![Some(format!("SHOW {}", show.name)), value(show.meaning)]);
    let commands = COMMANDS.iter().map(|(form, meaning)| vec![value(form), value(meaning)]);
    Table { columns: COLUMNS, rows: shows.chain(commands).collect() }
}
