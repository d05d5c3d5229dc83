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

/// Compare the replicas that Consort feeds with the primary, row for row, while the cluster works
///
/// Every table is compared in one state of the database: the primary's snapshot, to which each replica is brought for a
/// moment. Writers go on; what would change or empty a table (ALTER TABLE, TRUNCATE) waits until the end, as for pg_dump.
///
/// A replica that differs serves no reads of that database from then on. With --repair the rows that differ are written there
/// from a snapshot of the primary, if rows alone differ, of tables with a key, and no more than 10,000 of them (or 64 MB); else
/// the database is copied to it anew. Then it is compared again, and serves. Without --repair it stays as it is for you to look
/// at, and is fed no more: a repair is a new copy then.
///
/// Not compared are physical standbys (PostgreSQL replays the primary's log there), and what replicas have no rows of:
/// unlogged tables, materialized views, foreign tables, large objects, sequences.
///
/// Exit codes: 0 all that was compared is equal, or was repaired; 1 something differs, or a replica could not be compared;
/// 3 Consort does not run.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// One database; without it all that Consort follows (a database is followed from its first use on)
    #[arg(value_name = "DATABASE")]
    database: Option<String>,
    /// Repair what differs, rows where that suffices, by a new copy else, and compare it again
    #[arg(long)]
    repair: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  consort verify
  consort verify shop --repair
  consort verify --config /etc/consort.toml --json

The console has the same: VERIFY [database] [REPAIR]; and SHOW VERIFY tells how far it has come.";

/// How often is said how far it has come.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Compares, and says what was found.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find()?;
    let lines = crate::runtime()?.block_on(ask(&found, &command(options)))?;
    if options.json {
        println!("{:#}", json!(objects(&lines)));
    } else {
        print(&lines);
    }
    judge(&lines)
}

/// What the console is asked.
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

/// Whether all is well.
fn judge(lines: &Rows) -> Result<(), Failure> {
    let count = |state: &str| lines.iter().filter(|line| value(Some(line), "state") == Some(state)).count();
    let (differ, unreached) = (count("differs"), count("unreached"));
    if lines.is_empty() {
        return Err(Failure::new(
            "there is nothing to compare: no database is followed yet, or no node is there",
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
