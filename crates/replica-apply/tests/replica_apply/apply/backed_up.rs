//! A replica that came of a base backup is fed from where it left the primary's log: nothing twice, nothing left out.

use super::copied::{everything_else_is_there, follow, shop, writer};
use super::{EPOCH, Fed, another_server, server, with_patience};
use crate::{one, soon};
use history::{Commit, Lsn, Shown};
use postgres::address::{Address, Control};
use postgres::attach::{self, Patience, UnreplicableDdl};
use postgres::decoder::{Changes, Decoded};
use postgres::programs::Programs;
use replica_apply::apply::Feeder;
use replica_apply::clone::{self, Chosen, Found, Gives, backup, clone};
use std::cell::Cell;
use std::rc::Rc;
use testkit::Scratch;
use tokio::task::LocalSet;

fn backup_of(primary: &Scratch) -> Scratch {
    Scratch::backed_up(primary, &with_patience(Scratch::options()))
}

/// Makes a base backup leave the primary's WAL, when it has all that the primary has written by now. Returns
/// the LSN.
async fn leave(from: &Address, to: &Address) -> Lsn {
    let control = Control::connect(&to.with_database("template1")).await.unwrap();
    let primary = Control::connect(from).await.unwrap();
    assert!(backup::follows(from, to).await.unwrap());
    let goal = backup::written(&primary).await.unwrap();
    soon("what the primary has written", async {
        while backup::replayed(&control).await.unwrap() < goal {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon("a server that works alone", backup::promote(&primary, &control)).await.unwrap();
    let left = backup::left_at(from, to).await.unwrap().expect("it came with a base backup");
    assert!(left >= goal);
    left
}

/// A copy of the database `shop` by a base backup, and what lies between.
pub(super) async fn backed_up(primary: Scratch, logging: bool) -> Fed {
    let from = primary.address("shop");
    let (decoder, gauger) = follow(&from).await;
    if logging {
        attach::log_commands(
            &crate::client(&from).await.unwrap(),
            UnreplicableDdl::Copy,
            &Patience::default(),
        )
        .await
        .unwrap();
    }
    let replica = backup_of(&primary);
    let to = replica.address("shop");
    let left = leave(&from, &to).await;
    let shown = backup::take(&from, (&to, &Chosen::default()), left).await.unwrap();
    assert_eq!(shown, Shown::of_log(left));
    let feeder = Feeder::open(&to, EPOCH).await.unwrap();
    Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced: Vec::new() }
}

fn compare_tables(fed: &Fed) {
    let digest = "SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM TABLE t";
    for table in ["account", "bare", "low", "high", "child"] {
        let sql = digest.replace("TABLE", table);
        assert_eq!(fed.primary.query_in("shop", &sql), fed.replica.query_in("shop", &sql), "{table}");
    }
}

#[tokio::test]
async fn a_base_backup_leaves_the_log_while_everybody_writes_and_is_fed_from_there() {
    LocalSet::new().run_until(leave_and_feed()).await;
}

async fn leave_and_feed() {
    let primary = shop();
    let (from, ends) = (primary.address("shop"), Rc::new(Cell::new(false)));
    let (mut decoder, gauger) = follow(&from).await;
    let replica = backup_of(&primary);
    let to = replica.address("shop");
    let writers: Vec<_> = (0..4).map(|number| writer(from.clone(), number, ends.clone())).collect();
    let mut unplaced = Vec::new();
    let mut leaves = Box::pin(async {
        let left = leave(&from, &to).await;
        (left, backup::take(&from, (&to, &Chosen::default()), left).await.unwrap())
    });
    let (left, shown) = loop {
        tokio::select! {
            done = &mut leaves => break done,
            decoded = decoder.next() => {
                if let Decoded::Commit { commit, changes, .. } = decoded.unwrap() {
                    unplaced.push((commit, changes.unwrap()));
                }
            }
        }
    };
    drop(leaves);
    ends.set(true);
    for writer in writers {
        assert!(soon("a writer's end", writer).await.unwrap() > 10, "they wrote meanwhile");
    }
    assert_eq!(clone::found(&to).await.unwrap(), Found::Copy(shown.clone()));
    assert!(
        clone::is_of(&from, &to, &Chosen::default()).await.unwrap()
            && clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty()
    );
    assert!(unplaced.iter().any(|(commit, _)| commit.end <= left), "some of it is in the backup");
    let feeder = Feeder::open(&to, EPOCH).await.unwrap();
    let mut fed = Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced };
    fed.feed().await.unwrap();
    compare_tables(&fed);
    everything_else_is_there(&fed.primary, &fed.replica);
}

/// Tables that the replica is not to have are emptied, and stay empty.
#[tokio::test]
async fn a_base_backup_may_be_left_with_a_part_of_the_tables() {
    let primary = shop();
    let from = primary.address("shop");
    let (decoder, gauger) = follow(&from).await;
    let replica = backup_of(&primary);
    let to = replica.address("shop");
    primary.query_in("shop", "INSERT INTO bare VALUES (1, 'x'); INSERT INTO child (account) VALUES (1)");
    let chosen = Chosen::read(&["account".to_owned(), "parts".to_owned()]).unwrap();
    let left = leave(&from, &to).await;
    backup::take(&from, (&to, &chosen), left).await.unwrap();
    assert!(clone::is_of(&from, &to, &chosen).await.unwrap());
    assert!(!clone::is_of(&from, &to, &Chosen::default()).await.unwrap());
    let feeder = Feeder::open(&to, EPOCH).await.unwrap();
    let mut fed = Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced: Vec::new() };
    fed.primary.query_in(
        "shop",
        "INSERT INTO bare VALUES (2, 'y'); UPDATE account SET balance = 7 WHERE id = 3; UPDATE parts SET v = 'w' WHERE id < 1100",
    );
    fed.feed().await.unwrap();
    for table in ["account", "low", "high"] {
        let rows = format!("SELECT t::text FROM {table} AS t ORDER BY 1");
        assert_eq!(fed.primary.query_in("shop", &rows), fed.replica.query_in("shop", &rows), "{table}");
    }
    let none = "SELECT (SELECT count(*) FROM bare) + (SELECT count(*) FROM child)";
    assert_eq!(one(&fed.replica.query_in("shop", none)), "0");
}

/// The newest transaction that has ended at a server where nothing runs.
fn newest(server: &Scratch) -> u64 {
    let xmax = server.query("SELECT pg_snapshot_xmax(pg_current_snapshot())")[0][0].clone().unwrap();
    xmax.parse::<u64>().unwrap() - 1
}

/// The backup has the commit whose record is the last of its WAL, and not the next commit.
#[tokio::test]
async fn the_last_commit_in_the_log_that_was_left_is_not_applied_again() {
    let mut options = with_patience(Scratch::options());
    options.settings.push(("max_prepared_transactions".to_owned(), "5".to_owned()));
    // The server's own writes would come in between.
    options.settings.push(("autovacuum".to_owned(), "off".to_owned()));
    let primary = Scratch::with(options.clone());
    primary.query("CREATE DATABASE shop");
    primary.query_in("shop", "CREATE TABLE bare (n int)");
    let from = primary.address("shop");
    let (mut decoder, gauger) = follow(&from).await;
    let replica = Scratch::backed_up(&primary, &options);
    let to = replica.address("shop");
    primary.query_in("shop", "BEGIN; INSERT INTO bare VALUES (7); PREPARE TRANSACTION 'seven'");
    let mut unplaced: Vec<(Commit, Changes)> = Vec::new();
    loop {
        primary.query_in("shop", "INSERT INTO bare VALUES (1)");
        let end = primary.query("SELECT pg_current_wal_insert_lsn()")[0][0].clone().unwrap();
        while unplaced.last().is_none_or(|(commit, _)| commit.xid.get() != newest(&primary)) {
            if let Decoded::Commit { commit, changes, .. } = soon("a commit", decoder.next()).await.unwrap() {
                unplaced.push((commit, changes.unwrap()));
            }
        }
        // The server's own writes may have come after it: then once more.
        if unplaced.last().is_some_and(|(commit, _)| commit.end.to_string() == end) {
            break;
        }
    }
    let left = leave(&from, &to).await;
    assert_eq!(unplaced.last().map(|(commit, _)| commit.end), Some(left), "it is the last in the log");
    primary.query_in("shop", "INSERT INTO bare VALUES (2)");
    let shown = backup::take(&from, (&to, &Chosen::default()), left).await.unwrap();
    assert!(shown.is_of_log());
    let feeder = Feeder::open(&to, EPOCH).await.unwrap();
    let mut fed = Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced };
    fed.feed().await.unwrap();
    let rows = "SELECT string_agg(n::text, ' ' ORDER BY n) FROM bare";
    let wanted = |fed: &Fed| one(&fed.primary.query_in("shop", rows)).to_owned();
    assert!(wanted(&fed).ends_with("1 2"));
    assert_eq!(one(&fed.replica.query_in("shop", rows)), wanted(&fed));
    // A transaction that was prepared by then comes when it commits.
    fed.primary.query_in("shop", "COMMIT PREPARED 'seven'");
    fed.feed().await.unwrap();
    assert!(wanted(&fed).ends_with("1 2 7"));
    assert_eq!(one(&fed.replica.query_in("shop", rows)), wanted(&fed));
}

/// A server that is no base backup of this primary, or does not declare that it is to be fed, is left alone.
#[tokio::test]
async fn only_what_says_so_is_taken() {
    let primary = server();
    primary.query("CREATE DATABASE shop");
    primary.query_in("shop", "CREATE TABLE precious (n int)");
    let replica = backup_of(&primary);
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let strangers = another_server();
    strangers.query("CREATE DATABASE shop");
    let error = backup::follows(&strangers.address("shop"), &to).await.unwrap_err();
    assert!(error.to_string().contains("the base backup is of another server"), "{error}");
    let left = leave(&from, &to).await;
    assert!(!backup::follows(&from, &to).await.unwrap());
    // Under the same name there may be another database by now.
    primary.query("ALTER DATABASE shop RENAME TO old");
    primary.query("CREATE DATABASE shop");
    assert_eq!(backup::left_at(&from, &to).await.unwrap(), None);
    primary.query("DROP DATABASE shop WITH (FORCE)");
    primary.query("ALTER DATABASE old RENAME TO shop");
    assert_eq!(backup::left_at(&from, &to).await.unwrap(), Some(left));
    assert_eq!(backup::left_at(&from, &from).await.unwrap(), None, "the primary itself");
    // A backup that declares itself may be replaced; one that does not is left alone.
    assert_eq!(clone::found(&to).await.unwrap(), Found::Nothing);
    replica.query("ALTER SYSTEM SET consort.base_backup = off");
    let programs = Programs::find().unwrap();
    assert_eq!(backup::left_at(&from, &to).await.unwrap(), None);
    let error = clone(&programs, &from, (&to, &Chosen::default()), Lsn::ZERO, &drop).await.unwrap_err();
    assert!(error.to_string().contains("was copied from it"), "{error}");
    assert!(clone::found(&to).await.unwrap_err().to_string().contains("was not created by Consort"));
    replica.query("ALTER SYSTEM SET consort.base_backup = on");
    // A half-made database counts for nothing, and is copied again.
    let there = crate::client(&to).await.unwrap();
    there
        .batch_execute("CREATE SCHEMA consort; CREATE TABLE consort.position (shown text NOT NULL)")
        .await
        .unwrap();
    assert_eq!(backup::left_at(&from, &to).await.unwrap(), None);
    assert_eq!(clone::found(&to).await.unwrap(), Found::Nothing);
    let shown =
        soon("the copy", clone(&programs, &from, (&to, &Chosen::default()), Lsn::ZERO, &drop)).await.unwrap();
    assert!(!shown.is_of_log());
}

/// Event triggers of an extension stay with it, and would fire for the feed's commands. This one fails where
/// `here` is.
#[tokio::test]
async fn event_triggers_of_extensions_do_not_fire_for_the_feeder() {
    let primary = shop();
    primary.query_in(
        "shop",
        "CREATE FUNCTION notices() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF to_regclass('public.here') IS NOT NULL THEN RAISE 'it fires'; END IF; END $$; \
         CREATE EVENT TRIGGER notices ON ddl_command_end EXECUTE FUNCTION notices(); \
         ALTER EVENT TRIGGER notices ENABLE ALWAYS; ALTER EXTENSION plpgsql ADD EVENT TRIGGER notices; \
         CREATE EVENT TRIGGER another ON ddl_command_end EXECUTE FUNCTION notices(); ALTER EVENT TRIGGER another ENABLE ALWAYS",
    );
    let mut fed = backed_up(primary, true).await;
    let there = "SELECT string_agg(evtname || evtenabled::text, ' ') FROM pg_event_trigger";
    assert_eq!(one(&fed.replica.query_in("shop", there)), "noticesO");
    fed.replica.query_in("shop", "SET session_replication_role = replica; CREATE TABLE here ()");
    fed.primary.query_in("shop", "CREATE TABLE later (id int PRIMARY KEY)");
    fed.feed().await.unwrap();
    // The state that CREATE EXTENSION would leave.
    fed.replica.query_in("shop", "DROP TABLE here; ALTER EVENT TRIGGER notices ENABLE ALWAYS");
    fed.primary.query_in("shop", "CREATE TABLE much_later (id int PRIMARY KEY)");
    fed.feed().await.unwrap();
    assert_eq!(one(&fed.replica.query_in("shop", there)), "noticesO");
}
