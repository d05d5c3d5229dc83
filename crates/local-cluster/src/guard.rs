//! Ends the servers of a folder when whoever uses them has ended, however that came about: done, failed, or killed.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Waits until its standard input closes; the last line there may be `keep`. Then it ends the servers of the
/// folder, first politely (the postmaster releases its shared memory), then by force. It also ends any other
/// process in groups of the families, and the groups. It removes the folder, unless it is to be kept.
const GUARD: &str = r#"
trap '' INT TERM HUP
wish=
while read -r line; do wish=$line; done
folder=$1
shift
children() {
    # Most kernels list them. Else each process is looked at, which takes a third of the time of a short test.
    if [ -r "/proc/$$/task/$$/children" ]; then
        cat "/proc/$1/task/$1/children" 2> /dev/null
        return
    fi
    for stat in /proc/[0-9]*/stat; do
        { read -r line < "$stat"; } 2> /dev/null || continue
        set -- "$1" ${line##*) }
        [ "$3" = "$1" ] && { stat=${stat#/proc/}; echo "${stat%/stat}"; }
    done
}
end() {
    { read -r pid < "$1"; } 2> /dev/null || return
    all="$pid $(children "$pid")"
    memory=$(sed -n '7s/.* //p' "$1")
    kill -QUIT $pid 2> /dev/null
    kill -CONT $all 2> /dev/null
    tries=0
    while kill -0 "$pid" 2> /dev/null && [ $tries -lt 250 ]; do
        { read -r line < "/proc/$pid/stat"; } 2> /dev/null
        case $line in *") Z "*) break ;; esac
        tries=$((tries + 1))
        sleep 0.02
    done
    kill -KILL $all 2> /dev/null
    [ -n "$memory" ] && ipcrm -m "$memory" 2> /dev/null
}
for file in "$folder"/*/data/postmaster.pid; do
    end "$file" &
done
wait
living() { for one; do cat "$one"/*/cgroup.procs 2> /dev/null; done; }
for family; do
    tries=0
    while [ -n "$(living "$family")" ] && [ $tries -lt 250 ]; do
        sign=TERM
        [ $tries -ge 50 ] && sign=KILL
        kill -$sign $(living "$family") 2> /dev/null
        kill -CONT $(living "$family") 2> /dev/null
        tries=$((tries + 1))
        sleep 0.02
    done
    for group in "$family"/*/ "$family"; do
        tries=0
        while [ -d "$group" ] && ! rmdir "$group" 2> /dev/null && [ $tries -lt 50 ]; do
            tries=$((tries + 1))
            sleep 0.02
        done
    done
done
[ "$wish" = keep ] || rm -rf "$folder"
"#;

/// A process that outlives ours until its work is done. Dropped, it does its work at once.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Watches over a folder of servers, and over families of control groups; they need not be there yet.
    ///
    /// # Errors
    /// Errors of starting `sh`.
    pub fn over(folder: &Path, families: &[PathBuf]) -> io::Result<Guard> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(folder).args(families);
        // Its own group of processes: what a terminal sends to all of us is not for it.
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        guard.spawn().map(Guard)
    }

    /// Says whether the folder stays when the servers have ended. The last word counts.
    ///
    /// # Errors
    /// Errors of writing to the guard.
    pub fn keep(&mut self, keep: bool) -> io::Result<()> {
        let word: &[u8] = if keep { b"keep\n" } else { b"remove\n" };
        self.0.stdin.as_mut().map_or(Ok(()), |input| input.write_all(word))
    }
}

impl Drop for Guard {
    /// Closes the guard's input and waits until it has done its work.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
