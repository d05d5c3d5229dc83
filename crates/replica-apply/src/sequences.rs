//! Positions of a database's sequences. PostgreSQL 15's logical decoding does not give them: they are asked
//! for.
//!
//! PostgreSQL reports the last values of many sequences at once. The first value of a sequence that has given
//! none is known only to the sequence itself. At most one statement's worth of those is asked at a time, the
//! ones first that were asked longest ago.

use postgres::Error;
use postgres::address::Control;
use postgres::sql::quoted;
use std::collections::{BTreeMap, BTreeSet};

/// Number of sequences read or set by one statement. The statement locks each until it ends, and a server's
/// lock table is bounded.
pub(crate) const AT_ONCE: usize = 256;

/// Prefix of such a statement: it waits only briefly for locks, and ends before it counts as a deadlock. The
/// statement names other sequences each time, so pg_stat_statements would evict other entries for its sake.
/// (If that module is not loaded, any role may set a parameter of its name.)
pub(crate) const PATIENCE: &str =
    "SET LOCAL lock_timeout = '100ms'; SET LOCAL pg_stat_statements.track = 'none'";

/// Position of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its schema.
    pub schema: String,
    /// Its name there.
    pub name: String,
    /// Last value given. If no value was given yet, the first value to be given.
    pub last: i64,
    /// True if it has given that value.
    pub is_called: bool,
}

/// Positions of a database's sequences, by their numbers at the primary.
pub type Sequences = BTreeMap<u32, Sequence>;

/// Sequences whose state differs from the earlier one.
pub fn moved<'a>(before: Option<&Sequences>, now: &'a Sequences) -> Vec<&'a Sequence> {
    let was = |id: u32| before.and_then(|before| before.get(&id));
    now.iter().filter(|(id, sequence)| was(**id) != Some(*sequence)).map(|(_, sequence)| sequence).collect()
}

/// Looks at the sequences of one database again and again.
#[derive(Debug, Default)]
pub struct Look {
    round: u64,
    /// Sequences that had given no value when they were asked.
    first: BTreeMap<u32, First>,
}

#[derive(Clone, Copy, Debug)]
struct First {
    last: i64,
    is_called: bool,
    /// In this round.
    asked: u64,
}

/// Schema and name.
type Name = (String, String);

type Row = Vec<Option<String>>;

/// The permanent sequences that are the database's own. A sequence that was touched by a transaction that
/// holds a table lock of its own, as DDL does, or waits for one, is read when that is over: DDL draws
/// numbers, too, and a replica that has not run it yet is going to draw the same. Also, a query for a
/// sequence that DDL waits for would wait after that, and be refused.
const NAMES: &str = "\
    WITH held AS MATERIALIZED (SELECT relation, mode, virtualtransaction FROM pg_locks \
      WHERE locktype = 'relation' \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) \
    SELECT s.seqrelid, n.nspname, c.relname FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid \
      JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('consort', 'information_schema') \
      AND s.seqrelid NOT IN (SELECT relation FROM held WHERE virtualtransaction IN (SELECT virtualtransaction FROM held \
        WHERE mode IN ('ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')))";

impl Look {
    /// Current positions. Sequences that cannot be asked now are missing.
    ///
    /// # Errors
    /// As every query; but a refusal for one of them does not keep it from the others.
    pub async fn read(&mut self, control: &Control) -> Result<Sequences, Error> {
        self.round += 1;
        let names: BTreeMap<u32, Name> =
            control.rows(NAMES).await?.into_iter().filter_map(identified).collect();
        let ids: Vec<u32> = names.keys().copied().collect();
        let (mut standing, mut not_called) = (Sequences::new(), BTreeSet::new());
        for row in ask(control, &ids, last_values).await? {
            let Some(id) = number(&row, 0) else { continue };
            match number(&row, 1) {
                Some(last) => standing.extend(stands(&names, id, last, true)),
                None => {
                    not_called.insert(id);
                }
            }
        }
        self.first.retain(|id, _| not_called.contains(id));
        self.ask_first(control, &names, &not_called).await?;
        for (id, first) in &self.first {
            standing.extend(stands(&names, *id, first.last, first.is_called));
        }
        Ok(standing)
    }

    /// Asks those of these whose turn it is what they give first.
    async fn ask_first(
        &mut self,
        control: &Control,
        names: &BTreeMap<u32, Name>,
        not_called: &BTreeSet<u32>,
    ) -> Result<(), Error> {
        let mut due: Vec<u32> = not_called.iter().copied().collect();
        due.sort_by_key(|id| self.first.get(id).map_or(0, |first| first.asked));
        due.truncate(AT_ONCE);
        for row in ask(control, &due, |ids| first_values(ids, names)).await? {
            if let (Some(id), Some(last)) = (number(&row, 0), number(&row, 1)) {
                let is_called = row.get(2).is_some_and(|called| called.as_deref() == Some("t"));
                self.first.insert(id, First { last, is_called, asked: self.round });
            }
        }
        Ok(())
    }
}

/// Asks for these, by statements of so many each. One that cannot be asked does not keep the others from answering.
async fn ask(control: &Control, ids: &[u32], sql: impl Fn(&[u32]) -> String) -> Result<Vec<Row>, Error> {
    let mut parts: Vec<&[u32]> = ids.chunks(AT_ONCE).collect();
    let mut all = Vec::new();
    while let Some(part) = parts.pop() {
        match control.rows(&format!("{PATIENCE}; {}", sql(part))).await {
            Ok(answer) => all.extend(answer),
            Err(Error::Refused { .. }) if part.len() > 1 => {
                let (one, other) = part.split_at(part.len() / 2);
                parts.extend([one, other]);
            }
            Err(error @ Error::Refused { .. }) => {
                tracing::debug!(sequence = ?part, %error, "cannot read the position of the sequence");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Query for the last value of each sequence; NULL if it has given none.
fn last_values(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    format!("SELECT id, pg_sequence_last_value(id) FROM unnest('{{{}}}'::oid[]) AS id", ids.join(","))
}

/// Query for the own first value of each sequence.
fn first_values(ids: &[u32], names: &BTreeMap<u32, Name>) -> String {
    let named = ids.iter().filter_map(|id| names.get(id).map(|name| (id, name)));
    let each = named.map(|(id, (schema, name))| {
        format!("SELECT {id}, last_value, is_called FROM {}.{}", quoted(schema), quoted(name))
    });
    each.collect::<Vec<_>>().join(" UNION ALL ")
}

fn stands(names: &BTreeMap<u32, Name>, id: u32, last: i64, is_called: bool) -> Option<(u32, Sequence)> {
    let (schema, name) = names.get(&id)?.clone();
    Some((id, Sequence { schema, name, last, is_called }))
}

fn identified(row: Row) -> Option<(u32, Name)> {
    let [id, schema, name] = <[Option<String>; 3]>::try_from(row).ok()?;
    Some((id?.parse().ok()?, (schema?, name?)))
}

fn number<T: std::str::FromStr>(row: &[Option<String>], place: usize) -> Option<T> {
    row.get(place)?.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(name: &str, last: i64, is_called: bool) -> Sequence {
        Sequence { schema: "public".to_owned(), name: name.to_owned(), last, is_called }
    }

    #[test]
    fn only_what_has_moved_is_told() {
        let before = Sequences::from([
            (1, sequence("still", 5, true)),
            (2, sequence("drawn", 5, true)),
            (3, sequence("back", 1, true)),
            (4, sequence("name", 1, true)),
            (5, sequence("dropped", 1, true)),
        ]);
        let now = Sequences::from([
            (1, sequence("still", 5, true)),
            (2, sequence("drawn", 6, true)),
            (3, sequence("back", 1, false)),
            (4, sequence("other name", 1, true)),
            (6, sequence("new", 1, false)),
        ]);
        let names = |before| moved(before, &now).iter().map(|sequence| &*sequence.name).collect::<Vec<_>>();
        assert_eq!(names(Some(&before)), ["drawn", "back", "other name", "new"]);
        assert_eq!(names(Some(&now)), Vec::<&str>::new());
        assert_eq!(names(None).len(), now.len());
    }

    #[test]
    fn names_are_quoted() {
        let name = |name: &str| ("own".to_owned(), name.to_owned());
        let names = BTreeMap::from([(7, name("a \"b")), (8, name("c"))]);
        assert_eq!(
            first_values(&[7, 8], &names),
            "SELECT 7, last_value, is_called FROM \"own\".\"a \"\"b\" UNION ALL \
             SELECT 8, last_value, is_called FROM \"own\".\"c\""
        );
        assert_eq!(
            last_values(&[7, 8]),
            "SELECT id, pg_sequence_last_value(id) FROM unnest('{7,8}'::oid[]) AS id"
        );
    }
}
