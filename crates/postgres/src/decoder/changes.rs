//! The rows of one commit as the stream delivered them, to be applied elsewhere.
//!
//! ```text
//! relations   [accounts, history]            as they were described when the rows came
//! in memory   (0, U..)(1, I..)(2, T..)       which of them, and the message: a slice of the received data
//! in a file   the same, length by length; a file that has no name any more, of this commit alone or of many
//! lost        too much for memory, and no room for a file: reading them is an error
//! ```
//!
//! A table may be described again in mid-transaction (DDL between two rows). Then it stands twice among the
//! relations, and each row points at the description that it came under. A truncation concerns several
//! tables: it carries how many were known by then, and its numbers mean the last description of each.

use super::message::Relation;
use crate::unique_name;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that one kept message costs in addition to its content.
const EACH_BYTES: usize = size_of::<(u32, Bytes)>();
/// Bytes before a spilled message: its relation index and its length.
const HEAD_BYTES: usize = 8;
/// Bytes of one read or write of the file; a larger message is one piece.
const PIECE_BYTES: usize = 256 * 1024;

/// Bit of a truncation's options: RESTART IDENTITY.
const RESTARTS: u8 = 2;

/// Bit of a row's relation index that marks a truncation: the rest is not an index, but the number of known
/// tables.
const SEVERAL: u32 = 1 << 31;

/// The rows of one commit, in the order in which they were written. Cheap to clone.
///
/// Up to [`Changes::MAX_IN_MEMORY_BYTES`] of them lie in memory. More than that goes to an unnamed file in
/// the folder for large temporary files (`TMPDIR`, else `/var/tmp`). The file ends with the last clone,
/// however the process ends. If it cannot be written (the disk is full) the rows are lost: reading them
/// returns an error, and the stream goes on. Otherwise the stream would repeat the same transaction for ever,
/// while the primary keeps its WAL for no reader.
#[derive(Clone, Debug)]
pub struct Changes {
    relations: Arc<[Arc<Relation>]>,
    messages: Messages,
    count: u64,
    bytes: u64,
    restarts: bool,
}

#[derive(Clone, Debug)]
enum Messages {
    Here(Arc<[(u32, Bytes)]>),
    /// The rows lie in this file, from this position on.
    Filed(Arc<File>, u64),
    /// The rows are lost, for this reason.
    Lost(Arc<str>),
}

impl Changes {
    /// Maximum bytes of one transaction's rows in memory.
    pub const MAX_IN_MEMORY_BYTES: usize = 16 * 1024 * 1024;

    /// Number of messages: one per row, one per TRUNCATE.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of the messages and their overhead; zero if they are lost.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if they lie in a file.
    pub fn filed(&self) -> bool {
        matches!(self.messages, Messages::Filed(..))
    }

    /// Returns true if a TRUNCATE among them restarts sequences.
    pub fn restarts(&self) -> bool {
        self.restarts
    }

    /// Tables of the rows.
    pub fn relations(&self) -> &[Arc<Relation>] {
        &self.relations
    }

    /// Reads the rows from the beginning.
    pub fn read(&self) -> Reader<'_> {
        let at = match self.messages {
            Messages::Here(_) | Messages::Lost(_) => 0,
            Messages::Filed(_, at) => at,
        };
        Reader { changes: self, next: 0, piece: BytesMut::new(), at }
    }
}

/// One message of a commit.
#[derive(Debug)]
pub struct Change<'a> {
    relations: &'a [Arc<Relation>],
    place: u32,
    /// The message as the stream delivered it; [`message::read`](super::message::read) reads it.
    pub message: Bytes,
}

impl<'a> Change<'a> {
    /// Table of a row. `None` for a message about several tables.
    pub fn relation(&self) -> Option<&'a Arc<Relation>> {
        self.relations.get(self.place as usize)
    }

    /// Returns the table with this number, of a message about several tables.
    pub fn relation_of(&self, id: u32) -> Option<&'a Arc<Relation>> {
        let known = (self.place & !SEVERAL) as usize;
        self.relations.get(..known)?.iter().rfind(|relation| relation.id == id)
    }
}

/// Reader of the messages of one commit.
pub struct Reader<'a> {
    changes: &'a Changes,
    /// Number of returned messages.
    next: u64,
    /// Bytes that were read from the file and not returned yet, and the file's next position.
    piece: BytesMut,
    at: u64,
}

impl<'a> Reader<'a> {
    /// Returns the next change; `None` after the last. Lost rows are an error at once: there is at least one
    /// message of them.
    ///
    /// # Errors
    /// Those of reading the file; [`io::ErrorKind::Other`] with the reason if the rows are lost.
    #[expect(clippy::should_implement_trait, reason = "an iterator would go on behind an error")]
    pub fn next(&mut self) -> io::Result<Option<Change<'a>>> {
        if self.next == self.changes.count {
            return Ok(None);
        }
        let (place, message) = match &self.changes.messages {
            Messages::Here(all) => {
                let (place, message) =
                    &all[usize::try_from(self.next).expect("the count was held in memory")];
                (*place, message.clone())
            }
            Messages::Filed(file, _) => self.filed(file)?,
            Messages::Lost(why) => return Err(io::Error::other(&**why)),
        };
        self.next += 1;
        Ok(Some(Change { relations: &self.changes.relations, place, message }))
    }

    fn filed(&mut self, file: &File) -> io::Result<(u32, Bytes)> {
        self.fill(file, HEAD_BYTES)?;
        let head = self.piece.split_to(HEAD_BYTES);
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (place, length) = (word(0), word(4) as usize);
        self.fill(file, length)?;
        Ok((place, self.piece.split_to(length).freeze()))
    }

    /// Reads until this much of the file is here.
    fn fill(&mut self, file: &File, wanted: usize) -> io::Result<()> {
        while self.piece.len() < wanted {
            let had = self.piece.len();
            self.piece.resize(had + PIECE_BYTES.max(wanted - had), 0);
            let read = file.read_at(&mut self.piece[had..], self.at)?;
            self.piece.truncate(had + read);
            self.at += read as u64;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// The rows of the transaction that is coming out.
///
/// Invariants: `here_bytes <= Changes::MAX_IN_MEMORY_BYTES` between two messages; nothing is kept of lost
/// rows.
#[derive(Debug, Default)]
pub(super) struct Kept {
    relations: Vec<Arc<Relation>>,
    /// Index of each table among them, by its number.
    places: BTreeMap<u32, u32>,
    here: Vec<(u32, Bytes)>,
    here_bytes: usize,
    spilled: Option<File>,
    /// Reason why there is no file.
    lost: Option<Arc<str>>,
    count: u64,
    bytes: u64,
    restarts: bool,
}

impl Kept {
    /// Keeps a message if it is about rows. `known` finds the table with a number. `None`: it is malformed.
    pub(super) fn add<'r>(
        &mut self,
        message: Bytes,
        known: impl Fn(u32) -> Option<&'r Arc<Relation>>,
    ) -> Option<()> {
        let word = |at: usize| {
            message.get(at..at + 4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
        };
        let place = match message.first() {
            Some(b'I' | b'U' | b'D') => self.place(word(1).and_then(&known)?),
            Some(b'T') => {
                for table in 0..word(1)? as usize {
                    self.place(word(6 + 4 * table).and_then(&known)?);
                }
                self.restarts |= message.get(5).is_some_and(|options| options & RESTARTS != 0);
                several(self.relations.len())
            }
            _ => return Some(()),
        };
        self.count += 1;
        if self.lost.is_some() {
            return Some(());
        }
        let bytes = message.len() + EACH_BYTES;
        self.bytes += bytes as u64;
        self.here_bytes += bytes;
        self.here.push((place, message));
        if self.here_bytes > Changes::MAX_IN_MEMORY_BYTES {
            self.spill();
        }
        Some(())
    }

    fn place(&mut self, relation: &Arc<Relation>) -> u32 {
        if let Some(place) = self.places.get(&relation.id)
            && Arc::ptr_eq(&self.relations[*place as usize], relation)
        {
            return *place;
        }
        let place = u32::try_from(self.relations.len()).expect("a transaction meets fewer tables");
        self.relations.push(relation.clone());
        self.places.insert(relation.id, place);
        place
    }

    /// Moves the rows in memory to the file. If that fails, all rows are lost.
    fn spill(&mut self) {
        if let Err(error) = self.write_out() {
            let why = format!("cannot write them to a file: {}", named(&error));
            self.lost = Some(why.into());
            // The begun file takes space that other rows may need.
            (self.here, self.spilled) = (Vec::new(), None);
            (self.here_bytes, self.bytes) = (0, 0);
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let file = match &mut self.spilled {
            Some(file) => file,
            none => none.insert(nameless_file()?),
        };
        let mut piece = Vec::with_capacity(PIECE_BYTES * 2);
        for (place, message) in self.here.drain(..) {
            write(&mut piece, place, &message);
            if piece.len() > PIECE_BYTES {
                file.write_all(&piece)?;
                piece.clear();
            }
        }
        self.here_bytes = 0;
        file.write_all(&piece)
    }

    /// Finishes the rows of a committed transaction.
    pub(super) fn finish(mut self) -> Changes {
        if self.spilled.is_some() {
            self.spill();
        }
        let relations: Arc<[_]> = self.relations.into();
        let messages = match (self.lost, self.spilled) {
            (Some(why), _) => Messages::Lost(why),
            (None, Some(file)) => Messages::Filed(Arc::new(file), 0),
            (None, None) => Messages::Here(self.here.into()),
        };
        Changes { relations, messages, count: self.count, bytes: self.bytes, restarts: self.restarts }
    }
}

/// Storage for the rows of many commits that exceed the memory bound: files without names, one after the
/// other. Each file ends with the last commit in it.
#[derive(Debug, Default)]
pub struct Archive {
    /// File that is written, with its length.
    file: Option<(Arc<File>, u64)>,
}

impl Archive {
    /// Length at which a file is complete, and the next one begins.
    const FILE_BYTES: u64 = 64 * 1024 * 1024;

    /// Moves rows from memory into files. Returns the number of the given rows' bytes that lie in files now.
    ///
    /// # Errors
    /// The file cannot be made or written: all rows are where they were.
    pub fn put<'a>(&mut self, all: impl Iterator<Item = &'a mut Changes>) -> io::Result<u64> {
        self.write_out(all).map_err(|error| {
            // A full disk must hold no unused data: the file ends with the last commit in it.
            self.file = None;
            io::Error::new(error.kind(), named(&error))
        })
    }

    fn write_out<'a>(&mut self, all: impl Iterator<Item = &'a mut Changes>) -> io::Result<u64> {
        let (file, end) = match self.file.take().filter(|(_, end)| *end < Self::FILE_BYTES) {
            Some(begun) => begun,
            None => (Arc::new(nameless_file()?), 0),
        };
        let (_, end) = self.file.insert((file.clone(), end));
        let (mut at, mut piece, mut placed, mut bytes) = (*end, Vec::new(), Vec::new(), 0);
        for changes in all {
            bytes += changes.bytes;
            let Messages::Here(messages) = &changes.messages else { continue };
            let begins = at + piece.len() as u64;
            for (place, message) in messages.iter() {
                write(&mut piece, *place, message);
                if piece.len() > PIECE_BYTES {
                    file.write_all_at(&piece, at)?;
                    at += piece.len() as u64;
                    piece.clear();
                }
            }
            placed.push((changes, begins));
        }
        file.write_all_at(&piece, at)?;
        *end = at + piece.len() as u64;
        for (changes, begins) in placed {
            changes.messages = Messages::Filed(file.clone(), begins);
        }
        Ok(bytes)
    }
}

/// Writes one message, as it lies in a file.
fn write(piece: &mut Vec<u8>, place: u32, message: &[u8]) {
    let length = u32::try_from(message.len()).expect("a message is shorter than its length field allows");
    piece.extend_from_slice(&place.to_be_bytes());
    piece.extend_from_slice(&length.to_be_bytes());
    piece.extend_from_slice(message);
}

/// Returns the relation index of a message about several tables, when this many were known.
fn several(known: usize) -> u32 {
    SEVERAL | u32::try_from(known).expect("a transaction meets fewer tables")
}

fn nameless_file() -> io::Result<File> {
    let path = large_files().join(unique_name("rows"));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    remove_file(&path)?;
    Ok(file)
}

/// Text of a file error, with its folder: space must be freed there.
fn named(error: &io::Error) -> String {
    format!("{}: {error}", large_files().display())
}

/// Folder for large temporary files: the system's usual one is often in memory (file-hierarchy(7)).
fn large_files() -> PathBuf {
    const LARGE: &str = "/var/tmp";
    let said = std::env::var_os("TMPDIR").map(PathBuf::from);
    said.unwrap_or_else(|| if Path::new(LARGE).is_dir() { LARGE.into() } else { std::env::temp_dir() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(id: u32, name: &str) -> Arc<Relation> {
        let (schema, columns) = ("public".to_owned(), Vec::new());
        Arc::new(Relation { id, schema, name: name.to_owned(), identity: b'd', columns })
    }

    fn row(relation: u32, filling: &[u8]) -> Bytes {
        let mut message = b"I".to_vec();
        message.extend(relation.to_be_bytes());
        message.extend(filling);
        message.into()
    }

    fn all(changes: &Changes) -> Vec<(String, Bytes)> {
        let mut reader = changes.read();
        let mut all = Vec::new();
        while let Some(change) = reader.next().unwrap() {
            let name = |id| change.relation_of(id).map(|relation| relation.name.clone());
            let name = change.relation().map(|relation| relation.name.clone()).or_else(|| name(1));
            all.push((name.unwrap(), change.message));
        }
        all
    }

    #[test]
    fn each_row_knows_its_table_as_it_was_then() {
        let (before, after) = (relation(1, "before"), relation(1, "after"));
        let mut kept = Kept::default();
        let truncation = Bytes::from_static(b"T\0\0\0\x01\0\0\0\0\x01");
        for known in [&before, &after] {
            kept.add(row(1, b"x"), |_| Some(known)).unwrap();
            kept.add(truncation.clone(), |_| Some(known)).unwrap();
        }
        kept.add(Bytes::from_static(b"Y"), |_| None).unwrap();
        let changes = kept.finish();
        let names: Vec<String> = all(&changes).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["before", "before", "after", "after"]);
        assert_eq!((changes.count(), changes.restarts()), (4, false));
        let mut kept = Kept::default();
        kept.add(Bytes::from_static(b"T\0\0\0\x01\x02\0\0\0\x01"), |_| Some(&before)).unwrap();
        kept.add(truncation, |_| Some(&before)).unwrap();
        assert!(kept.finish().restarts());
    }

    #[test]
    fn what_is_too_much_for_memory_comes_back_from_a_file() {
        let table = relation(1, "t");
        let mut kept = Kept::default();
        let mut rows = Vec::new();
        for number in 0..60_u32 {
            // Some messages are larger than a piece of the file, some tiny.
            let length = if number % 7 == 0 { 3 * PIECE_BYTES } else { 5 };
            rows.push(row(1, &vec![u8::try_from(number).unwrap(); length]));
        }
        rows.push(row(1, &vec![9; Changes::MAX_IN_MEMORY_BYTES]));
        rows.push(row(1, b"last"));
        for row in &rows {
            kept.add(row.clone(), |_| Some(&table)).unwrap();
            assert!(kept.here_bytes <= Changes::MAX_IN_MEMORY_BYTES);
        }
        let changes = kept.finish();
        assert!(changes.filed());
        for _ in 0..2 {
            let read: Vec<Bytes> = all(&changes).into_iter().map(|(_, message)| message).collect();
            assert!(read == rows, "{} rows", read.len());
        }
    }

    #[test]
    fn rows_of_many_commits_come_back_from_the_archive() {
        let table = relation(1, "t");
        let commit = |number: u8, length: usize| {
            let mut kept = Kept::default();
            for _ in 0..3 {
                kept.add(row(1, &vec![number; length]), |_| Some(&table)).unwrap();
            }
            kept.finish()
        };
        let mut archive = Archive::default();
        let mut changes: Vec<Changes> =
            (0..9).map(|number| commit(number, 1 + 50_000 * number as usize)).collect();
        let before: Vec<_> = changes.iter().map(all).collect();
        for few in changes.chunks_mut(4) {
            let bytes: u64 = few.iter().map(Changes::bytes).sum();
            assert_eq!(archive.put(few.iter_mut()).unwrap(), bytes);
        }
        assert!(changes.iter().all(Changes::filed));
        // Rows in a file stay there.
        let (file, end) = archive.file.clone().unwrap();
        assert_eq!(archive.put(changes[..1].iter_mut()).unwrap(), changes[0].bytes());
        assert_eq!(archive.file.as_ref().unwrap().1, end);
        // The next file is begun, and the first one stays as long as a commit in it is wanted.
        archive.file = Some((file, Archive::FILE_BYTES));
        let mut last = commit(200, 10);
        archive.put(std::iter::once(&mut last)).unwrap();
        assert!(archive.file.as_ref().unwrap().1 < 100);
        assert_eq!(all(&last).len(), 3);
        assert!(changes.iter().map(all).eq(before));
    }

    /// Returns a file on a disk that is full.
    fn on_a_full_disk() -> File {
        OpenOptions::new().read(true).write(true).open("/dev/full").unwrap()
    }

    #[test]
    fn rows_for_which_no_file_has_room_are_lost_and_who_reads_them_hears_so() {
        let table = relation(1, "t");
        for rows in [1, 3] {
            let mut kept = Kept { spilled: Some(on_a_full_disk()), ..Kept::default() };
            for _ in 0..rows {
                kept.add(row(1, &vec![9; Changes::MAX_IN_MEMORY_BYTES]), |_| Some(&table)).unwrap();
                assert_eq!((kept.here_bytes, kept.here.len()), (0, 0));
                assert!(kept.spilled.is_none(), "its room is given back");
            }
            let changes = kept.finish();
            assert_eq!((changes.count(), changes.bytes(), changes.filed()), (rows, 0, false));
            let why = changes.read().next().unwrap_err().to_string();
            assert!(why.contains(&large_files().display().to_string()), "{why}");
            assert!(why.contains("No space left on device"), "{why}");
        }
    }

    #[test]
    fn rows_that_the_archive_has_no_room_for_stay_where_they_are() {
        let table = relation(1, "t");
        let mut kept = Kept::default();
        kept.add(row(1, b"x"), |_| Some(&table)).unwrap();
        let mut changes = kept.finish();
        let mut archive = Archive { file: Some((Arc::new(on_a_full_disk()), 0)) };
        let error = archive.put(std::iter::once(&mut changes)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        assert!(archive.file.is_none(), "its room is given back");
        assert!(!changes.filed());
        assert_eq!(all(&changes).len(), 1);
    }
}
