//! Recovery: the folder is read when a ledger opens, a torn tail is cut off, and damage of durable records is an error.

use std::io;
use std::path::Path;

use disk::{Disk, Lock};
use history::Version;

use crate::record::{ALIGNMENT, Parsed, header_versions, parse};
use crate::segment::{SEGMENT_HEADER, Segment, Segments, first_version, named};
use crate::writer::{Tail, UNNAMED};
use crate::{Error, points};

/// The name of the file that is locked.
const LOCK: &str = "lock";

/// A folder that was looked through.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) segments: Segments,
    /// The newest version; nothing if no segment was ever made.
    pub(crate) newest: Option<u64>,
    /// The end of the newest segment.
    pub(crate) tail: Option<Tail>,
}

/// Locks the folder, reads all of it, and makes its end durable.
pub(crate) fn recover(folder: &Path, disk: &Disk) -> Result<(Lock, Recovered), Error> {
    let lock =
        prepare(folder, disk).map_err(|error| Error::unusable("cannot use the folder", folder, &error))?;
    let lock = lock.ok_or_else(|| Error::Locked { path: folder.to_owned() })?;
    let names = disk.list(folder).map_err(|error| Error::unusable("cannot list", folder, &error))?;
    let firsts: Vec<u64> = names.iter().filter_map(|name| named(name)).collect();
    let mut recovered = Recovered { segments: Segments::default(), newest: None, tail: None };
    for (at, first) in firsts.iter().enumerate() {
        let mut segment = Segment::new(*first, folder);
        let scanned = scan(&mut segment, disk)?;
        match firsts.get(at + 1) {
            Some(next) if *next == scanned.missing => {}
            Some(next) => return Err(scanned.lacks(&segment.path, *next)),
            None => recovered.tail = Some(finish(&segment.path, scanned, disk, &mut recovered.newest)?),
        }
        recovered.segments.push(segment);
    }
    let synced = disk.sync_folder(points::SYNC_FOLDER, folder);
    synced.map_err(|error| Error::unusable("cannot sync the folder", folder, &error))?;
    Ok((lock, recovered))
}

/// Makes the folder and locks it; nothing if another process has it.
fn prepare(folder: &Path, disk: &Disk) -> io::Result<Option<Lock>> {
    disk.create_folder(points::FOLDER, folder)?;
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        match disk.sync_folder(points::SYNC_FOLDER, parent) {
            // A folder that another user has made lies in one that this user may not read. Its name is on the disk.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    let Some(lock) = disk.lock(&folder.join(LOCK))? else { return Ok(None) };
    match disk.remove(points::FORGET, &folder.join(UNNAMED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(Some(lock)),
    }
}

/// A segment that was read up to the first place without a whole record that follows.
struct Scanned {
    bytes: Vec<u8>,
    /// The offset of that place.
    end: usize,
    /// The version that would have been there.
    missing: u64,
    /// The offset of the last group, and the version that was durable when it was written.
    last_group: (usize, u64),
}

fn scan(segment: &mut Segment, disk: &Disk) -> Result<Scanned, Error> {
    let read = || {
        let file = disk.open_to_read(&segment.path)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
        let read = file.read_at(&mut bytes, 0)?;
        // The file may end in the zeros after a whole record.
        bytes.resize(read.next_multiple_of(ALIGNMENT), 0);
        Ok(bytes)
    };
    let bytes = read().map_err(|error| Error::unusable("cannot read", &segment.path, &error))?;
    let first = first_version(&bytes).map_err(|reason| Error::damaged(&segment.path, 0, reason))?;
    if first != segment.first {
        let reason = format!("the header says that the segment begins with {}", Version::new(first));
        return Err(Error::damaged(&segment.path, 0, reason));
    }
    let (mut end, mut missing, mut last_group) = (SEGMENT_HEADER, first, (SEGMENT_HEADER, first - 1));
    while let Parsed::Record(found) = parse(bytes.get(end..).unwrap_or_default()) {
        if found.version != missing {
            break;
        }
        if found.synced > last_group.1 {
            last_group = (end, found.synced);
        }
        let next = end + found.span();
        segment.note(missing, end as u64, next as u64);
        (end, missing) = (next, missing + 1);
    }
    Ok(Scanned { bytes, end, missing, last_group })
}

impl Scanned {
    /// The segment should have had all records up to the next segment's first.
    fn lacks(&self, path: &Path, next: u64) -> Error {
        let (missing, next) = (Version::new(self.missing), Version::new(next));
        let reason =
            format!("the record {missing} is missing or broken, and the next segment begins with {next}");
        Error::damaged(path, self.end as u64, reason)
    }

    /// A version after the end that was written when the missing record was durable.
    fn proof_of_damage(&self) -> Option<u64> {
        let mut places = (self.end..self.bytes.len()).step_by(ALIGNMENT).map(|at| &self.bytes[at..]);
        places.find_map(|bytes| {
            // Few places that are no header pass this, so that few checksums of payloads are computed in vain.
            let (version, synced) = header_versions(bytes)?;
            let is_proof = (self.missing..version).contains(&synced);
            (is_proof && matches!(parse(bytes), Parsed::Record(_))).then_some(version)
        })
    }
}

/// Cuts off the torn tail of the newest segment, and makes its last group durable.
fn finish(path: &Path, scanned: Scanned, disk: &Disk, newest: &mut Option<u64>) -> Result<Tail, Error> {
    if let Some(later) = scanned.proof_of_damage() {
        let (missing, later) = (Version::new(scanned.missing), Version::new(later));
        let reason =
            format!("the record {missing} is missing or broken, and was durable before {later} was written");
        return Err(Error::damaged(path, scanned.end as u64, reason));
    }
    *newest = Some(scanned.missing - 1);
    let (end, begin) = (scanned.end as u64, scanned.last_group.0);
    let make_durable = || {
        let file = disk.open(path)?;
        let torn = scanned.bytes[scanned.end..].iter().any(|byte| *byte != 0);
        if torn {
            file.set_len(points::CUT, end)?;
        }
        file.write_at(points::REWRITE, &scanned.bytes[begin..scanned.end], begin as u64)?;
        file.sync(points::SYNC_TAIL)?;
        let length = file.len()?;
        Ok(Tail { file, end, length })
    };
    make_durable().map_err(|error| Error::unusable("cannot make durable", path, &error))
}
