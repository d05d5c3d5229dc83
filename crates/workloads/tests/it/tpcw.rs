//! TPC-W against a server: all fourteen interactions run in all mixes, and each rule is seen broken.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::session::{Protocol, Session};
use load_clients::stop::Stop;
use workloads::Command;
use workloads::tpcw;
use workloads::workload::Report;

async fn run(url: &str, arguments: &[&str]) -> Report {
    let line = ["tpcw", "--url", url, "--scale", "1", "--items", "1000", "--shrink", "10"];
    let line: Vec<&str> = line.into_iter().chain(arguments.iter().copied()).collect();
    let Command::Tpcw(options) = fixture::command(&line) else { panic!("tpcw was asked") };
    tpcw::measure(&options, &Stop::new(), &mut Progress::silent()).await.expect("a run")
}

#[tokio::test]
async fn every_mix_keeps_the_rules() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let first = run(
        &url,
        &[
            "--time",
            "60s",
            "--transactions",
            "2000",
            "--think",
            "0",
            "--mix",
            "ordering",
            "--protocol",
            "prepared",
        ],
    )
    .await;
    assert!(first.is_clean() && first.all.failed == 0, "{first}");
    let looks: f64 = first.transactions[..6].iter().map(|line| line.share).sum();
    assert!((0.4..0.6).contains(&looks), "{first}");
    let mut seen: Vec<&str> = Vec::new();
    let mut note = |report: &Report| {
        for line in report.transactions.iter().filter(|line| line.committed > 0) {
            let name = first.transactions.iter().find(|other| other.transaction == line.transaction);
            seen.extend(name.map(|line| line.transaction.as_str()));
        }
    };
    note(&first);
    for (mix, protocol, isolation) in
        [("browsing", "simple", "default"), ("shopping", "extended", "repeatable-read")]
    {
        let arguments = [
            "--keep",
            "--time",
            "60s",
            "--transactions",
            "2500",
            "--think",
            "0",
            "--mix",
            mix,
            "--protocol",
            protocol,
        ];
        let reads = if mix == "browsing" { "--autocommit-reads" } else { "--declare-read-only" };
        let report = run(&url, &[&arguments[..], &["--isolation", isolation, reads]].concat()).await;
        assert!(report.is_clean() && report.all.failed == 0, "{mix}: {report}");
        assert!(
            report.errors.keys().all(|code| ["40001", "40P01"].contains(&code.as_str())),
            "{mix}: {report}"
        );
        note(&report);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 14, "all interactions happen: {seen:?}");
    let thinking = run(&url, &["--keep", "--time", "1s", "--think", "400ms", "--clients", "20"]).await;
    assert!((10..=90).contains(&thinking.all.committed), "{thinking}");
}

#[tokio::test]
async fn each_rule_is_seen_broken() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let report =
        run(&url, &["--time", "60s", "--transactions", "300", "--think", "0", "--mix", "ordering"]).await;
    assert!(report.is_clean(), "{report}");
    let session = Session::open(&url, Protocol::Simple).await.unwrap();
    for (break_it, mend_it, broken) in [
        (
            "UPDATE tpcw_order_line SET ol_price = ol_price + 10 WHERE ol_o_id = 5 AND ol_id = 1",
            "UPDATE tpcw_order_line SET ol_price = ol_price - 10 WHERE ol_o_id = 5 AND ol_id = 1",
            &["sub-totals"][..],
        ),
        (
            "UPDATE tpcw_cc_xacts SET cx_xact_amt = cx_xact_amt + 1 WHERE cx_o_id = 5",
            "UPDATE tpcw_cc_xacts SET cx_xact_amt = cx_xact_amt - 1 WHERE cx_o_id = 5",
            &["totals"],
        ),
        (
            "INSERT INTO tpcw_order_line VALUES (1, 1000000, 5, 21, 1, 0, '')",
            "DELETE FROM tpcw_order_line WHERE ol_o_id = 1000000",
            &["lines"],
        ),
        (
            "UPDATE tpcw_item SET i_stock = i_stock - 21 WHERE i_id = 7",
            "UPDATE tpcw_item SET i_stock = i_stock + 21 WHERE i_id = 7",
            &["stock"],
        ),
        (
            "UPDATE tpcw_item SET i_stock = i_stock + 1 WHERE i_id = 7",
            "UPDATE tpcw_item SET i_stock = i_stock - 1 WHERE i_id = 7",
            &["sold"],
        ),
        (
            "UPDATE tpcw_orders SET o_ship_addr_id = -o_ship_addr_id WHERE o_id = 9",
            "UPDATE tpcw_orders SET o_ship_addr_id = -o_ship_addr_id WHERE o_id = 9",
            &["customers"],
        ),
    ] {
        session.execute(break_it).await.unwrap();
        assert_eq!(run(&url, &["--keep", "--time", "0"]).await.broken(), broken, "{break_it}");
        session.execute(mend_it).await.unwrap();
    }
    session
        .execute(
            "CREATE RULE lose AS ON DELETE TO tpcw_shopping_cart_line DO DELETE FROM tpcw_orders \
                     WHERE o_id = (SELECT max(o_id) FROM tpcw_orders)",
        )
        .await
        .unwrap();
    let report =
        run(&url, &["--keep", "--time", "60s", "--transactions", "300", "--think", "0", "--mix", "ordering"])
            .await;
    assert!(report.broken().contains(&"acknowledged"), "{report}");
}
