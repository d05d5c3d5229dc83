//! Ownership of a store: the database that writes it, and the epoch of the process that has it open.
//!
//! A folder has a random identity, and the store a reserved cell with that identity; the cell's timestamp is the epoch.
//! Each open raises the epoch. A process that finds a higher one stops: another process, with a copy of the folder, has
//! taken the store over.

use std::path::Path;

use bytes::Bytes;
use disk::{Disk, Point};
use stores::{Cell, Store};

use crate::Error;
use crate::write_set::RESERVED;

/// Fault points of the folder's identity.
pub mod points {
    use super::Point;

    /// The folder is made.
    pub const FOLDER: Point = "cells.folder";
    /// The file with the identity is made.
    pub const CREATE: Point = "cells.create";
    /// The identity is written.
    pub const WRITE: Point = "cells.write";
    /// The identity is synced.
    pub const SYNC: Point = "cells.sync";
    /// The file gets its name.
    pub const RENAME: Point = "cells.rename";
    /// The folder is synced.
    pub const SYNC_FOLDER: Point = "cells.sync_folder";
}

const FILE: &str = "identity";
/// The file's name while it is made.
const UNNAMED: &str = "identity.tmp";
/// Length of an identity, in hexadecimal digits.
const LENGTH: usize = 32;

/// An open database's claim on its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ownership {
    identity: String,
    epoch: u64,
}

/// The finding in a store before it is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The store has no mark.
    Absent,
    /// The store has this database's mark, of this epoch.
    This(u64),
    /// The store has another database's mark, of this epoch.
    Other(String, u64),
}

fn owner_key() -> Bytes {
    [RESERVED, b"owner"].concat().into()
}

/// Reads the folder's identity, or makes one.
pub(crate) fn identity(disk: &Disk, folder: &Path) -> Result<String, Error> {
    let failed = |error: std::io::Error| Error::Folder {
        reason: format!("cannot use the identity of {}: {error}", folder.display()),
    };
    let path = folder.join(FILE);
    match disk.open_to_read(&path) {
        Ok(file) => {
            let mut bytes = [0; LENGTH];
            let read = file.read_at(&mut bytes, 0).map_err(failed)?;
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let is_whole = text.len() == LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_whole.then_some(text).ok_or_else(|| Error::Folder {
                reason: format!("{} is damaged: it has no identity", path.display()),
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let identity = format!("{:032x}", rand::random::<u128>());
            let unnamed = folder.join(UNNAMED);
            let make = || {
                let file = disk.create(points::CREATE, &unnamed)?;
                file.write_at(points::WRITE, identity.as_bytes(), 0)?;
                file.sync(points::SYNC)?;
                disk.rename(points::RENAME, &unnamed, &path)?;
                disk.sync_folder(points::SYNC_FOLDER, folder)
            };
            make().map_err(failed).map(|()| identity)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Finds out whose the store is.
pub(crate) async fn owner(store: &dyn Store, identity: &str) -> Result<Owner, Error> {
    store.settle(&[owner_key()]).await?;
    let cell = store.get(&owner_key()).await?;
    let Some(Cell { timestamp, value: Some(value) }) = cell else { return Ok(Owner::Absent) };
    if value == identity.as_bytes() {
        return Ok(Owner::This(timestamp));
    }
    Ok(Owner::Other(String::from_utf8_lossy(&value).into_owned(), timestamp))
}

/// Marks the store durably, and reads the mark back.
pub(crate) async fn claim(store: &dyn Store, identity: String, epoch: u64) -> Result<Ownership, Error> {
    let ownership = Ownership { identity, epoch };
    store.put_if_newer(&[(owner_key(), Cell::put(epoch, ownership.owner()))]).await?;
    store.sync().await?;
    store.settle(&[owner_key()]).await?;
    let cell = store.get(&owner_key()).await?;
    ownership.check(cell.as_ref())?;
    Ok(ownership)
}

impl Ownership {
    pub(crate) fn key(&self) -> Bytes {
        owner_key()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn owner(&self) -> Bytes {
        Bytes::copy_from_slice(self.identity.as_bytes())
    }

    /// Fails if the store's mark is a newer or another one. A weak read may answer an older mark, or none.
    pub(crate) fn check(&self, cell: Option<&Cell>) -> Result<(), Error> {
        let Some(cell) = cell else { return Ok(()) };
        let is_other =
            cell.timestamp == self.epoch && cell.value.as_deref() != Some(self.identity.as_bytes());
        if cell.timestamp > self.epoch || is_other {
            let reason =
                format!("another process has opened it (epoch {}, ours is {})", cell.timestamp, self.epoch);
            return Err(Error::StoreTaken { reason });
        }
        Ok(())
    }
}
