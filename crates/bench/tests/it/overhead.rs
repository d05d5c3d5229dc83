//! The cost of proxies, measured small; and the slow disk.

use crate::fixture;
use bench::overhead::Report;
use bench::slow_disk::SlowDisk;
use bench::{Command, Verdict};
use std::time::{Duration, Instant};

#[tokio::test]
async fn pgbouncer_is_measured_beside_the_server() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let mut line = vec!["overhead", "--direct", &url, "--initialize", "1", "--rounds", "1", "--time", "1s"];
    line.extend(["--protocol", "simple", "--clients", "2"]);
    let command = fixture::command(&line);
    let Command::Overhead(options) = &command else { panic!("overhead was asked") };
    let stop = bench::stop::Stop::new();
    let report: Report = bench::overhead::measure(options, &stop, &mut bench::progress::Progress::silent())
        .await
        .expect("a report");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let cells = report.cells();
    let ways: Vec<&str> = cells.iter().map(|cell| cell.way.as_str()).collect();
    assert_eq!(ways, ["direct", "pgbouncer session", "pgbouncer transaction"]);
    for cell in &cells {
        assert!(cell.per_second > 10.0 && cell.servers_us.is_some_and(|us| us > 5.0), "{cell:?}");
        let through_proxy = cell.way != "direct";
        assert_eq!(cell.proxy_us.is_some_and(|us| us > 1.0), through_proxy, "{cell:?}");
        assert_eq!(cell.calls.is_some_and(|calls| calls > 1.0), through_proxy, "{cell:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    let line = ["mix", "--url", "postgres://u:secret@127.0.0.1:1/d"];
    let error = bench::run(&fixture::command(&line)).await.expect_err("nobody listens on port 1").to_string();
    assert!(!error.contains("secret"), "{error}");
    assert_ne!(format!("{:?}", Verdict::Clean), error);
}

#[test]
fn the_slow_disk_delays_each_sync() {
    let folder = std::env::temp_dir().join(format!("consort-slow-disk-{}", std::process::id()));
    let disk = SlowDisk::build(&folder, None).expect("a compiler");
    let file = folder.join("file");
    let sync = || {
        let began = Instant::now();
        let status = std::process::Command::new("dd")
            .args(["if=/dev/zero", "bs=1", "count=1", "conv=fsync", "status=none"])
            .arg(format!("of={}", file.display()))
            .envs(disk.environment())
            .status();
        assert!(status.expect("dd runs").success());
        began.elapsed()
    };
    disk.set(Duration::from_millis(400)).expect("a delay");
    assert!(sync() >= Duration::from_millis(400));
    disk.set(Duration::ZERO).expect("no delay");
    let quickest = (0..5).map(|_| sync()).min().expect("five times");
    assert!(quickest < Duration::from_millis(400), "{quickest:?}");
    let error = SlowDisk::build(&folder, Some("no-such-compiler")).expect_err("no compiler").to_string();
    assert!(error.starts_with("no-such-compiler: "), "{error}");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
