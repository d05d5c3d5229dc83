//! A process that is killed while it appends, again and again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use disk::Disk;
use history::Version;
use ledger::{Ledger, Options};

use crate::folder::{Folder, append, range, versions};

/// The environment's name of the folder in which the child appends.
const CHILD: &str = "LEDGER_TEST_CHILD";

/// Not a test of its own: what the child does. It writes each version that is durable to its standard output.
#[test]
fn child_appends_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let options = Options { segment_size: 64 << 10 };
    let (ledger, _) = Ledger::open_with(Path::new(&folder), &Disk::new(), options).unwrap();
    for version in ledger.newest().get() + 1.. {
        let reached = append(&ledger, version);
        if version % 20 == 0 {
            reached.wait().unwrap();
            println!("durable {version}");
        }
    }
}

fn child(folder: &Folder) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "kill::child_appends_until_it_is_killed", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// Kills the child after so many lines. Returns the last version that it has called durable.
fn kill_after(mut child: Child, lines: usize) -> u64 {
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    // The child's output is read to its end: each version in it must be in the ledger.
    let mut durable = output.lines().map_while(Result::ok);
    let version =
        |line: String| line.split_once("durable ").and_then(|(_, version)| version.parse::<u64>().ok());
    let mut last = durable.by_ref().filter_map(version).take(lines).last().expect("the child appends");
    child.kill().expect("it can be killed");
    last = durable.filter_map(version).last().unwrap_or(last);
    child.wait().expect("it has ended");
    last
}

#[test]
fn killed_process_loses_nothing_durable() {
    let folder = Folder::new();
    for round in 0..6 {
        let durable = kill_after(child(&folder), 5 + round * 7);
        let (ledger, records) = folder.open(Options::default()).unwrap();
        let newest = ledger.newest().get();
        assert!(newest >= durable, "{newest} of {durable}");
        assert_eq!(versions(&records), range(1, newest));
        append(&ledger, newest + 1).wait().unwrap();
        assert_eq!(ledger.newest_durable(), Version::new(newest + 1));
    }
}
