//! The design in which statements travel: replicas that execute them are equal to the primary, whatever is written by whom,
//! and whoever is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use design::Effects;
use local_cluster::Options;
use testkit::Scratch;
use tokio_postgres::SimpleQueryRow;

use crate::fixture::{Serving, eventually, load, up_folder};
use crate::load::{ANYWHERE, Client, Console, THROUGH, past, served};
use crate::waiting::{is_so, named, serving, shows_all};

const TABLES: &str = "CREATE TABLE sums (id int PRIMARY KEY, v bigint NOT NULL); \
    CREATE TABLE parts (id int PRIMARY KEY, v bigint NOT NULL); CREATE TABLE note (n int, v bigint); \
    INSERT INTO sums SELECT n, 0 FROM generate_series(1, 60) n; \
    INSERT INTO parts SELECT n, n FROM generate_series(1, 60) n";

/// Statements of each writer, one after the other: the rows that it reads are written by others meanwhile.
fn statements(writer: u64, round: u64) -> Vec<String> {
    let (some, row) = (round % 5, (round * 7 + writer) % 60 + 1);
    match round % 6 {
        0 => vec![format!("UPDATE sums SET v = v + (SELECT sum(v) FROM parts) % 1000 WHERE id % 5 = {some}")],
        1 => vec![format!("UPDATE parts SET v = v + {round} WHERE id = {row}")],
        2 => vec![
            "BEGIN".to_owned(),
            format!("UPDATE parts SET v = (SELECT max(v) FROM sums) % 997 + id WHERE id % 5 = {some}"),
            format!("INSERT INTO note SELECT id, v FROM parts WHERE id % 5 = {some}"),
            "COMMIT".to_owned(),
        ],
        3 => vec![format!("DELETE FROM note WHERE n % 5 = {some} OR v < (SELECT min(v) FROM sums)")],
        4 => vec![format!("UPDATE sums SET v = (random() * 1000)::int WHERE id % 9 = {some}")],
        _ => vec![format!("UPDATE parts SET v = v + 1 WHERE v < (SELECT avg(v) FROM sums)")],
    }
}

/// Several of them, one past Consort.
struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    fn start(urls: &[String]) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |(writer, url): (u64, &String)| {
            let (stop, mut client) = (stop.clone(), Client::connect(url).expect("a log-in"));
            std::thread::spawn(move || {
                for round in writer.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    for statement in statements(writer, round) {
                        if let Err(trouble) = client.rows(&statement) {
                            assert_eq!(
                                trouble.sqlstate.as_deref(),
                                Some("40P01"),
                                "{statement}: {trouble:?}"
                            );
                            client.rows("ROLLBACK").expect("it is rolled back");
                            break;
                        }
                    }
                }
            })
        };
        let threads = (0..).zip(urls).map(spawn).collect();
        Writers { stop, threads }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a writer"));
    }
}

/// The replica shows, and its figures count, all commits that were answered: Consort itself hears of a commit only when it
/// is decoded, so one more is followed on its way.
fn settled(serving: &Serving, console: &mut Console) {
    let mark = "UPDATE counter SET n = n + 1 WHERE id = 1 RETURNING n";
    let mark = Client::connect(&past(serving.servers.primary()))
        .and_then(|mut client| client.number(mark))
        .expect("a mark");
    let mut replica = Client::connect(&past(serving.servers.replica(0))).expect("a log-in");
    eventually("the mark", || {
        replica.number("SELECT n FROM counter WHERE id = 1").expect("an answer") == mark
    });
    shows_all(console, 1);
}

/// A figure of the replica's feeding.
fn figure(console: &mut Console, name: &str) -> u64 {
    let rows = console.rows("SHOW REPLICATION");
    let value = |row: &SimpleQueryRow| row.get(name).and_then(|value| value.parse().ok());
    rows.iter().find_map(value).unwrap_or_default()
}

#[test]
fn replicas_that_execute_statements_are_equal_whatever_writes() {
    let design = named(|design| design.effects == Effects::Statements);
    let lines = format!("{ANYWHERE}\nstatement_rows = 1\napply_connections = 3");
    let (serving, mut console, url) = serving(design, 1, &lines);
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let past = past(serving.servers.primary());
    let writers = Writers::start(&[url.clone(), url.clone(), url, past]);
    let replica = serving.servers.replica(0);
    for _ in 0..3 {
        let before = figure(&mut console, "statements");
        eventually("statements that travel", || figure(&mut console, "statements") > before + 20);
        replica.kill();
        replica.start().expect("it starts again");
    }
    let before = figure(&mut console, "statements");
    eventually("statements that travel", || figure(&mut console, "statements") > before + 20);
    // While they go on: in a state between two boundaries.
    let verify = |console: &mut Console| {
        let rows = console.rows("VERIFY postgres");
        let state = |table: &str| {
            let of = |row: &&SimpleQueryRow| row.get("table") == Some(table);
            rows.iter().find(of).and_then(|row| row.get("state")).unwrap_or_default().to_owned()
        };
        ["sums", "parts", "note"].map(|table| state(&format!("public.{table}")))
    };
    assert_eq!(verify(&mut console), ["equal", "equal", "equal"]);
    writers.end();
    settled(&serving, &mut console);
    assert_eq!(verify(&mut console), ["equal", "equal", "equal"]);
    assert_eq!(figure(&mut console, "steps_undone"), 0, "each does what it did at the primary");
}

#[test]
fn histories_of_statements_that_travel_are_what_one_server_would_give() {
    let design = named(|design| design.effects == Effects::Statements);
    for writers in [THROUGH, ANYWHERE] {
        let lines = format!("{writers}\nstatement_rows = 1\napply_connections = 3");
        let (serving, mut console, url) = serving(design, 2, &lines);
        let at_replicas = |console: &mut Console| served(console, "replica1") + served(console, "replica2");
        let before = at_replicas(&mut console);
        let shown = serving.url("postgres", "consort");
        let line = ["histories", "--url", &url, "--console", &shown, "--time", "4s", "--rate", "600"];
        let levels = ["--isolation", "repeatable-read,serializable,read-committed,autocommit"];
        let parts = ["--keys", "20", "--read-only", "0.5", "--together", "0.6"];
        let told = load(&[&line[..], &levels, &parts].concat());
        assert_eq!(told.matches("  valid").count(), 4, "{told}");
        let travelled = crate::serving::figure(&serving, "consort_commits_as_statements_total");
        assert!(travelled > 50, "{travelled} commits as statements\n{told}");
        assert!(at_replicas(&mut console) > before, "{told}");
        let said = serving.run("verify", &["postgres"]).worked();
        assert!(said.contains("public.consort_bench_list") && !said.contains("differs"), "{said}");
    }
}

/// Statements that draw UUIDs and random numbers by the functions of 17 and 18 go as rows.
#[test]
fn random_functions_of_new_majors_go_as_rows() {
    let design = named(|design| design.effects == Effects::Statements);
    let options = Options { standbys: 0, replicas: 1, ..Scratch::options() };
    let servers = Scratch::of_major(18, &options);
    let lines = format!("design = \"{design}\"\n{ANYWHERE}\nstatement_rows = 1");
    let serving = Serving::over(Arc::new(servers), &lines);
    let url = serving.url("postgres", "postgres");
    let mut client = Client::connect(&url).expect("a log-in");
    client.rows(crate::load::TABLES).expect("the tables can be made");
    client.rows(TABLES).expect("the tables can be made");
    client.rows("CREATE TABLE drawn (id int PRIMARY KEY, u uuid)").expect("a table");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    shows_all(&mut console, 1);
    let all = "UPDATE sums SET v = v + 1";
    eventually("a statement that travels", || {
        client.rows(all).expect("it is updated");
        figure(&mut console, "statements") > 0
    });
    settled(&serving, &mut console);
    let before = figure(&mut console, "statements");
    client.rows("INSERT INTO drawn SELECT n, NULL FROM generate_series(1, 9) n").expect("rows");
    for round in 0..10 {
        for sql in [
            "UPDATE sums SET v = random(1, 1000000)",
            "UPDATE drawn SET u = uuidv4()",
            "UPDATE drawn SET u = uuidv7()",
            "UPDATE sums SET v = random_normal() * 1000",
            "UPDATE sums SET v = (array_shuffle(ARRAY[1, 2, 3, 4, 5]))[1]",
        ] {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{sql} {round}: {trouble:?}"));
        }
    }
    settled(&serving, &mut console);
    // The INSERT may have gone as a statement.
    assert!(figure(&mut console, "statements") <= before + 1, "none of them");
    assert_eq!(figure(&mut console, "steps_undone"), 0);
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(said.contains("public.drawn") && !said.contains("differs"), "{said}");
}

#[test]
fn statements_that_call_declared_functions_travel() {
    let design = named(|design| design.effects == Effects::Statements);
    let declared = "[procedure.\"public.of_parts\"]\ntables_read = \"parts\"";
    let (serving, mut console, url) =
        serving(design, 1, &format!("{ANYWHERE}\nstatement_rows = 1\n{declared}"));
    let mut client = Client::connect(&url).expect("a log-in");
    client.rows(TABLES).expect("the tables can be made");
    for name in ["of_parts", "of_others"] {
        let body = "BEGIN RETURN (SELECT sum(v) FROM parts WHERE id <> n); END";
        let create = format!("CREATE FUNCTION {name}(n int) RETURNS bigint LANGUAGE plpgsql AS $${body}$$");
        client.rows(&create).expect("a function");
    }
    let called = "UPDATE sums SET v = of_parts(id)";
    eventually("a statement that travels", || {
        client.rows(called).expect("it is updated");
        figure(&mut console, "statements") > 0
    });
    settled(&serving, &mut console);
    let before = figure(&mut console, "statements");
    for _ in 0..20 {
        client.rows("UPDATE parts SET v = v + 1 WHERE id = 7").expect("it is updated");
        client.rows(called).expect("it is updated");
    }
    // Both of them, except the first ones, which are not analysed yet: the called code leaves the session as
    // it was.
    eventually("both of them", || figure(&mut console, "statements") > before + 30);
    let before = figure(&mut console, "statements");
    for _ in 0..10 {
        client.rows("UPDATE sums SET v = of_others(id)").expect("it is updated");
    }
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(said.contains("public.sums") && !said.contains("differs"), "{said}");
    assert!(figure(&mut console, "statements") < before + 10, "what is not declared does not");
    assert_eq!(figure(&mut console, "steps_undone"), 0);
}

/// Triggers that are declared, rightly and wrongly, and others.
const TRIGGERS: &[&str] = &[
    "CREATE TABLE stamped (id int, at timestamptz DEFAULT CURRENT_TIMESTAMP)",
    "CREATE TABLE counted (id int PRIMARY KEY, v bigint NOT NULL)",
    "INSERT INTO counted SELECT n, 0 FROM generate_series(1, 30) n",
    "CREATE TABLE drawn (id int PRIMARY KEY, v bigint NOT NULL)",
    "INSERT INTO drawn SELECT n, 0 FROM generate_series(1, 30) n",
    "CREATE TABLE timed (id int PRIMARY KEY, v bigint NOT NULL)",
    "INSERT INTO timed SELECT n, 0 FROM generate_series(1, 30) n",
    "CREATE FUNCTION doubles() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := 2 * NEW.v % 100003; RETURN NEW; END $$",
    "CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO note VALUES (NEW.id, NEW.v); RETURN NULL; END $$",
    "CREATE FUNCTION draws() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := (random() * 1000)::int; RETURN NEW; END $$",
    "CREATE FUNCTION stamps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO stamped VALUES (NEW.id); RETURN NULL; END $$",
    "CREATE FUNCTION lies() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO note SELECT 7, 7 FROM generate_series(1, (random() * 1000000)::int % 1000); RETURN NULL; END $$",
    "CREATE TRIGGER doubles BEFORE UPDATE ON sums FOR EACH ROW EXECUTE FUNCTION doubles()",
    "CREATE TRIGGER notes AFTER UPDATE ON sums FOR EACH ROW WHEN (NEW.id > 7) EXECUTE FUNCTION notes()",
    "CREATE TRIGGER draws BEFORE UPDATE ON drawn FOR EACH ROW EXECUTE FUNCTION draws()",
    "CREATE TRIGGER stamps AFTER UPDATE ON timed FOR EACH ROW EXECUTE FUNCTION stamps()",
    "CREATE TRIGGER lies AFTER UPDATE ON counted FOR EACH STATEMENT EXECUTE FUNCTION lies()",
];

const TRIGGERS_DECLARED: &str = "[procedure.\"public.doubles\"]\n[procedure.\"public.notes\"]\ntables_written = \"note\"\n\
    [procedure.\"public.stamps\"]\ntables_written = \"stamped\"\n[procedure.\"public.lies\"]\ntables_written = \"note\"";

#[test]
fn statements_that_fire_declared_triggers_travel() {
    let design = named(|design| design.effects == Effects::Statements);
    let (serving, mut console, url) =
        serving(design, 1, &format!("{ANYWHERE}\n{OWN}\nstatement_rows = 1\n{TRIGGERS_DECLARED}"));
    let mut client = Client::connect(&url).expect("a log-in");
    client.rows(TABLES).expect("the tables can be made");
    for sql in TRIGGERS {
        client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
    }
    // Code that has run in a session may have set something, and so may what ran while the catalog was read, for all that is known.
    let afresh = || {
        let mut client = Client::connect(&url).expect("a log-in");
        client.rows("SELECT 1").expect("a row");
        client
    };
    let fires = "UPDATE sums SET v = v + 1";
    eventually("statements that travel, all of them", || {
        client = afresh();
        let before = figure(&mut console, "statements");
        for _ in 0..20 {
            client.rows(fires).expect("it is updated");
        }
        settled(&serving, &mut console);
        figure(&mut console, "statements") >= before + 20
    });
    assert_eq!(
        figure(&mut console, "steps_undone"),
        0,
        "what triggers wrote is what they wrote at the primary"
    );
    // Undeclared statements, tables with a column that asks for the time, statements together with others,
    // and statements that may depend on a setting that only the application knows.
    let before = figure(&mut console, "statements");
    let mut of_an_application = Client::connect(&url).expect("a log-in");
    of_an_application.rows("SET app.actor = 'somebody'").expect("a setting of an application");
    for _ in 0..10 {
        of_an_application.rows(fires).expect("it is updated");
        client.rows("UPDATE drawn SET v = 1").expect("it is updated");
        client.rows("UPDATE timed SET v = v + 1").expect("it is updated");
        client.rows(&format!("BEGIN; {fires}; DELETE FROM parts WHERE v = 0; COMMIT")).expect("a block");
        for sql in ["BEGIN", fires, "UPDATE parts SET v = v + 1", "COMMIT"] {
            client.rows(sql).expect("a block");
        }
    }
    settled(&serving, &mut console);
    assert_eq!(figure(&mut console, "statements"), before, "rows travel");
    // A wrong declaration writes another number of rows there.
    eventually("steps that are undone", || {
        client = afresh();
        for _ in 0..10 {
            client.rows("UPDATE counted SET v = v + 1").expect("it is updated");
        }
        settled(&serving, &mut console);
        figure(&mut console, "steps_undone") > 0
    });
    let said = serving.run("verify", &["postgres"]).worked();
    for table in ["sums", "parts", "note", "drawn", "timed", "stamped", "counted"] {
        assert!(said.contains(&format!("public.{table}")), "{said}");
    }
    assert!(!said.contains("differs"), "{said}");
}

/// Triggers that ask for more than rows: under what they run, and in what order.
const ASKS: [&str; 13] = [
    "CREATE DOMAIN drawn AS float8 DEFAULT random()",
    "CREATE TABLE by_domain (n int, v drawn)",
    "CREATE TABLE by_number (n int, v int GENERATED ALWAYS AS IDENTITY)",
    "CREATE TABLE others (id int PRIMARY KEY, v bigint NOT NULL); INSERT INTO others SELECT n, n FROM generate_series(1, 60) n",
    "CREATE TABLE chained (n int, v bigint)",
    "CREATE FUNCTION asks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO note VALUES \
        (NEW.id, hashtext(concat_ws(',', current_setting('application_name'), current_setting('app.actor', true), \
            current_setting('transaction_isolation'), current_setting('timezone'), current_user))); RETURN NULL; END $$",
    "CREATE FUNCTION defaults() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO by_domain VALUES (NEW.id); RETURN NULL; END $$",
    "CREATE FUNCTION numbers() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO by_number VALUES (NEW.id); RETURN NULL; END $$",
    "CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO chained SELECT NEW.n, count(*) FROM note; RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER asks AFTER UPDATE ON sums DEFERRABLE INITIALLY DEFERRED \
        FOR EACH ROW EXECUTE FUNCTION asks()",
    // One that asks for nothing.
    "CREATE TABLE control AS SELECT 1 AS v; CREATE TABLE told (v int)",
    "CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO told VALUES (NEW.v); RETURN NULL; END $$",
    "CREATE TRIGGER tells AFTER UPDATE ON control FOR EACH ROW EXECUTE FUNCTION tells()",
];

const MORE_ASKS: [&str; 3] = [
    "CREATE CONSTRAINT TRIGGER counts AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED \
        FOR EACH ROW EXECUTE FUNCTION counts()",
    "CREATE TRIGGER defaults AFTER UPDATE ON parts FOR EACH ROW EXECUTE FUNCTION defaults()",
    "CREATE TRIGGER numbers AFTER UPDATE ON others FOR EACH ROW EXECUTE FUNCTION numbers()",
];

/// Other sessions' settings at a pooled connection keep statements that fire triggers at the primary.
const OWN: &str = "pool_mode = \"session\"";

const ASKS_DECLARED: &str = "[procedure.\"public.tells\"]\ntables_written = \"told\"\n[procedure.\"public.asks\"]\ntables_written = \"note\"\n\
    [procedure.\"public.defaults\"]\ntables_written = \"by_domain\"\n\
    [procedure.\"public.numbers\"]\ntables_written = \"by_number\"\n\
    [procedure.\"public.counts\"]\ntables_read = \"note\"\ntables_written = \"chained\"";

/// A session of which this statement has travelled: what keeps others at home is not the session.
fn travelling(serving: &Serving, console: &mut Console, sql: &str) -> Client {
    let mut client = None;
    eventually("a statement that travels", || {
        let before = figure(console, "statements");
        let client = client.insert(Client::connect(&serving.url("postgres", "postgres")).expect("a log-in"));
        for sql in ["SET application_name = 'a till'", "SELECT 1", sql, sql, sql] {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
        }
        settled(serving, console);
        figure(console, "statements") > before
    });
    client.expect("one was connected")
}

#[test]
fn what_triggers_ask_of_the_session_is_the_same_there_or_rows_travel() {
    let design = named(|design| design.effects == Effects::Statements);
    let lines = format!("{ANYWHERE}\n{OWN}\nstatement_rows = 1\n{ASKS_DECLARED}");
    let (serving, mut console, url) = serving(design, 1, &lines);
    let connect = |url: &str| Client::connect(url).expect("a log-in");
    let runs = |client: &mut Client, statements: &[&str]| {
        for sql in statements {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
        }
    };
    let mut maker = connect(&url);
    runs(&mut maker, &[TABLES]);
    runs(&mut maker, &ASKS);
    let fires = "UPDATE sums SET v = v + 1";
    let mut client = travelling(&serving, &mut console, fires);
    // Under other settings at the end of the block; in another isolation; with settings that cannot be
    // queried.
    let before = figure(&mut console, "statements");
    let mut by_code = connect(&url);
    runs(&mut by_code, &["SELECT set_config('app.actor', 'of the session', false)"]);
    let mut taken_back = connect(&url);
    runs(&mut taken_back, &["BEGIN", "SET LOCAL app.actor = 'of the block'", "COMMIT"]);
    for _ in 0..5 {
        runs(&mut client, &["BEGIN", fires, "SET LOCAL timezone = 'Asia/Tokyo'", "COMMIT"]);
        runs(&mut client, &["BEGIN ISOLATION LEVEL REPEATABLE READ", fires, "COMMIT"]);
        runs(&mut by_code, &[fires]);
        runs(&mut taken_back, &[fires]);
    }
    settled(&serving, &mut console);
    assert_eq!(figure(&mut console, "statements"), before, "rows travel");
    eventually("a statement of the same session that travels", || {
        runs(&mut client, &[fires]);
        settled(&serving, &mut console);
        figure(&mut console, "statements") > before
    });
    // Effects of deferred work at the end of the transaction; defaults of domains, and numbers of identity
    // columns.
    runs(&mut maker, &MORE_ASKS);
    for asks in [fires, "UPDATE parts SET v = v + 1", "UPDATE others SET v = v + 1"] {
        // The first of them is not analysed yet; after each, code has run in its session.
        for _ in 0..4 {
            let mut client = travelling(&serving, &mut console, "UPDATE control SET v = v + 1");
            let before = figure(&mut console, "statements");
            runs(&mut client, &[asks]);
            settled(&serving, &mut console);
            assert_eq!(figure(&mut console, "statements"), before, "rows travel: {asks}");
        }
    }
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(said.contains("public.note") && !said.contains("differs"), "{said}");
}

#[test]
fn what_others_have_set_at_a_shared_connection_keeps_statements_at_home() {
    let design = named(|design| design.effects == Effects::Statements);
    let lines = format!("{ANYWHERE}\ndefault_pool_size = 1\nstatement_rows = 1\n{ASKS_DECLARED}");
    let (serving, mut console, url) = serving(design, 1, &lines);
    let runs = |statements: &[&str]| {
        let mut client = Client::connect(&url).expect("a log-in");
        for sql in statements {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
        }
    };
    runs(&[TABLES]);
    runs(&ASKS);
    let fires = "UPDATE sums SET v = v + 1";
    // The statement is analysed by then.
    runs(&[fires; 10]);
    runs(&["BEGIN", "SET LOCAL app.actor = 'of the block'", "COMMIT"]);
    settled(&serving, &mut console);
    let before = figure(&mut console, "statements");
    runs(&[fires; 10]);
    settled(&serving, &mut console);
    assert_eq!(figure(&mut console, "statements"), before, "rows travel");
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(said.contains("public.note") && !said.contains("differs"), "{said}");
}

/// Two transactions write a table each, and one is acknowledged before the other begins. The replica is held
/// back until it is to be given both. Then it goes on, and another session holds the earlier one's table
/// there. Returns the reads meanwhile, until it is `enough`: ten for the earlier one, one for the later one.
fn read_where_the_earlier_waits(design: &str, enough: fn(&[i64]) -> bool) -> Vec<i64> {
    let lines = format!("{ANYWHERE}\napply_connections = 3");
    let (serving, mut console, url) = serving(design, 1, &lines);
    let connect = |url: &str| Client::connect(url).expect("a log-in");
    let (mut writer, mut reader) = (connect(&url), connect(&url));
    let tables = ["held_back", "earlier", "later"];
    for table in tables {
        let create = format!("CREATE TABLE {table} (id int PRIMARY KEY, n int NOT NULL)");
        writer.rows(&format!("{create}; INSERT INTO {table} VALUES (1, 0)")).expect("a table");
    }
    // The feed knows all of them: a query about one would wait for the open transactions.
    for table in tables {
        writer.rows(&format!("UPDATE {table} SET n = 0")).expect("it is updated");
    }
    settled(&serving, &mut console);
    reader.rows("SET consort.consistency = 'weak'").expect("a setting");
    let both = "SELECT 10 * earlier.n + later.n FROM earlier, later";
    eventually("reads at the replica", || {
        let before = served(&mut console, "replica1");
        assert_eq!(reader.number(both).expect("an answer"), 0);
        served(&mut console, "replica1") > before
    });
    let replica = serving.servers.replica(0);
    let holding = |table: &str| {
        let mut client = connect(&past(replica));
        client.rows(&format!("BEGIN; LOCK TABLE {table} IN SHARE MODE")).expect("a lock");
        client
    };
    let (mut holds_back, mut holds_earlier) = (holding("held_back"), holding("earlier"));
    for (commits, table) in (1..).zip(tables) {
        writer.rows(&format!("UPDATE {table} SET n = 1")).expect("it is acknowledged");
        eventually("a boundary of its own", || figure(&mut console, "pending_commits") >= commits);
    }
    holds_back.rows("ROLLBACK").expect("it goes on");
    is_so(replica, "wait_event_type = 'Lock' AND query LIKE '%earlier%'");
    let mut read = Vec::new();
    eventually("reads enough", || {
        read.push(reader.number(both).expect("an answer"));
        enough(&read)
    });
    holds_earlier.rows("ROLLBACK").expect("it goes on");
    shows_all(&mut console, 1);
    eventually("both", || reader.number(both).expect("an answer") == 11);
    read
}

#[test]
fn a_replica_shows_no_commit_without_an_earlier_one() {
    // At the primary there are both: who reads none reads at the replica.
    let at_the_replica = |read: &[i64]| read.iter().filter(|both| **both == 0).count() >= 50;
    let design = named(|design| design.effects == Effects::Statements);
    let read = read_where_the_earlier_waits(design, at_the_replica);
    assert!(read.iter().all(|both| [0, 11].contains(both)), "{read:?}");
}

#[test]
fn up_makes_replicas_that_are_fed() {
    let up = up_folder();
    let design = named(|design| design.effects == Effects::Statements);
    let listen = format!("127.0.0.1:{}", up.port);
    up.run("up", &["--listen", &listen, "--design", design, "--replicas", "1"]).worked();
    let mut client = Client::connect(&up.url()).expect("a log-in");
    client.rows("CREATE TABLE many (id int PRIMARY KEY, v int)").expect("a table");
    client.rows("INSERT INTO many SELECT n, 0 FROM generate_series(1, 500) n").expect("rows");
    let mut console = Console::connect(&format!("postgres://postgres@127.0.0.1:{}/consort", up.port));
    shows_all(&mut console, 1);
    eventually("a statement that travels", || {
        client.rows("UPDATE many SET v = v + 1").expect("it is updated");
        client.rows("UPDATE many SET v = v + 1 WHERE id = 7").expect("it is updated");
        figure(&mut console, "statements") > 2
    });
    let said = up.run("verify", &[]).worked();
    assert!(said.contains("public.many") && !said.contains("differs"), "{said}");
    up.run("down", &[]).worked();
    let said = up.run("up", &["--standbys", "1"]).failed(1);
    assert!(said.contains("does not support standbys"), "{said}");
}
