//! Functions that `replica_safe_functions` names: their tables are the statement's, or the statement stays at the primary.

use crate::session::query;
use crate::stage::{LIMIT, Open, Raw, until};
use scheduler::Writers;
use statement_analysis::catalog::Procedure;
use statement_analysis::declared_tables::Declared;
use testkit::Scratch;

/// A standby that stands still has the rows of before. A STABLE function reads them there, and its statement names no table: the
/// answer is right only with the tables that the function is declared to read.
#[test]
fn stable_function_at_paused_standby_is_not_stale() {
    let servers = Scratch::start(1);
    servers.query(
        "CREATE TABLE rates (id int PRIMARY KEY, v int); INSERT INTO rates VALUES (1, 1); CREATE TABLE other (id int); \
         CREATE FUNCTION bare() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(v) FROM rates'; \
         CREATE FUNCTION told() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT sum(v) FROM rates); END'",
    );
    servers.catch_up(LIMIT);
    let open = Open::before(&servers, Writers::Anywhere, |setup| {
        setup.harmless = vec!["public.bare".to_owned(), "public.told".to_owned()];
    });
    open.cluster(|cluster| {
        cluster.declare_procedures(&[Procedure {
            schema: "public".to_owned(),
            name: "told".to_owned(),
            tables_read: Declared::read("rates").unwrap(),
            ..Procedure::default()
        }]);
    });
    let mut raw = Raw::ready(&open, "postgres");
    // A session that called the function before it was known to be declared may have seeded random(): it stays.
    until(|| {
        raw = Raw::ready(&open, "postgres");
        let before = open.reads_at_standbys();
        (0..5).for_each(|_| drop(query(&mut raw, "SELECT told()")));
        open.reads_at_standbys() > before
    });
    for _ in 0..3 {
        let before = open.reads_at_standbys();
        query(&mut raw, "SELECT bare()");
        assert_eq!(open.reads_at_standbys(), before, "no table of the function is known");
    }
    let standby = servers.standby(0);
    standby.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
    until(|| {
        let state = standby.query("postgres", "SELECT pg_get_wal_replay_pause_state()").unwrap();
        state[0][0].as_deref() == Some("paused")
    });
    query(&mut raw, "UPDATE rates SET v = 2");
    let seen = ["SELECT told()", "SELECT bare()"].map(|text| query(&mut raw, text));
    standby.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
    assert_eq!(seen, [["2"], ["2"]]);
}
