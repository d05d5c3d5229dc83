//! DDL runs at the replica too, in its place between the rows, however it came; or it is said that it cannot.

use super::commands::{COMMANDS, LATER, OLDER, ROLES, UNRUN};
use super::{EPOCH, Fed, another_server, server};
use crate::soon;
use history::Lsn;
use postgres::address::{Control, Host};
use postgres::attach::{self, Patience, UnreplicableDdl};
use postgres::decoder::Decoder;
use postgres::programs::Programs;
use postgres::snapshot_probe::Gauger;
use replica_apply::apply::{Error, Feeder};
use replica_apply::clone::{Chosen, clone};
use std::process::Command;
use testkit::Scratch;

/// The rows around each command.
const MARK: &str = "CREATE TABLE mark (n int PRIMARY KEY, what text)";

/// Form in which a command comes to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In a block, in messages of their own.
    Block,
    /// With others in one message.
    OneMessage,
    /// In PL/pgSQL.
    Do,
    /// By EXECUTE in a function of PL/pgSQL, together with others.
    Function,
    /// In a function of SQL.
    SqlFunction,
    /// By the extended protocol.
    Prepared,
}

/// A text between quotes that nothing else here uses.
fn quoted(tag: &str, text: &str) -> String {
    format!("${tag}$ {text} ${tag}$")
}

impl Form {
    /// Runs a command with a row before and a row after it in the same transaction.
    async fn run(self, control: &Control, number: usize, command: &str) {
        let mark = |side: usize| {
            format!("INSERT INTO public.mark VALUES ({}, {})", number * 2 + side, quoted("mark", command))
        };
        let all = format!("{}; {command}; {}", mark(0), mark(1));
        let in_function = |language: &str, body: &str| {
            format!(
                "CREATE OR REPLACE FUNCTION public.wrap() RETURNS void LANGUAGE {language} AS {}",
                quoted("wrap", body)
            )
        };
        let sqls = match self {
            Form::Block => {
                vec!["BEGIN".to_owned(), mark(0), command.to_owned(), mark(1), "COMMIT".to_owned()]
            }
            Form::OneMessage => {
                vec![format!(
                    "{}; CREATE TABLE IF NOT EXISTS public.mark (); {command}; {}",
                    mark(0),
                    mark(1)
                )]
            }
            Form::Do => vec![format!("DO {}", quoted("wrap", &format!("BEGIN {all}; END")))],
            Form::Function => vec![
                in_function("plpgsql", &format!("BEGIN EXECUTE {}; END", quoted("all", &all))),
                "SELECT public.wrap()".to_owned(),
            ],
            Form::SqlFunction => vec![
                "SET check_function_bodies = off".to_owned(),
                in_function("sql", &all),
                "SELECT public.wrap()".to_owned(),
            ],
            Form::Prepared => return self.prepare(control, &[&mark(0), command, &mark(1)]).await,
        };
        for sql in sqls {
            control.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{self:?} {sql}: {error:?}"));
        }
    }

    async fn prepare(self, control: &Control, sqls: &[&str]) {
        control.batch_execute("BEGIN").await.unwrap();
        for sql in sqls {
            let prepared = control.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            control.execute(&prepared, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        }
        control.batch_execute("COMMIT").await.unwrap();
    }

    /// True if the command can come in this form.
    fn fits(self, command: &str) -> bool {
        match self {
            Form::Prepared => !command.starts_with("SET LOCAL"),
            // INTO means something else in PL/pgSQL.
            Form::Do => !command.starts_with("SELECT"),
            Form::Block | Form::SqlFunction | Form::Function | Form::OneMessage => true,
        }
    }
}

/// Feeds what was written and compares; says what was the last command.
async fn feed(fed: &mut Fed, command: &str) {
    if let Err(error) = fed.feed().await {
        panic!("{command}: {error}");
    }
}

/// Runs all commands in this form and feeds each separately.
async fn all_commands_come(form: Form) {
    let mut fed = Fed::logging(&format!("{MARK}; {ROLES}")).await;
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    for (number, command) in COMMANDS.iter().enumerate() {
        let alone = command.contains("CONCURRENTLY") || !form.fits(command);
        if alone {
            control.batch_execute(command).await.unwrap_or_else(|error| panic!("{command}: {error:?}"));
        } else {
            form.run(&control, number, command).await;
        }
        feed(&mut fed, command).await;
        if number % 45 == 44 {
            println!("{form:?} {number} {command}");
            fed.compare();
            compare_definitions(&fed.primary, &fed.replica);
        }
    }
    fed.compare();
    compare_definitions(&fed.primary, &fed.replica);
}

#[tokio::test]
async fn commands_in_blocks() {
    all_commands_come(Form::Block).await;
}

#[tokio::test]
async fn commands_in_messages_of_several() {
    all_commands_come(Form::OneMessage).await;
}

#[tokio::test]
async fn commands_in_blocks_of_code() {
    all_commands_come(Form::Do).await;
}

#[tokio::test]
async fn commands_executed_in_functions() {
    all_commands_come(Form::Function).await;
}

#[tokio::test]
async fn commands_in_functions_of_sql() {
    all_commands_come(Form::SqlFunction).await;
}

#[tokio::test]
async fn prepared_commands() {
    all_commands_come(Form::Prepared).await;
}

/// Commands whose strings hold backslashes, for a session with `standard_conforming_strings = off`.
const ESCAPING: &[&str] = &[
    r"COMMENT ON TABLE public.mark IS 'it\'s; \\ a ''mark'''",
    r"CREATE TABLE public.escaped (id int PRIMARY KEY, a text DEFAULT 'one\ntwo', b text CHECK (b <> '\\'))",
    r"CREATE FUNCTION public.text_of(int) RETURNS text LANGUAGE sql AS 'SELECT ''a\\\\b''::text'",
    r"COMMENT ON COLUMN public.escaped.a IS 'two'
        ' pieces\''",
];

/// The text is read by the rules of the session that ran it, whichever way the command came, and no copy is made.
#[tokio::test]
async fn commands_with_escaping_strings_are_run() {
    for form in [Form::Block, Form::OneMessage, Form::Do, Form::Function, Form::SqlFunction, Form::Prepared] {
        let mut fed = Fed::logging(&format!("{MARK}; {ROLES}")).await;
        let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
        control.batch_execute("SET standard_conforming_strings = off").await.unwrap();
        for (number, command) in ESCAPING.iter().enumerate() {
            form.run(&control, number, command).await;
            feed(&mut fed, &format!("{form:?} {command}")).await;
        }
        fed.compare();
        compare_definitions(&fed.primary, &fed.replica);
    }
}

#[tokio::test]
async fn who_feeds_next_ends_a_feeder_that_has_run_ddl() {
    let mut fed = Fed::logging(MARK).await;
    fed.primary.query("CREATE TABLE further (n int PRIMARY KEY)");
    feed(&mut fed, "CREATE TABLE further").await;
    fed.primary.query("INSERT INTO further VALUES (1)");
    fed.feed_by_another().await;
}

/// The definitions of a database, one by one, without event triggers and publications.
fn definitions(server: &Scratch) -> Vec<String> {
    let address = server.address("postgres");
    let Host::Socket(folder) = &address.host else { panic!("a socket") };
    let output = Command::new(Programs::find().unwrap().folder().join("pg_dump"))
        .args(["--schema-only", "--no-publications", "--no-subscriptions", "--no-tablespaces"])
        .args(["--exclude-schema", "consort"])
        .args(["-U", "postgres", "-d", "postgres", "-p", &address.port.to_string(), "-h"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all: Vec<String> = text
        .split("\n\n--\n-- Name: ")
        .map(|one| {
            one.lines()
                .filter(|line| !line.starts_with("--") && !line.starts_with('\\'))
                .collect::<Vec<_>>()
                .join("\n")
        })
        .filter(|one| !one.contains("EVENT TRIGGER"))
        .map(|one| one.trim().to_owned())
        .collect();
    all.sort();
    all
}

/// Everything is defined in the same way.
fn compare_definitions(primary: &Scratch, replica: &Scratch) {
    let (there, here) = (definitions(primary), definitions(replica));
    let missing: Vec<_> = there.iter().filter(|one| !here.contains(one)).collect();
    let more: Vec<_> = here.iter().filter(|one| !there.contains(one)).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing {missing:#?}, more {more:#?}");
}

#[tokio::test]
async fn what_cannot_be_run_with_the_same_effect_is_said() {
    let mut fed = Fed::logging(&format!("{MARK}; {ROLES}")).await;
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    for (before, command, says) in UNRUN {
        // Since 17 a transaction may use new labels of a type that it has made.
        if *says == "unsafe use of new value" && testkit::majors::usual_major() >= 17 {
            continue;
        }
        control.batch_execute(before).await.unwrap_or_else(|error| panic!("{before}: {error:?}"));
        feed(&mut fed, before).await;
        let contents = super::contents(&fed.replica);
        let shown = fed.feeder.shown().clone();
        control.batch_execute(command).await.unwrap_or_else(|error| panic!("{command}: {error:?}"));
        match fed.feed().await {
            Err(Error::Ddl(unrun)) => assert!(unrun.why.contains(says), "{command}: {unrun}"),
            Err(error) => panic!("{command}: {error}"),
            Ok(()) => panic!("{command} passed"),
        }
        // Nothing of it is there.
        fed.reopen().await;
        assert_eq!(*fed.feeder.shown(), shown);
        assert_eq!(super::contents(&fed.replica), contents, "{command}");
    }
}

#[tokio::test]
async fn many_transactions_with_ddl_come_in_one_batch() {
    let mut fed = Fed::logging(&format!("{MARK}; {ROLES}")).await;
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    for (number, command) in COMMANDS.iter().enumerate() {
        // A new label of an enum may only be used when it is committed, and all is one transaction here.
        if command.starts_with("INSERT INTO moody") {
            continue;
        }
        if command.contains("CONCURRENTLY") {
            control.batch_execute(command).await.unwrap();
        } else {
            Form::Block.run(&control, number, command).await;
        }
    }
    feed(&mut fed, "all").await;
    assert_eq!(fed.feeder.counts().batches, 1);
    fed.compare();
    compare_definitions(&fed.primary, &fed.replica);
}

#[tokio::test]
async fn new_labels_of_an_enum_are_used_in_the_batch_that_brings_them() {
    let tables = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE felt (id int PRIMARY KEY, m mood)";
    let mut fed = Fed::logging(tables).await;
    for sql in [
        "INSERT INTO felt VALUES (1, 'sad')",
        "ALTER TYPE mood ADD VALUE 'ok' BEFORE 'glad'",
        "BEGIN; ALTER TYPE mood ADD VALUE IF NOT EXISTS 'so' BEFORE 'ok'; INSERT INTO felt VALUES (2, 'ok'); COMMIT",
        "INSERT INTO felt VALUES (3, 'so'), (4, 'ok')",
        "ALTER TABLE felt ADD COLUMN other mood DEFAULT 'ok'",
        "UPDATE felt SET m = 'so' WHERE id = 1",
    ] {
        fed.primary.query(sql);
    }
    feed(&mut fed, "all").await;
    assert_eq!(fed.feeder.counts().batches, 1);
    fed.compare();
    compare_definitions(&fed.primary, &fed.replica);
    // The label came, and the replica's server died before the rest did.
    fed.replica.query("ALTER TYPE mood ADD VALUE 'odd'");
    fed.primary.query("ALTER TYPE mood ADD VALUE 'odd'");
    feed(&mut fed, "a label that is there").await;
    compare_definitions(&fed.primary, &fed.replica);
}

/// Commands that a transaction runs and does not commit, and commands that another one commits meanwhile.
const OVERLAPPING: &[(&str, &str)] = &[
    ("GRANT SELECT ON a TO clerk", "GRANT SELECT ON b TO clerk"),
    ("GRANT UPDATE (id) ON a TO boss", "GRANT INSERT (id) ON b TO boss, clerk"),
    ("REVOKE SELECT ON a FROM clerk", "CREATE TABLE usual (id int PRIMARY KEY)"),
    ("ALTER DEFAULT PRIVILEGES FOR ROLE clerk GRANT SELECT ON TABLES TO boss", "REVOKE ALL ON b FROM clerk"),
    (
        "ALTER DEFAULT PRIVILEGES FOR ROLE clerk REVOKE SELECT ON TABLES FROM boss",
        "ALTER DEFAULT PRIVILEGES FOR ROLE boss REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC",
    ),
    (
        "CREATE SCHEMA shut CREATE TABLE inside (id int PRIMARY KEY) GRANT SELECT ON inside TO clerk",
        "GRANT USAGE ON SCHEMA public TO boss",
    ),
    ("GRANT SELECT ON b TO boss", "GRANT SELECT ON shut.inside TO boss"),
];

#[tokio::test]
async fn privileges_that_overlapping_transactions_change_come_in_their_order() {
    let mut fed = Fed::logging(&format!(
        "{MARK}; {ROLES}; CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); \
         ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO boss"
    ))
    .await;
    let address = fed.primary.address("postgres");
    let (early, late) = (crate::client(&address).await.unwrap(), crate::client(&address).await.unwrap());
    for (first, meanwhile) in OVERLAPPING {
        for (control, command) in
            [(&early, "BEGIN"), (&early, *first), (&late, *meanwhile), (&early, "COMMIT")]
        {
            control.batch_execute(command).await.unwrap_or_else(|error| panic!("{command}: {error:?}"));
        }
        feed(&mut fed, first).await;
        compare_definitions(&fed.primary, &fed.replica);
    }
}

#[tokio::test]
async fn privileges_that_are_changed_otherwise_at_a_replica_are_found() {
    let mut fed = Fed::logging(&format!(
        "{MARK}; {ROLES}; CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); \
         GRANT SELECT ON b TO clerk; CREATE SCHEMA apart; CREATE TABLE apart.seen (id int PRIMARY KEY)"
    ))
    .await;
    let address = fed.primary.address("postgres");
    let (early, late) = (crate::client(&address).await.unwrap(), crate::client(&address).await.unwrap());
    for (at_replica, first, meanwhile) in [
        // Privileges that differ from the primary's, that change here alone, or that name a role not seen
        // there.
        ("GRANT UPDATE ON a TO boss", "GRANT SELECT ON a TO clerk", "SELECT 1"),
        ("REVOKE SELECT ON b FROM clerk", "GRANT SELECT ON b TO clerk", "SELECT 1"),
        (
            "SELECT 1",
            "GRANT SELECT ON ALL TABLES IN SCHEMA apart TO clerk",
            "CREATE TABLE apart.unseen (id int PRIMARY KEY)",
        ),
    ] {
        fed.replica.query(at_replica);
        for (control, command) in [(&early, "BEGIN"), (&early, first), (&late, meanwhile), (&early, "COMMIT")]
        {
            control.batch_execute(command).await.unwrap_or_else(|error| panic!("{command}: {error:?}"));
        }
        match fed.feed().await {
            Err(Error::Ddl(unrun)) => {
                assert!(unrun.why.contains("privileges were changed"), "{first}: {unrun}")
            }
            Err(error) => panic!("{first}: {error}"),
            Ok(()) => panic!("{first} passed"),
        }
        fed.reopen().await;
    }
}

#[tokio::test]
async fn what_an_event_trigger_grants_beside_a_command_comes_too() {
    let mut fed = Fed::logging(&format!(
        "{MARK}; {ROLES}; CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); GRANT SELECT ON a TO clerk; \
         CREATE FUNCTION also() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN GRANT SELECT ON b TO clerk; END $$"
    ))
    .await;
    // The trigger runs before the end of the command is noted: by its name.
    fed.primary
        .query("CREATE EVENT TRIGGER also ON ddl_command_end WHEN TAG IN ('REVOKE') EXECUTE FUNCTION also()");
    fed.primary.query("REVOKE SELECT ON a FROM clerk");
    feed(&mut fed, "both").await;
    compare_definitions(&fed.primary, &fed.replica);
}

#[tokio::test]
async fn a_replica_that_is_killed_runs_ddl_once() {
    const ROUNDS: usize = 6;
    let mut fed = Fed::logging("CREATE TABLE bare (n int); ALTER TABLE bare REPLICA IDENTITY FULL; CREATE TABLE grown (id int PRIMARY KEY)").await;
    let mut batches = Vec::new();
    for round in 0..ROUNDS {
        for step in 0..4 {
            let name = format!("t_{round}_{step}");
            fed.primary.query(&format!(
                "BEGIN; INSERT INTO bare VALUES ({round}); CREATE TABLE {name} AS SELECT {step} AS n; \
                 ALTER TABLE grown ADD COLUMN {name} int DEFAULT {step}; INSERT INTO grown VALUES ({}); COMMIT",
                round * 4 + step
            ));
            batches.push(fed.batch().await);
        }
        let last = batches.len() - 1;
        let mut dying = None;
        for (place, batch) in batches.iter().enumerate() {
            // The server is killed before, while or after the last is applied.
            if place + round % 2 == last {
                dying = Some(super::faults::Dying::now(&fed.replica));
            }
            if soon("a batch", fed.feeder.apply(batch.clone())).await.is_err() {
                break;
            }
        }
        dying.expect("it was killed").gone().await;
        fed.replica.primary().start().unwrap();
        fed.reopen().await;
        for batch in &batches {
            fed.feeder.apply(batch.clone()).await.unwrap();
        }
        fed.compare();
    }
    compare_definitions(&fed.primary, &fed.replica);
}

#[tokio::test]
async fn attaching_again_is_nothing_to_a_replica() {
    let mut fed = Fed::logging(MARK).await;
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    for _ in 0..2 {
        attach::attach(&control).await.unwrap();
        attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
        fed.primary.query("CREATE TABLE IF NOT EXISTS after (n int)");
        feed(&mut fed, "attach").await;
    }
    compare_definitions(&fed.primary, &fed.replica);
    // Without the log nothing is known of a command.
    fed.primary.query("DROP EVENT TRIGGER consort_command_begins; DROP EVENT TRIGGER consort_command_ended");
    fed.primary.query("CREATE TABLE unknown (n int)");
    let Err(Error::Ddl(unrun)) = fed.feed().await else { panic!("it passed") };
    assert!(unrun.why.contains("does not log"), "{unrun}");
}

#[tokio::test]
async fn what_a_command_calls_stays_its_author() {
    let mut fed =
        Fed::logging(&format!("{MARK}; CREATE ROLE clerk; CREATE SCHEMA own AUTHORIZATION clerk")).await;
    let clerk = "SET ROLE clerk; SET search_path = own";
    // Called while the table is rewritten: at the primary it may become the session's user, at the replica no
    // other role.
    fed.primary.query(&format!(
        "{clerk}; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); \
         CREATE FUNCTION climb() RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
           BEGIN RESET ROLE; EXCEPTION WHEN OTHERS THEN RETURN 'refused'; END; RETURN current_user; END $$"
    ));
    feed(&mut fed, "a function").await;
    fed.primary.query(&format!("{clerk}; ALTER TABLE t ADD COLUMN who text DEFAULT climb()"));
    let Err(Error::Ddl(unrun)) = fed.feed().await else { panic!("it passed") };
    assert!(unrun.why.contains("rows of own.t were computed otherwise"), "{unrun}");
    fed.reopen().await;
    // Its settings do not last either: the rows after it are read as ever.
    fed.primary.query(&format!(
        "{clerk}; CREATE TABLE u (id int PRIMARY KEY, at date); INSERT INTO u VALUES (1, '2024-02-03'); \
         CREATE FUNCTION sets() RETURNS int LANGUAGE plpgsql AS $$ BEGIN \
           PERFORM set_config('datestyle', 'SQL, DMY', false); RETURN 1; END $$"
    ));
    feed(&mut fed, "another").await;
    fed.primary.query(&format!(
        "{clerk}; BEGIN; ALTER TABLE u ADD COLUMN n int DEFAULT sets(); UPDATE u SET at = date '1999-12-31'; COMMIT"
    ));
    feed(&mut fed, "its use").await;
    fed.primary.query("UPDATE own.u SET at = date '2030-04-05'");
    feed(&mut fed, "rows").await;
    let dates = "SELECT id, at, n FROM own.u";
    assert_eq!(fed.primary.query(dates), fed.replica.query(dates));
}

#[tokio::test]
async fn by_which_index_a_table_was_clustered_does_not_count() {
    let mut fed = Fed::logging(MARK).await;
    for command in [
        "CREATE TABLE lies (id int PRIMARY KEY, n int)",
        "INSERT INTO lies SELECT n, -n FROM generate_series(1, 9) n",
        "CREATE INDEX by_n ON lies (n)",
        // No event trigger fires: the replica does not hear of it.
        "CLUSTER lies USING by_n",
        "ALTER TABLE lies ADD COLUMN more text DEFAULT 'm'",
        "ALTER TABLE lies CLUSTER ON lies_pkey",
    ] {
        fed.primary.query(command);
        feed(&mut fed, command).await;
    }
    fed.compare();
    compare_definitions(&fed.primary, &fed.replica);
}

#[tokio::test]
async fn tablespaces_are_the_primarys_own() {
    let mut fed = Fed::logging(MARK).await;
    let control = crate::client(&fed.primary.address("postgres")).await.unwrap();
    control.batch_execute("SET allow_in_place_tablespaces = on").await.unwrap();
    control.batch_execute("CREATE TABLESPACE fast LOCATION ''").await.unwrap();
    for command in [
        "CREATE TABLE t (id int PRIMARY KEY USING INDEX TABLESPACE fast, n int) TABLESPACE fast",
        "CREATE INDEX ON t (n) TABLESPACE fast WHERE n > 0",
        "CREATE TABLE u TABLESPACE fast AS SELECT 1 AS n",
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t SET TABLESPACE pg_default",
        "SET default_tablespace = fast; CREATE TABLE v (id int PRIMARY KEY)",
        "DROP TABLE u",
    ] {
        control.batch_execute(command).await.unwrap_or_else(|error| panic!("{command}: {error:?}"));
        feed(&mut fed, command).await;
    }
    fed.compare();
    compare_definitions(&fed.primary, &fed.replica);
}

#[tokio::test]
async fn a_copy_that_a_dump_made_runs_ddl_too() {
    let (primary, replica) = (server(), another_server());
    primary.query("CREATE DATABASE shop");
    primary.query("CREATE ROLE clerk");
    primary.query_in("shop", OLDER);
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let control = crate::client(&from).await.unwrap();
    let attached = attach::attach(&control).await.unwrap();
    attach::log_commands(&control, UnreplicableDdl::Copy, &Patience::default()).await.unwrap();
    let mut decoder = Decoder::open(&from, &attached.slot, attached.database, EPOCH).await.unwrap();
    decoder.keep_rows(true);
    let gauger = Gauger::connect(&from, EPOCH).await.unwrap();
    soon("the copy", clone(&Programs::find().unwrap(), &from, (&to, &Chosen::default()), Lsn::ZERO, &drop))
        .await
        .unwrap();
    let feeder = Feeder::open(&to, EPOCH).await.unwrap();
    let mut fed = Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced: Vec::new() };
    for command in LATER {
        control.batch_execute(command).await.unwrap_or_else(|error| panic!("{command}: {error:?}"));
        feed(&mut fed, command).await;
    }
    for table in ["v", "child", "parts", "bare"] {
        let rows = format!("SELECT t::text FROM {table} AS t ORDER BY 1");
        assert_eq!(fed.primary.query_in("shop", &rows), fed.replica.query_in("shop", &rows), "{table}");
    }
}
