//! Statements about Consort's own settings: Consort answers them, in the protocol that the client used, and
//! sends them to no server.

use super::{Session, request_analysis};
use backend::commit_tokens;
use backend::prepared_statements::Statement as Prepared;
use backend::request::{Kind, Request};
use session_state::Answer;
use session_state::utility::{Statement, What};
use std::rc::Rc;
use wire::tag::front;
use wire::{Answers, Column, Frame, Parse, Problem, Severity, Splitter, Status, Step, Target};

impl Session {
    /// Answers SET, RESET or SHOW of one of Consort's own settings.
    pub(super) async fn answer_own(&mut self, request: Request, statements: &[Statement]) {
        let answer = self.own_setting(statements).await;
        self.say(request, &answer);
        if answer.is_err() && self.line.primary.status == Status::InBlock {
            self.fail_block(None).await;
        }
        let status = self.line.status();
        self.line.client.out().ready(status);
    }

    /// The answer to a statement about one of Consort's own settings.
    pub(super) async fn own_setting(&mut self, statements: &[Statement]) -> Result<Answer, Problem> {
        let Some(What::Utility(utility)) = statements.first().map(|statement| &statement.what) else {
            return Ok(Answer::Tag("SET"));
        };
        if let Some(answer) = commit_tokens::answer(&self.service.cluster, utility).await {
            return answer;
        }
        self.state.consort(utility).map_err(|error| {
            let problem = Problem::error(error.sqlstate, error.message);
            Problem { hint: error.hint, ..problem }
        })
    }

    /// Answers a statement without a server, in the protocol that the client used, without ReadyForQuery.
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

    /// Writes the answers to a batch, message by message; none after an error.
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

/// Error for a client whose statement was cancelled before it ran at a server.
pub(super) fn cancelled() -> Problem {
    Problem::error("57014", "canceling statement due to user request")
}

/// Writes the end of a statement, and its row.
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
