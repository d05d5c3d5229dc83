//! The log of DDL commands, for replicas that run them: made where replicas are fed, only there.

use super::{in_short, wait_for_older};
use crate::Error;
use crate::address::Control;

/// What becomes of DDL that is known, before it runs, not to run at replicas with the same effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnreplicableDdl {
    /// It runs, and the replicas are copied anew.
    #[default]
    Copy,
    /// It is refused at the primary, whoever runs it: 0A000.
    Refuse,
}

impl UnreplicableDdl {
    fn is_refused(self) -> bool {
        self == Self::Refuse
    }
}

/// Lets the attached database of this connection log of every DDL command what a replica needs to run it too. May be
/// repeated; [`super::detach`] removes it. It makes every DDL command dearer, and its sessions keep three settings
/// (`consort.author`, `consort.rewritten`, `consort.grants`) to the end of their transactions.
///
/// # Errors
/// As [`super::attach`].
pub async fn log_commands(control: &Control, unreplicable: UnreplicableDdl) -> Result<(), Error> {
    let anew = !logs_commands(control).await?;
    let refuses = format!(
        "CREATE OR REPLACE FUNCTION consort.refuses_unreplicable() RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT {}';",
        unreplicable.is_refused()
    );
    in_short(control, &[&refuses, include_str!("look.sql"), include_str!("commands.sql")].concat()).await?;
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

/// Sees to it that the database logs commands, and that this becomes of those which replicas cannot run.
///
/// # Errors
/// As [`log_commands`].
pub async fn keep_logging_commands(control: &Control, unreplicable: UnreplicableDdl) -> Result<(), Error> {
    let is_so = logs_commands(control).await?
        && control.query_one("SELECT consort.refuses_unreplicable()", &[]).await?.get::<_, bool>(0)
            == unreplicable.is_refused();
    if is_so { Ok(()) } else { log_commands(control, unreplicable).await }
}

const COMPLETE: &str = "\
    SELECT count(*) = 6 AND to_regprocedure('consort.refuses_unreplicable()') IS NOT NULL AND coalesce( \
      obj_description(to_regprocedure('consort.look(oid, oid)'), 'pg_proc') = 'Consort: look 6', false) \
    FROM pg_event_trigger \
    WHERE evtenabled = 'A' AND evtfoid IN (to_regproc('consort.note_author'), to_regproc('consort.note_step')) \
      AND evtname IN ('consort_author_begins', 'consort_author_ended', 'consort_command_begins', \
        'consort_command_ended', 'consort_command_dropped', 'consort_command_rewrites')";
