//! What the operator reads in the log of `serve`: what is misspelt, who could not log in, a primary that is away.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use postgres::local::{Scratch, Stop};

use crate::fixture::{configuration, eventually, free_port, psql, serve, temporary};

/// `consort serve` whose log is read.
struct Logging {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logging {
    fn start(config_file: &std::path::Path) -> Logging {
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

    for (role, why) in
        [("postgres", "the password is wrong"), ("nobody", "the role has no line in auth_file")]
    {
        let heard = psql(&url(role, "hush"), "SELECT 1").failed(2);
        assert!(!heard.contains(why), "{heard}");
        eventually("the log-in that failed", || log.with(why).len() == 1);
        let said = log.with(why).remove(0);
        let whose = format!("user=\"{role}\" database=\"postgres\" from=127.0.0.1");
        assert!(said.contains(&whose) && said.starts_with("INFO") && !said.contains("hush"), "{said}");
    }

    let away = "the primary cannot be gauged";
    servers.primary().stop(Stop::Fast).unwrap();
    eventually("a word about the primary", || !log.with(away).is_empty());
    servers.primary().start().unwrap();
    eventually("the primary", || log.with("gauging the primary").len() == 2);
    let said = log.with(away);
    let host = servers.primary().socket_folder().display().to_string();
    assert!(said[0].contains(&host) && said[0].contains(&servers.primary().port().to_string()), "{said:?}");
    assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "{said:?}");
    assert_eq!(log.with("database=\"shopp\"").len(), 1);
    fs::remove_file(users).unwrap();
    fs::remove_file(file).unwrap();
}
