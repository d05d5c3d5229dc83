//! The primary goes away, crashes and comes back; transactions that are prepared and not yet resolved.

use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use local_cluster::{Node, Stop};
use testkit::Scratch;

use crate::fixture::{Serving, eventually, psql};
use crate::load::{
    ANYWHERE, Client, Console, Load, READ, READ_QUIET, THROUGH, Trouble, kill_a_backend, past, served,
    serves, serves_all, serving,
};

/// A statement that waits at the primary, and the last answer to its client.
struct Waiting(std::thread::JoinHandle<Trouble>);

impl Waiting {
    /// Sent, and running at the primary.
    fn start(serving: &Serving, url: &str) -> Waiting {
        let url = url.to_owned();
        let thread = std::thread::spawn(move || {
            let mut client = Client::connect(&url).expect("a log-in");
            client.rows("SELECT pg_sleep(600)").expect_err("nobody waits so long")
        });
        let running = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND state = 'active' AND pid <> pg_backend_pid()";
        eventually("a statement that runs", || !serving.servers.query(running).is_empty());
        Waiting(thread)
    }

    fn ended_with(self, sqlstate: &str) {
        let trouble = self.0.join().expect("its thread ends");
        assert_eq!(trouble.sqlstate.as_deref(), Some(sqlstate), "{trouble:?}");
    }
}

#[test]
fn the_primary_is_stopped_and_started() {
    let (serving, mut console, url) = serving(1, &format!("{THROUGH}\npool_mode = \"session\""));
    let load = Load::that_comes_back(&url);
    serves(&mut console, "standby1");
    let primary = serving.servers.primary();

    let waiting = Waiting::start(&serving, &url);
    primary.stop(Stop::Fast).unwrap();
    waiting.ended_with("57P01");
    let refused = Client::connect(&url).err().expect("nobody is let in");
    assert_eq!(refused.sqlstate.as_deref(), Some("57P03"), "{refused:?}");
    primary.start().unwrap();
    load.goes_on(60, 10);
    serves(&mut console, "standby1");

    let waiting = Waiting::start(&serving, &url);
    primary.kill();
    waiting.ended_with("08006");
    primary.start().unwrap();
    load.goes_on(60, 10);
    serves(&mut console, "standby1");
    load.end();
}

#[test]
fn log_ins_may_take_longer_than_questions() {
    let mut options = Scratch::options();
    options.standbys = 1;
    let servers = Scratch::with(options);
    for (node, port) in servers.cluster().nodes().iter().map(|node| (node.socket_folder(), node.port())) {
        let at = format!("host={} port={port} user=postgres dbname=postgres", node.display());
        psql(&at, "ALTER SYSTEM SET post_auth_delay = 1").worked();
        psql(&at, "SELECT pg_reload_conf()").worked();
        eventually("slow log-ins", || psql(&at, "SHOW post_auth_delay").worked().trim() == "1s");
    }
    serves_all(Serving::over(servers, THROUGH));
}

#[test]
fn a_backend_of_the_primary_is_killed_and_all_recover() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(1, lines);
        let load = Load::that_comes_back(&url);
        serves(&mut console, "standby1");
        for _ in 0..3 {
            kill_a_backend(serving.servers.primary());
            load.goes_on(60, 10);
        }
        serves(&mut console, "standby1");
        load.end();
    }
}

#[test]
fn a_prepared_transaction_is_in_doubt_until_it_is_resolved() {
    let mut options = Scratch::options();
    options.settings.push(("max_prepared_transactions".to_owned(), "10".to_owned()));
    options.standbys = 1;
    for lines in [THROUGH, ANYWHERE] {
        let (mut serving, _, url) = serves_all(Serving::over(Scratch::with(options.clone()), lines));
        let mut writer = Client::connect(&url).unwrap();
        let mut resolver = Client::connect(&url).unwrap();
        let mut reader = Client::connect(&url).unwrap();
        for round in 1..=40 {
            let before = reader.number(READ).unwrap();
            writer
                .rows(&format!("BEGIN; UPDATE counter SET n = n + 1; PREPARE TRANSACTION 'p{round}'"))
                .unwrap();
            assert_eq!(reader.number(READ).unwrap(), before, "prepared is not committed");
            assert_eq!(reader.number(READ_QUIET).unwrap(), 7);
            let how = if round % 4 == 0 { "ROLLBACK" } else { "COMMIT" };
            resolver.rows(&format!("{how} PREPARED 'p{round}'")).unwrap();
            let after = before + i64::from(round % 4 != 0);
            assert_eq!(reader.number(READ).unwrap(), after, "{how} in round {round}");
        }

        // Consort goes away in between: what it knew of the transaction is lost, and the answer is right all the same.
        let before = reader.number(READ).unwrap();
        writer.rows("BEGIN; UPDATE counter SET n = n + 1; PREPARE TRANSACTION 'left'").unwrap();
        serving.signal("KILL");
        serving.ended();
        serving.start_again();
        let mut client = Client::connect(&url).unwrap();
        assert_eq!(client.number(READ).unwrap(), before);
        let mut console = Console::connect(&serving.url("postgres", "consort"));
        eventually("reads that may leave", || console.stays("postgres").is_empty());
        let quiet = served(&mut console, "standby1");
        eventually("reads at a standby", || {
            assert_eq!(client.number(READ).unwrap(), before);
            client.number(READ_QUIET).unwrap();
            served(&mut console, "standby1") > quiet + 5
        });
        Client::connect(&url).unwrap().rows("COMMIT PREPARED 'left'").unwrap();
        assert_eq!(client.number(READ).unwrap(), before + 1);
    }
}

#[test]
fn a_statement_that_does_not_parse_gets_the_primarys_own_error() {
    let (serving, _, url) = serving(1, ANYWHERE);
    let direct = past(serving.servers.primary());
    for statement in [
        "SELEC 1",
        "SELECT 1 FROM counter WHERE",
        "SELECT 'open",
        "SELECT * FROM nowhere",
        "SELECT nothing FROM counter",
        "SELECT n FROM counter WHERE id = 'x'",
        "SELECT nothing(1)",
        "UPDATE counter SET m = 1",
        "SELECT 1/0",
        "SELECT 1; SELEC 2",
        "BEGIN; SELECT 1/0; COMMIT",
        "\u{1f980}",
        "SELECT $1",
        "((((((",
    ] {
        let heard = |address: &str| {
            let output = testkit::program("psql")
                .args(["-X", "-A", "-v", "VERBOSITY=verbose", "-d", address, "-c", statement])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            (
                output.status.code(),
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            )
        };
        let through = heard(&url);
        assert_eq!(through, heard(&direct), "{statement}");
        assert!(through.2.contains("LOCATION:"), "{through:?}");
    }
}

/// Waits until each of these clients reads both rows at the standby; the count that they read.
fn at_the_standby(console: &mut Console, clients: &mut [Client]) -> i64 {
    eventually("no read at the primary", || {
        let before = served(console, "standby1");
        for client in &mut *clients {
            client.rows(READ_QUIET).expect("a read");
            client.rows(READ).expect("a read");
        }
        served(console, "standby1") == before + 2 * clients.len() as u64
    });
    clients[0].number(READ).expect("a read")
}

/// Waits until every in-flight write set has ended: one that is open when the primary goes stays open.
fn nothing_in_doubt(serving: &Serving) {
    let console = serving.url("postgres", "consort");
    eventually("nothing in doubt", || psql(&console, "SHOW IN_FLIGHT").worked().trim().is_empty());
}

/// True if the clients go on reading unchanged rows while the primary is missed. Their results are right.
fn go_on(console: &mut Console, clients: &mut [Client], count: i64) -> bool {
    eventually("a primary that is missed", || !console.node("primary").serving);
    (0..20).all(|_| {
        clients.iter_mut().all(|client| {
            let read = client.number(READ_QUIET).and_then(|quiet| Ok((quiet, client.number(READ)?)));
            assert!(read.as_ref().map_or_else(Trouble::says_away, |read| *read == (7, count)), "{read:?}");
            read.is_ok()
        })
    })
}

#[test]
fn without_the_primary_fresh_reads_of_known_shapes_go_on() {
    // A session without a connection of its own gets the error that there is none.
    for (mode, sqlstate) in [("session", "08006"), ("transaction", "57P03")] {
        fresh_reads_go_on_without_the_primary(&format!("{THROUGH}\npool_mode = \"{mode}\""), sqlstate);
    }
}

fn fresh_reads_go_on_without_the_primary(lines: &str, sqlstate: &str) {
    let (serving, mut console, url) = serving(1, lines);
    let primary = serving.servers.primary();
    // On a machine that stands still for a second the standby is missed too: then once more.
    let mut went_on = false;
    for round in 0..5 {
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&url).expect("a log-in")).collect();
        clients[0].rows("UPDATE counter SET n = n + 1").expect("it is updated");
        let count = at_the_standby(&mut console, &mut clients);
        assert_eq!(count, round + 1);
        nothing_in_doubt(&serving);
        primary.kill();
        went_on = go_on(&mut console, &mut clients, count);
        if went_on {
            // A statement that needs the primary gets the error that it is away, and the session is over.
            for (client, sql) in
                clients.iter_mut().zip(["UPDATE counter SET n = n + 1", "BEGIN", "SHOW port"])
            {
                let trouble = client.rows(sql).expect_err("it needs the primary");
                assert_eq!(trouble.sqlstate.as_deref(), Some(sqlstate), "{sql}: {trouble:?}");
                assert!(client.rows(READ).is_err());
            }
        }
        primary.start().expect("it starts");
        eventually("a primary that is back", || Client::connect(&url).is_ok());
        if went_on {
            break;
        }
    }
    assert!(went_on, "the standby answers");
    let mut clients = [Client::connect(&url).expect("a log-in"), Client::connect(&url).expect("a log-in")];
    clients[0].rows("UPDATE counter SET n = n + 1").expect("it is updated");
    let count = clients[0].number(READ).expect("a number");
    assert_eq!(clients[1].number(READ).expect("a number"), count);
    assert_eq!(at_the_standby(&mut console, &mut clients), count);
}

/// Lets the primary hang while `meanwhile` runs, and go on afterwards, or when that takes too long: who waits for it would
/// wait for ever. `false` if it took too long.
fn hanging(primary: &Node, meanwhile: impl FnOnce() -> bool) -> bool {
    std::thread::scope(|scope| {
        let (over, wait) = mpsc::channel::<()>();
        primary.hang();
        let rescue = scope.spawn(move || {
            let in_time = wait.recv_timeout(Duration::from_secs(30)).is_ok();
            primary.resume();
            in_time
        });
        let so = meanwhile();
        // The receiver is gone if it has taken too long.
        let _ = over.send(());
        rescue.join().expect("it ends") && so
    })
}

#[test]
fn while_the_primary_hangs_fresh_reads_of_known_shapes_go_on() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let (primary, standby) = (serving.servers.primary(), serving.servers.standby(0));
    // On a machine that stands still for a second the standby is missed too, and a read waits: then once more.
    let mut went_on = false;
    for round in 1..=5 {
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&url).unwrap()).collect();
        clients[0].rows("UPDATE counter SET n = n + 1").unwrap();
        let count = at_the_standby(&mut console, &mut clients);
        assert_eq!(count, round);
        nothing_in_doubt(&serving);
        went_on = hanging(primary, || {
            let first = go_on(&mut console, &mut clients, count);
            // A standby that is started again meanwhile is not asked for what the primary would have to say.
            standby.kill();
            eventually("a standby that is missed", || !console.node("standby1").serving);
            standby.start().unwrap();
            eventually("a standby that serves again", || console.node("standby1").serving);
            first && go_on(&mut console, &mut clients, count)
        });
        // No client has lost anything: waiting clients go on.
        clients[1].rows("UPDATE counter SET n = n").unwrap();
        assert_eq!(clients[2].number(READ).unwrap(), count);
        eventually("a primary that is back", || console.node("primary").serving);
        if went_on {
            break;
        }
    }
    assert!(went_on, "the standby answers");
}
