//! Changes without an event trigger: databases that are dropped or renamed, roles and memberships.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::fixture::{LIMIT, Serving, eventually, psql, run};
use crate::load::{ANYWHERE, Client, READ_QUIET, THROUGH, past, served, serving};
use crate::serving::figure;

/// Reads leave in this database: the routes show one at a standby.
fn reads_leave(serving: &Serving, database: &str) {
    let url = serving.url("postgres", database);
    eventually("a read at a standby", || {
        psql(&url, "SELECT * FROM offloaded").worked();
        let routes = psql(&serving.url("postgres", "consort"), "SHOW ROUTES").worked();
        routes.lines().any(|row| row.starts_with(database) && row.contains("|standby1|"))
    });
}

#[test]
fn a_followed_database_can_be_renamed_and_dropped() {
    let serving = Serving::start(1, "attach_on_first_use = true");
    let url = serving.url("postgres", "postgres");
    psql(&url, "CREATE DATABASE followed").worked();
    psql(&serving.url("postgres", "followed"), "CREATE TABLE offloaded (a int)").worked();
    reads_leave(&serving, "followed");
    psql(&url, "ALTER DATABASE followed RENAME TO renamed").worked();
    reads_leave(&serving, "renamed");
    psql(&url, "DROP DATABASE renamed").worked();
    let told = psql(&serving.url("postgres", "renamed"), "SELECT 1").failed(2);
    assert!(told.contains("database \"renamed\" does not exist"), "{told}");
}

#[test]
fn a_membership_given_and_taken_counts_for_the_next_read() {
    let serving = Serving::start(1, "attach_on_first_use = true");
    let admin = serving.url("postgres", "postgres");
    let reader = serving.url("reader", "postgres");
    psql(&admin, "CREATE TABLE offloaded (a int); CREATE ROLE reader LOGIN").worked();
    reads_leave(&serving, "postgres");
    for _ in 0..5 {
        psql(&admin, "GRANT pg_read_all_data TO reader").worked();
        psql(&reader, "SELECT * FROM offloaded").worked();
        psql(&admin, "REVOKE pg_read_all_data FROM reader").worked();
        let told = psql(&reader, "SELECT * FROM offloaded").failed(1);
        assert!(told.contains("permission denied for table offloaded"), "{told}");
    }
}

#[test]
fn the_identity_of_what_explain_makes_is_no_foreign_commit() {
    let (serving, _console, url) = serving(1, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    for round in 0..3 {
        client.rows(&format!("EXPLAIN ANALYZE CREATE TABLE made{round} AS SELECT 1 AS n")).unwrap();
        client.rows(&format!("UPDATE made{round} SET n = 2")).unwrap();
    }
    // A foreign commit would end this kind of proof for good.
    let plain = || figure(&serving, "consort_reads_at_standbys_total{proof=\"plain\"}");
    let before = plain();
    eventually("a read that is proven by what is in doubt", || {
        client.rows(READ_QUIET).unwrap();
        plain() > before
    });
}

/// A process that stands still until this is dropped.
struct Still(String);

impl Still {
    /// Nothing comes out of the decoder.
    fn decoding(serving: &Serving) -> Still {
        let decoding = "SELECT active_pid FROM pg_replication_slots WHERE database = 'postgres'";
        let pid = serving.servers.query(decoding)[0][0].clone().expect("it decodes");
        run(Command::new("kill").args(["-STOP", &pid])).worked();
        Still(pid)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        run(Command::new("kill").args(["-CONT", &self.0]));
    }
}

/// Asynchronous commits come out of the decoder late. The clients: who changes the catalog, who writes, who reads.
fn decoding_late() -> (Serving, [Client; 3]) {
    let (serving, _, url) = serving(1, THROUGH);
    serving.servers.primary().set("wal_writer_delay", "10s").expect("a setting");
    let clients = [(); 3].map(|()| Client::connect(&url).expect("a log-in"));
    (serving, clients)
}

const AUDIT: &str = "SELECT n FROM audit WHERE id = 1";

/// Waits until the in-flight write sets do not touch the read.
fn doubts_prove(serving: &Serving, reader: &mut Client) {
    let proven = || figure(serving, "consort_reads_at_standbys_total{proof=\"plain\"}");
    let before = proven();
    eventually("a read that the doubts alone prove", || {
        reader.number(AUDIT).expect("an answer");
        proven() > before
    });
}

/// A write after DDL is analysed without the DDL as long as that has not come out of the decoder. Its
/// in-flight write set must cover its writes all the same: the next read sees the trigger's write, and no
/// commit is taken for a writer that bypasses Consort.
#[test]
fn what_a_trigger_writes_is_in_doubt_although_nobody_knew_of_it() {
    let (serving, [mut admin, mut writer, mut reader]) = decoding_late();
    admin
        .rows(
            "CREATE TABLE audited (id int PRIMARY KEY, n int); CREATE TABLE audit (id int PRIMARY KEY, n int); \
             INSERT INTO audited VALUES (1, 0); INSERT INTO audit VALUES (1, 0); \
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN UPDATE audit SET n = new.n WHERE id = 1; RETURN new; END'; \
             CREATE TRIGGER noted AFTER UPDATE ON audited FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .unwrap();
    for n in 1..=6 {
        // Known before, known before and in a block, never seen before.
        let in_block = n % 3 == 0;
        let alias = if n % 3 == 1 { format!("AS seen_in_round_{n}") } else { String::new() };
        writer.rows("SET synchronous_commit = on").unwrap();
        admin.rows("ALTER TABLE audited DISABLE TRIGGER noted").unwrap();
        for _ in 0..3 {
            doubts_prove(&serving, &mut reader);
            writer.rows("UPDATE audited SET n = 0 WHERE id = 1").unwrap();
        }
        doubts_prove(&serving, &mut reader);
        writer.rows("SET synchronous_commit = off").unwrap();
        let still = Still::decoding(&serving);
        admin.rows("ALTER TABLE audited ENABLE TRIGGER noted").unwrap();
        // Stays at the primary; meanwhile a snapshot probe shows the trigger, and not yet its write.
        reader.number(AUDIT).unwrap();
        if in_block {
            writer.rows("BEGIN").unwrap();
        }
        writer.rows(&format!("UPDATE audited {alias} SET n = {n} WHERE id = 1")).unwrap();
        drop(still);
        if in_block {
            // The trigger's creation has come out, and its in-flight write set has ended.
            doubts_prove(&serving, &mut reader);
            writer.rows("COMMIT").unwrap();
        }
        for _ in 0..100 {
            assert_eq!(reader.number(AUDIT).unwrap(), n, "round {n}");
        }
    }
    admin.rows("UPDATE quiet SET v = v").unwrap();
    // If a commit were taken for another writer's, no read would be proven so any more.
    doubts_prove(&serving, &mut reader);
}

/// A read whose view was redefined a moment ago may write, although its tree is known and says that it does not.
#[test]
fn a_read_that_a_new_view_made_a_writer_is_in_doubt() {
    let (serving, [mut admin, mut writer, mut reader]) = decoding_late();
    admin
        .rows(
            "CREATE TABLE audit (id int PRIMARY KEY, n int); INSERT INTO audit VALUES (1, 0); \
             CREATE FUNCTION bump() RETURNS int LANGUAGE sql AS \
             'UPDATE audit SET n = n + 1 WHERE id = 1 RETURNING n'",
        )
        .unwrap();
    for n in 1..=6 {
        // As a single statement, in a block, as a single statement where no read is offloaded.
        let in_block = n % 3 == 2;
        let isolation = if n % 3 == 0 { "repeatable read" } else { "read committed" };
        writer.rows(&format!("SET default_transaction_isolation = '{isolation}'")).unwrap();
        admin.rows("CREATE OR REPLACE VIEW seen AS SELECT 0 AS n").unwrap();
        for _ in 0..3 {
            doubts_prove(&serving, &mut reader);
            writer.rows("SELECT n FROM seen").unwrap();
        }
        writer.rows("SET synchronous_commit = off").unwrap();
        let still = Still::decoding(&serving);
        admin.rows("CREATE OR REPLACE VIEW seen AS SELECT bump() AS n").unwrap();
        reader.number(AUDIT).unwrap();
        if in_block {
            writer.rows("BEGIN").unwrap();
        }
        assert_eq!(writer.number("SELECT n FROM seen").unwrap(), n);
        if in_block {
            writer.rows("COMMIT").unwrap();
        }
        drop(still);
        for _ in 0..100 {
            assert_eq!(reader.number(AUDIT).unwrap(), n, "round {n}");
        }
        writer.rows("SET synchronous_commit = on").unwrap();
    }
    // If a commit were taken for another writer's, no read would be proven so any more.
    admin.rows("UPDATE quiet SET v = v").unwrap();
    doubts_prove(&serving, &mut reader);
}

pub(crate) fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
    [&[tag][..], &length, body].concat()
}

/// A batch that runs these statements one after the other, with one Sync after them; each by this name,
/// parsed before if it has one.
pub(crate) fn batch(statements: &[&str], named: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, sql) in statements.iter().enumerate() {
        let name = if named { format!("s{at}") } else { String::new() };
        bytes.extend(frame(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat()));
        bytes.extend(frame(b'B', &[b"\0", name.as_bytes(), b"\0\0\0\0\0\0\0"].concat()));
        bytes.extend(frame(b'E', b"\0\0\0\0\0"));
    }
    bytes.extend(frame(b'S', b""));
    bytes
}

/// A session that speaks in bytes.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) fn connect(port: u16) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        let mut raw = Raw(stream);
        raw.ask(&frame(0, b"\0\x03\0\0user\0postgres\0database\0postgres\0\0")[1..]);
        raw
    }

    /// Sends, and reads up to ReadyForQuery.
    fn ask(&mut self, bytes: &[u8]) {
        if let Some(error) = self.answer(bytes) {
            panic!("{error}");
        }
    }

    /// Sends, and is gone.
    pub(crate) fn ask_and_leave(mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("a socket");
    }

    /// Sends, and reads up to ReadyForQuery. The first error.
    pub(crate) fn answer(&mut self, bytes: &[u8]) -> Option<String> {
        let mut error = None;
        self.0.write_all(bytes).expect("a socket");
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).expect("an answer");
            let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
            let mut body = vec![0; length as usize - 4];
            self.0.read_exact(&mut body).expect("an answer");
            if head[0] == b'E' {
                error.get_or_insert_with(|| String::from_utf8_lossy(&body).into_owned());
            }
            if head[0] == b'Z' {
                return error;
            }
        }
    }
}

/// Runs a command.
type Way = fn(&mut Raw, &str);

/// Ways to take a membership away. Some name the command, some hide it in code that cannot be analysed.
const WAYS: [(&str, Way); 10] = [
    ("plain", |raw, sql| raw.ask(&frame(b'Q', format!("{sql}\0").as_bytes()))),
    ("with a comment", |raw, sql| raw.ask(&frame(b'Q', format!("{sql} -- no longer on call\0").as_bytes()))),
    ("in a block", |raw, sql| {
        for sql in ["BEGIN", sql, "COMMIT"] {
            raw.ask(&frame(b'Q', format!("{sql}\0").as_bytes()));
        }
    }),
    ("several statements", |raw, sql| {
        raw.ask(&frame(b'Q', format!("SELECT 1; {sql}; SELECT 2\0").as_bytes()))
    }),
    ("DO", |raw, sql| raw.ask(&frame(b'Q', format!("DO $$ BEGIN {sql}; END $$\0").as_bytes()))),
    ("a function", |raw, sql| {
        raw.ask(&frame(b'Q', format!("SELECT run({})\0", quoted(sql)).as_bytes()));
    }),
    ("a trigger", |raw, sql| {
        raw.ask(&frame(b'Q', format!("UPDATE fires SET command = {}\0", quoted(sql)).as_bytes()));
    }),
    ("extended", |raw, sql| raw.ask(&batch(&[sql], false))),
    ("something behind it", |raw, sql| raw.ask(&batch(&[sql, "SELECT 1"], false))),
    ("a named statement", |raw, sql| {
        raw.ask(&batch(&[sql], true));
        raw.ask(&[frame(b'C', b"Ss0\0"), frame(b'S', b"")].concat());
    }),
];

/// Ways that hide the command.
const HIDDEN: [&str; 3] = ["DO", "a function", "a trigger"];

fn quoted(sql: &str) -> String {
    format!("'{}'", sql.replace('\'', "''"))
}

/// The standby replays 150 ms late: long after the command was acknowledged it shows the membership.
#[test]
fn a_membership_taken_in_any_way_counts_at_once_though_the_standby_lags() {
    let (serving, _, url) = serving(1, THROUGH);
    let mut admin = Client::connect(&url).unwrap();
    admin
        .rows(
            "CREATE ROLE reader LOGIN; CREATE TABLE guarded (a int); INSERT INTO guarded VALUES (1); \
             CREATE TABLE fires (command text); INSERT INTO fires VALUES (''); \
             CREATE FUNCTION run(command text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE command; END'; \
             CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN EXECUTE new.command; RETURN new; END'; \
             CREATE TRIGGER fires BEFORE UPDATE ON fires FOR EACH ROW EXECUTE FUNCTION fire()",
        )
        .unwrap();
    let mut reader = Client::connect(&serving.url("reader", "postgres")).unwrap();
    let mut raw = Raw::connect(serving.port);
    let read = "SELECT a FROM guarded";
    let at_standby = || figure(&serving, "consort_reads_at_standbys_total{proof=\"plain\"}");
    serving.servers.set_apply_delay(0, Duration::from_millis(150));
    for (way, revoke) in WAYS {
        for _ in 0..3 {
            admin.rows("GRANT pg_read_all_data TO reader").unwrap();
            let before = at_standby();
            eventually("a read at the standby", || {
                reader.rows(read).unwrap();
                at_standby() > before
            });
            revoke(&mut raw, "REVOKE pg_read_all_data FROM reader");
            for at in 0..30 {
                let told = reader.rows(read).err().map(|trouble| trouble.sqlstate);
                assert_eq!(told, Some(Some("42501".to_owned())), "{way}: read {at} behind the answer");
            }
        }
    }
}

/// An owner may use its own objects. No digest shows the owner, no event trigger fires for this command, and
/// no lock on a schema reaches the standbys.
#[test]
fn a_schema_that_is_reassigned_has_its_new_owner_at_once_though_the_standby_lags() {
    let (serving, _, url) = serving(1, THROUGH);
    let mut admin = Client::connect(&url).unwrap();
    admin
        .rows(
            "CREATE ROLE anna; CREATE ROLE reader LOGIN; CREATE SCHEMA guarded; \
             CREATE TABLE guarded.t (a int); GRANT SELECT ON guarded.t TO reader",
        )
        .unwrap();
    let mut reader = Client::connect(&serving.url("reader", "postgres")).unwrap();
    let mut raw = Raw::connect(serving.port);
    let at_standby = || figure(&serving, "consort_reads_at_standbys_total{proof=\"plain\"}");
    serving.servers.set_apply_delay(0, Duration::from_millis(500));
    let reassign = "REASSIGN OWNED BY reader TO anna";
    let owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'guarded'";
    let mut reads = || reader.rows("SELECT a FROM guarded.t").map_err(|trouble| trouble.sqlstate);
    for (way, run) in WAYS.into_iter().filter(|(way, _)| !HIDDEN.contains(way)) {
        admin.rows("ALTER SCHEMA guarded OWNER TO reader").unwrap();
        let before = at_standby();
        eventually("a read at the standby", || {
            reads().expect("it is his");
            at_standby() > before
        });
        run(&mut raw, reassign);
        eventually("a standby that shows it", || {
            assert_eq!(reads().err(), Some(Some("42501".to_owned())), "{way}");
            serving.servers.standby(0).query("postgres", owner).unwrap()[0][0].as_deref() == Some("anna")
        });
    }
}

/// Sends a command, and leaves as soon as it waits for a lock.
fn lose_while_it_waits(serving: &Serving, command: &str) {
    let mut lost = Raw::connect(serving.port);
    lost.0.write_all(&frame(b'Q', format!("{command}\0").as_bytes())).expect("a socket");
    let waits = format!(
        "SELECT 1 FROM pg_stat_activity WHERE query = {} AND wait_event_type = 'Lock'",
        quoted(command)
    );
    eventually("a backend that waits", || !serving.servers.query(&waits).is_empty());
}

/// A session that is gone while its command waits for a lock: its backend goes on, and revokes later.
#[test]
fn a_membership_that_a_lost_session_takes_away_counts_as_soon_as_it_is_taken() {
    let (serving, _, url) = serving(1, ANYWHERE);
    let mut admin = Client::connect(&url).unwrap();
    admin
        .rows("CREATE ROLE reader LOGIN; CREATE TABLE guarded (a int); GRANT pg_read_all_data TO reader")
        .unwrap();
    let mut reader = Client::connect(&serving.url("reader", "postgres")).unwrap();
    serving.servers.set_apply_delay(0, Duration::from_millis(150));
    let primary = serving.servers.primary();
    let one = |sql: &str| primary.query("postgres", sql).unwrap()[0][0].clone().unwrap_or_default();
    for sql in ["BEGIN", "LOCK TABLE pg_auth_members IN EXCLUSIVE MODE"] {
        admin.rows(sql).unwrap();
    }
    lose_while_it_waits(&serving, "REVOKE pg_read_all_data FROM reader");
    for _ in 0..50 {
        reader.rows("SELECT a FROM guarded").unwrap();
    }
    admin.rows("COMMIT").unwrap();
    eventually("the end of the membership", || {
        one("SELECT count(*) FROM pg_auth_members WHERE member = 'reader'::regrole") == "0"
    });
    for at in 0..30 {
        let told = reader.rows("SELECT a FROM guarded").err().map(|trouble| trouble.sqlstate);
        assert_eq!(told, Some(Some("42501".to_owned())), "read {at}");
    }
}

/// The command commits once before its end, and waits then for those who use the table.
#[test]
fn a_partition_that_is_being_detached_is_gone_at_once_though_the_standby_lags() {
    const READ: &str = "SELECT count(*) FROM parts";
    const DETACH: &str = "ALTER TABLE parts DETACH PARTITION second CONCURRENTLY";
    for (lines, through) in [(THROUGH, true), (ANYWHERE, true), (ANYWHERE, false)] {
        let (serving, _console, url) = serving(1, lines);
        let mut admin = Client::connect(&url).unwrap();
        let parts = "CREATE TABLE parts (a int) PARTITION BY LIST (a); \
             CREATE TABLE first PARTITION OF parts FOR VALUES IN (1); \
             CREATE TABLE second PARTITION OF parts FOR VALUES IN (2); INSERT INTO parts VALUES (1), (2)";
        admin.rows(parts).unwrap();
        let mut reader = Client::connect(&url).unwrap();
        eventually("a read at the standby", || {
            assert_eq!(reader.one(READ).unwrap(), "2");
            let routes = psql(&serving.url("postgres", "consort"), "SHOW ROUTES").worked();
            routes.lines().any(|row| row.contains("FROM parts") && row.contains("|standby1|"))
        });
        let mut one_server = Client::connect(&url).unwrap();
        one_server.rows("SET consort.consistency = 'primary'").unwrap();
        let mut holder = Client::connect(&url).unwrap();
        holder.rows("BEGIN; SELECT count(*) FROM parts").unwrap();
        serving.servers.set_apply_delay(0, Duration::from_millis(400));
        std::thread::scope(|scope| {
            let detaching = scope.spawn(|| {
                if through {
                    Client::connect(&url).unwrap().rows(DETACH).unwrap();
                } else {
                    serving.servers.query(DETACH);
                }
            });
            eventually("what is left", || one_server.one(READ).unwrap() == "1");
            for _ in 0..50 {
                assert_eq!(reader.one(READ).unwrap(), "1", "one server has shown that it is gone");
            }
            holder.rows("COMMIT").unwrap();
            detaching.join().unwrap();
        });
        assert_eq!(reader.one(READ).unwrap(), "1");
    }
}

/// Two schemas of a session's search_path have a table of one name. A process keeps the schemas that it found until one changes.
#[test]
fn a_membership_that_opens_a_schema_opens_it_for_all_nodes() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, _console, url) = serving(1, lines);
        let mut admin = Client::connect(&url).unwrap();
        admin
            .rows(
                "CREATE ROLE member LOGIN; CREATE ROLE group_of_it; CREATE SCHEMA first; \
                 GRANT USAGE ON SCHEMA first TO group_of_it; CREATE TABLE first.both (a int PRIMARY KEY); \
                 CREATE TABLE public.both (a int PRIMARY KEY); GRANT ALL ON first.both, public.both TO member",
            )
            .unwrap();
        let mut member = Client::connect(&serving.url("member", "postgres")).unwrap();
        let mut other = Client::connect(&url).unwrap();
        member.rows("SET search_path = first, public").unwrap();
        member.rows("PREPARE put AS INSERT INTO \"both\" VALUES ($1)").unwrap();
        let mut wrong = Vec::new();
        let mut n = 0;
        for change in ["SELECT", "GRANT group_of_it TO member", "REVOKE group_of_it FROM member"] {
            admin.rows(change).unwrap();
            if n > 0 {
                let schema = if change.starts_with("GRANT") { "first" } else { "public" };
                let looked_again = format!("SELECT '\"both\"'::regclass = '{schema}.both'::regclass");
                eventually("the schema", || member.one(&looked_again).unwrap() == "t");
            }
            for _ in 0..20 {
                n += 1;
                let put = if n % 2 == 0 {
                    format!("EXECUTE put({n})")
                } else {
                    format!("INSERT INTO \"both\" VALUES ({n})")
                };
                member.rows(&put).unwrap();
                let own = member.number(&format!("SELECT count(*) FROM \"both\" WHERE a = {n}")).unwrap();
                let public = other.number("SELECT count(*) FROM public.both").unwrap();
                let first = other.number("SELECT count(*) FROM first.both").unwrap();
                let first_now = if n <= 20 { 0 } else { (n - 20).min(20) };
                if own != 1 || first != first_now || public + first != n {
                    wrong.push((n, own, public, first));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

/// A role that may drop event triggers may drop Consort's, or disable their work; then Consort learns of no
/// DDL.
#[test]
fn without_its_event_triggers_no_read_leaves() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let mut other = Client::connect(&url).unwrap();
    client.rows("CREATE VIEW seen AS SELECT 0 AS v").unwrap();
    for (round, sabotage) in [
        "ALTER EVENT TRIGGER consort_ddl_command_end DISABLE",
        "prepared: ALTER EVENT TRIGGER consort_ddl_command_end DISABLE",
        "BEGIN; DROP EVENT TRIGGER consort_ddl_command_end; COMMIT",
        "DROP SCHEMA consort CASCADE",
        "CREATE OR REPLACE FUNCTION consort.note_command() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'",
    ]
    .into_iter()
    .enumerate()
    {
        let standby = serving.servers.standby(0);
        eventually("reads that leave", || console.stays("postgres").is_empty());
        match sabotage.strip_prefix("prepared: ") {
            Some(statement) => {
                let prepared = client.prepare(statement);
                client.run(&prepared);
            }
            None => drop(client.rows(sabotage).unwrap()),
        }
        standby.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
        for step in 1..=3 {
            let value = i64::try_from(round).unwrap() * 10 + step;
            client.rows(&format!("CREATE OR REPLACE VIEW seen AS SELECT {value} AS v")).unwrap();
            assert_eq!(client.number("SELECT v FROM seen").unwrap(), value, "{sabotage}");
            assert_eq!(other.number("SELECT v FROM seen").unwrap(), value, "{sabotage}");
        }
        standby.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
    }
}

#[test]
fn event_triggers_that_are_taken_away_past_consort_are_missed() {
    let (serving, mut console, _url) = serving(1, ANYWHERE);
    eventually("reads that leave", || console.stays("postgres").is_empty());
    serving.servers.query("ALTER EVENT TRIGGER consort_ddl_command_end DISABLE");
    // The database is attached again: it may be, on first use.
    let there = "SELECT FROM pg_event_trigger WHERE evtname = 'consort_ddl_command_end' AND evtenabled = 'A'";
    eventually("the event trigger", || !serving.servers.query(there).is_empty());
    eventually("reads that leave", || console.stays("postgres").is_empty());
}

#[test]
fn ddl_in_serializable_transactions_does_not_conflict_by_what_consort_notes() {
    let (_serving, _console, url) = serving(0, THROUGH);
    let mut clients = [Client::connect(&url).unwrap(), Client::connect(&url).unwrap()];
    for client in &mut clients {
        client.rows("SET enable_tidscan = off").unwrap();
        client.rows("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
    }
    for n in 0..4 {
        for (name, client) in ["a", "b"].into_iter().zip(&mut clients) {
            client.rows(&format!("CREATE TABLE {name}{n} (v int)")).unwrap();
        }
    }
    for client in &mut clients {
        client.rows("COMMIT").unwrap();
    }
}

/// A snapshot at a standby is older than the locks that its statement waits for there. A table that was
/// emptied and filled again meanwhile shows neither its old nor its new rows.
#[test]
fn what_is_emptied_while_a_read_waits_at_a_standby_is_not_shown_empty() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(1, lines);
        let mut other = Client::connect(&url).unwrap();
        other.rows("CREATE TABLE emptied (v int); INSERT INTO emptied VALUES (0)").unwrap();
        let primary = serving.servers.primary();
        let past = past(primary);
        let mut writer = Client::connect(if lines == THROUGH { &url } else { &past }).unwrap();
        let read = "SELECT count(*) FROM emptied";
        let before = served(&mut console, "standby1");
        eventually("a read that leaves", || {
            assert_eq!(other.number(read).unwrap(), 1);
            served(&mut console, "standby1") > before
        });
        let standby = serving.servers.standby(0);
        let waits = "SELECT FROM pg_locks WHERE relation = 'emptied'::regclass AND NOT granted";
        let held =
            "SELECT FROM pg_locks WHERE relation = 'emptied'::regclass AND mode = 'AccessExclusiveLock'";
        let mut readers = vec![Client::connect(&url).unwrap()];
        for round in 1..=10 {
            writer.rows("BEGIN; TRUNCATE emptied").unwrap();
            eventually("a lock that is replayed", || {
                other.rows("UPDATE counter SET n = n + 1 WHERE id = 1").unwrap();
                !standby.query("postgres", held).unwrap().is_empty()
            });
            let mut reader = readers.pop().unwrap();
            let reading = std::thread::spawn(move || (reader.number(read), reader));
            eventually("a read that waits", || {
                let at_primary = serving.servers.query(waits);
                !standby.query("postgres", waits).unwrap().is_empty() || !at_primary.is_empty()
            });
            writer
                .rows(&format!("INSERT INTO emptied SELECT generate_series(1, {}); COMMIT", 100 * round))
                .unwrap();
            let (shown, reader) = reading.join().unwrap();
            assert_eq!(shown.unwrap(), 100 * round);
            readers.push(reader);
        }
    }
}

/// A change past Consort, a change through Consort while the standby stands still, and a read that must show
/// the latter.
const CHANGES: [[&str; 4]; 3] = [
    // The function that computes a column is another one than when the row was written.
    [
        "CREATE FUNCTION computes(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'; \
         CREATE TABLE computed (a int, g int GENERATED ALWAYS AS (computes(a)) STORED); \
         INSERT INTO computed VALUES (1); \
         CREATE OR REPLACE FUNCTION computes(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'",
        "UPDATE computed SET a = a",
        "SELECT sum(g) FROM computed",
        "2",
    ],
    // A cast runs inside a function of PostgreSQL's own.
    [
        "CREATE TYPE mood AS ENUM ('fine'); CREATE TABLE label (m mood PRIMARY KEY, said text); \
         INSERT INTO label VALUES ('fine', 'old'); CREATE FUNCTION mood_said(mood) RETURNS json STABLE LANGUAGE sql \
         AS 'SELECT to_json(said) FROM label WHERE m = $1'; CREATE CAST (mood AS json) WITH FUNCTION mood_said(mood); \
         CREATE TABLE moods (id int PRIMARY KEY, m mood); INSERT INTO moods VALUES (1, 'fine')",
        "UPDATE label SET said = 'new'",
        "SELECT row_to_json(moods) ->> 'm' FROM moods",
        "new",
    ],
    // The log of DDL is emptied in the transaction of a command.
    [
        "CREATE TABLE one (x int); CREATE TABLE two (x int); INSERT INTO one VALUES (1); INSERT INTO two VALUES (1); \
         CREATE VIEW looks AS SELECT x FROM one; SELECT x FROM looks; \
         BEGIN; TRUNCATE consort.log; CREATE OR REPLACE VIEW looks AS SELECT x FROM two; COMMIT",
        "UPDATE two SET x = 2",
        "SELECT x FROM looks",
        "2",
    ],
];

#[test]
fn what_is_written_in_a_roundabout_way_is_shown_though_the_standby_stands_still() {
    let (serving, mut console, url) = serving(1, ANYWHERE);
    let standby = serving.servers.standby(0);
    let mut client = Client::connect(&url).unwrap();
    let mut other = Client::connect(&url).unwrap();
    for [setup, change, read, wanted] in CHANGES {
        for step in setup.split("; SELECT x FROM looks;") {
            serving.servers.query(step);
            serving.servers.catch_up(LIMIT);
            eventually("reads that leave", || console.stays("postgres").is_empty());
            (0..5).for_each(|_| drop(other.rows(read)));
        }
        standby.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
        eventually("a pause", || {
            let state = standby.query("postgres", "SELECT pg_get_wal_replay_pause_state()").unwrap();
            state[0][0].as_deref() == Some("paused")
        });
        client.rows(change).unwrap();
        for _ in 0..50 {
            assert_eq!(client.one(read).unwrap(), wanted);
            assert_eq!(other.one(read).unwrap(), wanted);
        }
        standby.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
    }
}
