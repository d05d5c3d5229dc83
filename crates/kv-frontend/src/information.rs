//! INFO, and the page of metrics.

use crate::shared::Shared;
use bytes::Bytes;
use std::fmt::Write;

/// A section of INFO: its name, and names and values.
type Section = (&'static str, Vec<(&'static str, String)>);

/// The text of INFO: all sections, or the named ones.
pub(crate) fn page(shared: &Shared, wanted: &[Bytes]) -> String {
    let all = ["all", "default", "everything"];
    let is_wanted = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|word| {
                let word = String::from_utf8_lossy(word).to_ascii_lowercase();
                all.contains(&word.as_str()) || word == name.to_ascii_lowercase()
            })
    };
    let mut text = String::new();
    for (name, values) in sections(shared).into_iter().filter(|(name, _)| is_wanted(name)) {
        let _ = write!(text, "# {name}\r\n");
        for (key, value) in values {
            let _ = write!(text, "{key}:{value}\r\n");
        }
        text.push_str("\r\n");
    }
    text
}

fn sections(shared: &Shared) -> Vec<Section> {
    let counters = &shared.counters;
    vec![
        (
            "Server",
            vec![
                ("consort_version", env!("CARGO_PKG_VERSION").to_owned()),
                // Level of the protocol and of the commands that exist: clients choose by it.
                ("redis_version", "7.0.0".to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("process_id", std::process::id().to_string()),
                ("uptime_in_seconds", shared.started.elapsed().as_secs().to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", shared.clients.count().to_string()),
                ("maxclients", shared.options.max_clients.to_string()),
                ("clients_in_transaction", shared.clients.in_block().to_string()),
                ("total_connections_received", counters.connections.get().to_string()),
                ("rejected_connections", counters.rejected.get().to_string()),
                ("failed_log_ins", counters.failed_log_ins.get().to_string()),
            ],
        ),
        ("Persistence", vec![("loading", "0".to_owned())]),
        (
            "Stats",
            vec![
                ("total_commands_processed", counters.commands.get().to_string()),
                ("total_error_replies", counters.errors.get().to_string()),
                ("repeated_transactions", counters.repeats.get().to_string()),
                ("idle_transactions_rolled_back", counters.idle_transactions.get().to_string()),
            ],
        ),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        ("Transactions", shared.figures()),
    ]
}

/// The page of metrics, in the text format of Prometheus.
pub(crate) fn metrics(shared: &Shared) -> String {
    let counters = &shared.counters;
    let families = [
        ("clients", "gauge", "Connected clients", shared.clients.count() as u64),
        (
            "clients_in_transaction",
            "gauge",
            "Clients with an open transaction",
            shared.clients.in_block() as u64,
        ),
        ("connections_total", "counter", "Accepted connections", counters.connections.get()),
        ("connections_rejected_total", "counter", "Connections above max_clients", counters.rejected.get()),
        ("failed_log_ins_total", "counter", "Log-ins with a wrong password", counters.failed_log_ins.get()),
        ("commands_total", "counter", "Answered commands", counters.commands.get()),
        ("errors_total", "counter", "Commands that were answered by an error", counters.errors.get()),
        (
            "repeats_total",
            "counter",
            "Transactions of one command, or of EXEC, that the server repeated after a conflict",
            counters.repeats.get(),
        ),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in families {
        let name = format!("consort_kv_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    for (name, value) in shared.figures() {
        if value.parse::<u64>().is_ok() {
            let _ = writeln!(text, "# TYPE consort_kv_{name} gauge\nconsort_kv_{name} {value}");
        }
    }
    text
}
