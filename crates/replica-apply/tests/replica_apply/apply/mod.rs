//! Writes at the primary arrive at a logical replica, whatever they are, and once.

mod backed_up;
mod beside;
mod cases;
mod commands;
mod copied;
mod ddl;
mod faults;
mod reruns;
mod sequences;
mod shared_roles;
mod unlike;

use crate::soon;
use history::{Commit, Epoch, Lsn, Shown};
use local_cluster::Options;
use postgres::attach::{self, Patience, UnreplicableDdl};
use postgres::decoder::{Changes, Decoded, Decoder};
use postgres::snapshot_probe::Gauger;
use replica_apply::apply::{Batch, Error, Feeder, Part, settle};
use std::collections::BTreeMap;
use testkit::Scratch;

const EPOCH: Epoch = Epoch::new(1);

/// A primary, a replica, and what lies between them.
struct Fed {
    primary: Scratch,
    replica: Scratch,
    decoder: Decoder,
    gauger: Gauger,
    feeder: Feeder,
    /// On so many connections.
    connections: usize,
    /// Commits that have come out and are in no batch yet.
    unplaced: Vec<(Commit, Changes)>,
}

fn server() -> Scratch {
    alone(Scratch::options())
}

/// A server that was not copied from the first.
fn another_server() -> Scratch {
    alone(Scratch::options_of_a_stranger())
}

fn alone(options: Options) -> Scratch {
    Scratch::with(with_patience(options))
}

fn with_patience(mut options: Options) -> Options {
    options.standbys = 0;
    // The walsender gets no answer while a test waits for something else on its only thread.
    options.settings.push(("wal_sender_timeout".to_owned(), "0".to_owned()));
    options
}

impl Fed {
    /// Both with these tables, `other` at the replica alone.
    async fn with(sql: &str, other: &str) -> Fed {
        Fed::made(sql, other, false).await
    }

    /// Both with these tables; the primary logs what replicas need to run DDL.
    async fn logging(sql: &str) -> Fed {
        Fed::made(sql, "", true).await
    }

    async fn made(sql: &str, other: &str, logging: bool) -> Fed {
        let (primary, replica) = (server(), another_server());
        primary.query(sql);
        replica.query(sql);
        replica.query(other);
        let address = primary.address("postgres");
        let control = crate::client(&address).await.unwrap();
        let attached = attach::attach(&control).await.unwrap();
        if logging {
            attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
        }
        let mut decoder = Decoder::open(&address, &attached.slot, attached.database, EPOCH).await.unwrap();
        decoder.keep_rows(true);
        let mut gauger = Gauger::connect(&address, EPOCH).await.unwrap();
        let gauge = gauger.gauge().await.unwrap();
        let start = Shown::new(gauge.snapshot, gauge.insert_lsn, Lsn::ZERO);
        let there = crate::client(&replica.address("postgres")).await.unwrap();
        settle(&there, &start).await.unwrap();
        let feeder = Feeder::open(&replica.address("postgres"), EPOCH).await.unwrap();
        assert_eq!(*feeder.shown(), start);
        Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced: Vec::new() }
    }

    /// From now on several batches at once.
    async fn on_connections(mut self, connections: usize) -> Fed {
        self.connections = connections;
        self.reopen().await;
        self
    }

    /// Commits that the primary shows by now and did not before.
    async fn batch(&mut self) -> Batch {
        self.gauger.flush().await.unwrap();
        let gauge = self.gauger.gauge().await.unwrap();
        let decoded = loop {
            match soon("the next from the slot", self.decoder.next()).await.unwrap() {
                Decoded::Commit { commit, changes, .. } => self.unplaced.push((commit, changes.unwrap())),
                Decoded::Position(position) if position >= gauge.insert_lsn => break position,
                Decoded::Position(_) => {}
            }
        };
        let to = Shown::new(gauge.snapshot, decoded, self.feeder.shown().resume());
        let mut parts = Vec::new();
        self.unplaced.retain(|(commit, changes)| {
            let shown = to.shows(commit.xid, commit.end);
            if shown {
                parts.push(Part::new(commit, changes.clone()));
            }
            !shown
        });
        Batch { parts, to }
    }

    async fn feed(&mut self) -> Result<(), Error> {
        let batch = self.batch().await;
        soon("the batch", self.feeder.apply(batch)).await
    }

    /// The feeder stands still in the middle of a batch: whoever feeds next ends it, and applies that.
    async fn feed_by_another(&mut self) {
        let batch = self.batch().await;
        self.feeder.send(batch.clone()).await.unwrap();
        let next = Feeder::open(&self.replica.address("postgres"), EPOCH).await.unwrap();
        let mut next = next.on_connections(self.connections);
        next.end_others().await.unwrap();
        assert!(soon("the end", self.feeder.finish()).await.is_err(), "it goes on");
        soon("the batch", next.apply(batch)).await.unwrap();
        self.feeder = next;
        self.compare();
    }

    async fn reopen(&mut self) {
        let feeder = Feeder::open(&self.replica.address("postgres"), EPOCH).await.unwrap();
        self.feeder = feeder.on_connections(self.connections);
    }

    /// Every row of every table is the same.
    fn compare(&self) {
        let (there, here) = (contents(&self.primary), contents(&self.replica));
        assert_eq!(there.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
        for (table, rows) in there {
            let missing: Vec<_> =
                rows.iter().filter(|row| !here[&table].contains(row)).map(|row| short(row)).collect();
            let more: Vec<_> =
                here[&table].iter().filter(|row| !rows.contains(row)).map(|row| short(row)).collect();
            assert_eq!((missing, more), (vec![], vec![]), "{table}");
            assert_eq!(rows.len(), here[&table].len(), "{table}");
        }
    }
}

/// The ends of a row.
fn short(row: &str) -> String {
    match row.char_indices().nth(600) {
        None => row.to_owned(),
        Some(_) => format!("{}..{}..{}", &row[..30], row.len(), &row[row.len() - 30..]),
    }
}

/// The rows of every table, as sorted texts.
fn contents(server: &Scratch) -> BTreeMap<String, Vec<String>> {
    let tables = server.query(
        "SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384 AND n.nspname <> 'consort'",
    );
    let mut contents = BTreeMap::new();
    for table in tables {
        let table = table[0].clone().unwrap();
        let sql = format!("SELECT format('%s', t) FROM ONLY {table} AS t");
        let mut rows: Vec<String> =
            server.query(&sql).into_iter().map(|row| row[0].clone().unwrap_or_default()).collect();
        rows.sort();
        contents.insert(table, rows);
    }
    contents
}
