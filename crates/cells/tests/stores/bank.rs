//! A bank: transfers between accounts, each in a transaction, while readers add up all accounts of a snapshot.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use cells::{Begin, Consistency, Database, Error, Options, Transaction};
use stores::{KeyRange, Store};
use testkit::{eventually, temporary};

const ACCOUNTS: u64 = 20;
const BALANCE: u64 = 1_000;
const CLIENTS: u64 = 4;
/// Transfers of each client, at least.
const TRANSFERS: u64 = 60;

/// The state that the tasks of a history share.
#[derive(Debug, Default)]
struct Progress {
    transfers: AtomicU64,
    snapshots: AtomicU64,
    is_fault_over: AtomicBool,
    is_over: AtomicBool,
}

/// A folder for a ledger, removed with the value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Plays the history. `fault` runs after a third of the transfers. Every snapshot has the whole sum, and after a new start
/// from the ledger each client finds its acknowledged transfers counted.
pub(crate) async fn history(
    options: Options,
    open: impl AsyncFn() -> Arc<dyn Store>,
    fault: impl FnOnce() + Send + 'static,
) {
    let folder = Folder(temporary("bank"));
    let database = Database::open(open().await, &folder.0, options).await.expect("the bank goes on");
    let mut opening = database.begin(Begin::default()).await.expect("the bank goes on");
    for at in 0..ACCOUNTS {
        opening.put(account(at), BALANCE.to_string()).expect("the bank goes on");
    }
    opening.commit().await.expect("the bank goes on");
    let progress = Arc::new(Progress::default());
    let seen = Arc::clone(&progress);
    let faults = tokio::task::spawn_blocking(move || {
        eventually("a third of the transfers", || {
            seen.transfers.load(Ordering::Acquire) > CLIENTS * TRANSFERS / 3
        });
        fault();
        seen.is_fault_over.store(true, Ordering::Release);
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| tokio::spawn(transfers(client, database.clone(), Arc::clone(&progress))))
        .collect();
    let reader = tokio::spawn(sums(database.clone(), Arc::clone(&progress)));
    let mut counts = Vec::new();
    for client in clients {
        counts.push(client.await.expect("the bank goes on"));
    }
    faults.await.expect("the bank goes on");
    progress.is_over.store(true, Ordering::Release);
    reader.await.expect("the bank goes on");
    assert!(progress.snapshots.load(Ordering::Acquire) > 10, "snapshots were read meanwhile");
    database.close().await.expect("the bank goes on");
    drop(database);
    let database = Database::open(open().await, &folder.0, options).await.expect("the bank goes on");
    let end = database.begin(Begin::default()).await.expect("the bank goes on");
    assert_eq!(sum(&end).await.expect("the bank goes on"), ACCOUNTS * BALANCE);
    for (client, count) in (0..).zip(counts) {
        assert_eq!(
            number(&end, counter(client)).await.expect("the bank goes on"),
            count,
            "transfers of client {client}"
        );
    }
    drop(end);
    database.close().await.expect("the bank goes on");
}

/// Transfers of one client. Returns their number.
async fn transfers(client: u64, database: Database, progress: Arc<Progress>) -> u64 {
    let (mut count, mut random, mut token) = (0, client + 1, 0);
    while count < TRANSFERS || !progress.is_fault_over.load(Ordering::Acquire) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let from = (random >> 33) % ACCOUNTS;
        let to = (from + 1 + (random >> 45) % (ACCOUNTS - 1)) % ACCOUNTS;
        match transfer(client, from, to, token, &database).await {
            Ok(timestamp) => token = timestamp,
            // Durable, and visible when the server is back.
            Err(Error::NotVisible { .. }) => {}
            Err(Error::Conflict { .. } | Error::Busy { .. } | Error::SnapshotTooOld { .. }) => continue,
            Err(Error::Store(error)) if error.is_temporary() => continue,
            Err(error) => panic!("{error}"),
        }
        count += 1;
        progress.transfers.fetch_add(1, Ordering::AcqRel);
    }
    count
}

async fn transfer(client: u64, from: u64, to: u64, token: u64, database: &Database) -> Result<u64, Error> {
    let begin = Begin { consistency: Consistency::Session(token), ..Begin::default() };
    let mut transaction = loop {
        match database.begin(begin).await {
            Err(Error::NotVisible { .. }) => {}
            begun => break begun?,
        }
    };
    let (low, high) = (number(&transaction, account(from)).await?, number(&transaction, account(to)).await?);
    let amount = low.min(7);
    transaction.put(account(from), (low - amount).to_string())?;
    transaction.put(account(to), (high + amount).to_string())?;
    let count = number(&transaction, counter(client)).await?;
    transaction.put(counter(client), (count + 1).to_string())?;
    // A key that lives for every other transfer: deletes, and puts after them.
    if count.is_multiple_of(2) {
        transaction.put(format!("mark/{client}"), "odd")?;
    } else {
        transaction.delete(format!("mark/{client}"))?;
    }
    Ok(transaction.commit().await?.timestamp)
}

/// Adds up snapshots until the clients are done. The mark of a client agrees with its count in each.
async fn sums(database: Database, progress: Arc<Progress>) {
    let begin = Begin { read_only: true, ..Begin::default() };
    while !progress.is_over.load(Ordering::Acquire) {
        let snapshot = database.begin(begin).await.expect("the bank goes on");
        match sum(&snapshot).await {
            Ok(sum) => assert_eq!(sum, ACCOUNTS * BALANCE, "snapshot at {}", snapshot.start()),
            Err(Error::SnapshotTooOld { .. }) => continue,
            Err(Error::Store(error)) if error.is_temporary() => continue,
            Err(error) => panic!("{error}"),
        }
        for client in 0..CLIENTS {
            let marked = snapshot.get(format!("mark/{client}").as_bytes()).await;
            let count = number(&snapshot, counter(client)).await;
            if let (Ok(marked), Ok(count)) = (marked, count) {
                assert_eq!(marked.is_some(), count % 2 == 1, "client {client} at {}", snapshot.start());
            }
        }
        progress.snapshots.fetch_add(1, Ordering::AcqRel);
    }
}

async fn sum(snapshot: &Transaction) -> Result<u64, Error> {
    let accounts = snapshot.scan(KeyRange::prefix("account/"), 1_000).await?;
    assert_eq!(accounts.len() as u64, ACCOUNTS);
    Ok(accounts.iter().map(|(_, value)| parsed(value)).sum())
}

async fn number(snapshot: &Transaction, key: String) -> Result<u64, Error> {
    Ok(snapshot.get(key.as_bytes()).await?.as_ref().map_or(0, parsed))
}

fn parsed(value: &Bytes) -> u64 {
    std::str::from_utf8(value).expect("the bank goes on").parse().expect("the bank goes on")
}

fn account(at: u64) -> String {
    format!("account/{at:03}")
}

fn counter(client: u64) -> String {
    format!("count/{client}")
}
