//! Console and metrics page of a process whose database is at nodes of one kind, and its end.

use crate::process::{FAREWELL_LIMIT, LEFT_EVERY, Signals};
use crate::supervisor;
use admin::{console, http};
use config::Config;
use frontend::{Console, Door, Keeps, Soon};
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use wire::{Answers, Column, Problem};

/// Column names and lines of a SHOW command.
pub(crate) type Table = (&'static [&'static str], Vec<Vec<String>>);

/// State of the nodes, for the console and the metrics page.
pub(crate) trait ShowsNodes {
    /// The kind of cluster, for an error.
    const KIND: &'static str;
    /// Description of SHOW NODES.
    const HELP: &'static str;

    /// Commands of this kind of cluster alone, with their descriptions.
    const COMMANDS: &'static [(&'static str, &'static str)] = &[];

    /// The nodes.
    fn nodes(&self) -> Table;

    /// Runs one of [`ShowsNodes::COMMANDS`].
    fn run<'a>(&'a self, _command: &'static str) -> Soon<'a, Result<Table, Problem>> {
        Box::pin(async { Err(Problem::error("42601", "the command does not exist")) })
    }

    /// The page of metrics.
    fn metrics(&self) -> String;

    /// Why clients cannot be served now.
    fn not_ready(&self) -> Option<String>;
}

/// The console: SHOW NODES, SHOW VERSION, SHOW HELP, SHUTDOWN.
pub(crate) struct NodeConsole<T> {
    config: Rc<Config>,
    state: T,
    ending: Notify,
}

impl<T: ShowsNodes> NodeConsole<T> {
    pub(crate) fn new(config: &Rc<Config>, state: T) -> Rc<NodeConsole<T>> {
        Rc::new(NodeConsole { config: config.clone(), state, ending: Notify::new() })
    }

    /// The nodes.
    pub(crate) fn state(&self) -> &T {
        &self.state
    }

    /// Completes at SHUTDOWN.
    pub(crate) async fn told_to_end(&self) {
        self.ending.notified().await;
    }

    /// Completes at a signal to end, or SHUTDOWN.
    pub(crate) async fn asked_to_end(&self, signals: &mut Signals) {
        tokio::select! {
            () = signals.end() => {}
            () = self.told_to_end() => {}
        }
    }

    /// Lets open transactions end, but for a process that must stop.
    pub(crate) async fn end(&self, door: &Rc<Door>, signals: &mut Signals, at_once: bool) {
        let clients = door.registry.seats().len();
        tracing::info!(clients, "ending");
        supervisor::ends(clients);
        door.close(at_once);
        if !at_once {
            tokio::select! {
                () = self.empty(door, self.config.shutdown_drain_timeout) => {}
                () = self.asked_to_end(signals) => {}
            }
            door.close(true);
        }
        self.empty(door, FAREWELL_LIMIT).await;
        tracing::info!("ended");
    }

    /// Waits until the last client of a database has left.
    async fn empty(&self, door: &Door, limit: Duration) {
        let deadline = Instant::now() + limit;
        let waits = || door.registry.seats().iter().any(|seat| seat.database != self.config.console_database);
        while waits() && Instant::now() < deadline {
            sleep(LEFT_EVERY).await;
        }
    }

    /// Answers one command; an error ends the whole text.
    fn command(&self, command: &str, may_command: bool, out: &mut Vec<u8>) -> Result<(), Problem> {
        let words: Vec<String> = command.split_whitespace().map(str::to_ascii_uppercase).collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["SHOW", "NODES"] => rows(out, &self.state.nodes()),
            ["SHOW", "VERSION"] => {
                rows(out, &(&["version"], vec![vec![format!("Consort {}", env!("CARGO_PKG_VERSION"))]]));
            }
            ["SHOW", "HELP"] => {
                let commands = [
                    ("SHOW NODES", T::HELP),
                    ("SHOW VERSION", "the version of Consort"),
                    ("SHOW HELP", "this list"),
                    ("SHUTDOWN", "ends, when open transactions have ended"),
                ];
                let line = |(name, does): &(&str, &str)| vec![(*name).to_owned(), (*does).to_owned()];
                let lines = commands.iter().chain(T::COMMANDS).map(line).collect();
                rows(out, &(&["command", "description"], lines));
            }
            ["SHUTDOWN"] if may_command => {
                self.ending.notify_one();
                out.complete("SHUTDOWN");
            }
            ["SHUTDOWN"] => {
                return Err(not_admin());
            }
            _ => {
                let why = format!("unknown command \"{command}\" in {}", T::KIND);
                return Err(Problem::error("42601", why).hint("SHOW HELP lists the commands."));
            }
        }
        Ok(())
    }
}

impl<T: ShowsNodes> Console for NodeConsole<T> {
    fn admits(&self, user: &str) -> bool {
        console::rights(&self.config, user).is_some()
    }

    fn answer<'a>(
        &'a self,
        user: &'a str,
        text: &'a str,
        out: &'a mut Vec<u8>,
        _keeps: &'a mut Keeps,
    ) -> Soon<'a, ()> {
        Box::pin(async move {
            let may_command = console::rights(&self.config, user) == Some(console::Rights::Command);
            if console::commands(text).next().is_none() {
                return out.empty_query();
            }
            for command in console::commands(text) {
                let words =
                    command.split_whitespace().map(str::to_ascii_uppercase).collect::<Vec<_>>().join(" ");
                if let Some((own, _)) = T::COMMANDS.iter().find(|(own, _)| *own == words) {
                    if !may_command && !own.starts_with("SHOW") {
                        return out.problem(&not_admin());
                    }
                    match self.state.run(own).await {
                        Ok((&[], _)) => out.complete(own),
                        Ok(table) => rows(out, &table),
                        Err(problem) => return out.problem(&problem),
                    }
                    continue;
                }
                if let Err(problem) = self.command(command, may_command, out) {
                    return out.problem(&problem);
                }
            }
        })
    }
}

impl<T: ShowsNodes> http::Pages for NodeConsole<T> {
    fn metrics(&self) -> String {
        self.state.metrics()
    }

    fn not_ready(&self) -> Option<String> {
        self.state.not_ready()
    }
}

fn not_admin() -> Problem {
    Problem::error("42501", "admin access needed: only admin_users may command")
}

fn rows(out: &mut Vec<u8>, (columns, lines): &Table) {
    out.row_description(&columns.iter().map(|name| Column::text(name)).collect::<Vec<_>>());
    for line in lines {
        out.data_row(&line.iter().map(|value| Some(value.as_bytes())).collect::<Vec<_>>());
    }
    out.complete("SHOW");
}

/// Name, kind, help and value of a metric of one item.
pub(crate) type Family<T> = (&'static str, &'static str, &'static str, fn(&T) -> u64);

/// Metrics of items, each with its labels, in the text format of Prometheus.
pub(crate) fn page<T>(items: &[T], labels: impl Fn(&T) -> String, families: &[Family<T>]) -> String {
    let mut page = String::new();
    for (name, kind, help, value) in families {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for one in items {
            let _ = writeln!(page, "{name}{{{}}} {}", labels(one), value(one));
        }
    }
    page
}
