//! Checkpoints: all pages at a version, in a file, so that the query log can forget what is older.
//!
//! The file is frames as nodes send them: pages, then the version of the whole. A checkpoint counts when its version is decided.

use super::Options;
use super::log::Log;
use crate::message::{self, FRAME_LIMIT, Hello, Purpose, Ship, Version};
use disk::{Disk, Point};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A checkpoint is written.
const WRITE: Point = "tier.checkpoint";
/// A checkpoint gets its name.
const NAME: Point = "tier.checkpoint_name";

/// A part of a checkpoint: pages, and with the last ones the version of the whole.
type Part = io::Result<(Pages, Option<Version>)>;

/// Pages as nodes send them: number, version, bytes.
pub(super) type Pages = Vec<(u32, Version, Vec<u8>)>;

fn place(folder: &Path) -> PathBuf {
    folder.join("checkpoint")
}

/// Copies all pages of a node, at this acknowledged version or a newer one, into a new file. Blocks. Returns the version; the
/// file does not count before [`counts`].
///
/// # Errors
/// The node or the disk; also a node that gives nothing for as long as `silence`.
pub(super) fn write(
    folder: &Path,
    options: &Options,
    node: usize,
    at: Version,
    silence: Duration,
) -> io::Result<Version> {
    let stream = options.links.connect_blocking(&options.nodes[node].address)?;
    stream.set_read_timeout(Some(silence))?;
    stream.set_write_timeout(Some(silence))?;
    let purpose = Purpose::Pages { newer_than: 0, at_least: at };
    message::write(&mut &stream, &Hello { secret: options.secret.clone(), purpose })?;
    let mut input = BufReader::with_capacity(1 << 20, &stream);
    let (disk, new) = (Disk::new(), place(folder).with_extension("new"));
    if new.exists() {
        disk.remove(WRITE, &new)?;
    }
    let file = disk.create(WRITE, &new)?;
    let mut length = 0;
    loop {
        let ship: Ship = message::read(&mut input)?;
        if let Ship::Refused(why) = ship {
            return Err(io::Error::other(why));
        }
        let frame = message::frame(&ship);
        debug_assert!(frame.len() <= FRAME_LIMIT);
        file.write_at(WRITE, &frame, length)?;
        length += frame.len() as u64;
        if let Ship::Whole(version) = ship {
            file.sync(WRITE)?;
            return Ok(version);
        }
    }
}

/// A checkpoint of an empty database at a version. It does not count before [`counts`].
///
/// # Errors
/// The disk.
pub(super) fn write_empty(folder: &Path, at: Version) -> io::Result<()> {
    let (disk, new) = (Disk::new(), place(folder).with_extension("new"));
    if new.exists() {
        disk.remove(WRITE, &new)?;
    }
    let file = disk.create(WRITE, &new)?;
    file.write_at(WRITE, &message::frame(&Ship::Whole(at)), 0)?;
    file.sync(WRITE)
}

/// The new file takes the place of the one before.
///
/// # Errors
/// The disk.
pub(super) fn counts(folder: &Path) -> io::Result<()> {
    let disk = Disk::new();
    disk.rename(NAME, &place(folder).with_extension("new"), &place(folder))?;
    disk.sync_folder(NAME, folder)
}

/// The parts of the checkpoint, if there is one: pages, and with the last ones the version of the whole.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn read(folder: &Path) -> io::Result<Option<impl Iterator<Item = Part>>> {
    let file = match File::open(place(folder)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut over = false;
    Ok(Some(std::iter::from_fn(move || {
        if over {
            return None;
        }
        let part = match message::read(&mut input) {
            Ok(Ship::Pages(pages)) => Ok((pages, None)),
            Ok(Ship::Whole(version)) => Ok((Vec::new(), Some(version))),
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checkpoint holds something else than pages",
            )),
            Err(error) => Err(io::Error::new(error.kind(), format!("the checkpoint is damaged: {error}"))),
        };
        over = !matches!(part, Ok((_, None)));
        Some(part)
    })))
}

/// Whether what was copied at this version in this epoch is decided.
pub(super) fn is_decided(log: &Log, epoch: u64, version: Version) -> bool {
    log.newest() >= version && log.epochs().keeps(epoch) >= version
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{Limits, NodeOptions};
    use crate::links::Links;
    use std::net::TcpListener;

    #[test]
    fn a_node_that_gives_nothing_is_left() {
        let hung = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = hung.local_addr().unwrap().to_string();
        let node = NodeOptions { name: "hung".to_owned(), address, is_spare: false };
        let options = Options {
            nodes: vec![node],
            secret: Vec::new(),
            links: Links::default(),
            database: "postgres".to_owned(),
            limits: Limits::default(),
            spare_read_interval: 0,
            read_versions: 0,
        };
        let folder = std::env::temp_dir().join(format!("tier-checkpoint-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (told, end) = std::sync::mpsc::channel();
        let into = folder.clone();
        std::thread::spawn(move || {
            let written = write(&into, &options, 0, 0, Duration::from_millis(50));
            told.send(written.unwrap_err().kind())
        });
        let end = end.recv_timeout(Duration::from_secs(20));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(end, Ok(io::ErrorKind::WouldBlock));
    }
}
