//! A new back end gets the whole database, at one version, in one transaction.

use crate::back_end::{BackEnd, State};
use crate::position::{INSTALL, bigint};
use crate::statements::quoted;
use crate::trouble::{Step, Trouble};
use bytes::Bytes;
use futures_util::SinkExt;
use memory_tier::front::direct::Direct;
use postgres::address::Control;
use std::io;
use std::pin::pin;

/// Relations in schema public.
const RELATIONS: &str = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')";
/// Tables of schema public, each with the list of its columns.
pub(crate) const TABLES: &str = "SELECT relname::text, (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) \
     FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) \
     FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname";

/// Copies everything. Returns the version.
pub(crate) async fn copy(back_end: &BackEnd, control: &Control, own: &str) -> Step<u64> {
    let relations: i64 = control.query_one(RELATIONS, &[]).await?.get(0);
    if relations > 0 {
        return Err(Trouble::Refused(format!(
            "the database has {relations} relations in schema public, and is no back end of this tier yet: take an empty database, \
             or bring its rows into the tier first (consort import-tier)"
        )));
    }
    let mut tier = Direct::open(&back_end.tier, false).await?;
    if back_end.tier.newest() == 0 {
        return Err(Trouble::Away("the tier has no version yet".to_owned()));
    }
    let version = tier.read().await?;
    back_end.becomes(State::Copies, "");
    back_end.needs_above(version);
    let (before_rows, after_rows) = tier.definitions().await?;
    control.batch_execute("BEGIN").await?;
    control.batch_execute(INSTALL).await?;
    for definition in before_rows {
        control.batch_execute(&definition).await?;
    }
    for row in control.query(TABLES, &[]).await? {
        let (table, columns): (String, Option<String>) = (row.get(0), row.get(1));
        copy_table(&mut tier, control, &table, &columns.unwrap_or_default()).await?;
    }
    for definition in after_rows {
        control.batch_execute(&definition).await?;
    }
    let note = "INSERT INTO consort.tier (name, version) VALUES ($1, $2)";
    control.execute(note, &[&own, &bigint(version)]).await?;
    control.batch_execute("COMMIT").await?;
    Ok(version)
}

async fn copy_table(tier: &mut Direct, control: &Control, table: &str, columns: &str) -> Step<()> {
    let table = quoted(table);
    let into = format!("COPY public.{table} ({columns}) FROM STDIN");
    let mut sink = pin!(control.copy_in::<_, Bytes>(&into).await?);
    let mut failed = None;
    let query = format!("SELECT {columns} FROM {table}");
    let read = tier.query(&query, async |rows| {
        let lines = Bytes::from(lines(rows)?);
        sink.send(lines).await.map_err(|error| {
            failed = Some(error);
            io::Error::other("the back end does not take rows")
        })
    });
    let read = read.await;
    if let Some(error) = failed {
        return Err(error.into());
    }
    read?;
    sink.finish().await?;
    Ok(())
}

/// DataRow messages with texts as COPY's lines.
pub(crate) fn lines(mut messages: &[u8]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::with_capacity(messages.len());
    while !messages.is_empty() {
        let (values, rest) = row(messages).ok_or(io::ErrorKind::InvalidData)?;
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                lines.push(b'\t');
            }
            match value {
                None => lines.extend_from_slice(b"\\N"),
                Some(value) => escape(value, &mut lines),
            }
        }
        lines.push(b'\n');
        messages = rest;
    }
    Ok(lines)
}

fn escape(value: &[u8], into: &mut Vec<u8>) {
    for byte in value {
        let letter = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            11 => b'v',
            12 => b'f',
            _ => {
                into.push(*byte);
                continue;
            }
        };
        into.extend_from_slice(&[b'\\', letter]);
    }
}

/// Values of a DataRow message.
pub(crate) type Values<'a> = Vec<Option<&'a [u8]>>;

/// The values of the first DataRow message, and the messages after it.
pub(crate) fn row(messages: &[u8]) -> Option<(Values<'_>, &[u8])> {
    let (length, rest) = messages.get(1..)?.split_first_chunk::<4>()?;
    let (body, after) =
        rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?.checked_sub(4)?)?;
    let (count, mut body) = body.split_first_chunk::<2>()?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, rest) = body.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*length);
        body = rest;
        if length < 0 {
            values.push(None);
            continue;
        }
        let (value, rest) = body.split_at_checked(usize::try_from(length).ok()?)?;
        values.push(Some(value));
        body = rest;
    }
    Some((values, after))
}
