//! Standbys of every kind alongside a primary after a fail-over: those on its history are proven, diverged
//! ones are not.

use crate::{SOON, one, soon};
use history::{Epoch, Incarnation, Lsn, Timeline};
use local_cluster::{Node, Stop, wait_until};
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::programs::Programs;
use postgres::timelines::{self, PrimaryHistory, Proof};
use postgres::watcher::Watcher;
use testkit::Scratch;

const EPOCH: Epoch = Epoch::new(1);

/// A primary and this many standbys, which pg_rewind can bring back.
fn servers(standbys: usize) -> Scratch {
    let mut options = Scratch::options();
    options.standbys = standbys;
    for (name, value) in [("wal_log_hints", "on"), ("wal_keep_size", "256MB")] {
        options.settings.push((name.to_owned(), value.to_owned()));
    }
    let scratch = Scratch::with(options);
    scratch.query("CREATE TABLE t (v text); INSERT INTO t VALUES ('kept')");
    scratch.catch_up(SOON);
    scratch
}

fn address(node: &Node) -> Address {
    node.address("postgres", "postgres")
}

fn asked(node: &Node, sql: &str) -> String {
    one(&node.query("postgres", sql).unwrap()).to_owned()
}

/// Waits until the query returns this value.
fn comes(node: &Node, sql: &str, value: &str) {
    assert!(wait_until(SOON, || asked(node, sql) == value), "{}: {sql} is not {value}", node.name());
}

const READ: &str = "SELECT string_agg(v, ' ' ORDER BY v) FROM t";
const RECEIVED: &str = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'";

/// Cuts a standby off: it receives nothing any more.
fn cut_off(node: &Node) {
    node.set("primary_conninfo", "").unwrap();
    comes(node, "SELECT count(*) FROM pg_stat_wal_receiver", "0");
}

/// Points a standby at this server, as an operator does.
fn point(node: &Node, upstream: &Node) {
    let (host, port) = (upstream.socket_folder().display(), upstream.port());
    node.set("primary_slot_name", "").unwrap();
    node.set("primary_conninfo", &format!("host={host} port={port} user=postgres")).unwrap();
}

fn promote(node: &Node) {
    assert_eq!(asked(node, "SELECT pg_promote()"), "t");
}

/// Writes enough WAL that its end lies above all earlier positions.
fn write_much(node: &Node) {
    let much = "SELECT pg_logical_emit_message(true, '', repeat('x', 1000000))";
    node.query("postgres", &format!("{much}; SELECT pg_switch_wal(); {much}")).unwrap();
}

async fn prove(standby: &Node, primary: &Node) -> Result<Proof, Error> {
    let control = Control::connect(&address(primary)).await?;
    let history = PrimaryHistory::read(&address(primary), &control, EPOCH).await?;
    timelines::prove(&address(standby), &history, Some(&control)).await
}

async fn diverged(standby: &Node, primary: &Node, how: &str) {
    let why = match prove(standby, primary).await {
        Err(Error::Setup(why)) => why,
        other => panic!("{}: {other:?}", standby.name()),
    };
    assert!(why.starts_with("the standby has diverged from the primary") && why.contains(how), "{why}");
    assert!(why.contains("pg_rewind") && why.contains("base backup"), "{why}");
}

/// Waits until a standby is proven on this timeline.
async fn is_on(standby: &Node, primary: &Node, timeline: u32) -> Proof {
    let proof = async {
        loop {
            match prove(standby, primary).await {
                Ok(proof) if proof.timeline == Timeline::new(timeline) => return proof,
                Ok(_) | Err(Error::NotReady(_) | Error::Unreachable(_)) => tokio::task::yield_now().await,
                Err(why) => panic!("{why}"),
            }
        }
    };
    soon("the timeline", proof).await
}

fn rewind(node: &Node, source: &Node) {
    node.stop(Stop::Fast).unwrap();
    // Before the checkpoint the control file of a promoted server has its old timeline, and pg_rewind finds
    // nothing to do.
    source.query("postgres", "CHECKPOINT").unwrap();
    let source = format!(
        "host={} port={} user=postgres dbname=postgres",
        source.socket_folder().display(),
        source.port()
    );
    let mut command = Programs::find().unwrap().command("pg_rewind");
    command.arg("--target-pgdata").arg(node.data_folder()).arg("--source-server").arg(&source);
    // The standby's own configuration is among the files that are copied from the source.
    let own = node.data_folder().join("consort.conf");
    let kept = std::fs::read(&own).unwrap();
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    std::fs::write(&own, kept).unwrap();
    std::fs::write(node.data_folder().join("standby.signal"), "").unwrap();
}

/// The standby has replayed a commit that the promoted server never had. The new timeline's history is known
/// there, and the standby logs that it cannot follow. Standbys of it have diverged with it, and pg_rewind
/// brings them back.
#[tokio::test]
async fn standby_beyond_the_fork_has_diverged() {
    let scratch = servers(3);
    let (a, b, c, d) = (scratch.primary(), scratch.standby(0), scratch.standby(1), scratch.standby(2));
    point(d, c);
    comes(d, RECEIVED, "1");
    is_on(d, a, 1).await;
    cut_off(b);
    a.query("postgres", "INSERT INTO t VALUES ('lost')").unwrap();
    comes(d, READ, "kept lost");
    a.stop(Stop::Fast).unwrap();
    promote(b);
    // A receiver that never connects makes no difference, either.
    let beyond = "its timeline 1 goes beyond";
    diverged(c, b, beyond).await;
    // Points the standby at the other server: in its configuration, and restarted. (Once it knows the history
    // it cannot start.)
    let conninfo = format!("host={} port={} user=postgres", b.socket_folder().display(), b.port());
    c.query("postgres", &format!("ALTER SYSTEM SET primary_conninfo = '{conninfo}'")).unwrap();
    c.query("postgres", "ALTER SYSTEM SET primary_slot_name = ''").unwrap();
    c.restart(Stop::Fast).unwrap();
    let known = "SELECT count(*) FROM pg_ls_waldir() WHERE name = '00000002.history'";
    comes(c, known, "1");
    diverged(c, b, beyond).await;
    write_much(b);
    diverged(c, b, beyond).await;
    diverged(d, b, beyond).await;
    let control = Control::connect(&address(b)).await.unwrap();
    let said = timelines::check(&address(c), (&address(b), &control)).await.unwrap().unwrap();
    assert!(said.fatal && said.mend.contains("pg_rewind"), "{said:?}");

    rewind(c, b);
    c.start().unwrap();
    point(c, b);
    is_on(c, b, 2).await;
    comes(c, READ, "kept");
    // The server that was the primary, the same way.
    a.start().unwrap();
    assert!(prove(a, b).await.is_err_and(|why| why.to_string().contains("not a standby")));
    rewind(a, b);
    a.start().unwrap();
    point(a, b);
    is_on(a, b, 2).await;
}

/// A standby that lags is proven up to where the primary's history left its timeline, and again after that.
/// So is a base backup of the old timeline, which has never heard of the new one.
#[tokio::test]
async fn standby_before_the_fork_is_proven() {
    let mut scratch = servers(2);
    let mut options = Scratch::options();
    options.standbys = 3;
    scratch.cluster_mut().add_standby("standby3", &options).unwrap();
    let (a, b, c, backup) = (scratch.primary(), scratch.standby(0), scratch.standby(1), scratch.standby(2));
    c.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
    a.query("postgres", "INSERT INTO t VALUES ('late')").unwrap();
    comes(b, READ, "kept late");
    a.stop(Stop::Fast).unwrap();
    promote(b);
    let before = is_on(c, b, 1).await;
    let mut watcher = Watcher::connect(&address(c), EPOCH).await.unwrap();
    watcher.hold_to(&before).await.unwrap();
    assert!(watcher.replayed().await.unwrap() <= before.reach);
    point(c, b);
    c.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
    b.query("postgres", "INSERT INTO t VALUES ('new')").unwrap();
    comes(c, READ, "kept late new");
    assert!(matches!(watcher.replayed().await, Err(Error::Protocol(_))), "the proof says nothing of this");
    let after = is_on(c, b, 2).await;
    watcher.hold_to(&after).await.unwrap();
    assert!(watcher.replayed().await.unwrap() > before.reach);
    assert_eq!(watcher.sighting().incarnation.timeline, Timeline::new(2));

    backup.start().unwrap();
    is_on(backup, b, 1).await;
    point(backup, b);
    is_on(backup, b, 2).await;
    comes(backup, READ, "kept late new");
}

/// Two standbys are promoted at the same position, to timelines of the same number with equal histories:
/// their WAL shows whose a standby is. One of them becomes a standby of the other, and its own writes are
/// found.
#[tokio::test]
async fn timelines_of_the_same_number_are_told_apart() {
    let scratch = servers(3);
    let (a, b, c, d) = (scratch.primary(), scratch.standby(0), scratch.standby(1), scratch.standby(2));
    a.stop(Stop::Fast).unwrap();
    promote(b);
    promote(c);
    let file = |node: &Node| std::fs::read(node.data_folder().join("pg_wal/00000002.history")).unwrap();
    assert_eq!(file(b), file(c), "the histories are equal");
    b.query("postgres", "INSERT INTO t VALUES ('of b')").unwrap();
    // This text is longer: records that end where the other's end would be replayed on and on, which nothing
    // finds (GUARANTEES.md).
    c.query("postgres", "INSERT INTO t VALUES ('written at c')").unwrap();
    // Up to here the standby is on the history of both.
    is_on(d, b, 1).await;
    is_on(d, c, 1).await;
    point(d, c);
    comes(d, READ, "kept written at c");
    is_on(d, c, 2).await;
    write_much(b);
    diverged(d, b, "WAL below its replay position").await;
    // The segment of its replay position is overwritten with the WAL of the other one. The last commit that
    // it saw is its own.
    let replayed: Lsn = asked(d, "SELECT pg_last_wal_replay_lsn()").parse().unwrap();
    let below = usize::try_from(replayed.get() % (16 << 20)).unwrap();
    let is_overwritten =
        || std::fs::read(segment(d)).unwrap()[..below] == std::fs::read(segment(b)).unwrap()[..below];
    assert!(!is_overwritten());
    point(d, b);
    assert!(wait_until(SOON, is_overwritten), "the segment is that of the other one");
    diverged(d, b, "lacks the transaction").await;

    c.stop(Stop::Fast).unwrap();
    std::fs::write(c.data_folder().join("standby.signal"), "").unwrap();
    c.start().unwrap();
    diverged(c, b, "").await;
    // The received WAL overwrites the segment of its replay position. Its last checkpoint is its own all the
    // same.
    point(c, b);
    let received = "SELECT (pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn())::text";
    comes(c, received, "true");
    diverged(c, b, "lacks the standby's checkpoint").await;
}

/// A primary that loses the end of its WAL, as a copy of its folder does that is started without recovery:
/// its standby has replayed more. Timeline and history stay the same.
async fn restored() -> Scratch {
    let scratch = servers(1);
    let (a, c) = (scratch.primary(), scratch.standby(0));
    a.query("postgres", "CREATE TABLE filler (v text)").unwrap();
    a.stop(Stop::Fast).unwrap();
    let copy = scratch.cluster().folder().join("copy");
    let copied = |from: &std::path::Path, to: &std::path::Path| {
        let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(done.unwrap().success());
    };
    copied(&a.data_folder(), &copy);
    a.start().unwrap();
    let before = incarnation(a).await;
    a.query("postgres", "INSERT INTO t VALUES ('lost')").unwrap();
    // The last record below the standby's position is no commit.
    a.query(
        "postgres",
        "SELECT pg_logical_emit_message(false, '', repeat('x', 1000000)); SELECT pg_switch_wal()",
    )
    .unwrap();
    comes(c, READ, "kept lost");
    scratch.catch_up(SOON);
    a.stop(Stop::Immediate).unwrap();
    std::fs::remove_dir_all(a.data_folder()).unwrap();
    copied(&copy, &a.data_folder());
    a.start().unwrap();
    assert_ne!(incarnation(a).await, before);
    scratch
}

#[tokio::test]
async fn standby_ahead_of_the_primary_has_diverged() {
    let scratch = restored().await;
    let (a, c) = (scratch.primary(), scratch.standby(0));
    diverged(c, a, "").await;
    write_much(a);
    diverged(c, a, "").await;
}

/// The primary passes the standby's position with WAL in which no transaction ends: by one large statement,
/// or by the empty rest of a segment. The standby's own segment is overwritten with that, so that the bytes
/// are equal.
#[tokio::test]
async fn standby_passed_without_a_commit_has_diverged() {
    let bulk = "INSERT INTO filler SELECT repeat('x', 900) FROM generate_series(1, 40000)";
    let switch = "SELECT pg_switch_wal(); INSERT INTO filler VALUES ('x')";
    for pass in [bulk, switch] {
        let scratch = restored().await;
        let (a, c) = (scratch.primary(), scratch.standby(0));
        let replayed: Lsn = asked(c, "SELECT pg_last_wal_replay_lsn()").parse().unwrap();
        a.query("postgres", pass).unwrap();
        assert!(asked(a, "SELECT pg_current_wal_lsn()").parse::<Lsn>().unwrap() > replayed, "{pass}");
        comes(c, "SELECT (pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn())::text", "true");
        diverged(c, a, "").await;
    }
}

/// The segment with the beginning of its second timeline.
fn segment(node: &Node) -> std::path::PathBuf {
    let history = std::fs::read_to_string(node.data_folder().join("pg_wal/00000002.history")).unwrap();
    let left: Lsn = history.split_whitespace().nth(1).unwrap().parse().unwrap();
    node.data_folder().join(format!("pg_wal/00000002{:016X}", left.get() / (16 << 20)))
}

async fn incarnation(node: &Node) -> Incarnation {
    PrimaryHistory::read(&address(node), &Control::connect(&address(node)).await.unwrap(), EPOCH)
        .await
        .unwrap()
        .incarnation
}
