//! Connections at the primary whose clients do not wait until they are open.

use crate::fixture::{Serving, eventually, psql};
use crate::load::{Client, Console};
use std::process::{Child, Stdio};

/// Consort without standbys, the only one who writes, with these lines in its configuration; and its primary, past it.
fn stage(lines: &str) -> (Serving, Console, String) {
    let lines = format!("writers = \"through-consort\"\nserver_connect_timeout = \"100s\"\n{lines}");
    let serving = Serving::start(0, &lines);
    let console = Console::connect(&serving.url("postgres", "consort"));
    let primary = serving.servers.primary();
    let past = format!(
        "host={} port={} user=postgres dbname=postgres application_name=past",
        primary.socket_folder().display(),
        primary.port()
    );
    (serving, console, past)
}

/// A client with one statement, which may be ended at any time.
fn asks(url: &str) -> Child {
    let mut psql = testkit::program("psql");
    psql.args(["-XAt", "-d", url, "-c", "SELECT pg_backend_pid()"]);
    psql.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("psql runs")
}

/// Waits until Consort leads and has looked who is logged in at the primary: who comes past it before is no news.
fn has_looked(console: &mut Console, client: &mut Client) {
    eventually("a Consort that leads", || console.rows("SHOW LEADER")[0].get("leads") == Some("1"));
    let leads_since = client.one("SELECT clock_timestamp()").expect("it answers");
    let looked = format!(
        "SELECT bool_or(query_start > '{leads_since}')::text FROM pg_stat_activity WHERE query LIKE 'SELECT pid, (extract(epoch FROM backend_start)%'"
    );
    eventually("a look at the log-ins", || client.one(&looked).is_ok_and(|is| is == "true"));
}

/// Number of clients, and number of connections at the primary.
fn counts(console: &mut Console) -> (usize, usize) {
    let clients = console.rows("SHOW CLIENTS");
    let clients = clients.iter().filter(|row| row.get("database") != Some("consort")).count();
    (clients, console.rows("SHOW SERVERS").len())
}

/// A client leaves while the primary hangs and accepts no client. Then the primary goes on, and another
/// client comes past Consort.
fn leaves_and_another_comes_past(serving: &Serving, console: &mut Console, past: &str) {
    let (clients, _) = counts(console);
    serving.servers.primary().hang();
    let mut client = asks(&serving.url("postgres", "postgres"));
    eventually("the client", || counts(console).0 == clients + 1);
    let databases = console.rows("SHOW DATABASES");
    let used = databases.iter().find(|row| row.get("name") == Some("postgres")).expect("it is used");
    assert_eq!(used.get("current_connections"), Some("2"), "one is being opened");
    let users = console.rows("SHOW USERS");
    let used = users.iter().find(|row| row.get("name") == Some("postgres")).expect("it is used");
    assert_eq!(used.get("current_connections"), Some("2"), "it counts for its role too");
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    eventually("its end", || counts(console).0 == clients);
    serving.servers.primary().resume();
    psql(&serving.url("postgres", "postgres"), "SELECT 'it goes on'").worked();
    assert_eq!(console.writers(), "through-consort");
    let _stays = Client::connect(past).expect("it comes in");
    eventually("what is said of a log-in past Consort", || console.writers() == "anywhere");
}

#[test]
fn a_client_that_leaves_meanwhile_leaves_its_connection_to_others() {
    let (serving, mut console, past) = stage("pool_mode = \"transaction\"\ndefault_pool_size = 2");
    let mut busy = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    has_looked(&mut console, &mut busy);
    busy.rows("BEGIN; SELECT pg_backend_pid()").unwrap();
    leaves_and_another_comes_past(&serving, &mut console, &past);
    eventually("its connection", || counts(&mut console).1 == 2);
}

/// Its log-in waits with it, and both are over.
#[test]
fn a_client_that_leaves_during_its_log_in_leaves_nothing() {
    let (serving, mut console, past) = stage("pool_mode = \"session\"");
    let mut busy = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    has_looked(&mut console, &mut busy);
    busy.rows("BEGIN; SELECT pg_backend_pid()").unwrap();
    leaves_and_another_comes_past(&serving, &mut console, &past);
    eventually("one connection", || counts(&mut console).1 == 1);
}
