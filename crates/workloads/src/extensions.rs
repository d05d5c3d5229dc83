//! `consort bench extensions`: nearest-neighbour reads with the functions, types and indexes of PostGIS or pgvector.
//!
//! The server makes the rows itself, from a fixed seed: points in a square of 400 km, or vectors of 384
//! dimensions. Half of the reads ask for the nearest rows alone, the other half for more about them.

use crate::workload;
use crate::workload::{Check, Ending, Ledger, Loader, Report, Workload};
use crate::{Error, Verdict};
use clap::{Args, ValueEnum};
use load_clients::progress::Progress;
use load_clients::session::{Session, Trouble};
use load_clients::stop::Stop;
use load_clients::value::Value;
use std::ops::RangeInclusive;
use tokio_postgres::error::SqlState;

/// Arguments of `extensions`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Extension of the rows and queries
    #[arg(long, value_enum)]
    pub extension: Extension,
    /// Number of rows
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(100..=10_000_000))]
    pub rows: i64,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub run: workload::Options,
}

const EXAMPLES: &str = "\
The command creates the extension, drops and creates the table extensions_place or extensions_item at the address, loads
it, runs, and checks that all rows exist. An answer with fewer rows than asked for counts as an error.

Examples:
  consort bench extensions --extension postgis --url postgres://postgres@127.0.0.1:6432/postgres --time 30s
  consort bench extensions --extension pgvector --url postgres://postgres@127.0.0.1:6432/postgres --protocol prepared";

/// Extension of the rows and queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Extension {
    /// Points with a GiST index: `ST_DWithin`, and the nearest five
    Postgis,
    /// Vectors of 384 dimensions with an HNSW index: the nearest five, and the nearest twenty with their similarity
    Pgvector,
}

/// Rows and queries of an extension.
struct Queries {
    /// Name of the extension in SQL.
    extension: &'static str,
    /// Packages that bring it.
    source: &'static str,
    table: &'static str,
    columns: &'static str,
    /// Values of the columns of the row `id`.
    row: &'static str,
    index: &'static str,
    names: [&'static str; 2],
    /// Each query with the number of rows in its answer.
    queries: [(&'static str, usize); 2],
}

static PLACES: Queries = Queries {
    extension: "postgis",
    source: "scripts/prerequisites.sh extensions installs it for PostgreSQL 15",
    table: "extensions_place",
    columns: "id bigint PRIMARY KEY, price int NOT NULL, place geometry(Point, 25832) NOT NULL",
    row: "id, 100 * random(), \
          ST_SetSRID(ST_MakePoint(300000 + 400000 * random(), 5200000 + 400000 * random()), 25832)",
    index: "CREATE INDEX ON extensions_place USING gist (place)",
    names: ["within 20 km", "nearest five"],
    queries: [
        (
            "SELECT count(*), sum(price) FROM extensions_place \
             WHERE ST_DWithin(place, ST_SetSRID(ST_MakePoint($1, $2), 25832), 20000)",
            1,
        ),
        (
            "SELECT id, price FROM extensions_place \
             ORDER BY place <-> ST_SetSRID(ST_MakePoint($1, $2), 25832) LIMIT 5",
            5,
        ),
    ],
};

static ITEMS: Queries = Queries {
    extension: "vector",
    source: "the package of scripts/postgresql_majors.sh with the client programs of PostgreSQL 16 has it",
    table: "extensions_item",
    columns: "id bigint PRIMARY KEY, embedding vector(384) NOT NULL",
    // The condition ties the numbers to the row: each row draws its own.
    row: "id, (SELECT array_agg(random() - 0.5) FROM generate_series(1, 384) WHERE id > 0)::vector",
    index: "CREATE INDEX ON extensions_item USING hnsw (embedding vector_cosine_ops)",
    names: ["nearest five", "nearest twenty"],
    queries: [
        (
            "SELECT id FROM extensions_item \
             ORDER BY embedding <=> (SELECT embedding FROM extensions_item WHERE id = $1) LIMIT 5",
            5,
        ),
        (
            "SELECT id, 1 - (embedding <=> (SELECT embedding FROM extensions_item WHERE id = $1)) AS similarity \
             FROM extensions_item \
             ORDER BY embedding <=> (SELECT embedding FROM extensions_item WHERE id = $1) LIMIT 20",
            20,
        ),
    ],
};

impl Extension {
    fn queries(self) -> &'static Queries {
        match self {
            Extension::Postgis => &PLACES,
            Extension::Pgvector => &ITEMS,
        }
    }

    /// The error of servers without the extension says where there are others.
    fn with_hint(self, trouble: Trouble) -> Trouble {
        let unavailable = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::UNDEFINED_FILE];
        match trouble {
            Trouble::Refused { state, message }
                if unavailable.contains(&state) && message.contains("extension") =>
            {
                let source = self.queries().source;
                let message = format!(
                    "{message}; HINT: {source}; CONSORT_POSTGRES_BIN names the servers' program folder"
                );
                Trouble::Refused { state, message }
            }
            trouble => trouble,
        }
    }
}

/// Reads of an extension's rows.
struct Reads {
    extension: Extension,
    rows: i64,
}

/// A query and its parameters.
struct Work {
    kind: usize,
    values: Vec<Value>,
}

impl Workload for Reads {
    type Client = fastrand::Rng;
    type Work = Work;

    fn name(&self) -> &'static str {
        "extensions"
    }

    fn describe(&self) -> String {
        format!("{}, {} rows", self.extension.queries().extension, self.rows)
    }

    fn transactions(&self) -> &'static [&'static str] {
        &self.extension.queries().names
    }

    fn tables(&self) -> String {
        let Queries { extension, table, columns, .. } = self.extension.queries();
        format!(
            "CREATE EXTENSION IF NOT EXISTS {extension}; DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({columns})"
        )
    }

    async fn fill(&self, loader: &mut Loader<'_>) -> Result<(), Trouble> {
        let Queries { table, row, .. } = self.extension.queries();
        loader.finish("SELECT setseed(0.5)").await?;
        loader
            .finish(&format!("INSERT INTO {table} SELECT {row} FROM generate_series(1, {}) id", self.rows))
            .await
    }

    fn finish(&self) -> Vec<String> {
        let Queries { table, index, .. } = self.extension.queries();
        // An HNSW index that does not fit into it takes many times as long.
        let memory = "SET maintenance_work_mem = '512MB'".to_owned();
        vec![memory, (*index).to_owned(), format!("ANALYZE {table}")]
    }

    fn probe(&self) -> String {
        format!("SELECT 1 FROM {} HAVING count(*) = {}", self.extension.queries().table, self.rows)
    }

    fn client(&self, _: u64, chance: fastrand::Rng) -> fastrand::Rng {
        chance
    }

    fn plan(&self, chance: &mut fastrand::Rng) -> Work {
        let mut number = |range: RangeInclusive<i64>| Value::from(chance.i64(range));
        let values = match self.extension {
            Extension::Postgis => vec![number(300_000..=700_000), number(5_200_000..=5_600_000)],
            Extension::Pgvector => vec![number(1..=self.rows)],
        };
        Work { kind: chance.usize(0..2), values }
    }

    fn kind(&self, work: &Work) -> usize {
        work.kind
    }

    async fn run(
        &self,
        _: &mut fastrand::Rng,
        work: &Work,
        session: &mut Session,
    ) -> Result<Ending, Trouble> {
        let (query, wanted) = self.extension.queries().queries[work.kind];
        match session.ask(query, &work.values).await?.rows.len() {
            count if count == wanted => Ok(Ending::Committed),
            count => Err(Trouble::Unexpected(format!("{count} rows instead of {wanted}"))),
        }
    }

    fn checks(&self, _: &Ledger) -> Vec<Check> {
        let rows = self.rows.unsigned_abs();
        let count = format!("SELECT count(*) FROM {}", self.extension.queries().table);
        vec![Check::within("rows", "the table has its initial rows", &count, (rows, rows))]
    }
}

fn workload(options: &Options) -> Reads {
    Reads { extension: options.extension, rows: options.rows }
}

/// Runs the subcommand and prints its results.
///
/// # Errors
/// The address cannot be used, its server lacks the extension, or a file cannot be written.
pub async fn run(options: &Options) -> Result<Verdict, Error> {
    let ran = workload::run(workload(options), &options.run).await;
    ran.map_err(|error| match error {
        Error::Trouble(trouble) => options.extension.with_hint(trouble).into(),
        error => error,
    })
}

/// Runs it and gives the result.
///
/// # Errors
/// The address cannot be used, or its server lacks the extension.
pub async fn measure(options: &Options, stop: &Stop, progress: &mut Progress) -> Result<Report, Trouble> {
    let measured = workload::measure(workload(options), &options.run, stop, progress).await;
    measured.map_err(|trouble| options.extension.with_hint(trouble))
}
