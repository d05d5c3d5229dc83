//! The design that installs nothing: reads at standbys by their WAL positions, with a role that may hardly do anything.

use std::sync::Arc;
use std::time::{Duration, Instant};

use local_cluster::Node;
use testkit::Scratch;

use crate::fixture::{LIMIT, Serving, eventually};
use crate::levels::{at, leaves, reads, stays};
use crate::load::{Client, Console, READ, READ_QUIET, TABLES, past};

const LINES: &str = "design = \"pooler\"\ncontrol_user = \"cc\"\ndatabases = [\"postgres\"]";

/// Objects in the servers that Consort could have made.
const TRACES: &str = "SELECT (SELECT count(*) FROM pg_event_trigger) + (SELECT count(*) FROM pg_publication) \
     + (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical') \
     + (SELECT count(*) FROM pg_namespace WHERE nspname = 'consort') \
     + (SELECT count(*) FROM pg_class WHERE relreplident = 'f')";

fn pooler() -> (Serving, Console, String) {
    let mut options = Scratch::options();
    options.standbys = 1;
    options.settings.push(("wal_level".to_owned(), "replica".to_owned()));
    let servers = Scratch::with(options);
    servers.query(TABLES);
    servers.query(
        "CREATE ROLE cc LOGIN REPLICATION; CREATE ROLE app LOGIN; GRANT pg_monitor, app TO cc; \
         ALTER TABLE counter OWNER TO app; ALTER TABLE quiet OWNER TO app; CREATE TABLE bare (n int); \
         GRANT CREATE ON SCHEMA public TO app",
    );
    let serving = Serving::over(Arc::new(servers), LINES);
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let url = serving.url("app", "postgres");
    Client::connect(&url).expect("a client").rows(READ).expect("rows");
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    eventually("a standby that serves", || console.node("standby1").serving);
    (serving, console, url)
}

fn direct(node: &Node) -> Client {
    Client::connect(&past(node).replace("user=postgres", "user=app")).expect("a client")
}

fn stands_still(serving: &Serving) {
    serving.servers.set_apply_delay(0, Duration::from_secs(3600));
    eventually("the delay", || {
        let rows =
            serving.servers.standby(0).query("postgres", "SHOW recovery_min_apply_delay").expect("a setting");
        rows[0][0].as_deref() == Some("1h")
    });
}

/// Each session sees its own commits, whether the standby follows or stands still; nothing is installed.
#[test]
fn session_reads_its_own_writes() {
    let (serving, mut console, url) = pooler();
    let mut client = Client::connect(&url).unwrap();
    assert_eq!(client.one("SHOW consort.consistency").unwrap(), "session");
    leaves(&mut console, &mut client, READ, 0);
    for n in 1..=200 {
        client.rows("UPDATE counter SET n = n + 1 WHERE id = 1").unwrap();
        assert_eq!(client.number(READ).unwrap(), n);
    }
    leaves(&mut console, &mut client, READ, 200);
    stands_still(&serving);
    client.rows("UPDATE counter SET n = n + 1 WHERE id = 1").unwrap();
    stays(&mut console, &mut client, READ, 201);
    // Another session is promised nothing of this one, unless it is given the token.
    let mut other = Client::connect(&url).unwrap();
    leaves(&mut console, &mut other, READ, 200);
    let token = client.one("SHOW consort.last_commit").unwrap();
    other.rows(&format!("SET consort.not_before = '{token}'")).unwrap();
    stays(&mut console, &mut other, READ, 201);
    stays(&mut console, &mut at(&url, "strong"), READ, 201);
    serving.servers.set_apply_delay(0, Duration::ZERO);
    leaves(&mut console, &mut client, READ, 201);
    assert_eq!(serving.servers.query(TRACES)[0][0].as_deref(), Some("0"));
    let said = serving.run("check", &[]).worked();
    assert!(!said.contains("missing"), "{said}");
    for command in ["attach", "repair"] {
        let said = serving.run(command, &[]).failed(1);
        assert!(said.contains("installs nothing"), "{command}: {said}");
    }
}

/// No read is older than the bound, although the standby stands still.
#[test]
fn bounded_read_is_no_older_than_its_bound() {
    let (serving, mut console, url) = pooler();
    let bound = Duration::from_millis(300);
    let mut reader = at(&url, "bounded 300ms");
    let mut writer = direct(serving.servers.primary());
    let mut commits = vec![(Instant::now(), 0)];
    let (mut n, mut stale, mut left) = (0, 0, 0);
    // On a busy machine a round may be too slow for its bound.
    eventually("use of the bound", || {
        leaves(&mut console, &mut reader, READ, n);
        stands_still(&serving);
        for _ in 0..20 {
            n += 1;
            writer.rows(&format!("UPDATE counter SET n = {n} WHERE id = 1")).unwrap();
            commits.push((Instant::now(), n));
            let until = Instant::now() + Duration::from_millis(50);
            while Instant::now() < until {
                let begun = Instant::now();
                let (seen, at_standby) = reads(&mut console, &mut reader, READ);
                let due = commits.iter().filter(|(at, _)| *at + bound < begun).map(|(_, n)| *n).max();
                assert!(due.is_none_or(|due| seen[0] >= due), "{seen:?} is older than {due:?}");
                stale += u64::from(seen[0] < n);
                left += at_standby;
            }
        }
        serving.servers.set_apply_delay(0, Duration::ZERO);
        stale > 0 && left > 0
    });
    leaves(&mut console, &mut reader, READ, n);
}

/// DDL past Consort is found by its digest, and statements are analysed again; temporary tables are none.
#[test]
fn ddl_of_others_is_noticed() {
    let (serving, mut console, url) = pooler();
    let mut client = Client::connect(&url).unwrap();
    leaves(&mut console, &mut client, READ_QUIET, 7);
    let mut author = direct(serving.servers.primary());
    author
        .rows("CREATE TABLE quieter (id int PRIMARY KEY, v int); INSERT INTO quieter VALUES (1, 8)")
        .unwrap();
    author.rows("CREATE VIEW seen AS SELECT v FROM quiet").unwrap();
    serving.servers.catch_up(LIMIT);
    leaves(&mut console, &mut client, "SELECT v FROM seen", 7);
    // What was harmless draws from a sequence now: it must not run at the standby, which would refuse it.
    author.rows("CREATE SEQUENCE s").unwrap();
    author.rows("DROP VIEW seen; CREATE VIEW seen AS SELECT v + 0 * nextval('s') AS v FROM quiet").unwrap();
    eventually("the new view at the primary", || {
        reads(&mut console, &mut client, "SELECT v FROM seen") == (vec![7; 5], 0)
    });
    author.rows("ALTER TABLE quiet RENAME v TO w").unwrap();
    serving.servers.catch_up(LIMIT);
    leaves(&mut console, &mut client, "SELECT w FROM quiet WHERE id = 1", 7);
    // A changed membership counts too.
    serving.servers.query(
        "CREATE ROLE readers; GRANT readers TO app; CREATE TABLE secret AS SELECT 1 AS n; \
         GRANT SELECT ON secret TO readers",
    );
    serving.servers.catch_up(LIMIT);
    eventually("the granted membership", || client.number("SELECT n FROM secret").is_ok());
    serving.servers.query("REVOKE readers FROM app");
    eventually("the revoked membership", || client.number("SELECT n FROM secret").is_err());
}
