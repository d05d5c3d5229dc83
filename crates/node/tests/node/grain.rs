//! Experiments that change the set of offloaded reads: the grain of footprints.

use crate::session::{query, until_it_leaves};
use crate::stage::{Open, Raw, database_at, until};
use history::Grain;
use scheduler::Writers;
use testkit::Scratch;

#[test]
fn the_coarser_footprints_are_the_more_reads_stay() {
    let servers = Scratch::start(1);
    database_at(&servers, "grain");
    servers.query_in("grain", "CREATE TABLE others (id int PRIMARY KEY)");
    // Otherwise the WAL does not say which columns an update has changed.
    servers.query_in("grain", "ALTER TABLE items REPLICA IDENTITY FULL");
    let standby = |sql: &str| servers.standby(0).query("postgres", sql).unwrap();
    for (grain, by_column, by_row) in
        [(Grain::Row, true, true), (Grain::Column, true, false), (Grain::Table, false, false)]
    {
        let open =
            Open::before(&servers, Writers::ThroughConsort, move |setup| setup.footprint_grain = grain);
        let mut raw = Raw::ready(&open, "grain");
        let [other_table, other_column, other_row] =
            ["SELECT id FROM others", "SELECT count(id) FROM items", "SELECT name FROM items WHERE id = 5"];
        for read in [other_table, other_column, other_row] {
            until_it_leaves(&open, &mut raw, read);
        }
        standby("SELECT pg_wal_replay_pause()");
        until(|| standby("SELECT pg_get_wal_replay_pause_state()")[0][0].as_deref() == Some("paused"));
        query(&mut raw, &format!("UPDATE items SET name = '{grain:?}' WHERE id = 7"));
        let mut leaves = |read: &str| {
            let before = open.reads_at_standbys();
            query(&mut raw, read);
            open.reads_at_standbys() > before
        };
        // From here on it is known what was written.
        until(|| leaves(other_table));
        assert_eq!(leaves(other_column), by_column, "{grain:?}");
        assert_eq!(leaves(other_row), by_row, "{grain:?}");
        assert!(!leaves("SELECT name FROM items WHERE id = 7"), "{grain:?}");
        standby("SELECT pg_wal_replay_resume()");
    }
}
