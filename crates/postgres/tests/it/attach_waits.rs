//! Attaching alongside open transactions, and the cost of DDL afterwards.

use crate::{SOON, client, one};
use postgres::address::Control;
use postgres::attach::{self, Patience};
use std::time::Duration;
use testkit::Scratch;

/// The statement by which attaching queries open transactions.
const LOOKS: &str = "SELECT query_start::text FROM pg_stat_activity \
     WHERE query LIKE '%pg_stat_progress_vacuum%' AND pid <> pg_backend_pid()";
const PUBLISHED: &str = "SELECT FROM pg_publication";

/// Queries with this connection until one of these has a row.
async fn until_any(looker: &Control, queries: &[&str]) {
    let any = async {
        loop {
            for sql in queries {
                if !looker.query(*sql, &[]).await.unwrap().is_empty() {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(SOON, any).await.expect("soon");
}

/// Returns true if attaching keeps looking, and has not gone on: it looks twice where nothing is to be waited
/// for.
async fn waits(looker: &Control) -> bool {
    for _ in 0..4 {
        let newest = format!(
            "SELECT coalesce(max(query_start), '-infinity')::text FROM ({LOOKS}) AS l(s), \
             LATERAL (SELECT s::timestamptz) AS t(query_start)"
        );
        let before: String = looker.query_one(&newest, &[]).await.unwrap().get(0);
        let later = format!("SELECT FROM ({newest}) AS n(newest) WHERE newest::timestamptz > '{before}'");
        until_any(looker, &[&later, PUBLISHED]).await;
    }
    looker.query(PUBLISHED, &[]).await.unwrap().is_empty()
}

/// A command waits for a lock when the database is attached. Such a command has no transaction id, and no
/// event trigger fires at its end: attaching waits for it, so that the catalog that is loaded next shows its
/// objects.
#[tokio::test]
async fn attach_beside_a_command_without_id_waits_for_it() {
    let scratch = Scratch::start(0);
    scratch.query("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)");
    scratch.query("ALTER TABLE other ADD CONSTRAINT later CHECK (id > 0) NOT VALID");
    scratch.query("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'");
    let address = scratch.address("postgres");
    let (control, looker) = (client(&address).await.unwrap(), client(&address).await.unwrap());
    let (holder, author) = (client(&address).await.unwrap(), client(&address).await.unwrap());
    for (command, made) in [
        (
            "CREATE TRIGGER a AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION f()",
            "pg_trigger WHERE tgname = 'a'",
        ),
        ("ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES other", "pg_constraint WHERE contype = 'f'"),
        (
            "ALTER TABLE other VALIDATE CONSTRAINT later",
            "pg_constraint WHERE conname = 'later' AND convalidated",
        ),
        ("CREATE INDEX plain ON other (id)", "pg_class WHERE relname = 'plain'"),
        ("CREATE POLICY p ON other USING (true)", "pg_policy"),
        ("CREATE RULE r AS ON INSERT TO other DO ALSO SELECT 1", "pg_rewrite WHERE rulename = 'r'"),
    ] {
        // This lock conflicts with each of them, and its transaction has no id either.
        holder.batch_execute("BEGIN; LOCK TABLE other IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
        let release = async {
            until_any(&looker, &["SELECT FROM pg_locks WHERE NOT granted"]).await;
            let ids = "SELECT FROM pg_stat_activity WHERE backend_xid IS NOT NULL";
            let has_id = !looker.query(ids, &[]).await.unwrap().is_empty();
            assert_eq!(
                has_id,
                ["CREATE POLICY", "CREATE RULE"].iter().any(|begin| command.starts_with(begin))
            );
            let begins = async {
                until_any(&looker, &[LOOKS, PUBLISHED]).await;
                assert!(waits(&looker).await, "{command}: it has gone on");
                holder.batch_execute("COMMIT").await.unwrap();
            };
            let attaches = async {
                attach::attach(&control).await.unwrap();
                let made = format!("SELECT count(*) FROM {made}");
                assert_eq!(one(&scratch.query(&made)), "1", "{command}");
            };
            tokio::join!(begins, attaches);
        };
        let (ran, ()) = tokio::join!(author.batch_execute(command), release);
        ran.unwrap();
        attach::detach(&control).await.unwrap();
    }
}

/// CREATE INDEX CONCURRENTLY commits before its end, and waits then for a writer that is younger than the
/// event triggers. A transaction that attaching waits for is prepared instead of ended.
#[tokio::test]
async fn attach_waits_for_what_an_older_command_becomes() {
    let mut options = Scratch::options();
    options.standbys = 0;
    options.settings.push(("max_prepared_transactions".to_owned(), "5".to_owned()));
    let scratch = Scratch::with(options);
    scratch.query("CREATE TABLE t (id int PRIMARY KEY)");
    let address = scratch.address("postgres");
    let (control, looker) = (client(&address).await.unwrap(), client(&address).await.unwrap());
    let (holder, author) = (client(&address).await.unwrap(), client(&address).await.unwrap());
    let writer = client(&address).await.unwrap();

    holder.batch_execute("BEGIN; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
    let release = async {
        until_any(&looker, &["SELECT FROM pg_locks WHERE NOT granted"]).await;
        let goes_on = async {
            until_any(&looker, &[LOOKS]).await;
            writer.batch_execute("BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE").await.unwrap();
            holder.batch_execute("COMMIT").await.unwrap();
            let phase =
                "SELECT FROM pg_stat_progress_create_index WHERE phase = 'waiting for writers before build'";
            until_any(&looker, &[phase]).await;
            assert!(waits(&looker).await, "its index is not there yet");
            writer.batch_execute("COMMIT").await.unwrap();
        };
        let (attached, ()) = tokio::join!(attach::attach(&control), goes_on);
        attached.unwrap();
        assert_eq!(
            one(&scratch.query("SELECT indisvalid FROM pg_index WHERE indexrelid = 'i'::regclass")),
            "t"
        );
    };
    let (ran, ()) = tokio::join!(author.batch_execute("CREATE INDEX CONCURRENTLY i ON t (id)"), release);
    ran.unwrap();
    attach::detach(&control).await.unwrap();

    author.batch_execute("BEGIN; CREATE VIEW v AS SELECT 1 AS n").await.unwrap();
    let goes_on = async {
        until_any(&looker, &[LOOKS]).await;
        author.batch_execute("PREPARE TRANSACTION 'view'").await.unwrap();
        assert!(waits(&looker).await, "its view is not there yet");
        author.batch_execute("COMMIT PREPARED 'view'").await.unwrap();
    };
    let (attached, ()) = tokio::join!(attach::attach(&control), goes_on);
    attached.unwrap();
}

/// A wait that ended at its limit, or with its process, is no proof: the next attempt waits again. Readers of
/// other databases hold up nothing.
#[tokio::test]
async fn attach_after_a_wait_cut_short_waits_again() {
    let scratch = Scratch::start(0);
    scratch.query("CREATE DATABASE elsewhere");
    let address = scratch.address("postgres");
    let (control, holder) = (client(&address).await.unwrap(), client(&address).await.unwrap());
    let reader = client(&scratch.address("elsewhere")).await.unwrap();
    reader.batch_execute("BEGIN; SELECT 1").await.unwrap();
    holder.batch_execute("BEGIN; SELECT 'the holder'").await.unwrap();
    let hasty = Patience { limit: Some(Duration::ZERO), ..Patience::default() };
    for _ in 0..2 {
        let refused = attach::attach_patiently(&control, &hasty).await.unwrap_err().to_string();
        for part in [
            "pid ",
            "(user postgres, database postgres, idle in transaction, open for",
            "SELECT 'the holder'",
        ] {
            assert!(refused.contains(part), "{part} is missing in {refused}");
        }
        assert!(!refused.contains("elsewhere"), "{refused}");
        let missing = attach::missing(&control).await.unwrap();
        assert!(missing.iter().any(|what| what.starts_with("proof that commands older")), "{missing:?}");
    }
    holder.batch_execute("COMMIT").await.unwrap();
    attach::attach(&control).await.unwrap();
    assert!(attach::missing(&control).await.unwrap().is_empty());

    // The log of commands waits in the same way.
    let commands = async |patience: &Patience<'_>| {
        attach::log_commands(&control, attach::UnreplicableDdl::Copy, patience).await
    };
    holder.batch_execute("BEGIN; SELECT 'the holder'").await.unwrap();
    for _ in 0..2 {
        assert!(commands(&hasty).await.unwrap_err().to_string().contains("SELECT 'the holder'"));
        assert!(!attach::logs_commands(&control).await.unwrap());
    }
    holder.batch_execute("COMMIT").await.unwrap();
    commands(&hasty).await.unwrap();
    assert!(attach::logs_commands(&control).await.unwrap());
}

/// Each command inspects its own tables only, however many others its transaction has made: rows read from
/// the system's catalogs are counted.
#[tokio::test]
async fn ddl_beside_more_tables_reads_no_more_rows() {
    let scratch = Scratch::start(0);
    let address = scratch.address("postgres");
    let control = client(&address).await.unwrap();
    attach::attach(&control).await.unwrap();
    let author = client(&address).await.unwrap();
    author.batch_execute("BEGIN").await.unwrap();
    let read = async || -> i64 {
        let sql =
            "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_sys_tables";
        author.query_one(sql, &[]).await.unwrap().get(0)
    };
    let mut rows = Vec::new();
    for hundred in 0..4 {
        let before = read().await;
        for n in 0..100 {
            let key = if n % 2 == 0 { " PRIMARY KEY" } else { "" };
            author.batch_execute(&format!("CREATE TABLE t{hundred}_{n} (id int{key})")).await.unwrap();
        }
        rows.push(read().await - before);
    }
    assert!(rows[3] < rows[1] * 11 / 10, "{rows:?}");
}
