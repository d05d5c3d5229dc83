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
//! Nothing fires, as with rows. Privileges and row-level policies are those of its author.

use super::script::{About, Check, Script, unbound};
use super::{Batch, Error, Part};
use crate::clone::literal;
use bytes::BufMut;
use history::RelationId;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::sync::Arc;

/// The planner may choose again: the feeder keeps it from everything but indexes.
const PLANNER: [&str; 4] = ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"];

/// Who runs a statement, and under which settings; as SQL.
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
    /// Who ran it.
    pub under: Arc<Under>,
    /// The table that it writes.
    pub writes: RelationId,
    /// All tables that it reads or writes.
    pub touches: Arc<[RelationId]>,
    /// How many rows it wrote at the primary.
    pub rows: u64,
}

impl Rerun {
    /// What keeping it costs.
    pub fn bytes(&self) -> u64 {
        let parameters = self.parameters.iter().map(|value| 32 + value.as_ref().map_or(0, Vec::len));
        (size_of::<Rerun>() + self.text.len() + parameters.sum::<usize>()) as u64
    }
}

impl Part {
    /// Whether these statements, one after the other, have written all of its rows and nothing else, as far as can be seen.
    pub fn is_written_by(&self, reruns: &[Rerun]) -> bool {
        let written = |id: u32| reruns.iter().any(|rerun| rerun.writes.get() == id);
        self.changes.count() == reruns.iter().map(|rerun| rerun.rows).sum::<u64>()
            && self.changes.relations().iter().all(|relation| written(relation.id))
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
    /// So many statements stand for rows.
    pub(super) fn reruns(&self) -> u64 {
        self.parts.iter().map(|part| part.reruns.len() as u64).sum()
    }

    /// All rows stand for themselves.
    pub(super) fn into_rows(mut self) -> Batch {
        self.parts.iter_mut().for_each(|part| part.reruns = Arc::default());
        self
    }
}

impl Script {
    /// Runs a statement as its author.
    pub(super) fn rerun(&mut self, rerun: &Rerun) -> Result<(), Error> {
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
        self.run("RESET SESSION AUTHORIZATION", About::Rerun)?;
        self.run("RESET ALL", About::Rerun)
    }
}
