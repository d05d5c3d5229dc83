//! `consort bench allupdates`: the AllUpdates workload of Tashkent (Elnikety and others, EuroSys 2006): every transaction
//! updates one row, of a range of keys that its client has alone, so that nothing conflicts and commits are all there is.

use crate::workload;
use crate::workload::{Check, Ending, Ledger, Loader, Report, Workload};
use crate::{Error, Verdict};
use clap::Args;
use load_clients::progress::Progress;
use load_clients::session::{Session, Trouble};
use load_clients::stop::Stop;
use load_clients::values;

const UPDATE: &str = "UPDATE allupdates SET n = n + 1 WHERE id = $1";

/// Arguments of `allupdates`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Number of rows of each client
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(i64).range(1..=10_000_000))]
    pub rows: i64,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub run: workload::Options,
}

const EXAMPLES: &str = "\
The command drops and creates the table allupdates at the address, loads it, runs, and checks that each acknowledged
update was applied once; if not, the exit code is 1.

Examples:
  consort bench allupdates --url postgres://postgres@127.0.0.1:6432/postgres --clients 16 --time 30s";

/// `AllUpdates` of a size.
struct AllUpdates {
    clients: i64,
    rows: i64,
    /// The sum of all counters before the run.
    before: u64,
}

/// A client and the first of its rows.
struct Client {
    first: i64,
    chance: fastrand::Rng,
}

impl Workload for AllUpdates {
    type Client = Client;
    type Work = i64;

    fn name(&self) -> &'static str {
        "allupdates"
    }

    fn describe(&self) -> String {
        format!("AllUpdates, {} rows for each client", self.rows)
    }

    fn transactions(&self) -> &'static [&'static str] {
        &["update"]
    }

    fn tables(&self) -> String {
        "DROP TABLE IF EXISTS allupdates; \
         CREATE TABLE allupdates (id bigint NOT NULL, n bigint NOT NULL, filler char(40) NOT NULL)"
            .to_owned()
    }

    async fn fill(&self, loader: &mut Loader<'_>) -> Result<(), Trouble> {
        loader
            .copy("allupdates", 0..self.clients * self.rows, |id, row| {
                row.put(id).put(0).put("");
            })
            .await
    }

    fn finish(&self) -> Vec<String> {
        vec!["ALTER TABLE allupdates ADD PRIMARY KEY (id)".to_owned(), "ANALYZE allupdates".to_owned()]
    }

    fn probe(&self) -> String {
        format!("SELECT 1 FROM allupdates HAVING count(*) = {}", self.clients * self.rows)
    }

    async fn look(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let found = session.ask("SELECT sum(n)::bigint FROM allupdates", &[]).await?;
        self.before = found.first()?.number(0).unwrap_or(0).unsigned_abs();
        Ok(())
    }

    fn client(&self, number: u64, chance: fastrand::Rng) -> Client {
        Client { first: i64::try_from(number).expect("clients are few") * self.rows, chance }
    }

    fn plan(&self, client: &mut Client) -> i64 {
        client.first + client.chance.i64(0..self.rows)
    }

    fn kind(&self, _: &i64) -> usize {
        0
    }

    async fn run(&self, _: &mut Client, row: &i64, session: &mut Session) -> Result<Ending, Trouble> {
        match session.ask(UPDATE, values![*row]).await?.affected {
            1 => Ok(Ending::Committed),
            count => Err(Trouble::Unexpected(format!("{count} rows updated by a key"))),
        }
    }

    fn checks(&self, ledger: &Ledger) -> Vec<Check> {
        let (least, most) = ledger.bounds(0);
        vec![Check::within(
            "acknowledged",
            "each acknowledged update is there, once",
            "SELECT sum(n) FROM allupdates",
            (self.before + least, self.before + most),
        )]
    }
}

fn workload(options: &Options) -> AllUpdates {
    let clients = i64::try_from(options.run.clients.max(1)).unwrap_or(i64::MAX);
    AllUpdates { clients, rows: options.rows, before: 0 }
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
