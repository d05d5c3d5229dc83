//! `SHOW STATS` and its parts: traffic by database, since the start, and per second in the last full period.
//! `SHOW TOTALS`: the same of all databases together.

use super::view::{Counts, Traffic, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "STATS", meaning: "traffic by database", rows };
pub(super) const TOTALS_OF_EACH: Show =
    Show { name: "STATS_TOTALS", meaning: "the totals of SHOW STATS, since the start", rows: totals };
pub(super) const AVERAGES: Show =
    Show { name: "STATS_AVERAGES", meaning: "the averages of SHOW STATS, per second", rows: averages };
pub(super) const TOTALS: Show =
    Show { name: "TOTALS", meaning: "traffic of all databases together", rows: of_all };

/// PgBouncer's columns. Times are microseconds; averages of times are for one transaction or statement.
const COLUMNS: &[Column] = &[
    text("database"),
    number("total_server_assignment_count"),
    number("total_xact_count"),
    number("total_query_count"),
    number("total_received"),
    number("total_sent"),
    number("total_xact_time"),
    number("total_query_time"),
    number("total_wait_time"),
    number("total_client_parse_count"),
    number("total_server_parse_count"),
    number("total_bind_count"),
    number("avg_server_assignment_count"),
    number("avg_xact_count"),
    number("avg_query_count"),
    number("avg_recv"),
    number("avg_sent"),
    number("avg_xact_time"),
    number("avg_query_time"),
    number("avg_wait_time"),
    number("avg_client_parse_count"),
    number("avg_server_parse_count"),
    number("avg_bind_count"),
];
/// Columns of its halves, which PgBouncer names differently.
const OF_TOTALS: &[Column] = &[
    text("database"),
    number("server_assignment_count"),
    number("xact_count"),
    number("query_count"),
    number("bytes_received"),
    number("bytes_sent"),
    number("xact_time"),
    number("query_time"),
    number("wait_time"),
    number("client_parse_count"),
    number("server_parse_count"),
    number("bind_count"),
];
const OF_AVERAGES: &[Column] = &[
    text("database"),
    number("server_assignment_count"),
    number("xact_count"),
    number("query_count"),
    number("bytes_received"),
    number("bytes_sent"),
    number("xact_time"),
    number("query_time"),
    number("wait_time"),
    number("avg_client_parse_count"),
    number("avg_server_parse_count"),
    number("avg_bind_count"),
];
const OF_ALL: &[Column] = &[text("name"), number("value")];

fn rows(view: &dyn View) -> Table {
    table(COLUMNS, view, |traffic| {
        numbers(traffic.total).into_iter().chain(numbers(each(traffic.average))).collect()
    })
}

fn totals(view: &dyn View) -> Table {
    table(OF_TOTALS, view, |traffic| numbers(traffic.total).to_vec())
}

fn averages(view: &dyn View) -> Table {
    table(OF_AVERAGES, view, |traffic| numbers(each(traffic.average)).to_vec())
}

fn of_all(view: &dyn View) -> Table {
    let mut all = Traffic::default();
    for one in view.traffic() {
        all.total = all.total + one.total;
        all.average = all.average + one.average;
    }
    let numbers = numbers(all.total).into_iter().chain(numbers(each(all.average)));
    let names = COLUMNS.iter().skip(1).map(|column| value(column.name));
    Table {
        columns: OF_ALL,
        rows: names.zip(numbers).map(|(name, number)| vec![name, value(number)]).collect(),
    }
}

fn table(columns: &'static [Column], view: &dyn View, of: impl Fn(&Traffic) -> Vec<u64>) -> Table {
    let row = |traffic: Traffic| {
        let numbers = of(&traffic).into_iter().map(value);
        std::iter::once(Some(traffic.database)).chain(numbers).collect()
    };
    Table { columns, rows: view.traffic().into_iter().map(row).collect() }
}

/// Times of one transaction or statement.
fn each(average: Counts) -> Counts {
    Counts {
        transaction_us: average.transaction_us / average.transactions.max(1),
        statement_us: average.statement_us / average.statements.max(1),
        ..average
    }
}

fn numbers(counts: Counts) -> [u64; 11] {
    [
        counts.assignments,
        counts.transactions,
        counts.statements,
        counts.received_bytes,
        counts.sent_bytes,
        counts.transaction_us,
        counts.statement_us,
        counts.wait_us,
        counts.client_parses,
        counts.server_parses,
        counts.binds,
    ]
}
