//! The replica's answers to a batch, and the errors in them.

use super::Error;
use super::script::{About, Check};
use postgres::link::{Link, Said};
use postgres_protocol::message::backend::Message;
use std::collections::{BTreeSet, VecDeque};

/// A statement that did not do what it should.
pub(super) struct Wrong {
    pub(super) about: About,
    /// The server's answer. Nothing if it was the number of rows.
    pub(super) said: Option<Said>,
}

/// Reads the answers of a batch; what is wrong first, if anything is.
pub(super) async fn answers(link: &mut Link, checks: &mut VecDeque<Check>) -> Result<Option<Wrong>, Error> {
    let mut wrong = None;
    let take = |message| {
        if let Message::CommandComplete(body) = message {
            let Some(Check { rows, about }) = checks.pop_front() else {
                return Err(postgres::Error::Protocol("unexpected extra answer".to_owned()));
            };
            let touched = body.tag()?.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
            if rows.is_some() && touched != rows && wrong.is_none() {
                wrong = Some(Wrong { about, said: None });
            }
        }
        Ok(())
    };
    if let Some(said) = link.answer(take).await? {
        let about = checks.pop_front().map_or(About::Transaction, |check| check.about);
        return Ok(Some(wrong.unwrap_or(Wrong { about, said: Some(said) })));
    }
    if !checks.is_empty() {
        return Err(Error::stream("the replica sent fewer answers than statements".to_owned()));
    }
    Ok(wrong)
}

/// Table of an error that may pass if the changes of this table are applied one by one. Other errors are
/// returned.
pub(super) fn may_be_tried_again(
    about: About,
    said: Option<&Said>,
    one_by_one: &BTreeSet<u32>,
) -> Result<u32, Error> {
    let (table, key) = match (about, said) {
        (About::Rows(table, key), _) => (table, key),
        (About::Position, None) => return Err(Error::Moved),
        (_, Some(said)) => return Err(said.error.clone().into()),
        (About::Transaction | About::Rerun, None) => {
            return Err(Error::stream("the replica's answers do not match the statements".to_owned()));
        }
    };
    let sqlstate = said.and_then(|said| match &said.error {
        postgres::Error::Refused { sqlstate, .. } => Some(sqlstate.as_str()),
        _ => None,
    });
    // Data that do not fit, constraints; what is broken there: a page, an index, a file that is gone. Everything else passes.
    if let (Some(said), Some(sqlstate)) = (said, sqlstate)
        && !["22", "23", "XX", "58P01"].iter().any(|class| sqlstate.starts_with(class))
    {
        return Err(said.error.clone().into());
    }
    if !one_by_one.contains(&table.number) {
        return Ok(table.number);
    }
    let key = key.map(|key| format!(" {key}")).unwrap_or_default();
    let what = match said {
        None => format!("the row{key} is missing or exists more than once"),
        Some(said) => format!("the row{key} is refused: {} {}", said.error, said.detail),
    };
    Err(Error::Diverged { table: table.shown.clone(), what: what.trim_end().to_owned() })
}
