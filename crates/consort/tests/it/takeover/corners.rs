//! What a take-over leaves behind, and what comes in its way.

use super::*;

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
