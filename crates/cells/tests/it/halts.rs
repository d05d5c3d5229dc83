//! A store that halts at one of its operations, for each operation in turn: the process is killed there, and the next one
//! recovers from the ledger.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cells::{Begin, Database, Error, Options};
use disk::{Disk, Faults};
use stores::{Description, Direction, KeyRange, KeyedCell, MemoryStore, Reads, Store, StoreError};
use tokio::sync::watch;
use tokio::task::LocalSet;

/// The part of an operation that is done before the store halts.
#[derive(Clone, Copy, Debug)]
enum Part {
    Nothing,
    /// Half of a batch.
    Half,
    All,
}

#[derive(Debug)]
struct HaltingStore {
    store: Arc<MemoryStore>,
    /// Operations until the halt.
    left: AtomicU64,
    part: Part,
    /// Number of syncs that have ended.
    syncs: watch::Sender<u64>,
}

impl HaltingStore {
    fn over(store: Arc<MemoryStore>, left: u64, part: Part) -> Arc<HaltingStore> {
        let (left, (syncs, _)) = (AtomicU64::new(left), watch::channel(0));
        Arc::new(HaltingStore { store, left, part, syncs })
    }

    /// Ends when so many syncs have ended.
    async fn until_synced(&self, syncs: u64) {
        let mut ended = self.syncs.subscribe();
        ended.wait_for(|ended| *ended >= syncs).await.expect("the store lives");
    }

    /// Whether this operation is the one.
    fn halts(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    async fn answers<T>(&self, halts: bool, answer: T) -> T {
        if halts {
            std::future::pending::<()>().await;
        }
        answer
    }
}

#[async_trait]
impl Store for HaltingStore {
    async fn get_many(&self, keys: &[Bytes]) -> Result<Vec<Option<stores::Cell>>, StoreError> {
        let halts = self.halts();
        let found = self.store.get_many(keys).await;
        self.answers(halts, found).await
    }

    async fn put_if_newer(&self, batch: &[KeyedCell]) -> Result<(), StoreError> {
        let halts = self.halts();
        let done = match self.part {
            Part::Nothing if halts => 0,
            Part::Half if halts => batch.len() / 2,
            _ => batch.len(),
        };
        let put = self.store.put_if_newer(&batch[..done]).await;
        self.answers(halts, put).await
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        to: Direction,
    ) -> Result<Vec<KeyedCell>, StoreError> {
        self.store.scan(range, limit, to).await
    }

    async fn drop_tombstones(&self, below: u64) -> Result<u64, StoreError> {
        let halts = self.halts();
        let dropped = self.store.drop_tombstones(below).await;
        self.answers(halts, dropped).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let halts = self.halts();
        let is_done = !(halts && matches!(self.part, Part::Nothing));
        let synced = if is_done { self.store.sync().await } else { Ok(()) };
        let synced = self.answers(halts, synced).await;
        self.syncs.send_modify(|syncs| *syncs += 1);
        synced
    }

    fn reads(&self) -> Reads {
        self.store.reads()
    }

    fn describe(&self) -> Description {
        self.store.describe()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}

type Rows = BTreeMap<Bytes, Bytes>;

/// Writes of the transactions of the scenario.
const SCENARIO: [&[(&str, Option<&str>)]; 5] = [
    &[("a", Some("1")), ("b", Some("1"))],
    &[("a", None), ("c", Some("2"))],
    &[("b", Some("3")), ("a", Some("3")), ("d", Some("3"))],
    &[("d", None), ("b", None)],
    &[("a", Some("5")), ("b", Some("5")), ("c", Some("5")), ("d", Some("5"))],
];

/// Rows after the first transactions of the scenario.
fn rows_after(transactions: usize) -> Rows {
    let mut rows = Rows::new();
    for (key, value) in SCENARIO[..transactions].iter().flat_map(|writes| writes.iter()) {
        match value {
            Some(value) => drop(rows.insert((*key).into(), (*value).into())),
            None => drop(rows.remove(key.as_bytes())),
        }
    }
    rows
}

fn options() -> Options {
    let short = Duration::from_millis(20);
    Options { sync_interval: short, tombstone_time: short, segment_size: 100, ..Options::default() }
}

/// Opens the database over a store and does some work; everything is dropped when the work ends, or the store halts.
fn in_process<T>(
    store: Arc<dyn Store>,
    faults: &Faults,
    work: impl AsyncFnOnce(&Database) -> T,
) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime starts");
    let process = async {
        let disk = Disk::with_faults(faults);
        let (database, driver, mut steps) =
            Database::open_stepped(store, &disk, Path::new("db"), options()).await.expect("it opens");
        let driver = tokio::task::spawn_local(driver.run());
        let ledger = tokio::task::spawn_local(async move {
            // A group takes a millisecond.
            let mut groups = tokio::time::interval(Duration::from_millis(1));
            loop {
                groups.tick().await;
                steps.step().expect("the disk works");
            }
        });
        let done = work(&database).await;
        driver.abort();
        ledger.abort();
        done
    };
    let limited = async { tokio::time::timeout(Duration::from_secs(1), process).await.ok() };
    let done = LocalSet::new().block_on(&runtime, limited);
    drop(runtime);
    done
}

/// Runs the scenario until the store halts; counts the acknowledged transactions.
fn run_scenario(store: &Arc<HaltingStore>, faults: &Faults) -> usize {
    let acknowledged = AtomicU64::new(0);
    in_process(Arc::clone(store) as Arc<dyn Store>, faults, async |database| {
        for writes in SCENARIO {
            let syncs = *store.syncs.borrow();
            let mut transaction = database.begin(Begin::default()).await.expect("it begins");
            for (key, value) in writes {
                match value {
                    Some(value) => transaction.put(*key, *value).expect("it is valid"),
                    None => transaction.delete(*key).expect("it is valid"),
                }
            }
            transaction.commit().await.expect("it commits");
            acknowledged.fetch_add(1, Ordering::Relaxed);
            store.until_synced(syncs + 1).await;
        }
    });
    usize::try_from(acknowledged.into_inner()).expect("few transactions")
}

fn read_all(store: Arc<dyn Store>, faults: &Faults) -> Rows {
    let read = in_process(store, faults, async |database| -> Result<Rows, Error> {
        let transaction = database.begin(Begin::default()).await?;
        Ok(transaction.scan(KeyRange::all(), 100).await?.into_iter().collect())
    });
    read.expect("the store does not halt").expect("it is read")
}

#[test]
fn process_killed_at_each_operation_recovers() {
    let (mut halted, mut recoveries) = (0, 0);
    for part in [Part::Nothing, Part::Half, Part::All] {
        for operation in 1..60 {
            // The second process is killed while it recovers; 0 stands for not at all.
            for again in 0..6 {
                let (store, faults) = (Arc::new(MemoryStore::new()), Faults::in_memory());
                let halting = |left| HaltingStore::over(store.clone(), left, part);
                let acknowledged = run_scenario(&halting(operation), &faults);
                faults.lose_power(operation).expect("a disk in memory can be written");
                store.lose_unsynced(0);
                if again > 0 {
                    let halting = halting(again);
                    // The claim is synced, and then the store.
                    in_process(halting.clone(), &faults, async |_| halting.until_synced(2).await);
                    store.lose_unsynced(0);
                    recoveries += 1;
                }
                let rows = read_all(store.clone(), &faults);
                let (least, most) = (acknowledged, (acknowledged + 1).min(SCENARIO.len()));
                assert!(
                    rows == rows_after(least) || rows == rows_after(most),
                    "{part:?} of operation {operation}, {again} of the recovery: {acknowledged} acknowledged, {rows:?}"
                );
                halted += usize::from(acknowledged < SCENARIO.len());
            }
        }
    }
    assert!(halted > 100 && recoveries > 500, "{halted} halts in a flush, {recoveries} in a recovery");
}
