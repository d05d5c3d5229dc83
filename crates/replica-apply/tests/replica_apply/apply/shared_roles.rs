//! State that the databases of one replica share has one writer.

use super::{another_server, server};
use local_cluster::Options;
use postgres::address::Control;
use postgres::programs::Programs;
use replica_apply::clone::{self, Chosen, Found, Gives, clone};
use testkit::Scratch;

/// So often both databases find the same settings to write.
const ROUNDS: u32 = 10;

/// Two databases of one replica hear of the same roles at once, and write the same rows of pg_db_role_setting. PostgreSQL fails
/// the second of two concurrent writers ("tuple concurrently updated").
#[tokio::test]
async fn roles_of_two_databases_are_set_by_one_at_a_time() {
    let (primary, replica) = (server(), another_server());
    let programs = Programs::find().unwrap();
    primary.query("CREATE ROLE clerk");
    for name in ["shop", "mart"] {
        primary.query(&format!("CREATE DATABASE {name}"));
        let (from, to) = (primary.address(name), replica.address(name));
        clone(&programs, &from, (&to, &Chosen::default()), history::Lsn::ZERO, &|_| ()).await.unwrap();
    }
    let in_step =
        async |name: &str| clone::in_step(&primary.address(name), &replica.address(name), &Gives::All).await;
    for round in 0..ROUNDS {
        for (number, setting) in ["work_mem", "temp_buffers", "lock_timeout"].iter().enumerate() {
            primary.query(&format!("ALTER ROLE clerk SET {setting} = {}", 1000 + round + number as u32));
            primary.query(&format!("ALTER DATABASE shop SET {setting} = {}", 1000 + round));
        }
        primary.query(&format!("CREATE ROLE new_{round}"));
        let (one, other) = tokio::join!(in_step("shop"), in_step("mart"));
        assert!(one.unwrap().is_empty() && other.unwrap().is_empty(), "{round}");
    }
    let settings =
        "SELECT unnest(setconfig) FROM pg_db_role_setting WHERE setrole = 'clerk'::regrole ORDER BY 1";
    assert_eq!(primary.query(settings), replica.query(settings));
}

/// The rest of an interrupted DROP DATABASE refuses connections, and is dropped and copied again.
#[tokio::test]
async fn invalid_database_at_a_replica_is_copied_again() {
    let (primary, replica) = (server(), another_server());
    let programs = Programs::find().unwrap();
    primary.query("CREATE DATABASE shop");
    primary.query_in("shop", "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    let copy = async || clone(&programs, &from, (&to, &Chosen::default()), history::Lsn::ZERO, &|_| ()).await;
    copy().await.unwrap();
    replica.query("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'shop'");
    assert_eq!(clone::found(&to).await.unwrap(), Found::Nothing);
    assert_eq!(clone::backup::left_at(&from, &to).await.unwrap(), None);
    copy().await.unwrap();
    assert!(matches!(clone::found(&to).await.unwrap(), Found::Copy(_)));
    assert_eq!(replica.query_in("shop", "SELECT id FROM t").len(), 1);
    // A database that is closed, and not invalid, is left alone.
    replica.query("ALTER DATABASE shop ALLOW_CONNECTIONS false");
    assert!(clone::found(&to).await.unwrap_err().is("55000"));
}

/// Since 16 a membership says whether it inherits and whether SET ROLE is allowed, and several roles may have granted it. A policy
/// TO a role counts for members that inherit.
#[tokio::test]
async fn options_of_memberships_are_copied() {
    let options = Options { standbys: 0, ..Scratch::options() };
    let stranger = Options { standbys: 0, ..Scratch::options_of_a_stranger() };
    let (primary, replica) = (Scratch::of_major(16, &options), Scratch::of_major(16, &stranger));
    let programs = testkit::majors::programs(16);
    primary.query("CREATE DATABASE shop");
    primary.query(
        "CREATE ROLE owners; CREATE ROLE clerk LOGIN; CREATE ROLE boss; \
         GRANT owners TO clerk WITH INHERIT FALSE, SET FALSE",
    );
    primary.query_in(
        "shop",
        "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); GRANT SELECT ON t TO clerk; \
         ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t TO owners USING (true)",
    );
    let (from, to) = (primary.address("shop"), replica.address("shop"));
    clone(&programs, &from, (&to, &Chosen::default()), history::Lsn::ZERO, &|_| ()).await.unwrap();
    let seen = || {
        [&primary, &replica].map(|server| {
            let clerk = server.primary().address("clerk", "shop");
            async move {
                let clerk = Control::connect(&clerk).await.unwrap();
                let rows = clerk.rows("SELECT id FROM public.t").await.unwrap();
                (rows.len(), clerk.rows("SET ROLE owners").await.is_ok())
            }
        })
    };
    let [there, here] = seen();
    assert_eq!((there.await, here.await), ((0, false), (0, false)));
    let members = "SELECT bool_or(admin_option), bool_or(inherit_option), bool_or(set_option) FROM pg_auth_members \
         WHERE roleid = 'owners'::regrole AND member = 'clerk'::regrole";
    for sql in [
        "GRANT owners TO clerk WITH SET TRUE",
        "GRANT owners TO boss WITH ADMIN TRUE; SET ROLE boss; GRANT owners TO clerk WITH INHERIT TRUE",
        "SET ROLE boss; REVOKE owners FROM clerk",
        "GRANT owners TO clerk WITH SET FALSE",
    ] {
        primary.query(sql);
        clone::in_step(&from, &to, &Gives::All).await.unwrap();
        assert_eq!(primary.query(members), replica.query(members), "{sql}");
        let [there, here] = seen();
        assert_eq!(there.await, here.await, "{sql}");
    }
}
