//! State that the databases of one replica share has one writer.

use super::{another_server, server};
use postgres::programs::Programs;
use replica_apply::clone::{self, Chosen, Found, Gives, clone};

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
