//! `serve` over a Cassandra cluster that wants a password.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;

use testkit::CassandraCluster;
use testkit::redis::Client;

use super::design;
use crate::fixture::{consort, eventually, free_port, serve, temporary};

/// A process that answers. Until Cassandra has made its first user, each one ends.
fn started(file: &Path, port: u16) -> Child {
    let mut process = serve(file).spawn().expect("the program runs");
    eventually("a server that answers", || {
        if process.try_wait().expect("a child of ours").is_some() {
            process = serve(file).spawn().expect("the program runs");
        }
        Client::connect(port).and_then(|mut client| client.text("PING")).is_ok()
    });
    process
}

/// A killed process loses nothing that was acknowledged. A wrong password is refused with its reason.
#[test]
fn serve_keeps_its_data_in_a_cassandra_cluster() {
    let folder = temporary("kv-cassandra");
    fs::create_dir_all(&folder).unwrap();
    let theirs = CassandraCluster::with(1, "authenticator: PasswordAuthenticator");
    let (file, port, node) = (folder.join("consort.toml"), free_port(), theirs.address(0));
    for (name, password) in [("right", "cassandra\n"), ("wrong", "guess\n")] {
        fs::write(folder.join(name), password).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let settings = |password: &str| {
        format!(
            "design = \"{}\"\nlisten = [\"127.0.0.1:{port}\"]\nauth_type = \"trust\"\nledger_dir = \"ledger\"\n\
             [store]\ncassandra = [\"{node}\"]\nuser = \"cassandra\"\npassword_file = \"{password}\"\n\
             keyspace = \"shop\"\nreplication_factor = 1\nbuckets = 4\nrequest_timeout = \"20s\"\n",
            design(),
        )
    };
    fs::write(&file, settings("right")).unwrap();
    for (before, after) in [("(nil)", "one"), ("one", "two"), ("two", "three")] {
        let mut process = started(&file, port);
        let mut client = Client::connect(port).unwrap();
        assert_eq!(client.text("GET k").unwrap(), before);
        assert_eq!(client.text(&format!("SET k {after}")).unwrap(), "OK");
        let status = client.text("INFO").unwrap();
        assert!(status.contains("cassandra"), "{status}");
        process.kill().unwrap();
        process.wait().unwrap();
    }
    fs::write(&file, settings("wrong")).unwrap();
    let refused = consort(&["serve", "--config", &file.display().to_string()]).failed(1);
    assert!(refused.contains("and/or password are incorrect"), "{refused}");
    fs::remove_dir_all(folder).unwrap();
}
