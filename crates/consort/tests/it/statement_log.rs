//! Lines about statements: where each ran and why, what took long, and what is never said.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use testkit::Scratch;

use crate::fixture::{Done, configuration, eventually, free_port, psql, run, temporary};
use crate::load::Client;
use crate::logged::Logging;

/// Consort in front of servers of its own, with its log in JSON.
struct Said {
    _servers: Scratch,
    port: u16,
    log: Logging,
}

impl Said {
    fn start(standbys: usize, lines: &str) -> Said {
        let (servers, port) = (Scratch::start(standbys), free_port());
        servers.query("CREATE TABLE goods (id int PRIMARY KEY, v text)");
        servers.query("INSERT INTO goods VALUES (1, 'lamp')");
        let file = temporary("said").with_extension("toml");
        let lines =
            format!("auth_type = \"trust\"\nlog_format = \"json\"\nattach_on_first_use = true\n{lines}");
        fs::write(&file, configuration(&servers, port, &lines)).expect("a temporary file can be written");
        let said = Said { _servers: servers, port, log: Logging::start(&file) };
        eventually("a client", || psql(&said.url("postgres"), "SELECT 1").status.success());
        fs::remove_file(file).expect("it was written");
        said
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// One statement of a client of this name.
    fn ask(&self, application: &str, sql: &str) -> Done {
        let mut psql = testkit::program("psql");
        psql.args(["-XAtc", sql, "-d", &self.url("postgres")]).env("PGAPPNAME", application);
        run(&mut psql)
    }

    fn set(&self, key: &str, value: &str) {
        psql(&self.url("consort"), &format!("SET {key} = '{value}'")).worked();
    }

    /// The fields of all lines about statements of a client of this name.
    fn of(&self, application: &str) -> Vec<Value> {
        let lines = self.log.lines.lock().expect("nobody panics with it");
        let fields = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        fields
            .map(|line| line["fields"].clone())
            .filter(|fields| fields["application"] == application)
            .collect()
    }

    /// The last one, which is waited for.
    fn last(&self, application: &str) -> Value {
        let mut last = None;
        eventually("a line about the statement", || {
            last = self.of(application).pop();
            last.is_some()
        });
        last.expect("it was waited for")
    }
}

#[test]
fn each_statement_says_where_it_ran_and_why() {
    let said = Said::start(1, "proof_timeout = \"1s\"\nlog_routing = \"all\"");
    eventually("a read at the standby", || {
        said.ask("reader", "SELECT v FROM goods WHERE id = 1").worked();
        said.of("reader").iter().any(|line| line["at"] == "standby1")
    });
    let lines = said.of("reader");
    let line = lines.iter().find(|line| line["at"] == "standby1").unwrap();
    assert_eq!((&line["message"], &line["user"]), (&"statement executed".into(), &"postgres".into()));
    assert_eq!(line["statement"], "SELECT v FROM goods WHERE id = ?");
    assert_eq!(line["database"], "postgres");
    assert!(["plain", "positioned"].contains(&line["why"].as_str().unwrap()), "{line}");
    assert!(line["client"].as_u64().is_some_and(|client| client > 0), "{line}");
    let time = |name: &str| line[name].as_f64().unwrap();
    assert!(time("freshness_ms") > 0.0 && time("freshness_ms") <= time("duration_ms"), "{line}");
    let parts = time("connection_ms") + time("freshness_ms") + time("server_ms");
    assert!((parts - time("duration_ms")).abs() < 0.01, "{line}");

    // One shape, one fingerprint, whatever the values.
    said.ask("asks", "/* consort: primary */ SELECT v FROM goods WHERE id = 1").worked();
    let line = said.last("asks");
    assert_eq!((&line["at"], &line["why"]), (&"primary".into(), &"asked_for_primary".into()), "{line}");
    said.ask("again", "/* consort: primary */ SELECT v FROM goods WHERE id = 2").worked();
    assert!(line["fingerprint"].as_str().is_some_and(|print| print.len() == 16), "{line}");
    assert_eq!(line["fingerprint"], said.last("again")["fingerprint"]);
    said.ask("fails", "SELECT 1 / (v = 'lamp')::int - 1 FROM goods WHERE v = 'x' OR 1 / (id - 1) = 0")
        .failed(1);
    let line = said.last("fails");
    assert_eq!(line["failed"], true, "{line}");

    // A statement with a secret in it is logged without the secret's text.
    for (number, sql) in [
        "CREATE ROLE quiet PASSWORD 'hush'",
        "ALTER ROLE quiet PASSWORD E'h\\x75sh hush'",
        "ALTER ROLE quiet PASSWORD \"hush\"",
        "SELECT 1; ALTER ROLE quiet PASSWORD hush",
        "PREPARE p AS SELECT v FROM goods WHERE v = $1; EXECUTE p ('hush')",
        "DO $$ BEGIN PERFORM 'hush'; END $$",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("secret{number}");
        said.ask(&name, sql);
        let line = said.last(&name);
        assert!(
            !line["statement"].as_str().unwrap().is_empty() && !line.to_string().contains("hush"),
            "{line}"
        );
    }
    let whole = said.log.lines.lock().unwrap().join("\n");
    assert!(!whole.contains("hush") && !whole.contains("lamp"));
}

#[test]
fn what_is_said_is_chosen_while_consort_runs() {
    let said = Said::start(0, "");
    said.ask("before", "SELECT v FROM goods").worked();
    said.set("log_routing", "primary");
    said.ask("writes", "INSERT INTO goods VALUES (2, 'x')").worked();
    said.ask("reads", "SELECT v FROM goods").worked();
    let line = said.last("reads");
    assert_eq!((&line["at"], &line["why"]), (&"primary".into(), &"no_standby".into()), "{line}");
    assert!(said.of("writes").is_empty() && said.of("before").is_empty());

    said.set("log_routing", "all");
    said.set("log_statement_sample_rate", "0");
    said.set("log_min_duration_statement", "100");
    said.ask("short", "SELECT 1").worked();
    said.ask("long", "SELECT pg_sleep(0.2)").worked();
    let line = said.last("long");
    assert_eq!(line["message"], "slow statement");
    assert!(line["server_ms"].as_f64().unwrap() >= 200.0, "{line}");
    assert!(said.of("short").is_empty());
    said.set("log_min_duration_statement", "-1");
    said.ask("still", "SELECT pg_sleep(0.2)").worked();
    said.set("log_statement_sample_rate", "1.0");
    said.ask("end", "INSERT INTO goods VALUES (3, 'x')").worked();
    said.last("end");
    assert!(said.of("still").is_empty());
    for (key, value) in
        [("log_routing", "some"), ("log_statement_sample_rate", "2"), ("log_min_duration_statement", "-2")]
    {
        let refused = psql(&said.url("consort"), &format!("SET {key} = '{value}'")).err;
        assert!(refused.contains("invalid value"), "{refused}");
    }
}

#[test]
fn the_wait_for_a_connection_is_told_apart() {
    let said = Said::start(
        0,
        "pool_mode = \"transaction\"\ndefault_pool_size = 1\nlog_min_duration_statement = \"150ms\"",
    );
    // The first one would wait at its log-in.
    let mut waiter = Client::connect(&format!("{}?application_name=waits", said.url("postgres"))).unwrap();
    let mut holder = Client::connect(&said.url("postgres")).unwrap();
    holder.rows("BEGIN; SELECT 1").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || waiter.rows("SELECT v FROM goods").unwrap().len());
        let mut console = Client::connect(&said.url("consort")).unwrap();
        let maxwait = |console: &mut Client| {
            let rows = console.rows("SHOW POOLS").unwrap();
            let of =
                |row: &tokio_postgres::SimpleQueryRow| row.get("maxwait_us").unwrap().parse::<u64>().unwrap();
            rows.iter().map(of).max().unwrap_or(0)
        };
        eventually("a client that waits", || maxwait(&mut console) > 200_000);
        holder.rows("COMMIT").unwrap();
        assert_eq!(waiting.join().unwrap(), 1);
    });
    let line = said.last("waits");
    let time = |name: &str| line[name].as_f64().unwrap();
    assert!(time("connection_ms") >= 200.0 && time("server_ms") < time("connection_ms"), "{line}");
}

/// The lines about clients that do what a client does not.
fn unruly(said: &Said) -> Vec<Value> {
    let lines = said.log.lines.lock().expect("nobody panics with it");
    let fields = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_one = |fields: &Value| {
        fields["message"].as_str().is_some_and(|text| text.starts_with("misbehaving client"))
    };
    fields.map(|line| line["fields"].clone()).filter(is_one).collect()
}

/// Logged in, with these bytes afterwards; the answers are left unread.
fn raw(said: &Said, application: &str, behind: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", said.port)).expect("it listens");
    let text = format!("user\0postgres\0database\0postgres\0application_name\0{application}\0\0");
    let length = u32::try_from(text.len() + 8).expect("it is short");
    let hello = [&length.to_be_bytes()[..], &[0, 3, 0, 0], text.as_bytes(), behind].concat();
    stream.write_all(&hello).expect("it listens");
    stream
}

#[test]
fn unruly_clients_are_named_once_and_a_flood_of_them_is_counted() {
    let said = Said::start(0, "log_client_stalls = \"200ms\"");
    let query = |text: &str| {
        let length = u32::try_from(text.len() + 5).expect("it is short");
        [b"Q", &length.to_be_bytes()[..], text.as_bytes(), b"\0"].concat()
    };
    let rows = query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)");
    let deaf = raw(&said, "deaf", &rows);
    eventually("the client that does not listen", || !unruly(&said).is_empty());
    let line = unruly(&said).remove(0);
    assert!(
        line["message"].as_str().unwrap().contains("has read nothing of its result for 200 ms"),
        "{line}"
    );
    assert_eq!((&line["application"], &line["from"]), (&"deaf".into(), &"127.0.0.1".into()), "{line}");
    assert_eq!(line["port"], deaf.local_addr().unwrap().port());

    let broken = raw(&said, "broken", b"?\0\0\0\x04");
    eventually("the client that breaks the protocol", || unruly(&said).len() == 2);
    drop(broken);
    let line = unruly(&said).remove(1);
    assert!(line["application"] == "broken" && line["user"] == "postgres", "{line}");

    // A client that is checked when another one is logged is not logged again.
    let other = raw(&said, "other", &rows);
    eventually("another one", || unruly(&said).iter().any(|line| line["application"] == "other"));
    assert_eq!(unruly(&said).len(), 3, "{:?}", unruly(&said));
    drop((deaf, other));

    for _ in 0..50 {
        let mut stranger = TcpStream::connect(("127.0.0.1", said.port)).expect("it listens");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it listens");
        stranger.read_to_end(&mut Vec::new()).expect("it says a last word");
    }
    eventually("a stranger", || unruly(&said).len() > 3);
    let lines = unruly(&said);
    assert!(lines.len() <= 30 && lines[3]["user"].is_null(), "{lines:?}");
}
