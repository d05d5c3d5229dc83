//! Backup: the rows of one snapshot, written to an embedded store of their own.

use std::path::Path;

use disk::Disk;
use stores::{Cell, EmbeddedOptions, EmbeddedStore, KeyRange, KeyedCell, Store, successor};

use crate::ownership::points;
use crate::{Begin, Consistency, Database, Error};

/// The file of the backup in its folder, and its name while it is written.
const FILE: &str = "store";
const UNFINISHED: &str = "store.unfinished";
/// Rows that are copied together.
const ROWS: usize = 1_000;
/// Rows between two lines of progress in the log.
const PROGRESS_ROWS: usize = 100_000;

/// A finished backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The backup has the commits up to this timestamp.
    pub timestamp: u64,
    /// Rows in the backup.
    pub rows: usize,
}

impl Database {
    /// Copies all rows of one snapshot to the file `store` in a folder, which is made if it is missing. Transactions go on.
    /// To restore, open a database over the file as an [`EmbeddedStore`], with an empty folder for its ledger; the
    /// backup's own folder will do.
    ///
    /// # Errors
    /// [`Error::Folder`] if the folder has a backup or cannot be written; [`Error::SnapshotTooOld`] if the copy takes
    /// longer than old versions are kept; the store's.
    pub async fn backup(&self, folder: &Path) -> Result<Backup, Error> {
        let failed = |error: std::io::Error| Error::Folder {
            reason: format!("cannot write the backup in {}: {error}", folder.display()),
        };
        let (disk, file, unfinished) = (Disk::new(), folder.join(FILE), folder.join(UNFINISHED));
        disk.create_folder(points::FOLDER, folder).map_err(failed)?;
        let names = disk.list(folder).map_err(failed)?;
        if names.iter().any(|name| name == FILE) {
            return Err(Error::Folder { reason: format!("{} has a backup already", folder.display()) });
        }
        if names.iter().any(|name| name == UNFINISHED) {
            disk.remove(points::CREATE, &unfinished).map_err(failed)?;
        }
        let copy = EmbeddedStore::open(&unfinished, EmbeddedOptions::default())?;
        let backup = self.copies_rows(&copy).await?;
        copy.close().await?;
        drop(copy);
        disk.rename(points::RENAME, &unfinished, &file).map_err(failed)?;
        disk.sync_folder(points::SYNC_FOLDER, folder).map_err(failed)?;
        Ok(backup)
    }

    async fn copies_rows(&self, copy: &EmbeddedStore) -> Result<Backup, Error> {
        let transaction = self.begin(Begin { read_only: true, consistency: Consistency::Strong }).await?;
        let timestamp = transaction.start();
        let (mut rest, mut rows) = (KeyRange::all(), 0);
        loop {
            let page = transaction.scan(rest.clone(), ROWS).await?;
            let Some((last, _)) = page.last() else { break };
            rest = KeyRange { from: successor(last), to: None };
            let cells: Vec<KeyedCell> =
                page.into_iter().map(|(key, value)| (key, Cell::put(timestamp, value))).collect();
            copy.put_if_newer(&cells).await?;
            if rows / PROGRESS_ROWS != (rows + cells.len()) / PROGRESS_ROWS {
                tracing::info!(rows = rows + cells.len(), "copying rows to the backup");
            }
            rows += cells.len();
        }
        transaction.commit().await?;
        Ok(Backup { timestamp, rows })
    }
}
