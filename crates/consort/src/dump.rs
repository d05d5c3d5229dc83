//! `consort dump`: all keys of a key-value design as commands of the Redis protocol.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use crate::cluster_in::Which;
use crate::failure::Failure;
use crate::redis_client::{Connection, Reply, write_command};

/// Keys that are read at once.
const PORTION: &[u8] = b"500";
/// Keys between two lines of progress.
const PROGRESS_EVERY: u64 = 100_000;

/// Dump all keys of a key-value design, as SET commands of one snapshot
///
/// Clients go on while the dump runs. `redis-cli --pipe` loads it into Consort, or into a Redis server.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    which: Which,
    /// Write to this file, which is complete when the command ends; default: standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  consort dump --output shop.resp               back up
  redis-cli -p 6432 --pipe < shop.resp          restore, into an empty database
  redis-cli -h HOST --pipe < shop.resp          move to a Redis server";

/// Writes the dump.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = options.which.find_any()?;
    if !found.config.design().is_key_value() {
        return Err(Failure::new(format!(
            "the command is for key-value designs; for {} take pg_dump",
            found.config.design().name
        )));
    }
    let mut connection = Connection::open(&found)?;
    let Some(file) = &options.output else {
        let count = dump(&mut connection, &mut BufWriter::new(std::io::stdout().lock()))?;
        eprintln!("dumped {count} keys");
        return Ok(());
    };
    let unfinished = file.with_added_extension("unfinished");
    let mut out = BufWriter::new(File::create(&unfinished)?);
    let count = dump(&mut connection, &mut out)?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&unfinished, file)?;
    eprintln!("dumped {count} keys into {}", file.display());
    Ok(())
}

/// Writes all keys of one snapshot; their number.
fn dump(connection: &mut Connection, out: &mut impl Write) -> Result<u64, Failure> {
    connection.ask(&[b"BEGIN", b"READ", b"ONLY"])?;
    let (mut from, mut count) = (Vec::new(), 0);
    loop {
        let Reply::Array(rows) = connection.ask(&[b"RANGE", &from, b"", b"LIMIT", PORTION])? else {
            return Err(Failure::new("the server's reply to RANGE is malformed"));
        };
        if rows.is_empty() {
            break;
        }
        for pair in rows.chunks_exact(2) {
            if let [Reply::Value(key), Reply::Value(value)] = pair {
                write_command(out, &[b"SET", key, value])?;
                from.clone_from(key);
                count += 1;
                if count % PROGRESS_EVERY == 0 {
                    eprintln!("{count} keys ..");
                }
            }
        }
        // The smallest key after the last one.
        from.push(0);
    }
    connection.ask(&[b"ROLLBACK"])?;
    out.flush()?;
    Ok(count)
}
