//! `consort import-tier`: the schema and rows of a PostgreSQL database, into an in-memory tier.

use std::pin::pin;

use bytes::Bytes;
use clap::Args;
use disk_tier::schema::{self, Schema, TablePlan};
use futures_util::{SinkExt, StreamExt};
use postgres::address::Control;

use crate::cluster_in::{Found, Which};
use crate::console;
use crate::failure::Failure;
use crate::home::Home;

/// Bytes that are loaded in one transaction.
const LOAD_BYTES: usize = 4 << 20;
/// Bytes between two reports.
const REPORT_BYTES: u64 = 64 << 20;
/// Relations of the tier.
const RELATIONS: &str = "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'public' AND c.relkind IN ('r', 'v', 'S')";

/// Bring a PostgreSQL database's schema and rows into an in-memory tier
///
/// Reads schema public at one snapshot. All definitions are tried out first: what the tier does not take is listed with
/// hints, and then nothing is written. Tables must not be in the tier yet. Clients of the database should not write
/// meanwhile: what they commit after the snapshot does not come along.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// The database, as postgres://user@host/db
    #[arg(long, value_name = "URL")]
    from: String,
    /// List what would be brought in and what would not, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Bring in the rest when some objects are not taken
    #[arg(long)]
    leave_out: bool,
}

const EXAMPLES: &str = "\
Examples:
  consort import-tier --from postgres://me@127.0.0.1/shop --dry-run
  consort import-tier --from postgres://me@127.0.0.1/shop
  consort import-tier --from postgres://me@127.0.0.1/shop --leave-out";

/// Brings it in.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find_any()?;
    if !found.config.design().is_memory_tier() {
        return Err(Failure::new(
            "the command is for in-memory tiers: consort up --design NAME, see docs/designs.md",
        ));
    }
    crate::runtime()?.block_on(import(&found, options))
}

/// The same for `consort up --from`, if the tier has no tables yet.
pub(crate) fn into_empty(home: &Home, from: &str) -> Result<(), Failure> {
    let which = Which { dir: Some(home.folder().to_owned()), config: None };
    let found = which.find_any()?;
    let options = Options { which, from: from.to_owned(), dry_run: false, leave_out: false };
    crate::runtime()?.block_on(async {
        let there = at_tier(&found, async |tier| relations(tier).await).await?;
        if !there.is_empty() {
            eprintln!("the tier has tables already; nothing is brought in from --from");
            return Ok(());
        }
        import(&found, &options).await
    })
}

fn failed(at: &str, error: &tokio_postgres::Error) -> Failure {
    let said = error.as_db_error().map(|said| {
        let hint = said.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{} ({}){hint}", said.message(), said.code().code())
    });
    Failure::new(format!("{at}: {}", said.unwrap_or_else(|| error.to_string())))
}

/// Works as a client of the tier.
async fn at_tier<T>(
    found: &Found,
    work: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (client, driver) = console::client(found, "postgres").await?;
    tokio::select! {
        done = work(&client) => done,
        ended = driver => Err(match ended {
            Ok(()) => Failure::new("the tier has closed the connection"),
            Err(error) => failed("the tier", &error),
        }),
    }
}

async fn relations(tier: &tokio_postgres::Client) -> Result<Vec<String>, Failure> {
    let rows = tier.query(RELATIONS, &[]).await.map_err(|error| failed("the tier", &error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn import(found: &Found, options: &Options) -> Result<(), Failure> {
    let tls = found.config.tls_to_servers().map_err(Failure::new)?;
    let address = disk_tier::address(&options.from, tls.as_ref()).map_err(Failure::new)?;
    let source = Control::connect(&address).await.map_err(|error| Failure::new(error.to_string()))?;
    // Rows that a policy hides from this role would be missing without a word.
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL row_security = off";
    source.batch_execute(begin).await.map_err(|error| failed("the database", &error))?;
    let schema = schema::read(&source).await.map_err(Failure::new)?;
    let is_whole = report(&schema);
    if options.dry_run {
        return Ok(());
    }
    if !is_whole && !options.leave_out {
        return Err(Failure::new(format!(
            "{} objects are not taken, and nothing was written; change them, or bring in the rest with --leave-out",
            schema.refused.len()
        )));
    }
    at_tier(found, async |tier| {
        let there = relations(tier).await?;
        if let Some(table) = schema.tables.iter().find(|table| there.contains(&table.name)) {
            let why = format!("table {} is in the tier already; nothing was written", table.name);
            return Err(Failure::new(why));
        }
        bring(&schema, &source, tier).await
    })
    .await
}

/// Says what is brought in. True if it is all.
fn report(schema: &Schema) -> bool {
    for table in &schema.tables {
        println!("table {}: taken", table.name);
    }
    for name in &schema.left_out {
        println!("{name}: left out, the tier runs no functions of its own");
    }
    for refused in &schema.refused {
        println!("{}: NOT taken: {}", refused.object, refused.why);
        if !refused.hint.is_empty() {
            println!("    {}", refused.hint);
        }
    }
    schema.refused.is_empty()
}

async fn bring(schema: &Schema, source: &Control, tier: &tokio_postgres::Client) -> Result<(), Failure> {
    let define = async |text: &str| tier.batch_execute(text).await.map_err(|error| failed(text, &error));
    for text in &schema.sequences {
        define(text).await?;
    }
    for (number, table) in schema.tables.iter().enumerate() {
        define(&table.create).await?;
        let rows = rows(table, source, tier).await?;
        for text in &table.complete {
            define(text).await?;
        }
        eprintln!("table {}: {rows} rows ({} of {} tables)", table.name, number + 1, schema.tables.len());
    }
    for text in schema.views.iter().chain(&schema.positions) {
        define(text).await?;
    }
    Ok(())
}

/// Copies a table's rows, some in each transaction. Returns their number.
async fn rows(table: &TablePlan, source: &Control, tier: &tokio_postgres::Client) -> Result<u64, Failure> {
    let wrong = |error: tokio_postgres::Error| failed(&format!("table {}", table.name), &error);
    let name = format!("public.\"{}\"", table.name.replace('"', "\"\""));
    let from = format!("COPY (SELECT {} FROM {name}) TO STDOUT", table.columns);
    let into = format!("COPY {name} ({}) FROM STDIN", table.columns);
    let mut copied = pin!(source.copy_out(&from).await.map_err(wrong)?);
    let (mut count, mut total, mut rest) = (0, 0, Vec::new());
    loop {
        let data = copied.next().await.transpose().map_err(wrong)?;
        let is_over = data.is_none();
        rest.extend_from_slice(&data.unwrap_or_default());
        if rest.len() < LOAD_BYTES && !is_over {
            continue;
        }
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        if end > 0 {
            let lines: Vec<u8> = rest.drain(..end).collect();
            let before = total / REPORT_BYTES;
            total += lines.len() as u64;
            let mut sink = pin!(tier.copy_in::<_, Bytes>(&into).await.map_err(wrong)?);
            sink.send(Bytes::from(lines)).await.map_err(wrong)?;
            count += sink.finish().await.map_err(wrong)?;
            if total / REPORT_BYTES > before {
                eprintln!("table {}: {count} rows ..", table.name);
            }
        }
        if is_over {
            return Ok(count);
        }
    }
}
