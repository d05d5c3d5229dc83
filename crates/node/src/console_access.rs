//! The console behind the door: texts of the protocol in, answers of the protocol out, and the commands that change
//! something done.

use std::rc::Rc;

use postgres::address::Control;
use postgres::attach;
use wire::{Answers, Problem, Severity};

use crate::console::{self, Change, Command, Kind, Reply, Rights, Table};
use crate::door::{Console, Soon};
use crate::follow::answered;
use crate::process::Process;
use crate::shown::Shown;
use crate::verify;

struct Access(Rc<Process>);

/// How a command was done.
enum Done {
    Quietly,
    /// The user should know this besides.
    Saying(String),
    Finding(Table),
}

/// Opens the console of this process.
pub(crate) fn open(process: &Rc<Process>) {
    *process.door.console.borrow_mut() = Some(Rc::new(Access(process.clone())));
}

impl Console for Access {
    fn admits(&self, user: &str) -> bool {
        console::rights(&self.0.config(), user).is_some()
    }

    fn answer<'a>(&'a self, user: &'a str, text: &'a str, out: &'a mut Vec<u8>) -> Soon<'a, ()> {
        Box::pin(async move {
            let Some(rights) = console::rights(&self.0.config(), user) else {
                return out.problem(&Problem::error("42501", "this role may not use the console any more"));
            };
            if console::commands(text).next().is_none() {
                return out.empty_query();
            }
            for command in console::commands(text) {
                if !self.obey(command, rights, out).await {
                    return;
                }
            }
        })
    }
}

impl Access {
    /// Answers one command; `false` after an error, which ends the whole text.
    async fn obey(&self, command: &str, rights: Rights, out: &mut Vec<u8>) -> bool {
        match console::answer(command, rights, &Shown::of(&self.0)) {
            Reply::Rows(table) => {
                rows(&table, out);
                out.complete("SHOW");
            }
            Reply::Do(command) => {
                if let Some(refusal) = self.no_database(&command).await {
                    out.problem(&refusal);
                    return false;
                }
                match self.act(&command).await {
                    Ok(Done::Quietly) => {}
                    Ok(Done::Saying(notice)) => {
                        out.problem(&Problem {
                            severity: Severity::Notice,
                            ..Problem::error("01000", notice)
                        });
                    }
                    Ok(Done::Finding(table)) => rows(&table, out),
                    Err(why) => {
                        out.problem(&Problem::error("F0000", why));
                        return false;
                    }
                }
                out.complete(command.tag());
            }
            Reply::Refused(refusal) => {
                out.problem(&Problem::error(refusal.sqlstate, refusal.message).hint(refusal.hint));
                return false;
            }
        }
        true
    }

    /// Why nothing can be paused or resumed, if neither we nor the primary have the database. A primary that does not
    /// answer may have any.
    async fn no_database(&self, command: &Command) -> Option<Problem> {
        let (Command::Pause(Some(name)) | Command::Resume(Some(name))) = command else { return None };
        let Process { door, cluster, .. } = &*self.0;
        if cluster.knows(name) || door.pauses.holds(name) {
            return None;
        }
        let asked = async {
            let control = Control::connect(&cluster.setup().primary).await?;
            attach::databases(&control).await
        };
        let there = answered(asked).await.ok()?;
        (!there.contains(name))
            .then(|| Problem::error("3D000", format!("there is no database \"{name}\"")))
            .map(|problem| problem.hint("SHOW DATABASES lists those that are in use."))
    }

    /// Does it.
    async fn act(&self, command: &Command) -> Result<Done, String> {
        match command {
            Command::Reload => {
                let keys = self.0.reload()?;
                let notice = || format!("these keys count from the next start: {}", keys.join(", "));
                return Ok(if keys.is_empty() { Done::Quietly } else { Done::Saying(notice()) });
            }
            Command::Pause(database) => {
                let limit = self.0.config().drain_time;
                self.0.door.pause(database.as_deref(), limit).await?;
            }
            Command::Resume(database) => self.0.door.resume(database.as_deref()),
            Command::Replica(change, name) => self.change(*change, name).await?,
            Command::Verify { database, repair } => {
                let lines = verify::verify(&self.0, database.as_deref(), *repair).await?;
                return Ok(Done::Finding(console::verify::table(lines)));
            }
            Command::Shutdown => self.0.shut_down(),
        }
        Ok(Done::Quietly)
    }

    /// Does it with the replica of this name.
    async fn change(&self, change: Change, name: &str) -> Result<(), String> {
        let cluster = &self.0.cluster;
        let id = cluster.fed_named(name).ok_or_else(|| format!("there is no replica \"{name}\""))?;
        match change {
            Change::Pause => cluster.pause_replica(id),
            Change::Resume => {
                cluster.resume_replica(id);
                cluster.goes_on(id).await;
            }
            Change::Rebuild => cluster.rebuild_replica(id),
        }
        Ok(())
    }
}

/// Writes rows with their columns.
fn rows(table: &Table, out: &mut Vec<u8>) {
    let column = |column: &console::Column| match column.kind {
        Kind::Text => wire::Column::text(column.name),
        Kind::Number => wire::Column::bigint(column.name),
    };
    out.row_description(&table.columns.iter().map(column).collect::<Vec<_>>());
    for row in &table.rows {
        let values: Vec<Option<&[u8]>> =
            row.iter().map(|value| value.as_deref().map(str::as_bytes)).collect();
        out.data_row(&values);
    }
}
