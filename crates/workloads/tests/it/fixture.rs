//! A primary and standbys for a test, ended with it, and their addresses.

use clap::Parser;
use load_clients::session::{Protocol, Session};
use local_cluster::Node;
use postgres::address::Host;
use std::time::{Duration, Instant};
use testkit::Scratch;
use workloads::Command;

/// Starts the servers on another thread than the runtime's, for that takes its time.
pub(crate) async fn servers(standbys: usize) -> Scratch {
    tokio::task::spawn_blocking(move || Scratch::start(standbys)).await.expect("the servers start")
}

/// The address of a node's database `postgres`.
pub(crate) fn url(node: &Node) -> String {
    let address = node.address("postgres", "postgres");
    let Host::Socket(folder) = &address.host else { panic!("local nodes are reached by sockets") };
    format!("host={} port={} user=postgres dbname=postgres", folder.display(), address.port)
}

/// An address that leads each session to a random node.
pub(crate) fn any_of(nodes: &[&Node]) -> String {
    let addresses: Vec<_> = nodes.iter().map(|node| node.address("postgres", "postgres")).collect();
    let hosts: Vec<String> = addresses.iter().map(|address| address.host.to_string()).collect();
    let ports: Vec<String> = addresses.iter().map(|address| address.port.to_string()).collect();
    let (hosts, ports) = (hosts.join(","), ports.join(","));
    format!("host={hosts} port={ports} user=postgres dbname=postgres load_balance_hosts=random")
}

/// Waits until a query gives rows.
pub(crate) async fn wait_for_rows(url: &str, query: &str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut every = tokio::time::interval(Duration::from_millis(20));
    while Instant::now() < deadline {
        every.tick().await;
        let Ok(session) = Session::open(url, Protocol::Simple).await else { continue };
        if session.texts(query).await.is_ok_and(|rows| !rows.is_empty()) {
            return;
        }
    }
    panic!("{query}: no rows within 30 s");
}

/// The command line as a person types it.
#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// Parses a command line.
pub(crate) fn command(arguments: &[&str]) -> Command {
    Line::try_parse_from(std::iter::once(&"bench").chain(arguments)).expect("the line is right").command
}
