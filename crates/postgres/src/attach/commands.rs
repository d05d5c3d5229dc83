//! The log of DDL commands, for replicas that run them: made where replicas are fed, only there.

use super::{in_short, wait_for_older};
use crate::Error;
use crate::address::Control;

/// Lets the attached database of this connection log of every DDL command what a replica needs to run it too. May be
/// repeated; [`super::detach`] removes it. It makes every DDL command dearer, and its sessions keep two settings
/// (`consort.author`, `consort.rewritten`) to the end of their transactions.
///
/// # Errors
/// As [`super::attach`].
pub async fn log_commands(control: &Control) -> Result<(), Error> {
    let anew = !logs_commands(control).await?;
    in_short(control, concat!(include_str!("look.sql"), include_str!("commands.sql"))).await?;
    if anew {
        // What they ran before is not in the log, nor is it in a copy of the database that is made now.
        wait_for_older(control).await?;
    }
    Ok(())
}

/// Whether it does.
///
/// # Errors
/// As every query.
pub async fn logs_commands(control: &Control) -> Result<bool, Error> {
    Ok(control.query_one(COMPLETE, &[]).await?.get(0))
}

const COMPLETE: &str = "\
    SELECT count(*) = 6 AND coalesce( \
      obj_description(to_regprocedure('consort.look(oid, oid)'), 'pg_proc') = 'Consort: look 3', false) \
    FROM pg_event_trigger \
    WHERE evtenabled = 'A' AND evtfoid IN (to_regproc('consort.note_author'), to_regproc('consort.note_step')) \
      AND evtname IN ('consort_author_begins', 'consort_author_ended', 'consort_command_begins', \
        'consort_command_ended', 'consort_command_dropped', 'consort_command_rewrites')";
