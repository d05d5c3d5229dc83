//! The log of DDL commands, for replicas that run them. This log exists only where logical replicas are fed.

use super::open_transactions::{Patience, Scope, wait_for_older};
use super::{Unproven, in_short};
use crate::Error;
use crate::address::Control;
use crate::objects::COMMAND_TABLE;

/// SQL of the functions that inspect a DDL command's effects: the same at the primary and at a replica that
/// runs it.
pub const LOOK_FUNCTIONS: &str = include_str!("look.sql");

/// Handling of DDL that is known, before it runs, not to run at replicas with the same effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnreplicableDdl {
    /// The DDL runs, and the replicas are copied again.
    #[default]
    Copy,
    /// The DDL is refused at the primary for every role: 0A000.
    Refuse,
}

impl UnreplicableDdl {
    fn is_refused(self) -> bool {
        self == Self::Refuse
    }
}

/// Makes the attached database of this connection log the details of every DDL command that a replica needs
/// to run it too. May be repeated; [`super::detach`] removes it. DDL commands become slower, and their
/// sessions keep three settings (`consort.author`, `consort.rewritten`, `consort.grants`) to the end of their
/// transactions.
///
/// # Errors
/// As [`super::attach_patiently`].
pub async fn log_commands(
    control: &Control,
    unreplicable: UnreplicableDdl,
    patience: &Patience<'_>,
) -> Result<(), Error> {
    let log = CommandLog::make(control, unreplicable).await?;
    log.wait(control, patience).await?;
    log.finish(control).await
}

/// A log of commands in the making, in the steps of [`log_commands`]: only the first and the last one write.
#[must_use = "it counts once it is finished"]
pub struct CommandLog(Option<Unproven>);

impl CommandLog {
    /// Makes the log and its triggers.
    ///
    /// # Errors
    /// [`Error::Refused`] if the role may not, or something held the catalogs locked for two seconds.
    pub async fn make(control: &Control, unreplicable: UnreplicableDdl) -> Result<CommandLog, Error> {
        let unproven = match logs_commands(control).await? {
            true => None,
            false => Some(Unproven::new(control, COMMAND_TABLE).await?),
        };
        let refuses = format!(
            "CREATE OR REPLACE FUNCTION consort.refuses_unreplicable() RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT {}';",
            unreplicable.is_refused()
        );
        let mark = unproven.as_ref().map(Unproven::mark).unwrap_or_default();
        let made = [&refuses, LOOK_FUNCTIONS, include_str!("commands.sql"), &mark].concat();
        in_short(control, &made).await?;
        Ok(CommandLog(unproven))
    }

    /// Waits for the commands that began before: they are not in the log, nor in a copy of the database that
    /// is made now.
    ///
    /// # Errors
    /// [`Error::NotReady`] with the transactions that are still open at the limit.
    pub async fn wait(&self, control: &Control, patience: &Patience<'_>) -> Result<(), Error> {
        match self.0 {
            Some(_) => wait_for_older(control, Scope::Database, patience).await,
            None => Ok(()),
        }
    }

    /// Notes that older commands have ended: the log is complete from now on.
    ///
    /// # Errors
    /// As [`CommandLog::make`].
    pub async fn finish(self, control: &Control) -> Result<(), Error> {
        match self.0 {
            Some(unproven) => in_short(control, &unproven.clear()).await.map(drop),
            None => Ok(()),
        }
    }
}

/// Returns true if the database logs its DDL commands completely.
///
/// # Errors
/// As every query.
pub async fn logs_commands(control: &Control) -> Result<bool, Error> {
    Ok(control.query_one(COMPLETE, &[]).await?.get(0))
}

/// Makes the database log commands, with this handling of those that replicas cannot run, if it does not
/// already.
///
/// # Errors
/// As [`log_commands`].
pub async fn keep_logging_commands(
    control: &Control,
    unreplicable: UnreplicableDdl,
    patience: &Patience<'_>,
) -> Result<(), Error> {
    let is_so = logs_commands(control).await?
        && control.query_one("SELECT consort.refuses_unreplicable()", &[]).await?.get::<_, bool>(0)
            == unreplicable.is_refused();
    if is_so { Ok(()) } else { log_commands(control, unreplicable, patience).await }
}

const COMPLETE: &str = "\
    SELECT count(*) = 6 AND to_regprocedure('consort.refuses_unreplicable()') IS NOT NULL AND coalesce( \
      obj_description(to_regprocedure('consort.look(oid, oid)'), 'pg_proc') = 'Consort: look 6', false) \
      AND NOT coalesce(obj_description(to_regclass('consort.command'), 'pg_class') \
        LIKE 'Consort: older commands may go on%', false) \
    FROM pg_event_trigger \
    WHERE evtenabled = 'A' AND evtfoid IN (to_regproc('consort.note_author'), to_regproc('consort.note_step')) \
      AND evtname IN ('consort_author_begins', 'consort_author_ended', 'consort_command_begins', \
        'consort_command_ended', 'consort_command_dropped', 'consort_command_rewrites')";
