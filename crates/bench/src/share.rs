//! Which share of the reads ran at standbys, learnt from outside: no answer says where it came from.
//!
//! The usual source is the servers' own statistics (`pg_stat_user_tables`: scans of a table of the workload), which work
//! with any proxy. What the primary scanned beyond the workload's own writes was reads; the rest ran at standbys. So a
//! read that was tried at a standby and repeated at the primary counts as a read of the primary. (A primary that crashes
//! forgets its statistics: then the share is too high.) The other source is an
//! admin console that answers `SHOW REPLICAS` with a name, a role and a count of reads.

use crate::session::{Protocol, Session, Trouble};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long an idle backend may keep its counts to itself (PostgreSQL's `PGSTAT_IDLE_INTERVAL`), and a bit.
const FLUSH_LIMIT: Duration = Duration::from_secs(13);

/// How often the statistics are asked again while counts are missing.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A server behind the address, by a name for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// How the tables of results call it.
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
            _ => Err(format!("{text:?} should be NAME=URL, like standby1=postgres://127.0.0.1:5433/app")),
        }
    }
}

/// Where to learn it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere.
    Nothing,
    /// The statistics of every server behind the address.
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

/// What a workload asked for at one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Statements that read it.
    pub reads: u64,
    /// Scans that the workload's own writes make, all at the primary.
    pub writes: u64,
}

/// Where the reads of one table ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The part of all reads that was served by standbys, 0 to 1.
    pub at_standbys: f64,
    /// The scans (or reads, from a console) of each server.
    pub by_server: BTreeMap<String, u64>,
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
}

impl Before {
    /// Reads the counters. The tables are known by name at every server by now.
    ///
    /// # Errors
    /// A server or the console does not answer as expected.
    pub async fn read(source: &Source) -> Result<Before, Trouble> {
        Ok(Before { source: source.clone(), counts: read(source).await? })
    }

    /// Reads the counters again and returns each table's share; nothing if there is no source. Waits until the servers
    /// have told all that was asked of them, for they tell with a delay. If the primary or the console is gone, nothing is
    /// known; a standby that is gone is left out.
    ///
    /// # Errors
    /// The console does not answer as expected.
    pub async fn shares(&self, asked: &BTreeMap<String, Asked>) -> Result<BTreeMap<String, Share>, Trouble> {
        let since = Instant::now();
        loop {
            let Some(after) = self.read_again().await? else {
                if since.elapsed() > FLUSH_LIMIT {
                    return Ok(BTreeMap::new());
                }
                tokio::time::sleep(ASK_AGAIN).await;
                continue;
            };
            let told = asked.iter().all(|(table, asked)| {
                let scans: u64 = after.keys().map(|name| self.difference(&after, name, table)).sum();
                scans >= asked.reads + asked.writes
            });
            let complete = told || !matches!(self.source, Source::Statistics(_));
            if complete || since.elapsed() > FLUSH_LIMIT {
                return Ok(self.between(&after, asked));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Nothing if the primary or the console does not answer now.
    async fn read_again(&self) -> Result<Option<BTreeMap<String, Counts>>, Trouble> {
        let Source::Statistics(servers) = &self.source else {
            return match read(&self.source).await {
                Err(Trouble::Unexpected(problem)) => Err(Trouble::Unexpected(problem)),
                answer => Ok(answer.ok()),
            };
        };
        let mut counts = BTreeMap::new();
        for server in servers {
            let was_standby = self.counts.get(&server.name).is_some_and(|counts| counts.standby);
            match read_statistics(&server.url).await {
                Ok(answer) => drop(counts.insert(server.name.clone(), answer)),
                Err(_) if was_standby => {}
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(counts))
    }

    fn difference(&self, after: &BTreeMap<String, Counts>, server: &str, table: &str) -> u64 {
        let scans = |counts: &BTreeMap<String, Counts>| {
            counts.get(server).and_then(|counts| counts.scans.get(table)).copied().unwrap_or(0)
        };
        let (before, after) = (scans(&self.counts), scans(after));
        // A crash empties a server's statistics: what it counted since then is all that it knows.
        if after >= before { after - before } else { after }
    }

    fn between(
        &self,
        after: &BTreeMap<String, Counts>,
        asked: &BTreeMap<String, Asked>,
    ) -> BTreeMap<String, Share> {
        match self.source {
            Source::Nothing => BTreeMap::new(),
            Source::Statistics(_) => {
                let share =
                    |(table, asked): (&String, &Asked)| (table.clone(), self.share_of(after, table, *asked));
                asked.iter().map(share).collect()
            }
            Source::Console(_) => {
                let reads = asked.values().map(|asked| asked.reads).sum();
                let all = self.share_by_standbys(after, reads);
                asked.keys().map(|table| (table.clone(), all.clone())).collect()
            }
        }
    }

    fn share_of(&self, after: &BTreeMap<String, Counts>, table: &str, asked: Asked) -> Share {
        let by_server: BTreeMap<String, u64> =
            after.keys().map(|name| (name.clone(), self.difference(after, name, table))).collect();
        let primaries = after.iter().filter(|(_, counts)| !counts.standby);
        let scans: u64 = primaries.map(|(name, _)| by_server[name]).sum();
        let at_primary = scans.saturating_sub(asked.writes).min(asked.reads);
        Share { at_standbys: ratio(asked.reads - at_primary, asked.reads), by_server }
    }

    fn share_by_standbys(&self, after: &BTreeMap<String, Counts>, reads: u64) -> Share {
        let by_server: BTreeMap<String, u64> =
            after.keys().map(|name| (name.clone(), self.difference(after, name, ""))).collect();
        let standbys = after.iter().filter(|(_, counts)| counts.standby);
        let served: u64 = standbys.map(|(name, _)| by_server[name]).sum();
        Share { at_standbys: ratio(served.min(reads), reads), by_server }
    }
}

/// Part of a whole; nothing of nothing is nothing.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of a run have far fewer than 52 bits")]
    let (part, whole) = (part as f64, whole as f64);
    if whole == 0.0 { 0.0 } else { part / whole }
}

async fn read(source: &Source) -> Result<BTreeMap<String, Counts>, Trouble> {
    match source {
        Source::Nothing => Ok(BTreeMap::new()),
        Source::Console(url) => read_console(url).await,
        Source::Statistics(servers) => {
            let mut counts = BTreeMap::new();
            for server in servers {
                counts.insert(server.name.clone(), read_statistics(&server.url).await?);
            }
            Ok(counts)
        }
    }
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

async fn read_console(url: &str) -> Result<BTreeMap<String, Counts>, Trouble> {
    let session = Session::open(url, Protocol::Simple).await?;
    let rows = session.texts("SHOW REPLICAS").await?;
    session.close().await;
    let mut counts = BTreeMap::new();
    for row in rows {
        let reads = ["reads", "reads_served", "total_reads"].iter().find_map(|&name| row.get(name));
        let reads = reads.and_then(|reads| reads.parse().ok());
        let (Some(name), Some(role), Some(reads)) = (row.get("name"), row.get("role"), reads) else {
            let problem = "SHOW REPLICAS has no columns name, role and reads (or reads_served)";
            return Err(Trouble::Unexpected(problem.to_owned()));
        };
        let scans = HashMap::from([(String::new(), reads)]);
        counts.insert(name.clone(), Counts { standby: role == "standby", scans });
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(standby: bool, scans: u64) -> Counts {
        Counts { standby, scans: HashMap::from([("t".to_owned(), scans)]) }
    }

    #[test]
    fn what_the_primary_scanned_beyond_the_writes_was_reads() {
        let before = Before {
            source: Source::Statistics(Vec::new()),
            counts: BTreeMap::from([("p".to_owned(), counts(false, 100)), ("s".to_owned(), counts(true, 7))]),
        };
        let after =
            BTreeMap::from([("p".to_owned(), counts(false, 160)), ("s".to_owned(), counts(true, 97))]);
        let share = before.share_of(&after, "t", Asked { reads: 100, writes: 40 });
        assert!((share.at_standbys - 0.8).abs() < 1e-9);
        assert_eq!(share.by_server["s"], 90);
    }

    #[test]
    fn a_console_counts_the_reads_of_standbys() {
        let at = |scans| Counts { standby: true, scans: HashMap::from([(String::new(), scans)]) };
        let before = Before {
            source: Source::Console("host=c".to_owned()),
            counts: BTreeMap::from([("s1".to_owned(), at(100)), ("s2".to_owned(), at(50))]),
        };
        // The console began anew meanwhile and counts s2 from nothing.
        let after = BTreeMap::from([("s1".to_owned(), at(160)), ("s2".to_owned(), at(30))]);
        let asked = BTreeMap::from([("t".to_owned(), Asked { reads: 120, writes: 9 })]);
        let shares = before.between(&after, &asked);
        assert!((shares["t"].at_standbys - 0.75).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn a_server_has_a_name() {
        let server: Server = "s1=postgres://h/d?a=b".parse().unwrap();
        assert_eq!((server.name.as_str(), server.url.as_str()), ("s1", "postgres://h/d?a=b"));
        assert!("postgres://h/d?a=b".parse::<Server>().is_err());
    }
}
