//! Sessions at the front of the tier: what drivers and psql do at PostgreSQL they do here, with the same answers.

use super::Tier;
use crate::fixture::{eventually, psql, run, temporary};
use crate::load::{Client, past};
use std::path::PathBuf;
use std::time::Duration;
use testkit::{Scratch, program, soon};
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, NoTls};

/// Requests whose answers at PostgreSQL and at the tier are the same to the letter, but for texts of errors.
const SCRIPT: &str = include_str!("sessions.sql");

/// A driver's session.
struct Driver {
    runtime: Runtime,
    client: tokio_postgres::Client,
}

impl Driver {
    fn connect(url: &str) -> Driver {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).expect("a log-in");
        runtime.spawn(connection);
        Driver { runtime, client }
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(soon("an answer", future))
    }
}

fn sqlstate<T>(done: Result<T, Error>) -> String {
    match done {
        Ok(_) => "00000".to_owned(),
        Err(error) => error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    }
}

/// A file that goes with the test.
struct Script(PathBuf);

impl Script {
    fn new(text: &str) -> Script {
        let file = temporary("script");
        std::fs::write(&file, text).expect("a file");
        Script(file)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn transcript(url: &str, script: &Script) -> String {
    let mut psql = program("psql");
    psql.args(["-X", "-a", "-v", "VERBOSITY=sqlstate", "-d", url, "-f"]).arg(&script.0);
    let mut both = std::process::Command::new("sh");
    both.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(psql.get_program()).args(psql.get_args());
    run(&mut both).worked().replace(&script.0.display().to_string(), "script")
}

#[test]
fn psql_has_the_answers_that_postgresql_gives() {
    let (tier, servers) = (Tier::start(2), Scratch::start(0));
    let script = Script::new(SCRIPT);
    let expected = transcript(&past(servers.primary()), &script);
    let there = transcript(&tier.url(), &script);
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (expected, there) = (lines(&expected), lines(&there));
    let differs = (0..expected.len().max(there.len())).find(|at| expected.get(*at) != there.get(*at));
    if let Some(at) = differs {
        let near = |lines: &[String]| lines[at.saturating_sub(6)..lines.len().min(at + 6)].join("\n");
        panic!("line {at}: PostgreSQL\n{}\n\nthe tier\n{}", near(&expected), near(&there));
    }
}

/// A tier with a table of a hundred rows.
fn filled(nodes: usize) -> Tier {
    let tier = Tier::start(nodes);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL)").worked();
    psql(&tier.url(), "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 100) i").worked();
    tier
}

#[test]
fn prepared_statements_have_types_and_survive_changes_of_tables() {
    let tier = filled(2);
    let driver = Driver::connect(&tier.url());
    driver.wait(async {
        let client = &driver.client;
        let statement = client.prepare("SELECT id, v FROM t WHERE id = $1").await.expect("prepared");
        assert_eq!(statement.params(), [Type::INT4]);
        let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
        assert_eq!(types, [Type::INT4, Type::TEXT]);
        let row = client.query_one(&statement, &[&7]).await.expect("a row");
        assert_eq!((row.get::<_, i32>(0), row.get::<_, String>(1)), (7, "v7".to_owned()));
        let all = client.prepare("SELECT * FROM t WHERE id = $1").await.expect("prepared");
        let refused = client.prepare("SELECT * FROM no_such_table").await;
        assert_eq!(sqlstate(refused), "42P01");
        client.batch_execute("ALTER TABLE t ADD COLUMN more int").await.expect("a column");
        // The first one names its columns, the second one would return others than the client knows.
        assert_eq!(client.query_one(&statement, &[&7]).await.expect("a row").len(), 2);
        assert_eq!(sqlstate(client.query(&all, &[&7]).await), "0A000");
        let again = client.prepare("SELECT * FROM t WHERE id = $1").await.expect("prepared");
        assert_eq!(client.query_one(&again, &[&7]).await.expect("a row").len(), 3);
        let wrong = client.execute("INSERT INTO t VALUES ($1, $2)", &[&7, &"x"]).await;
        assert_eq!(sqlstate(wrong), "23505");
        assert_eq!(client.execute("DELETE FROM t WHERE id > $1", &[&90]).await.expect("a count"), 10);
    });
}

#[test]
fn portals_give_their_rows_in_portions() {
    let tier = filled(2);
    let mut driver = Driver::connect(&tier.url());
    let Driver { runtime, client } = &mut driver;
    runtime.block_on(soon("answers", async {
        let statement = client.prepare("SELECT id FROM t ORDER BY id").await.expect("prepared");
        for read_only in [false, true] {
            let transaction = client.build_transaction().read_only(read_only).start().await.expect("a block");
            let portal = transaction.bind(&statement, &[]).await.expect("a portal");
            let mut seen = Vec::new();
            loop {
                let rows = transaction.query_portal(&portal, 30).await.expect("a portion");
                if rows.is_empty() {
                    break;
                }
                assert!(rows.len() <= 30);
                seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
            }
            assert_eq!(seen, (1..=100).collect::<Vec<_>>());
            transaction.commit().await.expect("a commit");
        }
    }));
}

#[test]
fn pipelines_fail_from_the_first_error_on() {
    let tier = filled(2);
    let driver = Driver::connect(&tier.url());
    driver.wait(async {
        let client = &driver.client;
        let insert = client.prepare("INSERT INTO t VALUES ($1, 'new')").await.expect("prepared");
        let (one, other) = (1000, 1001);
        let add = async |id: i32| client.execute(&insert, &[&id]).await;
        // Each has a Sync of its own: the second one fails alone.
        let done = tokio::join!(add(one), add(one), add(other));
        assert_eq!(
            (sqlstate(done.0), sqlstate(done.1), sqlstate(done.2)),
            ("00000".into(), "23505".into(), "00000".into())
        );
        let count = client.query_one("SELECT count(*) FROM t WHERE id >= 1000", &[]).await.expect("a count");
        assert_eq!(count.get::<_, i64>(0), 2);
        client.batch_execute("BEGIN").await.expect("a block");
        assert_eq!(sqlstate(add(one).await), "23505");
        assert_eq!(sqlstate(add(2000).await), "25P02");
        client.batch_execute("COMMIT").await.expect("a roll-back");
        let count = client.query_one("SELECT count(*) FROM t WHERE id >= 1000", &[]).await.expect("a count");
        assert_eq!(count.get::<_, i64>(0), 2);
    });
}

/// A client that has gone leaves no statement behind that holds up the writes of others.
#[test]
fn a_statement_ends_with_its_client() {
    let tier = filled(2);
    let driver = Driver::connect(&tier.url());
    let long = "UPDATE t SET v = v || (SELECT count(*) FROM t a, t b, t c, t d, t e, t f)::text";
    let begun = driver.wait(async {
        tokio::time::timeout(Duration::from_millis(100), driver.client.simple_query(long)).await
    });
    assert!(begun.is_err(), "it takes longer");
    drop(driver);
    tier.client().rows("DELETE FROM t WHERE id = 0").expect("a write");
}

#[test]
fn statements_end_by_a_cancel_request_and_by_their_time_limit() {
    let tier = filled(2);
    let driver = Driver::connect(&tier.url());
    let long = "SELECT count(*) FROM t a, t b, t c, t d, t e, t f";
    let update = "UPDATE t SET v = v || (SELECT count(*) FROM t a, t b, t c, t d, t e, t f)::text";
    for text in [long, update] {
        driver.wait(async {
            let token = driver.client.cancel_token();
            let running = driver.client.simple_query(text);
            tokio::pin!(running);
            loop {
                match tokio::time::timeout(Duration::from_millis(20), &mut running).await {
                    Ok(done) => {
                        assert_eq!(sqlstate(done), "57014", "{text}");
                        break;
                    }
                    Err(_) => token.cancel_query(NoTls).await.expect("it is taken"),
                }
            }
            driver.client.batch_execute("SET statement_timeout = '50ms'").await.expect("a limit");
            assert_eq!(sqlstate(driver.client.simple_query(text).await), "57014", "{text}");
            driver.client.batch_execute("RESET statement_timeout").await.expect("no limit");
            // The session goes on, and the statement has changed nothing.
            let row = driver.client.query_one("SELECT v FROM t WHERE id = 1", &[]).await.expect("a row");
            assert_eq!(row.get::<_, String>(0), "v1");
        });
    }
}

/// A statement and a COMMIT that wait for another transaction at the master end as lock waits of PostgreSQL do.
#[test]
fn waits_for_the_writer_end_by_cancel_requests_and_limits() {
    let tier = filled(2);
    let (long, driver) = (Driver::connect(&tier.url()), Driver::connect(&tier.url()));
    let update = "UPDATE t SET v = v || (SELECT count(*) FROM t a, t b, t c, t d, t e, t f)::text";
    let running = long.client.simple_query(update);
    let begun = long.wait(async {
        tokio::pin!(running);
        // It has the writer when the wait of another one has failed.
        driver.client.batch_execute("SET lock_timeout = '20ms'").await.expect("a limit");
        loop {
            tokio::select! {
                done = &mut running => panic!("it takes longer: {done:?}"),
                done = driver.client.batch_execute("DELETE FROM t WHERE id = 0") => {
                    if sqlstate(done) == "55P03" { break }
                }
            }
        }
        let insert = "INSERT INTO t VALUES (1000, 'x')";
        for end in [insert, "COMMIT"] {
            let begin = async || {
                if end == "COMMIT" {
                    driver.client.batch_execute(&format!("BEGIN; {insert}")).await.expect("a block");
                }
            };
            begin().await;
            assert_eq!(sqlstate(driver.client.batch_execute(end).await), "55P03", "{end}");
            driver
                .client
                .batch_execute("SET lock_timeout = 0; SET statement_timeout = '50ms'")
                .await
                .expect("a limit");
            begin().await;
            assert_eq!(sqlstate(driver.client.batch_execute(end).await), "57014", "{end}");
            driver.client.batch_execute("RESET statement_timeout").await.expect("no limit");
            begin().await;
            let token = driver.client.cancel_token();
            let waiting = driver.client.batch_execute(end);
            tokio::pin!(waiting);
            let told = loop {
                match tokio::time::timeout(Duration::from_millis(20), &mut waiting).await {
                    Ok(done) => break sqlstate(done),
                    Err(_) => token.cancel_query(NoTls).await.expect("it is taken"),
                }
            };
            assert_eq!(told, "57014", "{end}");
            driver.client.batch_execute("SET lock_timeout = '20ms'").await.expect("a limit");
        }
        long.client.cancel_token().cancel_query(NoTls).await.expect("it is taken");
        sqlstate(running.await)
    });
    assert_eq!(begun, "57014");
    assert_eq!(tier.client().number("SELECT count(*) FROM t").unwrap(), 100);
}

#[test]
fn copy_takes_rows_and_gives_them_back() {
    use futures_util::{SinkExt, StreamExt};
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text)").worked();
    let driver = Driver::connect(&tier.url());
    driver.wait(async {
        let client = &driver.client;
        let sink = client.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await.expect("a copy");
        tokio::pin!(sink);
        for id in 0..5000 {
            sink.send(bytes::Bytes::from(format!("{id}\tline {id}\\n\n"))).await.expect("a line");
        }
        assert_eq!(sink.finish().await.expect("all rows"), 5000);
        let row = client.query_one("SELECT count(*), min(v) FROM t", &[]).await.expect("a count");
        assert_eq!((row.get::<_, i64>(0), row.get::<_, String>(1)), (5000, "line 0\n".to_owned()));
        // A line that is wrong takes all of its COPY back.
        let sink = client.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await.expect("a copy");
        tokio::pin!(sink);
        sink.send(bytes::Bytes::from_static(b"9000\tx\n0\ttwice\n")).await.expect("lines");
        assert_eq!(sqlstate(sink.finish().await), "23505");
        let out = client.copy_out("COPY t TO STDOUT").await.expect("lines");
        let lines: Vec<_> = out.collect().await;
        assert_eq!(lines.len(), 5000);
        assert_eq!(lines[7].as_ref().expect("a line"), "7\tline 7\\n\n");
    });
}

#[test]
fn pgbench_keeps_its_sums_in_every_protocol() {
    let tier = Tier::start(3);
    let url = tier.url();
    let pgbench = |arguments: &[&str]| run(program("pgbench").args(arguments).arg(&url)).worked();
    pgbench(&["-i", "-s", "1", "-I", "dtgp", "-q"]);
    for protocol in ["simple", "extended", "prepared"] {
        // Transactions that meet at the one branch are run again.
        let said = pgbench(&["-n", "-M", protocol, "-c", "4", "-t", "50", "--max-tries", "10000"]);
        assert!(said.contains("processed: 200/200"), "{said}");
        pgbench(&["-n", "-S", "-M", protocol, "-c", "4", "-t", "200"]);
    }
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
         (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history), \
         (SELECT count(*) FROM pgbench_history)";
    assert_eq!(psql(&url, sums).worked().trim(), "t|t|600");
}

/// Every client reads at once, wherever it reads, what another one was told of.
#[test]
fn every_client_reads_what_was_acknowledged() {
    let tier = filled(4);
    let mut writer = tier.client();
    let mut readers: Vec<Client> = (0..6).map(|_| tier.client()).collect();
    for round in 0..50 {
        let set = format!("UPDATE t SET v = '{round}' WHERE id = 1");
        if round % 2 == 0 {
            writer.rows(&set).expect("a write");
        } else {
            writer.rows(&format!("BEGIN; {set}; COMMIT")).expect("a write");
        }
        for reader in &mut readers {
            assert_eq!(reader.number("SELECT v FROM t WHERE id = 1").unwrap(), round);
        }
    }
}

#[test]
fn a_block_whose_node_dies_is_to_be_run_again_and_its_session_goes_on() {
    let tier = filled(3);
    let (mut reader, mut writer, mut idle) = (tier.client(), tier.client(), tier.client());
    reader.rows("BEGIN READ ONLY; SELECT count(*) FROM t").expect("a read");
    writer.rows("BEGIN; UPDATE t SET v = 'x'").expect("a write");
    for node in tier.nodes() {
        tier.signal(&node.name, rustix::process::Signal::KILL);
    }
    for client in [&mut reader, &mut writer] {
        let lost = client.rows("SELECT count(*) FROM t").expect_err("the node is gone");
        assert_eq!(lost.sqlstate.as_deref(), Some("40001"), "{lost:?}");
        assert_eq!(client.rows("SELECT 1").unwrap_err().sqlstate.as_deref(), Some("25P02"));
    }
    tier.up(3);
    for client in [&mut reader, &mut writer] {
        client.rows("ROLLBACK").expect("an end");
        eventually("a session that goes on", || {
            client.number("SELECT count(*) FROM t").is_ok_and(|count| count == 100)
        });
    }
    assert_eq!(idle.one("SELECT v FROM t WHERE id = 1").expect("a read"), "v1");
}

#[test]
fn clients_that_the_tier_cannot_serve_are_told_why() {
    let tier = Tier::start(1);
    let url = tier.url();
    let refused = |more: &str| {
        let text = if more.contains('/') { more.to_owned() } else { format!("{url}?{more}") };
        Client::connect(&text).err().and_then(|trouble| trouble.sqlstate)
    };
    assert_eq!(
        refused(&format!("postgres://postgres@127.0.0.1:{}/other", tier.folder.port)).as_deref(),
        Some("3D000")
    );
    assert_eq!(refused("options=-c%20client_encoding%3DLATIN1").as_deref(), Some("0A000"));
    assert_eq!(refused("options=-c%20no_such%3D1").as_deref(), Some("42704"));
    assert_eq!(refused("options=-c%20statement_timeout%3D5s"), None);
    let mut client = tier.client();
    client.rows("SET idle_in_transaction_session_timeout = '20ms'").expect("a limit");
    client.rows("BEGIN").expect("a block");
    eventually("the end of an idle session", || client.rows("SELECT 1").is_err());
}

#[test]
fn the_console_lists_nodes_and_ends_the_process() {
    let tier = Tier::start(2);
    let url = format!("postgres://postgres@127.0.0.1:{}/consort", tier.folder.port);
    let mut console = Client::connect(&url).expect("the console");
    let nodes = console.rows("SHOW NODES").expect("nodes");
    assert_eq!(nodes.iter().filter(|row| row.get("role") == Some("master")).count(), 1);
    assert_eq!(nodes.iter().filter(|row| row.get("state") == Some("up")).count(), 2);
    let help = console.rows("SHOW HELP").expect("commands");
    for row in help.iter().filter_map(|row| row.get("command")).filter(|name| *name != "SHUTDOWN") {
        console.rows(row).expect(row);
    }
    let unknown = console.rows("SHOW REPLICAS").expect_err("a command of other designs");
    assert_eq!(unknown.sqlstate.as_deref(), Some("42601"));
    console.rows("SHUTDOWN").expect("it is taken");
    eventually("the end of the process", || Client::connect(&tier.url()).is_err());
}
