//! The query log: every write set, durable in the ledger before its commit is acknowledged. It is what survives the loss of all memory.

use super::Options;
use super::change_log::Needs;
use crate::message::{self, HEADER, Hello, Purpose, Received, Ship, Version};
use disk::{Disk, Point};
use eager_flow::{Bugs, Epoch, Epochs};
use history::Version as Place;
use ledger::Ledger;
use std::cell::{Cell, RefCell};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

/// First byte of a record: what comes after is an encoded write set.
const WRITE_SET: u8 = 1;
/// First byte of a record: the length of the write set in four bytes, the write set, encoded changes.
const WITH_CHANGES: u8 = 2;
/// First byte of a record: versions begin above it. Nothing comes after.
pub(super) const BASE: u8 = 3;
/// Bytes of write sets in one frame.
const FRAME_BYTES: usize = 16 << 20;
/// The file of epochs is written.
const WRITE_EPOCHS: Point = "tier.epochs";
/// The file of epochs gets its name.
const NAME_EPOCHS: Point = "tier.epochs_name";

/// Encoded write sets that fit into a frame.
type Portion = Result<Vec<Vec<u8>>, String>;

/// The query log and the epochs, in one folder.
pub struct Log {
    pub(super) ledger: Ledger,
    pub(super) disk: Disk,
    folder: PathBuf,
    epochs: RefCell<Epochs>,
    appended: Cell<u64>,
    /// Needs of databases behind the tier.
    pub(super) needs: Needs,
}

impl Log {
    /// Opens the log, which is made if it is missing: then other users may not look into its folder.
    ///
    /// # Errors
    /// A sentence for a person.
    pub fn open(folder: &Path) -> Result<Log, String> {
        let (disk, log) = (Disk::new(), folder.join("log"));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&log);
        made.map_err(|error| format!("cannot make {}: {error}", log.display()))?;
        let (ledger, _) = Ledger::open(&log, &disk).map_err(|error| error.to_string())?;
        let file = folder.join("epochs");
        let epochs = match std::fs::read(&file) {
            Ok(bytes) => postcard::from_bytes(&bytes)
                .map_err(|_| format!("{} is damaged: it holds no epochs", file.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        };
        Ok(Log {
            ledger,
            disk,
            folder: folder.to_owned(),
            epochs: RefCell::new(Epochs::new(epochs, Bugs::default())),
            appended: Cell::new(0),
            needs: Needs::default(),
        })
    }

    /// The newest durable version.
    pub fn newest(&self) -> Version {
        self.ledger.newest_durable().get()
    }

    /// Completes with the newest version when all that was appended is durable.
    ///
    /// # Errors
    /// The ledger has failed.
    pub async fn settled(&self) -> Result<Version, String> {
        let newest = self.ledger.newest();
        self.ledger.durable(newest).await.map_err(|error| error.to_string())?;
        Ok(newest.get())
    }

    /// Completes with the reason when the ledger has failed and the process must stop.
    pub async fn failed(&self) -> String {
        self.ledger.failed().await.to_string()
    }

    /// Syncs since the log was opened, and records in them.
    pub fn counters(&self) -> ledger::Counters {
        self.ledger.counters()
    }

    /// The newest epoch that has begun; zero: none.
    pub fn epoch(&self) -> u64 {
        self.epochs.borrow().newest()
    }

    /// The epochs that have begun.
    pub fn epochs(&self) -> Epochs {
        self.epochs.borrow().clone()
    }

    /// Writes down that an epoch begins.
    ///
    /// # Errors
    /// The file cannot be written: the process must not go on with the epoch.
    pub fn begins(&self, epoch: Epoch) -> io::Result<()> {
        let epochs = self.epochs.borrow().with(epoch);
        let bytes = postcard::to_stdvec(epochs.list()).map_err(io::Error::other)?;
        let (file, new) = (self.folder.join("epochs"), self.folder.join("epochs.new"));
        // What a crash has left there.
        if new.exists() {
            self.disk.remove(WRITE_EPOCHS, &new)?;
        }
        let written = self.disk.create(WRITE_EPOCHS, &new)?;
        written.write_at(WRITE_EPOCHS, &bytes, 0)?;
        written.sync(WRITE_EPOCHS)?;
        self.disk.rename(NAME_EPOCHS, &new, &file)?;
        self.disk.sync_folder(NAME_EPOCHS, &self.folder)?;
        *self.epochs.borrow_mut() = epochs;
        Ok(())
    }

    /// The folder of log and checkpoint.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes that were appended since the log was opened.
    pub fn appended_bytes(&self) -> u64 {
        self.appended.get()
    }

    /// Forgets write sets up to this version, which a checkpoint has.
    pub fn forget(&self, until: Version) {
        drop(self.ledger.forget_below(Place::new(self.needs.until(until) + 1)));
    }

    /// Write sets above a version, in portions that fit into a frame. `None`: the log does not go back so far.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn above(&self, version: Version) -> Result<Option<impl Iterator<Item = Portion>>, String> {
        if self.newest() > version && self.ledger.oldest().is_none_or(|oldest| oldest.get() > version + 1) {
            return Ok(None);
        }
        let mut records = self.ledger.read_from(Place::new(version + 1)).peekable();
        Ok(Some(std::iter::from_fn(move || {
            let (mut sets, mut bytes) = (Vec::new(), 0);
            while bytes < FRAME_BYTES {
                match records.next() {
                    Some(Ok(record)) => match parts(&record.bytes) {
                        Some((set, _)) => {
                            bytes += set.len();
                            sets.push(set.to_vec());
                        }
                        None => return Some(Err(format!("record {} is no write set", record.version.get()))),
                    },
                    Some(Err(error)) => return Some(Err(error.to_string())),
                    None => break,
                }
            }
            (!sets.is_empty()).then_some(Ok(sets))
        })))
    }

    /// Subscribes at the master and makes durable what it ships, until the connection ends.
    ///
    /// # Errors
    /// Why it has ended.
    pub async fn follow(&self, options: &Options, master: usize, epoch: u64) -> io::Result<()> {
        let mut stream = options.connect(master).await?;
        let has = Some(self.ledger.newest().get());
        let purpose = Purpose::Subscription { name: crate::LOG.to_owned(), has, epoch };
        stream.write_all(&message::frame(&Hello { secret: options.secret.clone(), purpose })).await?;
        let (input, mut output) = stream.into_split();
        let mut input = BufReader::with_capacity(256 << 10, input);
        let mut newest = self.ledger.newest();
        // What the subscription before has appended may not be on the disk yet.
        self.ledger.durable(newest).await.map_err(io::Error::other)?;
        output.write_all(&message::frame(&Received(newest.get()))).await?;
        loop {
            match read(&mut input).await? {
                Ship::Set { version, bytes, changes, decided: _ } => {
                    let record = record(&bytes, &changes);
                    newest = Place::new(version);
                    self.appended.set(self.appended.get() + record.len() as u64);
                    drop(self.ledger.append(newest, &record));
                }
                Ship::Refused(why) => return Err(io::Error::other(why)),
                Ship::Decided(_) | Ship::Pages(_) | Ship::Whole(_) => {
                    return Err(io::Error::other("the master ships what no log takes"));
                }
            }
            // One sync for all that has come.
            if input.buffer().is_empty() {
                self.ledger.durable(newest).await.map_err(io::Error::other)?;
                output.write_all(&message::frame(&Received(newest.get()))).await?;
            }
        }
    }
}

/// A record of a commit.
fn record(set: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(set.len() + changes.len() + 5);
    if changes.is_empty() {
        record.push(WRITE_SET);
    } else {
        record.push(WITH_CHANGES);
        record.extend_from_slice(&u32::try_from(set.len()).expect("a frame's part").to_be_bytes());
    }
    record.extend_from_slice(set);
    record.extend_from_slice(changes);
    record
}

/// Write set and encoded changes of a record, if it is one of a commit.
pub(super) fn parts(record: &[u8]) -> Option<(&[u8], &[u8])> {
    match record.split_first()? {
        (&WRITE_SET, set) => Some((set, &[])),
        (&WITH_CHANGES, rest) => {
            let (length, rest) = rest.split_first_chunk()?;
            rest.split_at_checked(u32::from_be_bytes(*length) as usize)
        }
        _ => None,
    }
}

/// Reads one frame.
///
/// # Errors
/// The connection has ended, or the frame is damaged.
pub(crate) async fn read<T: serde::de::DeserializeOwned>(
    from: &mut (impl AsyncReadExt + Unpin),
) -> io::Result<T> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header).await?;
    let mut body = vec![0; message::body_length(&header)?];
    from.read_exact(&mut body).await?;
    message::parse(&header, &body)
}
