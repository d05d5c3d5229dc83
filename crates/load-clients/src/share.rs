//! Share of the reads at standbys, measured from outside: no answer names its server.
//!
//! The usual source is the servers' own statistics (`pg_stat_user_tables`: scans of a table of the workload),
//! which work with any proxy. The primary's scans beyond the workload's own writes were reads; the rest ran
//! at standbys. So a read that was tried at a standby and repeated at the primary counts as a read of the
//! primary. (A primary that crashes forgets its statistics: then the share is too high.) The other source is
//! an admin console. It answers `SHOW REPLICAS` with a name, a role and a count of reads, and perhaps `SHOW
//! ROUTES`, which reports tables and the reasons of reads at the primary. (Unreported counts of a killed
//! console count as reads at the primary: then the share is too low.)

use crate::console::{Told, Watch};
use crate::session::{Protocol, Session, Trouble};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Time for which an idle backend may hold back its counts (PostgreSQL's `PGSTAT_IDLE_INTERVAL`), and a bit.
const FLUSH_LIMIT: Duration = Duration::from_secs(13);

/// Interval of the queries for the statistics while counts are missing.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A server of the address, by a name for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name in the tables of results.
    pub name: String,
    /// Its own address, with the database of the workload.
    pub url: String,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Server, String> {
        match text.split_once('=') {
            Some((name, url)) if !name.is_empty() && !name.contains([':', '/', ' ']) => {
                Ok(Server { name: name.to_owned(), url: url.to_owned() })
            }
            _ => Err(format!("{text:?} is not NAME=URL, like standby1=postgres://127.0.0.1:5433/app")),
        }
    }
}

/// Source of the share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere.
    Nothing,
    /// The statistics of every server of the address.
    Statistics(Vec<Server>),
    /// The admin console at this address.
    Console(String),
}

impl Source {
    /// The servers if there are any, else the console, else nothing.
    #[must_use]
    pub fn of(servers: &[Server], console: Option<&str>) -> Source {
        match (servers, console) {
            ([], None) => Source::Nothing,
            ([], Some(url)) => Source::Console(url.to_owned()),
            (servers, _) => Source::Statistics(servers.to_vec()),
        }
    }
}

/// A workload's queries of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Statements that read it.
    pub reads: u64,
    /// Scans that the workload's own writes make, all at the primary.
    pub writes: u64,
}

/// Placement of the reads of one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The part of all reads that was served by standbys, 0 to 1.
    pub at_standbys: f64,
    /// The scans (or reads, from a console) of each server.
    pub by_server: BTreeMap<String, u64>,
    /// Reasons of reads at the primary, if a console reports them.
    pub reasons: BTreeMap<String, u64>,
}

impl Share {
    /// The reasons, the most frequent first, each with its count.
    #[must_use]
    pub fn why_not(&self) -> String {
        let mut reasons: Vec<(&String, &u64)> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    standby: bool,
    scans: HashMap<String, u64>,
}

/// Counters as they stood before a run.
pub struct Before {
    source: Source,
    counts: BTreeMap<String, Counts>,
    watch: Option<Watch>,
}

impl Before {
    /// Reads the counters. The tables are known by name at every server by now.
    ///
    /// # Errors
    /// A server or the console does not answer as expected.
    pub async fn read(source: &Source) -> Result<Before, Trouble> {
        let mut before = Before { source: source.clone(), counts: BTreeMap::new(), watch: None };
        match source {
            Source::Nothing => {}
            Source::Statistics(servers) => {
                for server in servers {
                    before.counts.insert(server.name.clone(), read_statistics(&server.url).await?);
                }
            }
            Source::Console(url) => before.watch = Some(Watch::begin(url).await?),
        }
        Ok(before)
    }

    /// Reads the counters again and returns each table's share; nothing if there is no source. Waits until
    /// the servers have reported all statements, for they report with a delay. If the primary is gone,
    /// nothing is known; a standby that is gone is left out.
    ///
    /// # Errors
    /// The console does not answer as expected.
    pub async fn shares(&self, asked: &BTreeMap<String, Asked>) -> Result<BTreeMap<String, Share>, Trouble> {
        if let Some(watch) = &self.watch {
            return Ok(told_shares(&watch.finish().await?, asked));
        }
        let Source::Statistics(servers) = &self.source else { return Ok(BTreeMap::new()) };
        let since = Instant::now();
        loop {
            let after = self.read_again(servers).await;
            let told = |after: &BTreeMap<String, Counts>| {
                asked.iter().all(|(table, asked)| {
                    let scans: u64 = after.keys().map(|name| self.difference(after, name, table)).sum();
                    scans >= asked.reads + asked.writes
                })
            };
            let late = since.elapsed() > FLUSH_LIMIT;
            match after {
                None if late => return Ok(BTreeMap::new()),
                Some(after) if late || told(&after) => {
                    let share = |(table, asked): (&String, &Asked)| {
                        (table.clone(), self.share_of(&after, table, *asked))
                    };
                    return Ok(asked.iter().map(share).collect());
                }
                _ => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }

    /// Nothing if the primary does not answer now.
    async fn read_again(&self, servers: &[Server]) -> Option<BTreeMap<String, Counts>> {
        let mut counts = BTreeMap::new();
        for server in servers {
            let was_standby = self.counts.get(&server.name).is_some_and(|counts| counts.standby);
            match read_statistics(&server.url).await {
                Ok(answer) => drop(counts.insert(server.name.clone(), answer)),
                Err(_) if was_standby => {}
                Err(_) => return None,
            }
        }
        Some(counts)
    }

    fn difference(&self, after: &BTreeMap<String, Counts>, server: &str, table: &str) -> u64 {
        let scans = |counts: &BTreeMap<String, Counts>| {
            counts.get(server).and_then(|counts| counts.scans.get(table)).copied().unwrap_or(0)
        };
        let (before, after) = (scans(&self.counts), scans(after));
        // A crash empties a server's statistics: what it counted since then is all that it knows.
        if after >= before { after - before } else { after }
    }

    fn share_of(&self, after: &BTreeMap<String, Counts>, table: &str, asked: Asked) -> Share {
        let by_server: BTreeMap<String, u64> =
            after.keys().map(|name| (name.clone(), self.difference(after, name, table))).collect();
        let primaries = after.iter().filter(|(_, counts)| !counts.standby);
        let scans: u64 = primaries.map(|(name, _)| by_server[name]).sum();
        let at_primary = scans.saturating_sub(asked.writes).min(asked.reads);
        Share {
            at_standbys: ratio(asked.reads - at_primary, asked.reads),
            by_server,
            reasons: BTreeMap::new(),
        }
    }
}

/// Each table's share by a console's report; a console that does not distinguish tables gives all of them the
/// same.
fn told_shares(told: &Told, asked: &BTreeMap<String, Asked>) -> BTreeMap<String, Share> {
    let all = asked.values().map(|asked| asked.reads).sum();
    let share = |(table, asked): (&String, &Asked)| {
        let mut by_server = BTreeMap::<String, u64>::new();
        let mut reasons = BTreeMap::<String, u64>::new();
        let reads = if let Some(routes) = &told.routes {
            for (route, &count) in routes.iter().filter(|(route, count)| route.reads(table) && **count > 0) {
                *by_server.entry(route.node.clone()).or_default() += count;
                if !told.standbys.contains(&route.node) {
                    *reasons.entry(route.reason.clone()).or_default() += count;
                }
            }
            asked.reads
        } else {
            by_server.clone_from(&told.served);
            all
        };
        let standbys = by_server.iter().filter(|(name, _)| told.standbys.contains(*name));
        let served: u64 = standbys.map(|(_, count)| count).sum();
        (table.clone(), Share { at_standbys: ratio(served.min(reads), reads), by_server, reasons })
    };
    asked.iter().map(share).collect()
}

/// Part of a whole; nothing of nothing is nothing.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of a run have far fewer than 52 bits")]
    let (part, whole) = (part as f64, whole as f64);
    if whole == 0.0 { 0.0 } else { part / whole }
}

async fn read_statistics(url: &str) -> Result<Counts, Trouble> {
    let session = Session::open(url, Protocol::Simple).await?;
    let rows = session
        .texts(
            "SELECT relname, coalesce(seq_scan, 0) + coalesce(idx_scan, 0) AS scans, pg_is_in_recovery() AS standby \
             FROM pg_stat_user_tables WHERE relname LIKE 'consort\\_bench\\_%'",
        )
        .await?;
    session.close().await;
    let mut counts = Counts::default();
    for row in rows {
        counts.standby = row.get("standby").is_some_and(|standby| standby == "t");
        let scans = row.get("scans").and_then(|scans| scans.parse().ok());
        if let (Some(table), Some(scans)) = (row.get("relname"), scans) {
            counts.scans.insert(table.clone(), scans);
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Route;

    fn counts(standby: bool, scans: u64) -> Counts {
        Counts { standby, scans: HashMap::from([("t".to_owned(), scans)]) }
    }

    #[test]
    fn what_the_primary_scanned_beyond_the_writes_was_reads() {
        let before = Before {
            source: Source::Statistics(Vec::new()),
            counts: BTreeMap::from([("p".to_owned(), counts(false, 100)), ("s".to_owned(), counts(true, 7))]),
            watch: None,
        };
        let after =
            BTreeMap::from([("p".to_owned(), counts(false, 160)), ("s".to_owned(), counts(true, 97))]);
        let share = before.share_of(&after, "t", Asked { reads: 100, writes: 40 });
        assert!((share.at_standbys - 0.8).abs() < 1e-9);
        assert_eq!(share.by_server["s"], 90);
    }

    fn told(routes: Option<Vec<(&str, &str, &str, u64)>>) -> Told {
        let route = |(node, statement, reason, count): (&str, &str, &str, u64)| {
            let text = str::to_owned;
            (
                Route {
                    database: String::new(),
                    node: text(node),
                    statement: text(statement),
                    reason: text(reason),
                },
                count,
            )
        };
        Told {
            standbys: ["s1", "s2"].map(str::to_owned).into(),
            served: [("p", 5), ("s1", 60), ("s2", 30)].map(|(name, count)| (name.to_owned(), count)).into(),
            routes: routes.map(|routes| routes.into_iter().map(route).collect()),
        }
    }

    #[test]
    fn a_console_counts_the_reads_of_standbys() {
        let asked = BTreeMap::from([("t".to_owned(), Asked { reads: 120, writes: 9 })]);
        let shares = told_shares(&told(None), &asked);
        assert!((shares["t"].at_standbys - 0.75).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn a_console_that_tells_statements_tells_tables_and_reasons() {
        let routes = vec![
            ("s1", "SELECT 1 FROM t", "positioned", 6),
            ("s2", "SELECT 1 FROM t", "positioned", 2),
            ("p", "SELECT 1 FROM t", "in_flight", 1),
            ("p", "UPDATE t SET a = 1", "writes", 50),
            ("p", "SELECT 1 FROM u", "standbys_behind", 4),
        ];
        let asked = |reads| Asked { reads, writes: 0 };
        let asked = BTreeMap::from([("t".to_owned(), asked(10)), ("u".to_owned(), asked(4))]);
        let shares = told_shares(&told(Some(routes)), &asked);
        // One of the ten was not reported: it counts as the primary's.
        assert!((shares["t"].at_standbys - 0.8).abs() < 1e-9, "{shares:?}");
        assert_eq!(shares["t"].why_not(), "in_flight 1");
        assert_eq!((shares["u"].at_standbys, shares["u"].why_not()), (0.0, "standbys_behind 4".to_owned()));
    }

    #[test]
    fn a_server_has_a_name() {
        let server: Server = "s1=postgres://h/d?a=b".parse().unwrap();
        assert_eq!((server.name.as_str(), server.url.as_str()), ("s1", "postgres://h/d?a=b"));
        assert!("postgres://h/d?a=b".parse::<Server>().is_err());
    }
}
