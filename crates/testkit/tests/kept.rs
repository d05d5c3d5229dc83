//! `CONSORT_KEEP`: a failed test leaves the folder of its servers, ended; a test that passes leaves nothing.

use std::path::PathBuf;
use std::process::Command;

use testkit::{Done, Scratch, run};

/// Act of the test in a process of its own, if this is set.
const ENDING: &str = "KEPT_ENDING";

/// Runs the test again by its name, as one that passes or fails. Its output, and the folder that it names.
fn ended(ending: &str, keep: &str) -> (Done, Option<PathBuf>) {
    let mut command = Command::new(std::env::current_exe().expect("a test program"));
    command.args(["--exact", "failed_test_keeps_its_servers", "--nocapture"]);
    let done = run(command.env(ENDING, ending).env("CONSORT_KEEP", keep));
    let folder =
        done.out.split_whitespace().find(|word| word.contains("consort-servers-")).map(PathBuf::from);
    (done, folder)
}

#[test]
fn failed_test_keeps_its_servers() {
    if let Ok(ending) = std::env::var(ENDING) {
        let servers = Scratch::start(0);
        servers.query("CREATE TABLE found_later (id int)");
        assert_eq!(ending, "passes");
        return;
    }
    let (done, folder) = ended("fails", "1");
    assert!(!done.status.success(), "{done:?}");
    let folder = folder.expect("the folder is printed");
    let primary = folder.join("primary");
    assert!(primary.join("data/PG_VERSION").is_file(), "{done:?}");
    assert!(primary.join("log").read_dir().expect("a folder").next().is_some(), "a log stays");
    assert!(!primary.join("data/postmaster.pid").exists(), "the server has ended");
    std::fs::remove_dir_all(&folder).expect("ours");

    let (done, folder) = ended("passes", "1");
    assert!(done.status.success() && !folder.expect("the folder is printed").exists(), "{done:?}");
}
