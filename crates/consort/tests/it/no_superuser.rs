//! Consort with a role that is no superuser: attaching after an administrator's SQL, reads at a standby, DDL, two
//! Consorts, and each right that is taken away.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;

use testkit::{Done, Scratch, program};

use crate::fixture::{Serving, configuration, consort, eventually, free_port, psql, temporary};
use crate::lead::{lead, leads, waits};
use crate::load::{Client, Console, READ_QUIET, TABLES, past};

/// The role, one of clients, and tables of theirs: one has no key.
const ROLES: &str = "CREATE ROLE cc LOGIN; CREATE ROLE app LOGIN; ALTER DATABASE postgres OWNER TO cc; \
     CREATE TABLE bare (n int); ALTER TABLE bare OWNER TO app; \
     ALTER TABLE counter OWNER TO app; ALTER TABLE quiet OWNER TO app; GRANT CREATE ON SCHEMA public TO app";
const LINES: &str = "control_user = \"cc\"\ndatabases = [\"postgres\"]\nwriters = \"anywhere\"";

/// Servers with the roles, and a configuration of a Consort in front of them.
struct Stage {
    servers: Arc<Scratch>,
    config: std::path::PathBuf,
}

impl Stage {
    fn new(standbys: usize) -> Stage {
        let servers = Scratch::start(standbys);
        servers.query(TABLES);
        servers.query(ROLES);
        let config = temporary("no_superuser").with_extension("toml");
        let text = configuration(&servers, free_port(), &format!("auth_type = \"trust\"\n{LINES}"));
        std::fs::write(&config, text).expect("a temporary file can be written");
        Stage { servers: Arc::new(servers), config }
    }

    fn run(&self, arguments: &[&str]) -> Done {
        let config = self.config.to_str().expect("a path in UTF-8");
        consort(&[&arguments[..1], &["--config", config], &arguments[1..]].concat())
    }

    /// Runs as an administrator what `attach --print-admin-sql` prints.
    fn administrate(&self) {
        let sql = self.run(&["attach", "--print-admin-sql"]).worked();
        let mut psql = program("psql");
        psql.args(["-X", "-q", "-d", &past(self.servers.primary())])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = psql.spawn().expect("psql runs");
        child.stdin.take().expect("it is a pipe").write_all(sql.as_bytes()).expect("it reads");
        let done = child.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{}{sql}", String::from_utf8_lossy(&done.stderr));
    }

    /// The same, and attaches.
    fn attached(standbys: usize) -> Stage {
        let stage = Stage::new(standbys);
        stage.administrate();
        stage.run(&["attach"]).worked();
        stage
    }

    /// Findings of `check`, but for the WAL that the slot keeps.
    fn checked(&self) -> String {
        let said = self.run(&["check"]).worked();
        said.lines().filter(|line| !line.contains("MB of WAL")).collect::<Vec<_>>().join("\n")
    }

    fn serve(&self) -> Serving {
        Serving::over(self.servers.clone(), LINES)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.config);
    }
}

fn console(serving: &Serving) -> Console {
    Console::connect(&serving.url("postgres", "consort"))
}

/// Reads until one has run at the standby.
fn reads_at_standby(serving: &Serving, client: &mut Client) {
    let mut console = console(serving);
    eventually("a read at the standby", || {
        let before = console.node("standby1").served;
        assert_eq!(client.number(READ_QUIET).expect("a read"), 7);
        console.node("standby1").served > before
    });
}

/// Missing rights are named before anything is made; after the administrator's SQL the role attaches, and serves.
#[test]
fn role_without_superuser_serves_reads_at_standbys() {
    let stage = Stage::new(1);
    let said = stage.run(&["attach"]).failed(1);
    for part in ["ALTER ROLE \"cc\" REPLICATION", "GRANT pg_monitor TO \"cc\""] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    stage.servers.query("ALTER ROLE cc REPLICATION; GRANT pg_monitor TO cc");
    let said = stage.run(&["attach"]).failed(1);
    assert!(
        said.contains("event trigger consort_ddl_command_end") && said.contains("--print-admin-sql"),
        "{said}"
    );
    stage.administrate();
    let said = stage.run(&["attach"]).worked();
    assert!(said.contains("attached") && !said.contains("fail"), "{said}");
    let said = stage.checked();
    assert!(!said.contains("the role cc is"), "{said}");

    let serving = stage.serve();
    let mut client = Client::connect(&serving.url("app", "postgres")).unwrap();
    reads_at_standby(&serving, &mut client);
    // A command past Consort comes out of the slot: the next read shows the new column.
    let mut direct =
        Client::connect(&past(stage.servers.primary()).replace("user=postgres", "user=app")).unwrap();
    for round in 0..5 {
        direct.rows(&format!("ALTER TABLE quiet ADD COLUMN c{round} int DEFAULT {round}")).unwrap();
        let shown = client.rows("SELECT * FROM quiet WHERE id = 1").unwrap();
        assert_eq!(shown[0].get(round + 2), Some(round.to_string().as_str()));
    }
    reads_at_standby(&serving, &mut client);
    // A new table without a key gets its identity from the role, which is a member of its owner.
    direct.rows("CREATE TABLE late (n int); INSERT INTO late VALUES (1); UPDATE late SET n = 2").unwrap();
    direct.rows("UPDATE bare SET n = 1").unwrap();
    // A change of memberships is seen by its digest.
    direct.rows("CREATE TABLE secret (n int); INSERT INTO secret VALUES (1)").unwrap();
    stage.servers.query(
        "CREATE ROLE guest LOGIN; GRANT guest TO cc; CREATE ROLE readers; GRANT readers TO guest; \
         GRANT SELECT ON secret TO readers",
    );
    let mut guest = Client::connect(&serving.url("guest", "postgres")).unwrap();
    assert_eq!(guest.number("SELECT n FROM secret").unwrap(), 1);
    stage.servers.query("REVOKE readers FROM guest");
    eventually("the revoked membership", || guest.number("SELECT n FROM secret").is_err());
    drop(serving);
    let active = "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical' AND active";
    eventually("a slot that is not read", || stage.servers.query(active)[0][0].as_deref() == Some("0"));
    let said = stage.run(&["detach"]).failed(1);
    assert!(said.contains("DROP EVENT TRIGGER IF EXISTS consort_sql_drop"), "{said}");
    assert_eq!(
        stage.servers.query("SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical'")[0][0]
            .as_deref(),
        Some("0")
    );
}

/// The role cannot become a superuser, nor a role of which it is no member: their sessions stay, with a reason.
#[test]
fn sessions_of_other_roles_stay_with_a_reason() {
    let stage = Stage::attached(1);
    stage.servers.query("CREATE ROLE stranger LOGIN; GRANT SELECT ON quiet TO stranger");
    let serving = stage.serve();
    reads_at_standby(&serving, &mut Client::connect(&serving.url("app", "postgres")).unwrap());
    let mut console = console(&serving);
    let mut reason = |user: &str| {
        let mut client = Client::connect(&serving.url(user, "postgres")).unwrap();
        eventually("the reason", || {
            assert_eq!(client.number(&format!("SELECT v AS of_{user} FROM quiet WHERE id = 1")).unwrap(), 7);
            console.rows("SHOW ROUTES").iter().any(|row| {
                row.get("reason") == Some("role_not_analysed")
                    && row.get("statement").is_some_and(|text| text.contains(&format!("of_{user}")))
            })
        });
    };
    reason("stranger");
    reason("postgres");
    stage.servers.query("GRANT stranger TO cc");
    reads_at_standby(&serving, &mut Client::connect(&serving.url("stranger", "postgres")).unwrap());
}

/// Neither takes the other's log-in for a foreign session; the one that waits takes over.
#[test]
fn two_consorts_without_superuser_do_not_end_each_other() {
    let stage = Stage::attached(1);
    let lease = format!("{LINES}\nleader_lease_timeout = \"2s\"");
    let mut first = Serving::over(stage.servers.clone(), &lease);
    leads(&first);
    let holder = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 1668247155";
    let before = stage.servers.query(holder);
    let second = Serving::over(stage.servers.clone(), &lease);
    waits(&second);
    let mut client = Client::connect(&second.url("app", "postgres")).unwrap();
    for _ in 0..3 {
        reads_at_standby(&first, &mut Client::connect(&first.url("app", "postgres")).unwrap());
        assert_eq!(client.number(READ_QUIET).unwrap(), 7);
    }
    waits(&second);
    assert_eq!(stage.servers.query(holder), before, "the leader's log-in was ended");
    assert!(lead(&first).is_some_and(|(leads, _)| leads));
    first.signal("KILL");
    first.ended();
    leads(&second);
    reads_at_standby(&second, &mut client);
}

/// A client's own command never fails because the role may not alter its table.
#[test]
fn create_table_of_a_foreign_owner_works() {
    let stage = Stage::attached(0);
    stage.servers.query("REVOKE app FROM cc");
    let direct = past(stage.servers.primary()).replace("user=postgres", "user=app");
    let done = psql(&direct, "CREATE TABLE mine (n int); INSERT INTO mine VALUES (1)");
    assert!(done.err.contains("WARNING") && done.err.contains("REPLICA IDENTITY FULL"), "{done:?}");
    done.worked();
    let mut client = Client::connect(&direct).unwrap();
    // A cursor that is open on the table keeps ALTER TABLE out.
    client
        .rows("BEGIN; CREATE TABLE held (id int PRIMARY KEY); INSERT INTO held VALUES (1); COMMIT")
        .unwrap();
    client
        .rows("BEGIN; DECLARE c CURSOR FOR SELECT * FROM mine; FETCH c; CREATE TABLE other (n int); COMMIT")
        .unwrap();
    assert_eq!(client.number("SELECT count(*) FROM other").unwrap(), 0);
    assert_eq!(client.rows("UPDATE mine SET n = 2").err().unwrap().sqlstate.as_deref(), Some("55000"));
    client.rows("ALTER TABLE mine REPLICA IDENTITY FULL; UPDATE mine SET n = 2").unwrap();
}

/// Each right that is taken away is named, with the SQL that grants it again.
#[test]
fn check_names_each_missing_right() {
    let stage = Stage::attached(1);
    stage.servers.query(
        "GRANT EXECUTE ON FUNCTION pg_read_file(text, bigint, bigint, boolean), \
         pg_read_binary_file(text, bigint, bigint, boolean) TO cc",
    );
    let complete = stage.checked();
    for (taken, named, given) in RIGHTS {
        stage.servers.query(taken);
        let said = stage.run(&["check"]).out;
        assert!(said.contains(named) && said.contains(given), "{taken}: {said}");
        stage.servers.query(given);
        assert_eq!(stage.checked(), complete, "{given}");
    }
    stage.servers.query("DROP EVENT TRIGGER consort_sql_drop");
    let said = stage.run(&["check"]).failed_saying(1);
    assert!(said.contains("an administrator has to make event trigger consort_sql_drop"), "{said}");
    assert!(stage.run(&["check"]).out.contains("--print-admin-sql"));
    stage.administrate();
    // Commands that are older than the new event trigger may go on.
    stage.run(&["attach"]).worked();
    assert_eq!(stage.checked(), complete);
    stage.servers.query("DROP PUBLICATION consort");
    let said = stage.run(&["check"]).failed_saying(1);
    assert!(said.contains("an administrator has to make publication consort"), "{said}");
    stage.administrate();
    stage.run(&["attach"]).worked();
    assert_eq!(stage.checked(), complete);
}

/// A right to be taken away, the words that name it, and the SQL that gives it back.
const RIGHTS: &[(&str, &str, &str)] = &[
    ("ALTER ROLE cc NOREPLICATION", "has no REPLICATION", "ALTER ROLE \"cc\" REPLICATION;"),
    ("REVOKE pg_monitor FROM cc", "is no member of pg_monitor", "GRANT pg_monitor TO \"cc\";"),
    (
        "REVOKE pg_signal_backend FROM cc",
        "is no member of pg_signal_backend",
        "GRANT pg_signal_backend TO \"cc\";",
    ),
    (
        "REVOKE SET ON PARAMETER log_min_messages FROM cc",
        "may not set log_min_messages: query trees",
        "GRANT SET ON PARAMETER log_min_messages, log_min_error_statement, log_statement, log_min_duration_statement, \
         log_duration TO \"cc\";",
    ),
    (
        "REVOKE EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) FROM cc",
        "may not read WAL",
        "GRANT EXECUTE ON FUNCTION pg_read_file(text, bigint, bigint, boolean), \
         pg_read_binary_file(text, bigint, bigint, boolean) TO \"cc\";",
    ),
    (
        "REVOKE SELECT ON pg_file_settings FROM cc",
        "may not read pg_file_settings",
        "GRANT SELECT ON pg_file_settings TO \"cc\"; GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO \"cc\";",
    ),
    ("REVOKE app FROM cc", "may not become \"app\"", "GRANT \"app\" TO \"cc\";"),
    ("REVOKE app FROM cc", "may not alter tables of \"app\"", "GRANT \"app\" TO \"cc\";"),
];
