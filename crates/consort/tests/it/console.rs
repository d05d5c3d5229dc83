//! The console over a real connection: every SHOW command has an answer, and what changes something does.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use local_cluster::Stop;
use tokio_postgres::NoTls;

use crate::fixture::{Serving, eventually, psql, run};
use crate::load::{Client, Console, READ_QUIET, THROUGH, served, serving};
use crate::serving::page;

const SHOWS: &[&str] = &[
    "CLIENTS",
    "SERVERS",
    "POOLS",
    "STATS",
    "DATABASES",
    "USERS",
    "CONFIG",
    "VERSION",
    "HELP",
    "REPLICAS",
    "ROUTES",
    "REASONS",
    "IN_FLIGHT",
    "SNAPSHOTS",
    "REPLICATION",
    "LEADER",
    "STATE",
    "LISTS",
    "MEM",
    "SOCKETS",
    "ACTIVE_SOCKETS",
    "STATS_TOTALS",
    "STATS_AVERAGES",
    "TOTALS",
    "PEERS",
    "PEER_POOLS",
    "DNS_HOSTS",
    "DNS_ZONES",
];

#[test]
fn every_show_command_has_an_answer() {
    let serving = Serving::start(1, "");
    let console = serving.url("postgres", "consort");
    for name in SHOWS {
        psql(&console, &format!("SHOW {name}")).worked();
    }
    let help = psql(&console, "SHOW HELP").worked();
    assert!(SHOWS.iter().all(|name| help.contains(&format!("SHOW {name}|"))), "{help}");
    assert!(psql(&console, "SHOW REPLICAS").worked().contains("standby1|standby|"));
    assert!(
        psql(&console, "SHOW VERSION; SHOW CONFIG").worked().contains("metrics_listen"),
        "two in one text"
    );
    let refused = psql(&console, "SELECT 1").err;
    assert!(
        refused.contains("invalid command 'SELECT 1', use SHOW HELP") && refused.contains("HINT"),
        "{refused}"
    );
}

#[test]
fn what_nodes_do_is_shown() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let shown = serving.url("postgres", "consort");
    let before = served(&mut console, "standby1");
    eventually("a read at the standby", || {
        client.rows(READ_QUIET).expect("a read");
        served(&mut console, "standby1") > before
    });
    // The pooled connection at the standby, with its process there, looked up each time: a standby that
    // answers late is left.
    let there = "SELECT pid FROM pg_stat_activity WHERE datname = 'postgres' AND application_name = ''";
    eventually("a pooled connection with its process", || {
        client.rows(READ_QUIET).expect("a read");
        let servers = psql(&shown, "SHOW SERVERS").worked();
        let pids = serving.servers.standby(0).query("postgres", there).unwrap();
        let pooled = servers.lines().find(|line| line.contains("|standby1|"));
        let is_its = |pid: &str| pooled.is_some_and(|line| line.contains(&format!("|{pid}|")));
        pids.iter().any(|row| row[0].as_deref().is_some_and(is_its))
    });
    // Reads alone count as reads, also at the primary.
    let reads = served(&mut console, "primary");
    client.rows("UPDATE counter SET n = n + 1").unwrap();
    client.rows("CREATE TABLE made (n int)").unwrap();
    assert_eq!(served(&mut console, "primary"), reads);
    eventually("a read at the primary", || {
        client.rows("SELECT now()").expect("a read");
        served(&mut console, "primary") > reads
    });
    // Received position and lag of the standby.
    let replica = || {
        let rows = psql(&shown, "SHOW REPLICAS").worked();
        let line = rows.lines().find(|line| line.starts_with("standby1|")).expect("the standby").to_owned();
        line.split('|').map(str::to_owned).collect::<Vec<_>>()
    };
    eventually("a standby without lag", || replica()[9] == "0");
    serving.servers.set_apply_delay(0, Duration::from_secs(3600));
    eventually("a standby that lags", || {
        // The standby applies the delay at any time.
        client.rows("UPDATE counter SET n = n + 1").unwrap();
        let shown = replica();
        let lag_ms = shown[9].parse::<u64>();
        lag_ms.is_ok_and(|lag_ms| lag_ms > 1000) && shown[8] != "0" && shown[6] != shown[7]
    });
    serving.servers.set_apply_delay(0, Duration::ZERO);
    eventually("a standby that has come up", || replica()[9] == "0");
}

#[test]
fn clients_share_connections_when_the_configuration_says_so() {
    let serving = Serving::start(0, "pool_mode = \"transaction\"\ndefault_pool_size = 1");
    let (console, url) = (serving.url("postgres", "consort"), serving.url("postgres", "postgres"));
    let (mut one, mut other) = (Client::connect(&url).unwrap(), Client::connect(&url).unwrap());
    one.rows("CREATE TABLE shared_by_two (v int)").unwrap();
    for _ in 0..2 {
        one.rows("INSERT INTO shared_by_two VALUES (1)").unwrap();
        other.rows("INSERT INTO shared_by_two VALUES (1)").unwrap();
    }
    let idle = || {
        let servers = psql(&console, "SHOW SERVERS").worked();
        let there: Vec<&str> =
            servers.lines().filter(|line| line.starts_with("S|postgres|postgres|")).collect();
        if there.iter().all(|line| line.starts_with("S|postgres|postgres|none|idle|")) {
            there.len()
        } else {
            0
        }
    };
    eventually("one connection that nobody has", || idle() == 1);
    let pools = psql(&console, "SHOW POOLS").worked();
    assert!(
        pools.lines().any(|line| line.starts_with("postgres|") && line.ends_with("|transaction|")),
        "{pools}"
    );
    let databases = psql(&console, "SHOW DATABASES").worked();
    assert!(
        databases.contains("|postgres||1|0|0|3600|transaction|"),
        "its size, and how it is shared: {databases}"
    );
    one.rows("SELECT pg_advisory_lock(7)").unwrap();
    eventually("why a client keeps its connection", || {
        let clients = psql(&console, "SHOW CLIENTS").worked();
        clients.lines().any(|line| line.contains("|session_holds_advisory_lock|"))
    });
    one.rows("SELECT pg_advisory_unlock(7)").unwrap();
    one.rows("LISTEN news").unwrap();
    other.rows("NOTIFY news").unwrap();
    eventually("a connection that listens besides", || idle() == 2);
    one.rows("UNLISTEN news").unwrap();
    eventually("no such connection any more", || idle() == 1);
    other.rows("INSERT INTO shared_by_two VALUES (2)").unwrap();
}

/// Modes and limits count from a RELOAD on, for who waits too.
#[test]
fn how_clients_share_connections_is_reloaded() {
    let said = "pool_mode = \"transaction\"\ndefault_pool_size = 1\nquery_wait_timeout = \"1min\"";
    let serving = Serving::start(0, said);
    let (console, url) = (serving.url("postgres", "consort"), serving.url("postgres", "postgres"));
    let mut one = Client::connect(&url).unwrap();
    one.rows("BEGIN").unwrap();
    one.rows("SELECT pg_backend_pid()").unwrap();
    let mut waiting = testkit::program("psql");
    waiting.args(["-XAt", "-d", &url, "-c", "SELECT 'through' FROM pg_backend_pid()"]);
    let waiting = waiting.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let pool = || psql(&console, "SHOW POOLS").worked();
    eventually("a waiting client", || pool().contains("\npostgres|postgres|1|1|"));
    let reload = |from: &str, to: &str| {
        let text = std::fs::read_to_string(serving.config_file()).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(serving.config_file(), text.replace(from, to)).unwrap();
        let reloaded = psql(&console, "RELOAD");
        assert!(reloaded.err.is_empty(), "{reloaded:?}");
    };
    reload("default_pool_size = 1", "default_pool_size = 2");
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n");
    reload("[primary]", "[user.postgres]\npool_mode = \"statement\"\npool_size = 1\n[primary]");
    let users = psql(&console, "SHOW USERS").worked();
    assert!(users.contains("postgres|1||statement|0|"), "{users}");
    assert!(pool().contains("|statement|"), "{}", pool());
    let refused = psql(&url, "BEGIN").err;
    assert!(refused.contains("transaction blocks not allowed in statement pooling mode"), "{refused}");
}

#[test]
fn pause_holds_new_transactions_until_resume() {
    let serving = Serving::start(0, "shutdown_drain_timeout = \"100ms\"");
    let console = serving.url("postgres", "consort");
    psql(&console, "PAUSE postgres").worked();
    let waiting = testkit::program("psql")
        .args(["-X", "-A", "-t", "-d", &serving.url("postgres", "postgres"), "-c", "SELECT 'through'"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("a waiting client", || {
        psql(&console, "SHOW CLIENTS").worked().contains("|postgres|none|waiting|")
    });
    let said = serving.run("status", &[]).worked();
    assert!(said.contains("database postgres: paused, new transactions wait until RESUME"), "{said}");
    psql(&console, "RESUME postgres").worked();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n");
    // A database that does not exist is refused, an unused one is not.
    for command in ["PAUSE nodb", "RESUME nodb"] {
        let refused = psql(&console, command).err;
        assert!(refused.contains("database \"nodb\" does not exist"), "{refused}");
    }
    serving.servers.query("CREATE DATABASE idle");
    psql(&console, "PAUSE idle").worked();
    serving.servers.query("DROP DATABASE idle");
    psql(&console, "RESUME idle").worked();
    serving.servers.primary().stop(Stop::Fast).unwrap();
    psql(&console, "PAUSE unknown").worked();
}

/// psycopg2 fails if it does not receive the DateStyle.
#[test]
fn the_console_tells_drivers_what_they_ask_for_at_the_start() {
    let serving = Serving::start(0, "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = serving.url("postgres", "consort");
    let (_client, console) = runtime.block_on(tokio_postgres::connect(&url, NoTls)).unwrap();
    for (name, value) in [("DateStyle", "ISO, MDY"), ("client_encoding", "UTF8"), ("integer_datetimes", "on")]
    {
        assert_eq!(console.parameter(name), Some(value), "{name}");
    }
}

#[test]
fn what_pause_holds_can_be_cancelled() {
    let serving = Serving::start(0, "");
    let (console, url) = (serving.url("postgres", "consort"), serving.url("postgres", "postgres"));
    psql(&console, "PAUSE postgres").worked();
    let mut waiting = testkit::program("psql");
    waiting.args(["-X", "-d", &url, "-c", "SELECT 1"]).stdin(Stdio::null());
    let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a waiting client", || {
        psql(&console, "SHOW CLIENTS").worked().contains("|postgres|none|waiting|")
    });
    run(Command::new("kill").args(["-INT", &waiting.id().to_string()])).worked();
    eventually("its end", || waiting.try_wait().unwrap().is_some());
    let output = waiting.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("canceling statement due to user request"), "{said}");
    psql(&console, "RESUME postgres").worked();
    assert_eq!(psql(&url, "SELECT 'through'").worked(), "through\n");
}

/// Only the beginning of a large statement is here: it cannot be refused, and its answer is the answer to it alone.
#[test]
fn what_is_large_goes_on_waiting_when_it_is_cancelled() {
    let serving = Serving::start(0, "");
    let (console, url) = (serving.url("postgres", "consort"), serving.url("postgres", "postgres"));
    serving.servers.query("CREATE TABLE large (t text)");
    psql(&console, "PAUSE postgres").worked();
    let mut writing = testkit::program("psql");
    writing.args(["-X", "-A", "-t", "-d", &url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writing = writing.spawn().unwrap();
    let script = format!("INSERT INTO large VALUES ('{}');\n", "x".repeat(400_000));
    writing.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let waits = || psql(&console, "SHOW CLIENTS").worked().contains("|postgres|none|waiting|");
    eventually("a waiting client", waits);
    run(Command::new("kill").args(["-INT", &writing.id().to_string()])).worked();
    let cancelled = || page(&serving, "/metrics").1.contains("\nconsort_cancel_requests_total 1\n");
    eventually("a cancel request", cancelled);
    eventually("a client that waits again", waits);
    psql(&console, "RESUME postgres").worked();
    let output = writing.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "INSERT 0 1\n");
    assert_eq!(serving.servers.query("SELECT count(*) FROM large")[0][0].as_deref(), Some("1"));
}

#[test]
fn pause_has_a_limit_and_says_what_is_open() {
    let serving = Serving::start(0, "shutdown_drain_timeout = \"100ms\"");
    let mut open = testkit::program("psql")
        .args(["-X", "-d", &serving.url("postgres", "postgres"), "-c", "SELECT pg_sleep(600)"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let console = serving.url("postgres", "consort");
    eventually("an open transaction", || {
        psql(&console, "SHOW CLIENTS").worked().contains("|postgres|none|active|")
    });
    let refused = psql(&console, "PAUSE").err;
    assert!(refused.contains("1 transactions are still open after 100ms"), "{refused}");
    let refused = psql(&console, "RESUME postgres").err;
    assert!(refused.contains("all databases are paused; \"postgres\" cannot be resumed alone"), "{refused}");
    psql(&console, "RESUME").worked();
    open.kill().unwrap();
    open.wait().unwrap();
}

#[test]
fn shutdown_ends_the_process() {
    let mut serving = Serving::start(0, "");
    psql(&serving.url("postgres", "consort"), "SHUTDOWN");
    assert!(serving.ended().success());
}

#[test]
fn who_looks_on_at_the_console_does_not_hold_up_the_end() {
    let mut serving = Serving::start(0, "shutdown_drain_timeout = \"1h\"");
    let mut watcher = Client::connect(&serving.url("postgres", "consort")).expect("a log-in");
    assert!(!watcher.rows("SHOW VERSION").expect("an answer").is_empty());
    serving.signal("TERM");
    assert!(serving.ended().success());
    let trouble = watcher.rows("SHOW VERSION").expect_err("it was told to leave");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57P01"), "{trouble:?}");
}

#[test]
fn what_went_through_is_counted() {
    let serving = Serving::start(0, "");
    let url = serving.url("postgres", "postgres");
    psql(&url, "BEGIN; SELECT repeat('x', 5000); COMMIT").worked();
    psql(&url, "SELECT 1").worked();
    let stats = psql(&serving.url("postgres", "consort"), "SHOW STATS").worked();
    let line = stats.lines().find(|line| line.starts_with("postgres|")).expect("the database is known");
    let counts: Vec<u64> = line.split('|').skip(2).map(|count| count.parse().expect("a number")).collect();
    let [transactions, statements, received, sent, transaction_us, statement_us, ..] = counts[..] else {
        panic!("{line}")
    };
    assert!(transactions == 2 && statements == 2, "{line}");
    assert!(received > 40 && sent > 5000 && transaction_us > 0 && statement_us > 0, "{line}");
}

/// Counts of named statements: parsed by clients, parsed by servers, bound by clients.
fn named(console: &mut Console) -> [u64; 3] {
    let rows = console.rows("SHOW STATS");
    let ours = rows.iter().find(|row| row.get("database") == Some("postgres")).expect("it is known");
    let count = |name| ours.get(name).expect("a count").parse().expect("a number");
    ["total_client_parse_count", "total_server_parse_count", "total_bind_count"].map(count)
}

#[test]
fn named_statements_are_counted_where_they_are_parsed_and_bound() {
    let (_serving, mut console, url) = serving(1, &format!("{THROUGH}\npool_mode = \"transaction\""));
    let mut client = Client::connect(&url).unwrap();
    let statement = client.prepare("SELECT v::text FROM quiet WHERE id = 1");
    assert_eq!(named(&mut console), [1, 1, 0]);
    let (before, mut bound) = (served(&mut console, "standby1"), 0);
    eventually("a read at the standby", || {
        assert_eq!(client.execute(&statement), "7");
        bound += 1;
        served(&mut console, "standby1") > before
    });
    eventually("all that were bound", || named(&mut console)[2] == bound);
    let [parsed, told, _] = named(&mut console);
    assert!(parsed == 1 && told > 1, "{told}: the standby parses it too");
    // Another connection at the primary lacks it.
    console.rows("RECONNECT");
    client.rows("BEGIN; UPDATE quiet SET v = 8 WHERE id = 1").unwrap();
    assert_eq!(client.execute(&statement), "8");
    client.rows("ROLLBACK").unwrap();
    assert_eq!(named(&mut console), [1, told + 1, bound + 1]);
    // Unnamed statements are counted nowhere.
    client.rows("SELECT 1").unwrap();
    assert_eq!(named(&mut console), [1, told + 1, bound + 1]);
}

#[test]
fn who_has_come_in_does_not_count_as_one_who_logs_in() {
    let serving = Serving::start(0, "");
    let _client = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    let lists = psql(&serving.url("postgres", "consort"), "SHOW LISTS").worked();
    for row in ["used_clients|2", "login_clients|0"] {
        assert!(lists.lines().any(|line| line == row), "{lists}");
    }
}

/// Also while a client uses it.
#[test]
fn a_connection_at_a_standby_is_as_old_as_it_is() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TABLE many AS SELECT generate_series(1, 10000) AS n").unwrap();
    let now = "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"')";
    let counts = |to: u32| format!("SELECT count(*) FROM many a, many b WHERE a.n <= {to} AND b.n <= {to}");
    let mut at_standby = |is_used: bool| {
        let servers = console.rows("SHOW SERVERS");
        let here = |row: &&tokio_postgres::SimpleQueryRow| {
            row.get("application_name") == Some("standby1") && (row.get("link") != Some("")) == is_used
        };
        servers.iter().find(here).map(|row| {
            let time = |name| row.get(name).expect("a time").to_owned();
            (time("connect_time"), time("request_time"))
        })
    };
    eventually("a read there, later than its connection was opened", || {
        client.rows(&counts(1)).expect("a read");
        let now = serving.servers.query(now)[0][0].clone();
        at_standby(false).is_some_and(|(opened, _)| now > Some(opened))
    });
    let slow = std::thread::spawn(move || client.one(&counts(5_000)));
    let mut times = None;
    eventually("a connection that is used", || {
        times = at_standby(true);
        times.is_some()
    });
    let (opened, asked) = times.unwrap();
    assert!(opened < asked, "{opened} {asked}");
    assert_eq!(slow.join().unwrap().unwrap(), "25000000");
}
