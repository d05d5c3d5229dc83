//! Snapshots at nodes whose engines keep the order of commits: each shows all versions up to its newest one.

use super::{Peers, url_of};
use crate::fixture::load;
use crate::load::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Snapshots of all nodes together; `SNAPSHOTS` asks for more.
const SNAPSHOTS: u64 = 3_000;
/// Time limit.
const LIMIT: Duration = Duration::from_secs(600);

/// The newest version, the number of versions that are missing up to it, and the updates that are visible: each version
/// has one. Versions that are on the disk are pruned.
const LOOK: &str = "SELECT max(version), max(version) - min(version) + 1 - count(*), (SELECT sum(n) FROM allupdates) \
     FROM consort.version";

/// Findings of the reader of one node.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    snapshots: u64,
    /// Snapshots that show a version and not one before it.
    holes: u64,
    /// Snapshots that show an older version than the one before.
    inversions: u64,
}

/// Reads until there are so many snapshots, or the writers have ended.
fn read(url: &str, snapshots: u64, ended: &AtomicBool) -> Seen {
    let mut client = Client::connect(url).expect("the node");
    let (mut seen, mut last, mut first) = (Seen::default(), 0, None);
    while seen.snapshots < snapshots && !ended.load(Ordering::Relaxed) {
        let rows = client.rows(LOOK).expect("a snapshot");
        let number = |column| rows[0].get(column).expect("a value").parse::<i64>().expect("a number");
        let (newest, missing, updates) = (number(0), number(1), number(2));
        let before = *first.get_or_insert(newest - updates);
        seen.snapshots += 1;
        seen.holes += u64::from(missing != 0 || newest - updates != before);
        seen.inversions += u64::from(newest < last);
        last = newest;
    }
    seen
}

/// Sessions commit at each node, whose applier brings what the others commit: no snapshot has a hole.
#[test]
fn snapshots_in_groups_show_no_hole() {
    show_no_hole(&Peers::ordered());
}

/// Locks keep the order, where no extension does.
#[test]
fn snapshots_by_a_chain_show_no_hole() {
    show_no_hole(&Peers::chained());
}

fn show_no_hole(peers: &Peers) {
    let snapshots = std::env::var("SNAPSHOTS").map_or(SNAPSHOTS, |text| text.parse().expect("a number"));
    let url = peers.url();
    let workload = ["allupdates", "--rows", "2", "--clients", "12", "--url", &url];
    load(&[&workload[..], &["--time", "0"]].concat());
    peers.equal("SELECT sum(n) FROM allupdates");
    let nodes = peers.cluster().nodes();
    let (urls, ended) = (nodes.iter().map(url_of).collect::<Vec<_>>(), AtomicBool::new(false));
    let each = snapshots.div_ceil(urls.len() as u64);
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let readers: Vec<_> = urls.iter().map(|url| scope.spawn(|| read(url, each, &ended))).collect();
        let begun = Instant::now();
        while !readers.iter().all(|reader| reader.is_finished()) && begun.elapsed() < LIMIT {
            load(&[&workload[..], &["--time", "2s", "--keep"]].concat());
        }
        ended.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().expect("a reader")).collect()
    });
    println!("{seen:?}");
    for seen in seen {
        assert_eq!(seen, Seen { snapshots: each, ..Seen::default() });
    }
    peers.equal("SELECT sum(n) FROM allupdates");
}
