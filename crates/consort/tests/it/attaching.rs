//! Attaching alongside open transactions: the transactions that it waits for, the traces of an attempt, and
//! the footprint of statements afterwards.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use testkit::Scratch;

use crate::fixture::{CONSORT, Serving, configuration, eventually, free_port, run, temporary};
use crate::load::{ANYWHERE, Client, Console, past};

/// Objects that attaching creates, counted.
const TRACES: &str = "SELECT (SELECT count(*) FROM pg_event_trigger) + (SELECT count(*) FROM pg_publication) \
     + (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical') \
     + (SELECT count(*) FROM pg_namespace WHERE nspname = 'consort')";

/// A cluster's configuration with a transaction open in its database.
struct Stage {
    servers: Scratch,
    config: std::path::PathBuf,
    holder: Client,
}

impl Stage {
    fn new() -> Stage {
        let servers = Scratch::start(0);
        let config = temporary("attaching").with_extension("toml");
        std::fs::write(
            &config,
            configuration(&servers, free_port(), "auth_type = \"trust\"\ndatabases = [\"postgres\"]"),
        )
        .expect("a temporary file can be written");
        let mut holder = Client::connect(&past(servers.primary())).expect("a log-in");
        holder.rows("BEGIN; SELECT 'the holder'").expect("an open transaction");
        Stage { servers, config, holder }
    }

    fn attach(&self, limit: &str) -> Command {
        let mut command = Command::new(CONSORT);
        command.args(["attach", "--wait-timeout", limit, "--config"]).arg(&self.config);
        command
    }

    fn traces(&self) -> String {
        self.servers.query(TRACES)[0][0].clone().expect("a number")
    }

    /// An attempt that waits.
    fn waiting(&self) -> (Child, String) {
        let mut child =
            self.attach("600").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.as_mut().expect("it is a pipe"));
        lines.read_line(&mut said).expect("it reports");
        (child, said)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.config);
    }
}

/// A report room is long ago left: the operator sees pid, user, age and query of what holds up attaching, and may end it.
#[test]
fn attach_that_times_out_names_the_holder_and_is_undone() {
    let mut stage = Stage::new();
    let said = run(&mut stage.attach("3")).failed(1);
    let pid = stage.holder.one("SELECT pg_backend_pid()").unwrap();
    for part in [
        "postgres: transactions older than the event triggers are open after 2 s: pid",
        "timed out: transactions older than the event triggers are open after 3 s: pid",
        &format!("pid {pid} (user postgres, database postgres, idle in transaction, open for"),
        "SELECT 'the holder'",
        "increase --wait-timeout",
        "all objects of this attempt were removed",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    assert_eq!(stage.traces(), "0", "{said}");
    stage.holder.rows("COMMIT").unwrap();
    run(&mut stage.attach("30")).worked();
    assert_eq!(stage.traces(), "7");
}

/// SIGINT and SIGTERM end an attempt, which removes what it has made. SIGKILL lets it remove nothing: the next one completes it.
#[test]
fn attach_that_is_interrupted_is_undone() {
    let mut stage = Stage::new();
    for signal in ["INT", "TERM"] {
        let (mut child, said) = stage.waiting();
        assert!(said.contains("SELECT 'the holder'") && stage.traces() == "5", "{said}");
        run(Command::new("kill").args([format!("-{signal}"), child.id().to_string()])).worked();
        assert_eq!(child.wait().unwrap().code(), Some(1));
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("all objects of this attempt were removed"), "{said}");
        assert_eq!(stage.traces(), "0");
    }
    let (mut child, _) = stage.waiting();
    child.kill().unwrap();
    child.wait().unwrap();
    let check = run(Command::new(CONSORT).args(["check", "--config"]).arg(&stage.config));
    assert!(check.out.contains("no proof that commands older than the event triggers have ended"));
    // The next attempt finds a database of no use, and leaves nothing either.
    run(&mut stage.attach("1")).failed(1);
    assert_eq!(stage.traces(), "0");
    stage.holder.rows("COMMIT").unwrap();
    run(&mut stage.attach("30")).worked();
    assert_eq!(stage.traces(), "7");
}

/// A database that was attached before is not detached by an attempt to complete it.
#[test]
fn attach_that_fails_keeps_what_was_attached_before() {
    let mut stage = Stage::new();
    stage.holder.rows("COMMIT").unwrap();
    run(&mut stage.attach("30")).worked();
    stage.servers.query("DROP EVENT TRIGGER consort_sql_drop");
    stage.holder.rows("BEGIN; SELECT 'the holder'").unwrap();
    let said = run(&mut stage.attach("1")).failed(1);
    assert!(said.contains("objects of an earlier attach are kept"), "{said}");
    assert_eq!(stage.traces(), "7");
    stage.holder.rows("COMMIT").unwrap();
    run(&mut stage.attach("1")).worked();
}

/// A read that takes long enough to be offloaded, and shows the trigger's writes.
const SEEN: &str = "SELECT (SELECT max(v) FROM written), count(*) FROM items a, items b, items c \
     WHERE c.id < 30 AND a.id + b.id + c.id < 0";

/// CREATE TRIGGER waits for a lock when its database is attached at its first use. The history that its blocks show later is
/// the one of a single server: each sees what its own trigger has written.
#[test]
fn blocks_with_a_trigger_of_the_attach_see_their_writes() {
    let servers = Scratch::start(1);
    servers.query(
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0); \
         CREATE TABLE written (id int PRIMARY KEY, v int); INSERT INTO written VALUES (1, 0); \
         CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items SELECT generate_series(1, 100); \
         CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql \
         AS 'BEGIN UPDATE written SET v = NEW.v WHERE id = 1; RETURN NULL; END'",
    );
    let direct = past(servers.primary());
    let (mut holder, mut author) = (Client::connect(&direct).unwrap(), Client::connect(&direct).unwrap());
    holder.rows("BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE").unwrap();
    let trigger = "CREATE TRIGGER copies AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()";
    let making = std::thread::spawn(move || author.rows(trigger).map(drop));
    eventually("a trigger that waits", || {
        !servers.query("SELECT FROM pg_locks WHERE NOT granted").is_empty()
    });

    let serving = Serving::over(servers, ANYWHERE);
    let mut client = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let mut stays = String::new();
    eventually("an attempt to attach", || {
        stays = console.stays("postgres");
        stays.is_empty() || stays.contains("older than the event triggers")
    });
    assert_eq!(client.one("SELECT count(*) FROM t").unwrap(), "1", "statements run at the primary");
    holder.rows("COMMIT").unwrap();
    making.join().unwrap().unwrap();
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    eventually("reads that leave", || {
        let before = console.node("standby1").served;
        client.rows(SEEN).unwrap();
        console.node("standby1").served > before
    });
    let wrong: Vec<(i64, i64)> = (1..=100)
        .filter_map(|round| {
            client.rows("BEGIN").unwrap();
            client.rows(&format!("UPDATE t SET v = {round} WHERE id = 1")).unwrap();
            let seen = client.number(SEEN).unwrap();
            client.rows("COMMIT").unwrap();
            (seen != round).then_some((round, seen))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of 100 blocks miss their own write: {wrong:?}", wrong.len());
    assert!(stays.contains("CREATE TRIGGER copies") && stays.contains("pid "), "{stays}");
}
