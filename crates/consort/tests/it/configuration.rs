//! Wrong input to the command itself: the error, and the exit code.

use std::fs;
use std::path::Path;

use crate::fixture::{consort, free_port, temporary};

#[test]
fn a_wrong_configuration_is_named_with_file_line_and_key() {
    let file = std::env::temp_dir().join(format!("consort-wrong-{}.toml", std::process::id()));
    fs::write(&file, "listen = [\"127.0.0.1:1\"]\nprof_limit = \"2ms\"\n[primary]\nhost = \"x\"\n").unwrap();
    let name = file.to_str().unwrap();
    for subcommand in ["serve", "check", "status"] {
        let said = consort(&[subcommand, "--config", name]).failed(1);
        assert!(
            said.contains(&format!("{name}:2: prof_limit: unknown key; did you mean proof_timeout?")),
            "{said}"
        );
    }
    fs::remove_file(&file).unwrap();
    assert!(consort(&["serve", "--config", name]).failed(1).contains("No such file"));
}

#[test]
fn every_mistake_of_a_file_is_named_with_what_would_be_right() {
    let text = "\
proof_timeout = \"2 weeks\"
max_clients = 0
auth_type = \"kerberos\"
listen = [\"127.0.0.1\"]
consistency = \"fresh\"
tls_required = \"yes\"
[primary]
port = 99999
[[standby]]
host = \"a\"
wieght = 2
[user.x]
consistancy = \"weak\"
";
    let file = temporary("mistakes").with_extension("toml");
    fs::write(&file, text).unwrap();
    let said = consort(&["check", "--config", file.to_str().unwrap()]).failed(1);
    for (line, words) in [
        (1, "proof_timeout: expected a duration"),
        (2, "max_clients: expected a whole number from 1 to 100000"),
        (3, "auth_type: expected \"scram-sha-256\" or \"md5\" or \"password\" or \"trust\""),
        (4, "listen: expected an address such as \"127.0.0.1:6432\""),
        (5, "consistency: expected \"strong\", \"session\", \"bounded 200ms\""),
        (6, "tls_required: expected true or false"),
        (7, "primary: host is missing"),
        (8, "primary.port: expected a whole number from 1 to 65535"),
        (11, "standby.wieght: unknown key; did you mean weight?"),
        (13, "user.x.consistancy: unknown key; did you mean consistency?"),
    ] {
        let named = format!("{}:{line}: {words}", file.display());
        assert!(said.contains(&named), "{named} is missing in\n{said}");
    }
    fs::write(&file, "listen = [\n").unwrap();
    let said = consort(&["check", "--config", file.to_str().unwrap()]).failed(1);
    assert!(said.contains(&format!("{}:", file.display())), "{said}");

    let users = temporary("users").with_extension("txt");
    fs::write(&users, "\"right\" \"one\"\nwrong one\n").unwrap();
    let text = format!(
        "auth_file = \"{}\"\nlisten = [\"127.0.0.1:0\"]\n[primary]\nhost = \"localhost\"\n",
        users.display()
    );
    fs::write(&file, text).unwrap();
    let said = consort(&["serve", "--config", file.to_str().unwrap()]).failed(1);
    let named = format!("{}:2: expected \"role\" \"secret\", both in quotes", users.display());
    assert!(said.contains(&named), "{said}");
    // A file of secrets is a part of what is sound.
    let said = consort(&["check", "--config", file.to_str().unwrap()]).failed_saying(1);
    assert!(said.contains(&named) && !said.contains("is valid"), "{said}");
    fs::remove_file(&users).unwrap();
    let said = consort(&["serve", "--config", file.to_str().unwrap()]).failed(1);
    let named = format!("auth_file: {}: No such file", users.display());
    assert!(said.contains(&named), "{said}");
    fs::remove_file(&file).unwrap();
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
        "bench", "import",
    ] {
        assert!(help.contains(&format!("  {subcommand} ")), "{subcommand} is missing in\n{help}");
        let own = consort(&[subcommand, "--help"]).worked();
        assert!(own.contains(&format!("consort {subcommand}")), "{subcommand} has no example:\n{own}");
    }
    assert!(consort(&["up", "--stanbys", "3"]).failed(2).contains("--standbys"));
    assert!(consort(&["up", "--design", "strong"]).failed(2).contains("weak"));
    assert!(consort(&["status", "--dir", "a", "--config", "b"]).failed(2).contains("cannot be used with"));
}

/// The containers do not run here, but the configuration for one is read.
#[test]
fn the_configuration_in_the_compose_file_is_sound() {
    let compose = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/compose.yaml");
    let text = fs::read_to_string(compose).unwrap();
    let (_, block) = text.split_once("\n  consort:\n    content: |\n").expect("it holds consort.toml");
    let lines = block.lines().take_while(|line| line.is_empty() || line.starts_with("      "));
    let toml: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
    let config = config::Config::parse(&toml, Path::new("/etc/consort/consort.toml")).unwrap();
    assert_eq!(config.standbys.len(), 2);
    let container = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/Containerfile");
    let container = fs::read_to_string(container).unwrap();
    for port in config.listen.iter().chain(&config.metrics_listen).filter_map(|at| at.rsplit(':').next()) {
        assert!(container.lines().any(|line| line.starts_with("EXPOSE") && line.contains(port)), "{port}");
        assert!(text.contains(&format!("127.0.0.1:{port}:{port}")), "{port}");
    }
}
