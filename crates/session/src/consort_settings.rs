//! Statements about settings of our own: answered here, in the form that the client asked in, and sent to no server.

use super::{Session, request_analysis};
use backend::prepared_statements::Statement as Prepared;
use backend::request::{Kind, Request};
use session_state::Answer;
use session_state::utility::{Statement, What};
use std::rc::Rc;
use wire::tag::front;
use wire::{Answers, Column, Frame, Parse, Problem, Severity, Splitter, Status, Step, Target};

impl Session {
    /// Answers SET, RESET or SHOW of a setting of our own.
    pub(super) async fn answer_own(&mut self, request: Request, statements: &[Statement]) {
        let answer = self.own_setting(statements);
        self.say(request, &answer);
        if answer.is_err() && self.line.primary.status == Status::InBlock {
            self.fail_block(None).await;
        }
        let status = self.line.status();
        self.line.client.out().ready(status);
    }

    /// What a statement about a setting of our own says.
    pub(super) fn own_setting(&mut self, statements: &[Statement]) -> Result<Answer, Problem> {
        let Some(What::Utility(utility)) = statements.first().map(|statement| &statement.what) else {
            return Ok(Answer::Tag("SET"));
        };
        self.state.consort(utility).map_err(|error| {
            let problem = Problem::error(error.sqlstate, error.message);
            Problem { hint: error.hint, ..problem }
        })
    }

    /// Answers a statement that no server is asked, in the form that the client asked in, without ReadyForQuery.
    pub(super) fn say(&mut self, request: Request, answer: &Result<Answer, Problem>) {
        let bytes = self.line.bytes(request).to_vec();
        let splitter = self.line.client.splitter;
        self.line.client.consume(request.bytes);
        let out = self.line.client.out();
        if request.kind == Kind::Query {
            if let Ok(Answer::Row { column, .. }) = answer {
                out.row_description(&[Column::text(column)]);
            }
            complete(out, answer);
            self.line.statements.query_ran_elsewhere();
        } else {
            self.answer_batch(&bytes, splitter, answer);
        }
    }

    /// The answers to a batch, message by message; none behind an error.
    fn answer_batch(&mut self, bytes: &[u8], mut splitter: Splitter, answer: &Result<Answer, Problem>) {
        let mut at = 0;
        while let Ok(Step::Whole(frame)) = splitter.next(&bytes[at..]) {
            at += frame.bytes().len();
            self.note_parse(&frame);
            let out = self.line.client.out();
            match frame.tag() {
                front::PARSE => out.parse_complete(),
                front::BIND => out.bind_complete(),
                front::DESCRIBE => {
                    if request_analysis::describes(&frame) == Some(Target::Statement) {
                        out.parameter_description(&[]);
                    }
                    match answer {
                        Ok(Answer::Row { column, .. }) => out.row_description(&[Column::text(column)]),
                        _ => out.no_data(),
                    }
                }
                front::EXECUTE => complete(out, answer),
                _ => {}
            }
        }
    }

    fn note_parse(&mut self, frame: &Frame<'_>) {
        if frame.tag() == front::PARSE
            && let Ok(parse) = Parse::read(frame)
        {
            let (text, types) = parse.signature();
            self.line.statements.parsed_at_standby(Rc::new(Prepared::new(text, types)));
        }
    }
}

/// What a client hears whose statement was cancelled where no server ran it.
pub(super) fn cancelled() -> Problem {
    Problem::error("57014", "canceling statement due to user request")
}

/// `set_config` of a setting of our own.
pub(super) fn set_at_server() -> Problem {
    Problem::error("0A000", "set_config() does not reach the settings of Consort's own")
        .hint("Use SET consort... or RESET consort... in a query of its own.")
}

/// A setting of our own that a role, a database or a function shall have at the server.
pub(super) fn kept_at_server() -> Problem {
    Problem::error("0A000", "no server keeps the settings of Consort's own")
        .hint("Set it in Consort's configuration ([database.NAME], [user.NAME]), or in the client's options.")
}

/// The end of a statement, and its row.
fn complete(out: &mut Vec<u8>, answer: &Result<Answer, Problem>) {
    match answer {
        Ok(Answer::Tag(tag)) => out.complete(tag),
        Ok(Answer::TagWithWarning(tag, message)) => {
            let warning = Problem { severity: Severity::Warning, ..Problem::error("25P01", *message) };
            out.problem(&warning);
            out.complete(tag);
        }
        Ok(Answer::Row { value, .. }) => {
            out.data_row(&[Some(value.as_bytes())]);
            out.complete("SHOW");
        }
        Err(problem) => out.problem(problem),
    }
}
