//! Resources of the process itself: memory of clients that do nothing.

use std::fs;

use crate::fixture::{Serving, eventually};
use crate::load::{Client, Console, READ_QUIET, THROUGH, serves_all};

/// With ten idle clients.
const TEN_CLIENTS_KB: u64 = 20 * 1024;
/// The part of it for the pages of the program itself; a test build has more of them than a release build.
const PROGRAM_KB: u64 = 10 * 1024;
/// For each further one.
const A_CLIENT_KB: u64 = 64;
/// Number of further clients.
const MORE: u64 = 60;

/// Resident memory of the process: its data and its program.
fn resident_kb(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a temporary file can be written");
    let value = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the kernel");
        line.trim().trim_end_matches(" kB").parse().expect("a line of the kernel")
    };
    (value("RssAnon:") + value("RssShmem:"), value("RssFile:"))
}

/// Clients that have worked, and are idle now.
fn clients(console: &mut Console, url: &str, count: u64) -> Vec<Client> {
    (0..count)
        .map(|_| {
            let mut client = Client::connect(url).expect("a log-in");
            for _ in 0..3 {
                assert_eq!(client.number(READ_QUIET).expect("an answer"), 7);
            }
            assert!(console.node("standby1").serving);
            client
        })
        .collect()
}

#[test]
fn idle_clients_take_little_memory() {
    let (serving, mut console, url) = serves_all(Serving::start(2, &format!("{THROUGH}\nmax_clients = 80")));
    eventually("a read at a standby", || {
        clients(&mut console, &url, 1);
        console.node("standby1").served > 0
    });
    let ten = clients(&mut console, &url, 10);
    let (with_ten, program) = resident_kb(serving.pid());
    let more = clients(&mut console, &url, MORE);
    let (with_all, _) = resident_kb(serving.pid());
    let program = if cfg!(debug_assertions) { PROGRAM_KB } else { program };
    let all = with_ten + program;
    assert!(all <= TEN_CLIENTS_KB, "{all} kB, {with_ten} of them held, with {} clients", ten.len());
    let each = with_all.saturating_sub(with_ten) / MORE;
    assert!(
        each <= A_CLIENT_KB,
        "{each} kB for each of {} clients, from {with_ten} to {with_all}",
        more.len()
    );
}
