//! `SHOW REPLICATION`: the logical replicas, database by database: state, position, and pending commits.

use replica_apply::clone::Progress;

use super::view::{Feed, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show =
    Show { name: "REPLICATION", meaning: "logical replicas by database: state and progress", rows };

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
    number("pending_file_bytes"),
    number("catch_up_left_ms"),
    number("copied_tables"),
    number("tables_to_copy"),
    number("copied_bytes"),
    number("bytes_to_copy"),
    number("copy_left_ms"),
    number("waited_for_readers_ms"),
    number("readers_let_go"),
    number("steps"),
    number("steps_beside"),
    number("steps_again"),
    number("statements"),
    number("steps_undone"),
    number("copies"),
];

fn rows(view: &dyn View) -> Table {
    Table { columns: COLUMNS, rows: view.feeds().into_iter().map(row).collect() }
}

fn row(feed: Feed) -> Vec<Option<String>> {
    let copied = |figure: fn(Progress) -> u64| feed.copied.map(|far| figure(far).to_string());
    let left = feed.copied.and_then(|far| far.left);
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
        value(feed.pending_file_bytes),
        feed.catches_up_in.map(|left| left.as_millis().to_string()),
        copied(|far| far.tables),
        copied(|far| far.all_tables),
        copied(|far| far.bytes),
        copied(|far| far.all_bytes),
        left.map(|left| left.as_millis().to_string()),
        value(feed.waited_for_readers.as_millis()),
        value(feed.readers_let_go),
        value(feed.steps.batches),
        value(feed.steps.beside),
        value(feed.steps.again),
        value(feed.steps.reruns),
        value(feed.steps.undone),
        value(feed.copies),
    ]
}
