//! Commands that read or write keys, run inside of one transaction.

use crate::command::Data;
use crate::glob::Glob;
use crate::integer::integer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::scan::{self, Cursors};
use crate::transaction::{Fault, Keys};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeSet;

/// Maximum bytes of a value that APPEND makes.
pub(crate) const MAX_VALUE: usize = 16 << 20;

/// Runs one command. `words`: the command and its arguments, as many as its arity allows.
///
/// # Errors
/// A [`Fault`]: the command's own, which leaves the transaction as it was, or the transaction's.
pub(crate) async fn run(
    keys: &mut Keys,
    data: Data,
    words: &[Bytes],
    cursors: &Cursors,
) -> Result<Reply, Fault> {
    let arguments = &words[1..];
    match data {
        Data::Get => Ok(Reply::value(keys.get(&arguments[0]).await?)),
        Data::MGet => {
            let mut values = Vec::with_capacity(arguments.len());
            for key in arguments {
                values.push(Reply::value(keys.get(key).await?));
            }
            Ok(Reply::Array(values))
        }
        Data::Exists => {
            let mut count = 0;
            for key in arguments {
                count += i64::from(keys.get(key).await?.is_some());
            }
            Ok(Reply::Integer(count))
        }
        Data::StrLen => {
            let value = keys.get(&arguments[0]).await?;
            Ok(Reply::count(value.map_or(0, |value| value.len())))
        }
        Data::Type => {
            let is_there = keys.get(&arguments[0]).await?.is_some();
            Ok(Reply::Status(if is_there { "string" } else { "none" }))
        }
        Data::Ttl => {
            let is_there = keys.get(&arguments[0]).await?.is_some();
            Ok(Reply::Integer(if is_there { -1 } else { -2 }))
        }
        Data::Set => set(keys, arguments).await,
        Data::SetNx => set_all(keys, arguments, true).await,
        Data::MSetNx | Data::MSet => {
            if !arguments.len().is_multiple_of(2) {
                let name = if data == Data::MSet { "mset" } else { "msetnx" };
                return Err(Problem::arity(name).into());
            }
            set_all(keys, arguments, data == Data::MSetNx).await
        }
        Data::GetSet => {
            let before = keys.get(&arguments[0]).await?;
            keys.put(&arguments[0], &arguments[1])?;
            Ok(Reply::value(before))
        }
        Data::GetDel => {
            let before = keys.get(&arguments[0]).await?;
            if before.is_some() {
                keys.delete(&arguments[0])?;
            }
            Ok(Reply::value(before))
        }
        Data::Del => delete(keys, arguments).await,
        Data::Append => append(keys, &arguments[0], &arguments[1]).await,
        Data::Incr => add(keys, &arguments[0], 1).await,
        Data::Decr => add(keys, &arguments[0], -1).await,
        Data::IncrBy => add(keys, &arguments[0], integer(&arguments[1])?).await,
        Data::DecrBy => {
            let by = integer(&arguments[1])?.checked_neg();
            add(keys, &arguments[0], by.ok_or_else(|| Problem::new("decrement would overflow"))?).await
        }
        Data::Range => scan::range(keys, arguments).await,
        Data::Scan => scan::scan(keys, arguments, cursors).await,
        Data::DbSize => scan::count(keys).await,
        Data::Keys => {
            let pattern = Glob::new(&arguments[0]).ok_or_else(scan::pattern_too_large)?;
            scan::keys(keys, &pattern).await
        }
    }
}

/// Options of SET.
#[derive(Default)]
struct SetOptions {
    /// Only if the key does not exist (false), or exists (true).
    exists: Option<bool>,
    returns_former: bool,
}

impl SetOptions {
    fn read(words: &[Bytes]) -> Result<SetOptions, Problem> {
        let mut options = SetOptions::default();
        for word in words {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" if options.exists.is_none() => options.exists = Some(false),
                b"XX" if options.exists.is_none() => options.exists = Some(true),
                b"GET" => options.returns_former = true,
                // Nothing expires.
                b"KEEPTTL" => {}
                b"EX" | b"PX" | b"EXAT" | b"PXAT" => {
                    return Err(Problem::new(
                        "SET with an expiry is not supported: no key expires here; leave the option out, and delete the key \
                         when its time is over",
                    ));
                }
                _ => return Err(Problem::syntax()),
            }
        }
        Ok(options)
    }
}

async fn set(keys: &mut Keys, arguments: &[Bytes]) -> Result<Reply, Fault> {
    let options = SetOptions::read(&arguments[2..])?;
    let asks = options.exists.is_some() || options.returns_former;
    let before = if asks { keys.get(&arguments[0]).await? } else { None };
    let sets = options.exists.is_none_or(|exists| exists == before.is_some());
    if sets {
        keys.put(&arguments[0], &arguments[1])?;
    }
    Ok(match (options.returns_former, sets) {
        (true, _) => Reply::value(before),
        (false, true) => Reply::OK,
        (false, false) => Reply::Null,
    })
}

/// Sets pairs of key and value; with `new_only` none of them, if a key exists.
async fn set_all(keys: &mut Keys, pairs: &[Bytes], new_only: bool) -> Result<Reply, Fault> {
    if new_only {
        for pair in pairs.chunks_exact(2) {
            if keys.get(&pair[0]).await?.is_some() {
                return Ok(Reply::Integer(0));
            }
        }
    }
    keys.put_all(pairs)?;
    Ok(if new_only { Reply::Integer(1) } else { Reply::OK })
}

async fn delete(keys: &mut Keys, names: &[Bytes]) -> Result<Reply, Fault> {
    // A read may fail: nothing is deleted before the last one.
    let mut there = BTreeSet::new();
    for name in names {
        if keys.get(name).await?.is_some() {
            there.insert(name);
        }
    }
    for name in &there {
        keys.delete(name)?;
    }
    Ok(Reply::count(there.len()))
}

async fn append(keys: &mut Keys, key: &Bytes, more: &Bytes) -> Result<Reply, Fault> {
    let before = keys.get(key).await?.unwrap_or_default();
    let length = before.len() + more.len();
    if length > MAX_VALUE {
        let why = format!("string exceeds maximum allowed size of {} MB", MAX_VALUE >> 20);
        return Err(Problem::new(why).into());
    }
    let mut value = BytesMut::with_capacity(length);
    value.extend_from_slice(&before);
    value.extend_from_slice(more);
    keys.put(key, &value.freeze())?;
    Ok(Reply::count(length))
}

async fn add(keys: &mut Keys, key: &Bytes, by: i64) -> Result<Reply, Fault> {
    let before = match keys.get(key).await? {
        Some(value) => integer(&value)?,
        None => 0,
    };
    let sum = before.checked_add(by).ok_or_else(|| Problem::new("increment or decrement would overflow"))?;
    keys.put(key, &Bytes::from(sum.to_string()))?;
    Ok(Reply::Integer(sum))
}
