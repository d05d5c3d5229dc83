//! Dumps of nodes that all take writes: base backups that are kept, the last one and the one before (Elnikety, Dropsho and
//! Pedone, "Tashkent", 6.1). A node that is lost is made again from one, and the ledger brings what it lacks.
//!
//! ```text
//! <dumps>/7/backup      a base backup with its manifest, which has a checksum of each file and of itself
//! <dumps>/7/versions    the versions that it has at least, with an end mark
//! <dumps>/unfinished    one that is not whole: it has no number
//! ```

use crate::backup::{BackedUp, Unfinished, back_up};
use crate::cluster::{
    Cluster, Options, UNFINISHED, empty_place, finish_place, open_node, prepare_folder, remove_folder, setup,
    write,
};
use crate::node::{Node, Stop};
use crate::settings::{self, NodeSettings};
use postgres::Error;
use postgres::programs::Programs;
use std::path::{Path, PathBuf};

/// Dumps that are kept.
const KEPT: usize = 2;
/// The base backup of a dump.
const BACKUP: &str = "backup";
/// Name of the file with the versions of a dump.
pub const VERSIONS: &str = "versions";

/// A dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// Number of the dump: later ones have larger numbers.
    pub number: u64,
    folder: PathBuf,
}

impl Dump {
    /// The dumps in a folder, the last one first.
    pub fn all(folder: &Path) -> Vec<Dump> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut all: Vec<Dump> = entries
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.parse().ok()?;
                Some(Dump { number, folder: entry.path() })
            })
            .collect();
        all.sort_by_key(|dump| std::cmp::Reverse(dump.number));
        all
    }

    /// The text with its versions.
    ///
    /// # Errors
    /// [`Error::Setup`] if it cannot be read.
    pub fn versions(&self) -> Result<String, Error> {
        std::fs::read_to_string(self.folder.join(VERSIONS)).map_err(setup)
    }

    /// Makes a node that takes writes again from a dump, whatever is left of it. It is not started yet.
    ///
    /// # Errors
    /// [`Error::Setup`] if a file cannot be copied.
    pub fn restore(
        &self,
        programs: &Programs,
        folder: &Path,
        (name, port): (&str, u16),
        options: &Options,
    ) -> Result<(), Error> {
        let folder = prepare_folder(programs, folder)?;
        let data = folder.join(name).join("data");
        if let Ok(node) = open_node(programs, &folder, name) {
            node.stop(Stop::Immediate)?;
        }
        let node = NodeSettings {
            name,
            port,
            sockets: &folder.join("sockets"),
            log_ins: options.log_ins,
            follows: None,
            joins: false,
        };
        let unfinished = empty_place(programs, &folder, name)?;
        let mut copy = programs.account().command(Path::new("cp"));
        copy.args(["-a", "--reflink=auto", "--"]).arg(self.folder.join(BACKUP).join(".")).arg(&unfinished);
        programs.output(&mut copy)?;
        write(programs, &unfinished, settings::FILE, &settings::file(&node, &options.settings))?;
        if data.exists() {
            remove_folder(&data)?;
        }
        finish_place(&folder, name)
    }

    /// Checks the end mark and the checksum of each file.
    ///
    /// # Errors
    /// [`Error::Setup`] with what is damaged, as `pg_verifybackup` says it.
    pub fn check(&self, programs: &Programs) -> Result<(), Error> {
        let mut verify = programs.command("pg_verifybackup");
        programs.output(verify.arg("--quiet").arg(self.folder.join(BACKUP))).map(drop)
    }
}

impl Cluster {
    /// Takes a dump of a running node, which has these versions at least, and keeps it with the one before. `tell` receives
    /// the progress.
    ///
    /// # Errors
    /// [`Error::Setup`] with what `pg_basebackup` says. The dumps are as they were then.
    pub fn dump(
        &self,
        source: &Node,
        folder: &Path,
        versions: &str,
        options: &Options,
        tell: &mut dyn FnMut(BackedUp),
    ) -> Result<Dump, Error> {
        let account = self.programs.account();
        account.make_folder(folder)?;
        let unfinished = folder.join(UNFINISHED);
        if unfinished.exists() {
            remove_folder(&unfinished)?;
        }
        account.make_folder(&unfinished)?;
        // Before the copy begins: the ledger keeps what it may lack.
        write(&self.programs, &unfinished, VERSIONS, versions)?;
        let place = unfinished.join(BACKUP);
        account.make_folder(&place)?;
        // The guard removes what is unfinished, also when our process ends.
        let mut guard = Unfinished::guarded(&folder.to_path_buf(), ".")?;
        back_up((&self.programs, source), "dump", &place, options, &mut guard, tell)?;
        let number = Dump::all(folder).first().map_or(1, |last| last.number + 1);
        let whole = folder.join(number.to_string());
        std::fs::rename(&unfinished, &whole).map_err(setup)?;
        for old in Dump::all(folder).into_iter().skip(KEPT) {
            remove_folder(&old.folder)?;
        }
        Ok(Dump { number, folder: whole })
    }
}
