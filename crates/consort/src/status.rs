//! `consort status`: the nodes, their positions, the placement of reads, and the in-flight write sets.

use clap::Args;
use postgres::attach::SlotFault;
use serde_json::{Map, Value, json};

use crate::cluster_in::{Found, Which};
use crate::console::{self, Row, Rows, value};
use crate::failure::Failure;
use crate::redis_client::Connection;
use crate::{feeds, seed, up};

/// Show the status of the cluster: nodes, positions, read offload, in-flight write sets, snapshot probes
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  consort status
  consort status --config /etc/consort.toml --json

The command uses the console of the running Consort, which has more: consort psql -d consort -c 'SHOW HELP'";

/// Commands at the console, in this order.
const COMMANDS: &[&str] = &[
    "SHOW REPLICAS",
    "SHOW SNAPSHOTS",
    "SHOW IN_FLIGHT",
    "SHOW REPLICATION",
    "SHOW LEADER",
    "SHOW SLOTS",
    "SHOW VERSION",
];

/// Columns whose values are texts although they may look like numbers.
const TEXTS: &[&str] =
    &["name", "host", "database", "why", "footprint", "node", "table", "what", "first_key", "led_by", "slot"];

/// Prints how it is.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find_any()?;
    if found.config.design().has_nodes() {
        return peers(&found, options.json);
    }
    if found.config.design().is_key_value() {
        return key_value(&found, options.json);
    }
    let runtime = crate::runtime()?;
    let answers = runtime.block_on(console::ask(&found, COMMANDS))?;
    let [replicas, gauges, doubts, feeds, lead, slots, version] =
        answers.try_into().expect("as many answers as questions");
    if options.json {
        println!("{:#}", as_json(&found, [&replicas, &gauges, &doubts, &feeds, &lead, &slots], &version)?);
        return Ok(());
    }
    let version = value(version.first(), "version").unwrap_or("Consort");
    println!("{version} at {} (design {})", up::url(&found.config), found.config.design().name);
    if let Some(led_by) = value(lead.first(), "led_by") {
        let serves = match value(lead.first(), "serves") {
            Some("1") => "its clients run at the primary",
            _ => "clients are rejected",
        };
        println!("standing by: another Consort leads ({led_by}); until a takeover {serves}");
    }
    println!();
    print_table(&nodes(&replicas));
    println!();
    for database in &gauges {
        let name = value(Some(database), "database").unwrap_or_default();
        let slot = slot(database);
        match value(Some(database), "why_not_serving") {
            None => println!("database {name}: reads are offloaded{slot}"),
            Some(why) => println!("database {name}: reads stay at the primary: {why}{slot}"),
        }
        if let Some(why) = value(Some(database), "extension_differences") {
            println!("database {name}: reads with an extension stay at the primary: {why}");
        }
        if value(Some(database), "paused") == Some("1") {
            println!("database {name}: paused, new transactions wait until RESUME");
        }
    }
    slots.iter().filter_map(|slot| faulty(slot, &found.option())).for_each(|line| println!("{line}"));
    for feed in &feeds {
        let of = |column| value(Some(feed), column).unwrap_or_default();
        println!("{}, database {}: {}", of("name"), of("database"), feeds::state(feed));
    }
    if let Some(seed) = found.seed() {
        println!("{}", seed::in_words(&seed));
    }
    let count = |column| value(gauges.first(), column).unwrap_or("0");
    let (sent, quick, by_lsn) = (count("sent"), count("settled_quick"), count("settled_by_lsn"));
    println!(
        "snapshot probes: {sent} sent, {quick} settled at once, {by_lsn} by WAL position; in-flight write sets: {}; writers: {}",
        doubts.len(),
        value(gauges.first(), "writers").unwrap_or("unknown")
    );
    Ok(())
}

/// Columns of nodes that all take writes, one line for each database.
const PEER_COLUMNS: &[&str] =
    &["node", "database", "state", "version", "newest", "sessions", "conflicts", "capture", "why"];
/// Columns of nodes of an in-memory tier.
const TIER_COLUMNS: &[&str] =
    &["node", "role", "state", "received", "newest", "transactions", "bytes", "commits", "why"];

/// Figures of a key-value design.
const KEY_VALUE_FIGURES: &[&str] = &[
    "database",
    "store",
    "store_location",
    "connected_clients",
    "clients_in_transaction",
    "newest_commit",
    "newest_flushed",
    "active_transactions",
    "old_version_bytes",
    "evicted_versions",
    "commits",
    "conflicts",
    "repeated_transactions",
];
/// Columns of the servers behind an in-memory tier.
const BACK_END_COLUMNS: &[&str] = &["back_end", "state", "applied", "lag", "why"];

/// The same for a design with nodes of one kind.
fn peers(found: &Found, json: bool) -> Result<(), Failure> {
    let mut commands = vec!["SHOW NODES", "SHOW VERSION"];
    if !found.config.peers.back_ends.is_empty() {
        commands.push("SHOW BACK_ENDS");
    }
    let mut answers = crate::runtime()?.block_on(console::ask(found, &commands))?;
    let back_ends = answers.split_off(2).pop().unwrap_or_default();
    let [nodes, version] = answers.try_into().expect("as many answers as questions");
    let (version, design) = (value(version.first(), "version"), found.config.design().name);
    if json {
        let nodes = objects(&nodes);
        let url = up::url(&found.config);
        let mut shown = json!({ "version": version, "url": url, "design": design, "nodes": nodes });
        if found.config.design().is_memory_tier() {
            shown["back_ends"] = json!(objects(&back_ends));
        }
        println!("{shown:#}");
        return Ok(());
    }
    println!("{} at {} (design {design})", version.unwrap_or("Consort"), up::url(&found.config));
    println!();
    let columns = if found.config.design().is_memory_tier() { TIER_COLUMNS } else { PEER_COLUMNS };
    let mut lines = vec![columns.iter().map(|column| column.to_uppercase()).collect::<Vec<_>>()];
    let text = |row, column| value(Some(row), column).unwrap_or_default().to_owned();
    lines.extend(nodes.iter().map(|row| columns.iter().map(|column| text(row, column)).collect()));
    print_table(&lines);
    if !back_ends.is_empty() {
        println!();
        let mut lines = vec![BACK_END_COLUMNS.iter().map(|column| column.to_uppercase()).collect::<Vec<_>>()];
        lines.extend(
            back_ends.iter().map(|row| BACK_END_COLUMNS.iter().map(|column| text(row, column)).collect()),
        );
        print_table(&lines);
    }
    Ok(())
}

/// The same for a key-value design: the figures of INFO.
fn key_value(found: &Found, json: bool) -> Result<(), Failure> {
    let info = Connection::open(found)?.ask(&[b"INFO"])?.text();
    let figures: Vec<(&str, &str)> = info.lines().filter_map(|line| line.split_once(':')).collect();
    let of =
        |name: &str| figures.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value.trim_end());
    let (url, design) = (up::url(&found.config), found.config.design().name);
    if json {
        let figures: Map<String, Value> =
            figures.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.trim_end()))).collect();
        println!("{:#}", json!({ "url": url, "design": design, "figures": figures }));
        return Ok(());
    }
    println!("Consort {} at {url} (design {design})", of("consort_version"));
    println!();
    let mut lines = vec![vec!["FIGURE".to_owned(), "VALUE".to_owned()]];
    lines.extend(KEY_VALUE_FIGURES.iter().map(|name| vec![(*name).to_owned(), of(name).to_owned()]));
    print_table(&lines);
    Ok(())
}

/// The WAL that a database's slot keeps at the primary, as the end of a line.
fn slot(database: &Row) -> String {
    let megabytes = |column| {
        let bytes = value(Some(database), column)?.parse::<f64>().ok()?;
        Some(format!("{:.1} MB", bytes / f64::from(1 << 20)))
    };
    match (megabytes("slot_retained_bytes"), megabytes("slot_remaining_bytes")) {
        (None, _) => String::new(),
        (Some(kept), None) => format!("; its slot retains {kept} of WAL, without a limit"),
        (Some(kept), Some(left)) => {
            format!("; its slot retains {kept} of WAL, and is lost after {left} more")
        }
    }
}

/// A slot at the primary that is faulty, with the line that fixes it.
fn faulty(slot: &Row, option: &str) -> Option<String> {
    let of = |column| value(Some(slot), column);
    let fault = SlotFault::named(of("fault")?)?;
    let kept_bytes = of("retained_bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
    let (name, database) = (of("slot")?, of("database").unwrap_or_default());
    Some(format!("{}\n    {}", fault.what(name, kept_bytes), fault.fix(&format!("{option} "), database)))
}

/// The nodes as lines of a table, with each one's share of the reads.
fn nodes(replicas: &Rows) -> Vec<Vec<String>> {
    let served = |row| {
        value(Some(row), "reads_served").and_then(|count| count.parse::<f64>().ok()).unwrap_or_default()
    };
    let all: f64 = replicas.iter().map(served).sum();
    let head = ["NODE", "ROLE", "STATE", "HOST", "PORT", "REPLAYED", "LAG", "READS", "SHARE", "WHY"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in replicas {
        let text = |column| value(Some(row), column).unwrap_or_default().to_owned();
        let lag = value(Some(row), "lag_bytes").map(|bytes| format!("{bytes} B")).unwrap_or_default();
        let share = if all > 0.0 { format!("{:.1} %", 100.0 * served(row) / all) } else { String::new() };
        lines.push(vec![
            text("name"),
            text("role"),
            text("state"),
            text("host"),
            text("port"),
            text("replayed_lsn"),
            lag,
            text("reads_served"),
            share,
            text("why"),
        ]);
    }
    lines
}

/// Columns as wide as their widest value.
pub(crate) fn print_table(lines: &[Vec<String>]) {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let padded: Vec<String> =
            line.iter().zip(&widths).map(|(text, width)| format!("{text:width$}")).collect();
        println!("{}", padded.join("  ").trim_end());
    }
}

fn as_json(
    found: &Found,
    [replicas, gauges, doubts, feeds, lead, slots]: [&Rows; 6],
    version: &Rows,
) -> Result<Value, Failure> {
    let local = found.local()?;
    let data_folder = |name: &str| {
        let node = local.as_ref()?.nodes().iter().find(|node| node.name() == name)?;
        Some(node.data_folder().display().to_string())
    };
    let mut nodes = objects(replicas);
    for node in &mut nodes {
        let folder = node.get("name").and_then(Value::as_str).and_then(data_folder);
        if let (Some(folder), Some(object)) = (folder, node.as_object_mut()) {
            object.insert("data_folder".to_owned(), Value::String(folder));
        }
    }
    Ok(json!({
        "version": value(version.first(), "version"),
        "url": up::url(&found.config),
        "configuration": found.config_file.display().to_string(),
        "design": found.config.design().name,
        "nodes": nodes,
        "databases": objects(gauges),
        "in_flight": objects(doubts),
        "replication": objects(feeds),
        "slots": objects(slots),
        "leader": objects(lead).into_iter().next(),
        "seed": found.seed().as_ref().map(seed::as_json),
    }))
}

/// Rows as JSON objects; what is a number becomes one.
pub(crate) fn objects(rows: &Rows) -> Vec<Value> {
    let one = |(column, text): &(String, Option<String>)| {
        let number = || text.as_ref().filter(|_| !TEXTS.contains(&column.as_str()))?.parse::<i64>().ok();
        let value = number().map_or_else(|| text.clone().map_or(Value::Null, Value::String), Value::from);
        (column.clone(), value)
    };
    rows.iter().map(|row| Value::Object(row.iter().map(one).collect::<Map<_, _>>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pairs: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect()
    }

    #[test]
    fn each_node_has_its_share_of_the_reads() {
        let replicas = vec![
            row(&[("name", Some("primary")), ("reads_served", Some("1"))]),
            row(&[("name", Some("standby1")), ("reads_served", Some("3")), ("lag_bytes", Some("0"))]),
        ];
        let lines = nodes(&replicas);
        assert_eq!(lines[1][8], "25.0 %");
        assert_eq!((lines[2][6].as_str(), lines[2][8].as_str()), ("0 B", "75.0 %"));
    }

    #[test]
    fn what_a_slot_keeps_is_told_in_megabytes() {
        let limited = row(&[("slot_retained_bytes", Some("1572864")), ("slot_remaining_bytes", Some("0"))]);
        assert_eq!(slot(&limited), "; its slot retains 1.5 MB of WAL, and is lost after 0.0 MB more");
        assert_eq!(slot(&row(&[("slot_retained_bytes", None)])), "");
    }

    #[test]
    fn a_faulty_slot_is_told_with_its_fix() {
        let slot = |fault| {
            row(&[
                ("slot", Some("consort_shop_5")),
                ("database", Some("shop")),
                ("retained_bytes", Some("3145728")),
                ("fault", fault),
            ])
        };
        assert_eq!(faulty(&slot(None), "--dir a"), None);
        let line = faulty(&slot(Some("lost")), "--dir a").unwrap();
        assert!(
            line.contains("consort_shop_5 is lost") && line.ends_with("\n    consort repair --dir a"),
            "{line}"
        );
    }

    #[test]
    fn numbers_are_numbers_in_json() {
        let rows = vec![row(&[("name", Some("7")), ("port", Some("5432")), ("why", None)])];
        assert_eq!(objects(&rows), [json!({"name": "7", "port": 5432, "why": null})]);
    }
}
