//! The page that Prometheus reads: the process' counters (`counters`), and values known elsewhere (positions,
//! in-flight write sets, reads served), taken from the [`View`] when the page is made.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::console::View;
use crate::console::view::{ClientState, Feed, Node, Role, Slot};
use counters::{BUCKETS_US, Histogram, Metrics};

/// The page that Prometheus reads, in its text format.
pub fn page(metrics: &Metrics, view: &dyn View) -> String {
    let mut page = Page::default();
    own(&mut page, metrics);
    ordered(&mut page, metrics);
    clients(&mut page, view);
    nodes(&mut page, &view.nodes());
    progress(&mut page, view);
    page.text
}

fn own(page: &mut Page, metrics: &Metrics) {
    page.counter("consort_clients_accepted_total", "Accepted client connections.")
        .sample(&[], metrics.clients_accepted.get());
    page.counter("consort_clients_refused_total", "Rejected client connections, by SQLSTATE.")
        .by("sqlstate", metrics.clients_refused.get());
    page.counter("consort_cancel_requests_total", "Cancel requests.")
        .sample(&[], metrics.cancel_requests.get());
    // Present from the first scrape on: a rule that divides by it must not be silent while no read was
    // offloaded.
    let mut at_standbys = metrics.reads_at_standbys.get();
    at_standbys.entry("plain").or_default();
    page.counter("consort_reads_at_standbys_total", "Reads answered by a standby, by proof.")
        .by("proof", at_standbys);
    page.counter("consort_statements_at_primary_total", "Statements at the primary, by reason.")
        .by("reason", metrics.statements_at_primary.get());
    page.counter(
        "consort_commits_as_statements_total",
        "Statement replication: commits replicated as their statements.",
    )
    .sample(&[], metrics.commits_as_statements.get());
    page.counter(
        "consort_commits_as_rows_total",
        "Statement replication: commits replicated as rows, by reason.",
    )
    .by("why", metrics.commits_as_rows.get());
    page.counter(
        "consort_statements_as_rows_total",
        "Statement replication: writing statements replicated as rows, by reason.",
    )
    .by("why", metrics.statements_not_told.get());
    page.counter("consort_shadowed_total", "Reads compared with the primary in shadow mode, by verdict.")
        .by("verdict", metrics.shadowed.get());
    page.counter("consort_reads_at_primary_total", "Statements at the primary that are read-only.")
        .sample(&[], metrics.reads_at_primary.get());
    page.counter("consort_results_cut_off_total", "Results cut off after their first bytes were sent.")
        .sample(&[], metrics.results_cut_off.get());
    page.histogram(
        "consort_proof_wait_seconds",
        "Time for which results were held until their proof.",
        &metrics.proof_wait,
    );
    page.histogram(
        "consort_replica_wait_seconds",
        "Time for which reads waited for a replica, in designs in which they wait.",
        &metrics.replica_wait,
    );
    page.histogram(
        "consort_refresh_wait_seconds",
        "Time for which refreshes waited for readers, in designs that lock.",
        &metrics.refresh_wait,
    );
    page.histogram(
        "consort_probe_seconds",
        "Round-trip time of a snapshot probe of the primary.",
        &metrics.gauge_round_trip,
    );
    page.histogram(
        "consort_analysis_wait_seconds",
        "Time for which statements waited for analysis.",
        &metrics.analysis_wait,
    );
}

/// Metrics of designs in which transactions are ordered before they are executed.
fn ordered(page: &mut Page, metrics: &Metrics) {
    page.counter("consort_ordered_refused_total", "Ordered designs: rejected statements, by reason.")
        .by("reason", metrics.scheduled_refused.get());
    page.counter(
        "consort_replicas_taken_out_total",
        "Ordered designs: replicas taken out after a failure or a result unlike the primary's.",
    )
    .sample(&[], metrics.replicas_taken_out.get());
    page.histogram(
        "consort_lock_wait_seconds",
        "Ordered designs: time for which statements waited for their table locks.",
        &metrics.lock_wait,
    );
}

fn clients(page: &mut Page, view: &dyn View) {
    let clients = view.clients();
    let mut family = page.gauge("consort_clients", "Connected clients, by state.");
    for (name, state) in
        [("active", ClientState::Active), ("idle", ClientState::Idle), ("waiting", ClientState::Waiting)]
    {
        let count = clients.iter().filter(|client| client.state == state).count();
        family.sample(&[("state", name)], count as u64);
    }
    let traffic = view.traffic();
    let mut family = page.counter("consort_transactions_total", "Transactions, by database.");
    traffic.iter().for_each(|one| family.sample(&[("database", &one.database)], one.total.transactions));
    let mut family = page.counter("consort_statements_total", "Statements, by database.");
    traffic.iter().for_each(|one| family.sample(&[("database", &one.database)], one.total.statements));
    let mut family = page.counter("consort_received_bytes_total", "Bytes from clients, by database.");
    traffic.iter().for_each(|one| family.sample(&[("database", &one.database)], one.total.received_bytes));
    let mut family = page.counter("consort_sent_bytes_total", "Bytes to clients, by database.");
    traffic.iter().for_each(|one| family.sample(&[("database", &one.database)], one.total.sent_bytes));
}

fn nodes(page: &mut Page, nodes: &[Node]) {
    let written = nodes.iter().find(|node| node.role == Role::Primary).and_then(|primary| primary.replayed);
    let mut family = page.gauge("consort_node_serving", "1 if the node serves, by node.");
    nodes
        .iter()
        .for_each(|node| family.sample(&[("node", &node.name)], u64::from(node.not_serving.is_none())));
    let standbys = || nodes.iter().filter(|node| node.role != Role::Primary);
    let mut family = page.gauge("consort_standby_lag_bytes", "WAL that the standby has not replayed yet.");
    for node in standbys() {
        if let Some((end, replayed)) = written.zip(node.replayed) {
            family.sample(&[("node", &node.name)], end.get().saturating_sub(replayed.get()));
        }
    }
    let mut family = page.gauge("consort_standby_pending", "Statements running at the standby.");
    standbys().for_each(|node| family.sample(&[("node", &node.name)], node.pending));
    let mut family = page.counter("consort_standby_reads_total", "Reads answered by the standby.");
    standbys().for_each(|node| family.sample(&[("node", &node.name)], node.served));
    let mut family = page.counter("consort_standby_refused_total", "Discarded results, by node and reason.");
    for node in standbys() {
        for (reason, count) in &node.refused {
            family.sample(&[("node", &node.name), ("reason", reason)], *count);
        }
    }
}

fn progress(page: &mut Page, view: &dyn View) {
    let gauges = view.gauges();
    page.counter("consort_probes_total", "Snapshot probes of the primary.").sample(&[], gauges.sent);
    page.counter("consort_probes_lost_total", "Snapshot probes without an answer.").sample(&[], gauges.lost);
    page.counter("consort_probes_void_total", "Snapshot probes answered before a restart of the primary.")
        .sample(&[], gauges.void);
    let mut family = page.counter("consort_probes_settled_total", "Settled snapshot probes, by rule.");
    family.sample(&[("rule", "quick")], gauges.settled_quick);
    family.sample(&[("rule", "lsn")], gauges.settled_by_lsn);
    page.gauge("consort_writers_anywhere", "1 if proofs account for writers that bypass Consort.")
        .sample(&[], u64::from(gauges.writers_anywhere));
    page.gauge("consort_is_leader", "1 if this Consort holds the leader lease, 0 if it stands by.")
        .sample(&[], u64::from(view.led_by().is_none()));
    page.gauge(
        "consort_in_flight_writes",
        "In-flight write sets: commits that may or may not be visible yet.",
    )
    .sample(&[], view.doubts().len() as u64);
    slots(page, &view.slots());
    feeds(page, &view.feeds());
    let mut family = page.gauge("consort_database_serving", "1 if reads of the database can be offloaded.");
    for database in view.databases() {
        family.sample(&[("database", &database.name)], u64::from(database.not_serving.is_none()));
    }
}

fn slots(page: &mut Page, slots: &[Slot]) {
    let of_databases = || slots.iter().filter_map(|slot| Some((slot.database.as_deref()?, slot)));
    let mut family =
        page.gauge("consort_slot_retained_bytes", "WAL that the primary retains for the slot, by database.");
    of_databases().for_each(|(name, slot)| family.sample(&[("database", name)], slot.kept_bytes));
    let mut family = page.gauge(
        "consort_slot_remaining_bytes",
        "WAL that may still be written before the slot is lost; absent without max_slot_wal_keep_size.",
    );
    for (name, slot) in of_databases() {
        if let Some(left) = slot.left_bytes {
            family.sample(&[("database", name)], left);
        }
    }
}

/// Writes nothing where no replica is fed.
fn feeds(page: &mut Page, feeds: &[Feed]) {
    if feeds.is_empty() {
        return;
    }
    let mut each = |name, help, value: fn(&Feed) -> u64| {
        let mut family = page.gauge(name, help);
        for feed in feeds {
            family.sample(&[("node", &feed.replica), ("database", &feed.database)], value(feed));
        }
    };
    each(
        "consort_replication_failed",
        "1 if the replica differs from the primary and must be rebuilt.",
        |feed| u64::from(feed.state == "failed"),
    );
    each(
        "consort_replication_waiting",
        "1 while the replica applies nothing; for the reason see SHOW REPLICATION.",
        |feed| u64::from(feed.state == "waiting"),
    );
    each("consort_replication_copying", "1 while the database is copied to the replica.", |feed| {
        u64::from(feed.state == "copying")
    });
    each("consort_replication_pending_commits", "Commits that the replica has not applied yet.", |feed| {
        feed.pending_commits
    });
    each(
        "consort_replication_pending_bytes",
        "Bytes of rows that the replica has not applied yet.",
        |feed| feed.pending_bytes,
    );
    each(
        "consort_replication_pending_file_bytes",
        "Bytes of rows not applied yet that are spilled to disk.",
        |feed| feed.pending_file_bytes,
    );
    each("consort_replication_lag_milliseconds", "Replication lag of the replica in milliseconds.", |feed| {
        u64::try_from(feed.lag.as_millis()).unwrap_or(u64::MAX)
    });
    let mut family = page.counter(
        "consort_replication_readers_cancelled_total",
        "Reads that blocked a refresh of the replica up to the limit.",
    );
    for feed in feeds {
        family.sample(&[("node", &feed.replica), ("database", &feed.database)], feed.readers_let_go);
    }
    let mut family = page.counter("consort_replication_steps_total", "Apply steps at the replica.");
    for feed in feeds {
        let mut sample = |how, count| {
            family.sample(&[("node", &feed.replica), ("database", &feed.database), ("how", how)], count);
        };
        sample("all", feed.steps.batches);
        sample("beside", feed.steps.beside);
        sample("again", feed.steps.again);
        sample("undone", feed.steps.undone);
    }
    let mut family =
        page.counter("consort_replication_copies_total", "Copies of the database started for the replica.");
    for feed in feeds {
        family.sample(&[("node", &feed.replica), ("database", &feed.database)], feed.copies);
    }
    let mut family = page.counter(
        "consort_replication_statements_total",
        "Statements that the replica executed instead of applying their rows.",
    );
    for feed in feeds {
        family.sample(&[("node", &feed.replica), ("database", &feed.database)], feed.steps.reruns);
    }
}

/// A page in the making.
#[derive(Default)]
struct Page {
    text: String,
}

/// One metric of a page, with its samples.
struct Family<'a> {
    page: &'a mut Page,
    name: &'static str,
}

impl Page {
    fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, help, "counter")
    }

    fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, help, "gauge")
    }

    fn family(&mut self, name: &'static str, help: &str, kind: &str) -> Family<'_> {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { page: self, name }
    }

    fn histogram(&mut self, name: &'static str, help: &str, histogram: &Histogram) {
        let page = self.family(name, help, "histogram").page;
        let mut below = 0;
        for (bound, bucket) in BUCKETS_US.iter().zip(histogram.buckets()) {
            below += bucket;
            let _ = writeln!(page.text, "{name}_bucket{{le=\"{}\"}} {below}", *bound as f64 / 1e6);
        }
        let count = histogram.count();
        let sum = histogram.sum_us() as f64 / 1e6;
        let _ = writeln!(
            page.text,
            "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}"
        );
    }
}

impl Family<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.page.text, "{}{labels} {value}", self.name);
    }

    fn by(mut self, label: &str, counts: BTreeMap<&'static str, u64>) {
        counts.iter().for_each(|(name, count)| self.sample(&[(label, name)], *count));
    }
}

/// Escapes a label's value for the text format.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::fixture;
    use std::time::Duration;

    #[test]
    fn a_histogram_counts_up_to_each_bound() {
        let histogram = Histogram::default();
        for us in [10, 50, 51, 2_000_000] {
            histogram.took(Duration::from_micros(us));
        }
        let mut page = Page::default();
        page.histogram("x_seconds", "X.", &histogram);
        assert!(page.text.contains("x_seconds_bucket{le=\"0.00005\"} 2\n"), "{}", page.text);
        assert!(page.text.contains("x_seconds_bucket{le=\"0.0001\"} 3\n"));
        assert!(page.text.contains("x_seconds_bucket{le=\"1\"} 3\nx_seconds_bucket{le=\"+Inf\"} 4\n"));
        assert!(page.text.contains("x_seconds_sum 2.000111\nx_seconds_count 4\n"));
    }

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.gauge("x", "X.").sample(&[("database", "a\"b\\c\nd")], 1);
        assert!(page.text.ends_with("x{database=\"a\\\"b\\\\c\\nd\"} 1\n"), "{}", page.text);
    }

    /// Labels that a scraper adds.
    const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

    /// Alert rules and dashboard use metrics that are on the page, by labels that they have there.
    fn the_files_for_operators_name_what_is_there(page: &str) {
        let is_word = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
        let declared: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let files = [
            include_str!("../../../packaging/alerts.yml"),
            include_str!("../../../packaging/dashboard.json"),
        ];
        for text in files {
            let mut named = 0;
            for word in text.split(|byte| !is_word(byte)).filter(|word| word.starts_with("consort_")) {
                let name = word.strip_suffix("_bucket").unwrap_or(word);
                assert!(declared.contains(&name), "there is no metric {word}");
                named += 1;
            }
            assert!(named > 10, "{named} metrics are named");
            let labels = text.match_indices("$labels.").chain(text.match_indices(" by ("));
            for (at, mark) in labels {
                let until = |byte: char| !is_word(byte) && !(mark == " by (" && (byte == ',' || byte == ' '));
                let list = text[at + mark.len()..].split(until).next().unwrap_or_default();
                for label in list.split(", ").filter(|label| !OF_PROMETHEUS.contains(label)) {
                    assert!(page.contains(&format!("{label}=\"")), "there is no label {label}");
                }
            }
        }
    }

    #[test]
    fn the_page_tells_what_was_counted_and_what_the_view_knows() {
        let metrics = Metrics::default();
        metrics.clients_refused.one("53300");
        metrics.statements_at_primary.one("in_flight");
        let page = page(&metrics, &fixture());
        for line in [
            "consort_clients_refused_total{sqlstate=\"53300\"} 1",
            "consort_statements_at_primary_total{reason=\"in_flight\"} 1",
            "consort_clients{state=\"waiting\"} 1",
            "consort_node_serving{node=\"primary\"} 1",
            "consort_standby_lag_bytes{node=\"standby1\"} 100",
            "consort_standby_refused_total{node=\"standby1\",reason=\"proof_late\"} 1",
            "consort_probes_settled_total{rule=\"quick\"} 10",
            "consort_in_flight_writes 2",
            "consort_is_leader 0",
            "consort_slot_retained_bytes{database=\"shop\"} 4096",
            "consort_slot_remaining_bytes{database=\"shop\"} 1024",
            "consort_replication_readers_cancelled_total{node=\"replica1\",database=\"shop\"} 1",
            "consort_replication_copies_total{node=\"replica1\",database=\"shop\"} 6",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
        the_files_for_operators_name_what_is_there(&page);
        let mut kinds = page.lines().filter(|line| line.starts_with("# TYPE")).collect::<Vec<_>>();
        kinds.dedup();
        assert_eq!(kinds.len(), page.matches("# TYPE").count(), "no metric is declared twice");
    }
}
