//! The epoch of a ledger: a word of its own, in a file next to its segments. A ledger that begins again has another one, and
//! gives its versions to other transactions. Nodes keep the epoch of their versions, so that both can be compared.

use std::io::{self, ErrorKind};
use std::path::Path;

use disk::Disk;

use crate::{Error, points};

/// Name of the file.
const FILE: &str = "epoch";

/// The epoch of the ledger in this folder, if it has one.
///
/// # Errors
/// [`Error::Unusable`] if the file cannot be read.
pub fn read_epoch(folder: &Path, disk: &Disk) -> Result<Option<String>, Error> {
    let path = folder.join(FILE);
    let read = || {
        let file = disk.open_to_read(&path)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
        let length = file.read_at(&mut bytes, 0)?;
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(io::Error::other)
    };
    match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| Error::unusable("cannot read", &path, &error)),
    }
}

/// The same, of a ledger that is open. One without an epoch has this one from now on.
///
/// # Errors
/// [`Error::Unusable`] if the file cannot be read or written.
pub fn epoch(folder: &Path, disk: &Disk, new: &str) -> Result<String, Error> {
    if let Some(epoch) = read_epoch(folder, disk)? {
        return Ok(epoch);
    }
    let (path, unfinished) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
    let write = || {
        let file = disk.create(points::EPOCH, &unfinished)?;
        file.write_at(points::EPOCH, new.as_bytes(), 0)?;
        file.sync(points::EPOCH)?;
        disk.rename(points::EPOCH, &unfinished, &path)?;
        disk.sync_folder(points::EPOCH, folder)
    };
    write().map_err(|error| Error::unusable("cannot write", &path, &error))?;
    Ok(new.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Fault, Faults};

    #[test]
    fn epoch_of_a_ledger_stays() {
        let (folder, faults) = (Path::new("/ledger"), Faults::in_memory());
        let disk = Disk::with_faults(&faults);
        disk.create_folder(points::FOLDER, folder).expect("a folder");
        assert_eq!(read_epoch(folder, &disk), Ok(None));
        faults.plan(points::EPOCH, Fault::broken());
        assert!(epoch(folder, &disk, "first").is_err());
        assert_eq!(epoch(folder, &disk, "second"), Ok("second".to_owned()));
        assert_eq!(epoch(folder, &disk, "third"), Ok("second".to_owned()));
    }
}
