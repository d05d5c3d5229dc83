//! Requests of the simple protocol.

use super::Step;
use super::block::Kind;
use super::executor::Rows;
use super::session::Session;
use super::statements::Asked;
use crate::message::Failure;
use wire::Answers;

impl Session {
    /// Runs the statements of one text. Several of them are one transaction, unless they say otherwise.
    pub(super) async fn simple(&mut self, text: &str) -> Step<()> {
        self.names.end_unnamed();
        let statements = match self.executor.scheduler.statements(text) {
            Ok(statements) => statements,
            Err(failure) => return self.complain(&failure).await,
        };
        if statements.is_empty() {
            self.executor.client.out().empty_query();
            return Ok(());
        }
        let several = statements.len() > 1;
        let only_reads = statements.iter().all(|parsed| parsed.is_read());
        let mut rest = text;
        for (at, parsed) in statements.iter().enumerate() {
            let own = &parsed.statement.text;
            let before = rest.find(own.as_str()).map_or(rest, |place| &rest[..place]);
            let passed = text.len() - rest.len() + before.len();
            let asked = Asked { is_whole: !several, only_reads, ..Asked::plain(parsed) };
            let is_last = at + 1 == statements.len();
            match self.statement(&asked, is_last).await? {
                Ok(tag) if tag.is_empty() => self.executor.client.out().empty_query(),
                Ok(tag) => self.executor.client.out().complete(&tag),
                Err(failure) => {
                    return self.complain(&placed(failure, &text[..passed.min(text.len())])).await;
                }
            }
            rest = rest.get(before.len() + own.len()..).unwrap_or_default();
        }
        Ok(())
    }

    /// Runs one statement; behind the last one of a request its implicit transaction commits.
    async fn statement(&mut self, asked: &Asked, is_last: bool) -> super::Outcome<String> {
        let done = self.execute(asked, &mut Rows::default()).await?;
        let is_implicit = self.executor.block.as_ref().is_some_and(|block| block.kind == Kind::Implicit);
        if let (Ok(_), true, true) = (&done, is_last, is_implicit)
            && let Err(failure) = self.end_implicit().await?
        {
            return Ok(Err(failure));
        }
        Ok(done)
    }
}

/// The failure with its position in the whole text, after what stands before the statement.
fn placed(failure: Failure, before: &str) -> Failure {
    if failure.position == 0 {
        return failure;
    }
    let passed = u32::try_from(before.chars().count()).unwrap_or_default();
    Failure { position: failure.position.saturating_add(passed), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::answers::failure;

    #[test]
    fn positions_are_those_of_the_whole_text() {
        let at = |position| Failure { position, ..failure("42601", "", "") };
        assert_eq!(placed(at(3), "SELECT 'ä'; ").position, 15);
        assert_eq!(placed(at(0), "SELECT 1; ").position, 0);
    }
}
