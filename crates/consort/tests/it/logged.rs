//! Log lines of `serve` for the operator: misspelt settings, failed logins, a primary that is away.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use local_cluster::Stop;
use testkit::Scratch;

use crate::access::{CLEAR, KEYED, OLD, OWN, TYPED, by_tcp, demand, guarded};
use crate::fixture::{configuration, eventually, free_port, psql, run, serve, temporary};
use crate::serving::page_at;

/// `consort serve` whose log is read.
pub(crate) struct Logging {
    child: Child,
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
}

impl Logging {
    pub(crate) fn start(config_file: &std::path::Path) -> Logging {
        let mut child = serve(config_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let log = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let read = lines.clone();
        std::thread::spawn(move || {
            log.lines()
                .map_while(Result::ok)
                .for_each(|line| read.lock().expect("nobody panics with it").push(line));
        });
        Logging { child, lines }
    }

    /// The lines with these words, without their time.
    fn with(&self, words: &str) -> Vec<String> {
        let lines = self.lines.lock().expect("nobody panics with it");
        let behind = |line: &String| line[line.find(' ').unwrap_or(0)..].trim().to_owned();
        lines.iter().filter(|line| line.contains(words)).map(behind).collect()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_an_operator_must_know_is_said_once() {
    let (servers, port) = (Scratch::start(0), free_port());
    let (file, users) = (temporary("logged").with_extension("toml"), temporary("users"));
    fs::write(&users, "\"postgres\" \"right\"\n").unwrap();
    let lines = format!("databases = [\"postgres\", \"shopp\"]\nauth_file = \"{}\"", users.display());
    fs::write(&file, configuration(&servers, port, &lines)).unwrap();
    let log = Logging::start(&file);

    let url = |role: &str, word: &str| format!("postgres://{role}:{word}@127.0.0.1:{port}/postgres");
    eventually("a client", || psql(&url("postgres", "right"), "SELECT 1").status.success());
    eventually("the name that is misspelt", || log.with("database=\"shopp\"").len() == 1);

    for (role, why) in [("postgres", "wrong password"), ("nobody", "role not found (auth_file)")] {
        let heard = psql(&url(role, "hush"), "SELECT 1").failed(2);
        assert!(!heard.contains(why), "{heard}");
        eventually("the log-in that failed", || log.with(why).len() == 1);
        let said = log.with(why).remove(0);
        let whose = format!("user=\"{role}\" database=\"postgres\" from=127.0.0.1");
        assert!(said.contains(&whose) && said.starts_with("INFO") && !said.contains("hush"), "{said}");
    }

    let away = "cannot read snapshot and LSN from the primary";
    servers.primary().stop(Stop::Fast).unwrap();
    eventually("a word about the primary", || !log.with(away).is_empty());
    servers.primary().start().unwrap();
    eventually("the primary", || log.with("probing snapshots of the primary").len() == 2);
    let said = log.with(away);
    let host = servers.primary().socket_folder().display().to_string();
    assert!(said[0].contains(&host) && said[0].contains(&servers.primary().port().to_string()), "{said:?}");
    assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "{said:?}");
    assert_eq!(log.with("database=\"shopp\"").len(), 1);
    fs::remove_file(users).unwrap();
    fs::remove_file(file).unwrap();
}

/// Every text that would reveal a secret: passwords, hashes, and the parts of keys.
fn secrets_of(servers: &Scratch) -> Vec<String> {
    let mut secrets: Vec<String> = [OWN, CLEAR, TYPED, KEYED, OLD, "hush hush"].map(str::to_owned).to_vec();
    for row in servers.query("SELECT rolpassword FROM pg_authid WHERE rolpassword IS NOT NULL") {
        let stored = row[0].clone().expect("it is not null");
        match stored.strip_prefix("md5") {
            Some(hash) => secrets.push(hash.to_owned()),
            // The salt is public; the two keys after it are not.
            None => {
                secrets.extend(stored.split('$').next_back().expect("a part").split(':').map(str::to_owned))
            }
        }
    }
    secrets
}

#[test]
fn no_secret_is_ever_said() {
    let servers = guarded(1);
    demand(&servers, "host all old all md5\nhost all typed all password\nhost all all all scram-sha-256\n");
    let stored = |role: &str| {
        let sql = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{role}'");
        servers.query(&sql)[0][0].clone().expect("the server answers")
    };
    let (folder, port, metrics_port) = (temporary("hushed"), free_port(), free_port());
    fs::create_dir(&folder).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    // keyed has no line: its secret is asked for. clear is known by its password, the others by what the server stores.
    let roles = [
        ("postgres", OWN.to_owned()),
        ("clear", CLEAR.replace('"', "\"\"")),
        ("typed", stored("typed")),
        ("old", stored("old")),
    ];
    let lines: String = roles.iter().map(|(role, secret)| format!("\"{role}\" \"{secret}\"\n")).collect();
    fs::write(file("users.txt"), lines).unwrap();
    let rules = "host all old all md5\nhost all typed all password\nhost all all all scram-sha-256\n";
    fs::write(file("pg_hba.conf"), rules).unwrap();
    let lines = format!(
        "auth_type = \"hba\"\nauth_hba_file = \"pg_hba.conf\"\nauth_file = \"users.txt\"\nauth_user = \"postgres\"\n\
         log_level = \"trace\"\nattach_on_first_use = true\nmetrics_listen = \"127.0.0.1:{metrics_port}\""
    );
    fs::write(file("consort.toml"), by_tcp(&servers, "localhost", port, &lines)).unwrap();
    let log = Logging::start(&folder.join("consort.toml"));

    let knock = |role: &str, word: &str, database: &str, sql: &str| {
        let mut psql = testkit::program("psql");
        psql.args(["-XAtc", sql]).env("PGHOST", "localhost").env("PGPORT", port.to_string());
        run(psql.env("PGUSER", role).env("PGDATABASE", database).env("PGPASSWORD", word))
    };
    eventually("a client", || knock("postgres", OWN, "postgres", "SELECT 1").status.success());
    for (role, word) in
        [("postgres", OWN), ("clear", CLEAR), ("typed", TYPED), ("keyed", KEYED), ("old", OLD)]
    {
        assert_eq!(knock(role, word, "postgres", "SELECT v FROM goods").worked(), "lamp\n");
        knock(role, "hush hush", "postgres", "SELECT 1").failed(2);
    }
    knock("nobody", "hush hush", "postgres", "SELECT 1").failed(2);
    let mut told = knock("postgres", OWN, "consort", "RELOAD").worked();
    let shows = knock("postgres", OWN, "consort", "SHOW HELP").worked();
    for show in
        shows.lines().filter_map(|line| line.split('|').next()).filter(|line| line.starts_with("SHOW "))
    {
        told += &knock("postgres", OWN, "consort", show).worked();
    }
    assert!(told.contains("auth_query") && told.contains("old"), "{told}");
    told += &page_at(metrics_port, "/metrics").1;
    let lines = log.lines.lock().expect("nobody panics with it").join("\n");
    assert!(told.contains("log_level|trace") && lines.contains("configuration reloaded"), "{told}");
    told += &lines;
    for secret in secrets_of(&servers) {
        let at = told.find(&secret).map(|at| &told[at.saturating_sub(200)..(at + 50).min(told.len())]);
        assert_eq!(at, None, "{secret} was said");
    }
    fs::remove_dir_all(folder).unwrap();
}
