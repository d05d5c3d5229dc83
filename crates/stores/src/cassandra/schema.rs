//! The tables of a Cassandra store, and facts of the cluster.

use std::collections::HashMap;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::statement::{Consistency, Statement};

use super::failure::{of_answer, of_read, of_statement};
use super::{CassandraConsistency, CassandraOptions};
use crate::{Reads, StoreError};

/// Facts of the keyspace and the cluster.
#[derive(Debug)]
pub(super) struct Facts {
    /// Number of partitions that share the keys.
    pub(super) buckets: u16,
    /// The promise of reads at the store's consistency.
    pub(super) reads: Reads,
    /// Time after which each acknowledged write is on the disks of its replicas.
    pub(super) sync_lag: Duration,
}

/// Makes missing tables, and reads the facts.
pub(super) async fn prepare(session: &Session, options: &CassandraOptions) -> Result<Facts, StoreError> {
    let keyspace = &options.keyspace;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if keyspace.is_empty()
        || !keyspace.starts_with(|c: char| c.is_ascii_lowercase())
        || !keyspace.chars().all(is_name)
    {
        return Err(StoreError::refused("a keyspace's name has lower-case letters, digits and underscores"));
    }
    let copies = replication(session, keyspace).await?;
    let copies = if copies.is_empty() {
        let factor = options.replication_factor;
        run(
            session,
            &format!(
                "CREATE KEYSPACE IF NOT EXISTS {keyspace} \
             WITH replication = {{'class': 'NetworkTopologyStrategy', 'replication_factor': {factor}}}"
            ),
        )
        .await?;
        replication(session, keyspace).await?
    } else {
        copies
    };
    for table in [
        "cells (bucket int, key blob, value blob, deleted boolean, PRIMARY KEY (bucket, key))",
        "tombstones (bucket int, timestamp bigint, key blob, PRIMARY KEY (bucket, timestamp, key))",
        "settings (name text PRIMARY KEY, value text)",
    ] {
        run(session, &format!("CREATE TABLE IF NOT EXISTS {keyspace}.{table}")).await?;
    }
    let reads = promise(options.consistency, &copies);
    Ok(Facts { buckets: buckets(session, options).await?, reads, sync_lag: sync_lag(session).await? })
}

/// The number of buckets is chosen once: keys are found by it.
async fn buckets(session: &Session, options: &CassandraOptions) -> Result<u16, StoreError> {
    let keyspace = &options.keyspace;
    if options.buckets == 0 {
        return Err(StoreError::refused("a store has at least one bucket (buckets)"));
    }
    run(
        session,
        &format!(
            "INSERT INTO {keyspace}.settings (name, value) VALUES ('buckets', '{}') IF NOT EXISTS",
            options.buckets
        ),
    )
    .await?;
    let text = format!("SELECT value FROM {keyspace}.settings WHERE name = 'buckets'");
    let found: Vec<(String,)> = rows(session, &text, options.consistency.level()).await?;
    let found = found.first().and_then(|(value,)| value.parse().ok()).filter(|buckets| *buckets > 0);
    found.ok_or_else(|| of_answer("settings has no number of buckets"))
}

/// The number of copies by data centre, or under the name `replication_factor`. Empty without the keyspace.
async fn replication(session: &Session, keyspace: &str) -> Result<HashMap<String, usize>, StoreError> {
    let text = format!("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{keyspace}'");
    let found: Vec<(HashMap<String, String>,)> = rows(session, &text, Consistency::One).await?;
    let Some((replication,)) = found.into_iter().next() else { return Ok(HashMap::new()) };
    let copies = replication.into_iter().filter(|(name, _)| name != "class");
    copies
        .map(|(name, text)| {
            // `3/1` are three copies, one of them transient.
            let number = text.split('/').next().and_then(|number| number.parse().ok());
            number.map(|number| (name, number)).ok_or_else(|| of_answer(format!("replication {text}")))
        })
        .collect()
}

/// Reads are strong where each read meets a replica of each write. A quorum of one data centre meets none of another's.
fn promise(consistency: CassandraConsistency, copies: &HashMap<String, usize>) -> Reads {
    let all: usize = copies.values().sum();
    let asked = match consistency {
        CassandraConsistency::Quorum => all / 2 + 1,
        CassandraConsistency::LocalQuorum if copies.len() > 1 => return Reads::Weak,
        CassandraConsistency::LocalQuorum => all / 2 + 1,
        CassandraConsistency::One => 1,
    };
    if 2 * asked > all { Reads::Strong } else { Reads::Weak }
}

/// With `commitlog_sync: periodic`, Cassandra acknowledges before it syncs, and holds writes back when a sync is late by
/// half a period.
async fn sync_lag(session: &Session) -> Result<Duration, StoreError> {
    let text = "SELECT name, value FROM system_views.settings";
    let found: Vec<(String, Option<String>)> = rows(session, text, Consistency::One).await?;
    let setting =
        |name: &str| found.iter().find(|(found, _)| found == name).and_then(|(_, value)| value.as_deref());
    if setting("commitlog_sync") != Some("periodic") {
        return Ok(Duration::ZERO);
    }
    let period = setting("commitlog_sync_period").and_then(duration);
    period.map(|period| period * 2).ok_or_else(|| of_answer("commitlog_sync_period is not a duration"))
}

/// A duration as Cassandra writes it: `10000ms`, `10s`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..unit].parse().ok()?;
    match &text[unit..] {
        "" | "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

async fn run(session: &Session, text: &str) -> Result<(), StoreError> {
    session.query_unpaged(text, ()).await.map(drop).map_err(of_statement)
}

async fn rows<Row>(session: &Session, text: &str, consistency: Consistency) -> Result<Vec<Row>, StoreError>
where
    Row: for<'frame> DeserializeRow<'frame, 'frame>,
{
    let mut statement = Statement::new(text);
    statement.set_consistency(consistency);
    let answer = session.query_unpaged(statement, ()).await.map_err(of_read)?;
    let answer = answer.into_rows_result().map_err(of_answer)?;
    answer.rows::<Row>().map_err(of_answer)?.collect::<Result<_, _>>().map_err(of_answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_strong_where_quorums_meet() {
        let copies = |text: &[(&str, usize)]| text.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let one = copies(&[("datacenter1", 3)]);
        let two = copies(&[("a", 3), ("b", 3)]);
        let single = copies(&[("replication_factor", 1)]);
        assert_eq!(promise(CassandraConsistency::Quorum, &one), Reads::Strong);
        assert_eq!(promise(CassandraConsistency::Quorum, &two), Reads::Strong);
        assert_eq!(promise(CassandraConsistency::LocalQuorum, &one), Reads::Strong);
        assert_eq!(promise(CassandraConsistency::LocalQuorum, &two), Reads::Weak);
        assert_eq!(promise(CassandraConsistency::One, &one), Reads::Weak);
        assert_eq!(promise(CassandraConsistency::One, &single), Reads::Strong);
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("10000ms"), Some(Duration::from_secs(10)));
        assert_eq!(duration("10s"), Some(Duration::from_secs(10)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        assert_eq!(duration("soon"), None);
    }
}
