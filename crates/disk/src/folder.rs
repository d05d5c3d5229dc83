//! Folders, and the files in them by name.

use std::fs;
use std::io;
use std::path::Path;

use crate::faults::Allowed;
use crate::{Disk, File, Point};

/// Keeps other processes from a folder until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: fs::File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child process that is about to execute a program still shares the open file. Closing it here alone would keep
        // the folder locked for that moment. The lock ends with the process if this fails.
        drop(self.file.unlock());
    }
}

impl Disk {
    /// Makes a folder and those above it, where they are missing.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn create_folder(&self, point: Point, path: &Path) -> io::Result<()> {
        self.meet(point, path)?;
        fs::create_dir_all(path)
    }

    /// The names of what lies in a folder, sorted. Names that are no text are left out.
    ///
    /// # Errors
    /// The system's.
    pub fn list(&self, path: &Path) -> io::Result<Vec<String>> {
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
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { file })),
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
        let file = fs::OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
        Ok(File::new(file, path, self))
    }

    /// Opens a file to read and write it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        Ok(File::new(fs::OpenOptions::new().read(true).write(true).open(path)?, path, self))
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// The system's.
    pub fn open_to_read(&self, path: &Path) -> io::Result<File> {
        Ok(File::new(fs::File::open(path)?, path, self))
    }

    /// Gives a file another name in its folder; a file that has it is replaced. It is on the disk when the folder is.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn rename(&self, point: Point, from: &Path, to: &Path) -> io::Result<()> {
        self.meet(point, from)?;
        fs::rename(from, to)?;
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
        fs::remove_file(path)?;
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
        fs::File::open(path)?.sync_all()
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
