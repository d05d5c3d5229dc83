//! `serve` in front of servers that are there already: signals, pages, attaching and its opposite.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use testkit::Scratch;

use crate::fixture::{LIMIT, Serving, configuration, consort, eventually, free_port, psql, serve, temporary};
use crate::load::{ANYWHERE, Client, Console, THROUGH, past, serving};

/// One page of the HTTP listener: status line and body.
pub(crate) fn page(serving: &Serving, path: &str) -> (String, String) {
    page_at(serving.metrics_port, path)
}

/// The same of whoever listens at this port.
pub(crate) fn page_at(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("the connection holds");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("the connection holds");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the connection holds");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().expect("a status line").to_owned(), body.to_owned())
}

/// One figure of the page of metrics; 0 if it is not there yet.
pub(crate) fn figure(serving: &Serving, name: &str) -> u64 {
    let (_, metrics) = page(serving, "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().expect("a number"))
}

#[test]
fn pages_for_machines_are_served() {
    let serving = Serving::start(1, "");
    assert_eq!(page(&serving, "/healthz"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    assert_eq!(page(&serving, "/readyz").0, "HTTP/1.1 200 OK");
    psql(&serving.url("postgres", "postgres"), "SELECT 1").worked();
    let (status, metrics) = page(&serving, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for name in
        ["consort_clients{state=\"idle\"}", "consort_node_serving{node=\"standby1\"}", "consort_probes_total"]
    {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} is missing in\n{metrics}");
    }
}

#[test]
fn sigterm_lets_an_open_transaction_end_and_nobody_in() {
    let mut serving = Serving::start(0, "");
    let mut session = testkit::program("psql")
        .args(["-X", "-A", "-t", "-d", &serving.url("postgres", "postgres")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut say = session.stdin.take().unwrap();
    let mut hear = BufReader::new(session.stdout.take().unwrap());
    let mut line = String::new();
    say.write_all(b"BEGIN;\nSELECT 'inside';\n").unwrap();
    while line.trim() != "inside" {
        line.clear();
        assert_ne!(hear.read_line(&mut line).unwrap(), 0, "psql goes on");
    }
    serving.signal("TERM");
    let url = serving.url("postgres", "postgres");
    eventually("a closed door", || !psql(&url, "SELECT 1").status.success());
    assert_eq!(page(&serving, "/readyz").0, "HTTP/1.1 503 Service Unavailable");
    say.write_all(b"CREATE TABLE done (); COMMIT;\n").unwrap();
    drop(say);
    session.wait().unwrap();
    assert!(serving.ended().success());
    assert_eq!(
        serving.servers.query("SELECT count(*) FROM pg_class WHERE relname = 'done'")[0][0].as_deref(),
        Some("1")
    );
}

#[test]
fn after_the_drain_time_open_transactions_are_cut_off() {
    let mut serving = Serving::start(0, "shutdown_drain_timeout = \"100ms\"");
    let mut client = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    client.rows("BEGIN; CREATE TABLE undone ()").unwrap();
    serving.signal("TERM");
    assert!(serving.ended().success());
    let trouble = client.rows("COMMIT").expect_err("it was cut off");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57P01"), "{trouble:?}");
    let made = "SELECT count(*) FROM pg_class WHERE relname = 'undone'";
    assert_eq!(serving.servers.query(made)[0][0].as_deref(), Some("0"));
}

#[test]
fn after_the_drain_time_statements_are_ended() {
    let mut serving = Serving::start(0, "shutdown_drain_timeout = \"100ms\"");
    serving.servers.query("CREATE TABLE late (n int)");
    let mut client = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    let writing = std::thread::spawn(move || client.rows("INSERT INTO late SELECT 1 FROM pg_sleep(600)"));
    let active = "SELECT FROM pg_stat_activity WHERE query LIKE 'INSERT INTO late%' AND state = 'active'";
    eventually("a statement", || !serving.servers.query(active).is_empty());
    serving.signal("TERM");
    assert!(serving.ended().success());
    let trouble = writing.join().unwrap().expect_err("it was ended");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57P01"), "{trouble:?}");
    eventually("nothing that goes on", || serving.servers.query(active).is_empty());
    assert!(serving.servers.query("SELECT FROM late").is_empty());
}

/// A client that vanishes is found: the system probes each silent connection.
#[test]
fn connections_that_say_nothing_are_looked_after() {
    let serving = Serving::start(0, "");
    let _idle = Client::connect(&format!("{}?keepalives=0", serving.url("postgres", "postgres"))).unwrap();
    let place = format!(":{:04X}", serving.port);
    let of_ours = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Its own address and port, the other's, that it is established, what waits, and which timer runs.
        words.len() > 5 && words[1].ends_with(&place) && words[3] == "01"
    };
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let timers: Vec<&str> =
        table.lines().filter(of_ours).map(|line| line.split_whitespace().nth(5).unwrap()).collect();
    assert!(!timers.is_empty() && timers.iter().all(|timer| timer.starts_with("02:")), "{timers:?}");
}

/// A commit that no synchronous standby has is not acknowledged, in whatever way the wait for it ends.
#[test]
fn a_commit_that_waits_for_a_standby_is_not_acknowledged_by_the_end() {
    let mut serving = Serving::start(0, "shutdown_drain_timeout = \"100ms\"");
    serving.servers.query("CREATE TABLE late (n int)");
    let mut client = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    serving.servers.primary().set("synchronous_standby_names", "nobody").unwrap();
    // The first ones may not wait yet: the server applies the setting a moment later.
    let writing = std::thread::spawn(move || {
        (0..)
            .find_map(|_| client.rows("INSERT INTO late VALUES (1)").err())
            .expect("they go on until one fails")
    });
    let waits =
        "SELECT FROM pg_stat_activity WHERE query LIKE 'INSERT INTO late%' AND wait_event = 'SyncRep'";
    eventually("a commit that waits", || !serving.servers.query(waits).is_empty());
    serving.signal("TERM");
    assert!(serving.ended().success());
    let trouble = writing.join().unwrap();
    assert_eq!(trouble.sqlstate.as_deref(), Some("08006"), "nobody says what became of it: {trouble:?}");
}

#[test]
fn reload_takes_over_what_can_change_and_refuses_mistakes() {
    let serving = Serving::start(0, "stats_users = []");
    let console = serving.url("eye", "consort");
    assert!(psql(&console, "SHOW VERSION").err.contains("not permitted to use the console"));
    let text = fs::read_to_string(serving.config_file()).unwrap();
    fs::write(serving.config_file(), text.replace("stats_users = []", "stats_users = [\"eye\"]")).unwrap();
    serving.signal("HUP");
    eventually("the new setting", || psql(&console, "SHOW VERSION").status.success());
    assert!(psql(&console, "SHUTDOWN").err.contains("permission denied"));

    fs::write(serving.config_file(), text.replace("stats_users", "stat_users")).unwrap();
    let admin = serving.url("postgres", "consort");
    let refused = psql(&admin, "RELOAD").err;
    assert!(refused.contains("stat_users: unknown key; did you mean stats_users?"), "{refused}");
    assert!(psql(&console, "SHOW VERSION").status.success(), "what counted goes on");

    // The limits count at once; what needs a new start is named.
    let key = "max_held_result_size = \"128kB\"\ndesign = \"weak\"\nconsole_database = \"elsewhere\"\n";
    let text = text.replace("stats_users = []", "max_clients = 2");
    fs::write(serving.config_file(), format!("log_level = \"debug\"\n{key}{text}")).unwrap();
    let told = psql(&admin, "RELOAD");
    assert!(
        told.err.contains(
            "settings that take effect after a restart: design, max_held_result_size, console_database"
        ),
        "{told:?}"
    );
    let own = psql(&serving.url("postgres", "postgres"), "SHOW consort.consistency").worked();
    assert_eq!(own, "strong\n", "by the design that the process runs by");
    // Until then the console shows what counts, and says each time what waits.
    let shown = psql(&admin, "SHOW CONFIG").out;
    assert!(shown.contains("max_held_result_size|64kB|"), "{shown}");
    assert!(shown.contains("max_clients|2|"), "{shown}");
    let told = psql(&admin, "RELOAD");
    assert!(told.err.contains("settings that take effect after a restart: design"), "{told:?}");
    let url = serving.url("postgres", "postgres");
    let held: Vec<_> = (0..2).map(|_| Client::connect(&url).unwrap()).collect();
    let refused = Client::connect(&url).err().expect("two are in");
    assert_eq!(refused.sqlstate.as_deref(), Some("53300"), "{refused:?}");
    // The administrator, who looks at the clients, gets in.
    assert_eq!(psql(&admin, "SHOW CLIENTS").worked().matches("|postgres|postgres|").count(), 2);
    drop(held);
}

/// A standby's walsender is no writer, nor is Consort's own. A finding counts until the operator says
/// otherwise.
#[test]
fn a_walsender_that_takes_sql_is_a_writer_past_consort() {
    let (serving, mut console, _url) = serving(1, THROUGH);
    assert_eq!(console.writers(), "through-consort");
    // Clients from before Consort's start are waited for, and are no news.
    eventually("nothing in doubt", || console.rows("SHOW IN_FLIGHT").is_empty());
    let (folder, port) =
        (serving.servers.primary().socket_folder().display(), serving.servers.primary().port());
    let mut psql = testkit::program("psql");
    psql.args([
        "-XAt",
        "-d",
        &format!("host={folder} port={port} user=postgres dbname=postgres replication=database"),
    ]);
    let mut past = psql.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("psql runs");
    eventually("a writer past Consort", || console.writers() == "anywhere");
    drop(past.stdin.take());
    assert!(past.wait().expect("it ends").success());
    console.rows("SET max_clients = 70");
    assert_eq!(console.writers(), "anywhere", "nothing was said of writers");
    console.rows("SET writers = 'through-consort'");
    assert_eq!(console.writers(), "through-consort");
}

#[test]
fn a_table_that_is_locked_at_first_gets_its_identity_later() {
    let servers = Scratch::start(1);
    let file = temporary("attach").with_extension("toml");
    fs::write(&file, configuration(&servers, free_port(), "auth_type = \"trust\"")).unwrap();
    consort(&["attach", "--database", "postgres", "--config", file.to_str().unwrap()]).worked();
    fs::remove_file(&file).unwrap();
    // Its earlier holder would be waited for.
    servers.query("ALTER EVENT TRIGGER consort_ddl_command_end DISABLE; CREATE TABLE held (a int)");
    servers.query("ALTER EVENT TRIGGER consort_ddl_command_end ENABLE ALWAYS; INSERT INTO held VALUES (1)");
    let mut holder = Client::connect(&past(servers.primary())).unwrap();
    holder.rows("BEGIN; LOCK TABLE held IN ACCESS SHARE MODE").unwrap();
    let serving = Serving::over(servers, ANYWHERE);
    let mut client = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    let update = "UPDATE held SET a = a + 1";
    assert_eq!(client.rows(update).err().and_then(|trouble| trouble.sqlstate).as_deref(), Some("55000"));
    holder.rows("COMMIT").unwrap();
    eventually("an identity", || client.rows(update).is_ok());
    let identity = "SELECT relreplident FROM pg_class WHERE relname = 'held'";
    assert_eq!(serving.servers.query(identity)[0][0].as_deref(), Some("f"));
}

#[test]
fn max_clients_is_compared_with_the_primary_at_start() {
    let mut serving = Serving::start(0, "max_clients = 1000\npool_mode = \"session\"");
    serving.signal("TERM");
    serving.ended();
    let mut child = serve(serving.config_file())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    for words in ["max_clients is 1000", "max_connections is 100", "ALTER SYSTEM SET max_connections"] {
        assert!(log.contains(words), "{words} is missing in {log}");
    }
}

#[test]
fn what_a_slot_keeps_is_measured() {
    let mut options = Scratch::options();
    options.standbys = 0;
    options.settings.push(("max_slot_wal_keep_size".to_owned(), "1GB".to_owned()));
    let serving = Serving::over(Scratch::with(options), THROUGH);
    let url = serving.url("postgres", "postgres");
    let mut holder = Client::connect(&url).unwrap();
    // The slot must keep the WAL from here on: an open transaction that wrote.
    holder.rows("CREATE TABLE t (n int)").unwrap();
    let kept = || figure(&serving, "consort_slot_retained_bytes{database=\"postgres\"}");
    let left = || figure(&serving, "consort_slot_remaining_bytes{database=\"postgres\"}");
    eventually("the slot's limit", || left() > 0);
    holder.rows("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    let (before, room) = (kept(), left());
    psql(&url, "SELECT pg_logical_emit_message(false, '', repeat('x', 40000000))").worked();
    eventually("a slot that keeps more", || kept() > before + 30_000_000 && left() < room);
    let status = serving.run("status", &[]).worked();
    assert!(status.contains("; its slot retains") && status.contains("and is lost after"), "{status}");
    holder.rows("COMMIT").unwrap();
}

#[test]
fn attach_check_repair_and_detach() {
    let mut serving = Serving::start(1, "databases = [\"postgres\"]");
    let checked = serving.run("check", &[]).worked();
    assert!(
        checked.contains("postgres is not attached") && checked.contains("consort attach --config"),
        "{checked}"
    );
    serving.servers.query("CREATE TABLE keyless (v int)");
    let attached = serving.run("attach", &[]).worked();
    assert!(attached.contains("postgres: attached, slot consort_postgres_5"), "{attached}");
    let used = "SELECT 1 FROM pg_replication_slots WHERE slot_type = 'logical' AND active";
    psql(&serving.url("postgres", "postgres"), "SELECT 1").worked();
    eventually("a slot in use", || !serving.servers.query(used).is_empty());
    let checked = serving.run("check", &[]).worked();
    assert!(checked.contains("primary: ok") && checked.contains("standby1: ok"));
    serving.servers.query("DROP EVENT TRIGGER consort_sql_drop");
    // Consort reads the catalog again, and may follow the database again.
    let mut checked = None;
    eventually("a check without an inactive slot", || {
        let done = serving.run("check", &[]);
        checked = done.status.success().then_some(done.out);
        checked.is_some()
    });
    assert!(checked.is_some_and(|checked| checked.contains("no event trigger consort_sql_drop")));
    assert!(serving.run("repair", &[]).worked().contains("postgres: complete, slot consort_postgres_5"));
    assert!(serving.run("check", &[]).worked().contains("primary: ok"));
    eventually("a slot in use", || !serving.servers.query(used).is_empty());
    assert!(
        serving.run("detach", &[]).failed(1).contains("postgres: the slot is in use, stop Consort first")
    );
    serving.signal("TERM");
    serving.ended();
    assert_eq!(serving.run("detach", &[]).worked(), "postgres: detached\n");
    assert_eq!(serving.run("detach", &[]).worked(), "postgres: was not attached\n");
    let left = "SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical') + (SELECT count(*) FROM pg_publication)";
    assert_eq!(serving.servers.query(left)[0][0].as_deref(), Some("0"));
}

#[test]
fn what_cannot_be_attached_is_named_before_anything_is_made() {
    let mut options = Scratch::options();
    options.standbys = 0;
    options.settings.push(("max_replication_slots".to_owned(), "1".to_owned()));
    let servers = Scratch::with(options);
    servers.query("CREATE DATABASE shop");
    let file = temporary("attach").with_extension("toml");
    let of = |databases: &str| {
        let lines = format!("auth_type = \"trust\"\ndatabases = [{databases}]");
        fs::write(&file, configuration(&servers, free_port(), &lines)).unwrap();
    };
    let run = |arguments: &[&str]| consort(&[arguments, &["--config", file.to_str().unwrap()]].concat());

    of("\"postgres\", \"shopp\"");
    for subcommand in ["check", "attach", "repair"] {
        let said = run(&[subcommand]).failed_saying(1);
        assert!(said.contains("database shopp does not exist at the primary"), "{subcommand}: {said}");
    }
    of("\"postgres\", \"shop\"");
    let slots = "max_replication_slots leaves 1 free, 2 more are needed";
    let said = run(&["attach"]).failed(1);
    assert!(said.contains(slots) && said.contains("ALTER SYSTEM SET max_replication_slots"), "{said}");
    let said = run(&["attach", "--database", "nodb"]).failed(1);
    assert!(said.contains("nodb: database \"nodb\" does not exist"), "{said}");
    run(&["attach", "--database", "postgres"]).worked();
    let said = run(&["attach", "--database", "shop"]).failed(1);
    assert!(said.contains("max_replication_slots leaves 0 free, 1 more"), "{said}");
    assert!(servers.query_in("shop", "SELECT 1 FROM pg_event_trigger").is_empty());
    fs::remove_file(&file).unwrap();
}

#[test]
fn check_names_every_missing_prerequisite_with_the_line_that_mends_it() {
    let serving = Serving::start(1, "max_clients = 1000\ndefault_pool_size = 1000");
    serving.servers.standby(0).set("hot_standby_feedback", "off").unwrap();
    let done = serving.run("check", &[]);
    assert!(
        done.out.contains("default_pool_size is 1000")
            && done.out.contains("ALTER SYSTEM SET max_connections")
    );
    eventually("the standby's new setting", || {
        serving.run("check", &[]).out.contains("ALTER SYSTEM SET hot_standby_feedback = on")
    });
    assert!(done.failed(1).contains("1 prerequisite is missing"));
}

#[test]
fn explain_says_what_a_statement_touches_and_what_keeps_it() {
    let lines = "databases = [\"postgres\"]\nreplica_safe_functions = [\"public.tame\", \"public.wild\"]\n\
                 [procedure.\"public.tame\"]\ntables_read = \"orders\"";
    let serving = Serving::start(0, lines);
    serving.servers.query("CREATE TABLE orders (id int PRIMARY KEY, n int); CREATE SEQUENCE s");
    for name in ["tame", "wild"] {
        let body = "LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT max(n) FROM orders); END'";
        serving.servers.query(&format!("CREATE FUNCTION {name}() RETURNS int {body}"));
    }
    let explain = |sql: &str| serving.run("explain", &[sql]);
    assert!(explain("SELECT 1").worked().contains("the database postgres is not attached"));
    serving.run("attach", &[]).worked();
    let read = explain("SELECT n FROM orders WHERE id = 7").worked();
    assert!(
        read.contains("outside a transaction: may run at a standby")
            && read.contains("inside one: the same before the first write")
            && read.contains("orders (id, n; 1 row by its key)"),
        "{read}"
    );
    let counted = explain("SELECT count(*) FROM orders").worked();
    assert!(counted.contains("orders (no column; all rows"), "{counted}");
    assert!(explain(" -- nothing").failed(1).contains("the text contains no statement"));
    let several = explain("UPDATE orders SET n = 1; SELECT nextval('s'); BEGIN").worked();
    for sentence in [
        "the statement writes",
        "writes: orders",
        "the statement reads or advances a sequence",
        "utility statement (begin)",
    ] {
        assert!(several.contains(sentence), "{sentence} is missing in {several}");
    }
    assert!(several.contains("in one query message all statements run at the primary"), "{several}");
    for (comment, said) in [("weak", "the consistency weak"), ("wek", "an unknown consistency")] {
        let explained = explain(&format!("/* consort: {comment} */ SELECT n FROM orders")).worked();
        assert!(explained.contains(&format!("the comment requests {said}")), "{explained}");
    }
    let tame = explain("SELECT tame()").worked();
    assert!(
        tame.contains("may run at a standby") && tame.contains("reads: orders (all columns; all rows)"),
        "{tame}"
    );
    let wild = explain("SELECT wild()").worked();
    assert!(wild.contains("not known to be replica-safe"), "{wild}");
    let why = "public.wild is VOLATILE, and no table [procedure.\"public.wild\"] declares what it reads (tables_read)";
    assert!(wild.contains(&format!("replica_safe_functions: {why}: this declaration is ignored")), "{wild}");
    assert!(explain("SELECT * FROM nowhere").failed(1).contains("\"nowhere\" does not exist"));
}

#[test]
fn explain_says_what_every_server_executes_and_what_is_declared_for_it() {
    let tables = "CREATE SCHEMA shop; CREATE TABLE items (id int PRIMARY KEY, n int); \
        CREATE TABLE shop.\"Orders\" (id serial PRIMARY KEY, item int REFERENCES items); \
        CREATE TABLE parts (id int) PARTITION BY LIST (id); CREATE TABLE part PARTITION OF parts FOR VALUES IN (1); \
        CREATE PROCEDURE place(item int) LANGUAGE sql AS 'INSERT INTO shop.\"Orders\" (item) VALUES (item)'";
    let declared = "[procedure.\"public.place\"]\ntables_written = '''shop.\"Orders\", \"Orders_id_seq\"'''";
    for design in crate::ordered::both() {
        let declares = crate::waiting::named(|design| design.declares_tables()) == design;
        let lines = format!("databases = [\"postgres\"]\ndesign = \"{design}\"\n{declared}");
        let serving = Serving::start(0, &lines);
        serving.servers.query(tables);
        serving.run("attach", &[]).worked();
        for (sql, said, declaration) in [
            (
                "INSERT INTO shop.\"Orders\" (item) VALUES (7)",
                "every server executes it",
                "consort.tables_read = 'items', consort.tables_written = 'shop.\"Orders\"'",
            ),
            ("DELETE FROM parts", "every server executes it", "consort.tables_written = 'parts'"),
            ("SELECT n FROM items", "may run at any server", "consort.tables_read = 'items'"),
            ("SELECT now() FROM items", "runs at the primary", "consort.tables_read = 'items'"),
            (
                "UPDATE items SET n = random() * 9",
                "rejected with 0A000: the statement uses random values",
                "",
            ),
            ("CREATE TABLE more (id int)", "every server executes it", "consort.tables_written = '*'"),
            ("CREATE TABLE more AS SELECT 1", "rejected with 0A000", ""),
            ("CREATE ROLE somebody", "rejected with 0A000", ""),
            ("COPY items FROM STDIN", "rejected with 0A000: COPY FROM STDIN is not supported", ""),
            (
                "CALL place(3)",
                "every server executes it",
                "consort.tables_read = 'items', consort.tables_written = 'shop.\"Orders\", shop.\"Orders_id_seq\"'",
            ),
            ("CALL other(3)", "rejected with 0A000: the procedure is not declared", ""),
            ("SET work_mem = '1MB'", "utility statement (set)", ""),
        ] {
            let explained = serving.run("explain", &[sql]).worked();
            assert!(explained.contains(said), "{design}: {said} is missing in {explained}");
            let shown = explained.contains("a transaction block must declare");
            assert_eq!(shown, declares && !declaration.is_empty(), "{explained}");
            assert!(!shown || explained.contains(&format!("{declaration}\n")), "{explained}");
        }
        for (comment, said) in [
            ("tables_written = 'items'", "the comment declares all tables"),
            ("tables_read = 'items'", "the comment does not declare items: rejected with 55000"),
            (
                "tables_written = 'nothing'",
                "the comment declares the table \"nothing\", which does not exist: 42P01",
            ),
            ("tables_writen = 'items'", "invalid comment: rejected with 42704"),
        ] {
            let explained =
                serving.run("explain", &[&format!("/* consort: {comment} */ DELETE FROM items")]).worked();
            assert_eq!(explained.contains(said), declares, "{design}: {explained}");
        }
    }
}

#[test]
fn a_database_that_is_not_utf8_says_why_its_reads_stay() {
    let (serving, mut console, url) = serving(1, THROUGH);
    Client::connect(&url)
        .unwrap()
        .rows("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
        .unwrap();
    let mut client = Client::connect(&serving.url("postgres", "bytes")).unwrap();
    client.rows("CREATE TABLE t AS SELECT 7 AS v").unwrap();
    eventually("reads that may leave", || console.stays("bytes").is_empty());
    let odd = "EXECUTE format('CREATE TABLE %I (v int)', convert_from('\\x61e9', 'SQL_ASCII'))";
    client.rows(&format!("DO $$BEGIN {odd}; END$$")).unwrap();
    eventually("the reason", || console.stays("bytes").contains("restore a dump"));
    assert!(serving.run("status", &[]).worked().contains("restore a dump"));
    assert_eq!(client.number("SELECT v FROM t").unwrap(), 7);
}
