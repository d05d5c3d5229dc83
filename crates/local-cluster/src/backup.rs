//! Servers that Consort feeds and that come of a base backup: of the primary, taken just now or kept before as the *seed* of
//! servers to come (Hihooi, 3 and 6), or of a replica that is fed and goes on meanwhile (Ganymed, 4.4).
//!
//! ```text
//! <folder>/seed/backup     a base backup that never runs; the slot consort_seed keeps the primary's log since
//! <folder>/replica1/data   a base backup of the primary, or a copy of the seed: it follows the primary until it is fed
//! <folder>/replica2/data   a base backup of a replica: as it is, it can be fed from what its position says
//! ```
//!
//! An interrupted copy is removed, also when our process is killed. A process that outlives ours removes the
//! folder, and the WAL is kept by a temporary slot that ends with our connection.

use crate::cluster::{
    Cluster, Options, PRIMARY, UNFINISHED, empty_place, finish_place, open_node, port_for, prepare_folder,
    remove_folder, setup, write,
};
use crate::node::{Node, Role};
use crate::probe::Probe;
use crate::settings::{self, NodeSettings};
use history::Lsn;
use postgres::Error;
use postgres::objects::CONTROL_DATABASE;
use postgres::programs::Programs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of the seed, and in it the backup.
const SEED: &str = "seed";
const BACKUP: &str = "backup";
/// The slot that keeps the WAL since the seed was made.
const SEED_SLOT: &str = "consort_seed";
/// Interval of the look at a backup's progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// One answer of the primary takes no longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Source of a logical replica that is not copied database by database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A base backup of the primary that is taken for it.
    Backup,
    /// The base backup that was kept.
    Seed,
    /// A base backup of the replica of this name. Its feed has to keep the changes that the copy will lack,
    /// from before the backup on.
    Replica(&'a str),
}

/// Progress of a base backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// Bytes that are there.
    pub bytes: u64,
    /// Expected size in all, as far as it is known.
    pub all_bytes: u64,
    /// Time since its begin.
    pub took: Duration,
}

/// A base backup that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// WAL position from which a server of this seed begins to replay.
    pub from: Lsn,
    /// Bytes of its files.
    pub bytes: u64,
    /// The primary's WAL since then.
    pub log: SeedLog,
}

/// The primary's WAL since the seed was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedLog {
    /// All of it, and it is kept.
    Kept {
        /// Size of the WAL in bytes.
        bytes: u64,
        /// Bytes that may be written before the WAL is removed; `None`: there is no limit.
        left_bytes: Option<u64>,
    },
    /// All of it, and that is more than `max_slot_wal_keep_size`: it goes with one of the next checkpoints.
    Going {
        /// Size of the WAL in bytes.
        bytes: u64,
    },
    /// Not all of it: the seed is of no use.
    Gone,
    /// The primary does not answer.
    Unknown,
}

impl SeedLog {
    /// True if a replica can be made of the seed now.
    pub fn is_whole(self) -> bool {
        matches!(self, SeedLog::Kept { .. } | SeedLog::Going { .. })
    }
}

/// Log that the primary keeps, for as long as this lives.
pub struct KeptLog(#[expect(dead_code, reason = "the slot ends with the session")] Probe);

impl Cluster {
    /// From now on the primary keeps the WAL that it writes, at most as much as `max_slot_wal_keep_size`
    /// says.
    ///
    /// # Errors
    /// As every query.
    pub fn keep_log(&self, name: &str) -> Result<KeptLog, Error> {
        let mut session = Probe::connect(&self.primary().address("postgres", "postgres"), ANSWER_LIMIT)?;
        session.query("SET idle_session_timeout = 0")?;
        let slot = format!("consort_joins_{name}");
        session.query(&format!("SELECT pg_create_physical_replication_slot('{slot}', true, true)"))?;
        Ok(KeptLog(session))
    }

    /// Makes a further logical replica of a base backup. It is not started yet. Once started, a replica of
    /// the primary's backup follows the primary until Consort ends that. [`keep_log`](Cluster::keep_log)
    /// keeps the WAL until then. `tell` receives the progress now and then.
    ///
    /// # Errors
    /// [`Error::Setup`] with what `pg_basebackup` says, if the seed is of no use, or if there is no such replica. Nothing of the
    /// server is left then.
    pub fn add_backed_up_replica(
        &mut self,
        origin: Origin<'_>,
        options: &Options,
        tell: &mut dyn FnMut(BackedUp),
    ) -> Result<&Node, Error> {
        let name = &self.next_replica();
        let ports: Vec<u16> = self.nodes.iter().map(Node::port).collect();
        let source = match origin {
            Origin::Backup | Origin::Seed => self.primary(),
            Origin::Replica(source) => self.replica(source)?,
        };
        let follows = (source.role() == Role::Primary).then(|| (source.socket_folder(), source.port()));
        let node = NodeSettings {
            name,
            port: port_for(options.log_ins, &ports)?,
            sockets: source.socket_folder(),
            log_ins: options.log_ins,
            follows,
            joins: true,
        };
        let mut guard = Unfinished::guarded(&self.folder.join(name), "data")?;
        let place = empty_place(&self.programs, &self.folder, name)?;
        match origin {
            Origin::Backup | Origin::Replica(_) => {
                back_up((&self.programs, source), name, &place, options, &mut guard, tell)?
            }
            Origin::Seed => self.copy_seed(&place)?,
        }
        joins(&self.programs, &place, &node, options)?;
        finish_place(&self.folder, name)?;
        self.nodes.push(open_node(&self.programs, &self.folder, name)?);
        Ok(&self.nodes[self.nodes.len() - 1])
    }

    fn replica(&self, name: &str) -> Result<&Node, Error> {
        let node = self.replicas().iter().find(|node| node.name() == name);
        node.ok_or_else(|| Error::Setup(format!("replica {name} does not exist")))
    }

    /// A server in a folder of its own that came of a base backup of a primary and follows it.
    ///
    /// # Errors
    /// [`Error::Setup`] with what the programs say.
    pub fn of_backup(
        programs: &Programs,
        folder: &Path,
        primary: &Node,
        options: &Options,
    ) -> Result<Cluster, Error> {
        let folder = prepare_folder(programs, folder)?;
        let node = NodeSettings {
            name: PRIMARY,
            port: port_for(options.log_ins, &[])?,
            sockets: &folder.join("sockets"),
            log_ins: options.log_ins,
            follows: Some((primary.socket_folder(), primary.port())),
            joins: true,
        };
        let mut guard = Unfinished::guarded(&folder.join(PRIMARY), "data")?;
        let place = empty_place(programs, &folder, PRIMARY)?;
        back_up((programs, primary), PRIMARY, &place, options, &mut guard, &mut |_| {})?;
        joins(programs, &place, &node, options)?;
        finish_place(&folder, PRIMARY)?;
        let cluster = Cluster::open(programs, &folder)?;
        cluster.start()?;
        Ok(cluster)
    }

    /// Takes a base backup to be the seed of servers to come; the one before is kept until this one is whole.
    ///
    /// # Errors
    /// [`Error::Setup`] with what `pg_basebackup` says.
    pub fn make_seed(&self, options: &Options, tell: &mut dyn FnMut(BackedUp)) -> Result<Seed, Error> {
        if self.seed().is_none_or(|seed| !seed.log.is_whole()) {
            self.drop_seed_slot()?;
            let made = format!("SELECT pg_create_physical_replication_slot('{SEED_SLOT}', true)");
            self.primary().query("postgres", &made)?;
        }
        let folder = self.folder.join(SEED);
        let mut guard = Unfinished::guarded(&folder, BACKUP)?;
        let place = empty_place(&self.programs, &self.folder, SEED)?;
        back_up((&self.programs, self.primary()), SEED, &place, options, &mut guard, tell)?;
        let whole = folder.join(BACKUP);
        if whole.exists() {
            remove_folder(&whole)?;
        }
        std::fs::rename(&place, &whole).map_err(setup)?;
        let from = begins_at(&whole)?;
        let forget = format!("SELECT pg_replication_slot_advance('{SEED_SLOT}', '{from}')");
        self.primary().query("postgres", &forget)?;
        self.seed().ok_or_else(|| Error::Setup("the seed does not exist".to_owned()))
    }

    /// The seed, if there is one.
    pub fn seed(&self) -> Option<Seed> {
        let whole = self.folder.join(SEED).join(BACKUP);
        let from = begins_at(&whole).ok()?;
        Some(Seed { from, bytes: size_of(&whole), log: self.seed_log(from) })
    }

    fn seed_log(&self, from: Lsn) -> SeedLog {
        let kept = format!(
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{from}')::bigint, safe_wal_size, wal_status \
             FROM pg_replication_slots WHERE slot_name = '{SEED_SLOT}' AND restart_lsn <= '{from}'"
        );
        let Ok(rows) = self.primary().query("postgres", &kept) else { return SeedLog::Unknown };
        let Some([bytes, left_bytes, Some(status)]) = rows.first().map(Vec::as_slice) else {
            return SeedLog::Gone;
        };
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<u64>().ok());
        let bytes = number(bytes).unwrap_or_default();
        match status.as_str() {
            "reserved" | "extended" => SeedLog::Kept { bytes, left_bytes: number(left_bytes) },
            "unreserved" => SeedLog::Going { bytes },
            _ => SeedLog::Gone,
        }
    }

    /// Removes the seed; returns true if there was one. No WAL is kept for it any more.
    ///
    /// # Errors
    /// As every query, and if the folder cannot be removed.
    pub fn remove_seed(&self) -> Result<bool, Error> {
        self.drop_seed_slot()?;
        let folder = self.folder.join(SEED);
        let was_there = folder.exists();
        if was_there {
            remove_folder(&folder)?;
        }
        Ok(was_there)
    }

    fn drop_seed_slot(&self) -> Result<(), Error> {
        let sql = format!(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{SEED_SLOT}'"
        );
        self.primary().query("postgres", &sql).map(drop)
    }

    fn copy_seed(&self, place: &Path) -> Result<(), Error> {
        let why = match self.seed().map(|seed| seed.log) {
            Some(SeedLog::Kept { .. } | SeedLog::Going { .. }) => {
                let mut copy = self.programs.account().command(Path::new("cp"));
                copy.args(["-a", "--reflink=auto", "--"]);
                copy.arg(self.folder.join(SEED).join(BACKUP).join(".")).arg(place);
                return self.programs.output(&mut copy).map(drop);
            }
            Some(SeedLog::Gone) => {
                "the primary no longer has the WAL since the seed was made (max_slot_wal_keep_size)"
            }
            Some(SeedLog::Unknown) => return Err(Error::Setup("the primary does not answer".to_owned())),
            None => "no seed exists",
        };
        Err(Error::Setup(format!("{why}; make one with `consort replica seed`")))
    }
}

/// Configures a backup to follow the primary as a logical replica. A backup of a replica keeps that replica's
/// settings.
fn joins(programs: &Programs, place: &Path, node: &NodeSettings<'_>, options: &Options) -> Result<(), Error> {
    write(programs, place, settings::FILE, &settings::file(node, &options.settings))?;
    if node.follows.is_none() {
        return Ok(());
    }
    write(programs, place, "standby.signal", "")?;
    programs.account().write(&place.join("postgresql.auto.conf"), &settings::of_a_backup(), true)
}

/// A database of a server that always accepts queries. At a replica `postgres` is a copy like any other, and
/// may be gone for a while. At the primary a session in the other one would prevent CREATE DATABASE.
fn always_there(source: &Node) -> &'static str {
    if source.role() == Role::Replica { CONTROL_DATABASE } else { "postgres" }
}

/// pg_basebackup into an empty folder.
pub(crate) fn back_up(
    (programs, source): (&Programs, &Node),
    name: &str,
    place: &Path,
    options: &Options,
    guard: &mut Unfinished,
    tell: &mut dyn FnMut(BackedUp),
) -> Result<(), Error> {
    let spaces = "SELECT FROM pg_tablespace WHERE spcname !~ '^pg_'";
    if !source.query(always_there(source), spaces)?.is_empty() {
        return Err(Error::Setup(format!(
            "the server {} has tablespaces, which a base backup on the same machine cannot duplicate; copy the databases by dump",
            source.name()
        )));
    }
    let mut backup = programs.command("pg_basebackup");
    backup.args(["--checkpoint=fast", "--wal-method=stream", "--username=postgres", "--no-password"]);
    backup.args(["--port", &source.port().to_string(), "--host"]).arg(source.socket_folder());
    backup.arg("--pgdata").arg(place).env("PGAPPNAME", format!("consort_{name}"));
    if !options.durable {
        backup.arg("--no-sync");
    }
    // Its own group: it has a child that receives the WAL, and does not notice that its parent was killed.
    backup.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = backup.spawn().map_err(|error| Error::Setup(format!("cannot run pg_basebackup: {error}")))?;
    guard.heeds(&child.id().to_string())?;
    let done = until_backed_up(source, child, name, tell);
    guard.heeds("-")?;
    done
}

/// Waits for the end of a backup, and reports its progress.
fn until_backed_up(
    source: &Node,
    mut child: Child,
    name: &str,
    tell: &mut dyn FnMut(BackedUp),
) -> Result<(), Error> {
    let began = Instant::now();
    let far = format!(
        "SELECT p.backup_streamed, p.backup_total FROM pg_stat_progress_basebackup p JOIN pg_stat_activity a \
         USING (pid) WHERE a.application_name = 'consort_{name}' AND p.backup_total > 0"
    );
    loop {
        if let Some(status) = child.try_wait().map_err(setup)? {
            let mut said = String::new();
            if let Some(mut complaints) = child.stderr.take() {
                complaints.read_to_string(&mut said).map_err(setup)?;
            }
            let failed = || Error::Setup(format!("pg_basebackup failed: {}", said.trim()));
            return status.success().then_some(()).ok_or_else(failed);
        }
        if let Ok(rows) = source.query(always_there(source), &far)
            && let Some([Some(bytes), Some(all_bytes)]) = rows.first().map(Vec::as_slice)
            && let (Ok(bytes), Ok(all_bytes)) = (bytes.parse(), all_bytes.parse())
        {
            tell(BackedUp { bytes, all_bytes, took: began.elapsed() });
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Size of the files in a folder in bytes, as far as they can be looked at.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// WAL position from which the replay of this backup begins, by its label.
fn begins_at(backup: &Path) -> Result<Lsn, Error> {
    let label = backup.join("backup_label");
    let text = std::fs::read_to_string(&label)
        .map_err(|error| Error::Setup(format!("cannot read {}: {error}", label.display())))?;
    let from = text.lines().find_map(|line| line.strip_prefix("START WAL LOCATION: "));
    let from = from.and_then(|line| line.split(' ').next()?.parse().ok());
    from.ok_or_else(|| Error::Setup(format!("{} does not name its start position", label.display())))
}

/// Waits until its standard input closes. Then it ends the group of processes whose number it has read last, if any, and removes
/// what is not whole of the folder.
const GUARD: &str = r#"
trap '' INT TERM HUP
pid=$(tail -n 1)
if [ "${pid:--}" != - ]; then
    kill -KILL -$pid 2> /dev/null
    tries=0
    while kill -0 -$pid 2> /dev/null && [ $tries -lt 250 ]; do
        tries=$((tries + 1))
        sleep 0.02
    done
fi
[ -e "$1/$2" ] && exec rm -rf "$1/$3"
exec rm -rf "$1"
"#;

/// A node's folder that is not whole yet. When this is dropped, or our process has ended, what is not whole goes.
pub(crate) struct Unfinished {
    guard: Child,
    input: Option<ChildStdin>,
}

impl Unfinished {
    /// Watches over a folder, which is whole when it has this in it.
    pub(crate) fn guarded(folder: &PathBuf, whole: &str) -> Result<Unfinished, Error> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(folder).args([whole, UNFINISHED]);
        // Its own group of processes: what a terminal sends to all of us is not for it.
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guard = guard.spawn().map_err(setup)?;
        let input = guard.stdin.take();
        Ok(Unfinished { guard, input })
    }

    /// The group of processes with this number fills the folder, and is to be ended too; or `-`: none does any more.
    fn heeds(&mut self, number: &str) -> Result<(), Error> {
        let input = self.input.as_mut().expect("open until the drop");
        writeln!(input, "{number}").map_err(setup)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.guard.wait();
    }
}
