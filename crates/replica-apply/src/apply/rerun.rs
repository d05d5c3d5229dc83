//! Statements that stand for the rows that they wrote: they are executed at the replica too, in the place of those rows.
//!
//! ```text
//! rows | become who ran it, under his settings | the statement | become the feeder again | rows | ... | COMMIT
//! ```
//!
//! Whether a statement may stand for its rows is decided elsewhere: it must write the same when it is executed on the
//! state that its commit found. Here it is only looked at how many rows it touches. If that is not what it touched at the
//! primary, or if it fails, the batch is rolled back and made of rows.
//!
//! Nothing fires, as with rows, unless all triggers that the statement fires are declared. Then they fire here too, foreign keys
//! are checked with them, and what is counted is every row that the whole transaction has inserted, updated and deleted, table by
//! table: the statement is the only one of its transaction. Privileges and row-level policies are those of its author.

use super::build::is_own;
use super::script::{About, Check, Script, unbound};
use super::{Batch, Error, Part};
use bytes::BufMut;
use history::RelationId;
use postgres::decoder::Changes;
use postgres::decoder::message::{self, Message, Rows};
use postgres::sql::{literal, quoted};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The planner may choose again: the feeder keeps it from everything but indexes.
const PLANNER: [&str; 4] = ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"];

/// Role that runs a statement, and its settings; as SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Under(String);

impl Under {
    /// These settings, then this session user, then this role if one was set.
    pub fn new<'a>(
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
        author: &'a str,
        role: Option<&'a str>,
    ) -> Under {
        let planner = PLANNER.iter().map(|name| (*name, "on"));
        let author = [("session_authorization", author)].into_iter();
        let all = planner.chain(settings).chain(author).chain(role.map(|role| ("role", role)));
        let each =
            all.map(|(name, value)| format!("pg_catalog.set_config('{name}', {}, true)", literal(value)));
        Under(format!("SELECT {}", each.collect::<Vec<_>>().join(", ")))
    }
}

/// A statement that is executed in the place of the rows that it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerun {
    /// The statement.
    pub text: Arc<str>,
    /// The types of parameters that its author declared.
    pub types: Arc<[u32]>,
    /// The formats of parameters, as they stand in a Bind message.
    pub formats: Vec<i16>,
    /// The parameters.
    pub parameters: Vec<Option<Vec<u8>>>,
    /// Role and settings under which it ran.
    pub under: Arc<Under>,
    /// The table that it writes.
    pub writes: RelationId,
    /// All tables that it reads or writes.
    pub touches: Arc<[RelationId]>,
    /// Tables that its triggers may write, if it fires triggers. `None`: nothing is to fire.
    pub fires: Option<Arc<[RelationId]>>,
    /// Number of rows that it wrote at the primary.
    pub rows: u64,
}

impl Rerun {
    /// Memory for keeping it, in bytes.
    pub fn bytes(&self) -> u64 {
        let parameters = self.parameters.iter().map(|value| 32 + value.as_ref().map_or(0, Vec::len));
        (size_of::<Rerun>() + self.text.len() + parameters.sum::<usize>()) as u64
    }
}

impl Part {
    /// True if these statements, one after the other, have written all of its rows and nothing else, as far
    /// as can be seen.
    pub fn is_written_by(&self, reruns: &[Rerun]) -> bool {
        let fired = reruns.iter().filter_map(|rerun| rerun.fires.as_deref()).flatten();
        let tables: BTreeSet<u32> =
            reruns.iter().map(|rerun| &rerun.writes).chain(fired).map(|table| table.get()).collect();
        let fires = reruns.iter().any(|rerun| rerun.fires.is_some());
        let rows = reruns.iter().map(|rerun| rerun.rows).sum::<u64>();
        let count = self.changes.count();
        // The replica counts the triggers' writes, table by table.
        let as_many = if fires { reruns.len() == 1 && count >= rows } else { count == rows };
        as_many && self.changes.relations().iter().all(|relation| tables.contains(&relation.id))
    }

    /// These statements stand for its rows, which are kept.
    pub fn set_reruns(&mut self, reruns: Arc<[Rerun]>) {
        self.reruns = reruns;
    }

    /// Its rows stand for themselves.
    #[must_use]
    pub fn into_rows(mut self) -> Part {
        self.reruns = Arc::default();
        self
    }

    /// The statements that stand for its rows; none if they stand for themselves.
    pub fn reruns(&self) -> &[Rerun] {
        &self.reruns
    }
}

impl Batch {
    /// Number of statements that stand for rows.
    pub(super) fn reruns(&self) -> u64 {
        self.parts.iter().map(|part| part.reruns.len() as u64).sum()
    }

    /// All rows stand for themselves.
    pub(super) fn into_rows(mut self) -> Batch {
        self.parts.iter_mut().for_each(|part| part.reruns = Arc::default());
        self
    }
}

/// Keeps what the connection has counted of the tables' rows so far.
const COUNT: &str = "SELECT set_config('consort.counted', coalesce((SELECT jsonb_object_agg(c.oid, jsonb_build_array(\
     pg_stat_get_xact_tuples_inserted(c.oid), pg_stat_get_xact_tuples_updated(c.oid), \
     pg_stat_get_xact_tuples_deleted(c.oid)))::text FROM pg_class c WHERE c.relkind = 'r' AND c.oid >= 16384 \
     AND pg_stat_get_xact_tuples_inserted(c.oid) + pg_stat_get_xact_tuples_updated(c.oid) \
     + pg_stat_get_xact_tuples_deleted(c.oid) > 0), '{}'), true)";

/// Numbers of rows of each table that a transaction has inserted, updated and deleted, by the tables' names.
#[derive(Debug, Default)]
pub(super) struct Wrote(BTreeMap<String, [u64; 3]>);

impl Wrote {
    /// Row counts of a commit. `None`: it wrote more than rows, which cannot be counted.
    pub(super) fn of(changes: &Changes) -> Result<Option<Wrote>, Error> {
        let (mut reader, mut rows, mut wrote) = (changes.read(), Rows::default(), Wrote::default());
        while let Some(change) = reader.next().map_err(Error::Kept)? {
            let place = match message::read(&change.message, &mut rows) {
                Some(Message::Insert { .. }) => 0,
                Some(Message::Update { .. }) => 1,
                Some(Message::Delete { .. }) => 2,
                _ => return Ok(None),
            };
            let Some(relation) = change.relation().filter(|relation| !is_own(relation)) else {
                return Ok(None);
            };
            let name = format!("{}.{}", quoted(&relation.schema), quoted(&relation.name));
            wrote.0.entry(name).or_default()[place] += 1;
        }
        Ok(Some(wrote))
    }

    /// A query with one row if all tables have been written as often, and no row if not.
    fn compared(&self) -> String {
        let table = |(name, [inserted, updated, deleted]): (&String, &[u64; 3])| {
            format!("({}::regclass::oid, {inserted}, {updated}, {deleted})", literal(name))
        };
        let tables: Vec<String> = self.0.iter().map(table).collect();
        format!(
            "WITH before AS MATERIALIZED (SELECT current_setting('consort.counted')::jsonb AS counted), \
             primary_wrote (id, inserted, updated, deleted) AS (VALUES {}) \
             SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_class c CROSS JOIN before \
             LEFT JOIN primary_wrote w ON w.id = c.oid \
             CROSS JOIN LATERAL (SELECT before.counted -> c.oid::text AS counted) b \
             WHERE c.relkind = 'r' AND c.oid >= 16384 AND ( \
             pg_stat_get_xact_tuples_inserted(c.oid) - coalesce((b.counted -> 0)::bigint, 0) <> coalesce(w.inserted, 0) \
             OR pg_stat_get_xact_tuples_updated(c.oid) - coalesce((b.counted -> 1)::bigint, 0) <> coalesce(w.updated, 0) \
             OR pg_stat_get_xact_tuples_deleted(c.oid) - coalesce((b.counted -> 2)::bigint, 0) <> coalesce(w.deleted, 0)))",
            tables.join(", ")
        )
    }
}

impl Script {
    /// Runs a statement as its author. `wrote`: its triggers fire, and together they must have written this.
    ///
    /// # Errors
    /// What cannot be written as a message.
    pub(super) fn rerun(&mut self, rerun: &Rerun, wrote: Option<&Wrote>) -> Result<(), Error> {
        if wrote.is_some() {
            self.run(COUNT, About::Rerun)?;
            self.run("SET LOCAL session_replication_role = origin", About::Rerun)?;
        }
        self.run(&rerun.under.0, About::Rerun)?;
        frontend::parse("", &rerun.text, rerun.types.iter().copied(), &mut self.bytes)?;
        let bound = frontend::bind(
            "",
            "",
            rerun.formats.iter().copied(),
            &rerun.parameters,
            |value, to| match value {
                Some(value) => {
                    to.put_slice(value);
                    Ok(IsNull::No)
                }
                None => Ok(IsNull::Yes),
            },
            [],
            &mut self.bytes,
        );
        bound.map_err(unbound)?;
        frontend::execute("", 0, &mut self.bytes)?;
        self.checks.push_back(Check { rows: Some(rerun.rows), about: About::Rerun });
        if let Some(wrote) = wrote {
            // Deferred work at the end of its transaction is its author's too. Operators have their names in
            // `pg_catalog`.
            self.run("SET CONSTRAINTS ALL IMMEDIATE", About::Rerun)?;
            self.run("RESET SESSION AUTHORIZATION", About::Rerun)?;
            self.run("SET LOCAL search_path = pg_catalog", About::Rerun)?;
            self.run(&wrote.compared(), About::Rerun)?;
            self.checks.back_mut().expect("the check was queued").rows = Some(1);
        } else {
            self.run("RESET SESSION AUTHORIZATION", About::Rerun)?;
        }
        self.run("RESET ALL", About::Rerun)
    }
}
