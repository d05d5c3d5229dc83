//! `consort bench tpcb`: TPC-B's one transaction: an account, its teller and its branch change by an amount, and the history
//! says so. All four agree at the end.

use crate::workload;
use crate::workload::{Blocks, Check, Ending, Ledger, Loader, Report, Touches, Workload};
use crate::{Error, Verdict};
use clap::Args;
use load_clients::chance::within;
use load_clients::progress::Progress;
use load_clients::session::{Session, Trouble};
use load_clients::stop::Stop;
use load_clients::value::Value;
use load_clients::values;

/// Tellers of a branch.
const TELLERS: i32 = 10;

/// Accounts of a branch.
const ACCOUNTS: i32 = 100_000;

const TABLES: &str = "
DROP TABLE IF EXISTS tpcb_history; DROP TABLE IF EXISTS tpcb_accounts; DROP TABLE IF EXISTS tpcb_tellers;
DROP TABLE IF EXISTS tpcb_branches;
CREATE TABLE tpcb_branches (bid int NOT NULL, bbalance bigint NOT NULL, filler char(88) NOT NULL);
CREATE TABLE tpcb_tellers (tid int NOT NULL, bid int NOT NULL, tbalance bigint NOT NULL, filler char(84) NOT NULL);
CREATE TABLE tpcb_accounts (aid int NOT NULL, bid int NOT NULL, abalance bigint NOT NULL, filler char(84) NOT NULL);
CREATE TABLE tpcb_history (tid int NOT NULL, bid int NOT NULL, aid int NOT NULL, delta int NOT NULL,
    mtime timestamp NOT NULL, filler char(22) NOT NULL);
";

const ACCOUNT: &str = "UPDATE tpcb_accounts SET abalance = abalance + $1 WHERE aid = $2";
const BALANCE: &str = "SELECT abalance FROM tpcb_accounts WHERE aid = $1";
const TELLER: &str = "UPDATE tpcb_tellers SET tbalance = tbalance + $1 WHERE tid = $2";
const BRANCH: &str = "UPDATE tpcb_branches SET bbalance = bbalance + $1 WHERE bid = $2";
const HISTORY: &str =
    "INSERT INTO tpcb_history (tid, bid, aid, delta, mtime, filler) VALUES ($1, $2, $3, $4, $5, '')";

/// Arguments of `tpcb`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Number of branches, each with 10 tellers and 100,000 accounts (about 15 MB each)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=20_000))]
    pub scale: i32,
    /// Divisor for the accounts of a branch: for trials, not for measurements
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub shrink: i32,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub run: workload::Options,
}

/// The tables that it touches.
const TOUCHES: Touches =
    Touches { reads: "", writes: "tpcb_accounts, tpcb_tellers, tpcb_branches, tpcb_history" };

const EXAMPLES: &str = "\
The command drops and creates the tables tpcb_* at the address, loads them, runs, and checks that accounts, tellers,
branches and history agree; if not, the exit code is 1.

Examples:
  consort bench tpcb --url postgres://postgres@127.0.0.1:6432/postgres --scale 10 --time 60s";

/// TPC-B of a size.
struct Tpcb {
    branches: i32,
    accounts: i32,
    blocks: Blocks,
    /// Rows of the history before the run.
    before: u64,
}

/// The inputs of the transaction.
struct Work {
    account: i32,
    teller: i32,
    branch: i32,
    amount: i32,
}

impl Workload for Tpcb {
    type Client = fastrand::Rng;
    type Work = Work;

    fn name(&self) -> &'static str {
        "tpcb"
    }

    fn describe(&self) -> String {
        format!("TPC-B, {} branches of {} accounts", self.branches, self.accounts)
    }

    fn transactions(&self) -> &'static [&'static str] {
        &["transfer"]
    }

    fn tables(&self) -> String {
        TABLES.to_owned()
    }

    async fn fill(&self, loader: &mut Loader<'_>) -> Result<(), Trouble> {
        loader
            .copy("tpcb_branches", 1..=self.branches, |id, row| {
                row.put(id).put(0).put("");
            })
            .await?;
        loader
            .copy("tpcb_tellers", 0..self.branches * TELLERS, |id, row| {
                row.put(id + 1).put(id / TELLERS + 1).put(0).put("");
            })
            .await?;
        loader
            .copy("tpcb_accounts", 0..self.branches * self.accounts, |id, row| {
                row.put(id + 1).put(id / self.accounts + 1).put(0).put("");
            })
            .await
    }

    fn finish(&self) -> Vec<String> {
        let statements = [
            "ALTER TABLE tpcb_branches ADD PRIMARY KEY (bid)",
            "ALTER TABLE tpcb_tellers ADD PRIMARY KEY (tid)",
            "ALTER TABLE tpcb_accounts ADD PRIMARY KEY (aid)",
            "ANALYZE tpcb_branches",
            "ANALYZE tpcb_tellers",
            "ANALYZE tpcb_accounts",
        ];
        statements.map(str::to_owned).to_vec()
    }

    fn probe(&self) -> String {
        format!(
            "SELECT 1 WHERE (SELECT count(*) FROM tpcb_branches) = {} AND (SELECT max(aid) FROM tpcb_accounts) = {}",
            self.branches,
            self.branches * self.accounts
        )
    }

    async fn look(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let found = session.ask("SELECT count(*) FROM tpcb_history", &[]).await?;
        self.before = found.first()?.number(0).unwrap_or(0).unsigned_abs();
        Ok(())
    }

    fn client(&self, _: u64, chance: fastrand::Rng) -> fastrand::Rng {
        chance
    }

    /// An account of the teller's own branch in 85 of 100, if there is another.
    fn plan(&self, chance: &mut fastrand::Rng) -> Work {
        let teller = within(chance, 1, self.branches * TELLERS);
        let branch = (teller - 1) / TELLERS + 1;
        let other = within(chance, 1, (self.branches - 1).max(1));
        let other = if other >= branch && self.branches > 1 { other + 1 } else { other };
        let of = if chance.u8(0..100) < 85 || self.branches == 1 { branch } else { other };
        let account = (of - 1) * self.accounts + within(chance, 1, self.accounts);
        Work { account, teller, branch, amount: within(chance, -999_999, 999_999) }
    }

    fn kind(&self, _: &Work) -> usize {
        0
    }

    async fn run(
        &self,
        _: &mut fastrand::Rng,
        work: &Work,
        session: &mut Session,
    ) -> Result<Ending, Trouble> {
        let Work { account, teller, branch, amount } = *work;
        let by = i64::from(amount);
        self.blocks.begin(session, TOUCHES).await?;
        session.ask(ACCOUNT, values![by, account]).await?;
        session.ask(BALANCE, values![account]).await?.first()?;
        session.ask(TELLER, values![by, teller]).await?;
        session.ask(BRANCH, values![by, branch]).await?;
        session.ask(HISTORY, values![teller, branch, account, amount, Value::now()]).await?;
        self.blocks.commit(session).await
    }

    fn checks(&self, ledger: &Ledger) -> Vec<Check> {
        let agree = |number: &str, what: &str, table: &str, key: &str, balance: &str| {
            let query = format!(
                "SELECT {key}, {balance}, moved FROM {table} LEFT JOIN \
                 (SELECT {key} AS id, sum(delta) AS moved FROM tpcb_history GROUP BY 1) h ON id = {key} \
                 WHERE {balance} <> coalesce(moved, 0)"
            );
            Check::query(number, what, query)
        };
        let (least, most) = ledger.bounds(0);
        vec![
            agree("accounts", "every account is the sum of its history", "tpcb_accounts", "aid", "abalance"),
            agree("tellers", "every teller is the sum of its history", "tpcb_tellers", "tid", "tbalance"),
            agree("branches", "every branch is the sum of its history", "tpcb_branches", "bid", "bbalance"),
            Check::query(
                "sums",
                "accounts, tellers, branches and history have equal sums",
                "SELECT * FROM (SELECT (SELECT sum(abalance) FROM tpcb_accounts) AS accounts, \
                 (SELECT sum(tbalance) FROM tpcb_tellers) AS tellers, \
                 (SELECT sum(bbalance) FROM tpcb_branches) AS branches, \
                 (SELECT coalesce(sum(delta), 0) FROM tpcb_history) AS history) s \
                 WHERE accounts <> tellers OR tellers <> branches OR branches <> history",
            ),
            Check::within(
                "acknowledged",
                "the history has a row for each acknowledged transaction",
                "SELECT count(*) FROM tpcb_history",
                (self.before + least, self.before + most),
            ),
        ]
    }
}

fn workload(options: &Options) -> Tpcb {
    let accounts = ACCOUNTS / options.shrink;
    Tpcb { branches: options.scale, accounts, blocks: options.run.blocks, before: 0 }
}

/// Runs the subcommand and prints its results.
///
/// # Errors
/// The address cannot be used or a file cannot be written.
pub async fn run(options: &Options) -> Result<Verdict, Error> {
    workload::run(workload(options), &options.run).await
}

/// Runs it and gives the result.
///
/// # Errors
/// The address cannot be used.
pub async fn measure(options: &Options, stop: &Stop, progress: &mut Progress) -> Result<Report, Trouble> {
    workload::measure(workload(options), &options.run, stop, progress).await
}
