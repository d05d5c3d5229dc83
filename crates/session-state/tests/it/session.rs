//! A session's state against a real session: random statements, and after each one a check at the server that
//! Consort's state is true; then another connection is brought to the same settings.

#![expect(clippy::disallowed_types, reason = "a test speaks to a server; the crate does not")]

use super::server::Server;
use history::LoadTime;
use session_state::utility::{self, What};
use session_state::{BlockStatus, Dirt, Interner, MIRRORED, Own, SessionState, Settings, Startup};
use statement_analysis::shape::Strings;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A connection that shows the messages that the frontend would see.
struct Wire(UnixStream);

#[derive(Default)]
struct Answer {
    completed: usize,
    failed: Option<String>,
    reports: Vec<(String, String)>,
    rows: Vec<Vec<Option<String>>>,
    status: u8,
}

impl Wire {
    fn open(server: &Server, user: &str) -> (Wire, Answer) {
        let mut wire = Wire(UnixStream::connect(server.folder().join(".s.PGSQL.5432")).unwrap());
        let mut packet = 196_608_i32.to_be_bytes().to_vec();
        packet.extend_from_slice(format!("user\0{user}\0database\0postgres\0\0").as_bytes());
        wire.0.write_all(&(packet.len() as i32 + 4).to_be_bytes()).unwrap();
        wire.0.write_all(&packet).unwrap();
        let answer = wire.answer();
        (wire, answer)
    }

    fn query(&mut self, text: &str) -> Answer {
        let mut message = vec![b'Q'];
        message.extend_from_slice(&(text.len() as i32 + 5).to_be_bytes());
        message.extend_from_slice(text.as_bytes());
        message.push(0);
        self.0.write_all(&message).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let mut body = vec![0; i32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
            self.0.read_exact(&mut body).unwrap();
            let texts =
                || body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
            match head[0] {
                b'C' => answer.completed += 1,
                b'E' => answer.failed = texts().find_map(|field| field.strip_prefix('M').map(str::to_owned)),
                b'S' => {
                    let mut texts = texts();
                    answer.reports.push((texts.next().unwrap(), texts.next().unwrap()));
                }
                b'D' => answer.rows.push(row(&body)),
                b'Z' => {
                    answer.status = body[0];
                    return answer;
                }
                _ => {}
            }
        }
    }
}

fn row(body: &[u8]) -> Vec<Option<String>> {
    let (mut values, mut at) = (Vec::new(), 2);
    while at < body.len() {
        let length = i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        at += 4;
        values
            .push((length >= 0).then(|| String::from_utf8(body[at..at + length as usize].to_vec()).unwrap()));
        at += length.max(0) as usize;
    }
    values
}

fn borrowed(row: &[Option<String>]) -> Vec<Option<&str>> {
    row.iter().map(Option::as_deref).collect()
}

struct Twins {
    wire: Wire,
    session: SessionState,
    interner: Interner,
    told: Vec<String>,
}

impl Twins {
    fn open(server: &Server, user: &str) -> Twins {
        let mut interner = Interner::new(100);
        let startup = Startup::of([("user", user)], Own::default()).unwrap();
        let session = SessionState::new(&startup, &mut interner);
        let (wire, answer) = Wire::open(server, user);
        let mut twins = Twins { wire, session, interner, told: Vec::new() };
        twins.hear(&answer);
        twins
    }

    fn hear(&mut self, answer: &Answer) {
        for (name, value) in &answer.reports {
            self.session.reported(name, value);
        }
        self.session.ready(answer.status, &mut self.interner);
        let expected = match answer.status {
            b'I' => BlockStatus::Idle,
            b'T' => BlockStatus::Open,
            _ => BlockStatus::Failed,
        };
        assert_eq!(self.session.block(), expected, "{:#?}", self.told);
    }

    fn run(&mut self, text: &str) {
        self.told.push(text.to_owned());
        let statements = utility::split(text, Strings::Standard);
        if text.contains("set_config") {
            self.session.dirtied(Dirt::Function);
        }
        let answer = self.wire.query(text);
        if let Some(message) = &answer.failed {
            self.told.push(format!("  {message}"));
        }
        let refused = answer.failed.is_some().then_some(answer.completed);
        for (place, statement) in
            statements.iter().enumerate().take(answer.completed + usize::from(refused.is_some()))
        {
            match &statement.what {
                What::Tree if refused == Some(place) => self.session.statement_failed(),
                What::Tree => {}
                What::Utility(utility) if refused == Some(place) => self.session.failed(utility),
                What::Utility(utility) => self.session.completed(utility, &mut self.interner),
            }
        }
        self.hear(&answer);
    }

    fn probe(&mut self) {
        let Some(question) = self.session.probe() else { return };
        let answer = self.wire.query(&question);
        assert_eq!(answer.failed, None, "{question}");
        let _ = self.session.probed(&borrowed(&answer.rows[0]), &mut self.interner);
        self.told.push("  probed".to_owned());
        self.hear(&answer);
    }

    /// Checks the settings that Consort claims to know against the server.
    fn check(&mut self) {
        if self.session.block() == BlockStatus::Failed || self.session.dirt().is_some() {
            return;
        }
        let known: Vec<(String, String)> =
            self.session.settings().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let columns: Vec<String> =
            known.iter().map(|(name, _)| format!("current_setting('{name}', true)")).collect();
        let asked = format!("SELECT current_setting('transaction_isolation'), {}", columns.join(", "));
        let answer = self.wire.query(&asked);
        let stays = |why: &str| self.session.may_leave().is_err_and(|stay| stay.name() == why);
        if self.session.block() == BlockStatus::Open && !stays("block_unknown") {
            assert_eq!(
                answer.rows[0][0].as_deref(),
                Some(self.session.isolation().as_str()),
                "{:#?}",
                self.told
            );
        }
        if !stays("block_set_local") && !stays("block_unknown") {
            for ((name, value), truth) in known.iter().zip(&answer.rows[0][1..]) {
                assert_eq!(truth.as_deref(), Some(value.as_str()), "{name} after {:#?}", self.told);
            }
        }
    }
}

/// Another connection of the same role, which follows the session's settings.
struct Follower {
    wire: Wire,
    now: Settings,
}

impl Follower {
    fn open(server: &Server, user: &str, interner: &mut Interner) -> Follower {
        let (mut wire, _) = Wire::open(server, user);
        let answer = wire.query(&Settings::probe());
        let (now, _) = Settings::of_probe(&borrowed(&answer.rows[0]), interner).unwrap();
        Follower { wire, now }
    }

    fn follow(&mut self, wanted: &Settings, interner: &mut Interner) {
        let Some(statement) = self.now.to_become(wanted) else { return };
        let answer = self.wire.query(&statement);
        assert_eq!(answer.failed, None, "{statement}");
        let probed = self.wire.query(&Settings::probe());
        let (truth, _) = Settings::of_probe(&borrowed(&probed.rows[0]), interner).unwrap();
        let sent = |name: &&&str| !name.starts_with("default_transaction_") && !name.starts_with("idle_in");
        for name in MIRRORED.iter().filter(sent) {
            assert_eq!(truth.get(name), wanted.get(name), "{name} after {statement}");
        }
        for (name, value) in wanted.iter().filter(|(name, _)| name.contains('.')) {
            let answer = self.wire.query(&format!("SELECT current_setting('{name}')"));
            assert_eq!(answer.rows[0][0].as_deref(), Some(value), "{name} after {statement}");
        }
        assert_eq!(wanted.to_become(wanted), None);
        self.now = wanted.clone();
    }
}

const STATEMENTS: &[&str] = &[
    "BEGIN",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "COMMIT",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "ROLLBACK AND CHAIN",
    "SAVEPOINT a",
    "SAVEPOINT b",
    "ROLLBACK TO a",
    "ROLLBACK TO b",
    "RELEASE a",
    "RELEASE b",
    "SELECT 1",
    "SELECT 1/0",
    "nonsense",
    "SET search_path = a",
    "SET search_path = a, \"B c\", public",
    "RESET search_path",
    "SET SESSION search_path = b",
    "SET LOCAL search_path = c",
    "SET statement_timeout = '10s'",
    "RESET statement_timeout",
    "SET app.tenant = '7'",
    "SET app.tenant = 'it''s \\'",
    "SET LOCAL app.tenant = '8'",
    "RESET app.tenant",
    "SET DateStyle = ISO",
    "SET DateStyle = German, DMY",
    "SET TIME ZONE 'Europe/Rome'",
    "SET TIME ZONE 'UTC'",
    "SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE",
    "RESET TIME ZONE",
    "SET enable_seqscan = off",
    "RESET enable_seqscan",
    "SET synchronous_commit = off",
    "SET bytea_output = 'escape'",
    "SET standard_conforming_strings = on",
    "SET default_transaction_isolation = 'repeatable read'",
    "SET default_transaction_isolation = 'read committed'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "RESET default_transaction_isolation",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET LOCAL transaction_isolation = 'serializable'",
    "SET TRANSACTION READ ONLY",
    "SET ROLE reader",
    "SET ROLE NONE",
    "RESET ROLE",
    "SET SESSION AUTHORIZATION reader",
    "RESET SESSION AUTHORIZATION",
    "RESET ALL",
    "DISCARD ALL",
    "DISCARD PLANS",
    "SELECT set_config('search_path', 'd', false)",
    "SET search_path = e; SELECT 1/0",
    "SET search_path = f; SELECT 1",
    "SET search_path = g; BEGIN; SET search_path = h; ROLLBACK",
    "BEGIN; SET search_path = i; COMMIT; SET search_path = j; SELECT 1/0",
    "BEGIN; SET search_path = k; SAVEPOINT a; SET search_path = l",
    "BEGIN; BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET no.such = 1; SET no_such = 1",
    "SET consortium.x = 1; RESET ALL",
];

#[test]
fn what_consort_believes_of_a_session_is_so() {
    let server = Server::start();
    let (mut admin, _) = Wire::open(&server, "postgres");
    for statement in
        ["CREATE ROLE reader", "CREATE ROLE app LOGIN IN ROLE reader", "ALTER ROLE app SET search_path = own"]
    {
        assert_eq!(admin.query(statement).failed, None);
    }
    let mut chance = 1u64;
    let mut next = move |bound: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize % bound
    };
    let (mut checked, mut followed) = (0, 0);
    for user in ["postgres", "app"] {
        for _ in 0..40 {
            let mut twins = Twins::open(&server, user);
            let mut follower = Follower::open(&server, user, &mut twins.interner);
            for _ in 0..60 {
                twins.run(STATEMENTS[next(STATEMENTS.len())]);
                if next(3) > 0 {
                    twins.probe();
                }
                checked += usize::from(twins.session.dirt().is_none());
                twins.check();
                if twins.session.block() == BlockStatus::Idle && twins.session.dirt().is_none() {
                    let wanted = twins.session.settings().clone();
                    follower.follow(&wanted, &mut twins.interner);
                    followed += 1;
                }
            }
        }
    }
    assert!(checked > 1_500 && followed > 500, "checked {checked}, followed {followed}");
}

/// A reload changes the session's settings and the values that RESET restores, but no setting that the
/// session has set.
#[test]
fn what_a_reload_changes_is_so() {
    let server = Server::start();
    let (mut admin, _) = Wire::open(&server, "postgres");
    let mut twins = Twins::open(&server, "postgres");
    twins.probe();
    twins.run("SET extra_float_digits = 2");
    for zone in ["Asia/Tokyo", "Europe/Rome"] {
        for (name, value) in [("bytea_output", "escape"), ("timezone", zone), ("extra_float_digits", "0")] {
            assert_eq!(admin.query(&format!("ALTER SYSTEM SET {name} = '{value}'")).failed, None);
        }
        assert_eq!(admin.query("SELECT pg_reload_conf()").failed, None);
        loop {
            let answer = twins.wire.query("SHOW timezone");
            twins.hear(&answer);
            if answer.rows[0][0].as_deref() == Some(zone) {
                break;
            }
        }
        twins.session.reloaded(LoadTime::MAX);
        assert_eq!(twins.session.dirt(), Some(Dirt::Reload));
        for statement in ["SELECT 1", "RESET timezone", "SET bytea_output = hex", "RESET ALL", "SELECT 1"] {
            twins.run(statement);
            twins.probe();
            assert_eq!(twins.session.dirt(), None, "{statement}");
            twins.check();
        }
    }
}

/// The probe finds state that a function leaves in the session, and finds that it is gone again.
#[test]
fn what_code_leaves_behind_is_found() {
    let server = Server::start();
    let mut twins = Twins::open(&server, "postgres");
    let settle = |twins: &mut Twins| {
        (0..3).for_each(|_| twins.probe());
        twins.session.dirt()
    };
    assert_eq!(settle(&mut twins), None);
    let mut run = |text: &str| {
        twins.session.dirtied(Dirt::Function);
        twins.run(text);
        settle(&mut twins)
    };
    assert_eq!(run("SELECT set_config('search_path', 'pg_temp, nowhere', false)"), None);
    assert_eq!(run("CREATE TEMP TABLE pg_class (a int)"), Some(Dirt::Temporary));
    assert_eq!(run("DROP TABLE pg_temp.pg_class"), None);
    assert_eq!(run("CREATE TYPE pg_temp.t AS ENUM ('a')"), Some(Dirt::Temporary));
    assert_eq!(run("DISCARD TEMP"), None);
    assert_eq!(run("BEGIN; CREATE TEMP TABLE t (a int) ON COMMIT DROP; COMMIT"), None);
    assert_eq!(run("SELECT pg_advisory_lock(1)"), Some(Dirt::AdvisoryLock));
    assert_eq!(run("SELECT pg_advisory_unlock(1)"), None);
    assert_eq!(run("SELECT pg_advisory_xact_lock(1)"), None);
    assert_eq!(run("LISTEN c"), Some(Dirt::Listen));
    assert_eq!(run("UNLISTEN *"), None);
    let shadow = "CREATE SCHEMA evil; CREATE FUNCTION evil.always(text, text) RETURNS bool LANGUAGE sql RETURN true; \
        CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.always); SET search_path = evil, pg_catalog";
    assert_eq!(run(shadow), None);
    assert_eq!(twins.session.settings().get("search_path"), Some("evil, pg_catalog"));
}
