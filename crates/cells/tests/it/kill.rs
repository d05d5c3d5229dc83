//! A process over the embedded store is killed, again and again: acknowledged transfers stay, and the sum too.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use bytes::Bytes;
use cells::Begin;
use stores::KeyRange;

use crate::folder::{Folder, begin, embedded, open};

const ACCOUNTS: u64 = 20;
const KILLS: usize = 6;
/// The folder that makes this program the process that is killed.
const FOLDER: &str = "CELLS_KILLED_FOLDER";

/// The process that is killed: prints the number of each acknowledged transfer.
#[test]
fn killed_process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime starts").block_on(async {
        let database = open(embedded(folder.as_ref()), folder.as_ref()).await;
        let clients: Vec<_> = (0..4u64)
            .map(|client| {
                let database = database.clone();
                tokio::task::spawn(async move {
                    for round in 0u64.. {
                        let (from, to) =
                            ((client * 7 + round) % ACCOUNTS, (client * 3 + round * 5 + 1) % ACCOUNTS);
                        transfer(&database, client, from, to).await;
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("it works until it is killed");
        }
    });
}

fn number(value: Option<&Bytes>) -> i64 {
    value.map_or(0, |value| String::from_utf8_lossy(value).parse().expect("a number"))
}

/// Moves one, and counts the client's transfers in the same transaction.
async fn transfer(database: &cells::Database, client: u64, from: u64, to: u64) {
    let (from, to) = (format!("account{from}"), format!("account{to}"));
    let counter = format!("counter{client}");
    let mut transaction = database.begin(Begin::default()).await.expect("it begins");
    for (key, change) in [(&from, -1), (&to, 1), (&counter, 1)] {
        let before = number(transaction.get(key.as_bytes()).await.expect("it is read").as_ref());
        transaction.put(key.clone(), (before + change).to_string()).expect("it is valid");
    }
    let counted = number(transaction.get(counter.as_bytes()).await.expect("it is read").as_ref());
    if transaction.commit().await.is_ok() {
        println!("acknowledged {client} {counted}");
    }
}

#[tokio::test]
async fn killed_processes_lose_no_acknowledged_transfer() {
    let folder = Folder::new("kill");
    let mut acknowledged = [0i64; 4];
    for kill in 1..=KILLS {
        let mut process = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["kill::killed_process", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut lines = 0;
        for line in output.lines() {
            let line = line.expect("it prints text");
            // The first line follows the name of the test.
            let Some((_, rest)) = line.split_once("acknowledged ") else { continue };
            let (client, counted) = rest.split_once(' ').expect("two numbers");
            let client: usize = client.parse().expect("a client");
            acknowledged[client] = acknowledged[client].max(counted.parse().expect("a count"));
            lines += 1;
            if lines == kill * 60 {
                process.kill().expect("it is killed");
            }
        }
        process.wait().expect("it has ended");
        assert!(lines >= kill * 60, "the process works until it is killed");
        let database = open(embedded(folder.path()), folder.path()).await;
        let transaction = begin(&database).await;
        let accounts = transaction.scan(KeyRange::prefix("account"), 100).await.expect("it is read");
        assert_eq!(accounts.iter().map(|(_, value)| number(Some(value))).sum::<i64>(), 0, "kill {kill}");
        for (client, acknowledged) in acknowledged.iter().enumerate() {
            let counted = transaction.get(format!("counter{client}").as_bytes()).await.expect("it is read");
            assert!(number(counted.as_ref()) >= *acknowledged, "kill {kill}, client {client}: {counted:?}");
        }
        drop(transaction);
        database.close().await.expect("it closes");
    }
}
