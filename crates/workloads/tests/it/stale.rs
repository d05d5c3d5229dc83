//! The hunt for stale reads finds them where there are some, and none where there cannot be any.

use crate::fixture;
use load_clients::mix;
use load_clients::progress::Progress;
use load_clients::share::Server;
use load_clients::stop::Stop;
use std::time::Duration;
use testkit::Scratch;
use workloads::stale::{Options, Report, Who, measure};
use workloads::{Command, Verdict};

fn options(url: &str, arguments: &[&str]) -> Options {
    let line: Vec<&str> = ["stale", "--url", url].into_iter().chain(arguments.iter().copied()).collect();
    let Command::Stale(options) = fixture::command(&line) else { panic!("stale was asked") };
    options
}

async fn run(options: &Options) -> Report {
    measure(options, &Stop::new(), &mut Progress::silent()).await.expect("a run")
}

fn server(name: &str, url: &str) -> String {
    format!("{name}={url}")
}

#[tokio::test]
async fn the_primary_is_never_stale() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let primary = server("primary", &url);
    let mut line =
        vec!["--rounds", "120", "--rows", "4", "--gaps", "0,2ms", "--synchronous-commit", "mixed,off"];
    line.extend(["--writers", "2", "--write-every", "3ms", "--server", &primary]);
    line.extend(["--savepoints", "--beside-url", &url]);
    let report = run(&options(&url, &line)).await;
    assert_eq!((report.hot.stale, report.hot.backwards), (0, 0));
    assert_eq!((report.hot.done, report.hot.errors), (360, 0), "{:?}", report.hot.first_error);
    assert_eq!((report.writes.errors, report.violations.len()), (0, 0), "{:?}", report.writes.first_error);
    assert_eq!(report.cold.done, 120);
    assert!(report.writes.done > 120);
    assert_eq!(report.hot_share.map(|share| share.at_standbys), Some(0.0));
    assert_eq!(report.cold_share.as_ref().map(|share| share.at_standbys), Some(0.0));
    let gaps: std::collections::BTreeSet<u128> = report.lines.iter().map(|line| line.kind.gap_ms).collect();
    assert_eq!(gaps.into_iter().collect::<Vec<_>>(), [0, 2]);
    let own = report.lines.iter().filter(|line| line.kind.who == Who::Own);
    assert_eq!(own.count(), 12, "two gaps, three protocols, two kinds of commit");
}

#[tokio::test]
async fn a_standby_that_is_late_is_stale() {
    let servers = fixture::servers(1).await;
    let (primary, standby) = (fixture::url(servers.primary()), fixture::url(servers.standby(0)));
    let names = [server("primary", &primary), server("standby", &standby)];
    let common = ["--writer-url", &primary, "--server", &names[0], "--server", &names[1]];
    // The first run makes the tables while the standby is not late yet.
    let line = [&common[..], &["--rounds", "5", "--gaps", "0"]].concat();
    let report = run(&options(&standby, &line)).await;
    assert_eq!(report.hot_share.map(|share| share.at_standbys), Some(1.0));
    servers.set_apply_delay(0, Duration::from_secs(1));
    let line = [&common[..], &["--rounds", "24", "--gaps", "0,20ms", "--rows", "3"]].concat();
    let report = run(&options(&standby, &line)).await;
    let stale = |gap| {
        let lines =
            report.lines.iter().filter(move |line| line.kind.gap_ms == gap && line.kind.who == Who::Other);
        lines
            .map(|line| (line.total.done, line.total.stale))
            .fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    };
    // A machine that is busy may read later than the standby is late, but not always.
    let (done, at_once) = stale(0);
    assert!(at_once > 0, "{at_once} of {done}");
    assert!(report.violations[0].contains(" acknowledged, "), "{:?}", report.violations);
    let (done, soon) = stale(20);
    assert!(soon > 0, "{soon} of {done}");
    assert_eq!(report.cold_share.as_ref().map(|share| share.at_standbys), Some(1.0));
    assert!(report.table().to_string().contains("other's read"));
}

/// A proxy that sends reads anywhere: here the client library picks a server for each session.
#[tokio::test]
async fn servers_of_different_age_go_backwards() {
    let servers = fixture::servers(2).await;
    let primary = fixture::url(servers.primary());
    let anywhere = fixture::any_of(&[servers.standby(0), servers.standby(1)]);
    let line = ["--writer-url", &primary, "--rounds", "2", "--gaps", "0"];
    run(&options(&anywhere, &line)).await;
    servers.set_apply_delay(1, Duration::from_millis(500));
    let line = ["--writer-url", &primary, "--rounds", "96", "--rows", "24", "--gaps", "50ms"];
    let report = run(&options(&anywhere, &line)).await;
    assert!(report.hot.backwards > 0 && report.hot.stale > 0, "{}", report.summary());
    assert!(report.hot.stale < report.hot.done, "{}", report.summary());
}

#[tokio::test]
async fn the_subcommand_writes_its_files_and_tells_a_violation() {
    let servers = fixture::servers(1).await;
    let (primary, standby) = (fixture::url(servers.primary()), fixture::url(servers.standby(0)));
    let folder = std::env::temp_dir().join(format!("consort-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (csv, json) = (folder.join("a.csv"), folder.join("a.json"));
    let files = ["--csv", csv.to_str().expect("text"), "--json", json.to_str().expect("text")];
    let line = [&["stale", "--url", &primary, "--rounds", "6", "--gaps", "0"], &files[..]].concat();
    assert_eq!(workloads::run(&fixture::command(&line)).await.expect("a run"), Verdict::Clean);
    let table = std::fs::read_to_string(&csv).expect("a table");
    assert!(table.starts_with("statement,gap ms,protocol,"), "{table}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("a report")).expect("JSON");
    assert_eq!(report["hot"]["done"], 18);
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    servers.set_apply_delay(0, Duration::from_millis(300));
    let line = ["stale", "--url", &standby, "--writer-url", &primary, "--time", "2s", "--readers", "2"];
    assert_eq!(workloads::run(&fixture::command(&line)).await.expect("a run"), Verdict::Violated);
}

async fn mixed(servers: &Scratch, url: &str) -> mix::Report {
    let mut options = mix::Options::new(url, Duration::from_secs(2));
    options.servers.push(Server { name: "primary".to_owned(), url: fixture::url(servers.primary()) });
    options.numbered = true;
    mix::demo(&options, &Stop::new(), &mut Progress::silent()).await.expect("a run")
}

#[tokio::test]
async fn the_mix_is_clean_at_one_server() {
    let servers = fixture::servers(0).await;
    let report = mixed(&servers, &fixture::url(servers.primary())).await;
    assert!(report.is_clean());
    assert_eq!((report.reads.errors, report.writes.errors), (0, 0), "{:?}", report.reads.first_error);
    for (kind, done) in [
        ("own", report.own.done),
        ("other", report.other.done),
        ("catalogue", report.catalogue.done),
        ("sums", report.sums.done),
    ] {
        assert!(done > 0, "{kind}");
    }
    assert_eq!(report.at_standbys, Some(0.0));
    let transfers = report.transfers.as_ref().expect("they leave their numbers");
    assert!(transfers.acknowledged > 0 && transfers.there == transfers.acknowledged, "{transfers:?}");
    let table = mix::side_by_side(&[("one", &report), ("two", &report)]).to_string();
    assert!(table.starts_with("bank and catalogue") && table.contains("stale reads"), "{table}");
}
