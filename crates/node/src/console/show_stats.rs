//! `SHOW STATS`: what went through, by database: since the start, and a second in the last full period.

use super::view::{Counts, View};
use super::{Column, Show, Table, number, text, value};

pub(super) const SHOW: Show = Show { name: "STATS", meaning: "what went through, by database", rows };

/// PgBouncer's columns. Times are microseconds; averages of times are for one transaction or statement.
const COLUMNS: &[Column] = &[
    text("database"),
    number("total_xact_count"),
    number("total_query_count"),
    number("total_received"),
    number("total_sent"),
    number("total_xact_time"),
    number("total_query_time"),
    number("total_wait_time"),
    number("avg_xact_count"),
    number("avg_query_count"),
    number("avg_recv"),
    number("avg_sent"),
    number("avg_xact_time"),
    number("avg_query_time"),
    number("avg_wait_time"),
];

fn rows(view: &dyn View) -> Table {
    let row = |traffic: super::view::Traffic| {
        let average = traffic.average;
        let each = Counts {
            transaction_us: average.transaction_us / average.transactions.max(1),
            statement_us: average.statement_us / average.statements.max(1),
            ..average
        };
        let numbers = numbers(traffic.total).into_iter().chain(numbers(each)).map(value);
        std::iter::once(Some(traffic.database)).chain(numbers).collect()
    };
    Table { columns: COLUMNS, rows: view.traffic().into_iter().map(row).collect() }
}

fn numbers(counts: Counts) -> [u64; 7] {
    [
        counts.transactions,
        counts.statements,
        counts.received_bytes,
        counts.sent_bytes,
        counts.transaction_us,
        counts.statement_us,
        counts.wait_us,
    ]
}
