//! Disks that are really full: of a replica that is fed, of a standby, and the one where Consort puts what memory has no room
//! for. Each is a small one in memory, mounted where the files are.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use design::Orderer;
use local_cluster::{Node, NodeState, Options, Stop};
use testkit::Scratch;

use crate::fed::all_equal;
use crate::fixture::{LIMIT, Serving, eventually, run, temporary};
use crate::load::{Client, Console, Load, TABLES, THROUGH, served, serves};
use crate::no_room::{self, LARGE, MANY, copied_anew};
use crate::ordered::verified;
use crate::serving::figure;
use crate::waiting::named;

/// Mounts an empty disk over a folder, and reports it. Unmounts it when its standard input closes, even after
/// the test's death; open files keep it until they are closed.
const GUARD: &str = r#"
trap '' INT TERM HUP
mount -t tmpfs -o "size=$2" consort-test "$1" || exit
echo mounted
cat > /dev/null
umount -l "$1" && rmdir "$1"
"#;

/// A small disk, for as long as this lives.
struct Disk {
    folder: PathBuf,
    guard: Child,
}

impl Disk {
    /// An empty one over a folder that is there.
    fn over(folder: &Path, size: &str) -> Disk {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(folder).arg(size);
        // Its own group of processes: what a terminal sends to all of us is not for it.
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guard = guard.spawn().expect("sh runs");
        let mut said = String::new();
        let output = guard.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut said).expect("the pipe holds");
        if said != "mounted\n" {
            let done = guard.wait_with_output().expect("it ends");
            let why = String::from_utf8_lossy(&done.stderr);
            panic!(
                "this test needs the right to mount, as root has it outside of containers: {}",
                why.trim()
            );
        }
        Disk { folder: folder.to_owned(), guard }
    }

    /// One over a folder of a server that does not run, with all that is in the folder.
    fn under(folder: &Path, size: &str) -> Disk {
        let away = folder.with_extension("away");
        fs::rename(folder, &away).expect("the folder is there");
        fs::create_dir(folder).expect("its place is free");
        let disk = Disk::over(folder, size);
        run(Command::new("cp").args(["-a", "--"]).arg(away.join(".")).arg(folder)).worked();
        let was = fs::metadata(&away).expect("it is there");
        chown(folder, Some(was.uid()), Some(was.gid())).expect("who may mount may do so");
        fs::set_permissions(folder, was.permissions()).expect("it is ours to say");
        disk
    }

    /// Takes so much of it.
    fn put_ballast(&self, megabytes: usize) {
        fs::write(self.ballast(), vec![1; megabytes << 20]).expect("there is room");
    }

    /// Makes room.
    fn remove_ballast(&self) {
        fs::remove_file(self.ballast()).expect("it was put there");
    }

    /// PostgreSQL looks at nothing that is called so.
    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // The guard has done its work or not; no caller needs the result.
        let _ = self.guard.wait();
    }
}

/// A primary and one node more, of whose data this folder is on a disk of such a size, with so many megabytes of ballast.
fn servers(standbys: usize, folder: &str, size: &str, ballast: usize) -> (Arc<Scratch>, Disk) {
    let mut options = Options { standbys, replicas: 1 - standbys, ..Scratch::options() };
    // Autovacuum runs at any time, and makes connections write files of their own again.
    options.settings.push(("autovacuum".to_owned(), "off".to_owned()));
    let servers = Scratch::with(options);
    let node = other(&servers);
    node.stop(Stop::Fast).expect("it stops");
    let disk = Disk::under(&node.data_folder().join(folder), size);
    disk.put_ballast(ballast);
    node.start().expect("it starts");
    (Arc::new(servers), disk)
}

/// The node that is not the primary.
fn other(servers: &Scratch) -> &Node {
    servers.cluster().nodes().last().expect("there are two")
}

/// The log of a node since its creation.
fn log(node: &Node) -> String {
    let files =
        fs::read_dir(node.log_folder()).expect("it has one").map(|entry| entry.expect("an entry").path());
    files.map(|file| fs::read_to_string(file).expect("the log can be read")).collect()
}

const COUNT: &str = "SELECT count(*) FROM wide";

/// Rows that are inserted at once: two megabytes.
const ROWS: i64 = 2000;

/// No disk here has room for more.
const MOST_ROWS: i64 = 200_000;

/// Number of rows that a node shows past Consort, if it answers.
fn shown(node: &Node) -> Option<i64> {
    node.query("postgres", COUNT).ok()?.first()?.first()?.as_ref()?.parse().ok()
}

/// Writes through Consort until the node's disk is full, and reads each time what was written: how many rows there are. The node
/// takes in what was written before more is.
fn fill(client: &mut Client, node: &Node, mut is_full: impl FnMut() -> bool) -> i64 {
    client.rows("CREATE TABLE wide (id int PRIMARY KEY, v text NOT NULL)").expect("the table can be made");
    let mut rows = 0;
    while rows < MOST_ROWS {
        let more = format!(
            "INSERT INTO wide SELECT {rows} + n, repeat(md5(n::text), 30) FROM generate_series(1, {ROWS}) n"
        );
        client.rows(&more).expect("a write");
        rows += ROWS;
        assert_eq!(client.number(COUNT).expect("a read"), rows);
        let mut full = false;
        eventually("a node that takes it in or is full", || {
            full = is_full();
            full || shown(node) == Some(rows)
        });
        if full {
            return rows;
        }
    }
    panic!("{rows} rows, and the disk is not full: {}", node.end_of_log());
}

/// Consort of this design in front of these servers, whose tables are made.
fn serving(servers: &Arc<Scratch>, design: &str) -> (Serving, Console, String) {
    let serving = Serving::over(servers.clone(), &format!("design = \"{design}\"\n{THROUGH}"));
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let console = Console::connect(&serving.url("postgres", "consort"));
    (serving, console, url)
}

/// All is read right while the disk is full, and clients go on.
fn nobody_notices(client: &mut Client, load: &Load, rows: i64) {
    for _ in 0..20 {
        assert_eq!(client.number(COUNT).expect("a read"), rows);
    }
    load.goes_on(20, 10);
}

/// The replica has all rows, as the primary has them, and its reads again.
fn has_caught_up(serving: &Serving, console: &mut Console, client: &mut Client, rows: i64) {
    all_equal(serving, console);
    assert_eq!(shown(other(&serving.servers)), Some(rows));
    verified(serving);
    let before = served(console, "replica1");
    eventually("reads at the replica", || {
        assert_eq!(client.number(COUNT).expect("a read"), rows);
        served(console, "replica1") > before
    });
}

const WAITS: &str = "consort_replication_waiting{node=\"replica1\",database=\"postgres\"}";

#[test]
fn a_replica_whose_disk_is_full_says_so_is_not_noticed_and_catches_up_when_there_is_room() {
    let by_turns = named(|design| design.orderer == Orderer::PrimaryOneByOne);
    let by_statements = named(|design| design.is_fed() && design.effects.are_statements());
    for design in [design::CONSORT.name, by_statements, by_turns] {
        let (servers, disk) = servers(0, "base", "64m", 16);
        let (serving, mut console, url) = serving(&servers, design);
        all_equal(&serving, &mut console);
        let load = Load::start(&url);
        let mut client = Client::connect(&url).unwrap();
        // No room for a file, or for the rest of a page: the code is the same.
        let full = "could not extend file";
        let rows = fill(&mut client, other(&servers), || {
            let feed = console.feed("replica1", "postgres");
            feed.state == "waiting" && feed.why.contains(full) && feed.why.contains("SQLSTATE 53100")
        });
        nobody_notices(&mut client, &load, rows);
        // The feed is tried repeatedly, and runs for that moment.
        eventually("a status that says why", || {
            let status = serving.run("status", &[]).worked();
            status.contains("replica1, database postgres: waiting: ") && status.contains("SQLSTATE 53100")
        });
        eventually("a metric that names it", || figure(&serving, WAITS) == 1);
        nobody_notices(&mut client, &load, rows);
        disk.remove_ballast();
        eventually("all that it lacked", || shown(other(&servers)) == Some(rows));
        load.goes_on(20, 10);
        load.end();
        has_caught_up(&serving, &mut console, &mut client, rows);
        assert_eq!(figure(&serving, WAITS), 0);
    }
}

#[test]
fn a_replica_whose_log_fills_its_disk_dies_unnoticed_and_catches_up_when_there_is_room() {
    let (servers, disk) = servers(0, "pg_wal", "96m", 32);
    let (serving, mut console, url) = serving(&servers, design::CONSORT.name);
    all_equal(&serving, &mut console);
    let load = Load::start(&url);
    let mut client = Client::connect(&url).unwrap();
    let replica = other(&servers);
    let rows = fill(&mut client, replica, || {
        let log = log(replica);
        log.contains("PANIC:") && log.contains("No space left on device")
    });
    // The server itself has no word for its clients any more: it recovers in vain, or is gone.
    eventually("a replica that is left", || console.feed("replica1", "postgres").state == "waiting");
    eventually("a metric that names it", || figure(&serving, WAITS) == 1);
    nobody_notices(&mut client, &load, rows);
    disk.remove_ballast();
    // The administrator starts the server again.
    replica.kill();
    replica.start().unwrap();
    eventually("all that it lacked", || shown(replica) == Some(rows));
    load.goes_on(20, 10);
    load.end();
    has_caught_up(&serving, &mut console, &mut client, rows);
}

#[test]
fn a_standby_whose_disk_is_full_dies_unnoticed_and_serves_again_when_there_is_room() {
    let (servers, disk) = servers(1, "base", "64m", 16);
    let (serving, mut console, url) = serving(&servers, design::CONSORT.name);
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    let mut client = Client::connect(&url).unwrap();
    let standby = other(&servers);
    // A record that cannot be replayed ends the server.
    let rows = fill(&mut client, standby, || standby.state() == NodeState::Stopped);
    assert!(log(standby).contains("could not extend file"), "{}", standby.end_of_log());
    eventually("a standby that is left", || !console.node("standby1").serving);
    assert_ne!(console.node("standby1").why, "");
    assert_eq!(figure(&serving, "consort_node_serving{node=\"standby1\"}"), 0);
    nobody_notices(&mut client, &load, rows);
    disk.remove_ballast();
    standby.start().unwrap();
    serves(&mut console, "standby1");
    load.end();
    servers.catch_up(LIMIT);
    assert_eq!(shown(standby), Some(rows));
    let load = Load::start(&url);
    nobody_notices(&mut client, &load, rows);
    load.end();
}

#[test]
fn a_replica_for_whose_rows_consort_has_no_disk_is_copied_anew_and_nobody_notices() {
    let files = temporary("files");
    fs::create_dir(&files).unwrap();
    let _disk = Disk::over(&files, "2m");
    let (serving, mut console) = no_room::serving(&files);
    for (writes, said) in [MANY, LARGE] {
        let said = format!("{said}{}: No space left on device", files.display());
        // An abandoned backlog gives its room back.
        copied_anew((&serving, &mut console), writes, &said, || {});
    }
}
