//! The tier's memory and log are lost: the newest back end gives everything back.
//!
//! A file in the log's folder says that this goes on. It is there before the new log begins, and until the back end is one of the
//! new history: whatever stops in between begins again.

use crate::position::{Position, bigint, connect, position};
use crate::schema;
use crate::statements::quoted;
use crate::trouble::{Step, Trouble};
use futures_util::StreamExt;
use memory_tier::front::Tier;
use memory_tier::front::direct::{Direct, statement};
use memory_tier::front::log::Log;
use memory_tier::message::Run;
use postgres::address::{Address, Control};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A back end that cannot be reached at the start is waited for so long.
const REACH_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(300);
/// Bytes of values that are loaded in one transaction.
const LOAD_BYTES: usize = 1 << 20;
/// Rows that are loaded in one transaction.
const LOAD_ROWS: usize = 2_000;
/// Relations of the tier: what an attempt before has left.
const LEFT: &str = "SELECT c.relkind, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'public' AND c.relkind IN ('r', 'v', 'S') ORDER BY c.oid DESC";

/// A restart from a back end: which one, and its position.
pub struct Restore {
    address: Address,
    position: Position,
    file: PathBuf,
}

fn file_of(folder: &Path) -> PathBuf {
    folder.join("restore")
}

/// Whether the tier restarts from a back end: the log is new, and a back end has a position. To be asked before nodes get their
/// parts. The new log begins above the back end's version.
///
/// # Errors
/// A sentence: a back end cannot be reached, which may have the data.
pub async fn plan(folder: &Path, log: &Log, addresses: &[Address]) -> Result<Option<Restore>, String> {
    let file = file_of(folder);
    let goes_on = match fs::read_to_string(&file) {
        Ok(name) => Some(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    if goes_on.is_none() && (addresses.is_empty() || !log.is_new()) {
        return Ok(None);
    }
    if let Some(name) = &goes_on
        && !addresses.iter().any(|address| *name == address.to_string())
    {
        return Err(format!(
            "a restart from the back end {name} was interrupted: put it into back_ends again; its data are not complete here"
        ));
    }
    let mut newest: Option<(Position, &Address)> = None;
    for address in
        addresses.iter().filter(|address| goes_on.as_ref().is_none_or(|name| *name == address.to_string()))
    {
        let found = reach(address).await.map_err(|why| {
            format!("the query log is empty, and the back end {address} may have the data: {why}; start it, or remove it from back_ends")
        })?;
        if let Some(found) = found
            && newest.as_ref().is_none_or(|(known, _)| known.version < found.version)
        {
            newest = Some((found, address));
        }
    }
    let Some((position, address)) = newest else {
        return match goes_on {
            None => Ok(None),
            Some(name) => Err(format!(
                "a restart from the back end {name} was interrupted, and it has no position any more"
            )),
        };
    };
    let wrong = |error: io::Error| format!("cannot begin a new log: {error}");
    if goes_on.is_none() {
        log.forget_name().map_err(wrong)?;
        write(&file, &address.to_string()).map_err(wrong)?;
    }
    if log.name().map_err(wrong)? == position.name {
        // The last step before was the last one.
        return fs::remove_file(&file).map(|()| None).map_err(wrong);
    }
    if log.is_new() {
        log.begin_above(position.version + 1).await.map_err(wrong)?;
    }
    Ok(Some(Restore { address: address.clone(), position, file }))
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut made = fs::File::create(&new)?;
    made.write_all(text.as_bytes())?;
    made.sync_all()?;
    fs::rename(&new, file)?;
    fs::File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

async fn reach(address: &Address) -> Result<Option<Position>, String> {
    let until = Instant::now() + REACH_LIMIT;
    loop {
        let asked = async { position(&connect(address).await?).await };
        match asked.await {
            Ok(found) => return Ok(found),
            Err(Trouble::Refused(why)) => return Err(why),
            Err(Trouble::Away(why)) if Instant::now() > until => return Err(why),
            Err(Trouble::Away(_)) => sleep(PAUSE).await,
        }
    }
}

/// Brings everything in, through the master. Until this has ended no client may come in.
///
/// # Errors
/// A sentence: the back end or the tier has failed. The next start begins again.
pub async fn restore(restore: &Restore, tier: &Rc<Tier>, log: &Log) -> Result<(), String> {
    let Restore { address, position, file } = restore;
    let from = address.to_string();
    tracing::warn!(
        from,
        version = position.version,
        "the query log is empty; the tier restarts from a back end"
    );
    bring(address, position, tier, log)
        .await
        .map_err(|trouble| format!("cannot restart from the back end {from}: {}", trouble.text()))?;
    fs::remove_file(file).map_err(|error| format!("cannot remove {}: {error}", file.display()))
}

async fn bring(address: &Address, position: &Position, tier: &Rc<Tier>, log: &Log) -> Step<()> {
    let control = connect(address).await?;
    control.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let schema = schema::read(&control).await.map_err(Trouble::Refused)?;
    if let Some(refused) = schema.refused.first() {
        let (object, why) = (&refused.object, &refused.why);
        return Err(Trouble::Refused(format!("{object}: {why}")));
    }
    let mut master = Direct::open(tier, true).await?;
    drop_all(&mut master).await?;
    for definition in &schema.sequences {
        master.once(definition).await?;
    }
    let mut done = 0;
    for table in &schema.tables {
        master.once(&table.create).await?;
        let rows = load(&control, &mut master, table).await?;
        for definition in &table.complete {
            master.once(definition).await?;
        }
        tracing::info!(table = table.name, rows, "a table is restored");
        done += 1;
        let of = schema.tables.len();
        tier.closes(&format!("the tier restarts from a back end: {done} of {of} tables are there"));
    }
    for definition in schema.views.iter().chain(&schema.positions) {
        master.once(definition).await?;
    }
    control.batch_execute("COMMIT").await?;
    let newest = log.settled().await.map_err(Trouble::Away)?;
    let moves = "UPDATE consort.tier SET name = $1, version = $2 WHERE name = $3 AND version = $4";
    let own = log.name()?;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&own, &bigint(newest), &position.name, &bigint(position.version)];
    if control.execute(moves, &values).await? != 1 {
        return Err(Trouble::Refused("its version has changed: another Consort feeds it".to_owned()));
    }
    Ok(())
}

/// Drops what an attempt before has left.
async fn drop_all(master: &mut Direct) -> Step<()> {
    let mut left = Vec::new();
    master.read().await?;
    let gather = async |mut messages: &[u8]| {
        while !messages.is_empty() {
            let (values, rest) = crate::copy::row(messages).ok_or(io::ErrorKind::InvalidData)?;
            let text = |place: usize| {
                String::from_utf8_lossy(values.get(place).copied().flatten().unwrap_or_default()).into_owned()
            };
            left.push((text(0), text(1)));
            messages = rest;
        }
        Ok(())
    };
    master.query(LEFT, gather).await?;
    master.end().await?;
    // Views read tables, and tables own sequences.
    left.sort_by_key(|(kind, _): &(String, String)| ["v", "r", "S"].iter().position(|known| known == kind));
    for (kind, name) in left {
        let kind = match kind.as_str() {
            "v" => "VIEW",
            "S" => "SEQUENCE",
            _ => "TABLE",
        };
        master.once(&format!("DROP {kind} IF EXISTS {} CASCADE", quoted(&name))).await?;
    }
    Ok(())
}

/// Loads a table's rows. Returns their number.
async fn load(control: &Control, master: &mut Direct, table: &schema::TablePlan) -> Step<u64> {
    let (name, columns) = (quoted(&table.name), &table.columns);
    let places: Vec<String> = (1..=table.width).map(|place| format!("${place}")).collect();
    let insert =
        format!("INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({})", places.join(", "));
    let copied = control.copy_out(&format!("COPY (SELECT {columns} FROM public.{name}) TO STDOUT")).await?;
    let (mut copied, mut rest) = (pin!(copied), Vec::new());
    let (mut runs, mut bytes, mut count): (Vec<Run>, usize, u64) = (Vec::new(), 0, 0);
    while let Some(data) = copied.next().await {
        rest.extend_from_slice(&data?);
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        for line in rest[..end].split_inclusive(|byte| *byte == b'\n') {
            bytes += line.len();
            runs.push(statement(&insert, values(&line[..line.len() - 1])));
            if bytes > LOAD_BYTES || runs.len() >= LOAD_ROWS {
                count += runs.len() as u64;
                bytes = 0;
                master.write(std::mem::take(&mut runs)).await?;
            }
        }
        rest.drain(..end);
    }
    count += runs.len() as u64;
    if !runs.is_empty() {
        master.write(runs).await?;
    }
    Ok(count)
}

/// The values of a line of COPY.
fn values(line: &[u8]) -> Vec<Option<Vec<u8>>> {
    line.split(|byte| *byte == b'\t').map(|value| (value != b"\\N").then(|| unescaped(value))).collect()
}

fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut bytes = value.iter();
    let mut text = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'b') => 8,
                Some(b'f') => 12,
                Some(b'v') => 11,
                Some(other) => *other,
                None => b'\\',
            },
            byte => *byte,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_copy_give_their_values() {
        let found = values(b"a\\tb\t\\N\t\\\\N\t\t\\n");
        let expected: Vec<Option<&[u8]>> = vec![Some(b"a\tb"), None, Some(b"\\N"), Some(b""), Some(b"\n")];
        assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    }
}
