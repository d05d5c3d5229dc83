//! The console at the frontend: texts of the protocol in, answers of the protocol out, and the commands that
//! change something done.

use std::rc::Rc;
use std::time::Duration;

use postgres::address::Control;
use postgres::attach;
use tokio::time::{Instant, sleep};
use wire::{Answers, Problem, Severity};

use crate::console_view::Shown;
use crate::process::Process;
use crate::verify;
use admin::console;
use admin::console::{Change, Command, Kind, Reply, Rights, Table};
use backend::servers::Servers;
use cluster::Awaited;
use cluster::trouble::answered;
use conn::registry::Seat;
use frontend::{Console, Keeps, Soon};

struct Access(Rc<Process>);

/// Interval of the check that the last connection is closed.
const CLOSED_EVERY: Duration = Duration::from_millis(5);

fn failed(why: String) -> Problem {
    Problem::error("F0000", why)
}

/// Result of a command.
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

    fn answer<'a>(
        &'a self,
        user: &'a str,
        text: &'a str,
        out: &'a mut Vec<u8>,
        keeps: &'a mut Keeps,
    ) -> Soon<'a, ()> {
        Box::pin(async move {
            let Some(rights) = console::rights(&self.0.config(), user) else {
                return out.problem(&Problem::error(
                    "42501",
                    "this role is no longer permitted to use the console",
                ));
            };
            if console::commands(text).next().is_none() {
                return out.empty_query();
            }
            for command in console::commands(text) {
                if !self.obey(command, rights, out, keeps).await {
                    return;
                }
            }
        })
    }
}

impl Access {
    /// Answers one command; `false` after an error, which ends the whole text.
    async fn obey(&self, command: &str, rights: Rights, out: &mut Vec<u8>, keeps: &mut Keeps) -> bool {
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
                match self.act(&command, keeps).await {
                    Ok(Done::Quietly) => {}
                    Ok(Done::Saying(notice)) => {
                        out.problem(&Problem {
                            severity: Severity::Notice,
                            ..Problem::error("01000", notice)
                        });
                    }
                    Ok(Done::Finding(table)) => rows(&table, out),
                    Err(refusal) => {
                        out.problem(&refusal);
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

    /// The error for a database that cannot be used: it is the console's own (in PgBouncer's words), or
    /// neither Consort nor the primary has it. A primary that does not answer may have any.
    async fn no_database(&self, command: &Command) -> Option<Problem> {
        let name = command.database()?;
        let Process { door, cluster, .. } = &*self.0;
        if name == self.0.config().console_database {
            let what = command.tag().to_ascii_lowercase();
            return Some(Problem::error("0A000", format!("cannot {what} admin db: {name}")));
        }
        if cluster.knows(name) || door.registry.pauses.holds(name) || door.is_disabled(name) {
            return None;
        }
        let asked = async {
            let control = Control::connect(&cluster.setup().primary).await?;
            attach::databases(&control).await
        };
        let there = answered(asked).await.ok()?;
        (!there.iter().any(|database| database == name))
            .then(|| Problem::error("3D000", format!("database \"{name}\" does not exist")))
            .map(|problem| problem.hint("SHOW DATABASES lists the databases in use."))
    }

    /// Does it.
    async fn act(&self, command: &Command, keeps: &mut Keeps) -> Result<Done, Problem> {
        let door = &self.0.door;
        match command {
            Command::Reload => {
                let keys = self.0.reload().map_err(failed)?;
                let notice = || format!("settings that take effect after a restart: {}", keys.join(", "));
                return Ok(if keys.is_empty() { Done::Quietly } else { Done::Saying(notice()) });
            }
            Command::Pause(database) => {
                let limit = self.0.config().shutdown_drain_timeout;
                door.pause(database.as_deref(), limit).await.map_err(failed)?;
                self.servers(|servers| servers.let_go(database.as_deref()));
            }
            Command::Suspend => door.suspend(self.0.config().shutdown_drain_timeout).await.map_err(failed)?,
            Command::Resume(Some(name)) if door.registry.pauses.all() => {
                let message = format!("all databases are paused; \"{name}\" cannot be resumed alone");
                return Err(Problem::error("55000", message)
                    .hint("Use RESUME without a name to resume all databases."));
            }
            Command::Resume(database) => door.resume(database.as_deref()),
            Command::Disable(database) => door.disable(database, true),
            Command::Enable(database) => door.disable(database, false),
            Command::Kill(database) => {
                let processes = door.kill(database.as_deref());
                self.0.end_at_primary(processes).await;
                self.reconnect(database.as_deref());
            }
            Command::KillClient(id) => match door.kill_client(*id) {
                Some(processes) => self.0.end_at_primary(processes).await,
                None => {
                    let problem = Problem::error("42704", format!("client {id} does not exist"));
                    return Err(problem.hint("SHOW CLIENTS lists clients with their ids."));
                }
            },
            Command::Reconnect(database) => self.reconnect(database.as_deref()),
            Command::WaitClose(database) => self.wait_close(database.as_deref()).await?,
            Command::Set { key, value } => {
                let set = self.0.set(key, value);
                set.map_err(|why| Problem::error(why.sqlstate, why.message).hint(why.hint))?;
            }
            Command::Replica(change, name) => self.change(*change, name).await.map_err(failed)?,
            Command::AddReplica { name, source } => keeps.push(Box::new(self.awaits(name, source)?)),
            Command::Verify { database, repair } => {
                let lines =
                    verify::verify(&self.0.cluster, &self.0.verification, database.as_deref(), *repair)
                        .await
                        .map_err(failed)?;
                return Ok(Done::Finding(console::verify::table(lines)));
            }
            Command::Shutdown(how) => self.0.shut_down(*how),
        }
        Ok(Done::Quietly)
    }

    /// Closes connections in this database, or in all, as soon as they are idle.
    fn reconnect(&self, database: Option<&str>) {
        self.servers(|servers| servers.reconnect(database));
        if let Some(service) = &*self.0.door.service.borrow() {
            service.pool.reconnect(database);
        }
    }

    fn servers(&self, act: impl FnOnce(&Servers)) {
        if let Some(service) = &*self.0.door.service.borrow() {
            act(&service.servers);
        }
    }

    /// Waits until every connection is closed that RECONNECT meant, at most for `shutdown_drain_timeout`.
    async fn wait_close(&self, database: Option<&str>) -> Result<(), Problem> {
        let limit = self.0.config().shutdown_drain_timeout;
        let deadline = Instant::now() + limit;
        loop {
            let is_one = |seat: &&Rc<Seat>| database.is_none_or(|name| seat.database == name);
            let open = self
                .0
                .door
                .registry
                .seats()
                .iter()
                .filter(is_one)
                .filter(|seat| self.0.is_outdated(seat))
                .count();
            if open == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                let why = format!("{open} connections are still open after {limit:?}");
                return Err(Problem::error("F0000", why)
                    .hint("SHOW SERVERS lists them with close_needed = 1; they close when their clients release them."));
            }
            sleep(CLOSED_EVERY).await;
        }
    }

    /// Has all kept that a copy of the source's server is going to lack, for a replica that joins under this name.
    fn awaits(&self, name: &str, source: &str) -> Result<Awaited, Problem> {
        let cluster = &self.0.cluster;
        let id = cluster.fed_named(source);
        let id = id.ok_or_else(|| failed(format!("replica \"{source}\" does not exist")))?;
        if !cluster.standby(id).tables.is_all() {
            let why = format!("replica \"{source}\" has only a part of the tables, and so would its copy");
            return Err(Problem::error("0A000", why).hint("Copy a replica with all tables."));
        }
        if let Some(database) = cluster.unserved(id) {
            let why = format!("replica \"{source}\" does not serve the database \"{database}\" now");
            return Err(Problem::error("55000", why).hint(
                "SHOW REPLICATION shows its state. Only a replica that is `serving` every database can be copied.",
            ));
        }
        Ok(cluster.awaits(name, id))
    }

    /// Does it with the replica of this name.
    async fn change(&self, change: Change, name: &str) -> Result<(), String> {
        let cluster = &self.0.cluster;
        let id = cluster.fed_named(name).ok_or_else(|| format!("replica \"{name}\" does not exist"))?;
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
