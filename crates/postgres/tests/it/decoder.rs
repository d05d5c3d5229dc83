//! Output of the slot, and its grain.

use crate::{one, soon};
use history::{Access, ColumnSet, DatabaseId, Epoch, Footprint, Key, Lsn, RelationId, Rows};
use postgres::Error;
use postgres::address::Control;
use postgres::attach;
use postgres::catalogs::{Loaded, load};
use postgres::decoder::{Decoded, Decoder};
use postgres::snapshot_probe::Gauger;
use statement_analysis::key;
use std::rc::Rc;
use testkit::Scratch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const EPOCH: Epoch = Epoch::new(1);

/// A served database.
struct Served {
    scratch: Scratch,
    slot: String,
    database: DatabaseId,
    decoder: Decoder,
    control: Control,
    catalog: Rc<Loaded>,
}

impl Served {
    /// Serves these tables: attached and decoded, with a known catalog.
    async fn with(sql: &str) -> Served {
        let mut options = Scratch::options();
        options.standbys = 0;
        options.settings.push(("max_prepared_transactions".to_owned(), "10".to_owned()));
        let scratch = Scratch::with(options);
        scratch.query(sql);
        let control = crate::client(&scratch.address("postgres")).await.unwrap();
        let attached = attach::attach(&control).await.unwrap();
        let catalog = Rc::new(load(&control).await.unwrap());
        let (slot, database) = (attached.slot, attached.database);
        let mut decoder = Decoder::open(&scratch.address("postgres"), &slot, database, EPOCH).await.unwrap();
        assert_eq!(decoder.from(), attached.from);
        assert!(decoder.know(catalog.clone()));
        Served { scratch, slot, database, decoder, control, catalog }
    }

    async fn next(&mut self) -> Decoded {
        soon("the next from the slot", self.decoder.next()).await.unwrap()
    }

    /// Footprint of the next commit, and true if it was DDL.
    async fn commit(&mut self) -> (Footprint, bool) {
        loop {
            if let Decoded::Commit { commit, ddl, changes, .. } = self.next().await {
                assert!(changes.is_none(), "nobody asked for rows");
                assert!(commit.start < commit.end && commit.database == self.database);
                return (commit.wrote, ddl);
            }
        }
    }

    /// Footprint of one statement's commit.
    async fn wrote(&mut self, sql: &str) -> Footprint {
        self.scratch.query(sql);
        let (wrote, ddl) = self.commit().await;
        assert!(!ddl, "{sql}");
        wrote
    }

    fn table(&self, name: &str) -> RelationId {
        let found = self.catalog.catalog.relations.iter().find(|(_, relation)| relation.name == name);
        *found.unwrap_or_else(|| panic!("no table {name}")).0
    }

    fn key(&self, table: &str, values: &[&str]) -> Key {
        let relation = &self.catalog.catalog.relations[&self.table(table)];
        let key = relation.key.as_ref().expect("a key");
        let place = |attribute| key.columns.iter().position(|column| column.attribute == attribute);
        key::of_row(key, |attribute| Some(values[place(attribute)?])).expect("values of a key")
    }

    fn one_row(&self, table: &str, columns: ColumnSet, values: &[&str]) -> Footprint {
        Footprint::of(self.table(table), Access::update(columns, Rows::keys([self.key(table, values)])))
    }

    async fn load(&mut self) -> bool {
        self.catalog = Rc::new(load(&self.control).await.unwrap());
        self.decoder.know(self.catalog.clone())
    }
}

#[tokio::test]
async fn rows_and_columns() {
    let mut served = Served::with(
        "CREATE TABLE plain (id int PRIMARY KEY, a text, b text); \
         CREATE TABLE gap (x int, id bigint PRIMARY KEY, a text, g int GENERATED ALWAYS AS (x + 1) STORED, b text); \
         ALTER TABLE gap DROP COLUMN x CASCADE; ALTER TABLE gap ADD c uuid; ALTER TABLE gap REPLICA IDENTITY FULL; \
         CREATE TABLE pair (v int, b text, a date, PRIMARY KEY (a, b)); ALTER TABLE pair REPLICA IDENTITY FULL; \
         CREATE TABLE bare (n int, m int)",
    )
    .await;
    let key = |served: &Served, table: &str, values: &[&str]| Rows::keys([served.key(table, values)]);

    // The default identity: rows by key, but no columns.
    let wrote = served.wrote("INSERT INTO plain VALUES (1, 'x', 'y')").await;
    let one = key(&served, "plain", &["1"]);
    assert_eq!(wrote, Footprint::of(served.table("plain"), Access::existence(one.clone())));
    let wrote = served.wrote("UPDATE plain SET a = 'z' WHERE id = 1").await;
    assert_eq!(wrote, served.one_row("plain", ColumnSet::All, &["1"]));
    let wrote = served.wrote("UPDATE plain SET id = 2 WHERE id = 1").await;
    let both = Rows::keys([served.key("plain", &["1"]), served.key("plain", &["2"])]);
    assert_eq!(wrote, Footprint::of(served.table("plain"), Access::existence(both)));
    let wrote = served.wrote("DELETE FROM plain").await;
    assert_eq!(wrote, Footprint::of(served.table("plain"), Access::existence(key(&served, "plain", &["2"]))));

    // The whole old row: columns too, by attribute number, past a dropped column.
    served.wrote("INSERT INTO gap (id, a, b) VALUES (7, 'x', 'y'), (8, 'x', NULL)").await;
    let wrote = served.wrote("UPDATE gap SET b = 'changed', a = a WHERE id = 7").await;
    assert_eq!(wrote, served.one_row("gap", ColumnSet::of([5]), &["7"]));
    let wrote = served.wrote("UPDATE gap SET c = '123e4567-e89b-12d3-a456-426614174000' WHERE id = 8").await;
    assert_eq!(wrote, served.one_row("gap", ColumnSet::of([6]), &["8"]));
    let wrote = served.wrote("UPDATE gap SET id = id WHERE id = 8").await;
    assert_eq!(wrote, served.one_row("gap", ColumnSet::NONE, &["8"]));
    let wrote = served.wrote("UPDATE gap SET id = 9, b = 'x' WHERE id = 8").await;
    let both = Rows::keys([served.key("gap", &["8"]), served.key("gap", &["9"])]);
    assert_eq!(wrote, Footprint::of(served.table("gap"), Access::existence(both)));

    // A key of two columns in another order than the table's.
    served.wrote("INSERT INTO pair VALUES (1, 'O''Hara', '2024-02-29')").await;
    let wrote = served.wrote("SET datestyle = 'German'; UPDATE pair SET v = 2").await;
    assert_eq!(wrote, served.one_row("pair", ColumnSet::of([1]), &["2024-02-29", "O'Hara"]));

    // No key: all rows, but columns.
    served.wrote("INSERT INTO bare VALUES (1, 2)").await;
    let wrote = served.wrote("UPDATE bare SET m = 3").await;
    assert_eq!(wrote, Footprint::of(served.table("bare"), Access::update(ColumnSet::of([2]), Rows::All)));
    let wrote = served.wrote("TRUNCATE bare, pair").await;
    let mut both = Footprint::of(served.table("bare"), Access::WHOLE);
    both.add(served.table("pair"), Access::WHOLE);
    assert_eq!(wrote, both);
    assert_eq!(served.decoder.counts().coarse_rows, 0);
}

#[tokio::test]
async fn equal_text_of_values_that_differ() {
    let mut served = Served::with(
        "CREATE DOMAIN page AS xml; CREATE TYPE leaf AS (n int, x xml); \
         CREATE TABLE pages (id int PRIMARY KEY, n int, x xml, d page, a xml[], c leaf, t text[]); \
         ALTER TABLE pages REPLICA IDENTITY FULL",
    )
    .await;
    served.wrote("INSERT INTO pages VALUES (1, 1, '<a/>', '<a/>', '{<a/>}', (1, '<a/>'), '{a}')").await;
    // A declaration is part of an xml, but its output leaves it out.
    let declared = "<?xml version=\"1.0\"?><a/>";
    let set =
        format!("x = '{declared}', d = '{declared}', a = ARRAY['{declared}'::xml], c = (1, '{declared}')");
    let wrote = served.wrote(&format!("UPDATE pages SET {set}")).await;
    let xml = ColumnSet::of([3, 4, 5, 6]);
    assert_eq!(wrote, served.one_row("pages", xml, &["1"]));
    // This cannot be distinguished from an update of another column.
    let wrote = served.wrote("UPDATE pages SET n = 2").await;
    assert_eq!(wrote, served.one_row("pages", xml.with(2), &["1"]));
}

#[tokio::test]
async fn large_values_that_did_not_change() {
    let mut served = Served::with(
        "CREATE TABLE plain (id int PRIMARY KEY, big text, n int); \
         CREATE TABLE filled (id int PRIMARY KEY, big text, n int); ALTER TABLE filled REPLICA IDENTITY FULL; \
         ALTER TABLE plain ALTER big SET STORAGE EXTERNAL; ALTER TABLE filled ALTER big SET STORAGE EXTERNAL",
    )
    .await;
    let big = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 200) n)";
    for table in ["plain", "filled"] {
        served.wrote(&format!("INSERT INTO {table} VALUES (1, {big}, 1)")).await;
    }
    let wrote = served.wrote("UPDATE plain SET n = 2").await;
    assert_eq!(wrote, served.one_row("plain", ColumnSet::All, &["1"]));
    let wrote = served.wrote("UPDATE filled SET n = 2").await;
    assert_eq!(wrote, served.one_row("filled", ColumnSet::of([3]), &["1"]));
    let wrote = served.wrote("UPDATE filled SET big = big || 'x'").await;
    assert_eq!(wrote, served.one_row("filled", ColumnSet::of([2]), &["1"]));
}

#[tokio::test]
async fn transactions_of_every_kind() {
    let mut served = Served::with(
        "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE u (n int); CREATE UNLOGGED TABLE gone (n int); \
         CREATE TABLE parent (id int, n int, PRIMARY KEY (id)) PARTITION BY RANGE (id); \
         CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (10); \
         CREATE TABLE high PARTITION OF parent FOR VALUES FROM (10) TO (20); \
         CREATE MATERIALIZED VIEW m AS SELECT 1 AS one",
    )
    .await;
    let keys = |served: &Served, table: &str, ids: &[i32]| {
        Rows::keys(ids.iter().map(|id| served.key(table, &[&id.to_string()])))
    };
    // Changes that a savepoint took back are absent; those that it kept are present.
    let wrote = served
        .wrote(
            "BEGIN; INSERT INTO t VALUES (1); SAVEPOINT a; INSERT INTO t VALUES (2); ROLLBACK TO a; \
                SAVEPOINT b; INSERT INTO t VALUES (3); RELEASE b; COMMIT",
        )
        .await;
    assert_eq!(wrote, Footprint::of(served.table("t"), Access::existence(keys(&served, "t", &[1, 3]))));

    // An abort, an unlogged table: nothing comes; a prepared transaction comes with its end.
    served.scratch.query("BEGIN; INSERT INTO t VALUES (9); ROLLBACK");
    served.scratch.query("INSERT INTO gone VALUES (1)");
    served.scratch.query("BEGIN; UPDATE t SET n = 1 WHERE id = 1; PREPARE TRANSACTION 'p'");
    let wrote = served.wrote("INSERT INTO u VALUES (1)").await;
    assert_eq!(wrote, Footprint::of(served.table("u"), Access::existence(Rows::All)));
    let wrote = served.wrote("COMMIT PREPARED 'p'").await;
    assert_eq!(wrote, served.one_row("t", ColumnSet::All, &["1"]));

    // Partitions are named themselves; a row that moves goes here and comes there.
    served.wrote("INSERT INTO parent VALUES (1, 1)").await;
    let wrote = served.wrote("UPDATE parent SET id = 11").await;
    let mut moved = Footprint::of(served.table("low"), Access::existence(keys(&served, "low", &[1])));
    moved.add(served.table("high"), Access::existence(keys(&served, "high", &[11])));
    assert_eq!(wrote, moved);

    // Many rows fold; a logical message alone is a commit that wrote nothing.
    let wrote = served.wrote("INSERT INTO t SELECT generate_series(100, 1200)").await;
    assert_eq!(wrote, Footprint::of(served.table("t"), Access::existence(Rows::All)));
    let wrote = served.wrote("SELECT pg_logical_emit_message(true, 'somebody', 'something')").await;
    assert!(wrote.is_nothing());
    served.scratch.query("SELECT pg_logical_emit_message(false, 'somebody', 'something')");

    // DDL wrote everything, in addition to its other writes.
    for ddl in [
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS one",
        "BEGIN; INSERT INTO u VALUES (2); GRANT SELECT ON u TO PUBLIC; COMMIT",
        "REFRESH MATERIALIZED VIEW m",
        "DROP VIEW v",
    ] {
        served.scratch.query(ddl);
        assert_eq!(served.commit().await, (Footprint::Everything, true), "{ddl}");
    }
    // Changes that fire no event trigger are marked.
    attach::mark(&served.control, true).await.unwrap();
    assert_eq!(served.commit().await, (Footprint::Everything, true));
}

#[tokio::test]
async fn a_catalog_is_believed_only_for_its_part_of_the_log() {
    let mut served = Served::with("CREATE TABLE t (id int PRIMARY KEY, n int)").await;
    let whole = Footprint::of(served.table("t"), Access::WHOLE);
    // The key moves to another column: earlier and later rows are identified by different keys.
    served.scratch.query("INSERT INTO t VALUES (1, 10)");
    served.scratch.query("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (n)");
    served.scratch.query("INSERT INTO t VALUES (2, 20)");
    let younger = Rc::new(load(&served.control).await.unwrap());
    served.scratch.query("INSERT INTO t VALUES (3, 30)");

    // The younger catalog, given before the DDL has come out, counts for nothing before its own position.
    assert!(served.decoder.know(younger.clone()));
    assert_eq!(served.commit().await, (whole.clone(), false));
    assert_eq!(served.commit().await, (Footprint::Everything, true));
    assert_eq!(served.commit().await, (whole.clone(), false));
    served.catalog = younger;
    let by_n = Footprint::of(served.table("t"), Access::existence(Rows::keys([served.key("t", &["30"])])));
    assert_eq!(served.commit().await, (by_n, false));

    // A catalog that does not see a DDL that has come out is refused.
    let older = Rc::new(load(&served.control).await.unwrap());
    served.scratch.query("ALTER TABLE t ADD m int");
    assert!(served.commit().await.1);
    assert!(!served.decoder.know(older));
    assert_eq!(served.wrote("INSERT INTO t VALUES (4, 40)").await, whole);
    assert!(served.load().await);
    let by_n = Footprint::of(served.table("t"), Access::existence(Rows::keys([served.key("t", &["50"])])));
    assert_eq!(served.wrote("INSERT INTO t VALUES (5, 50)").await, by_n);
    assert!(served.decoder.counts().coarse_rows > 0);
}

#[tokio::test]
async fn positions_come_without_being_asked_for() {
    let mut served =
        Served::with("CREATE TABLE t (id int PRIMARY KEY); CREATE UNLOGGED TABLE gone (n int)").await;
    let mut gauger = Gauger::connect(&served.scratch.address("postgres"), EPOCH).await.unwrap();
    for round in 0..30 {
        // Changes that never come out, and those that come out of no slot of this database.
        served.scratch.query("INSERT INTO gone VALUES (1)");
        served.scratch.query("BEGIN; INSERT INTO t VALUES (-1); ROLLBACK");
        gauger.flush().await.unwrap();
        let goal = gauger.gauge().await.unwrap().insert_lsn;
        loop {
            if let Decoded::Position(position) = served.next().await
                && position >= goal
            {
                // Everything is confirmed: the next position must come all the same.
                served.decoder.confirm(position);
                break;
            }
        }
        assert!(served.decoder.counts().commits > round);
    }
}

#[tokio::test]
async fn a_slot_goes_on_where_it_was_confirmed() {
    let mut served = Served::with("CREATE TABLE t (id int PRIMARY KEY)").await;
    let address = served.scratch.address("postgres");
    let mut ends = Vec::new();
    for id in 0..4 {
        served.scratch.query(&format!("INSERT INTO t VALUES ({id})"));
        loop {
            if let Decoded::Commit { commit, .. } = served.next().await {
                ends.push(commit.end);
                break;
            }
        }
    }
    served.decoder.confirm(ends[1]);
    let confirmed = |scratch: &Scratch| -> Lsn {
        one(&scratch.query("SELECT confirmed_flush_lsn FROM pg_replication_slots")).parse().unwrap()
    };
    soon("the confirmation", async {
        while confirmed(&served.scratch) < ends[1] {
            tokio::task::yield_now().await;
        }
    })
    .await;

    // One reader at a time.
    let second = Decoder::open(&address, &served.slot, served.database, EPOCH).await;
    assert!(matches!(second, Err(Error::NotReady(_))));

    // The server dies: the stream ends, and the slot goes on after the confirmed position.
    served.scratch.primary().kill();
    let ended = soon("the end", async {
        loop {
            if let Err(error) = served.decoder.next().await {
                return error;
            }
        }
    });
    assert!(matches!(ended.await, Error::Unreachable(_)));
    assert!(matches!(
        Decoder::open(&address, &served.slot, served.database, EPOCH).await,
        Err(Error::Unreachable(_))
    ));
    served.scratch.primary().start().unwrap();
    let first_life = *served.decoder.sighting();
    served.decoder = Decoder::open(&address, &served.slot, served.database, EPOCH).await.unwrap();
    assert_ne!(served.decoder.sighting().incarnation, first_life.incarnation);
    assert!(served.decoder.from() <= ends[1]);
    let mut again = Vec::new();
    while again.last() != ends.last() {
        if let Decoded::Commit { commit, .. } = served.next().await {
            again.push(commit.end);
        }
    }
    assert!(again.ends_with(&ends[2..]), "{again:?} {ends:?}");

    assert!(matches!(Decoder::open(&address, "nowhere", served.database, EPOCH).await, Err(Error::Setup(_))));
}

/// Prints the cost of decoding. The result is not judged: the machine is shared.
#[tokio::test]
async fn cost_per_row() {
    const ROWS: u32 = 20_000;
    let mut served = Served::with(&format!(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b text); ALTER TABLE t REPLICA IDENTITY FULL; \
         INSERT INTO t SELECT n, 0, repeat('x', 80) FROM generate_series(1, {ROWS}) n"
    ))
    .await;
    let each = format!("FOR i IN 1..{ROWS} LOOP UPDATE t SET a = a + 1 WHERE id = i; COMMIT; END LOOP");
    served.scratch.query(&format!("DO $$ BEGIN {each}; END $$"));
    let mut stopwatch = Stopwatch::start();
    for _ in 0..ROWS {
        served.commit().await;
    }
    println!("one-row transactions: {}", stopwatch.per(ROWS));
    served.scratch.query("UPDATE t SET a = a + 1");
    stopwatch = Stopwatch::start();
    served.commit().await;
    println!("rows of a large one: {}", stopwatch.per(ROWS));
}

/// Elapsed time, and the running time of this thread.
struct Stopwatch(std::time::Instant, u64);

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now(), on_cpu_ns())
    }

    fn per(&self, count: u32) -> String {
        let on_cpu = (on_cpu_ns() - self.1) as f64 / 1e3 / f64::from(count);
        format!(
            "{:.2} us each, {on_cpu:.2} us of them ours",
            self.0.elapsed().as_secs_f64() * 1e6 / f64::from(count)
        )
    }
}

fn on_cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// A proxy to the server's socket that can hold back the bytes to the server, and sees when the server
/// requests a reply.
struct Held {
    folder: std::path::PathBuf,
    hold: Rc<std::cell::Cell<bool>>,
    released: Rc<tokio::sync::Notify>,
    server_asked: Rc<tokio::sync::Notify>,
}

impl Held {
    async fn between(address: &postgres::address::Address, folder: &std::path::Path) -> Held {
        use tokio::net::{UnixListener, UnixStream};
        let postgres::address::Host::Socket(to) = &address.host else { panic!("a socket") };
        let name = format!(".s.PGSQL.{}", address.port);
        let listener = UnixListener::bind(folder.join(&name)).unwrap();
        let held = Held {
            folder: folder.to_owned(),
            hold: Rc::default(),
            released: Rc::default(),
            server_asked: Rc::default(),
        };
        let (hold, released, asked) = (held.hold.clone(), held.released.clone(), held.server_asked.clone());
        let to = to.join(name);
        tokio::task::spawn_local(async move {
            let (mut from_us, mut to_us) = listener.accept().await.unwrap().0.into_split();
            let (mut from_server, mut to_server) = UnixStream::connect(to).await.unwrap().into_split();
            let there = async {
                let mut bytes = vec![0; 65536];
                while let Ok(count @ 1..) = from_us.read(&mut bytes).await {
                    while hold.get() {
                        released.notified().await;
                    }
                    to_server.write_all(&bytes[..count]).await.unwrap();
                }
            };
            let back = async {
                let mut bytes = vec![0; 65536];
                while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                    // The received bytes end in a CopyData: a keepalive with its last byte set.
                    let last = bytes[..count].len().checked_sub(23).map(|from| &bytes[from..count]);
                    if last.is_some_and(|last| last[0] == b'd' && last[5] == b'k' && last[22] == 1) {
                        asked.notify_one();
                    }
                    to_us.write_all(&bytes[..count]).await.unwrap();
                }
            };
            tokio::join!(there, back);
        });
        held
    }

    fn release(&self) {
        self.hold.set(false);
        self.released.notify_waiters();
    }
}

#[tokio::test]
async fn a_server_that_has_not_heard_from_us_for_a_while_is_not_left() {
    let local = tokio::task::LocalSet::new();
    let test = local.run_until(async {
        let served = Served::with("CREATE TABLE t (id int PRIMARY KEY)").await;
        served.scratch.query("ALTER SYSTEM SET wal_sender_timeout = '3s'");
        served.scratch.query("SELECT pg_reload_conf()");
        let Served { scratch, decoder, slot, database, .. } = served;
        drop(decoder);
        let mut address = scratch.address("postgres");
        let folder = scratch.primary().socket_folder().join("held");
        std::fs::create_dir(&folder).unwrap();
        let held = Held::between(&address, &folder).await;
        address.host = postgres::address::Host::Socket(held.folder.clone());
        let mut decoder = soon("the slot", async {
            loop {
                match Decoder::open(&address, &slot, database, EPOCH).await {
                    Err(Error::NotReady(_)) => tokio::task::yield_now().await,
                    opened => return opened.unwrap(),
                }
            }
        })
        .await;
        held.hold.set(true);
        let asked = async {
            held.server_asked.notified().await;
            held.release();
        };
        soon("the question", async {
            tokio::select! {
                () = asked => {}
                never = async { loop { decoder.next().await.unwrap(); } } => never,
            }
        })
        .await;
        scratch.query("INSERT INTO t VALUES (1)");
        soon("the commit", async {
            while !matches!(decoder.next().await.unwrap(), Decoded::Commit { .. }) {}
        })
        .await;
    });
    test.await;
}

#[tokio::test]
async fn a_server_that_stops_does_not_wait_for_us() {
    let mut served = Served::with("CREATE TABLE t (id int PRIMARY KEY)").await;
    served.wrote("INSERT INTO t VALUES (1)").await;
    served.scratch.query("INSERT INTO t VALUES (2)");
    let primary = served.scratch.primary().state();
    let local_cluster::NodeState::Running { pid } = primary else { panic!("it runs") };
    std::process::Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    let ended = soon("the end of the stream", async {
        loop {
            if let Err(error) = served.decoder.next().await {
                return error;
            }
        }
    });
    let ended = ended.await;
    assert!(matches!(ended, Error::NotReady(_) | Error::Unreachable(_)), "{ended:?}");
    let (scratch, decoder) = (served.scratch, served.decoder);
    drop(decoder);
    let stopped = tokio::task::spawn_blocking(move || {
        scratch.primary().stop(local_cluster::Stop::Fast).unwrap();
        scratch.primary().start().unwrap();
        scratch
    });
    let scratch = soon("the stop", stopped).await.unwrap();
    let decoder = Decoder::open(&scratch.address("postgres"), &served.slot, served.database, EPOCH).await;
    let mut decoder = decoder.unwrap();
    for id in ["1", "2"] {
        let commit = soon("what was not confirmed", async {
            loop {
                if let Decoded::Commit { commit, .. } = decoder.next().await.unwrap() {
                    return commit;
                }
            }
        });
        assert!(!commit.await.wrote.is_nothing(), "{id}");
    }
}
