//! The run-book "Fail-over by hand" of docs/operate/failover.md: each of its commands as it stands there, with real servers.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use local_cluster::{Node, Stop};
use postgres::programs::Programs;
use testkit::Scratch;

use crate::fixture::{CONSORT, Done, LIMIT, Serving, eventually, free_port, run, temporary};
use crate::load::{ANYWHERE, Client, Console, READ_QUIET, TABLES};

const BOOK: &str = include_str!("../../../../docs/operate/failover.md");

/// The servers by the names that the run-book gives to them.
struct Book {
    servers: Arc<Scratch>,
    folder: std::path::PathBuf,
    commands: std::vec::IntoIter<&'static str>,
}

impl Book {
    fn open(servers: Arc<Scratch>) -> Book {
        let (_, section) = BOOK.split_once("### Fail-over by hand\n").expect("the section is there");
        let (section, _) = section.split_once("\n## ").expect("it ends");
        let commands: Vec<&str> =
            tidy::documents::fenced(section, "sh").into_iter().map(|(_, command)| command).collect();
        let folder = temporary("book");
        std::fs::create_dir(&folder).expect("a temporary folder can be made");
        Book { servers, folder, commands: commands.into_iter() }
    }

    fn nodes(&self) -> [(&'static str, &Node); 3] {
        [("a", self.servers.primary()), ("b", self.servers.standby(0)), ("c", self.servers.standby(1))]
    }

    /// Writes the configuration: the first of these is the primary.
    fn configure(&self, port: u16, names: &[&str]) -> String {
        let mut text = format!("listen = [\"127.0.0.1:{port}\"]\nauth_type = \"trust\"\n{ANYWHERE}\n");
        for (place, name) in names.iter().enumerate() {
            let (_, node) = self.nodes().into_iter().find(|(known, _)| known == name).expect("one of three");
            let table = if place == 0 { "[primary]" } else { "[[standby]]" };
            let host = node.socket_folder().display();
            text += &format!("{table}\nname = \"{name}\"\nhost = \"{host}\"\nport = {}\n", node.port());
        }
        std::fs::write(self.folder.join("consort.toml"), &text).expect("it can be written");
        text
    }

    /// Runs the commands up to and with the first that begins so.
    fn follow_to(&mut self, last: &str) -> Done {
        loop {
            let command = self.commands.next().unwrap_or_else(|| panic!("no {last} in the run-book"));
            let done = self.run(command);
            assert!(done.status.success(), "{command}: {done:?}");
            if command.starts_with(last) {
                return done;
            }
        }
    }

    /// As the servers' system user; Consort's own commands as ourselves.
    fn run(&self, text: &str) -> Done {
        let programs = Programs::find().expect("PostgreSQL is installed");
        let consort = Path::new(CONSORT).parent().expect("a program lies in a folder");
        let old = std::env::var_os("PATH").unwrap_or_default();
        let path =
            [consort, programs.folder()].map(Path::to_owned).into_iter().chain(std::env::split_paths(&old));
        let path = std::env::join_paths(path).expect("no folder has a colon in its name");
        let mut command = if text.starts_with("consort") {
            let mut command = Command::new("sh");
            command.current_dir(&self.folder);
            command
        } else {
            programs.account().command(Path::new("/bin/sh"))
        };
        command.env("PATH", path).args(["-c", text]);
        command.env("kept", self.servers.primary().log_folder().join("kept"));
        for (name, node) in self.nodes() {
            let (host, port) = (node.socket_folder().display(), node.port());
            command.env(name, format!("host={host} port={port} user=postgres dbname=postgres"));
            command.env(format!("{name}_data"), node.data_folder());
        }
        run(&mut command)
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Reads are right, and run at this standby.
fn reads_at(serving: &Serving, standby: &str) {
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let mut client = Client::connect(&serving.url("postgres", "postgres")).expect("a log-in");
    eventually("reads at a standby", || {
        assert_eq!(client.one(READ_QUIET).expect("an answer"), "7");
        console.node(standby).served > 0
    });
}

/// The old primary has committed what no standby received. It comes back by pg_rewind, and serves reads again.
#[test]
fn fail_over_by_hand_follows_the_run_book() {
    let mut options = Scratch::options();
    options.standbys = 2;
    for (name, value) in [("wal_log_hints", "on"), ("wal_keep_size", "256MB")] {
        options.settings.push((name.to_owned(), value.to_owned()));
    }
    let servers = Arc::new(Scratch::with(options));
    let mut book = Book::open(servers.clone());
    let port = free_port();
    let text = book.configure(port, &["a", "b", "c"]);
    let mut serving = Serving::configured(servers.clone(), port, 0, &text);
    Client::connect(&serving.url("postgres", "postgres")).unwrap().rows(TABLES).unwrap();
    reads_at(&serving, "c");
    servers.catch_up(LIMIT);
    for standby in servers.cluster().standbys() {
        standby.set("primary_conninfo", "").unwrap();
        let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
        eventually("no receiver", || {
            standby.query("postgres", receivers).unwrap()[0][0].as_deref() == Some("0")
        });
    }
    servers.query("UPDATE quiet SET v = 666");

    book.follow_to("pg_ctl stop");
    book.follow_to("psql \"$c\" -c \"ALTER SYSTEM");
    serving.signal("TERM");
    assert!(serving.ended().success());
    let text = book.configure(port, &["b", "c"]);
    book.follow_to("consort check");
    std::fs::write(&serving.config_file, text).unwrap();
    serving.start_again();
    reads_at(&serving, "c");

    book.follow_to("pg_ctl start -D \"$a_data\"");
    let text = book.configure(port, &["b", "c", "a"]);
    book.follow_to("consort check");
    assert!(book.commands.next().is_none(), "the run-book goes on");
    serving.signal("TERM");
    assert!(serving.ended().success());
    std::fs::write(&serving.config_file, text).unwrap();
    serving.start_again();
    reads_at(&serving, "a");
    // A command started it: it is not this process's child.
    servers.primary().stop(Stop::Fast).unwrap();
}
