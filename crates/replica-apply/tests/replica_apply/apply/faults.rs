//! Faults are reported, and nothing of the batch shows. A feed that dies goes on where it was.

use super::{EPOCH, Fed};
use crate::{one, soon};
use history::{Lsn, Shown, Snapshot};
use local_cluster::{NodeState, Stop};
use postgres::attach;
use replica_apply::apply::{Batch, Error, Feeder};
use std::process::{Child, Command};
use testkit::Scratch;

/// A fault, as the feed reports it.
struct Wrong {
    /// At the replica alone.
    spoil: &'static str,
    /// Change at the primary, in addition to one in another table.
    change: &'static str,
    table: &'static str,
    says: &'static str,
}

const WRONGS: &[Wrong] = &[
    Wrong {
        spoil: "DELETE FROM keyed WHERE id = 7",
        change: "UPDATE keyed SET v = 'new' WHERE id BETWEEN 5 AND 9",
        table: "public.keyed",
        says: "the row (id) = (7) is missing or exists more than once",
    },
    Wrong {
        spoil: "DELETE FROM keyed WHERE id = 8",
        change: "DELETE FROM keyed WHERE id > 6",
        table: "public.keyed",
        says: "the row (id) = (8) is missing or exists more than once",
    },
    Wrong {
        spoil: "INSERT INTO keyed VALUES (100, 'stranger')",
        change: "INSERT INTO keyed SELECT n, 'n' FROM generate_series(90, 140) n",
        table: "public.keyed",
        says: "the row (id) = (100) is refused: duplicate key value",
    },
    Wrong {
        spoil: "UPDATE bare SET b = 'other' WHERE a = 2",
        change: "DELETE FROM bare",
        table: "public.bare",
        says: "the row (a, b) = (2, b) is missing or exists more than once",
    },
    Wrong {
        spoil: "DROP INDEX by_hand; INSERT INTO unindexed VALUES (3, 'twice')",
        change: "UPDATE unindexed SET v = 'new'",
        table: "public.unindexed",
        says: "the row (id) = (3) is missing or exists more than once",
    },
];

const TABLES: &str = "\
    CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE keyed (id int PRIMARY KEY, v text); \
    CREATE TABLE bare (a int, b text); CREATE TABLE unindexed (id int NOT NULL, v text); \
    CREATE UNIQUE INDEX by_hand ON unindexed (id); ALTER TABLE unindexed REPLICA IDENTITY USING INDEX by_hand";

#[tokio::test]
async fn a_row_that_is_missing_or_too_many_is_named_and_nothing_shows() {
    for wrong in WRONGS {
        let mut fed = Fed::with(TABLES, "").await;
        fed.primary.query(
            "INSERT INTO keyed SELECT n, 'v' FROM generate_series(1, 20) n; \
             INSERT INTO bare VALUES (1, 'b'), (2, 'b'), (2, 'b'), (3, NULL); \
             INSERT INTO unindexed SELECT n, 'v' FROM generate_series(1, 5) n",
        );
        fed.feed().await.unwrap();
        fed.compare();
        fed.replica.query(wrong.spoil);
        fed.reopen().await;
        let before = super::contents(&fed.replica);
        fed.primary.query("INSERT INTO other VALUES (1)");
        fed.primary.query(wrong.change);
        fed.primary.query("INSERT INTO other VALUES (2)");
        let batch = fed.batch().await;
        let shown = fed.feeder.shown().clone();
        match fed.feeder.apply(batch.clone()).await {
            Err(Error::Diverged { table, what }) => {
                assert!(table == wrong.table && what.contains(wrong.says), "{table}: {what}");
            }
            other => panic!("{}: {other:?}", wrong.change),
        }
        // The feed is of no use any more; nothing of the batch is there.
        assert!(fed.feeder.apply(batch).await.is_err());
        fed.reopen().await;
        assert_eq!(*fed.feeder.shown(), shown);
        assert_eq!(super::contents(&fed.replica), before, "{}", wrong.change);
    }
}

#[tokio::test]
async fn a_key_that_the_primary_has_twice_is_named_and_the_batch_in_front_shows() {
    let tables = "CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE twice (k int NOT NULL, v int); \
                  ALTER TABLE twice REPLICA IDENTITY FULL";
    let mut fed = Fed::with(tables, "ALTER TABLE twice ADD UNIQUE (k)").await;
    // New tables are asked for when nothing is under way.
    fed.primary.query("INSERT INTO other VALUES (1); INSERT INTO twice VALUES (1, 1)");
    fed.feed().await.unwrap();
    fed.primary.query("INSERT INTO other VALUES (2)");
    let first = fed.batch().await;
    fed.primary.query("INSERT INTO twice VALUES (7, 1), (7, 2)");
    let second = fed.batch().await;
    soon("the first", fed.feeder.send(first.clone())).await.unwrap();
    soon("the second", fed.feeder.send(second)).await.unwrap();
    match soon("the end", fed.feeder.finish()).await {
        Err(Error::Diverged { table, what }) => {
            assert!(table == "public.twice" && what.contains("(k) = (7) is refused"), "{table}: {what}");
        }
        other => panic!("{other:?}"),
    }
    fed.reopen().await;
    assert_eq!(*fed.feeder.shown(), first.to);
}

#[tokio::test]
async fn an_index_that_is_broken_is_named_with_the_row() {
    for gone in [false, true] {
        let mut fed = Fed::with(TABLES, "").await;
        fed.primary.query("INSERT INTO keyed SELECT n, 'v' FROM generate_series(1, 20) n");
        fed.feed().await.unwrap();
        let node = fed.replica.primary();
        let file =
            node.data_folder().join(one(&fed.replica.query("SELECT pg_relation_filepath('keyed_pkey')")));
        node.stop(Stop::Fast).unwrap();
        if gone {
            std::fs::remove_file(file).unwrap();
        } else {
            let length = std::fs::metadata(&file).unwrap().len();
            std::fs::write(file, vec![0; usize::try_from(length).unwrap()]).unwrap();
        }
        node.start().unwrap();
        fed.reopen().await;
        fed.primary.query("INSERT INTO keyed VALUES (100, 'new')");
        let batch = fed.batch().await;
        match fed.feeder.apply(batch).await {
            Err(Error::Diverged { table, what }) => {
                assert!(
                    table == "public.keyed" && what.contains("(id) = (100) is refused"),
                    "{table}: {what}"
                );
                assert!(gone || what.contains("keyed_pkey"), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn tables_that_do_not_fit_are_named() {
    let tables = "CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY); \
                  CREATE TABLE c (id int PRIMARY KEY)";
    let spoil = "ALTER TABLE a RENAME v TO w; DROP TABLE b; DROP TABLE c; CREATE VIEW c AS SELECT 1 AS id";
    let mut fed = Fed::with(tables, spoil).await;
    for (change, says) in [
        ("INSERT INTO a VALUES (1, 1)", "public.a has no column v at the replica"),
        ("INSERT INTO b VALUES (1)", "public.b does not exist at the replica"),
        ("INSERT INTO c VALUES (1)", "public.c is not an ordinary table at the replica"),
        ("CREATE TABLE d (id int)", "DDL"),
    ] {
        fed.primary.query(change);
        let mut batch = fed.batch().await;
        // The earlier commits stand in the way for ever; some commits write nothing.
        batch.parts.retain(|part| part.changes().count() > 0);
        batch.parts.drain(..batch.parts.len() - 1);
        let Err(error) = fed.feeder.apply(batch).await else { panic!("{change} passed") };
        assert!(error.to_string().contains(says), "{change}: {error}");
        fed.reopen().await;
    }
    let nobody = fed.primary.address("template1");
    let Err(error) = Feeder::open(&nobody, EPOCH).await else { panic!("it has no position") };
    assert!(error.to_string().contains("did not create it as a logical replica"), "{error}");
}

#[tokio::test]
async fn two_who_feed_one_replica_do_not_apply_twice() {
    let mut fed = Fed::with("CREATE TABLE bare (n int)", "").await;
    let mut second = Feeder::open(&fed.replica.address("postgres"), EPOCH).await.unwrap();
    fed.primary.query("INSERT INTO bare VALUES (1)");
    let batch = fed.batch().await;
    // The second of two concurrent batches waits for the first.
    fed.feeder.send(batch.clone()).await.unwrap();
    match tokio::join!(fed.feeder.finish(), second.apply(batch.clone())) {
        (Ok(()), Err(Error::Moved)) | (Err(Error::Moved), Ok(())) => {}
        other => panic!("{other:?}"),
    }
    fed.compare();
    // A feed that knows that the batch is there skips it.
    fed.reopen().await;
    fed.feeder.apply(batch).await.unwrap();
    fed.compare();
    fed.primary.query("INSERT INTO bare VALUES (2)");
    let older = Batch { to: fed.feeder.shown().clone(), ..fed.batch().await };
    fed.primary.query("INSERT INTO bare VALUES (3)");
    let newer = fed.batch().await;
    let newer = Batch { parts: older.parts.iter().chain(&newer.parts).cloned().collect(), ..newer };
    fed.feeder.apply(newer).await.unwrap();
    fed.compare();
}

#[tokio::test]
async fn a_mark_of_a_change_of_roles_passes_as_nothing() {
    let mut fed = Fed::with("CREATE TABLE t (id int PRIMARY KEY)", "").await;
    fed.primary.query("INSERT INTO t VALUES (1)");
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    attach::mark(&control, true).await.unwrap();
    fed.primary.query("INSERT INTO t VALUES (2)");
    let batch = fed.batch().await;
    assert!(batch.parts.iter().all(|part| !part.ran_ddl().unwrap()));
    fed.feeder.apply(batch).await.unwrap();
    fed.compare();
    fed.primary.query("COMMENT ON TABLE t IS 'DDL'");
    let batch = fed.batch().await;
    assert!(batch.parts.iter().any(|part| part.ran_ddl().unwrap()));
    let Err(Error::Ddl(_)) = fed.feeder.apply(batch).await else { panic!("DDL passed") };
}

#[tokio::test]
async fn positions_move_alone_and_only_forward() {
    let mut fed = Fed::with("CREATE TABLE t (id int PRIMARY KEY)", "").await;
    fed.feed().await.unwrap();
    let before = fed.feeder.shown().clone();
    let to = before.resumed(before.decoded());
    assert_ne!(to, before);
    fed.feeder.apply(Batch { parts: Vec::new(), to: to.clone() }).await.unwrap();
    fed.reopen().await;
    assert_eq!(*fed.feeder.shown(), to, "what it keeps has moved, and nothing else");
    // A batch that the replica shows already moves nothing back.
    fed.feeder.apply(Batch { parts: Vec::new(), to: before.clone() }).await.unwrap();
    assert_eq!(*fed.feeder.shown(), to);
    // A primary that crashed may begin again with lower identities than it had shown to be running.
    let batch = fed.batch().await;
    let snapshot = Snapshot::new(before.snapshot().xmin(), Vec::new());
    let after_a_crash = Shown::new(snapshot, batch.to.decoded(), batch.to.decoded());
    fed.feeder.apply(Batch { to: after_a_crash.clone(), ..batch }).await.unwrap();
    assert_eq!(*fed.feeder.shown(), after_a_crash);
    let back = Batch {
        parts: Vec::new(),
        to: Shown::new(before.snapshot().clone(), batch_end(&after_a_crash), Lsn::ZERO),
    };
    let Err(error) = fed.feeder.apply(back).await else { panic!("it went back") };
    assert!(error.to_string().contains("ends before the replica's position"), "{error}");
}

/// An LSN after a position.
fn batch_end(shown: &Shown) -> Lsn {
    Lsn::new(shown.decoded().get() + 1)
}

#[tokio::test]
async fn large_transactions_go_in_pieces_and_show_at_once() {
    let mut fed =
        Fed::with("CREATE TABLE t (id int PRIMARY KEY, v text, u int UNIQUE); CREATE TABLE bare (n int)", "")
            .await;
    // Spilled, and more than what is gathered at once; with a swap in it that makes it go one by one.
    fed.primary.query(
        "BEGIN; INSERT INTO t SELECT n, repeat('x', 2000), n FROM generate_series(1, 20000) n; \
         UPDATE t SET v = 'short' WHERE id <= 10000; DELETE FROM t WHERE id > 15000; TRUNCATE bare; \
         INSERT INTO bare VALUES (1); COMMIT",
    );
    let first = fed.batch().await;
    fed.primary.query(
        "BEGIN; UPDATE t SET u = -1 WHERE id = 1; UPDATE t SET u = 1 WHERE id = 2; \
         UPDATE t SET u = 2 WHERE id = 1; UPDATE t SET v = 'longer' WHERE id < 3000; COMMIT",
    );
    let second = fed.batch().await;
    fed.primary.query("UPDATE t SET v = 'last' WHERE id % 2 = 0");
    let third = fed.batch().await;
    for batch in [first, second, third] {
        soon("a batch", fed.feeder.send(batch)).await.unwrap();
    }
    assert_eq!(one(&fed.replica.query("SELECT count(*) FROM t WHERE v = 'last'")), "0");
    soon("the end", fed.feeder.finish()).await.unwrap();
    fed.compare();
    assert_eq!((fed.feeder.counts().batches, fed.feeder.counts().again), (3, 1));
}

/// A server whose processes are being killed.
pub(super) struct Dying(Vec<String>, Child);

impl Dying {
    /// Kills all processes of a server, from now on, without waiting.
    pub(super) fn now(server: &Scratch) -> Dying {
        let NodeState::Running { pid } = server.primary().state() else { panic!("it runs") };
        let all = std::iter::once(pid).chain(server.primary().processes()).map(|pid| pid.to_string());
        let all: Vec<String> = all.collect();
        let kill = Command::new("kill").arg("-KILL").args(&all).spawn().unwrap();
        Dying(all, kill)
    }

    /// Waits until they are gone; a dead child of ours may stay in the table of processes.
    pub(super) async fn gone(mut self) {
        self.1.wait().unwrap();
        let alive = |pid: &String| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        soon("the end of the server", async {
            while self.0.iter().any(alive) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_replica_that_is_killed_goes_on_where_it_was() {
    killed_and_fed_again(1).await;
}

#[tokio::test]
async fn a_replica_that_is_killed_while_several_batches_are_executed_goes_on_where_it_was() {
    killed_and_fed_again(3).await;
}

async fn killed_and_fed_again(connections: usize) {
    const ROWS: u32 = 2000;
    let tables = format!(
        "CREATE TABLE t (id int PRIMARY KEY, n int, filler text); CREATE TABLE bare (round int, n int); \
         CREATE TABLE few (id int PRIMARY KEY, n int); INSERT INTO few VALUES (1, 0); \
         INSERT INTO t SELECT n, 0, repeat('x', 100) FROM generate_series(1, {ROWS}) n"
    );
    let mut fed = Fed::with(&tables, "").await.on_connections(connections).await;
    let mut batches = Vec::new();
    for round in 0..6 {
        // A row that is applied twice, or not at all, is one too many or missing among those without a key.
        for step in 0..8 {
            fed.primary.query(&format!(
                "UPDATE t SET n = n + 1; INSERT INTO bare SELECT {round}, n FROM generate_series(1, 20) n; \
                 UPDATE few SET n = n + 1"
            ));
            fed.primary.query(&format!("DELETE FROM bare WHERE round = {round} AND n = {step}"));
            batches.push(fed.batch().await);
        }
        let (mut sent, mut dying) = (0, None);
        let died = loop {
            // Everything there ever was; what the replica shows is skipped.
            let Some(batch) = batches.get(sent) else { break fed.feeder.finish().await };
            if let Err(error) = soon("a batch", fed.feeder.send(batch.clone())).await {
                break Err(error);
            }
            sent += 1;
            if sent == batches.len() - 7 + round % 7 {
                if round % 2 == 0 {
                    fed.feeder.finish().await.unwrap();
                }
                dying = Some(Dying::now(&fed.replica));
            }
        };
        dying.expect("it was killed").gone().await;
        fed.replica.primary().start().unwrap();
        fed.reopen().await;
        let at = batches.iter().filter(|batch| batch.to.decoded() <= fed.feeder.shown().decoded()).count();
        println!("round {round}: {died:?}, at {at} of {}", batches.len());
        for batch in &batches {
            fed.feeder.send(batch.clone()).await.unwrap();
        }
        fed.feeder.finish().await.unwrap();
        fed.compare();
    }
}
