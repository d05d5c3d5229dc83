//! The cost of proxies, measured small; and the slow disk.

use crate::fixture;
use std::time::{Duration, Instant};
use workloads::overhead::Report;
use workloads::slow_disk::SlowDisk;
use workloads::{Command, Verdict};

async fn measured(line: &[&str]) -> Report {
    let command = fixture::command(line);
    let Command::Overhead(options) = &command else { panic!("overhead was asked") };
    let (stop, mut progress) = (load_clients::stop::Stop::new(), load_clients::progress::Progress::silent());
    workloads::overhead::measure(options, &stop, &mut progress).await.expect("a report")
}

#[tokio::test]
async fn pgbouncer_is_measured_beside_the_server() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let mut line = vec!["overhead", "--direct", &url, "--initialize", "1", "--rounds", "1", "--time", "1s"];
    line.extend(["--protocol", "simple", "--clients", "2"]);
    let report = measured(&line).await;
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
async fn log_ins_copies_and_large_rows_are_measured() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let mut line = vec!["overhead", "--direct", &url, "--initialize", "1", "--rounds", "1", "--time", "1s"];
    line.extend(["--script", "mix,connect,large-rows,copy-out,copy-in", "--protocol", "extended"]);
    line.extend(["--clients", "2", "--no-calls", "--pgbouncer-setting", "default_pool_size=3"]);
    line.extend(["--pgbouncer-setting", "max_client_conn=7", "--pgbouncer-client", "application_name=it"]);
    let report = measured(&line).await;
    // Debian's PgBouncer 1.18 knows no prepared statements where clients share connections, and COPY's driver makes them.
    let unexpected = |way: &String| !way.starts_with("pgbouncer transaction, copy-");
    assert!(!report.problems.keys().any(unexpected), "{:?}", report.problems);
    let cells = report.cells();
    assert_eq!(cells.len(), 5 * 3, "each once, whatever protocols were asked for");
    let session = |name: &str| {
        let cell =
            cells.iter().find(|cell| cell.script.to_string() == name && cell.way == "pgbouncer session");
        cell.and_then(|cell| cell.proxy_us).expect("a figure")
    };
    // 64 MB take longer than a select, and so do 8 MB and a log-in.
    for name in ["connect", "large-rows", "copy-out", "copy-in"] {
        assert!(session(name) > session("mix"), "{name}: {} and {}", session(name), session("mix"));
    }
}

#[tokio::test]
async fn idle_clients_have_their_memory() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let line = ["idle", "--direct", &url, "--clients", "30"];
    let command = fixture::command(&line);
    let Command::Idle(options) = &command else { panic!("idle was asked") };
    let stop = load_clients::stop::Stop::new();
    let mut progress = load_clients::progress::Progress::silent();
    let figures = workloads::idle::measure(options, &stop, &mut progress).await.expect("figures");
    let ways: Vec<&str> = figures.iter().map(|memory| memory.way.as_str()).collect();
    assert_eq!(ways, ["pgbouncer transaction"]);
    for memory in figures {
        assert_eq!(memory.problem, None);
        assert!(memory.before_kib > 500 && memory.with_clients_kib > memory.before_kib, "{memory:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    let line = ["mix", "--url", "postgres://u:secret@127.0.0.1:1/d"];
    let error =
        workloads::run(&fixture::command(&line)).await.expect_err("nobody listens on port 1").to_string();
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
    let delay = disk.environment().into_iter().find(|(name, _)| name == "SLOW_DISK_FILE").expect("a file").1;
    std::fs::write(&delay, "400 d").expect("a delay of programs whose names begin so");
    assert!(sync() >= Duration::from_millis(400));
    std::fs::write(&delay, "400 postgres").expect("a delay of another program");
    let quickest = (0..5).map(|_| sync()).min().expect("five times");
    assert!(quickest < Duration::from_millis(400), "{quickest:?}");
    disk.set(Duration::ZERO).expect("no delay");
    let quickest = (0..5).map(|_| sync()).min().expect("five times");
    assert!(quickest < Duration::from_millis(400), "{quickest:?}");
    let error = SlowDisk::build(&folder, Some("no-such-compiler")).expect_err("no compiler").to_string();
    assert!(error.starts_with("no-such-compiler: "), "{error}");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

/// The second of three reads goes on where the first has ended.
#[test]
fn the_slow_disk_delays_each_read_that_seeks() {
    let folder = std::env::temp_dir().join(format!("consort-slow-reads-{}", std::process::id()));
    let disk = SlowDisk::build(&folder, None).expect("a compiler");
    let (source, program, file) = (folder.join("reads.c"), folder.join("reads"), folder.join("file"));
    let text = "#include <fcntl.h>\n#include <unistd.h>\nint main(int n, char **a) { char b; \
                int f = open(a[1], O_RDONLY); \
                return pread(f, &b, 1, 0) + pread(f, &b, 1, 1) + pread(f, &b, 1, 100) - 3; }";
    std::fs::write(&source, text).expect("a program");
    std::fs::write(&file, [0; 200]).expect("a file");
    let compiled = std::process::Command::new("cc").arg("-o").args([&program, &source]).status();
    assert!(compiled.expect("a compiler").success());
    let reads = |delay_ms: &str| {
        let variables = disk.environment();
        let (_, delay) = variables.iter().find(|(name, _)| name == "SLOW_READS_FILE").expect("a file");
        std::fs::write(delay, delay_ms).expect("a delay");
        let began = Instant::now();
        let status = std::process::Command::new(&program).arg(&file).envs(variables).status();
        assert!(status.expect("it runs").success());
        began.elapsed()
    };
    let slow = (0..3).map(|_| reads("200")).min().expect("three times");
    assert!((Duration::from_millis(400)..Duration::from_millis(600)).contains(&slow), "{slow:?}");
    assert!((0..3).map(|_| reads("0")).min().expect("three times") < Duration::from_millis(200));
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
