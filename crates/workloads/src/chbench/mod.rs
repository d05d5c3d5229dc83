//! `consort bench chbench`: the CH-benCHmark (Cole and others, DBTest 2011): TPC-C's tables and transactions,
//! and alongside them clients that run TPC-H's 22 queries on the same tables and on three more.

mod load;
mod queries;
mod report;

pub use report::{Options, measure, run};

use crate::tpcc;
use crate::tpcc::Tpcc;
use crate::workload::{Check, Ending, Ledger, Loader, Workload};
use load_clients::session::{Session, Trouble};
use queries::QUERIES;

/// The names of TPC-C's transactions and of the queries.
const NAMES: [&str; 27] = [
    "new-order",
    "payment",
    "order-status",
    "delivery",
    "stock-level",
    "q1",
    "q2",
    "q3",
    "q4",
    "q5",
    "q6",
    "q7",
    "q8",
    "q9",
    "q10",
    "q11",
    "q12",
    "q13",
    "q14",
    "q15",
    "q16",
    "q17",
    "q18",
    "q19",
    "q20",
    "q21",
    "q22",
];

/// The first query's place in [`NAMES`].
const FIRST_QUERY: usize = 5;

/// The CH-benCHmark of a size, with so many clients of each kind.
struct Chbench {
    tpcc: Tpcc,
    transactional: u64,
    analytical: u64,
    analytical_url: Option<String>,
}

enum Client {
    /// Runs TPC-C's transactions.
    Transactional(tpcc::Client),
    /// Asks all queries in an order of its own, again and again.
    Analytical { order: Vec<usize>, next: usize },
}

enum Work {
    Transaction(tpcc::Work),
    Query(usize),
}

impl Workload for Chbench {
    type Client = Client;
    type Work = Work;

    fn name(&self) -> &'static str {
        "chbench"
    }

    fn describe(&self) -> String {
        format!("CH-benCHmark, {}, {} of the clients analytical", self.tpcc.describe(), self.analytical)
    }

    fn transactions(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn tables(&self) -> String {
        self.tpcc.tables() + load::TABLES
    }

    async fn fill(&self, loader: &mut Loader<'_>) -> Result<(), Trouble> {
        load::fill(loader).await?;
        self.tpcc.fill(loader).await
    }

    fn finish(&self) -> Vec<String> {
        let mut statements = self.tpcc.finish();
        statements.extend(load::FINISH.map(str::to_owned));
        statements
    }

    fn probe(&self) -> String {
        format!("{} AND (SELECT count(*) FROM chbench_supplier) = {}", self.tpcc.probe(), load::SUPPLIERS)
    }

    async fn look(&mut self, session: &mut Session) -> Result<(), Trouble> {
        self.tpcc.look(session).await
    }

    fn more_clients(&self) -> u64 {
        self.analytical
    }

    fn client(&self, number: u64, mut chance: fastrand::Rng) -> Client {
        if number < self.transactional {
            return Client::Transactional(self.tpcc.client(number, chance));
        }
        let mut order: Vec<usize> = (0..QUERIES.len()).collect();
        chance.shuffle(&mut order);
        Client::Analytical { order, next: 0 }
    }

    fn is_paced(&self, client: &Client) -> bool {
        matches!(client, Client::Transactional(_))
    }

    fn url(&self, client: &Client) -> Option<&str> {
        if self.is_paced(client) { None } else { self.analytical_url.as_deref() }
    }

    fn plan(&self, client: &mut Client) -> Work {
        match client {
            Client::Transactional(client) => Work::Transaction(self.tpcc.plan(client)),
            Client::Analytical { order, next } => {
                *next += 1;
                Work::Query(order[(*next - 1) % order.len()])
            }
        }
    }

    fn kind(&self, work: &Work) -> usize {
        match work {
            Work::Transaction(work) => work.kind(),
            Work::Query(query) => FIRST_QUERY + query,
        }
    }

    async fn run(&self, _: &mut Client, work: &Work, session: &mut Session) -> Result<Ending, Trouble> {
        match work {
            Work::Transaction(work) => work.run(self.tpcc.blocks, session).await,
            Work::Query(query) => session.ask(QUERIES[*query], &[]).await.map(|_| Ending::Committed),
        }
    }

    fn checks(&self, ledger: &Ledger) -> Vec<Check> {
        self.tpcc.checks(ledger)
    }
}
