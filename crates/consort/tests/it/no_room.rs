//! Rows for which Consort has no room, in memory or in files: the replica that lacks them is copied again,
//! and the reason is reported. No client notices, and the database is followed as before.

use std::fs;
use std::path::Path;

use local_cluster::Options;
use testkit::Scratch;

use crate::fed::all_equal;
use crate::fixture::{Serving, eventually, temporary};
use crate::load::{Client, Console, Load, TABLES, THROUGH, past};
use crate::ordered::verified;
use crate::replicas::number;
use crate::serving::figure;

/// Writes what there is no room for.
type Writes = fn(&mut Client, &mut Console);

/// Both designs that spill to files, and the report of each that cannot, up to the folder and the reason.
pub(crate) const MANY: (Writes, &str) = (many_that_wait, "cannot spill the replication backlog to a file: ");
pub(crate) const LARGE: (Writes, &str) =
    (a_large_transaction, "cannot read back the rows of a large transaction: cannot write them to a file: ");

/// One transaction of more rows than are kept in memory.
fn a_large_transaction(client: &mut Client, _console: &mut Console) {
    client.rows("CREATE TABLE large (id int PRIMARY KEY, v text NOT NULL)").expect("the table can be made");
    let rows = "INSERT INTO large SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 20000) n";
    client.rows(rows).expect("the rows are written");
}

/// Transactions that wait in memory for a replica, and in files when that is full. Few at a time have no boundary yet: not for
/// their sake is it given up.
fn many_that_wait(client: &mut Client, console: &mut Console) {
    console.rows("PAUSE REPLICA replica1");
    for round in 1..=120 {
        let rows =
            format!("INSERT INTO counter SELECT {round} * 1000 + n, 0 FROM generate_series(1, 1000) n");
        client.rows(&rows).expect("the rows are written");
    }
    console.rows("RESUME REPLICA replica1");
}

/// Consort in front of a primary and a replica that is fed, with little memory for rows that wait, and this folder for the rest.
pub(crate) fn serving(files: &Path) -> (Serving, Console) {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    let serving =
        Serving::with_files_in(files, servers, &format!("{THROUGH}\nreplication_buffer_size = \"1MB\""));
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_equal(&serving, &mut console);
    (serving, console)
}

/// Runs the writes, after which the replica is copied again for the reason in `said`. The closure runs before
/// the copy can be made.
pub(crate) fn copied_anew(
    (serving, console): (&Serving, &mut Console),
    writes: Writes,
    said: &str,
    mend: impl FnOnce(),
) {
    let (replica, url) = (serving.servers.replica(0), serving.url("postgres", "postgres"));
    let before = number(replica);
    let load = Load::start(&url);
    let mut client = Client::connect(&url).expect("a log-in");
    // For as long as this is held no database can be dropped there, so that a copy does not come far.
    let there = past(replica).replace("dbname=postgres", "dbname=template1");
    let mut holder = Client::connect(&there).expect("a log-in");
    holder.rows("BEGIN; LOCK TABLE pg_database IN SHARE MODE").expect("the lock");
    writes(&mut client, console);
    load.goes_on(20, 10);
    eventually("a copy, with its reason", || {
        let feed = console.feed("replica1", "postgres");
        feed.state == "copying" && feed.why.contains(said)
    });
    // While rows go on to find no room a copy is broken off and begun again.
    eventually("a status with its reason", || serving.run("status", &[]).worked().contains(said));
    let copying = "consort_replication_copying{node=\"replica1\",database=\"postgres\"}";
    eventually("a copy in the metrics", || figure(serving, copying) == 1);
    // The slot gives what comes next, not the same again and again.
    eventually("a database that is followed", || console.stays("postgres").is_empty());
    load.goes_on(20, 10);
    mend();
    holder.rows("ROLLBACK").expect("the lock is let go");
    load.goes_on(20, 10);
    load.end();
    all_equal(serving, console);
    assert_ne!(number(replica), before, "it is another copy");
    verified(serving);
}

#[test]
fn a_replica_lacks_rows_for_which_no_file_can_be_made_and_is_copied_anew() {
    let files = temporary("files");
    fs::create_dir(&files).unwrap();
    let (serving, mut console) = serving(&files);
    for (writes, said) in [MANY, LARGE] {
        fs::remove_dir_all(&files).unwrap();
        let said = format!("{said}{}: No such file or directory", files.display());
        copied_anew((&serving, &mut console), writes, &said, || fs::create_dir(&files).unwrap());
    }
    fs::remove_dir_all(&files).unwrap();
}
