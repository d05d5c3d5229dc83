//! A replica is made of a copy of the primary while everybody works, and is fed from there.

use super::{EPOCH, Fed, another_server, server};
use crate::{one, soon};
use history::{Lsn, Shown};
use postgres::Error;
use postgres::address::Address;
use postgres::attach;
use postgres::decoder::{Decoded, Decoder};
use postgres::programs::Programs;
use postgres::snapshot_probe::Gauger;
use replica_apply::apply::Feeder;
use replica_apply::clone::{self, Chosen, Found, Gives, clone};
use std::cell::Cell;
use std::rc::Rc;
use testkit::Scratch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

const SHOP: &str = "\
    CREATE ROLE clerk LOGIN PASSWORD 'secret' CONNECTION LIMIT 7 VALID UNTIL '2100-01-01'; CREATE ROLE staff NOINHERIT; \
    GRANT staff TO clerk WITH ADMIN OPTION; GRANT pg_read_all_stats TO clerk; \
    ALTER ROLE clerk SET my.tenant = 'it''s \\7'; ALTER ROLE clerk SET search_path TO own, \"Odd \"\"one\", public; \
    CREATE DATABASE shop OWNER clerk TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'";

const TABLES: &str = "\
    ALTER DATABASE shop SET lock_timeout = '77s'; ALTER ROLE clerk IN DATABASE shop SET work_mem = '5MB'; \
    CREATE SCHEMA own AUTHORIZATION clerk; CREATE TYPE own.mood AS ENUM ('sad', 'glad'); \
    CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, mood own.mood DEFAULT 'glad', \
      twice bigint GENERATED ALWAYS AS (balance * 2) STORED); \
    CREATE TABLE bare (n int, at text); CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); \
    CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (1000); CREATE TABLE high PARTITION OF parts DEFAULT; \
    CREATE TABLE child (id serial PRIMARY KEY, account int REFERENCES account); \
    CREATE UNLOGGED TABLE quick (n int); INSERT INTO quick VALUES (1); \
    CREATE FUNCTION own.twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * n'; \
    CREATE VIEW rich AS SELECT id FROM account WHERE balance > 10; \
    CREATE MATERIALIZED VIEW counted AS SELECT count(*) FROM account; \
    CREATE INDEX by_twice ON account (own.twice(id)); ALTER TABLE account OWNER TO clerk; GRANT SELECT ON bare TO staff; \
    ALTER TABLE bare ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON bare TO clerk USING (n > 5); \
    CREATE FUNCTION loud() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE LOG 'heard'; END$$; \
    CREATE EVENT TRIGGER loud ON ddl_command_start EXECUTE FUNCTION loud(); \
    INSERT INTO account SELECT n, 100 FROM generate_series(1, 200) n; \
    INSERT INTO parts SELECT n, 'v' FROM generate_series(1, 1500) n; \
    SELECT lo_create(4711)";

/// A primary with a database that has something of everything.
pub(super) fn shop() -> Scratch {
    let primary = server();
    for sql in SHOP.split("; ") {
        primary.query(sql);
    }
    primary.query_in("shop", TABLES);
    primary
}

/// Writes without a pause until `ends` is set; every commit leaves the sum of the balances as it was.
pub(super) fn writer(address: Address, number: u32, ends: Rc<Cell<bool>>) -> JoinHandle<u32> {
    spawn_local(async move {
        let control = crate::client(&address).await.unwrap();
        let mut round = 0;
        while !ends.get() {
            let (from, to) = (1 + (round * 7 + number) % 200, 1 + (round * 13 + number * 3 + 1) % 200);
            let low = from.min(to);
            let high = from.max(to);
            let moves = round * 4 + number;
            let sql = format!(
                "BEGIN; INSERT INTO bare VALUES ({number}, '{round}'); SELECT FROM account WHERE id = {low} FOR UPDATE; \
                 SELECT FROM account WHERE id = {high} FOR UPDATE; \
                 UPDATE account SET balance = balance - 1 WHERE id = {from}; \
                 UPDATE account SET balance = balance + 1 WHERE id = {to}; \
                 INSERT INTO child (account) VALUES ({from}); UPDATE parts SET id = id + 1500 WHERE id = {moves}; COMMIT"
            );
            control.batch_execute(&sql).await.unwrap();
            round += 1;
        }
        round
    })
}

/// Begins to follow a database of the primary.
pub(super) async fn follow(primary: &Address) -> (Decoder, Gauger) {
    let attached = attach::attach(&crate::client(primary).await.unwrap()).await.unwrap();
    let mut decoder = Decoder::open(primary, &attached.slot, attached.database, EPOCH).await.unwrap();
    decoder.keep_rows(true);
    (decoder, Gauger::connect(primary, EPOCH).await.unwrap())
}

async fn sum(address: &Address) -> i64 {
    let control = crate::client(address).await.unwrap();
    control.query_one("SELECT sum(balance)::bigint FROM account", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_database_is_copied_while_everybody_writes_and_fed_from_there() {
    LocalSet::new().run_until(copy_and_feed()).await;
}

async fn copy_and_feed() {
    let (primary, replica) = (shop(), another_server());
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let (mut decoder, gauger) = follow(&from).await;
    let ends = Rc::new(Cell::new(false));
    let writers: Vec<_> = (0..4).map(|number| writer(from.clone(), number, ends.clone())).collect();
    let programs = Programs::find().unwrap();
    assert_eq!(clone::found(&to).await.unwrap(), Found::Nothing);
    // Commits in the meantime are kept for the copy's feed.
    let mut unplaced = Vec::new();
    let all = Chosen::default();
    let mut copy = Box::pin(soon("the copy", clone(&programs, &from, (&to, &all), Lsn::ZERO, &drop)));
    let shown = loop {
        tokio::select! {
            shown = &mut copy => break shown.unwrap(),
            decoded = decoder.next() => {
                if let Decoded::Commit { commit, changes, .. } = decoded.unwrap() {
                    unplaced.push((commit, changes.unwrap()));
                }
            }
        }
    };
    assert_eq!(clone::found(&to).await.unwrap(), Found::Copy(shown.clone()));
    // The visible state is one that the primary has shown.
    assert_eq!(sum(&to).await, 200 * 100);
    ends.set(true);
    for writer in writers {
        assert!(soon("a writer's end", writer).await.unwrap() > 10, "they wrote meanwhile");
    }
    let feeder = Feeder::open(&to, EPOCH).await.unwrap();
    assert_eq!(*feeder.shown(), shown);
    let mut fed = Fed { primary, replica, decoder, gauger, feeder, connections: 1, unplaced };
    fed.feed().await.unwrap();
    let digest = "SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM TABLE t";
    for table in ["account", "bare", "low", "high", "child"] {
        let sql = digest.replace("TABLE", table);
        assert_eq!(fed.primary.query_in("shop", &sql), fed.replica.query_in("shop", &sql), "{table}");
    }
    assert_eq!(sum(&to).await, 200 * 100);
    everything_else_is_there(&fed.primary, &fed.replica);
    assert_eq!(one(&fed.replica.query_in("shop", "SELECT count(*) FROM pg_largeobject_metadata")), "0");
}

/// Definitions, owners, grants, settings; and what must not be there is not.
pub(super) fn everything_else_is_there(primary: &Scratch, replica: &Scratch) {
    for sql in [
        "SELECT rolname, rolsuper, rolinherit, rolconnlimit, rolpassword, coalesce(rolvaliduntil, 'infinity') FROM pg_authid \
         WHERE rolname !~ '^pg_' ORDER BY 1",
        "SELECT roleid::regrole, member::regrole, admin_option FROM pg_auth_members WHERE member >= 16384 ORDER BY roleid::regrole::text",
        "SELECT r.rolname, d.datname, array_remove(setconfig, 'default_transaction_read_only=on') \
         FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = setrole LEFT JOIN pg_database d ON d.oid = setdatabase \
         WHERE setconfig <> ARRAY['default_transaction_read_only=on'] ORDER BY 1, 2, 3",
        "SELECT encoding, datcollate, datdba::regrole, datacl FROM pg_database WHERE datname = 'shop'",
        "SELECT c.relname, c.relkind, c.relowner::regrole, c.relacl FROM pg_class c \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'own') ORDER BY 1",
        "SELECT polname, polroles::regrole[], pg_get_expr(polqual, polrelid) FROM pg_policy",
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace::regnamespace::text <> 'consort' \
         ORDER BY 1",
    ] {
        assert_eq!(primary.query_in("shop", sql), replica.query_in("shop", sql), "{sql}");
    }
    let none = "SELECT (SELECT count(*) FROM pg_event_trigger) + (SELECT count(*) FROM pg_publication) \
                + (SELECT count(*) FROM quick)";
    assert_eq!(one(&replica.query_in("shop", none)), "0");
    let error = replica.primary().query("shop", "TABLE counted").unwrap_err();
    assert!(error.is("55000"), "its rows stay at the primary: {error}");
    let guarded = "SELECT 'default_transaction_read_only=on' = ANY (setconfig) FROM pg_db_role_setting \
                   WHERE setrole = 0 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(one(&replica.query_in("shop", guarded)), "t");
    let log = "SELECT to_regclass('consort.log') IS NULL AND to_regclass('consort.position') IS NOT NULL";
    assert_eq!(one(&replica.query_in("shop", log)), "t");
}

#[tokio::test]
async fn a_copy_that_is_broken_off_leaves_no_trace() {
    let (primary, replica) = (shop(), another_server());
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let programs = Programs::find().unwrap();
    primary.query_in("shop", "INSERT INTO bare SELECT n, repeat('x', 100) FROM generate_series(1, 200000) n");
    let begun = || {
        let there = "SELECT count(*) FROM pg_class WHERE relname = 'account'";
        replica.primary().query("shop", there).is_ok_and(|rows| one(&rows) == "1")
    };
    {
        let all = Chosen::default();
        let mut copy = Box::pin(clone(&programs, &from, (&to, &all), Lsn::ZERO, &drop));
        soon("its first tables", async {
            loop {
                tokio::select! {
                    biased;
                    made = &mut copy => panic!("it is made too quickly for this test: {made:?}"),
                    () = tokio::task::yield_now() => {}
                }
                if begun() {
                    break;
                }
            }
        })
        .await;
    }
    assert_eq!(clone::found(&to).await.unwrap(), Found::Nothing);
    // The copy holds no lock at the primary.
    soon("the end of the locks", async {
        let held = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'account'";
        while one(&primary.query_in("shop", held)) != "0" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let shown =
        soon("the copy", clone(&programs, &from, (&to, &Chosen::default()), Lsn::ZERO, &drop)).await.unwrap();
    assert_eq!(clone::found(&to).await.unwrap(), Found::Copy(shown.clone()));
    assert_eq!(one(&replica.query_in("shop", "SELECT count(*) FROM bare")), "200000");
    // A copy that is there is made again; one that is removed is gone.
    let again: Shown =
        soon("the copy", clone(&programs, &from, (&to, &Chosen::default()), Lsn::ZERO, &drop)).await.unwrap();
    assert!(again.decoded() > shown.decoded());
    clone::remove(&to).await.unwrap();
    assert_eq!(clone::found(&to).await.unwrap(), Found::Nothing);
}

#[tokio::test]
async fn what_is_not_ours_is_not_replaced() {
    let (primary, replica) = (shop(), another_server());
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let programs = Programs::find().unwrap();
    let refused = async |from: &Address, to: &Address, says: &str| {
        let error = clone(&programs, from, (to, &Chosen::default()), Lsn::ZERO, &drop).await.unwrap_err();
        assert!(matches!(&error, Error::Setup(why) if why.contains(says)), "{error}");
    };
    replica.query("CREATE DATABASE shop");
    replica.query_in("shop", "CREATE TABLE precious (n int)");
    refused(&from, &to, "was not created by Consort").await;
    assert_eq!(one(&replica.query_in("shop", "SELECT count(*) FROM precious")), "0");
    refused(&from, &from, "is the primary itself").await;
    refused(&from.with_database("template1"), &to.with_database("template1"), "cannot be copied").await;
    replica.query_in("shop", "DROP TABLE precious");
    let away = Address { port: 1, ..to.clone() };
    assert!(matches!(
        clone(&programs, &from, (&away, &Chosen::default()), Lsn::ZERO, &drop).await,
        Err(Error::Unreachable(_))
    ));
    let locked = crate::client(&from).await.unwrap();
    locked.batch_execute("BEGIN READ WRITE; LOCK TABLE bare IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let error = clone(&programs, &from, (&to, &Chosen::default()), Lsn::ZERO, &drop).await.unwrap_err();
    assert!(error.is("55P03"), "{error}");
}

#[tokio::test]
async fn roles_are_brought_in_step() {
    let (primary, replica) = (shop(), another_server());
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let programs = Programs::find().unwrap();
    replica.query("CREATE ROLE clerk SUPERUSER");
    replica.query("CREATE ROLE staff");
    replica.query("CREATE ROLE stranger");
    replica.query("GRANT clerk TO staff");
    replica.query("GRANT stranger TO clerk");
    replica.query("ALTER ROLE clerk SET jit = off");
    soon("the copy", clone(&programs, &from, (&to, &Chosen::default()), Lsn::ZERO, &drop)).await.unwrap();
    let clerk = "SELECT rolsuper, rolcanlogin, rolconfig FROM pg_roles WHERE rolname = 'clerk'";
    assert_eq!(primary.query(clerk), replica.query(clerk));
    let members = "SELECT string_agg(roleid::regrole || ' ' || member::regrole || admin_option, ', ' ORDER BY 1) \
                   FROM (SELECT roleid, member, admin_option FROM pg_auth_members WHERE member >= 16384) m";
    let members = members.replace("ORDER BY 1", "ORDER BY roleid::regrole::text");
    assert_eq!(
        one(&replica.query(&members)),
        "pg_read_all_stats clerkfalse, staff clerktrue, stranger clerkfalse"
    );
    // Later changes of roles are brought over.
    primary.query("CREATE ROLE later IN ROLE staff");
    assert!(clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty());
    assert_eq!(one(&replica.query("SELECT pg_has_role('later', 'staff', 'MEMBER')")), "t");
    // Nor does it matter what DDL made since, as long as it belongs to the same, or is not there yet.
    for server in [&primary, &replica] {
        server.query_in("shop", "CREATE TABLE since (n int); GRANT SELECT ON since TO later");
    }
    primary.query_in("shop", "CREATE TABLE on_its_way (n int)");
    assert!(clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty());
    // An object with another owner is given to its owner at the primary.
    replica.query_in("shop", "ALTER TABLE since OWNER TO staff");
    primary.query_in("shop", "REASSIGN OWNED BY clerk TO staff");
    assert!(clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty());
    let owners = "SELECT string_agg(relname::text || ' ' || pg_get_userbyid(relowner), ', ' ORDER BY relname::text) \
                  FROM pg_class WHERE relname IN ('account', 'since')";
    assert_eq!(one(&replica.query_in("shop", owners)), "account staff, since postgres");
    // A renamed role keeps its identity, also if another role has its name by now.
    primary.query("ALTER ROLE clerk RENAME TO keeper");
    primary.query("CREATE ROLE clerk");
    assert!(clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty());
    let sees = "SELECT pg_get_userbyid(polroles[1]) FROM pg_policy";
    assert_eq!(one(&replica.query_in("shop", sees)), "keeper");
    let stays = "SELECT rolconfig, pg_has_role(oid, 'staff', 'MEMBER') FROM pg_roles WHERE rolname IN ('clerk', 'keeper') \
                 ORDER BY rolname";
    assert_eq!(replica.query(stays), primary.query(stays));
    // Differences that cannot be brought in step are reported: privileges, and the roles of policies.
    replica.query_in("shop", "REVOKE SELECT ON since FROM later");
    assert!(!clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty());
    replica.query_in("shop", "GRANT SELECT ON since TO later");
    assert!(clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty());
    primary.query_in("shop", "ALTER POLICY few ON bare TO staff");
    assert!(!clone::in_step(&from, &to, &Gives::All).await.unwrap().is_empty());
}
