//! TPC-C against a server: every mix leaves tables that keep the consistency conditions, and each condition is seen broken.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::session::{Protocol, Session};
use load_clients::stop::Stop;
use workloads::tpcc;
use workloads::tpcc::{Options, conditions};
use workloads::workload::{Report, judge};
use workloads::{Command, Verdict};

fn command(url: &str, arguments: &[&str]) -> Command {
    let line = ["tpcc", "--url", url, "--shrink", "100", "--clients", "4", "--seed", "7"];
    let line: Vec<&str> = line.into_iter().chain(arguments.iter().copied()).collect();
    fixture::command(&line)
}

async fn run(url: &str, arguments: &[&str]) -> Report {
    let Command::Tpcc(options) = command(url, &[arguments, &["--time", "60s"]].concat()) else {
        panic!("tpcc was asked")
    };
    let options: Options = options;
    tpcc::measure(&options, &Stop::new(), &mut Progress::silent()).await.expect("a run")
}

#[tokio::test]
async fn every_mix_in_every_protocol_keeps_the_conditions() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let size = ["--scale", "2", "--foreign-keys", "--transactions", "600", "--isolation", "repeatable-read"];
    let first = run(&url, &size).await;
    assert!(first.is_clean(), "{first}");
    assert!(first.loaded_seconds.is_some() && first.checks.len() == 14, "{first}");
    for line in &first.transactions {
        assert!(line.committed > 0 && line.failed == 0, "{}\n{first}", line.transaction);
    }
    let [new_order, payment] = ["new-order", "payment"].map(|name| first.line(name).unwrap());
    assert!((0.35..0.55).contains(&new_order.share) && (0.33..0.53).contains(&payment.share), "{first}");
    assert!(first.errors.keys().all(|code| ["40001", "40P01"].contains(&code.as_str())), "{first}");

    for (mix, protocol, reads) in [
        ("read-only", "simple", 1.0..1.01),
        ("read-heavy", "extended", 0.85..0.99),
        ("balanced", "prepared", 0.70..0.97),
        ("write-heavy", "prepared", 0.50..0.85),
        ("standard", "simple", 0.3..0.7),
    ] {
        let arguments =
            ["--scale", "2", "--keep", "--transactions", "400", "--mix", mix, "--protocol", protocol];
        let alone = if mix == "balanced" { "--autocommit-reads" } else { "--declare-read-only" };
        let report = run(&url, &[&arguments[..], &[alone]].concat()).await;
        assert!(report.is_clean() && report.all.failed == 0 && report.loaded_seconds.is_none(), "{report}");
        assert!(reads.contains(&report.read_share()), "{mix}: {report}");
    }
    let wrong_size = command(&url, &["--scale", "3", "--keep"]);
    assert!(workloads::run(&wrong_size).await.unwrap_err().to_string().contains("without --keep"));
}

#[tokio::test]
async fn each_condition_is_seen_broken() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let report = run(&url, &["--transactions", "200"]).await;
    assert!(report.is_clean(), "{report}");
    let undelivered_from = 22;
    let delivered = "ol_w_id = 1 AND ol_d_id = 2 AND ol_o_id = 3";
    for (break_it, broken) in [
        ("UPDATE tpcc_warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 1", &[1, 8][..]),
        ("UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 4", &[2]),
        (
            "DELETE FROM tpcc_new_order WHERE no_d_id = 5 AND no_o_id = \
             (SELECT min(no_o_id) + 1 FROM tpcc_new_order WHERE no_d_id = 5)",
            &[3, 5, 11],
        ),
        (&format!("DELETE FROM tpcc_order_line WHERE {delivered} AND ol_number = 2"), &[4, 6]),
        ("UPDATE tpcc_orders SET o_carrier_id = NULL WHERE o_d_id = 1 AND o_id = 3", &[5, 7]),
        (
            &format!(
                "UPDATE tpcc_order_line SET ol_o_id = 4, ol_number = 99 WHERE {delivered} AND ol_number = 2"
            ),
            &[6],
        ),
        (
            &format!("UPDATE tpcc_order_line SET ol_delivery_d = NULL WHERE {delivered} AND ol_number = 2"),
            &[7],
        ),
        ("UPDATE tpcc_district SET d_ytd = d_ytd + 5 WHERE d_id = 4", &[1, 9]),
        ("DELETE FROM tpcc_history WHERE h_c_d_id = 1 AND h_c_id = 7 AND h_d_id = 1", &[8, 9, 10]),
        ("UPDATE tpcc_customer SET c_balance = c_balance - 1 WHERE c_d_id = 1 AND c_id = 7", &[10, 12]),
        ("UPDATE tpcc_customer SET c_delivery_cnt = 77 WHERE c_d_id = 1 AND c_id = 7", &[11]),
        ("UPDATE tpcc_customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_d_id = 9 AND c_id = 7", &[12]),
    ] {
        let session = Session::open(&url, Protocol::Simple).await.unwrap();
        session.execute(&format!("BEGIN; {break_it}")).await.unwrap();
        let checks = judge(&conditions::all(undelivered_from), &session).await.unwrap();
        let found: Vec<&str> =
            checks.iter().filter(|check| !check.holds).map(|check| check.number.as_str()).collect();
        let expected: Vec<String> = broken.iter().map(|number| format!("3.3.2.{number}")).collect();
        assert_eq!(found, expected, "{break_it}\n{checks:?}");
    }
    // A lasting break of a rule fails the command.
    let session = Session::open(&url, Protocol::Simple).await.unwrap();
    session.execute("UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 4").await.unwrap();
    let verdict = workloads::run(&command(&url, &["--keep", "--time", "0"])).await.unwrap();
    assert_eq!(verdict, Verdict::Violated);
}
