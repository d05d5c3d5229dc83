//! A server that reports another major version is refused. The server is a real one; a front changes what it reports.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use local_cluster::Node;
use testkit::Scratch;

use crate::fixture::{CONSORT, Serving, configuration, eventually, free_port, run, temporary};
use crate::load::{ANYWHERE, Client, Console};

/// A front that passes everything on, and reports major version 19 in the place of its own until it is switched
/// off: in the parameter `server_version`, and in values that say the same.
struct Front {
    port: u16,
    is_other: Arc<AtomicBool>,
}

impl Front {
    /// Its threads end with their connections.
    fn before(server: &Node, is_other: bool) -> Front {
        let version = server.query("postgres", "SHOW server_version").expect("it answers")[0][0].clone();
        let version = version.expect("a version").into_bytes();
        let socket = server.socket_folder().join(format!(".s.PGSQL.{}", server.port()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let port = listener.local_addr().expect("it listens").port();
        let is_other = Arc::new(AtomicBool::new(is_other));
        let tells = is_other.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let version = tells.load(Ordering::Relaxed).then(|| version.clone());
                connect(near, &socket, version);
            }
        });
        Front { port, is_other }
    }
}

fn connect(near: TcpStream, socket: &PathBuf, version: Option<Vec<u8>>) {
    let Ok(far) = UnixStream::connect(socket) else { return };
    let (from, to) = (far.try_clone().expect("a socket"), near.try_clone().expect("a socket"));
    std::thread::spawn(move || answers(from, to, version));
    std::thread::spawn(move || asks(near, far));
}

fn asks(mut near: TcpStream, mut far: UnixStream) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = near.read(&mut bytes) {
        if far.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = far.shutdown(std::net::Shutdown::Both);
}

/// Message by message: a type byte, and a length that counts itself.
fn answers(mut from: UnixStream, mut to: TcpStream, version: Option<Vec<u8>>) {
    let mut head = [0; 5];
    while from.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
        let mut body = vec![0; length as usize - 4];
        if from.read_exact(&mut body).is_err() {
            break;
        }
        if let Some(version) = &version
            && matches!(head[0], b'S' | b'D')
            && let Some(at) = body.windows(version.len()).position(|part| part == version)
        {
            body[at..at + 2].copy_from_slice(b"19");
        }
        if to.write_all(&[&head[..], &body].concat()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// The configuration with this node reached through the front.
fn behind(text: &str, node: &Node, front: &Front) -> String {
    let direct = format!("host = \"{}\"\nport = {}\n", node.socket_folder().display(), node.port());
    assert!(text.contains(&direct), "{text}");
    text.replace(&direct, &format!("host = \"127.0.0.1\"\nport = {}\n", front.port))
}

/// README says that other major versions are refused: the process ends before it is ready, with the way out.
#[test]
fn serve_before_another_major_version_is_refused() {
    let servers = Scratch::start(0);
    let front = Front::before(servers.primary(), true);
    let text = configuration(&servers, free_port(), &format!("auth_type = \"trust\"\n{ANYWHERE}"));
    let file = temporary("major").with_extension("toml");
    std::fs::write(&file, behind(&text, servers.primary(), &front)).unwrap();
    // One that serves instead would go on for ever.
    let mut serve = Command::new("timeout");
    let refused = run(serve.args(["60", CONSORT, "serve", "--config"]).arg(&file));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(refused.out, "", "it is not ready");
    let said = refused.failed(1);
    assert!(said.contains("is PostgreSQL 19.") && said.contains("use PostgreSQL 15"), "{said}");
    assert!(servers.query("SELECT FROM pg_event_trigger").is_empty());
}

/// The primary is another one while Consort runs: a database that is used for the first time is not attached. Nor is a
/// standby read that reports another version.
#[test]
fn first_use_at_another_major_version_is_refused() {
    let servers = Arc::new(Scratch::start(1));
    servers.query("CREATE DATABASE late");
    let primary = Front::before(servers.primary(), false);
    let standby = Front::before(&servers.cluster().standbys()[0], true);
    let (port, metrics_port) = (free_port(), free_port());
    let text = configuration(&servers, port, &format!("auth_type = \"trust\"\n{ANYWHERE}"));
    let text =
        behind(&behind(&text, servers.primary(), &primary), &servers.cluster().standbys()[0], &standby);
    let serving = Serving::configured(servers.clone(), port, metrics_port, &text);
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("the standby's refusal", || console.node("standby1").why.contains("PostgreSQL 19"));
    assert!(!console.node("standby1").serving);

    let mut early = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    early.rows("SELECT 1").unwrap();
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    primary.is_other.store(true, Ordering::Relaxed);
    let mut late = Client::connect(&serving.url("postgres", "late")).unwrap();
    assert_eq!(late.one("SELECT 1").unwrap(), "1");
    eventually("the refusal", || console.stays("late").contains("use PostgreSQL 15"));
    assert!(servers.query_in("late", "SELECT FROM pg_event_trigger").is_empty());
    assert!(serving.run("status", &[]).worked().contains("use PostgreSQL 15"));
}
