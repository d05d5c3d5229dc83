//! Standbys that are killed, hang, lag, recover, or follow somebody else: no client sees a wrong row or an error.

use std::time::Duration;

use crate::fixture::eventually;
use crate::load::{ANYWHERE, Console, Load, THROUGH, kill_a_backend, serves, serving};

/// Waits until Consort has seen that this standby is not what it should be, and says why.
fn is_left(console: &mut Console, name: &str) -> String {
    eventually("a standby that is left", || !console.node(name).serving);
    console.node(name).why
}

#[test]
fn a_standby_that_is_killed_or_recovers_is_not_noticed() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(2, lines);
        let load = Load::start(&url);
        serves(&mut console, "standby1");
        serves(&mut console, "standby2");

        let standby = serving.servers.standby(0);
        standby.kill();
        load.goes_on(20, 3);
        is_left(&mut console, "standby1");
        serves(&mut console, "standby2");
        standby.start().unwrap();
        serves(&mut console, "standby1");

        kill_a_backend(standby);
        load.goes_on(20, 3);
        serves(&mut console, "standby1");
        load.end();
    }
}

#[test]
fn a_standby_that_hangs_is_left_and_used_again() {
    let (serving, mut console, url) = serving(2, THROUGH);
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    let standby = serving.servers.standby(0);
    standby.hang();
    // No read waits for it to go on.
    load.goes_on(40, 6);
    let why = is_left(&mut console, "standby1");
    assert!(why.contains("no answer within"), "{why}");
    serves(&mut console, "standby2");
    standby.resume();
    serves(&mut console, "standby1");
    load.end();
}

#[test]
fn a_standby_that_lags_answers_only_what_has_not_changed() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(1, lines);
        let load = Load::start(&url);
        serves(&mut console, "standby1");
        serving.servers.set_apply_delay(0, Duration::from_secs(3600));
        load.goes_on(60, 10);
        // The quiet row still comes from there.
        serves(&mut console, "standby1");
        serving.servers.set_apply_delay(0, Duration::ZERO);
        load.goes_on(60, 10);
        serving.servers.catch_up(crate::fixture::LIMIT);
        serves(&mut console, "standby1");
        load.end();
    }
}

#[test]
fn a_standby_that_somebody_promotes_serves_no_more() {
    let (serving, mut console, url) = serving(2, THROUGH);
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    let standby = serving.servers.standby(0);
    standby.query("postgres", "SELECT pg_promote()").unwrap();
    // A server of its own now, with rows that the cluster has never had.
    standby.query("postgres", "UPDATE quiet SET v = 666; UPDATE counter SET n = 1000000").unwrap();
    load.goes_on(60, 5);
    let why = is_left(&mut console, "standby1");
    assert!(!why.is_empty());
    let served = console.node("standby1").served;
    serves(&mut console, "standby2");
    standby.restart(postgres::local::Stop::Fast).unwrap();
    load.goes_on(60, 5);
    assert_eq!(console.node("standby1").served, served, "its own timeline is nobody's");
    load.end();
}
