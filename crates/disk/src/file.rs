//! Open files.

use std::io;
use std::path::{Path, PathBuf};

use crate::faults::Allowed;
use crate::memory::Storage;
use crate::{Disk, Point};

/// An open file, with positions given by its user. Reading meets no fault.
#[derive(Debug)]
pub struct File {
    file: Storage,
    path: PathBuf,
    disk: Disk,
}

impl File {
    pub(crate) fn new(file: Storage, path: &Path, disk: &Disk) -> File {
        File { file, path: path.to_owned(), disk: disk.clone() }
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// Tells if the file has no bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Writes all bytes at the offset. They are on the disk when a later sync has returned.
    ///
    /// # Errors
    /// The system's, or the point's. A part may have been written.
    pub fn write_at(&self, point: Point, bytes: &[u8], offset: u64) -> io::Result<()> {
        let Some(faults) = &self.disk.faults else { return self.file.write_all_at(bytes, offset) };
        let allowed = faults.meet(point, &self.path)?;
        let part = match allowed {
            Allowed::All => bytes,
            Allowed::Part(length) => &bytes[..length.min(bytes.len())],
        };
        faults.unsynced().note(&self.path, &self.file, offset, part.len() as u64)?;
        self.file.write_all_at(part, offset)?;
        match allowed {
            Allowed::All => Ok(()),
            Allowed::Part(_) => {
                Err(io::Error::other(format!("torn write at {point}: {}", self.path.display())))
            }
        }
    }

    /// Reads bytes from the offset on until the buffer is full or the file ends. Returns how many there are.
    ///
    /// # Errors
    /// The system's.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Cuts or extends the file; what is added reads as zeros.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn set_len(&self, point: Point, length: u64) -> io::Result<()> {
        if let Some(faults) = &self.disk.faults {
            self.disk.meet(point, &self.path)?;
            let now = self.len()?;
            faults.unsynced().note(&self.path, &self.file, length.min(now), now.saturating_sub(length))?;
        }
        self.file.set_len(length)
    }

    /// Waits until everything written to the file is on the disk. After an error nothing is known of it, and no later sync
    /// proves anything: the caller must stop.
    ///
    /// # Errors
    /// The system's, or the point's.
    pub fn sync(&self, point: Point) -> io::Result<()> {
        let Some(faults) = &self.disk.faults else { return self.file.sync_data() };
        let synced = self.disk.meet(point, &self.path).and_then(|()| self.file.sync_data());
        match synced {
            Ok(()) => faults.unsynced().synced(&self.path, &self.file),
            Err(error) => {
                faults.unsynced().sync_failed(&self.path);
                Err(error)
            }
        }
    }
}
