//! Data folders as initdb left them, kept to be copied: tests make hundreds of servers, and initdb costs a processor most of a second.
//! PostgreSQL's own tests do the same (`INITDB_TEMPLATE`, since 17).

use crate::guard::Guard;
use postgres::Error;
use postgres::programs::Programs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The data folders that were made once, by what they were made for. They go when our process has ended.
#[derive(Debug)]
pub struct Templates {
    folder: PathBuf,
    made: Mutex<BTreeMap<String, PathBuf>>,
    _guard: Guard,
}

impl Templates {
    /// None yet, in a folder that is not there yet.
    ///
    /// # Errors
    /// Errors of starting `sh`.
    pub fn within(folder: PathBuf) -> std::io::Result<Templates> {
        let guard = Guard::over(&folder, &[])?;
        Ok(Templates { folder, made: Mutex::default(), _guard: guard })
    }

    /// Copies the template of `key` into the empty folder `into`; `make` makes the template at the first
    /// call. Two keys give two servers: each has a system identifier of its own.
    pub(crate) fn copy(
        &self,
        programs: &Programs,
        key: &str,
        into: &Path,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let from = self.made_for(programs, key, make)?;
        let mut copy = programs.account().command(Path::new("cp"));
        copy.args(["-a", "--"]).arg(from.join(".")).arg(into);
        programs.output(&mut copy).map(drop)
    }

    fn made_for(
        &self,
        programs: &Programs,
        key: &str,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // Another major makes another folder.
        let key = format!("{} {key}", programs.folder().display());
        if let Some(folder) = made.get(&key) {
            return Ok(folder.clone());
        }
        programs.account().make_folder_around(&self.folder)?;
        let folder = self.folder.join(made.len().to_string());
        programs.account().make_folder(&folder)?;
        make(&folder)?;
        made.insert(key, folder.clone());
        Ok(folder)
    }
}
