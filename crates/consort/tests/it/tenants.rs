//! Owners of databases set what they may for them, or close them. Reads of all other databases go on.

use crate::fixture::{Serving, eventually, psql};
use crate::load::{ANYWHERE, Client, Console, READ, past, served, serving};

/// A database of its own owner, which is followed.
fn with_tenant(serving: &Serving, console: &mut Console, url: &str) -> Client {
    let mut client = Client::connect(url).expect("a log-in");
    for sql in ["CREATE ROLE tenant LOGIN", "CREATE DATABASE tenant1 OWNER tenant"] {
        client.rows(sql).expect("it is made");
    }
    let mut tenant = Client::connect(&serving.url("tenant", "tenant1")).expect("a log-in");
    tenant.rows("CREATE SCHEMA own; CREATE TABLE own.t AS SELECT 7 AS id").expect("a table");
    eventually("a database that is followed", || console.stays("tenant1").is_empty());
    client
}

/// Reads that come now leave the primary.
fn leaves(console: &mut Console, client: &mut Client) {
    let before = served(console, "standby1");
    eventually("reads at the standby", || {
        client.number(READ).expect("a number");
        served(console, "standby1") > before
    });
}

/// An owner's settings of its database count for its clients, and for no connection of Consort's.
#[test]
fn owner_settings_keep_no_database_at_the_primary() {
    let (mut serving, mut console, url) = serving(1, ANYWHERE);
    let mut client = with_tenant(&serving, &mut console, &url);
    let primary = past(serving.servers.primary());
    let owner = primary.replace("user=postgres", "user=tenant");
    for setting in [
        "role = 'tenant'",
        "idle_session_timeout = 1",
        "statement_timeout = 1",
        "search_path = own",
        "default_transaction_read_only = on",
        "default_transaction_isolation = serializable",
        "exit_on_error = on",
        "local_preload_libraries = 'none_such'",
    ] {
        psql(&owner, &format!("ALTER DATABASE tenant1 SET {setting}")).worked();
    }
    client.rows("CREATE ROLE one_more").unwrap();
    leaves(&mut console, &mut client);
    // A mark comes out as DDL: the catalog is read again after it.
    eventually("a database that is followed still", || console.stays("tenant1").is_empty());
    drop((console, client));
    // All connections are new, and the tenant's database is followed though no client can enter it.
    serving.signal("TERM");
    serving.ended();
    serving.start_again();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let mut client = Client::connect(&url).unwrap();
    eventually("a database that is followed again", || console.stays("tenant1").is_empty());
    client.rows("CREATE ROLE one_more_again").unwrap();
    leaves(&mut console, &mut client);
    // A mark comes out as DDL: the catalog is read again after it.
    eventually("a database that is followed still", || console.stays("tenant1").is_empty());
}

/// A mark cannot be written in it. Reads of others leave, its own stay until it is open again.
#[test]
fn closed_database_holds_up_itself_alone() {
    let (serving, mut console, url) = serving(1, ANYWHERE);
    let mut client = with_tenant(&serving, &mut console, &url);
    let primary = past(serving.servers.primary());
    psql(&primary, "ALTER DATABASE tenant1 ALLOW_CONNECTIONS false").worked();
    client.rows("CREATE ROLE one_more").unwrap();
    leaves(&mut console, &mut client);
    eventually("the reason", || console.stays("tenant1").contains("not currently accepting connections"));
    for role in ["a", "b"] {
        client.rows(&format!("CREATE ROLE {role}")).unwrap();
        leaves(&mut console, &mut client);
    }
    let mut slot = || console.rows("SHOW SLOTS").iter().any(|row| row.get("fault") == Some("inactive"));
    eventually("a slot that is shown to be inactive", &mut slot);
    let status = serving.run("status", &[]).worked();
    assert!(
        status.contains("is inactive: no Consort reads it") && status.contains("consort detach"),
        "{status}"
    );
    let said = serving.run("check", &[]).failed_saying(1);
    assert!(said.contains("missing: the slot consort_tenant1_") && said.contains("is inactive"), "{said}");

    psql(&primary, "ALTER DATABASE tenant1 ALLOW_CONNECTIONS true").worked();
    eventually("a database that is followed again", || console.stays("tenant1").is_empty());
    eventually("a slot that is read", || {
        console.rows("SHOW SLOTS").iter().all(|row| row.get("fault").is_none())
    });
    serving.run("check", &[]).worked();
}
