//! TLS towards servers that may have none.

use std::fs;

use postgres::local::Node;

use crate::access::{
    Certificates, KEYED, ask, checked, demand, guarded, is_cancelled, secrets, serve, served,
};
use crate::fixture::{Serving, eventually};

const READ: &str = "SELECT v FROM goods WHERE id = 1";
const STREAM: &str = "backend_type = 'walsender'";

/// Whether there are such connections, which have come to a node by TCP, and this is so of all of them.
fn is_so(node: &Node, which: &str, so: &str) -> bool {
    let sql = format!(
        "SELECT count(*) > 0 AND bool_and({so}) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE client_addr IS NOT NULL AND {which}"
    );
    node.query("postgres", &sql).expect("the server answers")[0][0].as_deref() == Some("t")
}

/// A client reads at the standby and is interrupted, and this is so of all of Consort's connections.
fn is_served(serving: &Serving, so: &str) {
    let before = served(serving);
    eventually("a read at the standby", || {
        ask(serving, "keyed", KEYED, &[], READ).out == "lamp\n" && served(serving) > before
    });
    is_cancelled(serving, &[]);
    eventually("the slot's stream", || is_so(serving.servers.primary(), STREAM, so));
    for node in serving.servers.cluster().nodes() {
        assert!(is_so(node, "true", so), "{}: {so}", node.name());
    }
}

#[test]
fn tls_is_taken_where_a_server_has_it() {
    let servers = guarded(1);
    let users = secrets(&servers);
    demand(&servers, "host all all all scram-sha-256\n");
    let lines =
        format!("auth_file = \"{}\"\nserver_tls = \"prefer\"\nattach_on_first_use = true\n", users.display());
    is_served(&serve(&servers, "localhost", &lines), "NOT ssl");

    // Nothing is asked of the certificate, neither who signed it nor for whom it is.
    Certificates::make().give_to(&servers);
    demand(&servers, "hostssl all all all scram-sha-256\n");
    eventually("servers that speak TLS", || {
        let required = lines.replace("prefer", "require");
        checked(&servers, "127.0.0.1", &required).status.success()
    });
    is_served(&serve(&servers, "127.0.0.1", &lines), "ssl");
    fs::remove_file(users).unwrap();
}
