//! `consort verify`: whether the replicas that Consort feeds have the primary's rows.

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::timeout;

use crate::cluster_in::{Found, Which};
use crate::console::{self, Row, Rows, value};
use crate::failure::Failure;
use crate::status::{objects, print_table};

/// Compare logical replicas with the primary row by row, online
///
/// All tables are compared at one snapshot of the primary, which each replica reaches for a moment. Writes
/// continue; ALTER TABLE and TRUNCATE wait until the end, as for pg_dump.
///
/// A replica that differs stops serving reads of that database. With --repair, Consort rewrites the rows that
/// differ from a snapshot of the primary, if only rows of tables with a key differ, at most 10,000 of them
/// (or 64 MB). Otherwise it copies the database again. Then it compares again, and the replica serves.
/// Without --repair, the replica stays unchanged for inspection and replication to it stops; a later repair
/// is a new copy.
///
/// An in-memory tier is compared with its back ends, table by table at one version.
///
/// Nodes that all take writes are compared with each other at one version. A node that differs from most of them
/// takes no sessions from then on; `consort repair --node NAME` makes it again from a copy of another node.
///
/// Excluded are physical standbys (PostgreSQL replays WAL there), and objects without rows at replicas:
/// unlogged tables, materialized views, foreign tables, large objects, sequences.
///
/// Exit codes: 0 all tables are equal or were repaired; 1 a table differs or a replica could not be compared;
/// 3 Consort is not running.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Database to compare; default: all databases used since the start of Consort
    #[arg(value_name = "DATABASE")]
    database: Option<String>,
    /// Repair differences, by rows if possible, otherwise by a new copy, and compare again
    #[arg(long)]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  consort verify
  consort verify shop --repair
  consort verify --config /etc/consort.toml --json

The console has the same: VERIFY [database] [REPAIR]; SHOW VERIFY shows the progress.";

/// Interval of the progress reports.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Compares, and says what was found.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find_any()?;
    let lines = if found.config.design().is_certified() {
        if options.repair || options.database.is_some() {
            let why = "where every node takes writes, all databases are compared, and a node that differs is made again from a \
                       copy: consort repair --node NAME";
            return Err(Failure::new(why));
        }
        crate::runtime()?.block_on(ask(&found, "VERIFY"))?
    } else if found.config.peers.back_ends.is_empty() {
        let found = options.which.find()?;
        crate::runtime()?.block_on(ask(&found, &command(options)))?
    } else {
        if options.repair || options.database.is_some() {
            let why = "a tier in memory has one database, and its back ends are not repaired by rows: empty the database of the \
                       back end, and restart Consort, which copies it again";
            return Err(Failure::new(why));
        }
        let answers = crate::runtime()?.block_on(console::ask_patiently(&found, &["VERIFY"]))?;
        answers.into_iter().next().unwrap_or_default()
    };
    if options.json {
        println!("{:#}", json!(objects(&lines)));
    } else {
        print(&lines);
    }
    judge(&lines)
}

/// The command for the console.
fn command(options: &Options) -> String {
    let database = options.database.as_ref().map_or_else(String::new, |name| format!(" \"{name}\""));
    let repair = if options.repair { " REPAIR" } else { "" };
    format!("VERIFY{database}{repair}")
}

/// Asks, and says meanwhile how far it has come.
async fn ask(found: &Found, command: &str) -> Result<Rows, Failure> {
    let commands = [command];
    let mut answers = pin!(console::ask_patiently(found, &commands));
    let mut said = String::new();
    loop {
        if let Ok(answers) = timeout(PROGRESS_EVERY, &mut answers).await {
            return Ok(answers?.pop().unwrap_or_default());
        }
        let now = console::ask(found, &["SHOW VERIFY"]).await.unwrap_or_default();
        let progress = now.first().and_then(|rows| rows.first()).map(progress);
        if let Some(progress) = progress.filter(|progress| *progress != said) {
            eprintln!("{progress}");
            said = progress;
        }
    }
}

fn progress(row: &Row) -> String {
    let text = |column| value(Some(row), column).unwrap_or_default();
    let (database, step) = (text("database"), text("step"));
    match value(Some(row), "table") {
        Some(table) => {
            format!("{database}: {step} {table} ({} of {} tables done)", text("tables_done"), text("tables"))
        }
        None => format!("{database}: {step} .."),
    }
}

fn print(lines: &Rows) {
    let head = ["NODE", "DATABASE", "TABLE", "ROWS", "STATE", "WHAT", "FIRST KEY"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for line in lines {
        let text = |column| value(Some(line), column).unwrap_or_default().to_owned();
        let columns = ["node", "database", "table", "rows", "state", "what", "first_key"];
        table.push(columns.map(text).to_vec());
    }
    print_table(&table);
}

/// Fails unless all is well.
fn judge(lines: &Rows) -> Result<(), Failure> {
    let count = |state: &str| lines.iter().filter(|line| value(Some(line), "state") == Some(state)).count();
    let (differ, unreached) = (count("differs"), count("unreached"));
    if lines.is_empty() {
        return Err(Failure::new(
            "nothing to compare: no database has been used yet, or the cluster has no replica",
        ));
    }
    if differ + unreached > 0 {
        return Err(Failure::new(format!("{differ} differ, {unreached} could not be compared")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pairs: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
    }

    #[test]
    fn what_differs_and_what_could_not_be_compared_is_a_failure() {
        let lines = |states: &[&str]| states.iter().map(|state| line(&[("state", state)])).collect::<Rows>();
        assert!(judge(&lines(&["equal", "repaired", "left out"])).is_ok());
        assert!(judge(&lines(&["equal", "differs"])).unwrap_err().to_string().contains("1 differ"));
        assert!(judge(&lines(&["unreached"])).is_err());
        assert!(judge(&Vec::new()).is_err());
    }

    #[test]
    fn how_far_it_has_come_is_a_sentence() {
        let far = [
            ("database", "shop"),
            ("step", "comparing"),
            ("tables_done", "3"),
            ("tables", "9"),
            ("table", "public.orders"),
        ];
        assert_eq!(progress(&line(&far)), "shop: comparing public.orders (3 of 9 tables done)");
        assert_eq!(progress(&line(&far[..2])), "shop: comparing ..");
    }
}
