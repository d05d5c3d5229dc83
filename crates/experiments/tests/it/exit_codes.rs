//! Exit codes of the workloads: 0 after a clean run, 1 where a run saw results that a single server would not return.

use std::fs;

use local_cluster::Cluster;
use postgres::programs::Programs;
use testkit::{UpFolder, eventually};

use crate::fixture::{BENCH, bench};

#[test]
fn bench_says_by_its_exit_code_what_it_saw() {
    let home = UpFolder::of(BENCH);
    home.up().worked();
    let url = home.url();
    let stale = ["stale", "--url", &url, "--rounds", "20", "--gaps", "0"];
    assert!(bench(&stale).worked().contains("0 stale"), "a clean run");
    let mix = ["mix", "--url", &url, "--time", "1s"];
    assert!(bench(&mix).worked().contains("stale reads"));
    let histories = ["histories", "--url", &url, "--time", "2s", "--transactions", "100"];
    assert!(bench(&histories).worked().contains("strong snapshot isolation  valid"));
    let console = format!("postgres://postgres@127.0.0.1:{}/consort", home.port);
    let pid = fs::read_to_string(home.path().join("consort.pid")).unwrap();
    let host = home.path().join("sockets").display().to_string();
    let cluster = Cluster::open(&Programs::find().unwrap(), home.path()).unwrap();
    let port = cluster.primary().port();
    let direct = format!("postgres://postgres@127.0.0.1/postgres?host={host}&port={port}");
    let overhead = "--no-pgbouncer --no-calls --time 1s --rounds 1 --script select-only --protocol simple --clients 1 --initialize 1";
    let overhead = ["overhead", "--url", &url, "--direct", &direct, "--proxy-pid", pid.trim()]
        .into_iter()
        .chain(overhead.split(' '));
    let figures = bench(&overhead.collect::<Vec<_>>()).worked();
    assert!(figures.contains("select-only") && figures.contains("direct"), "{figures}");
    for workload in
        ["tpcc --shrink 100", "ycsb --scale 1 --mix d", "tpcb --shrink 1000", "tpcw --shrink 100 --think 0"]
    {
        let line = workload.split(' ').chain(["--url", &url, "--time", "1s"]);
        let line: Vec<&str> = line.chain(["--console", &console]).collect();
        let figures = bench(&line).worked();
        assert!(figures.contains("holds") && !figures.contains("BROKEN"), "{figures}");
        assert!(figures.contains("standby1 "), "{figures}");
    }
    let nobody = ["stale", "--url", "postgres://postgres@127.0.0.1:1/postgres", "--rounds", "1"];
    bench(&nobody).failed(1);

    // The primary is ahead of its standby, and `weak` shows it.
    home.run("down", &[]).worked();
    home.run("up", &["--design", "weak"]).worked();
    cluster.standbys()[0].set("recovery_min_apply_delay", "500ms").unwrap();
    eventually("results that a single server would not return", || {
        let done = bench(&stale);
        done.status.code() == Some(1)
            && done.err.contains("results that a single PostgreSQL server would not return")
    });
}
