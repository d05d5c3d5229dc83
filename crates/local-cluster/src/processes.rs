//! The processes of one server: the postmaster and what it started.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::path::Path;

/// The postmaster that a data folder's `postmaster.pid` names, if it lives and is this folder's: after a
/// reboot the number may belong to any process.
pub(crate) fn postmaster_of(data: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    (is_alive(pid) && works_in(pid, data)).then_some(pid)
}

/// True if a process is there and no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let there = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    there && state_and_parent(pid).is_none_or(|(state, _)| state != 'Z')
}

/// True if the process's folder is `data`; a postmaster goes there. If the system cannot say: yes.
fn works_in(pid: i32, data: &Path) -> bool {
    match std::fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(folder) => std::fs::canonicalize(data).is_ok_and(|data| data == folder),
        Err(_) => !Path::new("/proc/self/cwd").exists(),
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // A process that is gone has what it should get.
        let _ = kill_process(pid, signal);
    }
}

/// Sends a signal to a postmaster and to all that it started.
pub(crate) fn signal_all(postmaster: i32, which: Signal) {
    // The postmaster stands still while its children are counted, so that it can neither start new ones nor
    // leave orphans.
    signal(postmaster, Signal::STOP);
    for child in children(postmaster) {
        signal(child, which);
    }
    signal(postmaster, which);
}

/// True if any process has its working folder there: a backend can outlive its postmaster for a moment.
pub(crate) fn any_works_in(data: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .any(|pid: i32| works_in(pid, data))
}

/// Children of a process that still live.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| state_and_parent(*pid).is_some_and(|(_, its)| its == parent))
        .collect()
}

/// From `/proc/<pid>/stat`: `pid (name) state parent ...`; a name may hold anything.
fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
