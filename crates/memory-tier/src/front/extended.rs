//! Requests of the extended protocol: messages gather up to a Sync or Flush, and run then.

use super::answers::{failure, write_columns, write_suspended};
use super::block::in_failed_block;
use super::executor::{Described, Rows};
use super::scheduler::Parsed;
use super::session::{Message, Session, broken, not_utf8};
use super::statements::{Asked, SHOW_ALL, no_statement};
use super::{Outcome, Step};
use crate::message::{Column, Failure, Run, columns_hash};
use dialect::Class;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;
use wire::tag::front;
use wire::{Answers, Bind, Close, Describe, Execute, Frame, HEADER_BYTES, Parse, Target};

/// Named statements and portals that a session may have.
const MAX_NAMES: usize = 20_000;
/// OID of the type text.
const TEXT: u32 = 25;

/// A statement under a name.
pub(super) struct Prepared {
    /// `None`: an empty one.
    pub(super) parsed: Option<Rc<Parsed>>,
    /// Types of parameters as the client declares them.
    pub(super) types: Vec<u32>,
    described: OnceCell<Described>,
}

impl Prepared {
    pub(super) fn new(parsed: Option<Rc<Parsed>>, types: Vec<u32>) -> Prepared {
        Prepared { parsed, types, described: OnceCell::new() }
    }

    /// Number of its parameters, if it is known.
    pub(super) fn parameters(&self) -> Option<usize> {
        self.described.get().map(|described| described.parameters.len())
    }

    fn is_read(&self) -> bool {
        self.parsed.as_ref().is_none_or(|parsed| parsed.is_read())
    }
}

/// Progress of a portal.
enum Progress {
    New,
    /// Its rows are here; these many bytes of them have left.
    Held {
        rows: Vec<u8>,
        passed: usize,
        tag: String,
    },
    /// The portal has run to its end.
    Over {
        tag: String,
    },
}

/// A statement with its values.
struct Portal {
    prepared: Rc<Prepared>,
    parameters: Vec<(i16, Option<Vec<u8>>)>,
    formats: Vec<i16>,
    progress: Progress,
}

/// Statements and portals of a session, by name.
#[derive(Default)]
pub(super) struct Names {
    pub(super) statements: HashMap<Vec<u8>, Rc<Prepared>>,
    portals: HashMap<Vec<u8>, Portal>,
}

impl Names {
    /// Keeps a statement.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn keep(&mut self, name: &[u8], prepared: Rc<Prepared>) -> Result<(), Failure> {
        if self.statements.len() >= MAX_NAMES {
            return Err(failure(
                "54000",
                "too many prepared statements",
                "DEALLOCATE those that are not needed.",
            ));
        }
        self.statements.insert(name.to_vec(), prepared);
        Ok(())
    }

    /// Bytes of the rows that portals hold.
    fn held_bytes(&self) -> usize {
        let held = self.portals.values().map(|portal| match &portal.progress {
            Progress::Held { rows, .. } => rows.len(),
            Progress::New | Progress::Over { .. } => 0,
        });
        held.sum()
    }

    /// Portals end with their transaction.
    pub(super) fn end_transaction(&mut self) {
        self.portals.clear();
    }

    /// A Query ends the unnamed statement and portal.
    pub(super) fn end_unnamed(&mut self) {
        self.statements.remove(b"".as_slice());
        self.portals.remove(b"".as_slice());
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        self.statements.clear();
        self.portals.clear();
    }
}

/// Extent of what a batch runs.
#[derive(Clone, Copy)]
struct Extent {
    is_whole: bool,
    only_reads: bool,
}

impl Session {
    /// Runs the messages that have gathered. `synced`: they end with a Sync, which ends an implicit transaction.
    pub(super) async fn run_batch(&mut self, synced: bool) -> Step<()> {
        let batch = std::mem::take(&mut self.batch);
        if !self.skips {
            let extent = self.extent(&batch, synced);
            let mut at = 0;
            while at < batch.len() {
                // A portal's description and its rows come in one answer.
                let describes = batch.get(at + 1).is_some_and(|next| is_described(&batch[at], next));
                at += usize::from(describes);
                if let Err(failure) = self.message(&batch[at], describes, extent).await? {
                    self.complain(&failure).await?;
                    self.skips = true;
                    break;
                }
                at += 1;
                self.executor.relieve().await?;
            }
        }
        if synced {
            if let Err(failure) = self.end_implicit().await? {
                self.complain(&failure).await?;
            }
            self.skips = false;
        }
        Ok(())
    }

    /// Extent of the batch: one statement, or reads alone.
    fn extent(&self, batch: &[Message], synced: bool) -> Extent {
        let executes = batch.iter().filter(|message| message.tag == front::EXECUTE).count();
        let is_outside = synced && self.executor.block.is_none();
        Extent { is_whole: is_outside && executes == 1, only_reads: is_outside && self.reads_alone(batch) }
    }

    /// Whether all statements that the batch binds read alone.
    fn reads_alone(&self, batch: &[Message]) -> bool {
        let mut parsed = HashMap::new();
        batch.iter().all(|message| {
            let Ok(frame) = Frame::new(&message.bytes) else { return false };
            match message.tag {
                front::PARSE => {
                    let Ok(parse) = Parse::read(&frame) else { return false };
                    let text = String::from_utf8_lossy(parse.text);
                    let statements = self.executor.scheduler.statements(&text);
                    let reads = statements.is_ok_and(|all| all.iter().all(|one| one.is_read()));
                    parsed.insert(parse.name, reads);
                    true
                }
                front::BIND => {
                    let Ok(bind) = Bind::read(&frame) else { return false };
                    let known = self.names.statements.get(bind.statement).map(|known| known.is_read());
                    parsed.get(bind.statement).copied().or(known).unwrap_or(false)
                }
                _ => true,
            }
        })
    }

    async fn message(&mut self, message: &Message, describes: bool, extent: Extent) -> Outcome<()> {
        let frame = Frame::new(&message.bytes).map_err(broken)?;
        match message.tag {
            front::PARSE => self.parse(&Parse::read(&frame).map_err(broken)?).await,
            front::BIND => Ok(self.bind(&Bind::read(&frame).map_err(broken)?)),
            front::DESCRIBE => self.describe_named(&Describe::read(&frame).map_err(broken)?).await,
            front::EXECUTE => {
                self.execute_portal(&Execute::read(&frame).map_err(broken)?, describes, extent).await
            }
            _ => {
                let close = Close::read(&frame).map_err(broken)?;
                match close.target {
                    Target::Statement => drop(self.names.statements.remove(close.name)),
                    Target::Portal => drop(self.names.portals.remove(close.name)),
                }
                self.executor.client.out().close_complete();
                Ok(Ok(()))
            }
        }
    }

    async fn parse(&mut self, parse: &Parse<'_>) -> Outcome<()> {
        let Ok(text) = std::str::from_utf8(parse.text) else { return Ok(Err(not_utf8())) };
        let statements = match self.executor.scheduler.statements(text) {
            Ok(statements) => statements,
            Err(refused) => return Ok(Err(refused)),
        };
        let parsed = match &*statements {
            [] => None,
            [one] if matches!(one.statement.class, Class::Empty) => None,
            [one] => Some(one.clone()),
            _ => {
                let why = "cannot insert multiple commands into a prepared statement";
                return Ok(Err(failure("42601", why, "Send each in a Parse of its own.")));
            }
        };
        if let Some(Class::Refused(problem)) = parsed.as_ref().map(|parsed| &parsed.statement.class) {
            return Ok(Err(Failure::from(problem.clone())));
        }
        if let Some(refused) = self.refused_in_block(parsed.as_deref()) {
            return Ok(Err(refused));
        }
        let done = self.prepare(parsed, parse.types().collect(), parse.name).await?;
        if done.is_ok() {
            self.executor.client.out().parse_complete();
        }
        Ok(done)
    }

    /// A block that has failed takes nothing but its end.
    fn refused_in_block(&self, parsed: Option<&Parsed>) -> Option<Failure> {
        let is_end = parsed.is_none_or(Parsed::may_follow_failure);
        (self.has_failed() && !is_end).then(in_failed_block)
    }

    fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Failure> {
        let name = String::from_utf8_lossy(bind.statement);
        let Some(prepared) = self.names.statements.get(bind.statement).cloned() else {
            let unnamed = || failure("26000", "unnamed prepared statement does not exist", "");
            return Err(if name.is_empty() { unnamed() } else { no_statement(&name) });
        };
        if let Some(refused) = self.refused_in_block(prepared.parsed.as_deref()) {
            return Err(refused);
        }
        let has_portal = self.names.portals.contains_key(bind.portal);
        if has_portal && !bind.portal.is_empty() {
            let portal = String::from_utf8_lossy(bind.portal);
            return Err(failure("42P03", format!("portal \"{portal}\" already exists"), ""));
        }
        if self.names.portals.len() >= MAX_NAMES {
            return Err(failure("54000", "too many portals", "Close those that are not needed."));
        }
        let parameters: Vec<_> = bind
            .parameters()
            .map(|(is_binary, value)| (i16::from(is_binary), value.map(<[u8]>::to_vec)))
            .collect();
        if let Some(wanted) = prepared.parameters().filter(|wanted| *wanted != parameters.len()) {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {wanted}",
                parameters.len()
            );
            return Err(failure("08P01", message, ""));
        }
        if !bind.formats_fit() {
            return Err(failure(
                "08P01",
                "bind message has another number of parameter formats than parameters",
                "",
            ));
        }
        let portal = Portal {
            prepared,
            parameters,
            formats: bind.result_formats().collect(),
            progress: Progress::New,
        };
        self.names.portals.insert(bind.portal.to_vec(), portal);
        self.executor.client.out().bind_complete();
        Ok(())
    }

    async fn describe_named(&mut self, describe: &Describe<'_>) -> Outcome<()> {
        let (prepared, formats) = match describe.target {
            Target::Statement => match self.names.statements.get(describe.name) {
                Some(prepared) => (prepared.clone(), None),
                None => return Ok(Err(no_statement(&String::from_utf8_lossy(describe.name)))),
            },
            Target::Portal => match self.names.portals.get(describe.name) {
                Some(portal) => (portal.prepared.clone(), Some(portal.formats.clone())),
                None => return Ok(Err(no_portal(describe.name))),
            },
        };
        if let Some(refused) = self.refused_in_block(prepared.parsed.as_deref()) {
            return Ok(Err(refused));
        }
        let Described { parameters, columns } = match self.describe(&prepared).await? {
            Ok(described) => described,
            Err(refused) => return Ok(Err(refused)),
        };
        let out = self.executor.client.out();
        if describe.target == Target::Statement {
            out.parameter_description(&parameters);
        }
        match columns {
            Some(columns) => write_columns(out, &columns, &formats.unwrap_or_default()),
            None => out.no_data(),
        }
        Ok(Ok(()))
    }

    /// Types of a statement, as they were when the client first asked.
    pub(super) async fn describe(&mut self, prepared: &Prepared) -> Outcome<Described> {
        if let Some(known) = prepared.described.get() {
            return Ok(Ok(known.clone()));
        }
        let described = match prepared.parsed.as_ref().map(|parsed| (parsed, &parsed.statement.class)) {
            Some((parsed, Class::Read | Class::Write)) => {
                let text = &parsed.statement.text;
                match self.executor.described(parsed.reads(), text, &prepared.types).await? {
                    Ok(described) => described,
                    Err(refused) => return Ok(Err(refused)),
                }
            }
            Some((_, Class::Execute { name, .. })) => {
                let Some(inner) = self.names.statements.get(name.as_bytes()).cloned() else {
                    return Ok(Err(no_statement(name)));
                };
                let known = inner.described.get().and_then(|described| described.columns.clone());
                return Ok(Ok(Described { parameters: Vec::new(), columns: known }));
            }
            Some((_, Class::Show(name))) => {
                let columns = match name.as_str() {
                    "all" => SHOW_ALL.map(text_column).to_vec(),
                    name => vec![text_column(self.executor.settings.spelled(name))],
                };
                Described { parameters: Vec::new(), columns: Some(columns) }
            }
            _ => Described { parameters: Vec::new(), columns: None },
        };
        Ok(Ok(prepared.described.get_or_init(|| described).clone()))
    }

    async fn execute_portal(
        &mut self,
        execute: &Execute<'_>,
        describes: bool,
        extent: Extent,
    ) -> Outcome<()> {
        let Some(mut portal) = self.names.portals.remove(execute.portal) else {
            return Ok(Err(no_portal(execute.portal)));
        };
        let most = u64::try_from(execute.max_rows).unwrap_or_default();
        let done = match portal.progress {
            Progress::New => self.begin_portal(&mut portal, most, describes, extent).await?,
            Progress::Held { .. } => Ok(()),
            Progress::Over { ref tag } if tag.starts_with("SELECT") => {
                self.executor.client.out().complete("SELECT 0");
                Ok(())
            }
            Progress::Over { .. } => {
                let name = String::from_utf8_lossy(execute.portal);
                Err(failure("55000", format!("portal \"{name}\" cannot be run"), "Bind it again."))
            }
        };
        if done.is_ok() {
            if let Progress::Held { rows, passed, tag } = &mut portal.progress {
                let (bytes, count) = first_rows(&rows[*passed..], most);
                let out = self.executor.client.out();
                out.extend_from_slice(&rows[*passed..*passed + bytes]);
                *passed += bytes;
                if most > 0 && count == most {
                    write_suspended(out);
                } else {
                    let tag = if tag.starts_with("SELECT") { format!("SELECT {count}") } else { tag.clone() };
                    out.complete(&tag);
                    portal.progress = Progress::Over { tag };
                }
            }
            // A transaction that has ended has taken its portals along.
            self.names.portals.insert(execute.portal.to_vec(), portal);
        }
        Ok(done)
    }

    /// Runs a portal for the first time. With a row limit all of its rows are held.
    async fn begin_portal(
        &mut self,
        portal: &mut Portal,
        most: u64,
        describes: bool,
        extent: Extent,
    ) -> Outcome<()> {
        let prepared = portal.prepared.clone();
        let Some(parsed) = &prepared.parsed else {
            self.executor.client.out().empty_query();
            portal.progress = Progress::Over { tag: String::new() };
            return Ok(Ok(()));
        };
        let expects = prepared.described.get().map_or(0, |known| columns_hash(known.columns.as_deref()));
        let run = Run {
            text: parsed.statement.text.clone(),
            types: prepared.types.clone(),
            parameters: std::mem::take(&mut portal.parameters),
            result_formats: portal.formats.clone(),
            describes,
            expects,
            ..Asked::plain(parsed).run
        };
        let Extent { is_whole, only_reads } = extent;
        let asked = Asked { parsed: parsed.clone(), run, is_whole, only_reads };
        let limit = self.executor.scheduler.tier.options.limits.portal_bytes;
        let left = limit.saturating_sub(self.names.held_bytes());
        let mut rows = if most > 0 { Rows::held(left) } else { Rows::default() };
        rows.tells_no_data = describes;
        let tag = match self.execute(&asked, &mut rows).await? {
            Ok(tag) => tag,
            Err(refused) => return Ok(Err(refused)),
        };
        if most > 0 && !rows.messages.is_empty() {
            let messages = std::mem::take(&mut rows.messages);
            self.executor.release(&mut rows).await?;
            portal.progress = Progress::Held { rows: messages, passed: 0, tag };
        } else {
            self.executor.release(&mut rows).await?;
            self.executor.client.out().complete(&tag);
            portal.progress = Progress::Over { tag };
        }
        Ok(Ok(()))
    }
}

/// Whether the first message describes the portal that the second one executes.
fn is_described(first: &Message, second: &Message) -> bool {
    if (first.tag, second.tag) != (front::DESCRIBE, front::EXECUTE) {
        return false;
    }
    let (Ok(first), Ok(second)) = (Frame::new(&first.bytes), Frame::new(&second.bytes)) else { return false };
    let (Ok(describe), Ok(execute)) = (Describe::read(&first), Execute::read(&second)) else { return false };
    describe.target == Target::Portal && describe.name == execute.portal
}

/// The first rows among whole DataRow messages: their bytes and number. Zero: all.
fn first_rows(messages: &[u8], most: u64) -> (usize, u64) {
    let (mut bytes, mut count) = (0, 0);
    while (most == 0 || count < most)
        && let Some(header) = messages.get(bytes..bytes + HEADER_BYTES)
    {
        bytes += 1 + u32::from_be_bytes(header[1..].try_into().expect("four bytes")) as usize;
        count += 1;
    }
    (bytes.min(messages.len()), count)
}

fn text_column(name: &str) -> Column {
    Column { name: name.to_owned(), oid: TEXT, length: -1, modifier: -1 }
}

fn no_portal(name: &[u8]) -> Failure {
    failure("34000", format!("portal \"{}\" does not exist", String::from_utf8_lossy(name)), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_whole_messages() {
        let mut rows = Vec::new();
        for value in [b"a".as_slice(), b"bb", b""] {
            rows.data_row(&[Some(value), None]);
        }
        let length = |count| first_rows(&rows, count);
        assert_eq!(length(1), (1 + 4 + 2 + 4 + 1 + 4, 1));
        assert_eq!(length(0), (rows.len(), 3));
        assert_eq!(length(3), (rows.len(), 3));
        assert_eq!(length(9), (rows.len(), 3));
        assert_eq!(first_rows(&[], 5), (0, 0));
    }

    #[test]
    fn a_description_goes_with_the_execution_of_its_portal() {
        use wire::Asks;
        let of = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            write(&mut bytes);
            Message { tag: bytes[0], bytes }
        };
        let execute = of(&|out| out.execute(b"p", 0));
        assert!(is_described(&of(&|out| out.describe(Target::Portal, b"p")), &execute));
        assert!(!is_described(&of(&|out| out.describe(Target::Portal, b"q")), &execute));
        assert!(!is_described(&of(&|out| out.describe(Target::Statement, b"p")), &execute));
        assert!(!is_described(&execute, &execute));
    }
}
