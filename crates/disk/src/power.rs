//! Unsynced writes, so that a test can take them back.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::memory::Storage;

/// Bytes that a disk writes at once or not at all.
const SECTOR: u64 = 512;

/// The unsynced sectors of all files. Invariant: what is not in here is on the disk.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    files: BTreeMap<PathBuf, UnsyncedFile>,
}

#[derive(Debug, Default)]
struct UnsyncedFile {
    synced_length: u64,
    sectors: BTreeMap<u64, Sector>,
}

/// A sector that has been written since the last sync.
#[derive(Debug, Default)]
struct Sector {
    /// The sector's earlier contents, from the last sync on; the present one is in the file.
    states: Vec<Vec<u8>>,
    /// A sync has failed, and nothing was written to it since: no later sync brings it to the disk.
    is_dropped: bool,
}

impl Unsynced {
    /// Notes the state before a change of these bytes; an empty range notes the length alone.
    pub(crate) fn note(&mut self, path: &Path, file: &Storage, offset: u64, bytes: u64) -> io::Result<()> {
        let length = file.len()?;
        let new = || UnsyncedFile { synced_length: length, sectors: BTreeMap::new() };
        let noted = self.files.entry(path.to_owned()).or_insert_with(new);
        if bytes == 0 {
            return Ok(());
        }
        for sector in offset / SECTOR..=(offset + bytes - 1) / SECTOR {
            let noted = noted.sectors.entry(sector).or_default();
            noted.states.push(read_sector(file, sector)?);
            noted.is_dropped = false;
        }
        Ok(())
    }

    /// The file was synced: all of it is on the disk, but for what an earlier sync has failed to bring there.
    pub(crate) fn synced(&mut self, path: &Path, file: &Storage) -> io::Result<()> {
        let Some(noted) = self.files.get_mut(path) else { return Ok(()) };
        noted.sectors.retain(|_, sector| sector.is_dropped);
        noted.synced_length = file.len()?;
        if noted.sectors.is_empty() {
            self.files.remove(path);
        }
        Ok(())
    }

    /// A sync has failed. The system believes that what it could not write is written: it is in the page cache until the
    /// power is lost.
    pub(crate) fn sync_failed(&mut self, path: &Path) {
        let sectors = self.files.get_mut(path).into_iter().flat_map(|noted| noted.sectors.values_mut());
        sectors.for_each(|sector| sector.is_dropped = true);
    }

    /// The file has another name.
    pub(crate) fn renamed(&mut self, from: &Path, to: &Path) {
        if let Some(noted) = self.files.remove(from) {
            self.files.insert(to.to_owned(), noted);
        }
    }

    /// The file is gone.
    pub(crate) fn removed(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Gives each unsynced sector one of its states, or leaves it as it is. A file that was longer at the last sync, or is
    /// longer now, has either length.
    pub(crate) fn lose(&mut self, seed: u64, open: impl Fn(&Path) -> io::Result<Storage>) -> io::Result<()> {
        let mut random = Random(seed);
        for (path, noted) in std::mem::take(&mut self.files) {
            let file = open(&path)?;
            let length = file.len()?;
            for (number, sector) in noted.sectors {
                if let Some(state) = sector.states.get(random.below(sector.states.len() + 1)) {
                    file.write_all_at(state, number * SECTOR)?;
                }
            }
            let lengths = [length, noted.synced_length];
            file.set_len(lengths[random.below(lengths.len())])?;
        }
        Ok(())
    }
}

/// A sector as it is, with zeros where the file has ended.
fn read_sector(file: &Storage, sector: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; SECTOR as usize];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], sector * SECTOR + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(bytes)
}

/// The generator "splitmix64" (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as usize % limit
    }
}
