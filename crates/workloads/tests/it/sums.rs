//! TPC-B and `AllUpdates` against a server: the sums agree, and are seen when they do not.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::session::{Protocol, Session};
use load_clients::stop::Stop;
use local_cluster::Stop as How;
use std::fs;
use std::sync::Arc;
use workloads::workload::Report;
use workloads::{Command, all_updates, tpcb};

async fn run(url: &str, arguments: &[&str]) -> Report {
    let line = [&arguments[..1], &["--url", url, "--clients", "4"], &arguments[1..]].concat();
    let (stop, mut progress) = (Stop::new(), Progress::silent());
    match fixture::command(&line) {
        Command::Tpcb(options) => tpcb::measure(&options, &stop, &mut progress).await.expect("a run"),
        Command::Allupdates(options) => {
            all_updates::measure(&options, &stop, &mut progress).await.expect("a run")
        }
        _ => panic!("tpcb or allupdates was asked"),
    }
}

#[tokio::test]
async fn tpcb_agrees_with_its_history() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let line = [
        "tpcb",
        "--scale",
        "2",
        "--shrink",
        "1000",
        "--isolation",
        "serializable",
        "--retries",
        "1000",
        "--time",
        "1s",
    ];
    let report = run(&url, &line).await;
    assert!(report.is_clean() && report.all.committed > 0 && report.all.failed == 0, "{report}");
    assert!(report.errors.keys().all(|code| code == "40001"), "{report}");
    let keep = ["tpcb", "--scale", "2", "--shrink", "1000", "--keep", "--time"];
    for protocol in ["simple", "prepared"] {
        let report = run(&url, &[&keep[..], &["500ms", "--protocol", protocol]].concat()).await;
        assert!(report.is_clean() && report.errors.is_empty() && report.all.committed > 0, "{report}");
    }
    let session = Session::open(&url, Protocol::Simple).await.unwrap();
    for (break_it, broken) in [
        ("UPDATE tpcb_accounts SET abalance = abalance + 1 WHERE aid = 3", &["accounts", "sums"][..]),
        ("UPDATE tpcb_tellers SET tbalance = tbalance + 1 WHERE tid = 3", &["accounts", "tellers", "sums"]),
        ("UPDATE tpcb_branches SET bbalance = 1", &["accounts", "tellers", "branches", "sums"]),
    ] {
        session.execute(break_it).await.unwrap();
        assert_eq!(run(&url, &[&keep[..], &["0"]].concat()).await.broken(), broken);
    }
    // A commit that is acknowledged and not there.
    session.execute("CREATE RULE lose AS ON INSERT TO tpcb_history DO INSTEAD NOTHING").await.unwrap();
    let report = run(&url, &[&keep[..], &["500ms"]].concat()).await;
    assert!(report.broken().contains(&"acknowledged"), "{report}");
}

#[tokio::test]
async fn updates_that_are_acknowledged_are_there() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let report = run(&url, &["allupdates", "--rows", "50", "--time", "1s"]).await;
    assert!(report.is_clean() && report.errors.is_empty() && report.all.committed > 0, "{report}");
    assert_eq!((report.read_statements, report.write_statements), (0, report.all.committed));
    let session = Session::open(&url, Protocol::Simple).await.unwrap();
    session
        .execute(
            "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN NEW.n := OLD.n + (random() < 0.9)::int; RETURN NEW; END'; \
             CREATE TRIGGER lose BEFORE UPDATE ON allupdates FOR EACH ROW EXECUTE FUNCTION lose()",
        )
        .await
        .unwrap();
    let folder = std::env::temp_dir().join(format!("consort-bench-sums-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (csv, json) = (folder.join("a.csv"), folder.join("a.json"));
    let files = ["--csv", csv.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let line = ["allupdates", "--url", &url, "--clients", "4", "--rows", "50", "--keep", "--time", "500ms"];
    let verdict = workloads::run(&fixture::command(&[&line[..], &files].concat())).await.unwrap();
    assert_eq!(verdict, workloads::Verdict::Violated);
    let (csv, json) = (fs::read_to_string(csv).unwrap(), fs::read_to_string(json).unwrap());
    fs::remove_dir_all(&folder).unwrap();
    assert!(csv.starts_with("allupdates,committed,") && csv.contains("\nupdate,"), "{csv}");
    assert!(json.contains("\"broken_by\": \"expected ") && json.contains("\"per_second\""), "{json}");
}

#[tokio::test]
async fn a_crash_of_the_server_loses_nothing_that_was_acknowledged() {
    let servers = Arc::new(fixture::servers(0).await);
    let url = fixture::url(servers.primary());
    let line = ["allupdates", "--url", &url, "--clients", "4", "--rows", "50", "--time", "60s"];
    let Command::Allupdates(options) = fixture::command(&line) else { panic!("allupdates was asked") };
    let (stop, mut progress) = (Stop::new(), Progress::silent());
    let (report, ()) = tokio::join!(all_updates::measure(&options, &stop, &mut progress), async {
        fixture::wait_for_rows(&url, "SELECT FROM allupdates WHERE n > 3 LIMIT 1").await;
        let crashing = servers.clone();
        let restart = move || crashing.primary().restart(How::Immediate).unwrap();
        tokio::task::spawn_blocking(restart).await.unwrap();
        fixture::wait_for_rows(&url, "SELECT FROM allupdates HAVING max(n) > 20").await;
        stop.now();
    });
    let report = report.expect("a run");
    assert!(report.is_clean() && report.all.failed > 0, "{report}");
    assert!(report.all.committed > 50 && !report.errors.is_empty(), "{report}");
}
