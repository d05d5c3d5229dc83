//! Common parts of all workloads of the specifications: tables that are made and filled, clients that run
//! named transactions one after the other, counts of the outcomes of each, and checks of the tables when it
//! is over.
//!
//! A workload says what its tables, its inputs and its statements are; it does not know how many clients there are, how
//! fast they go, or that others measure it. Statements are those that an application would send, one after the other.

mod check;
mod client;
mod loader;
mod options;
mod report;
mod run;
mod tallies;

pub use check::{Check, Checked, judge};
pub use options::{Isolation, Options};
pub use report::{Line, Report, Served};
pub use tallies::{Ledger, Timeline};

pub(crate) use loader::{Loader, TextRow};
pub(crate) use run::{measure, run};

use clap::Args;
use load_clients::session::{Session, Trouble};

/// End of a transaction that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Committed.
    Committed,
    /// Rolled back, as the workload's rules say.
    RolledBack,
}

/// Knowledge of a transaction after its last attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed.
    Committed,
    /// Undone without a trace.
    Undone,
    /// The connection or the answer was lost on the way.
    Unknown,
}

/// A workload of a specification.
pub(crate) trait Workload: Send + Sync + 'static {
    /// State of a client between its transactions.
    type Client: Send;

    /// The inputs of one transaction; a second attempt has the same.
    type Work: Send + Sync;

    /// Its name.
    fn name(&self) -> &'static str;

    /// Its size and its mix, in a few words.
    fn describe(&self) -> String;

    /// The names of its transactions, in the order of the report.
    fn transactions(&self) -> &'static [&'static str];

    /// Statements that drop its tables and create them again, empty.
    fn tables(&self) -> String;

    /// Fills the tables.
    fn fill(&self, loader: &mut Loader<'_>) -> impl Future<Output = Result<(), Trouble>>;

    /// Statements for the full tables: keys, indexes, statistics. Each is one step of the progress.
    fn finish(&self) -> Vec<String>;

    /// A query with a row if, and only if, the tables are there and have the size that was asked for.
    fn probe(&self) -> String;

    /// Looks at what is in the tables, before the clients begin.
    fn look(&mut self, session: &mut Session) -> impl Future<Output = Result<(), Trouble>> {
        let _ = session;
        std::future::ready(Ok(()))
    }

    /// Clients besides those that were asked for.
    fn more_clients(&self) -> u64 {
        0
    }

    /// True if the client thinks and keeps the rate.
    fn is_paced(&self, client: &Self::Client) -> bool {
        let _ = client;
        true
    }

    /// Address of the client, if not the common one.
    fn url(&self, client: &Self::Client) -> Option<&str> {
        let _ = client;
        None
    }

    /// Average think time of a client between two transactions, in seconds, if the options do not set it.
    fn think_seconds(&self) -> f64 {
        0.0
    }

    /// A client, with random numbers of its own.
    fn client(&self, number: u64, chance: fastrand::Rng) -> Self::Client;

    /// Plans the client's next transaction.
    fn plan(&self, client: &mut Self::Client) -> Self::Work;

    /// Index of the transaction's kind.
    fn kind(&self, work: &Self::Work) -> usize;

    /// Runs it once, with its BEGIN and COMMIT if it has them. After an error the caller rolls back.
    fn run(
        &self,
        client: &mut Self::Client,
        work: &Self::Work,
        session: &mut Session,
    ) -> impl Future<Output = Result<Ending, Trouble>> + Send;

    /// Called at a transaction's end, with any outcome.
    fn ended(&self, client: &mut Self::Client, work: &Self::Work, outcome: Outcome) {
        let _ = (client, work, outcome);
    }

    /// Conditions that must hold after a run.
    fn checks(&self, ledger: &Ledger) -> Vec<Check>;
}

/// The block that transactions run in, as the options say.
#[derive(Args, Clone, Copy, Debug, Default)]
#[group(skip)]
pub struct Blocks {
    /// Isolation level of transaction blocks
    #[arg(long, value_enum, default_value = "default")]
    pub isolation: Isolation,
    /// Begin read-only transactions with READ ONLY
    #[arg(long)]
    pub declare_read_only: bool,
    /// Run read-only transactions without BEGIN and COMMIT, each statement in autocommit
    #[arg(long, conflicts_with = "declare_read_only")]
    pub autocommit_reads: bool,
    /// Declare the tables of writing transactions after BEGIN (SET LOCAL consort.tables_read,
    /// consort.tables_written)
    #[arg(long)]
    pub declare_tables: bool,
}

/// The tables of a transaction, names with commas between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touches {
    /// Tables that it reads and does not write.
    pub(crate) reads: &'static str,
    /// Tables that it writes; also a sequence, if it draws numbers.
    pub(crate) writes: &'static str,
}

impl Blocks {
    /// Begins a transaction that writes.
    pub(crate) async fn begin(self, session: &Session, touches: Touches) -> Result<(), Trouble> {
        session.execute(&format!("BEGIN{}", self.isolation.clause())).await?;
        if self.declare_tables {
            let Touches { reads, writes } = touches;
            session.execute(&format!("SET LOCAL consort.tables_read = '{reads}'")).await?;
            session.execute(&format!("SET LOCAL consort.tables_written = '{writes}'")).await?;
        }
        Ok(())
    }

    /// Begins a transaction that only reads.
    pub(crate) async fn begin_reading(self, session: &Session) -> Result<(), Trouble> {
        if self.autocommit_reads {
            return Ok(());
        }
        let read_only = if self.declare_read_only { " READ ONLY" } else { "" };
        session.execute(&format!("BEGIN{}{read_only}", self.isolation.clause())).await
    }

    /// Commits what only read.
    pub(crate) async fn commit_reading(self, session: &Session) -> Result<Ending, Trouble> {
        if self.autocommit_reads { Ok(Ending::Committed) } else { self.commit(session).await }
    }

    /// Commits.
    pub(crate) async fn commit(self, session: &Session) -> Result<Ending, Trouble> {
        session.execute("COMMIT").await.map(|()| Ending::Committed)
    }
}

/// Chooses by weight.
pub(crate) fn weighted(weights: &[f64], chance: &mut fastrand::Rng) -> usize {
    let mut point = chance.f64() * weights.iter().sum::<f64>();
    for (at, weight) in weights.iter().enumerate() {
        point -= weight;
        if point < 0.0 {
            return at;
        }
    }
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
}
