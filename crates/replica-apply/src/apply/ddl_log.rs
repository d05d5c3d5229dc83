//! Reads the primary's log of the DDL commands of a transaction (`attach/commands.sql`), and finds the
//! statement of each.
//!
//! ```text
//! rows of the log   begins A   begins B   ended B   dropped   ended A        B ran inside A
//! steps             run A      run B      check B   -         check A        one per row, in its place
//! ```
//!
//! The text that the client sent may hold several statements, and a command may have run inside a function.
//! If the statement cannot be determined for certain, the step is [`Run::Doubt`].

use super::Error;
use super::build::is_command;
use postgres::decoder::message::{self, Message, Relation, Rows, Value};
use postgres::decoder::{Change, Changes};
use session_state::utility::{Told, standard_strings, tagged};
use statement_analysis::shape::Strings;
use std::collections::HashMap;

/// Commands that are nothing at a replica: publications and subscriptions are not there, and rows of materialized views
/// stay at the primary.
const NOTHING: &[&str] = &[
    "CREATE PUBLICATION",
    "ALTER PUBLICATION",
    "DROP PUBLICATION",
    "CREATE SUBSCRIPTION",
    "ALTER SUBSCRIPTION",
    "DROP SUBSCRIPTION",
    "ALTER LARGE OBJECT",
    REFRESH,
];
/// Commands whose scripts run others, which are logged inside them and need not be run.
const SCRIPTS: &[&str] = &["CREATE EXTENSION", "ALTER EXTENSION"];
/// REFRESH makes a temporary table of its own when it runs alongside readers, and names the schema of its
/// backend.
const REFRESH: &str = "REFRESH MATERIALIZED VIEW";
/// Commands that may grant or revoke anything, as `consort.may_grant` (`attach/commands.sql`).
const GRANTING: &[&str] = &["GRANT", "REVOKE", "ALTER DEFAULT PRIVILEGES", "CREATE SCHEMA"];
/// Commands that do more than the log can say.
const UNSAID: &[&str] = &["IMPORT FOREIGN SCHEMA", "DROP OWNED"];

/// Work at the replica in the place of a row of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) run: Option<Run>,
    /// True if the command may change privileges: its changes of them are compared, and the earlier ones must
    /// be known.
    pub(super) grants: bool,
    /// Expected state after the last command that was run and not yet checked, as the primary wrote it.
    pub(super) check: Vec<String>,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// To be run.
    Statement(Statement),
    /// The statement cannot be determined: the reason.
    Doubt(String),
}

impl Run {
    /// True if it names the schema of temporary objects of a backend.
    fn names_temporary(&self) -> bool {
        matches!(self, Run::Statement(statement) if statement.text.contains("pg_temp_"))
    }
}

/// A statement, with what it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) author: String,
    /// As JSON.
    pub(super) settings: String,
    /// True if it adds a label to an enum, unless the label is there, and does nothing else.
    pub(super) adds_label: bool,
}

/// A row of the log.
struct Row<'a> {
    relation: &'a Relation,
    message: &'a [u8],
    values: &'a [Value],
}

impl Row<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let place = self.relation.columns.iter().position(|known| known.name == column)?;
        match self.values.get(place)? {
            Value::Text(range) => std::str::from_utf8(&self.message[range.clone()]).ok(),
            Value::Null | Value::Unchanged => None,
        }
    }

    fn owned(&self, column: &str) -> String {
        self.text(column).unwrap_or_default().to_owned()
    }
}

/// A command whose end has not come.
struct Open {
    /// The place of its first row.
    place: usize,
    tag: String,
    dropped: Vec<String>,
    something: bool,
}

/// The steps of a transaction, one for each row that it wrote into the log of commands.
///
/// # Errors
/// [`Error::Kept`]; [`Error::Server`] if the rows are malformed.
pub(super) fn steps(changes: &Changes) -> Result<Vec<Step>, Error> {
    let mut reading = Reading::default();
    if !changes.relations().iter().any(|relation| is_command(relation)) {
        return Ok(reading.steps);
    }
    let (mut reader, mut rows) = (changes.read(), Rows::default());
    while let Some(change) = reader.next().map_err(Error::Kept)? {
        let Some(relation) = logs(&change) else { continue };
        message::read(&change.message, &mut rows)
            .filter(|message| matches!(message, Message::Insert { .. }))
            .ok_or_else(|| Error::stream("the replication stream is malformed".to_owned()))?;
        reading.take(&Row { relation, message: &change.message, values: &rows.new });
    }
    Ok(reading.end())
}

/// The log of commands, if a row came into it. Its rows are deleted at once: that says nothing.
pub(super) fn logs<'a>(change: &Change<'a>) -> Option<&'a Relation> {
    let relation = change.relation().filter(|relation| is_command(relation))?;
    (change.message.first() == Some(&b'I')).then_some(&**relation)
}

#[derive(Default)]
struct Reading {
    steps: Vec<Step>,
    open: Vec<Open>,
    /// Objects dropped by a command whose beginning is not there.
    dropped: Vec<String>,
    /// Number of commands of the same tag in the same text.
    seen: HashMap<(String, String), usize>,
}

impl Reading {
    fn take(&mut self, row: &Row<'_>) {
        let (place, tag) = (self.steps.len(), row.owned("tag"));
        self.steps.push(Step::default());
        match row.text("step") {
            Some("begins") => self.open.push(Open { place, tag, dropped: Vec::new(), something: false }),
            Some("dropped") => {
                let something = row.text("came_of") == Some("something");
                let dropped = match self.open.last_mut() {
                    Some(open) => {
                        open.something |= something;
                        &mut open.dropped
                    }
                    None => &mut self.dropped,
                };
                dropped.extend(something.then(|| row.owned("effect")));
            }
            _ => self.ended(row, place, tag),
        }
    }

    fn ended(&mut self, row: &Row<'_>, place: usize, tag: String) {
        let begun = self.open.pop_if(|open| open.tag == tag);
        let open = begun.unwrap_or_else(|| {
            let dropped = std::mem::take(&mut self.dropped);
            Open { place, tag, something: !dropped.is_empty(), dropped }
        });
        let inside = self.open.iter().any(|open| SCRIPTS.contains(&open.tag.as_str()));
        // Also what did nothing counts among the statements of its text.
        let run = self.run(row, &open.tag);
        let something = open.something || did_something(row, &open.tag);
        if inside || !something || NOTHING.contains(&open.tag.as_str()) {
            return;
        }
        let Some(run) = run else { return };
        if self.open.iter().any(|open| open.tag == REFRESH) && run.names_temporary() {
            return;
        }
        self.steps[open.place].run = Some(run);
        self.steps[open.place].grants = GRANTING.contains(&open.tag.as_str());
        self.steps[place].check = open.dropped;
        self.steps[place].check.push(row.owned("effect"));
    }

    /// The command to run. Nothing if it concerns objects that a replica does not have.
    fn run(&mut self, row: &Row<'_>, tag: &str) -> Option<Run> {
        let doubt = |why: &str| Some(Run::Doubt(format!("{tag}: {why}")));
        let statement = |text: String, adds_label: bool| {
            let (author, settings) = (row.owned("author"), row.owned("settings"));
            Some(Run::Statement(Statement { text, author, settings, adds_label }))
        };
        if let Some(instead) = row.text("instead") {
            return statement(instead.to_owned(), false);
        }
        if UNSAID.contains(&tag) {
            return doubt("the command log does not record its full effect");
        }
        let Some(told) = self.told(row, tag) else { return doubt("the statement cannot be identified") };
        if told.not_there {
            return None;
        }
        if told.concurrently && tag == "ALTER TABLE" {
            return doubt("a partition was detached concurrently");
        }
        if told.session_user && row.text("author") != row.text("login") {
            return doubt("the statement uses SESSION_USER");
        }
        statement(told.text, told.adds_label)
    }

    /// The statement that was this command.
    fn told(&mut self, row: &Row<'_>, tag: &str) -> Option<Told> {
        let strings = match row.text("settings") {
            Some(settings) if settings.contains(r#""standard_conforming_strings": "off""#) => {
                Strings::Escaping
            }
            _ => Strings::Standard,
        };
        let place = row.text("place").unwrap_or_default();
        let query = row.text("query").unwrap_or_default();
        let source = source(place, query, strings)?;
        if let Source::Numbered(number) = source {
            let body = standard_strings(row.text("body")?, strings)?;
            let all = session_state::utility::split(&body, Strings::Standard);
            let range = all.get(number.checked_sub(1)?)?.range.clone();
            return only(tagged(&body[range], tag, Strings::Standard)?);
        }
        let Source::Text(text) = source else { return None };
        let seen = self.seen.entry((format!("{place}\n{query}"), tag.to_owned())).or_default();
        let number = *seen;
        *seen += 1;
        let mut found = tagged(text, tag, strings)?;
        let count = found.len();
        (count > 0).then(|| found.swap_remove(number % count))
    }

    /// A command that has not ended in its transaction goes on in another one.
    fn end(mut self) -> Vec<Step> {
        for open in self.open {
            let doubt = Run::Doubt(format!("{}: continues in another transaction", open.tag));
            self.steps[open.place].run = Some(doubt);
        }
        self.steps
    }
}

/// True if it made, changed or dropped anything that the replica has.
fn did_something(row: &Row<'_>, tag: &str) -> bool {
    match row.text("came_of") {
        Some("something") => true,
        // Nothing is named: a command that makes or drops had nothing to do (IF EXISTS), others name nothing.
        Some("nothing") => UNSAID.contains(&tag) || !(tag.starts_with("CREATE ") || tag.starts_with("DROP ")),
        _ => false,
    }
}

fn only(mut found: Vec<Told>) -> Option<Told> {
    if found.len() == 1 { found.pop() } else { None }
}

/// Place of a statement.
#[derive(Debug, PartialEq, Eq)]
enum Source<'a> {
    /// In this text.
    Text(&'a str),
    /// The statement with this number, from 1, of a function's body.
    Numbered(usize),
}

/// Reads PL/pgSQL's context: its innermost line says where the command ran.
fn source<'a>(place: &'a str, query: &'a str, strings: Strings) -> Option<Source<'a>> {
    if place.is_empty() || place.starts_with("portal \"") || place.starts_with("unnamed portal ") {
        return Some(Source::Text(query));
    }
    if let Some(rest) = place.strip_prefix("SQL function \"") {
        let line = rest.lines().next()?;
        return line.rsplit_once("\" statement ")?.1.parse().ok().map(Source::Numbered);
    }
    let rest = place.strip_prefix("SQL statement \"")?;
    // The statement may itself hold what looks like the end of its line: the first end that makes it one that is understood.
    let ends = rest.match_indices('"').map(|(at, _)| at).filter(|at| {
        let behind = &rest[at + 1..];
        behind.is_empty()
            || ["\nPL/", "\nSQL ", "\nportal ", "\nunnamed portal "]
                .iter()
                .any(|line| behind.starts_with(line))
    });
    let understood = |text: &&str| {
        let Some(text) = standard_strings(text, strings) else { return false };
        let all = session_state::utility::split(&text, Strings::Standard);
        !all.is_empty() && !all.iter().any(|statement| is_unknown(&statement.what))
    };
    ends.map(|at| &rest[..at]).find(understood).map(Source::Text)
}

fn is_unknown(what: &session_state::utility::What) -> bool {
    use session_state::utility::{Utility, What};
    matches!(what, What::Utility(Utility::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_command_stands() {
        let source = |place| source(place, "the query", Strings::Standard);
        let behind = "\nPL/pgSQL function f() line 3 at EXECUTE\nSQL statement \"SELECT f()\"\nPL/pgSQL function g() line 1 at PERFORM";
        for (place, expected) in [
            ("", Some(Source::Text("the query"))),
            ("unnamed portal with parameters: $1 = '1'", Some(Source::Text("the query"))),
            ("SQL function \"odd\" statement 7\" statement 2", Some(Source::Numbered(2))),
            ("SQL function \"f\" during startup", None),
            ("SQL statement \"CREATE TABLE \"a b\" ()\"", Some(Source::Text("CREATE TABLE \"a b\" ()"))),
            ("SQL-Anweisung »CREATE TABLE a ()«", None),
            ("SQL statement \"CREATE TABLE (\"", None),
        ] {
            assert_eq!(source(place), expected, "{place}");
        }
        let nested = format!("SQL statement \"DROP TABLE a\"{behind}");
        assert_eq!(source(&nested), Some(Source::Text("DROP TABLE a")));
        // The apparent end stands in the statement.
        let statement = format!("COMMENT ON TABLE a IS 'x\"{behind}'");
        let odd = format!("SQL statement \"{statement}\"{behind}");
        assert_eq!(source(&odd), Some(Source::Text(statement.as_str())));
    }
}
