//! Files in memory, for simulations: the same operations with neither a system call nor a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of one file. Clones are the same file.
type Bytes = Arc<Mutex<Vec<u8>>>;

/// The files of a disk in memory, by path. Clones are the same files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    files: BTreeMap<PathBuf, Bytes>,
    locked: BTreeSet<PathBuf>,
}

impl Memory {
    /// The names in a folder, sorted.
    pub(crate) fn list(&self, folder: &Path) -> Vec<String> {
        let inside = |path: &&PathBuf| path.parent() == Some(folder);
        let name = |path: &PathBuf| path.file_name()?.to_str().map(str::to_owned);
        locked(&self.0).files.keys().filter(inside).filter_map(name).collect()
    }

    /// Locks a path. False if it is locked.
    pub(crate) fn lock(&self, path: &Path) -> bool {
        locked(&self.0).locked.insert(path.to_owned())
    }

    /// Unlocks a path.
    pub(crate) fn unlock(&self, path: &Path) {
        locked(&self.0).locked.remove(path);
    }

    /// Makes an empty file in place of the one that is there.
    pub(crate) fn create(&self, path: &Path) -> Storage {
        let bytes = Bytes::default();
        locked(&self.0).files.insert(path.to_owned(), bytes.clone());
        Storage::Memory(bytes)
    }

    /// Opens a file.
    pub(crate) fn open(&self, path: &Path) -> io::Result<Storage> {
        let bytes = locked(&self.0).files.get(path).cloned();
        bytes.map(Storage::Memory).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Gives a file another name.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let bytes = self.take(from)?;
        locked(&self.0).files.insert(to.to_owned(), bytes);
        Ok(())
    }

    /// Removes a file.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.take(path).map(drop)
    }

    fn take(&self, path: &Path) -> io::Result<Bytes> {
        locked(&self.0).files.remove(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The place of a file's bytes.
#[derive(Debug)]
pub(crate) enum Storage {
    File(fs::File),
    Memory(Bytes),
}

impl Storage {
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Storage::File(file) => Ok(file.metadata()?.len()),
            Storage::Memory(bytes) => Ok(locked(bytes).len() as u64),
        }
    }

    /// Reads once; returns how many bytes came.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Storage::File(file) => file.read_at(buffer, offset),
            Storage::Memory(bytes) => {
                let bytes = locked(bytes);
                let from = bytes.get(place(offset)..).unwrap_or_default();
                let count = from.len().min(buffer.len());
                buffer[..count].copy_from_slice(&from[..count]);
                Ok(count)
            }
        }
    }

    pub(crate) fn write_all_at(&self, written: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Storage::File(file) => file.write_all_at(written, offset),
            Storage::Memory(bytes) => {
                let (mut bytes, from) = (locked(bytes), place(offset));
                let end = from + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[from..end].copy_from_slice(written);
                Ok(())
            }
        }
    }

    pub(crate) fn set_len(&self, length: u64) -> io::Result<()> {
        match self {
            Storage::File(file) => file.set_len(length),
            Storage::Memory(bytes) => {
                locked(bytes).resize(place(length), 0);
                Ok(())
            }
        }
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        match self {
            Storage::File(file) => file.sync_data(),
            Storage::Memory(_) => Ok(()),
        }
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("an offset in memory")
}

/// No code under a lock panics half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
