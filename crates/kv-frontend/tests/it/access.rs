//! Log-ins, TLS and the number of clients.

use crate::{Running, options, with_password};
use kv_frontend::{Options, ServerTls};
use std::process::Command;
use testkit::redis::shown;
use testkit::{run, temporary};

#[test]
fn commands_need_a_password_where_one_is_asked_for() {
    let server = Running::with(with_password, cells::Options::default());
    let mut client = server.client();
    let refused = client.text("GET k").unwrap();
    assert!(refused.starts_with("NOAUTH ") && refused.contains("AUTH user password"), "{refused}");
    assert!(client.text("NOSUCH").unwrap().starts_with("NOAUTH "));
    for line in ["AUTH wrong", "AUTH nobody secret", "HELLO 2 AUTH default wrong"] {
        assert!(client.text(line).unwrap().starts_with("WRONGPASS "), "{line}");
    }
    assert!(client.text("HELLO 2").unwrap().starts_with("NOAUTH "));
    assert_eq!(client.text("AUTH secret").unwrap(), "OK");
    assert_eq!(client.text("SET k v").unwrap(), "OK");
    assert_eq!(client.text("RESET").unwrap(), "RESET");
    assert!(client.text("GET k").unwrap().starts_with("NOAUTH "), "RESET logs off");
    assert!(client.text("HELLO 2 AUTH default secret SETNAME me").unwrap().contains("consort"));
    assert_eq!(client.text("CLIENT GETNAME").unwrap(), "me");
    // A stranger cannot have the server read large requests.
    let mut stranger = server.client();
    stranger.send(b"*2\r\n$4\r\nAUTH\r\n$100000\r\n").unwrap();
    assert!(shown(&stranger.reply().unwrap()).contains("unauthenticated"));
}

#[test]
fn clients_above_the_limit_are_told_so() {
    let server = Running::with(|| Options { max_clients: 2, ..options() }, cells::Options::default());
    let (mut one, mut two) = (server.client(), server.client());
    assert_eq!(one.text("PING").unwrap(), "PONG");
    assert_eq!(two.text("PING").unwrap(), "PONG");
    let refused = shown(&server.client().reply().unwrap());
    assert!(refused.starts_with("ERR max number of clients reached (max_clients = 2)"), "{refused}");
}

#[test]
fn clients_may_use_tls_and_must_where_it_is_required() {
    let folder = temporary("kv-tls");
    std::fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
    run(Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate))
    .worked();
    let authority = certificate.clone();
    let make = move || {
        let tls = ServerTls::load(&certificate, &key).expect("the certificate is sound");
        Options { tls: Some(tls), tls_required: true, ..options() }
    };
    let server = Running::with(make, cells::Options::default());
    let port = server.port.to_string();
    let over_tls = |words: &[&str]| {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "localhost", "-p", &port, "--tls", "--cacert"]).arg(&authority).args(words);
        run(&mut cli).worked()
    };
    assert_eq!(over_tls(&["SET", "k", "v"]), "OK\n");
    assert_eq!(over_tls(&["GET", "k"]), "v\n");
    let mut plain = server.client();
    let refused = plain.text("GET k").unwrap();
    assert!(refused.starts_with("ERR the server requires TLS"), "{refused}");
    std::fs::remove_dir_all(folder).unwrap();
}
