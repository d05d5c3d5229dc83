//! `consort bench tpcc`: TPC-C, revision 5.11: nine tables, five transactions with the inputs of clause 2, the population of
//! clause 4.3.3, the consistency conditions of clause 3.3.2.
//!
//! No keying times and no terminals: clients run transaction after transaction, unless the options give a
//! think time.

pub mod conditions;
pub(crate) mod delivery;
pub(crate) mod load;
pub(crate) mod new_order;
pub(crate) mod order_status;
pub(crate) mod payment;
mod report;
pub(crate) mod rules;
pub(crate) mod stock_level;

pub use report::{Mix, Options, measure, run};

use crate::workload::{Blocks, Check, Ending, Ledger, Loader, Workload, weighted};
use conditions::Before;
use load_clients::session::{Session, Trouble};
use rules::{Rules, Size};

/// The names of the transactions, in the order of the specification.
pub(crate) const TRANSACTIONS: &[&str] = &["new-order", "payment", "order-status", "delivery", "stock-level"];

/// TPC-C of a size, in a mix.
pub(crate) struct Tpcc {
    pub(crate) size: Size,
    pub(crate) mix: Mix,
    pub(crate) before: Before,
    pub(crate) blocks: Blocks,
    pub(crate) foreign_keys: bool,
}

/// State of a client.
pub(crate) struct Client {
    home: Option<i32>,
    rules: Rules,
}

/// The inputs of a transaction.
pub(crate) enum Work {
    NewOrder(new_order::Input),
    Payment(payment::Input),
    OrderStatus(order_status::Input),
    Delivery(delivery::Input),
    StockLevel(stock_level::Input),
}

impl Workload for Tpcc {
    type Client = Client;
    type Work = Work;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn describe(&self) -> String {
        let Size { warehouses, items, customers, .. } = self.size;
        let mix = self.mix.name();
        format!("TPC-C {mix}, {warehouses} warehouses, {items} items, {customers} customers in a district")
    }

    fn transactions(&self) -> &'static [&'static str] {
        TRANSACTIONS
    }

    fn tables(&self) -> String {
        load::tables()
    }

    async fn fill(&self, loader: &mut Loader<'_>) -> Result<(), Trouble> {
        load::fill(self.size, loader).await
    }

    fn finish(&self) -> Vec<String> {
        load::finish(self.foreign_keys)
    }

    fn probe(&self) -> String {
        load::probe(self.size)
    }

    async fn look(&mut self, session: &mut Session) -> Result<(), Trouble> {
        self.before = Before::read(session).await?;
        Ok(())
    }

    fn client(&self, number: u64, chance: fastrand::Rng) -> Client {
        Client { home: self.size.home(number), rules: Rules::new(self.size, chance) }
    }

    fn plan(&self, client: &mut Client) -> Work {
        let which = weighted(&self.mix.weights(), &mut client.rules.chance);
        client.plan(which)
    }

    fn kind(&self, work: &Work) -> usize {
        work.kind()
    }

    async fn run(&self, _: &mut Client, work: &Work, session: &mut Session) -> Result<Ending, Trouble> {
        work.run(self.blocks, session).await
    }

    fn checks(&self, ledger: &Ledger) -> Vec<Check> {
        let mut checks = conditions::all(self.size.undelivered_from());
        checks.extend(self.before.checks(ledger.bounds(0), ledger.bounds(1)));
        checks
    }
}

impl Client {
    /// The inputs of the transaction with that number.
    pub(crate) fn plan(&mut self, which: usize) -> Work {
        let home = self.home.unwrap_or_else(|| self.rules.warehouse());
        let rules = &mut self.rules;
        match which {
            0 => Work::NewOrder(new_order::Input::new(home, rules)),
            1 => Work::Payment(payment::Input::new(home, rules)),
            2 => Work::OrderStatus(order_status::Input::new(home, rules)),
            3 => Work::Delivery(delivery::Input::new(home, rules)),
            _ => Work::StockLevel(stock_level::Input::new(home, rules)),
        }
    }
}

impl Work {
    pub(crate) fn kind(&self) -> usize {
        match self {
            Work::NewOrder(_) => 0,
            Work::Payment(_) => 1,
            Work::OrderStatus(_) => 2,
            Work::Delivery(_) => 3,
            Work::StockLevel(_) => 4,
        }
    }

    pub(crate) async fn run(&self, blocks: Blocks, session: &mut Session) -> Result<Ending, Trouble> {
        match self {
            Work::NewOrder(input) => new_order::run(input, blocks, session).await,
            Work::Payment(input) => payment::run(input, blocks, session).await,
            Work::OrderStatus(input) => order_status::run(input, blocks, session).await,
            Work::Delivery(input) => delivery::run(input, blocks, session).await,
            Work::StockLevel(input) => stock_level::run(input, blocks, session).await,
        }
    }
}

/// A column that must be there, of the type that was asked for.
pub(crate) fn need<T>(value: Option<T>) -> Result<T, Trouble> {
    value.ok_or_else(|| Trouble::Unexpected("a column is NULL or of another type".to_owned()))
}
