//! Servers of key-value stores for a test: Redis and Cassandra, each process in a folder of its own. They end with the
//! test, however that ends.

mod cassandra;
mod redis;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{kept, temporary};

pub use cassandra::CassandraCluster;
pub use redis::RedisServer;

/// Kills every process that works in the folder when standard input closes, and removes the folder unless a word stands
/// there. `NAME/pid` has the process of each server.
const GUARD: &str = r#"
trap '' INT TERM HUP
wish=$(cat)
for file in "$1"/*/pid; do
    { read -r pid < "$file"; } 2> /dev/null || continue
    case $(readlink "/proc/$pid/cwd") in "$1"/*) kill -KILL "$pid" 2> /dev/null ;; esac
done
[ "$wish" ] || rm -rf "$1"
"#;

/// The folder of a test's servers, and the process that ends them.
#[derive(Debug)]
struct ServerFolder {
    path: PathBuf,
    guard: Child,
}

impl ServerFolder {
    fn create(name: &str) -> io::Result<ServerFolder> {
        let path = temporary(name);
        fs::create_dir_all(&path)?;
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&path);
        let guard = guard
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(ServerFolder { path, guard })
    }

    /// The folder of one server.
    fn of(&self, server: &str) -> io::Result<PathBuf> {
        let folder = self.path.join(server);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Starts a server's program in the server's folder. Its output goes to `log` there.
    fn start(&self, server: &str, program: &mut Command) -> io::Result<Child> {
        let folder = self.of(server)?;
        let log = File::options().create(true).append(true).open(folder.join("log"))?;
        let program = program.current_dir(&folder).process_group(0).stdin(Stdio::null());
        let child = program.stdout(log.try_clone()?).stderr(log).spawn()?;
        fs::write(folder.join("pid"), format!("{}\n", child.id()))?;
        Ok(child)
    }

    /// The log of a server, for the message of a failed start.
    fn log(&self, server: &str) -> String {
        fs::read_to_string(self.path.join(server).join("log")).unwrap_or_default()
    }
}

impl Drop for ServerFolder {
    /// Ends what runs there. The folder stays if the test fails and `CONSORT_KEEP` is set.
    fn drop(&mut self) {
        if let Some(mut input) = self.guard.stdin.take()
            && kept::are_wished()
            && std::thread::panicking()
        {
            // A guard that has ended has done its work; no caller needs the result.
            let _ = input.write_all(b"keep");
            kept::say(&self.path);
        }
        // The guard has done its work or not; no caller needs the result.
        let _ = self.guard.wait();
    }
}

/// Kills a process as `kill -9` does, and waits for its end.
fn kill(process: &mut Child) {
    // A process that has ended cannot be killed; no caller needs the result.
    let _ = process.kill();
    let _ = process.wait();
}

/// The first of these programs that is a file.
fn installed(candidates: &[&str]) -> Option<PathBuf> {
    candidates.iter().map(Path::new).find(|path| path.is_file()).map(Path::to_path_buf)
}
