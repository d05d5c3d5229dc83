//! The CH-benCHmark against a server: transactions and all 22 queries run side by side.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::session::{Protocol, Session};
use load_clients::stop::Stop;
use workloads::Command;
use workloads::chbench;

#[tokio::test]
async fn every_query_runs_beside_transactions() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let other = format!("{url} application_name=analyst");
    let line = ["chbench", "--url", &url, "--analytical-url", &other, "--shrink", "100", "--time", "60s"];
    let more = ["--clients", "2", "--analytical", "2", "--rate", "100", "--transactions", "800"];
    let Command::Chbench(options) = fixture::command(&[&line[..], &more].concat()) else {
        panic!("chbench was asked")
    };
    let report = chbench::measure(&options, &Stop::new(), &mut Progress::silent()).await.expect("a run");
    assert!(report.is_clean() && report.all.failed == 0, "{report}");
    let (transactions, queries) = report.transactions.split_at(5);
    assert!(transactions.iter().all(|line| line.committed > 0), "{report}");
    assert!(queries.len() == 22 && queries.iter().all(|line| line.committed > 0), "{report}");
    let committed: u64 = transactions.iter().map(|line| line.committed).sum();
    assert!(committed as f64 <= 100.0 * report.seconds + 1.0, "transactions keep the rate: {report}");

    // The tables are such that queries find something.
    let session = Session::open(&url, Protocol::Simple).await.unwrap();
    for (table, rows) in [("region", "5"), ("nation", "62"), ("supplier", "10000")] {
        let found = session.texts(&format!("SELECT count(*) AS n FROM chbench_{table}")).await.unwrap();
        assert_eq!(found[0]["n"], rows);
    }
    let suppliers = "SELECT n_name FROM tpcc_stock, chbench_supplier, chbench_nation \
                     WHERE mod(s_w_id * s_i_id, 10000) = su_suppkey AND su_nationkey = n_nationkey \
                     AND n_name = 'Germany' LIMIT 1";
    assert!(!session.texts(suppliers).await.unwrap().is_empty());
}
