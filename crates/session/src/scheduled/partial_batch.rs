//! A batch that pauses before its Sync, in designs that order transactions before they execute them. No part
//! of it runs before it is complete. An error that PostgreSQL finds in its Parse and Bind messages is
//! reported at once, as PostgreSQL does.

use super::statement_tables::{No, refused};
use crate::Session;
use crate::primary::Ended;
use backend::request::Request;
use wire::tag::front;
use wire::{Bind, Parse, Step};

impl Session {
    /// Reports an error in the part of a batch that has come. A part without an error stays in the buffer.
    pub(super) async fn look_into_begun(&mut self, request: Request) -> Result<(), Ended> {
        match self.error_in_begun(request).await? {
            None => self.line.lookout.looked_into(request.bytes),
            Some(error) => {
                self.fails_with(&error);
                self.skipping = true;
            }
        }
        Ok(())
    }

    async fn error_in_begun(&mut self, request: Request) -> Result<Option<Vec<u8>>, Ended> {
        let bytes = self.line.bytes(request).to_vec();
        let mut splitter = self.line.client.splitter;
        let (mut parsed, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let Step::Whole(frame) = splitter.next(&bytes[at..]).map_err(Ended::Malformed)? else { break };
            at += frame.bytes().len();
            let error = match frame.tag() {
                front::PARSE => {
                    let parse = Parse::read(&frame).map_err(Ended::Malformed)?;
                    parsed.push(parse.name);
                    let prepared = self.prepared(&parse);
                    self.parse_error(&prepared).await?
                }
                front::BIND => {
                    let name = Bind::read(&frame).map_err(Ended::Malformed)?.statement;
                    let is_known = parsed.contains(&name) || self.line.statements.get(name).is_some();
                    if is_known { None } else { self.no_such_statement(name).await? }
                }
                _ => None,
            };
            if error.is_some() {
                return Ok(error);
            }
        }
        Ok(None)
    }

    /// The reason why a prepared statement that is not followed is not executed.
    pub(super) async fn not_followed(&mut self, name: &[u8]) -> No {
        match self.no_such_statement(name).await {
            Ok(Some(error)) => No::Failed(error),
            Ok(None) => refused(
                "unknown_statement",
                "the prepared statement is unknown to Consort",
                "Parse it again.",
            ),
            Err(ended) => No::Ended(ended),
        }
    }

    /// The primary's error about a prepared statement that it does not have. In a block, the error fails the
    /// block.
    pub(super) async fn no_such_statement(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, Ended> {
        self.line.primary.own_error();
        self.line.primary.ask_described(name);
        self.line.settled().await?;
        Ok(self.line.primary.own_error())
    }
}
