//! Counts the system calls of a process while something runs: by `perf` where it may, else by `strace`, which slows the
//! process down but counts as well.

use super::cpu;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// Time limit of a tracer's start, and of its result.
const TRACER_LIMIT: Duration = Duration::from_secs(10);

enum Program {
    Perf,
    Strace,
}

/// A tracer that counts.
pub(crate) struct Counting {
    program: Program,
    child: Child,
    file: PathBuf,
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Counting {
    /// Begins to count the calls of a process and its children; nothing if no tracer may.
    pub(crate) async fn start(root: u32) -> Option<Counting> {
        if perf_may().await {
            return Counting::spawn(Program::Perf, root).await;
        }
        Counting::spawn(Program::Strace, root).await
    }

    async fn spawn(program: Program, root: u32) -> Option<Counting> {
        let pids: Vec<String> = cpu::tree(root).iter().map(u32::to_string).collect();
        let file = std::env::temp_dir().join(format!("consort-calls-{}-{root}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let mut command = match program {
            Program::Perf => {
                let mut command = Command::new("perf");
                command.args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &pids.join(",")]);
                command
            }
            Program::Strace => {
                let mut command = Command::new("strace");
                command.args(["-c", "-f"]);
                command.args(pids.iter().flat_map(|pid| ["-p", pid]));
                command
            }
        };
        command.arg("-o").arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().ok()?;
        let counting = Counting { program, child, file };
        counting.wait_attached(root).await.then_some(counting)
    }

    /// strace shows in the traced process's status; perf opens its file when it has begun.
    async fn wait_attached(&self, root: u32) -> bool {
        let attached = || match self.program {
            Program::Perf => self.file.exists(),
            Program::Strace => std::fs::read_to_string(format!("/proc/{root}/status")).is_ok_and(|status| {
                status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
            }),
        };
        for _ in 0..500 {
            if attached() {
                return true;
            }
            tokio::time::sleep(TRACER_LIMIT / 500).await;
        }
        false
    }

    /// Ends the tracer and says how many calls it counted.
    pub(crate) async fn finish(mut self) -> Option<u64> {
        let pid = self.child.id()?.to_string();
        Command::new("kill").args(["-INT", &pid]).status().await.ok()?;
        tokio::time::timeout(TRACER_LIMIT, self.child.wait()).await.ok()?.ok()?;
        let text = std::fs::read_to_string(&self.file).ok()?;
        match self.program {
            Program::Perf => perf_count(&text),
            Program::Strace => strace_count(&text),
        }
    }
}

/// True if perf can count system calls here: it counts those of a small program.
async fn perf_may() -> bool {
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "true"]).stdin(Stdio::null());
    let output = command.output().await;
    output.is_ok_and(|output| {
        perf_count(&String::from_utf8_lossy(&output.stderr)).is_some_and(|count| count > 0)
    })
}

/// `count,unit,event,..` per event.
fn perf_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("raw_syscalls:sys_enter"))?;
    line.split(',').next()?.trim().parse().ok()
}

/// The line `100.00 seconds usecs/call calls [errors] total`.
fn strace_count(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tracers_are_understood() {
        assert_eq!(perf_count("# started\n\n1234,,raw_syscalls:sys_enter,9,100.00,,\n"), Some(1234));
        assert_eq!(perf_count("<not counted>,,raw_syscalls:sys_enter,0,0.00,,\n"), None);
        let text = "% time     seconds  usecs/call     calls    errors syscall\n------\n 60.00    0.1  5  20  3 read\n\
                    100.00    0.000194           4        47         3 total\n";
        assert_eq!(strace_count(text), Some(47));
    }
}
