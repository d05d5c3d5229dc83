//! Extensions that differ between nodes are named, by node, extension and version.

use crate::fixture::{Serving, eventually};
use crate::load::Client;

/// A parameter of the extension stands in the standby's configuration alone.
#[test]
fn differing_extension_is_named() {
    let serving = Serving::start(1, "");
    // Differences in the database `postgres` keep a standby from every read.
    serving.servers.query("CREATE DATABASE app");
    let mut client = Client::connect(&serving.url("postgres", "app")).expect("the database is there");
    client.rows("CREATE EXTENSION pg_trgm").expect("contrib is installed");
    client.rows("CREATE EXTENSION fuzzystrmatch").expect("contrib is installed");
    // ALTER SYSTEM takes no parameter of a library that is not loaded.
    let standby = serving.servers.standby(0);
    let file = standby.data_folder().join("postgresql.conf");
    let text = std::fs::read_to_string(&file).expect("the server has it");
    std::fs::write(&file, text + "\npg_trgm.similarity_threshold = 0.9\n").expect("it can be written");
    standby.query("postgres", "SELECT pg_reload_conf()").unwrap();
    let why = "parameter pg_trgm 1.6 pg_trgm.similarity_threshold is not as at the primary";
    let status = format!("database app: reads with an extension stay at the primary: {why} at standby1");
    let mut said = String::new();
    eventually("a difference that is known", || {
        said = serving.run("status", &[]).worked();
        said.contains(&status)
    });
    assert!(!said.contains("fuzzystrmatch"), "{said}");
    let said = serving.run("check", &[]).worked();
    let finding = said.lines().find(|line| line.contains(why)).unwrap_or_else(|| panic!("{said}"));
    assert!(finding.contains("standby1: advice: in app"), "{finding}");
}
