//! Core files after a crash of the process: none, unless the configuration asks for them.

use std::fs;
use std::process::Command;

use crate::fixture::{Serving, serve};

/// The parent of a program could allow a core file of any size.
const LIFTED: &str = r#"ulimit -S -c "$(ulimit -H -c)" && exec "$@""#;

/// The same command, started by a parent that has lifted the limit.
pub(crate) fn lifted(command: &Command) -> Command {
    let mut lifted = Command::new("sh");
    lifted.args(["-c", LIFTED, "sh"]).arg(command.get_program()).args(command.get_args());
    lifted
}

/// Size limits of the process's core file: soft and hard.
pub(crate) fn limits(pid: u32) -> (String, String) {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).expect("the process is there");
    let line = text.lines().find_map(|line| line.strip_prefix("Max core file size"));
    let mut words = line.expect("a line of the kernel").split_whitespace().map(str::to_owned);
    let mut word = || words.next().expect("a line of the kernel");
    (word(), word())
}

#[test]
fn no_core_file_is_left_unless_it_is_asked_for() {
    let (_, hard) = limits(std::process::id());
    let mut serving = Serving::start(0, "");
    let asked: [(&[&str], &str); 2] = [(&[], "0"), (&["--core-files"], &hard)];
    for (arguments, soft) in asked {
        serving.signal("TERM");
        serving.ended();
        let mut command = lifted(&serve(serving.config_file()));
        serving.start_again_by(command.args(arguments));
        assert_eq!(limits(serving.pid()), (soft.to_owned(), hard.clone()), "{arguments:?}");
    }
}
