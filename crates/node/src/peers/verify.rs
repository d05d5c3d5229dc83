//! Compares the rows of all nodes that serve, at one version. A node that differs from most of them leaves: it takes no
//! sessions until it is made again.

use crate::node_console::Table as Lines;
use certified::{Cluster, State};
use postgres::Error;
use postgres::address::Address;
use replica_apply::verify::{Difference, Side, Source, Table, compare, only_at, tables};
use std::cell::RefCell;
use std::rc::Rc;
use wire::Problem;

/// Attempts at snapshots of one version: commands that change the catalog come between.
const ATTEMPTS: usize = 5;

/// Progress of a comparison that runs: database, step, table, tables that are done, tables.
#[derive(Default)]
pub(super) struct Progress(RefCell<Option<[String; 5]>>);

impl Progress {
    fn says(&self, database: &str, step: &str, table: &str, done: usize, all: usize) {
        let texts = [database, step, table, &done.to_string(), &all.to_string()];
        self.0.replace(Some(texts.map(str::to_owned)));
    }

    /// For the console.
    pub(super) fn shown(&self) -> Lines {
        let lines = self.0.borrow().iter().map(|row| row.to_vec()).collect();
        (&["database", "step", "table", "tables_done", "tables"], lines)
    }
}

/// Ends the progress when the comparison does.
struct Running<'a>(&'a Progress);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.0.take();
    }
}

/// Finding about one table of one node.
struct Finding {
    node: String,
    table: String,
    rows: u64,
    left_out: Option<&'static str>,
    difference: Option<Difference>,
}

/// Compares each open database; a line for each table of each node.
pub(super) async fn verify(cluster: &Rc<Cluster>, progress: &Progress) -> Result<Lines, Problem> {
    if progress.0.borrow().is_some() {
        return Err(Problem::error("55000", "a comparison runs already").hint("SHOW VERIFY"));
    }
    let _running = Running(progress);
    let mut lines = Vec::new();
    for database in cluster.databases() {
        for shown in cluster.shown().into_iter().filter(|shown| shown.database == database) {
            if let State::Down(why) = shown.state {
                lines.push(line(&shown.node, &database, "", 0, "unreached", why, ""));
            }
        }
        match of_database(cluster, &database, progress).await {
            Ok(found) => lines.extend(found),
            Err(error) => lines.push(line("", &database, "", 0, "unreached", error.to_string(), "")),
        }
    }
    Ok((&["node", "database", "table", "rows", "state", "what", "first_key"], lines))
}

fn line(
    node: &str,
    database: &str,
    table: &str,
    rows: u64,
    state: &str,
    what: String,
    key: &str,
) -> Vec<String> {
    [node, database, table, &rows.to_string(), state, &what, key].map(str::to_owned).to_vec()
}

async fn of_database(
    cluster: &Rc<Cluster>,
    database: &str,
    progress: &Progress,
) -> Result<Vec<Vec<String>>, Error> {
    progress.says(database, "waiting for one version", "", 0, 0);
    let (version, mut sides) = snapshots(cluster, database).await?;
    let count = sides.len();
    let (mut first, mut verdict) = (None, None);
    for _ in 0..count {
        let found = against_the_first(&mut sides, database, progress).await?;
        let mut differing: Vec<String> = found
            .iter()
            .filter(|finding| finding.difference.is_some())
            .map(|finding| finding.node.clone())
            .collect();
        differing.sort();
        differing.dedup();
        if 2 * (count - differing.len()) > count {
            verdict = Some((found, differing));
            break;
        }
        first.get_or_insert(found);
        sides.rotate_left(1);
    }
    let has_majority = verdict.is_some();
    let (found, differing) = verdict.unwrap_or_else(|| (first.unwrap_or_default(), Vec::new()));
    for node in &differing {
        let own = found.iter().find(|finding| finding.node == *node && finding.difference.is_some());
        let table = own.map_or("", |finding| finding.table.as_str());
        let why = format!(
            "the node has other rows than most nodes at {version} (table {table}). Make the node again from a copy of \
             another one"
        );
        if let Err(error) = cluster.expels(database, node, &why).await {
            tracing::error!(node, error, "the node could not be marked");
        }
    }
    let shown = |finding: Finding| {
        let Finding { node, table, rows, left_out, difference } = finding;
        let (state, what, key) = match (difference, left_out) {
            (Some(Difference { what, key, .. }), _) if has_majority => ("differs", what, key),
            (Some(Difference { what, key, .. }), _) => {
                ("differs", format!("rows differ: {what}; no node leaves, as no majority agrees"), key)
            }
            (None, Some(why)) => ("left out", why.to_owned(), None),
            (None, None) => ("equal", format!("at {version}"), None),
        };
        line(&node, database, &table, rows, state, what, key.as_deref().unwrap_or_default())
    };
    Ok(found.into_iter().map(shown).collect())
}

/// Snapshots of one version at all nodes that serve. Their tables are locked before: TRUNCATE and ALTER TABLE wait.
async fn snapshots(cluster: &Rc<Cluster>, database: &str) -> Result<(String, Vec<(String, Side)>), Error> {
    let mut attempts = 1;
    loop {
        match snapshots_once(cluster, database).await {
            Err(error) if attempts == ATTEMPTS => return Err(error),
            Err(error) => tracing::debug!(%error, database, "no snapshots of one version; trying again"),
            taken => return taken,
        }
        attempts += 1;
    }
}

async fn snapshots_once(
    cluster: &Rc<Cluster>,
    database: &str,
) -> Result<(String, Vec<(String, Side)>), Error> {
    let mut sources: Vec<(String, Address, Source)> = Vec::new();
    for (name, address) in cluster.serving(database) {
        let source = Source::lock(&address).await?;
        sources.push((name, address, source));
    }
    let held = cluster.hold(database).await.map_err(Error::NotReady)?;
    let mut sides = Vec::new();
    for (name, address, source) in sources {
        if held.nodes.iter().any(|(_, there)| *there == address) {
            sides.push((name, source.look().await?.0));
        }
    }
    Ok((held.version.to_string(), sides))
}

/// Compares the first node with the others.
async fn against_the_first(
    sides: &mut [(String, Side)],
    database: &str,
    progress: &Progress,
) -> Result<Vec<Finding>, Error> {
    let Some(((_, reference), others)) = sides.split_first_mut() else { return Ok(Vec::new()) };
    let all = tables(reference).await?;
    let mut found = Vec::new();
    for (done, table) in all.iter().enumerate() {
        progress.says(database, "comparing", table.shown(), done, all.len());
        compare_table(reference, others, table, &mut found).await?;
    }
    for (node, side) in others {
        for table in only_at(side, &all).await? {
            let what = "is missing at other nodes".to_owned();
            let difference = Some(Difference { what, key: None, by_rows: false });
            found.push(Finding { node: node.clone(), table, rows: 0, left_out: None, difference });
        }
    }
    Ok(found)
}

async fn compare_table(
    reference: &mut Side,
    others: &mut [(String, Side)],
    table: &Table,
    found: &mut Vec<Finding>,
) -> Result<(), Error> {
    let names: Vec<String> = others.iter().map(|(name, _)| name.clone()).collect();
    let finding = |node: String, rows, difference| Finding {
        node,
        table: table.shown().to_owned(),
        rows,
        left_out: table.left_out(),
        difference,
    };
    if table.left_out().is_some() {
        found.extend(names.into_iter().map(|node| finding(node, 0, None)));
        return Ok(());
    }
    let mut others: Vec<&mut Side> = others.iter_mut().map(|(_, side)| side).collect();
    let compared = compare(reference, &mut others, table).await?;
    let each = names.into_iter().zip(compared.found);
    found.extend(each.map(|(node, difference)| finding(node, compared.rows, difference)));
    Ok(())
}
