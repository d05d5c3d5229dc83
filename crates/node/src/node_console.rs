//! Console and metrics page of a process whose database is at nodes of one kind, and its end.

use crate::open_files;
use crate::process::{Event, FAREWELL_LIMIT, LEFT_EVERY, Signals, renewed_door};
use crate::start::LogLevel;
use crate::supervisor;
use admin::{console, http};
use config::{Config, in_one};
use frontend::{Console, Door, Keeps, Soon};
use std::cell::RefCell;
use std::fmt::Write;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
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

    /// Takes over what a new reading of the configuration changes at the nodes.
    ///
    /// # Errors
    /// The new one does not fit: a sentence for a person.
    fn renew(&self, _config: &Config) -> Result<(), String> {
        Ok(())
    }

    /// The page of metrics.
    fn metrics(&self) -> String;

    /// Why clients cannot be served now.
    fn not_ready(&self) -> Option<String>;
}

/// The console: SHOW NODES, SHOW VERSION, SHOW HELP, RELOAD, SHUTDOWN.
pub(crate) struct NodeConsole<T> {
    config: RefCell<Rc<Config>>,
    config_file: Option<PathBuf>,
    log_level: LogLevel,
    door: Weak<Door>,
    state: T,
    ending: Notify,
}

impl<T: ShowsNodes + 'static> NodeConsole<T> {
    /// The console of this frontend, which has it from now on.
    pub(crate) fn new(
        config: &Rc<Config>,
        (config_file, log_level): (Option<PathBuf>, LogLevel),
        door: &Rc<Door>,
        state: T,
    ) -> Rc<NodeConsole<T>> {
        let console = Rc::new(NodeConsole {
            config: RefCell::new(config.clone()),
            config_file,
            log_level,
            door: Rc::downgrade(door),
            state,
            ending: Notify::new(),
        });
        *door.console.borrow_mut() = Some(console.clone());
        console
    }

    fn config(&self) -> Rc<Config> {
        self.config.borrow().clone()
    }

    /// Reads the configuration file again: the nodes, the secrets, certificate, rules and limits of clients, and who may
    /// use the console.
    fn reload(&self) -> Result<(), String> {
        let Some(file) = &self.config_file else { return Err("no configuration file".to_owned()) };
        let Some(door) = self.door.upgrade() else { return Ok(()) };
        let mut config = Config::read(file).map_err(|mistakes| in_one(&mistakes))?;
        let running = self.config();
        let is_kind = |config: &Config| (config.design().is_certified(), config.design().is_memory_tier());
        if is_kind(&config) != is_kind(&running) {
            return Err("the configuration has a design of another kind".to_owned());
        }
        let need_a_start = running.changed_until_start(&config);
        let same_rules = config.auth_type == running.auth_type;
        config.until_start(&running)?;
        open_files::bound(&mut config);
        let renew_door = renewed_door(&config, same_rules)?;
        self.state.renew(&config)?;
        renew_door(&door);
        (self.log_level)(&config.log_level);
        *self.config.borrow_mut() = Rc::new(config);
        tracing::info!(file = %file.display(), "configuration reloaded");
        if !need_a_start.is_empty() {
            tracing::warn!(keys = need_a_start.join(", "), "changed settings take effect after a restart");
        }
        Ok(())
    }

    /// Completes at a signal to end, or SHUTDOWN. Meanwhile a SIGHUP has the configuration read again.
    pub(crate) async fn asked_to_end(&self, signals: &mut Signals) {
        loop {
            tokio::select! {
                event = signals.next() => match event {
                    Event::End => return,
                    Event::HangUp => {
                        if let Err(why) = self.reload() {
                            tracing::error!(why, "cannot reload the configuration");
                        }
                    }
                },
                () = self.ending.notified() => return,
            }
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
                () = self.empty(door, self.config().shutdown_drain_timeout) => {}
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
        let own = &self.config().console_database;
        let waits = || door.registry.seats().iter().any(|seat| seat.database != *own);
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
                    (
                        "RELOAD",
                        "reads the configuration file again: nodes, secrets, rules and limits of clients",
                    ),
                    ("SHUTDOWN", "ends, when open transactions have ended"),
                ];
                let line = |(name, does): &(&str, &str)| vec![(*name).to_owned(), (*does).to_owned()];
                let lines = commands.iter().chain(T::COMMANDS).map(line).collect();
                rows(out, &(&["command", "description"], lines));
            }
            ["RELOAD"] if may_command => {
                self.reload().map_err(|why| Problem::error("F0000", why))?;
                out.complete("RELOAD");
            }
            ["SHUTDOWN"] if may_command => {
                self.ending.notify_one();
                out.complete("SHUTDOWN");
            }
            ["RELOAD" | "SHUTDOWN"] => {
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

impl<T: ShowsNodes + 'static> Console for NodeConsole<T> {
    fn admits(&self, user: &str) -> bool {
        console::rights(&self.config(), user).is_some()
    }

    fn answer<'a>(
        &'a self,
        user: &'a str,
        text: &'a str,
        out: &'a mut Vec<u8>,
        _keeps: &'a mut Keeps,
    ) -> Soon<'a, ()> {
        Box::pin(async move {
            let may_command = console::rights(&self.config(), user) == Some(console::Rights::Command);
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
