//! Nodes whose extensions differ from the primary's: status, check and the console name them.

use local_cluster::Options;
use testkit::Scratch;

use crate::fixture::{Serving, eventually};
use crate::load::{ANYWHERE, Client, Console};

/// Waits until the console shows this difference in a database, or none.
fn knows(console: &mut Console, client: &mut Client, (database, difference): (&str, &str)) {
    eventually("a difference that is known", || {
        // The catalog is read for statements.
        client.rows("SELECT 1").expect("an answer");
        let rows = console.rows("SHOW SNAPSHOTS");
        let row = rows.iter().find(|row| row.get("database") == Some(database));
        row.map(|row| row.get("extension_differences").unwrap_or_default()) == Some(difference)
    });
}

/// The line of `consort status` about it.
fn line(database: &str, difference: &str) -> String {
    format!("database {database}: reads with an extension stay at the primary: {difference}")
}

/// A parameter of the extension stands in the standby's configuration alone.
#[test]
fn differing_parameter_is_named() {
    let serving = Serving::start(1, ANYWHERE);
    // ALTER SYSTEM takes no parameter of a library that is not loaded.
    let standby = serving.servers.standby(0);
    let file = standby.data_folder().join("postgresql.conf");
    let text = std::fs::read_to_string(&file).expect("the server has it");
    std::fs::write(&file, text + "\npg_trgm.similarity_threshold = 0.9\n").expect("it can be written");
    standby.query("postgres", "SELECT pg_reload_conf()").expect("it answers");
    let mut client = Client::connect(&serving.url("postgres", "postgres")).expect("the database is there");
    client.rows("CREATE EXTENSION pg_trgm").expect("contrib is installed");
    client.rows("CREATE EXTENSION fuzzystrmatch").expect("contrib is installed");
    let why = "parameter pg_trgm 1.6 pg_trgm.similarity_threshold is not as at the primary";
    let shown = format!("{why} at standby1");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    knows(&mut console, &mut client, ("postgres", &shown));
    let said = serving.run("status", &[]).worked();
    assert!(said.contains(&line("postgres", &shown)), "{said}");
    assert!(!said.contains("fuzzystrmatch"), "{said}");
    let said = serving.run("check", &[]).out;
    let finding = said.lines().find(|line| line.contains(why)).unwrap_or_else(|| panic!("{said}"));
    assert!(finding.starts_with("standby1: advice: in postgres"), "{finding}");
    assert!(!said.contains("fuzzystrmatch"), "{said}");
}

/// The primary has an older version than the replica's package creates: the replica does not serve the copy. A version that
/// becomes another one after the copy keeps reads at the primary.
#[test]
fn differing_version_is_named() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE DATABASE app");
    servers.query_in("app", "CREATE EXTENSION pg_trgm VERSION '1.3'");
    let serving = Serving::over(servers, ANYWHERE);
    let mut client = Client::connect(&serving.url("postgres", "app")).expect("the database is there");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let why = "extension pg_trgm is version 1.3 at the primary, 1.6 at the replica";
    eventually("a difference that is known", || console.feed("replica1", "app").why.contains(why));
    let said = serving.run("status", &[]).worked();
    assert!(
        said.lines().any(|line| line.starts_with("replica1, database app") && line.contains(why)),
        "{said}"
    );
    let said = serving.run("check", &[]).out;
    let finding = said.lines().find(|line| line.contains(why)).unwrap_or_else(|| panic!("{said}"));
    assert!(finding.starts_with("replica1: advice: in app"), "{finding}");
    client.rows("ALTER EXTENSION pg_trgm UPDATE").expect("contrib has the scripts");
    eventually("a replica that is fed", || {
        matches!(console.feed("replica1", "app").state.as_str(), "feeding" | "serving")
    });
    assert!(!serving.run("check", &[]).out.contains("pg_trgm"));
    let there = |commands: &str| {
        let replica = serving.servers.replica(0);
        replica.query("app", &format!("BEGIN READ WRITE; {commands}; COMMIT")).expect("it answers");
    };
    there("DROP EXTENSION pg_trgm; CREATE EXTENSION pg_trgm VERSION '1.5'");
    // A new extension has all of them compared at once.
    client.rows("CREATE EXTENSION seg").expect("contrib is installed");
    let why = "extension pg_trgm is version 1.6 at the primary, 1.5 at";
    knows(&mut console, &mut client, ("app", &format!("{why} replica1")));
    let said = serving.run("status", &[]).worked();
    assert!(said.contains(&line("app", &format!("{why} replica1"))), "{said}");
    let said = serving.run("check", &[]).out;
    let finding = said.lines().find(|line| line.contains(why)).unwrap_or_else(|| panic!("{said}"));
    assert!(
        finding.starts_with("replica1: advice: in app") && finding.contains("stay at the primary"),
        "{finding}"
    );
    there("ALTER EXTENSION pg_trgm UPDATE");
    knows(&mut console, &mut client, ("app", ""));
    assert!(!serving.run("check", &[]).out.contains("pg_trgm"));
}
