//! YCSB against a server: every mix finds every row; lost rows and late standbys are seen.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::session::{Protocol, Session};
use load_clients::stop::Stop;
use workloads::Command;
use workloads::workload::Report;
use workloads::ycsb;

async fn run(url: &str, arguments: &[&str]) -> Report {
    let line = ["ycsb", "--url", url, "--scale", "1"];
    let line: Vec<&str> = line.into_iter().chain(arguments.iter().copied()).collect();
    let Command::Ycsb(options) = fixture::command(&line) else { panic!("ycsb was asked") };
    ycsb::measure(&options, &Stop::new(), &mut Progress::silent()).await.expect("a run")
}

#[tokio::test]
async fn every_mix_finds_every_row() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let report = run(&url, &["--time", "0"]).await;
    assert!(report.is_clean() && report.all.committed == 0, "{report}");
    for (mix, protocol, kinds) in [
        ("a", "extended", &["read", "update"][..]),
        ("b", "simple", &["read", "update"]),
        ("c", "prepared", &["read"]),
        ("d", "prepared", &["read", "insert"]),
        ("e", "extended", &["insert", "scan"]),
        ("f", "prepared", &["read", "read-modify-write"]),
        ("balanced", "extended", &["read", "insert"]),
        ("read-heavy", "simple", &["insert", "scan"]),
    ] {
        let report =
            run(&url, &["--keep", "--transactions", "300", "--mix", mix, "--protocol", protocol]).await;
        assert!(report.is_clean() && report.errors.is_empty(), "{mix}: {report}");
        let happened = report.transactions.iter().filter(|line| line.committed > 0);
        assert_eq!(
            happened.map(|line| line.transaction.as_str()).collect::<Vec<_>>(),
            kinds,
            "{mix}: {report}"
        );
    }
}

#[tokio::test]
async fn lost_rows_are_seen() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    run(&url, &["--time", "0"]).await;
    let session = Session::open(&url, Protocol::Simple).await.unwrap();
    session.execute("CREATE RULE lose AS ON INSERT TO ycsb_usertable DO INSTEAD NOTHING").await.unwrap();
    let report = run(&url, &["--keep", "--transactions", "500", "--mix", "d"]).await;
    assert_eq!(report.broken(), ["rows", "found"], "{report}");
    session.execute("UPDATE ycsb_usertable SET field3 = '' WHERE ycsb_key = 7").await.unwrap();
    assert_eq!(run(&url, &["--keep", "--time", "0"]).await.broken(), ["fields"]);
}

#[tokio::test]
async fn a_rate_and_thinking_are_kept() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let slow = run(&url, &["--time", "2s", "--rate", "50", "--mix", "c"]).await;
    assert!((20..=101).contains(&slow.all.committed), "{slow}");
    let arguments = ["--keep", "--time", "2s", "--think", "200ms", "--clients", "20", "--mix", "c"];
    let thinking = run(&url, &arguments).await;
    assert!((20..=330).contains(&thinking.all.committed), "{thinking}");
    let warm = run(&url, &["--keep", "--time", "1s", "--warm-up", "1s", "--rate", "50", "--mix", "c"]).await;
    assert!((10..=51).contains(&warm.all.committed), "{warm}");
}
