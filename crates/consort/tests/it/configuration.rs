//! Wrong input to the command itself: what is said, and with which exit code.

use std::fs;

use crate::fixture::{consort, free_port};

#[test]
fn a_wrong_configuration_is_named_with_file_line_and_key() {
    let file = std::env::temp_dir().join(format!("consort-wrong-{}.toml", std::process::id()));
    fs::write(&file, "listen = [\"127.0.0.1:1\"]\nprof_limit = \"2ms\"\n[primary]\nhost = \"x\"\n").unwrap();
    let name = file.to_str().unwrap();
    for subcommand in ["serve", "check", "status"] {
        let said = consort(&[subcommand, "--config", name]).failed(1);
        assert!(
            said.contains(&format!("{name}:2: prof_limit: unknown key; did you mean proof_limit?")),
            "{said}"
        );
    }
    fs::remove_file(&file).unwrap();
    assert!(consort(&["serve", "--config", name]).failed(1).contains("No such file"));
}

#[test]
fn a_port_in_use_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap();
    let file = std::env::temp_dir().join(format!("consort-taken-{}.toml", std::process::id()));
    let text = format!(
        "auth_type = \"trust\"\nlisten = [\"{taken}\"]\n[primary]\nhost = \"127.0.0.1\"\nport = {}\n",
        free_port()
    );
    fs::write(&file, text).unwrap();
    let said = consort(&["serve", "--config", file.to_str().unwrap()]).failed(1);
    assert!(said.contains(&format!("cannot listen at {taken}")), "{said}");
    fs::remove_file(&file).unwrap();
}

#[test]
fn help_teaches_and_wrong_options_are_refused() {
    let help = consort(&["--help"]).worked();
    for subcommand in [
        "up", "down", "demo", "serve", "attach", "detach", "check", "repair", "status", "explain", "psql",
        "bench",
    ] {
        assert!(help.contains(&format!("  {subcommand} ")), "{subcommand} is missing in\n{help}");
        let own = consort(&[subcommand, "--help"]).worked();
        assert!(own.contains(&format!("consort {subcommand}")), "{subcommand} has no example:\n{own}");
    }
    assert!(consort(&["up", "--stanbys", "3"]).failed(2).contains("--standbys"));
    assert!(consort(&["up", "--design", "strong"]).failed(2).contains("weak"));
    assert!(consort(&["status", "--dir", "a", "--config", "b"]).failed(2).contains("cannot be used with"));
}
