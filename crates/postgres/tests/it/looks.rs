//! Snapshot probes and watchers.

use crate::{SOON, one, soon};
use history::{Epoch, Lsn, Xid};
use postgres::Error;
use postgres::snapshot_probe::{Gauger, loaded_first};
use postgres::watcher::Watcher;
use std::time::{Duration, Instant};
use testkit::Scratch;

const EPOCH: Epoch = Epoch::new(3);

#[tokio::test]
async fn a_gauge_sees_what_has_finished() {
    let scratch = Scratch::start(0);
    scratch.query("CREATE TABLE t (n int)");
    let mut gauger = Gauger::connect(&scratch.address("postgres"), EPOCH).await.unwrap();
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    control.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    let xid: String = control.query_one("SELECT pg_current_xact_id()::text", &[]).await.unwrap().get(0);
    let xid: Xid = xid.parse().unwrap();

    let before = gauger.gauge().await.unwrap();
    assert!(!before.snapshot.sees(xid));
    assert_eq!(before.incarnation.epoch, EPOCH);
    assert_eq!(before.incarnation.timeline.get(), 1);
    control.batch_execute("COMMIT").await.unwrap();
    let after = gauger.gauge().await.unwrap();
    assert!(after.snapshot.sees(xid));
    assert!(after.insert_lsn > before.insert_lsn);
    assert_eq!(after.incarnation, before.incarnation);

    gauger.flush().await.unwrap();
    let flushed: Lsn = one(&scratch.query("SELECT pg_current_wal_flush_lsn()")).parse().unwrap();
    assert!(flushed > after.insert_lsn);

    // A probe that is dropped leaves nothing that a later one could take for its own.
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_micros(50), gauger.gauge()).await;
    }
    scratch.query("INSERT INTO t VALUES (2)");
    let last = gauger.gauge().await.unwrap();
    assert!(last.snapshot.xmax() > after.snapshot.xmax());
}

#[tokio::test]
async fn the_position_behind_a_page_header_is_brought_back() {
    let scratch = Scratch::start(0);
    let mut gauger = Gauger::connect(&scratch.address("postgres"), EPOCH).await.unwrap();
    // A switched segment leaves the WAL at the beginning of the next, after its long header; a background
    // process may write there at once.
    let mut brought_back = false;
    for _ in 0..10 {
        scratch.query("SELECT pg_logical_emit_message(true, '', '')");
        scratch.query("SELECT pg_switch_wal()");
        let gauge = gauger.gauge().await.unwrap();
        let raw: Lsn = one(&scratch.query("SELECT pg_current_wal_insert_lsn()")).parse().unwrap();
        brought_back |= raw.get() % (16 << 20) == 40 && gauge.insert_lsn.get() == raw.get() - 40;
    }
    assert!(brought_back);
}

#[tokio::test]
async fn a_crash_under_the_same_postmaster_is_another_incarnation() {
    let scratch = Scratch::start(1);
    let address = scratch.address("postgres");
    let standby = scratch.standby(0).address("postgres", "postgres");
    let mut gauger = Gauger::connect(&address, EPOCH).await.unwrap();
    let mut watcher = Watcher::connect(&standby, EPOCH).await.unwrap();
    let (first, first_standby) = (*gauger.sighting(), *watcher.sighting());
    assert_eq!(first.system, first_standby.system);
    for (node, name) in [(scratch.primary(), "primary"), (scratch.standby(0), "standby")] {
        let before = node.state();
        let backend = one(&node.query("postgres", "SELECT pg_backend_pid()").unwrap()).to_owned();
        assert_ne!(backend, "null", "{name}");
        // A session that dies of SIGKILL makes its postmaster restart everything.
        let started = Instant::now();
        let victim = node
            .query("postgres", "SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'");
        let victim = one(&victim.unwrap()).to_owned();
        std::process::Command::new("kill").args(["-9", &victim]).status().unwrap();
        while node.query("postgres", "SELECT 1").is_ok_and(|_| started.elapsed() < Duration::from_millis(50))
        {
        }
        node.wait_ready(SOON).unwrap();
        assert_eq!(node.state(), before, "the postmaster is the same");
    }
    assert!(matches!(gauger.gauge().await, Err(Error::Unreachable(_))));
    assert!(matches!(watcher.replayed().await, Err(Error::Unreachable(_))));
    let gauger = Gauger::connect(&address, EPOCH).await.unwrap();
    let watcher = Watcher::connect(&standby, EPOCH).await.unwrap();
    assert_ne!(gauger.sighting().incarnation, first.incarnation);
    assert_ne!(watcher.sighting().incarnation, first_standby.incarnation);
    assert_eq!(gauger.sighting().incarnation.timeline, first.incarnation.timeline);
    assert_eq!(gauger.sighting().system, first.system);
}

#[tokio::test]
async fn a_watcher_follows_replay_and_leaves_a_promoted_server() {
    let scratch = Scratch::start(1);
    let standby = scratch.standby(0).address("postgres", "postgres");
    let mut watcher = Watcher::connect(&standby, EPOCH).await.unwrap();
    assert!(Gauger::connect(&standby, EPOCH).await.is_err_and(|error| matches!(error, Error::Protocol(_))));
    assert!(Watcher::connect(&scratch.address("postgres"), EPOCH).await.is_err());
    scratch.query("CREATE TABLE t (n int)");
    let goal: Lsn = one(&scratch.query("SELECT pg_current_wal_flush_lsn()")).parse().unwrap();
    soon("replay", async { while watcher.replayed().await.unwrap() < goal {} }).await;
    assert!(watcher.received().await.unwrap() >= goal);

    scratch.set_apply_delay(0, Duration::from_secs(3600));
    // A commit that is replayed before the delay is known shows nothing, and no other may come for a minute.
    soon("reception", async {
        while watcher.received().await.unwrap() <= watcher.replayed().await.unwrap() {
            scratch.query("INSERT INTO t VALUES (1)");
        }
    })
    .await;
    assert!(watcher.replayed().await.unwrap() >= goal);
    scratch.set_apply_delay(0, Duration::ZERO);
    scratch.catch_up(SOON);
    scratch.standby(0).query("postgres", "SELECT pg_promote(false)").unwrap();
    soon("promotion", async { while watcher.replayed().await.is_ok() {} }).await;
    assert!(matches!(watcher.replayed().await, Err(Error::Protocol(_))));
}

/// Prints the cost of one probe. The result is not judged: the machine is shared.
#[tokio::test]
async fn round_trips() {
    let scratch = Scratch::start(1);
    let mut gauger = Gauger::connect(&scratch.address("postgres"), EPOCH).await.unwrap();
    let mut watcher =
        Watcher::connect(&scratch.standby(0).address("postgres", "postgres"), EPOCH).await.unwrap();
    let mut gauge_us = Vec::new();
    let mut watch_us = Vec::new();
    for _ in 0..2000 {
        let start = Instant::now();
        gauger.gauge().await.unwrap();
        gauge_us.push(start.elapsed().as_micros());
        let start = Instant::now();
        watcher.replayed().await.unwrap();
        watch_us.push(start.elapsed().as_micros());
    }
    for (name, times) in [("gauge", &mut gauge_us), ("position", &mut watch_us)] {
        times.sort_unstable();
        println!("{name}: p50 {} us, p99 {} us", times[1000], times[1980]);
    }
}

#[tokio::test]
async fn passwords_and_refusals() {
    let scratch = Scratch::start(0);
    scratch.query(
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE anna LOGIN SUPERUSER PASSWORD 'secret'",
    );
    let hba = scratch.primary().data_folder().join("pg_hba.conf");
    let text = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("local all anna scram-sha-256\n{text}")).unwrap();
    scratch.query("SELECT pg_reload_conf()");
    let mut anna = scratch.address("postgres").with_user("anna");
    let try_it = async |address: &postgres::address::Address| Gauger::connect(address, EPOCH).await.map(drop);
    // The reload takes a moment.
    soon("the reload", async { while try_it(&anna).await.is_ok() {} }).await;
    assert!(matches!(try_it(&anna).await, Err(Error::NoPassword { .. })));
    anna.password = Some("wrong".to_owned());
    assert!(try_it(&anna).await.is_err_and(|error| error.is("28P01")));
    anna.password = Some("secret".to_owned());
    try_it(&anna).await.unwrap();
    let nobody = scratch.address("nowhere");
    assert!(try_it(&nobody).await.is_err_and(|error| error.is("3D000")));
    assert!(crate::client(&nobody).await.is_err_and(|error| error.is("3D000")));
}

/// Each backend reads the files when it is signalled, one after the other. A later one inherits the load time
/// of the first process.
#[tokio::test]
async fn a_gauge_tells_of_a_reload_and_who_begins_then_says_from_when_on_it_is_heeded() {
    let scratch = Scratch::start(0);
    let address = scratch.address("postgres");
    let mut gauger = Gauger::connect(&address, EPOCH).await.unwrap();
    let before = gauger.gauge().await.unwrap().loaded;
    assert_eq!(loaded_first(&address).await.unwrap(), before);
    assert_eq!(gauger.gauge_with_roles().await.unwrap().0.loaded, before);
    scratch.query("SELECT pg_reload_conf()");
    let mut after = before;
    soon("the reload", async {
        while after == before {
            after = gauger.gauge().await.unwrap().loaded;
        }
    })
    .await;
    let floor = loaded_first(&address).await.unwrap();
    assert!(before < floor && floor <= after, "{before}, {floor}, {after}");
    assert_eq!(gauger.gauge_with_roles().await.unwrap().0.loaded, after);
}

/// Consort's own writes succeed, and its queries are answered, under any initial settings of sessions.
#[tokio::test]
async fn the_servers_defaults_for_transactions_are_not_ours() {
    let scratch = Scratch::start(1);
    for node in [scratch.primary(), scratch.standby(0)] {
        node.set("default_transaction_read_only", "on").unwrap();
        node.set("default_transaction_isolation", "serializable").unwrap();
        let set = || node.query("postgres", "SHOW default_transaction_isolation").unwrap()[0][0].clone();
        soon("the reload", async { while set().as_deref() != Some("serializable") {} }).await;
    }
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    control.batch_execute("CREATE TABLE ours (n int)").await.unwrap();
    let isolation = control.query_one("SHOW transaction_isolation", &[]).await.unwrap();
    assert_eq!(isolation.get::<_, String>(0), "read committed");
    Gauger::connect(&scratch.address("postgres"), EPOCH).await.unwrap().flush().await.unwrap();
    let standby = scratch.standby(0).address("postgres", "postgres");
    Watcher::connect(&standby, EPOCH).await.unwrap().replayed().await.unwrap();
    crate::client(&standby).await.unwrap().query_one("SELECT 1", &[]).await.unwrap();
}
