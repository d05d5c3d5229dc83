//! Meaning of the primary's answers: which answers are outstanding, the session's transaction status, and the
//! receiver of each answer.

use super::notifications::Notified;
use super::{Expect, Seen, Side, Told};
use backend::prepared_statements::Statements;
use backend::statement_description::Described;
use std::collections::VecDeque;
use wire::tag::back;
use wire::{CommandTag, Complaint, Frame, Malformed, Part, Status};

/// SQLSTATE of a missing prepared statement.
const NO_SUCH_STATEMENT: &[u8] = b"26000";

/// SQLSTATE in a failed block, whose failure may be due to the attempt to prepare the statement.
const FAILED_BLOCK: &[u8] = b"25P02";

/// The state that an answer changes.
pub(super) struct Standing<'a> {
    pub(super) expects: &'a mut VecDeque<Expect>,
    pub(super) status: &'a mut Status,
    pub(super) open: &'a mut bool,
    pub(super) copying: &'a mut bool,
    pub(super) passes_over: &'a mut bool,
    pub(super) portal_gone: &'a mut bool,
    pub(super) told: &'a mut Told,
    pub(super) seen: &'a mut Seen,
    pub(super) notified: &'a mut Notified,
    /// Process number of the connection's backend.
    pub(super) pid: i32,
    /// True if an internal query failed.
    pub(super) unclosed: &'a mut bool,
    /// Answer that the client receives instead of the last one.
    pub(super) instead: &'a mut Option<Box<[u8]>>,
    pub(super) keeps_tags: bool,
    /// True if reported settings are kept for later.
    pub(super) holds_reports: bool,
}

impl Standing<'_> {
    /// Handles an answer; `false`: it is not for the client.
    pub(super) fn answered(&mut self, frame: &Frame<'_>, side: &mut Side<'_>) -> Result<bool, Malformed> {
        match self.expects.front() {
            _ if frame.tag() == back::NOTIFICATION => return self.notified(frame),
            Some(expect) if expect.is_question() && !self.is_the_clients_own(frame) => {
                return self.answered_ourselves(frame, side.statements);
            }
            Some(Expect::Aside(ours)) if !self.is_the_clients_own(frame) => {
                let ours = *ours;
                return self.answered_aside(frame, ours);
            }
            _ => {}
        }
        match frame.tag() {
            back::PARSE_COMPLETE => match self.expects.pop_front() {
                Some(Expect::Ours | Expect::Learns(_)) => return Ok(false),
                Some(Expect::Parse(name, statement, _)) => {
                    side.statements.parsed_at_primary(&name, statement)
                }
                _ => return Err(Malformed::Body),
            },
            back::CLOSE_COMPLETE => match self.expects.pop_front() {
                Some(Expect::Ours | Expect::Learns(_) | Expect::PortalGone) => return Ok(false),
                Some(Expect::Instead(answer)) => {
                    *self.instead = Some(answer);
                    return Ok(false);
                }
                Some(Expect::Close(name)) => side.statements.closed(&name),
                Some(Expect::ClosePortal) => {}
                _ => return Err(Malformed::Body),
            },
            back::PARAMETER_DESCRIPTION | back::ROW_DESCRIPTION | back::NO_DATA if self.describes() => {
                self.seen.described.extend_from_slice(frame.bytes());
                if frame.tag() != back::PARAMETER_DESCRIPTION {
                    self.described(side.statements)?;
                }
                return Ok(false);
            }
            back::BIND_COMPLETE | back::ROW_DESCRIPTION | back::NO_DATA => self.answer_came(),
            back::COMMAND_COMPLETE => return self.command_completed(frame, side.statements),
            back::PORTAL_SUSPENDED | back::EMPTY_QUERY => {
                self.seen.completed += 1;
                self.answer_came();
            }
            back::COPY_IN => self.copy_begins(),
            back::ERROR => {
                self.complains(&Complaint::read(frame), side.statements);
                return Ok(self.instead.is_none());
            }
            back::PARAMETER_STATUS => {
                let (name, value) = wire::parameter_status(frame)?;
                self.seen.reported.push((name.to_vec(), value.to_vec()));
                if self.holds_reports {
                    return Ok(false);
                }
                side.reported.note(name, value);
            }
            back::READY_FOR_QUERY => {
                *self.copying = false;
                *self.status = wire::status(frame)?;
                // Messages after an error and before its Sync are never answered.
                self.taken_back(side.statements, Expect::is_ready);
                let answered = self.expects.pop_front();
                let hushed = matches!(answered, Some(Expect::Hushed(_) | Expect::Withheld));
                return Ok(!hushed && !self.notified.holds_ready(*self.status));
            }
            _ => {}
        }
        Ok(true)
    }

    /// The COPY swallows the Sync that came with the Execute; the client sends another one after the COPY.
    fn copy_begins(&mut self) {
        *self.copying = true;
        if let (Some(Expect::Answer), Some(Expect::Synced)) = (self.expects.front(), self.expects.get(1)) {
            self.expects.remove(1);
            *self.open = true;
        }
    }

    /// True if the next answer is to Consort's own Describe.
    fn describes(&self) -> bool {
        matches!(self.expects.front(), Some(Expect::Described { .. }))
    }

    /// Handles the answer to Consort's own Describe.
    fn described(&mut self, statements: &mut Statements) -> Result<(), Malformed> {
        let Some(Expect::Described { name, told }) = self.expects.pop_front() else {
            return Err(Malformed::Body);
        };
        let now = Described::read(&std::mem::take(&mut self.seen.described))?;
        match told {
            None => statements.described(&name, now),
            Some(told) if told.has_columns_of(&now) => {}
            Some(_) => return Err(other_columns(&name)),
        }
        Ok(())
    }

    /// Handles an error. If the server lacks a statement that is refused, the client receives the reason.
    fn complains(&mut self, complaint: &Complaint<'_>, statements: &mut Statements) {
        if complaint.sqlstate() == NO_SUCH_STATEMENT
            && let Some(Expect::Refused(error)) = self.expects.front_mut()
        {
            *self.instead = Some(std::mem::take(error));
        } else if [NO_SUCH_STATEMENT, FAILED_BLOCK].contains(&complaint.sqlstate()) {
            *self.instead = statements.refused_in_sql();
        }
        self.failed(statements);
        self.seen.sqlstate = complaint.sqlstate().try_into().ok();
        if self.keeps_tags {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let said = || (text(complaint.sqlstate()), text(complaint.message()));
            self.seen.complaint.get_or_insert_with(said);
        }
        if complaint.is_fatal() {
            *self.told = Told::ByPrimary;
        }
    }

    /// Handles the completion of a command; `false`: the client receives it later.
    fn command_completed(
        &mut self,
        frame: &Frame<'_>,
        statements: &mut Statements,
    ) -> Result<bool, Malformed> {
        self.seen.completed += 1;
        self.answer_came();
        let tag = CommandTag::read(frame)?;
        self.seen.rows = tag.rows();
        if self.keeps_tags {
            self.seen.tags.push(tag.0.into());
        }
        self.completed(tag, statements);
        let is_withheld = matches!(self.expects.front(), Some(Expect::Withheld));
        if is_withheld {
            self.seen.withheld.extend_from_slice(frame.bytes());
        }
        Ok(!is_withheld)
    }

    /// True if the next answer is for Consort.
    pub(super) fn asked_ourselves(&self) -> bool {
        let ours = |expect: &Expect| expect.is_question() || matches!(expect, Expect::Aside(_));
        self.expects.front().is_some_and(ours)
    }

    /// Handles a part of an answer that is too large to be held; `false`: it is not for the client. Large
    /// answers are rows, COPY data, function results, descriptions of many columns, and errors or notices
    /// that quote such a value.
    pub(super) fn answered_in_part(
        &mut self,
        part: Part<'_>,
        statements: &mut Statements,
    ) -> Result<bool, Malformed> {
        let is_error = part.tag == back::ERROR;
        let is_description = matches!(part.tag, back::PARAMETER_DESCRIPTION | back::ROW_DESCRIPTION);
        match self.expects.front() {
            Some(Expect::Aside(_)) => self.seen.aside.extend_from_slice(part.bytes),
            Some(Expect::Described { .. }) if is_description => {
                self.seen.described.extend_from_slice(part.bytes);
                if part.last && part.tag == back::ROW_DESCRIPTION {
                    return self.described(statements).map(|()| false);
                }
            }
            Some(Expect::Bound | Expect::Learnt { .. }) if is_description => {
                self.seen.aside.extend_from_slice(part.bytes);
            }
            Some(expect) if expect.is_question() => {
                if part.first && is_error {
                    (self.seen.row, self.seen.error) = (None, Some(Vec::new()));
                    *self.unclosed = true;
                }
                if let Some(error) = self.seen.error.as_mut().filter(|_| is_error) {
                    error.extend_from_slice(part.bytes);
                }
            }
            _ => {
                if part.first && is_error {
                    self.failed(statements);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Handles an error of the client's request.
    fn failed(&mut self, statements: &mut Statements) {
        self.seen.failed = true;
        *self.copying = false;
        self.passed_over(statements);
    }

    /// Handles the end of an answer, to a message of the extended protocol or to a Query.
    fn answer_came(&mut self) {
        self.expects.pop_front_if(|expect| matches!(expect, Expect::Answer | Expect::Refused(_)));
    }

    /// After an error in the extended protocol, drops the outstanding answers before the next Sync.
    fn passed_over(&mut self, statements: &mut Statements) {
        match self.expects.front() {
            None => return,
            Some(expect) if expect.is_ready() => return,
            // Its effect on the unnamed statement comes before its failure.
            Some(Expect::Parse(..)) => drop(self.expects.pop_front()),
            Some(_) => {}
        }
        self.taken_back(statements, |expect| expect.is_ready() && !matches!(expect, Expect::Asked(..)));
        *self.passes_over = self.expects.is_empty();
        // Further input belongs to the failed request, up to its Sync.
        *self.open |= *self.passes_over;
    }

    /// Undoes the effects of all outstanding answers before the first that matches `until`: they never come.
    fn taken_back(&mut self, statements: &mut Statements, until: impl Fn(&Expect) -> bool) {
        let end = self.expects.iter().position(until).unwrap_or(self.expects.len());
        // The last one first: each knows the state before it.
        for expect in self.expects.drain(..end).rev() {
            *self.portal_gone |= matches!(expect, Expect::PortalGone);
            if let Some(undo) = expect.undo() {
                statements.undo(undo);
            }
        }
    }

    /// True if the message is for the client although an internal query is outstanding: it is no answer to
    /// that.
    fn is_the_clients_own(&self, frame: &Frame<'_>) -> bool {
        match frame.tag() {
            back::PARAMETER_STATUS => true,
            back::NOTICE => matches!(self.expects.front(), Some(Expect::Command)),
            back::ERROR => Complaint::read(frame).is_fatal(),
            _ => false,
        }
    }

    fn answered_ourselves(
        &mut self,
        frame: &Frame<'_>,
        statements: &mut Statements,
    ) -> Result<bool, Malformed> {
        match frame.tag() {
            back::DATA_ROW => {
                let row = wire::row_texts(frame)?;
                self.seen.answers.extend(row.first().cloned());
                self.seen.row = Some(row);
            }
            back::PARSE_COMPLETE | back::PARAMETER_DESCRIPTION | back::ROW_DESCRIPTION | back::NO_DATA
                if matches!(self.expects.front(), Some(Expect::Bound | Expect::Learnt { .. })) =>
            {
                self.seen.aside.extend_from_slice(frame.bytes());
            }
            back::ERROR => {
                self.seen.row = None;
                // Of several statements to be bound, the first one has failed the block.
                let is_later =
                    matches!(self.expects.front(), Some(Expect::Bound)) && self.seen.error.is_some();
                if !is_later {
                    self.seen.error = Some(frame.bytes().to_vec());
                }
                *self.unclosed = true;
            }
            back::READY_FOR_QUERY => {
                *self.status = wire::status(frame)?;
                if let Some(Expect::Learnt { name, told }) = self.expects.pop_front() {
                    let (said, error) = (std::mem::take(&mut self.seen.aside), self.seen.error.take());
                    match told {
                        _ if error.is_some() => statements.unlearned(&name),
                        Some(told) if !told.has_columns_of(&Described::read(&said)?) => {
                            return Err(other_columns(&name));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Ok(false)
    }

    fn answered_aside(&mut self, frame: &Frame<'_>, ours: bool) -> Result<bool, Malformed> {
        match frame.tag() {
            back::PARSE_COMPLETE | back::CLOSE_COMPLETE if ours => {
                self.expects.pop_front();
                self.expects.push_front(Expect::Aside(false));
                return Ok(false);
            }
            back::READY_FOR_QUERY => {
                *self.status = wire::status(frame)?;
                self.expects.pop_front();
            }
            _ => {}
        }
        self.seen.aside.extend_from_slice(frame.bytes());
        Ok(false)
    }

    /// Updates the prepared statements after a command that may have deallocated some.
    fn completed(&mut self, tag: CommandTag<'_>, statements: &mut Statements) {
        match (tag.0, self.expects.front()) {
            (b"DEALLOCATE", Some(Expect::Asked(Some(name), _) | Expect::Hushed(Some(name)))) => {
                statements.closed(name);
            }
            (b"DEALLOCATE", _) => statements.forget_named(),
            (b"DEALLOCATE ALL" | b"DISCARD ALL", _) => statements.forget_all(),
            _ => {}
        }
    }
}

/// Error for a statement whose columns differ from the client's description and that may have run: no part of
/// its answer is for the client.
fn other_columns(name: &[u8]) -> Malformed {
    let name = String::from_utf8_lossy(name);
    tracing::warn!(%name, "columns of a prepared statement changed while it was prepared on another connection");
    Malformed::Body
}
