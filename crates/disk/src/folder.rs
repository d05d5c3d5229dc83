//! Folders, and the files in them by name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::faults::Allowed;
use crate::memory::{Memory, Storage};
use crate::{Disk, File, Point};

/// Keeps other processes from a folder until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock(Held);

#[derive(Debug)]
enum Held {
    File(fs::File),
    Memory(Memory, PathBuf),
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child process that is about to execute a program still shares the open file. Closing it here alone would keep
        // the folder locked for that moment. The lock ends with the process if this fails.
        match &self.0 {
            Held::File(file) => drop(file.unlock()),
            Held::Memory(memory, path) => memory.unlock(path),
        }
    }
}

impl Disk {
    /// Makes a folder and those above it, where they are missing.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn create_folder(&self, point: Point, path: &Path) -> io::Result<()> {
        self.meet(point, path)?;
        if self.memory().is_some() {
            return Ok(());
        }
        fs::create_dir_all(path)
    }

    /// The names of what lies in a folder, sorted. Names that are no text are left out.
    ///
    /// # Errors
    /// The system's.
    pub fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        if let Some(memory) = self.memory() {
            return Ok(memory.list(path));
        }
        let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        let mut names: Vec<String> = names.filter_map(io::Result::transpose).collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }

    /// Locks the file at the path, which is made if it is missing. Nothing if another process has it.
    ///
    /// # Errors
    /// The system's.
    pub fn lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        if let Some(memory) = self.memory() {
            return Ok(memory.lock(path).then(|| Lock(Held::Memory(memory.clone(), path.to_owned()))));
        }
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(Held::File(file)))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Makes an empty file, or empties the one that lies there.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn create(&self, point: Point, path: &Path) -> io::Result<File> {
        self.meet(point, path)?;
        let file = match self.memory() {
            Some(memory) => memory.create(path),
            None => {
                let options =
                    fs::OpenOptions::new().create(true).truncate(true).read(true).write(true).clone();
                Storage::File(options.open(path)?)
            }
        };
        Ok(File::new(file, path, self))
    }

    /// Opens a file to read and write it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.opened(path, fs::OpenOptions::new().read(true).write(true))
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// The system's.
    pub fn open_to_read(&self, path: &Path) -> io::Result<File> {
        self.opened(path, fs::OpenOptions::new().read(true))
    }

    /// Gives a file another name in its folder; a file that has it is replaced. It is on the disk when the folder is.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn rename(&self, point: Point, from: &Path, to: &Path) -> io::Result<()> {
        self.meet(point, from)?;
        match self.memory() {
            Some(memory) => memory.rename(from, to)?,
            None => fs::rename(from, to)?,
        }
        if let Some(faults) = &self.faults {
            faults.unsynced().renamed(from, to);
        }
        Ok(())
    }

    /// Removes a file. It is gone from the disk when the folder is synced.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn remove(&self, point: Point, path: &Path) -> io::Result<()> {
        self.meet(point, path)?;
        match self.memory() {
            Some(memory) => memory.remove(path)?,
            None => fs::remove_file(path)?,
        }
        if let Some(faults) = &self.faults {
            faults.unsynced().removed(path);
        }
        Ok(())
    }

    /// Waits until the names in a folder are on the disk: what was created, renamed and removed.
    ///
    /// # Errors
    /// The system's, or the point's. As after [`File::sync`], the caller must stop.
    pub fn sync_folder(&self, point: Point, path: &Path) -> io::Result<()> {
        self.meet(point, path)?;
        if self.memory().is_some() {
            return Ok(());
        }
        fs::File::open(path)?.sync_all()
    }

    fn opened(&self, path: &Path, options: &fs::OpenOptions) -> io::Result<File> {
        let storage = match self.memory() {
            Some(memory) => memory.open(path)?,
            None => Storage::File(options.open(path)?),
        };
        Ok(File::new(storage, path, self))
    }

    fn memory(&self) -> Option<&Memory> {
        self.faults.as_ref()?.memory()
    }

    /// Meets what a test has planned for an operation that is done or not.
    pub(crate) fn meet(&self, point: Point, path: &Path) -> io::Result<()> {
        let Some(faults) = &self.faults else { return Ok(()) };
        match faults.meet(point, path)? {
            Allowed::All => Ok(()),
            Allowed::Part(_) => {
                Err(io::Error::other(format!("torn operation at {point}: {}", path.display())))
            }
        }
    }
}
