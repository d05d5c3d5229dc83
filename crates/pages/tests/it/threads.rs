//! Readers on threads while a writer publishes.

use std::sync::atomic::{AtomicBool, Ordering};

use pages::{Error, Options, Policy, Reader, Store, Writer};

use crate::setup::{commit, receive, rows, store};

const ACCOUNTS: usize = 500;

/// Transfers keep the sum; a counter in each account says how often it was touched, and all of them make the version.
/// Returns the read transactions that ended, and those that were evicted or met a conflict.
fn run(slave: &Store, readers: usize, transactions: usize) -> (usize, usize) {
    let master = store();
    let mut writer = Writer::open(&master).unwrap();
    let accounts = "create table a (id integer primary key, n integer, touched integer, filler text);
        create index i on a (n);
        with recursive n (i) as (select 0 union all select i + 1 from n where i < 499)
        insert into a select i, 100, 0, hex(randomblob(60)) from n";
    let set = commit(&mut writer, accounts);
    receive(&[&master, slave], &set);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Readers end also when the writer fails.
        let _stopped = Stop(&stop);
        let threads: Vec<_> = (0..readers)
            .map(|at| {
                let stop = &stop;
                let mut reader = Reader::open(slave).unwrap();
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(at as u64);
                    let (mut read, mut refused) = (0, 0);
                    while !stop.load(Ordering::Relaxed) {
                        match read_once(&mut reader, &mut random, slave) {
                            Ok(()) => read += 1,
                            Err(Error::Conflict | Error::Evicted) => refused += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (read, refused)
                })
            })
            .collect();
        let examiner = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                slave.examine();
                std::thread::yield_now();
            }
        });
        let mut random = fastrand::Rng::with_seed(99);
        for _ in 0..transactions {
            let from = random.usize(0..ACCOUNTS);
            let to = (from + random.usize(1..ACCOUNTS)) % ACCOUNTS;
            let n = random.usize(1..90);
            let sql = format!(
                "update a set n = n - {n}, touched = touched + 1 where id = {from};
                 update a set n = n + {n}, touched = touched + 1 where id = {to}"
            );
            receive(&[&master, slave], &commit(&mut writer, &sql));
        }
        stop.store(true, Ordering::Relaxed);
        examiner.join().unwrap();
        let newest = slave.received();
        assert_eq!(slave.hash(newest).unwrap(), master.hash(newest).unwrap());
        let ends = threads.into_iter().map(|thread| thread.join().unwrap());
        ends.fold((0, 0), |(read, refused), end| (read + end.0, refused + end.1))
    })
}

/// Ends the threads when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A read transaction at the newest version, in which the rows of all pages must agree.
fn read_once(reader: &mut Reader, random: &mut fastrand::Rng, slave: &Store) -> Result<(), Error> {
    let version = reader.begin(slave.received())?;
    let read = |sql: &str| rows(reader.connection(), sql).map_err(|error| reader.explain(error));
    for _ in 0..random.usize(1..4) {
        assert_eq!(read(&format!("select n from a where id = {}", random.usize(0..ACCOUNTS)))?.len(), 1);
        std::thread::yield_now();
    }
    let sums = read("select sum(n), sum(touched) from a")?;
    assert_eq!(sums, [format!("[Integer(50000), Integer({})]", 2 * (version - 1))], "at {version}");
    let count = "select count(*) from a indexed by i where n > -1000000";
    assert_eq!(read(count)?, ["[Integer(500)]"]);
    Ok(())
}

#[test]
fn readers_on_threads_see_whole_versions() {
    let slave = store();
    let (read, refused) = run(&slave, 4, 4000);
    assert!(read > 0 && refused == 0, "{read} read, {refused} refused");
    assert_eq!(slave.readers(), 0);
}

#[test]
fn bounded_store_refuses_or_serves_whole_versions() {
    let slave = Store::new(Options { policy: Policy::Keep, max_bytes: 400 << 10 });
    let (read, _) = run(&slave, 3, 3000);
    assert!(read > 0);
    slave.acknowledge(slave.received());
    slave.examine();
    assert!(slave.bytes() <= 400 << 10, "{} bytes", slave.bytes());
}

#[test]
fn single_copy_refuses_or_serves_whole_versions() {
    let slave = Store::new(Options { policy: Policy::Single, max_bytes: usize::MAX });
    let (read, refused) = run(&slave, 3, 1500);
    assert!(read > 0, "{refused} refused");
}
