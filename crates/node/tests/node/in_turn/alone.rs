//! A client as one server would have it: its possible next acts, their answers, and the state of its session.

use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet};

/// A setting, and the values that clients give it; the first is the one that it begins with.
type Setting = (&'static str, [&'static str; 4]);

const SETTINGS: [Setting; 8] = [
    ("app.mine", ["", "one", "two", "three"]),
    ("work_mem", ["4MB", "5MB", "6MB", "7MB"]),
    ("datestyle", ["ISO, MDY", "German, DMY", "SQL, MDY", "Postgres, DMY"]),
    ("search_path", ["\"$user\", public", "public", "pg_catalog", "nowhere, public"]),
    ("statement_timeout", ["0", "1min", "2min", "3min"]),
    ("extra_float_digits", ["1", "0", "2", "3"]),
    ("role", ["none", "pg_monitor", "pg_read_all_data", "pg_read_all_stats"]),
    ("session_authorization", ["postgres", "in_turn_ann", "in_turn_bob", "in_turn_eve"]),
];
const ROLE_AT: usize = SETTINGS.len() - 2;
const AUTHORIZATION_AT: usize = SETTINGS.len() - 1;
/// The role among those that is no superuser: it may not set a role.
const PLAIN: usize = 3;
const MEMORY_AT: usize = 1;
const DATES_AT: usize = 2;
/// 4 February 2024, in each of the styles.
const DATES: [&str; 4] = ["2024-02-04", "04.02.2024", "02/04/2024", "04-02-2024"];

/// Makes the roles that they may be,
pub(super) const MAKES_ROLES: &str =
    "CREATE ROLE in_turn_ann SUPERUSER; CREATE ROLE in_turn_bob SUPERUSER; CREATE ROLE in_turn_eve";
/// and in each database the table that they copy to.
pub(super) const MAKES_TABLE: &str = "CREATE TABLE copied (who bigint, n int, PRIMARY KEY (who, n)); \
    GRANT SELECT, INSERT ON copied TO PUBLIC; GRANT SELECT ON items TO PUBLIC";

/// Queries all state of this client that one select can show.
pub(super) fn look(who: i64) -> String {
    let settings: String =
        SETTINGS.iter().map(|(name, _)| format!("coalesce(current_setting('{name}', true), ''), ")).collect();
    let names = |what: &str, from: &str| {
        format!("(SELECT coalesce(string_agg({what}, ',' ORDER BY {what}), '') FROM {from}), ")
    };
    [
        "SELECT ".to_owned(),
        settings,
        "current_user, session_user, ".to_owned(),
        format!("(SELECT count(*) FROM public.copied WHERE who = {who}), "),
        names("name", "pg_prepared_statements"),
        names("name", "pg_cursors"),
        names("channel", "pg_listening_channels() AS channel"),
        names("objid::text", "pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"),
        names(
            "name",
            "(SELECT relname::text FROM pg_class WHERE relpersistence = 't' AND relnamespace = pg_my_temp_schema() \
              UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = pg_my_temp_schema()) AS temporary (name)",
        ),
        "now() = statement_timestamp() AND pg_current_xact_id_if_assigned() IS NULL".to_owned(),
    ]
    .concat()
}

/// Form of a client's request.
#[derive(Debug)]
pub(super) enum How {
    /// In the simple protocol.
    Query,
    /// As a statement that is to be known under this name.
    Parse(String),
    /// By running what is known under this name.
    Run(String),
    /// As a COPY of these rows.
    Copy {
        rows: Vec<String>,
        /// True if the client ends the copy with CopyFail.
        fails: bool,
        /// In the extended protocol.
        extended: bool,
        /// The rows do not wait for the server to ask for them.
        at_once: bool,
    },
}

/// An act of a client, and its answer.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) how: How,
    pub(super) text: String,
    pub(super) hears: Vec<String>,
    /// The notification that listeners receive.
    pub(super) notifies: Option<String>,
}

impl Act {
    fn query(text: impl Into<String>) -> Act {
        Act { how: How::Query, text: text.into(), hears: Vec::new(), notifies: None }
    }

    fn prepares(name: &str, text: String) -> Act {
        Act { how: How::Parse(name.to_owned()), ..Act::query(text) }
    }

    fn runs(name: &str) -> Act {
        Act { how: How::Run(name.to_owned()), ..Act::query("") }
    }

    fn hears(mut self, value: impl Into<String>) -> Act {
        self.hears.push(value.into());
        self
    }
}

/// Kinds of temporary objects, both called `own`.
#[derive(Clone, Copy, Debug)]
enum Temporary {
    Table,
    Function,
}

/// State that a rollback of the transaction restores.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// Index of each setting's value.
    settings: [usize; SETTINGS.len()],
    /// Kind of the temporary object that it has made.
    temporary: Option<Temporary>,
    listens: bool,
    /// A cursor that outlives its transaction.
    held: bool,
    /// Rows of its own that it has copied.
    copied: u32,
}

/// An open transaction block.
#[derive(Clone, Debug, Default)]
struct Block {
    /// State that a COMMIT keeps.
    kept: Kept,
    /// Values of SET LOCAL.
    local: [Option<usize>; SETTINGS.len()],
    cursor: bool,
    lock: bool,
    failed: bool,
    /// As it was at its savepoint.
    savepoint: Option<Box<Block>>,
}

/// A client as one server would have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Alone {
    /// Its number, which its rows have.
    who: i64,
    /// True if it may begin blocks.
    blocks: bool,
    /// The number of its last row, whatever became of that.
    last_row: u32,
    settled: Kept,
    block: Option<Block>,
    /// Statements by name, made by the protocol or by SQL.
    prepared: BTreeMap<String, u32>,
    /// Statements that SQL made in a block: their settings may have been unknown.
    made_in_block: BTreeSet<String>,
    locks: BTreeSet<u32>,
}

impl Alone {
    /// One that has done nothing yet.
    pub(super) fn new(who: i64, blocks: bool) -> Alone {
        Alone { who, blocks, ..Alone::default() }
    }

    /// As it was at first, but for what is in the database.
    fn discarded(&self) -> Alone {
        let settled = Kept { copied: self.settled.copied, ..Kept::default() };
        Alone { last_row: self.last_row, settled, ..Alone::new(self.who, self.blocks) }
    }

    pub(super) fn who(&self) -> i64 {
        self.who
    }

    /// Rows of its own that stay even if its transaction is rolled back.
    pub(super) fn copied(&self) -> u32 {
        self.settled.copied
    }

    pub(super) fn has_failed(&self) -> bool {
        self.block.as_ref().is_some_and(|block| block.failed)
    }

    pub(super) fn status(&self) -> char {
        match &self.block {
            None => 'I',
            Some(block) if block.failed => 'E',
            Some(_) => 'T',
        }
    }

    /// True if it needs a connection for itself.
    pub(super) fn is_tied(&self) -> bool {
        let Kept { temporary, held, .. } = self.settled;
        let by_sql = self.made_in_block.iter().any(|name| self.prepared.contains_key(name));
        self.block.is_some() || temporary.is_some() || held || by_sql || !self.locks.is_empty()
    }

    /// True if it listens even if its transaction is rolled back.
    pub(super) fn listens(&self) -> bool {
        self.settled.listens
    }

    fn kept(&self) -> &Kept {
        self.block.as_ref().map_or(&self.settled, |block| &block.kept)
    }

    fn kept_mut(&mut self) -> &mut Kept {
        self.block.as_mut().map_or(&mut self.settled, |block| &mut block.kept)
    }

    /// Changes the state that stays even if its transaction is rolled back.
    fn everywhere(&mut self, change: impl Fn(&mut Kept)) {
        change(&mut self.settled);
        let mut block = self.block.as_mut();
        while let Some(at) = block {
            change(&mut at.kept);
            block = at.savepoint.as_deref_mut();
        }
    }

    /// Index of a setting's value.
    fn value(&self, at: usize) -> usize {
        let local = self.block.as_ref().and_then(|block| block.local[at]);
        local.unwrap_or(self.kept().settings[at])
    }

    /// Values that a query for its session's state returns.
    pub(super) fn expected(&self) -> Vec<String> {
        let names = |names: &[(&str, bool)]| {
            let there = names.iter().filter(|(_, there)| *there).map(|(name, _)| *name);
            there.collect::<Vec<_>>().join(",")
        };
        let mut seen: Vec<String> =
            SETTINGS.iter().enumerate().map(|(at, (_, values))| values[self.value(at)].to_owned()).collect();
        seen.push(self.current_user().to_owned());
        seen.push(SETTINGS[AUTHORIZATION_AT].1[self.value(AUTHORIZATION_AT)].to_owned());
        seen.push(self.kept().copied.to_string());
        seen.push(self.prepared.keys().cloned().collect::<Vec<_>>().join(","));
        let block = self.block.as_ref();
        let cursor = block.is_some_and(|block| block.cursor);
        seen.push(names(&[("brief", cursor), ("held", self.kept().held)]));
        seen.push(names(&[("news", self.settled.listens)]));
        let mut locks: Vec<String> = self.locks.iter().map(u32::to_string).collect();
        locks.extend(block.is_some_and(|block| block.lock).then(|| "9".to_owned()));
        seen.push(locks.join(","));
        seen.push(names(&[("own", self.kept().temporary.is_some())]));
        seen.push(if block.is_none() { "t" } else { "f" }.to_owned());
        seen
    }

    /// Whose rights it has.
    fn current_user(&self) -> &'static str {
        let (role, authorization) = (self.value(ROLE_AT), self.value(AUTHORIZATION_AT));
        if role == 0 { SETTINGS[AUTHORIZATION_AT].1[authorization] } else { SETTINGS[ROLE_AT].1[role] }
    }

    /// The session's text of 4 February 2024.
    pub(super) fn date(&self) -> &'static str {
        DATES[self.value(DATES_AT)]
    }

    fn begin(&mut self) -> Act {
        self.block = Some(Block { kept: self.settled.clone(), ..Block::default() });
        Act::query("BEGIN")
    }

    fn commit(&mut self) -> Act {
        self.settled = self.block.take().expect("it is open").kept;
        Act::query("COMMIT")
    }

    /// Takes a connection for itself,
    pub(super) fn hold(&mut self) -> Act {
        if self.blocks {
            return self.begin();
        }
        self.locks.insert(7);
        Act::query("SELECT pg_advisory_lock_shared(7)").hears("")
    }

    /// and leaves it to others.
    pub(super) fn release(&mut self) -> Act {
        if self.block.is_some() {
            return self.commit();
        }
        self.locks.clear();
        Act::query("SELECT pg_advisory_unlock_all()").hears("")
    }

    /// Chooses the next act, and changes the session as if the act had been done.
    pub(super) fn choose(&mut self, rng: &mut StdRng, may_tie: bool) -> Act {
        if self.has_failed() {
            return self.out_of_failure(rng);
        }
        match rng.random_range(0..78) {
            0..16 => self.set(rng),
            16..20 => self.reset(rng),
            20..28 => self.prepare(rng),
            28..34 => self.run(rng),
            34..38 => self.forget(rng),
            38..48 => self.of_block(rng, may_tie),
            48..52 => self.prepare_by_sql(rng),
            52..55 if may_tie => self.lock(rng),
            55..58 if may_tie => self.cursor(rng),
            // Seldom: after DDL, sessions begin again and all catalogs are read again.
            58 if may_tie => self.temporary(rng),
            59..64 => self.listen(),
            64..68 if self.block.is_none() => self.notify(rng),
            68..73 => self.copy_in(rng),
            73..76 => self.copy_out(),
            _ => Act::query("SELECT 1 FROM pg_backend_pid()").hears("1"),
        }
    }

    fn out_of_failure(&mut self, rng: &mut StdRng) -> Act {
        match rng.random_range(0..4) {
            0 => Act::query("SELECT 1").hears("25P02"),
            1 if self.block.as_ref().is_some_and(|block| block.savepoint.is_some()) => {
                self.back_to_savepoint()
            }
            2 => self.roll_back("COMMIT"),
            _ => self.roll_back("ROLLBACK"),
        }
    }

    /// A setting, in each of the ways to set one.
    fn set(&mut self, rng: &mut StdRng) -> Act {
        let (at, to) = (rng.random_range(0..SETTINGS.len()), rng.random_range(1..4));
        let (name, values) = SETTINGS[at];
        let local = rng.random_range(0..3) == 0;
        let scope = if local { "LOCAL " } else { "" };
        let value = values[to];
        // A list is written without quotes around it.
        let written =
            if matches!(name, "search_path" | "datestyle") { value.to_owned() } else { format!("'{value}'") };
        let act = match rng.random_range(0..2) {
            0 if at == AUTHORIZATION_AT && rng.random_range(0..3) > 0 => {
                Act::query(format!("SET {scope}SESSION AUTHORIZATION {written}"))
            }
            0 => Act::query(format!("SET {scope}{name} = {written}")),
            _ => Act::query(format!("SELECT set_config('{name}', '{value}', {local})")).hears(value),
        };
        if at == ROLE_AT && self.value(AUTHORIZATION_AT) == PLAIN {
            return self.fails(Act { hears: Vec::new(), ..act }, "42501");
        }
        self.becomes(at, to, local);
        if at == AUTHORIZATION_AT {
            // The role goes with it.
            self.becomes(ROLE_AT, 0, local);
        }
        act
    }

    /// A setting was set.
    fn becomes(&mut self, at: usize, to: usize, local: bool) {
        match &mut self.block {
            Some(block) if local => block.local[at] = Some(to),
            Some(block) => (block.kept.settings[at], block.local[at]) = (to, None),
            None if local => {}
            None => self.settled.settings[at] = to,
        }
    }

    fn reset(&mut self, rng: &mut StdRng) -> Act {
        let all = rng.random_range(0..3) == 0;
        let one = rng.random_range(0..SETTINGS.len());
        for at in 0..SETTINGS.len() {
            let goes_along = one == AUTHORIZATION_AT && at == ROLE_AT;
            let goes_back =
                if all { at != ROLE_AT && at != AUTHORIZATION_AT } else { at == one || goes_along };
            if goes_back {
                self.becomes(at, 0, false);
            }
        }
        Act::query(match rng.random_range(0..3) {
            _ if all => "RESET ALL".to_owned(),
            0 if one == AUTHORIZATION_AT => "RESET SESSION AUTHORIZATION".to_owned(),
            1 if one == AUTHORIZATION_AT => "SET SESSION AUTHORIZATION DEFAULT".to_owned(),
            _ => format!("RESET {}", SETTINGS[one].0),
        })
    }

    /// An error, which fails a block.
    fn fails(&mut self, act: Act, sqlstate: &str) -> Act {
        self.block.iter_mut().for_each(|block| block.failed = true);
        act.hears(sqlstate)
    }

    /// A name for a statement.
    fn name(rng: &mut StdRng) -> &'static str {
        ["P_0", "P_1", "P_2", "q_0", "q_1"][rng.random_range(0..5)]
    }

    fn prepare(&mut self, rng: &mut StdRng) -> Act {
        let (name, value) = (Alone::name(rng), rng.random_range(1..1000));
        let text = format!("SELECT {value} FROM pg_backend_pid()");
        self.made(Act::prepares(name, text), name, value)
    }

    fn prepare_by_sql(&mut self, rng: &mut StdRng) -> Act {
        let (name, value) = (Alone::name(rng), rng.random_range(1..1000));
        let is_new = !self.prepared.contains_key(name);
        let act = Act::query(format!("PREPARE \"{name}\" AS SELECT {value} FROM pg_backend_pid()"));
        if self.block.is_some() && is_new {
            self.made_in_block.insert(name.to_owned());
        }
        self.made(act, name, value)
    }

    fn made(&mut self, act: Act, name: &str, value: u32) -> Act {
        if self.prepared.contains_key(name) {
            return self.fails(act, "42P05");
        }
        self.prepared.insert(name.to_owned(), value);
        act
    }

    fn run(&mut self, rng: &mut StdRng) -> Act {
        let name = Alone::name(rng);
        let act = match rng.random_range(0..2) {
            0 => Act::query(format!("EXECUTE \"{name}\"")),
            _ => Act::runs(name),
        };
        match self.prepared.get(name) {
            Some(value) => act.hears(value.to_string()),
            None => self.fails(act, "26000"),
        }
    }

    /// An act that removes objects of any client.
    fn forget(&mut self, rng: &mut StdRng) -> Act {
        match rng.random_range(0..4) {
            0 => {
                self.prepared.clear();
                self.made_in_block.clear();
                Act::query("DEALLOCATE ALL")
            }
            1 => {
                let name = Alone::name(rng);
                let act = Act::query(format!("DEALLOCATE \"{name}\""));
                self.made_in_block.remove(name);
                if self.prepared.remove(name).is_some() { act } else { self.fails(act, "26000") }
            }
            2 if self.block.is_none() => {
                *self = self.discarded();
                Act::query("DISCARD ALL")
            }
            _ => {
                self.locks.clear();
                Act::query("SELECT pg_advisory_unlock_all()").hears("")
            }
        }
    }

    fn of_block(&mut self, rng: &mut StdRng, may_tie: bool) -> Act {
        let Some(block) = &mut self.block else {
            return match rng.random_range(0..2) {
                _ if may_tie && self.blocks => self.begin(),
                0 => self.several(),
                _ => Act::query("SELECT 1 / 0").hears("22012"),
            };
        };
        match rng.random_range(0..6) {
            0 => self.fails(Act::query("SELECT 1 / 0"), "22012"),
            1 if block.savepoint.is_some() => self.back_to_savepoint(),
            1 => {
                block.savepoint = Some(Box::new(block.clone()));
                Act::query("SAVEPOINT here")
            }
            2 if !block.lock => {
                block.lock = true;
                Act::query("SELECT pg_advisory_xact_lock_shared(9)").hears("")
            }
            3 if !block.cursor => {
                block.cursor = true;
                Act::query("DECLARE brief CURSOR FOR SELECT 1")
            }
            4 => self.roll_back("ROLLBACK"),
            _ => self.commit(),
        }
    }

    /// A whole transaction in one query.
    fn several(&mut self) -> Act {
        self.becomes(MEMORY_AT, 1, false);
        let value = SETTINGS[MEMORY_AT].1[1];
        Act::query(format!("BEGIN; SET work_mem = '{value}'; COMMIT"))
    }

    fn back_to_savepoint(&mut self) -> Act {
        let block = self.block.as_mut().expect("it is open");
        let savepoint = block.savepoint.take().expect("it was made");
        *block = Block { savepoint: Some(savepoint.clone()), ..*savepoint };
        Act::query("ROLLBACK TO here")
    }

    fn roll_back(&mut self, by: &str) -> Act {
        self.block = None;
        Act::query(by)
    }

    fn temporary(&mut self, rng: &mut StdRng) -> Act {
        if self.value(ROLE_AT) != 0 || self.value(AUTHORIZATION_AT) == PLAIN {
            return Act::query("SELECT 1 FROM pg_backend_pid()").hears("1");
        }
        let (now, sql) = match self.kept().temporary {
            Some(Temporary::Table) => (None, "DROP TABLE pg_temp.own"),
            Some(Temporary::Function) => (None, "DROP FUNCTION pg_temp.own()"),
            None if rng.random() => (Some(Temporary::Table), "CREATE TEMPORARY TABLE own (v int)"),
            None => (
                Some(Temporary::Function),
                "CREATE FUNCTION pg_temp.own() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            ),
        };
        self.kept_mut().temporary = now;
        Act::query(sql)
    }

    /// Rows of its own, and none of them if there is something wrong.
    fn copy_in(&mut self, rng: &mut StdRng) -> Act {
        let count = rng.random_range(1..4);
        let numbers = self.last_row + 1..=self.last_row + count;
        self.last_row += count;
        let mut rows: Vec<String> = numbers.map(|n| format!("{}\t{n}\n", self.who)).collect();
        let (extended, at_once) = (rng.random_range(0..3) == 0, rng.random_range(0..2) == 0);
        let wrong = match rng.random_range(0..4) {
            0 => Some("57014"),
            1 => {
                rows.push("nobody\t0\n".to_owned());
                Some("22P02")
            }
            _ => None,
        };
        let how = How::Copy { rows, fails: wrong == Some("57014"), extended, at_once };
        let act = Act { how, ..Act::query("COPY public.copied FROM STDIN") };
        match wrong {
            Some(sqlstate) => self.fails(act, sqlstate),
            None => {
                self.kept_mut().copied += count;
                act
            }
        }
    }

    /// The server's copy has the format of the session's settings.
    fn copy_out(&self) -> Act {
        let row = format!("{}\t{}", self.date(), self.current_user());
        let text = "COPY (SELECT date '2024-02-04', current_user FROM generate_series(1, 2)) TO STDOUT";
        Act::query(text).hears(row.clone()).hears(row)
    }

    fn lock(&mut self, rng: &mut StdRng) -> Act {
        let key = rng.random_range(7..9);
        if self.locks.remove(&key) {
            return Act::query(format!("SELECT pg_advisory_unlock_shared({key})")).hears("t");
        }
        self.locks.insert(key);
        Act::query(format!("SELECT pg_advisory_lock_shared({key})")).hears("")
    }

    fn cursor(&mut self, rng: &mut StdRng) -> Act {
        if !self.kept().held {
            self.kept_mut().held = true;
            return Act::query("DECLARE held CURSOR WITH HOLD FOR SELECT 1 FROM generate_series(1, 9)");
        }
        if rng.random_range(0..2) == 0 {
            return Act::query("MOVE 0 FROM held");
        }
        self.everywhere(|kept| kept.held = false);
        Act::query("CLOSE held")
    }

    fn notify(&mut self, rng: &mut StdRng) -> Act {
        let payload = rng.random_range(0..1000).to_string();
        let act = match rng.random_range(0..2) {
            0 => Act::query(format!("NOTIFY news, '{payload}'")),
            _ => Act::query(format!("SELECT pg_notify('news', '{payload}')")).hears(""),
        };
        Act { notifies: Some(payload), ..act }
    }

    fn listen(&mut self) -> Act {
        let listens = !self.kept().listens;
        self.kept_mut().listens = listens;
        Act::query(if listens { "LISTEN news" } else { "UNLISTEN *" })
    }
}
