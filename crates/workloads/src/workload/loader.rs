//! Fills tables by COPY and says how far it has come.

use bytes::Bytes;
use load_clients::progress::Progress;
use load_clients::session::{Session, Trouble};
use load_clients::stop::Stop;
use std::fmt::{Display, Write};
use std::time::Instant;

/// Bytes that are sent at a time.
const CHUNK_BYTES: usize = 128 << 10;

/// A connection that loads.
pub(crate) struct Loader<'a> {
    name: &'static str,
    session: &'a Session,
    progress: &'a mut Progress,
    stop: &'a Stop,
    since: Instant,
    rows: u64,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        name: &'static str,
        session: &'a Session,
        progress: &'a mut Progress,
        stop: &'a Stop,
    ) -> Loader<'a> {
        Loader { name, session, progress, stop, since: Instant::now(), rows: 0 }
    }

    /// Copies into a table (with its columns, if not all) the lines that `next` writes, until it says that there are no
    /// more.
    pub(crate) async fn copy<I: Iterator>(
        &mut self,
        into: &str,
        lines: I,
        mut write: impl FnMut(I::Item, &mut TextRow),
    ) -> Result<(), Trouble> {
        let mut lines = lines.fuse();
        let (name, since, stop, before) = (self.name, self.since, self.stop, self.rows);
        let (rows, progress) = (&mut self.rows, &mut *self.progress);
        let table = into.split_once(' ').map_or(into, |(table, _)| table);
        let copied = self
            .session
            .copy(into, || {
                let mut text = TextRow(String::with_capacity(CHUNK_BYTES + 4096));
                while text.0.len() < CHUNK_BYTES && !stop.was_asked() {
                    let Some(line) = lines.next() else { break };
                    write(line, &mut text);
                    text.end();
                    *rows += 1;
                }
                progress.say(|| format!("{name}: {table}, {rows} rows in {} s", since.elapsed().as_secs()));
                (!text.0.is_empty()).then(|| Bytes::from(text.0))
            })
            .await?;
        if stop.was_asked() {
            return Err(Trouble::Unexpected("interrupted while loading".to_owned()));
        }
        if copied != self.rows - before {
            let problem = format!("{copied} rows of {} arrived in {table}", self.rows - before);
            return Err(Trouble::Unexpected(problem));
        }
        Ok(())
    }

    /// Runs a statement on the full tables.
    pub(crate) async fn finish(&mut self, statement: &str) -> Result<(), Trouble> {
        let seconds = self.since.elapsed().as_secs();
        self.progress.say(|| format!("{}: {statement}, after {seconds} s", self.name));
        self.session.execute(statement).await
    }
}

/// Lines in COPY's text format.
pub(crate) struct TextRow(String);

impl TextRow {
    /// Adds a column. Texts hold no tab, line end or backslash.
    pub(crate) fn put(&mut self, value: impl Display) -> &mut TextRow {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{value}\t");
        self
    }

    /// Adds a NULL.
    pub(crate) fn null(&mut self) -> &mut TextRow {
        self.0.push_str("\\N\t");
        self
    }

    /// Adds a column or a NULL.
    pub(crate) fn put_or_null(&mut self, value: Option<impl Display>) -> &mut TextRow {
        match value {
            Some(value) => self.put(value),
            None => self.null(),
        }
    }

    fn end(&mut self) {
        self.0.pop();
        self.0.push('\n');
    }
}
