//! `SHOW FEEDS`: the replicas that Consort feeds, database by database: what is done, how far each has come, what it lacks.

use super::view::{Feed, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show {
    name: "FEEDS",
    meaning: "the replicas that Consort feeds, database by database: how far each has come",
    rows,
};

const COLUMNS: &[Column] = &[
    text("name"),
    text("host"),
    number("port"),
    text("database"),
    text("state"),
    text("why"),
    number("version"),
    number("newest_version"),
    number("lag_ms"),
    number("pending_commits"),
    number("pending_bytes"),
];

fn rows(view: &dyn View) -> Table {
    Table { columns: COLUMNS, rows: view.feeds().into_iter().map(row).collect() }
}

fn row(feed: Feed) -> Vec<Option<String>> {
    vec![
        Some(feed.replica),
        Some(feed.host),
        value(feed.port),
        Some(feed.database),
        value(feed.state),
        feed.why,
        feed.version.map(|version| version.to_string()),
        value(feed.newest_version),
        value(feed.lag.as_millis()),
        value(feed.pending_commits),
        value(feed.pending_bytes),
    ]
}
