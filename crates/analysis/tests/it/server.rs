//! A PostgreSQL server of the test's own, and connections that hear what a Parse says of a statement.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A server in a folder of its own, listening on a socket there. Both end with the value; the server also ends with the
/// test's process.
pub(crate) struct Server {
    folder: PathBuf,
    process: Child,
}

impl Server {
    /// Makes and starts one.
    pub(crate) fn start() -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("consort-analysis-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        if is_root() {
            let (user, group) = account();
            std::os::unix::fs::chown(&folder, Some(user), Some(group)).unwrap();
        }
        let data = folder.join("data");
        let mut initdb = program("initdb");
        let made = initdb
            .args(["-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
            .arg(&data);
        let made = made.stdout(Stdio::null()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(&folder);
        for setting in
            ["listen_addresses=", "fsync=off", "autovacuum=off", "max_wal_senders=0", "wal_level=minimal"]
        {
            postgres.args(["-c", setting]);
        }
        let mut process = postgres.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = |line: &std::io::Result<String>| {
            line.as_ref().is_ok_and(|line| line.contains("database system is ready to accept connections"))
        };
        assert!(log.any(|line| ready(&line)), "the server ended before it was ready");
        // A pipe that nobody reads would stop the server.
        std::thread::spawn(move || log.for_each(drop));
        Server { folder, process }
    }

    /// The socket that it listens on.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// A connection.
    pub(crate) async fn connect(&self, user: &str) -> Analyst {
        Analyst::connect(&self.folder, user)
            .await
            .unwrap_or_else(|error| panic!("{user}: {}", describe(&error)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once, but so that it takes its shared memory away.
        let quit = Command::new("kill").args(["-QUIT", &self.process.id().to_string()]).status();
        if !quit.is_ok_and(|done| done.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection.
pub(crate) struct Analyst {
    client: Client,
    trees: mpsc::UnboundedReceiver<String>,
}

impl Analyst {
    async fn connect(folder: &Path, user: &str) -> Result<Analyst, tokio_postgres::Error> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(folder).user(user).dbname("postgres");
        let (client, mut connection) = config.connect(NoTls).await?;
        let (sender, trees) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notice(notice) = message
                    && notice.message() == "rewritten parse tree:"
                {
                    let _ = sender.send(notice.detail().unwrap_or("").to_owned());
                }
            }
        });
        Ok(Analyst { client, trees })
    }

    /// From now on the server tells what it makes of every statement.
    pub(crate) async fn listen(&mut self) {
        let settings = "SET client_min_messages = log; SET debug_print_rewritten = on; SET debug_pretty_print = off; SET log_min_messages = fatal";
        self.run(settings).await;
    }

    /// Runs statements of which no answer is wanted.
    pub(crate) async fn run(&mut self, sql: &str) {
        self.try_run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// As [`Analyst::run`], if it may fail.
    pub(crate) async fn try_run(&mut self, sql: &str) -> Result<(), String> {
        self.client.batch_execute(sql).await.map_err(|error| describe(&error))
    }

    /// Runs a query and gives its rows as text.
    pub(crate) async fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.try_rows(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// As [`Analyst::rows`], if it may fail.
    pub(crate) async fn try_rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let messages = self.client.simple_query(sql).await.map_err(|error| describe(&error))?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows
            .map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            .collect())
    }

    /// What a mere Parse of this statement says.
    pub(crate) async fn trees(&mut self, sql: &str) -> Result<String, String> {
        while self.trees.try_recv().is_ok() {}
        self.client.prepare(sql).await.map_err(|error| describe(&error))?;
        self.trees.try_recv().map_err(|_| "the server said nothing".to_owned())
    }
}

fn describe(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// A program of the server: not as root, which it refuses, and ending with its parent.
fn program(name: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if is_root() {
        let (user, group) = account();
        command.args([format!("--reuid={user}"), format!("--regid={group}")]).arg("--clear-groups");
    }
    command.arg(format!("{PROGRAMS}/{name}")).current_dir("/").process_group(0);
    command
}

fn is_root() -> bool {
    id(&["-u"]) == 0
}

fn account() -> (u32, u32) {
    (id(&["-u", "postgres"]), id(&["-g", "postgres"]))
}

fn id(arguments: &[&str]) -> u32 {
    let output = Command::new("id").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().expect("id prints a number")
}
