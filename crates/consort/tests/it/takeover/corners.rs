//! Traces of a takeover, and obstacles to it.

use super::*;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Rewrites the configuration.
fn change(serving: &Serving, with: impl FnOnce(String) -> String) {
    let text = std::fs::read_to_string(&serving.config_file).expect("it can be read");
    std::fs::write(&serving.config_file, with(text)).expect("it can be written");
}

#[test]
fn addresses_that_the_configuration_has_no_longer_are_closed() {
    let folder = temporary("takeover");
    std::fs::create_dir(&folder).unwrap();
    let here = format!("unix_socket_dir = \"{}\"", folder.display());
    let (mut serving, _, url) = serving(0, &shared(&format!("{ANYWHERE}\n{here}")));
    let mut client = Client::connect(&url).unwrap();
    let elsewhere = crate::fixture::free_port();
    let one = format!("[\"127.0.0.1:{}\"]", serving.port);
    let two = format!("[\"127.0.0.1:{}\", \"127.0.0.1:{elsewhere}\"]", serving.port);
    change(&serving, |text| text.replacen(&one, &two, 1));
    serving.is_taken_over().ends();
    drop(TcpStream::connect(("127.0.0.1", elsewhere)).expect("somebody listens"));
    change(&serving, |text| text.replacen(&two, &one, 1).replacen(&here, "", 1));
    serving.is_taken_over().ends();
    let refused = TcpStream::connect(("127.0.0.1", elsewhere)).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    assert_eq!(client.number(READ_QUIET).unwrap(), 7);
    std::fs::remove_dir(folder).unwrap();
}

impl Stranger {
    /// Reports that it has received the sockets, and could serve.
    fn is_ready(&mut self) {
        self.hello(VERSION);
        self.hears_until(4);
        self.says(&[5, 0]);
    }
}

/// The first packet of a client that wants to log in.
fn startup(database: &str) -> Vec<u8> {
    let body = [b"\0\x03\0\0user\0postgres\0database\0", database.as_bytes(), b"\0\0"].concat();
    let length = u32::try_from(body.len() + 4).expect("it is short");
    [&length.to_be_bytes()[..], &body].concat()
}

/// An accepted connection of a client that has not named its user yet.
fn accepted(serving: &Serving) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).expect("somebody listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time");
    stream.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").expect("it is heard");
    let mut encrypts = [0];
    stream.read_exact(&mut encrypts).expect("an answer");
    assert_eq!(encrypts, *b"N");
    stream
}

#[test]
fn who_does_not_prove_who_he_is_is_not_waited_for() {
    let (mut serving, _, url) = serving(0, &shared(&format!("{THROUGH}\nshutdown_drain_timeout = \"600s\"")));
    let mut client = Client::connect(&url).unwrap();
    let secrets = temporary("secrets");
    std::fs::write(&secrets, "\"postgres\" \"secret\"\n").unwrap();
    let asks = format!("auth_type = \"scram-sha-256\"\nauth_file = \"{}\"", secrets.display());
    change(&serving, |text| text.replacen("auth_type = \"trust\"", &asks, 1));
    serving.is_taken_over().ends();
    let mut stranger = accepted(&serving);
    stranger.write_all(&startup("postgres")).unwrap();
    let mut question = [0];
    stranger.read_exact(&mut question).unwrap();
    assert_eq!(question, *b"R");
    serving.is_taken_over().ends();
    assert_eq!(client.number(READ_QUIET).unwrap(), 7);
    std::fs::remove_file(secrets).unwrap();
}

#[test]
fn who_comes_in_when_all_others_have_been_sent_away_goes_too() {
    let (serving, _, _) = serving(0, &shared(&format!("{THROUGH}\nshutdown_drain_timeout = \"600s\"")));
    let mut late = accepted(&serving);
    let mut new = Stranger::to(&serving);
    new.is_ready();
    assert_eq!(new.hears_until(7), 0);
    late.write_all(&startup("postgres")).unwrap();
    let mut said = Vec::new();
    late.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("57P01"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn what_the_console_is_told_while_clients_are_sent_is_heeded() {
    let (mut serving, _, url) = serving(0, &shared(ANYWHERE));
    let mut client = Client::connect(&url).unwrap();
    let id = |serving: &Serving| {
        let clients = console(serving).rows("SHOW CLIENTS");
        let ours = clients.iter().find(|row| row.get("database") == Some("postgres")).expect("it is there");
        ours.get("id").expect("it has one").to_owned()
    };
    for (said, taken_back, is_there) in [
        ("PAUSE", "RESUME", true),
        ("DISABLE postgres", "ENABLE postgres", true),
        ("KILL_CLIENT", "RESUME", false),
        ("KILL postgres; RESUME", "RESUME", false),
        ("SHUTDOWN WAIT_FOR_CLIENTS", "RESUME", true),
    ] {
        let mut told = console(&serving);
        let said = said.replace("KILL_CLIENT", &format!("KILL_CLIENT {}", id(&serving)));
        // Right after the log-in the session looks at the primary.
        assert_eq!(client.number(READ_QUIET).unwrap(), 7);
        eventually("a client at rest", || is_idle(&serving));
        let mut new = Stranger::to(&serving);
        new.is_ready();
        assert_eq!(new.hears_until(7), 1, "{said}");
        told.rows(&said);
        new.says(&[8]);
        let refused = new.hears().expect("an answer");
        assert_eq!(refused[0], 1, "{said}: {refused:?}");
        told.rows(taken_back);
        assert_eq!(client.number(READ_QUIET).is_ok(), is_there, "{said}");
        if !is_there {
            client = Client::connect(&url).unwrap();
        }
    }
    drop(client);
    assert!(serving.ended().success());
}

/// A client that cannot go over.
fn tied(url: &str) -> Client {
    let mut tied = Client::connect(url).expect("it is let in");
    tied.rows("CREATE TEMPORARY TABLE mine (v int)").expect("it is made");
    tied
}

#[test]
fn nobody_stays_where_only_the_new_configuration_wants_one_at_a_time() {
    let (mut serving, _, url) = serving(1, &shared(ANYWHERE));
    let mut client = Client::connect(&url).unwrap();
    let mut tied = tied(&url);
    change(&serving, |text| text.replacen(ANYWHERE, THROUGH, 1));
    serving.is_taken_over().ends();
    let gone = tied.rows("UPDATE quiet SET v = 8").unwrap_err();
    assert_eq!(gone.sqlstate.as_deref(), Some("57P01"), "{gone:?}");
    assert_eq!(client.number(READ_QUIET).unwrap(), 7);
    assert_eq!(console(&serving).writers(), "through-consort");
    serves_with(&mut client, &serving);
    // And where only the old one had it.
    change(&serving, |text| text.replacen(THROUGH, ANYWHERE, 1));
    serving.is_taken_over().ends();
    assert_eq!(console(&serving).writers(), "anywhere");
    serves_with(&mut client, &serving);
}

#[test]
fn where_nobody_may_stay_nobody_is_left_at_a_process_before_either() {
    let (mut serving, _, url) = serving(0, &shared(&format!("{ANYWHERE}\nshutdown_drain_timeout = \"1s\"")));
    let tied = tied(&url);
    let first = serving.is_taken_over();
    change(&serving, |text| text.replacen(ANYWHERE, THROUGH, 1));
    let said = serving.run("serve", &["--takeover"]).failed(1);
    assert!(said.contains("its own predecessor still serves clients"), "{said}");
    drop(tied);
    first.ends();
    serving.is_taken_over().ends();
}

#[test]
fn what_is_read_again_while_clients_are_sent_changes_nothing_for_those_who_stay() {
    let (mut serving, _, url) = serving(0, &shared(ANYWHERE));
    let mut tied = tied(&url);
    let mut console = console(&serving);
    let mut new = Stranger::to(&serving);
    new.is_ready();
    assert_eq!(new.hears_until(7), 0);
    console.rows("SET writers = 'through-consort'");
    new.says(&[8]);
    assert_eq!(new.hears_until(9), 0);
    tied.rows("INSERT INTO mine VALUES (7)").unwrap();
    assert_eq!(tied.one("SELECT v FROM mine").unwrap(), "7");
    drop(tied);
    assert!(serving.ended().success());
}

#[test]
fn whoever_finds_no_descriptor_to_go_with_goes_when_one_is_free() {
    let (mut serving, _, _) = serving(0, &shared(&format!("{THROUGH}\nshutdown_drain_timeout = \"600s\"")));
    let mut clients: Vec<_> = (0..60).map(|_| Raw::connect(&serving)).collect();
    let highest = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", serving.pid())).unwrap();
        open.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u64>().ok()).max().unwrap()
    };
    let old = Pid::from_raw(serving.pid().try_into().unwrap());
    let all = getrlimit(Resource::Nofile);
    prlimit(old, Resource::Nofile, Rlimit { current: Some(highest() + 25), ..all }).unwrap();
    serving.is_taken_over().ends();
    for client in &mut clients {
        client.0.write_all(&Raw::query("SELECT 1")).unwrap();
        assert!(client.is_answered());
    }
}

#[test]
fn a_configuration_is_known_by_a_link_that_leads_elsewhere_by_now() {
    let (mut serving, _, url) = serving(0, &shared(ANYWHERE));
    let mut client = Client::connect(&url).unwrap();
    let (link, first) = (temporary("link"), serving.config_file.clone());
    let second = temporary("serve").with_extension("toml");
    std::fs::copy(&first, &second).unwrap();
    std::os::unix::fs::symlink(&first, &link).unwrap();
    let mut is_taken_over_with = |file: &std::path::Path| {
        serving.config_file = file.to_owned();
        serving.is_taken_over().ends();
        assert_eq!(client.number(READ_QUIET).unwrap(), 7);
    };
    // The file itself was named before.
    is_taken_over_with(&link);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&second, &link).unwrap();
    is_taken_over_with(&link);
    is_taken_over_with(&link);
    is_taken_over_with(&second);
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_file(&first).unwrap();
}

#[test]
fn the_file_with_the_number_goes_along_and_may_be_gone() {
    let (mut serving, _, _) = serving(0, &shared(ANYWHERE));
    let file = temporary("pid");
    let named = ["--pid-file", file.to_str().unwrap()];
    serving.is_taken_over_with(&named).ends();
    for arguments in [&[][..], &named] {
        serving.is_taken_over_with(arguments).ends();
        assert_eq!(number_in(&file), Some(serving.pid()), "{arguments:?}");
    }
    std::fs::remove_file(&file).unwrap();
    serving.is_taken_over_with(&named).ends();
    assert_eq!(number_in(&file), Some(serving.pid()));
    let held = serving.run("serve", &named).failed(1);
    assert!(held.contains("is already running"), "{held}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn what_the_console_waits_for_holds_nobody_up() {
    let (mut serving, _, url) = serving(0, &shared(&format!("{THROUGH}\nshutdown_drain_timeout = \"600s\"")));
    let mut tied = tied(&url);
    console(&serving).rows("RECONNECT");
    let mut waits = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    waits.set_read_timeout(Some(LIMIT)).unwrap();
    waits.write_all(&startup("consort")).unwrap();
    waits.write_all(&Raw::query("WAIT_CLOSE")).unwrap();
    let at_console = |row: &&tokio_postgres::SimpleQueryRow| row.get("database") == Some("consort");
    eventually("somebody who waits at the console", || {
        let clients = console(&serving).rows("SHOW CLIENTS");
        // And the one who asks.
        clients.iter().filter(at_console).filter(|row| row.get("state") == Some("active")).count() == 2
    });
    serving.is_taken_over().ends();
    assert!(tied.rows("SELECT 1").is_err());
}

#[test]
fn whoever_has_come_over_counts_among_the_clients_of_his_address() {
    let (mut serving, _, url) = serving(0, &shared(&format!("{ANYWHERE}\nmax_clients_per_address = 2")));
    eventually("nobody else", || clients(&serving) == 0);
    let mut there = [(); 2].map(|()| Client::connect(&url).unwrap());
    serving.is_taken_over().ends();
    assert_eq!(clients(&serving), 2);
    let refused = Client::connect(&url).err().expect("there are as many as there may be");
    assert_eq!(refused.text, "client connections exceeded (max_clients_per_address)");
    assert_eq!(there.each_mut().map(|client| client.number(READ_QUIET).unwrap()), [7, 7]);
}
