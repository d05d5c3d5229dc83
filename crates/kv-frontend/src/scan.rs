//! Reads of many keys: RANGE, KEYS, SCAN, DBSIZE. All of them read one snapshot, portion by portion.

use crate::glob::Glob;
use crate::integer::integer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::transaction::{Fault, Keys};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use stores::{KeyRange, successor};

/// Keys that are read at once.
const PORTION: usize = 256;
/// Maximum bytes of an answer.
const MAX_ANSWER: usize = 64 << 20;
/// Maximum COUNT of SCAN.
const MAX_COUNT: i64 = 10_000;
/// Cursors that the server remembers. A new one above it replaces the oldest.
const MAX_CURSORS: usize = 10_000;

/// Positions of SCAN, by cursor. All connections share them, as clients send the calls of one iteration by several connections.
#[derive(Default)]
pub(crate) struct Cursors {
    rest: RefCell<(u64, BTreeMap<u64, Bytes>)>,
}

impl Cursors {
    /// A cursor for the rest from this key on.
    fn keep(&self, from: Bytes) -> u64 {
        let (last, rest) = &mut *self.rest.borrow_mut();
        *last += 1;
        rest.insert(*last, from);
        while rest.len() > MAX_CURSORS {
            rest.pop_first();
        }
        *last
    }

    /// The first key of the rest.
    fn find(&self, cursor: u64) -> Option<Bytes> {
        if cursor == 0 {
            return Some(Bytes::new());
        }
        self.rest.borrow().1.get(&cursor).cloned()
    }
}

pub(crate) fn pattern_too_large() -> Problem {
    Problem::new("the pattern is too large")
}

fn answer_too_large() -> Problem {
    let most = MAX_ANSWER >> 20;
    Problem::new(format!(
        "the answer has more than {most} MB: use RANGE start end LIMIT n, and go on after the last key"
    ))
}

/// Visits the keys and values of a range in order until `visit` returns false.
async fn visit(
    keys: &mut Keys,
    mut range: KeyRange,
    most: usize,
    mut visit: impl FnMut(Bytes, Bytes) -> Result<bool, Problem>,
) -> Result<(), Fault> {
    loop {
        let wanted = most.min(PORTION);
        let portion = keys.scan(&range, wanted).await?;
        let is_last = portion.len() < wanted;
        if let Some((last, _)) = portion.last() {
            range.from = successor(last);
        }
        for (key, value) in portion {
            if !visit(key, value)? {
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// RANGE start end [LIMIT n]: keys from START on, before END, each followed by its value. An empty END has no bound.
pub(crate) async fn range(keys: &mut Keys, arguments: &[Bytes]) -> Result<Reply, Fault> {
    let to = Some(arguments[1].clone()).filter(|end| !end.is_empty());
    let range = KeyRange { from: arguments[0].clone(), to };
    let most = match &arguments[2..] {
        [] => usize::MAX,
        [word, count] if word.eq_ignore_ascii_case(b"LIMIT") => {
            usize::try_from(integer(count)?).map_err(|_| Problem::new("LIMIT must not be negative"))?
        }
        _ => return Err(Problem::syntax().into()),
    };
    let (mut found, mut bytes) = (Vec::new(), 0);
    if most > 0 && !range.is_empty() {
        visit(keys, range, most, |key, value| {
            bytes += key.len() + value.len();
            if bytes > MAX_ANSWER {
                return Err(answer_too_large());
            }
            found.extend([Reply::Bulk(key), Reply::Bulk(value)]);
            Ok(found.len() / 2 < most)
        })
        .await?;
    }
    Ok(Reply::Array(found))
}

/// DBSIZE: the number of keys.
pub(crate) async fn count(keys: &mut Keys) -> Result<Reply, Fault> {
    let mut count = 0;
    visit(keys, KeyRange::all(), usize::MAX, |_, _| {
        count += 1;
        Ok(true)
    })
    .await?;
    Ok(Reply::Integer(count))
}

/// KEYS pattern.
pub(crate) async fn keys(keys: &mut Keys, pattern: &Glob) -> Result<Reply, Fault> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    visit(keys, KeyRange::all(), usize::MAX, |key, _| {
        if pattern.matches(&key) {
            bytes += key.len();
            found.push(Reply::Bulk(key));
        }
        if bytes > MAX_ANSWER { Err(answer_too_large()) } else { Ok(true) }
    })
    .await?;
    Ok(Reply::Array(found))
}

/// Options of SCAN.
struct ScanOptions {
    pattern: Option<Glob>,
    count: usize,
    /// False: keys of another type are wanted, and there are none.
    strings: bool,
}

impl ScanOptions {
    fn read(words: &[Bytes]) -> Result<ScanOptions, Problem> {
        let mut options = ScanOptions { pattern: None, count: 10, strings: true };
        for pair in words.chunks(2) {
            let [word, value] = pair else { return Err(Problem::syntax()) };
            match word.to_ascii_uppercase().as_slice() {
                b"MATCH" => options.pattern = Some(Glob::new(value).ok_or_else(pattern_too_large)?),
                b"COUNT" => match integer(value)? {
                    ..=0 => return Err(Problem::syntax()),
                    count => options.count = usize::try_from(count.min(MAX_COUNT)).unwrap_or(1),
                },
                b"TYPE" => options.strings = value.eq_ignore_ascii_case(b"string"),
                _ => return Err(Problem::syntax()),
            }
        }
        Ok(options)
    }
}

/// SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]. Each call reads a snapshot of its own, outside of a transaction.
pub(crate) async fn scan(keys: &mut Keys, arguments: &[Bytes], cursors: &Cursors) -> Result<Reply, Fault> {
    let cursor = std::str::from_utf8(&arguments[0]).ok().and_then(|cursor| cursor.parse().ok());
    let cursor: u64 = cursor.ok_or_else(|| Problem::new("invalid cursor"))?;
    let from = cursors.find(cursor).ok_or_else(|| {
        Problem::new("invalid cursor: the server has forgotten it; begin again with SCAN 0")
    })?;
    let options = ScanOptions::read(&arguments[1..])?;
    let (mut found, mut seen, mut last) = (Vec::new(), 0, Bytes::new());
    visit(keys, KeyRange { from, to: None }, options.count, |key, _| {
        seen += 1;
        if options.strings && options.pattern.as_ref().is_none_or(|pattern| pattern.matches(&key)) {
            found.push(Reply::Bulk(key.clone()));
        }
        last = key;
        Ok(seen < options.count)
    })
    .await?;
    let next = if seen < options.count { 0 } else { cursors.keep(successor(&last)) };
    Ok(Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(found)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_cursor_is_forgotten_first() {
        let cursors = Cursors::default();
        let first = cursors.keep(Bytes::from("a"));
        assert_eq!(cursors.find(first), Some(Bytes::from("a")));
        for _ in 0..MAX_CURSORS {
            cursors.keep(Bytes::from("b"));
        }
        assert_eq!(cursors.find(first), None);
        assert_eq!(cursors.find(0), Some(Bytes::new()));
    }
}
