//! Cuts a byte stream into frames: one byte for the type, four for the length, and a body.
//!
//! A frame may be split anywhere between two reads, also inside its five header bytes. Frames up to a bound
//! are waited for. Larger ones (a DataRow of 8 MB, COPY data) are handed on in parts as they come, so that no
//! length that a peer names ever becomes an allocation. Server messages other than rows are waited for up to
//! a bound of their own: they decide how the conversation goes on.

use crate::tag::{back, front};
use thiserror::Error;

/// Bytes before a frame's body: its tag and its length.
pub const HEADER_BYTES: usize = 5;

/// The longest message that PostgreSQL takes or sends (`MaxAllocSize - 1`).
const LONGEST_BYTES: u32 = 0x3FFF_FFFE;
/// The longest of those client messages that have no business to be long (`PQ_SMALL_MESSAGE_LIMIT`).
const LONGEST_SMALL_BYTES: u32 = 10_000;

/// Maximum size, in bytes, of a held server message other than rows and COPY data. A RowDescription of 1,600
/// columns has 130 kB; only an error or a notice that quotes a value, and the result of a function call, can
/// be longer.
const TOLD_BYTES: usize = 1 << 20;

/// The peer does not speak the protocol. Nothing after this point of its stream can be trusted: it gets
/// SQLSTATE 08P01 and its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The tag is not one that this side may send.
    #[error("invalid frontend message type {0}")]
    UnknownTag(u8),
    /// The length is shorter than the length field, or longer than this message may be.
    #[error("invalid message length")]
    Length,
    /// The body is not laid out as its tag demands.
    #[error("invalid message format")]
    Body,
    /// The start-up packet's length is out of bounds.
    #[error("invalid length of startup packet")]
    StartupLength,
    /// The start-up packet's body is not a list of names and values that ends in a zero byte.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    StartupLayout,
    /// A SCRAM message that does not follow RFC 5802.
    #[error("malformed SCRAM message")]
    Scram,
}

/// Whose messages a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Messages of a client.
    Client,
    /// Messages of a server.
    Server,
}

impl Side {
    /// The longest message with this tag that is waited for, where others are up to `hold_bytes`.
    fn held(self, tag: u8, hold_bytes: usize) -> usize {
        match (self, tag) {
            (Side::Client, _) | (Side::Server, back::DATA_ROW | back::COPY_DATA) => hold_bytes,
            (Side::Server, _) => hold_bytes.max(TOLD_BYTES),
        }
    }

    /// The greatest length that a message with this tag may name.
    fn longest(self, tag: u8) -> Result<u32, Malformed> {
        match (self, tag) {
            (Side::Server, _) => Ok(u32::MAX >> 1),
            (_, front::QUERY | front::FUNCTION_CALL | front::BIND | front::PARSE | front::COPY_DATA) => {
                Ok(LONGEST_BYTES)
            }
            (_, front::PASSWORD) => Ok(65_535),
            (
                _,
                front::CLOSE
                | front::COPY_DONE
                | front::COPY_FAIL
                | front::DESCRIBE
                | front::EXECUTE
                | front::FLUSH
                | front::SYNC
                | front::TERMINATE,
            ) => Ok(LONGEST_SMALL_BYTES),
            (_, tag) => Err(Malformed::UnknownTag(tag)),
        }
    }
}

/// A whole message, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The whole frame at the beginning of `bytes`, which must be exactly one.
    pub fn new(bytes: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        let stated = bytes.get(1..HEADER_BYTES).ok_or(Malformed::Length)?;
        let stated = u32::from_be_bytes(stated.try_into().expect("four bytes")) as usize;
        if stated + 1 == bytes.len() { Ok(Frame { bytes }) } else { Err(Malformed::Length) }
    }

    /// Type of the message.
    pub fn tag(&self) -> u8 {
        self.bytes[0]
    }

    /// Bytes after the header.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// All bytes, header included: these are passed on.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// A piece of a frame that is too large to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Type of its message.
    pub tag: u8,
    /// The piece. The first begins with the header.
    pub bytes: &'a [u8],
    /// True for the message's first piece.
    pub first: bool,
    /// True for the message's last piece.
    pub last: bool,
}

/// First item of the unread bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A whole frame.
    Whole(Frame<'a>),
    /// A piece of a frame that is too large to be held.
    Part(Part<'a>),
    /// Nothing that can be handed on before this many bytes in all are there.
    More(usize),
}

impl Step<'_> {
    /// Bytes that this step takes from the stream.
    pub fn len(&self) -> usize {
        match self {
            Step::Whole(frame) => frame.bytes.len(),
            Step::Part(part) => part.bytes.len(),
            Step::More(_) => 0,
        }
    }

    /// Nothing is taken: more bytes are needed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// State of a stream of frames. The splitter remembers only the rest of a frame that is handed on in parts:
/// bytes that were not taken must be shown again.
///
/// Invariants: the bytes of all steps, one after the other, are the stream; a held frame is never longer than
/// its side and tag allow.
#[derive(Clone, Copy, Debug)]
pub struct Splitter {
    side: Side,
    hold_bytes: usize,
    left_bytes: usize,
    tag: u8,
}

impl Splitter {
    /// A stream at its beginning. Frames of at most `hold_bytes` are waited for, larger ones come in parts,
    /// of which the first has as many bytes at least. Server messages other than rows may be longer.
    pub fn new(side: Side, hold_bytes: usize) -> Splitter {
        assert!(hold_bytes >= HEADER_BYTES, "a header must fit");
        Splitter { side, hold_bytes, left_bytes: 0, tag: 0 }
    }

    /// In the middle of a frame that comes in parts.
    pub fn is_inside(&self) -> bool {
        self.left_bytes > 0
    }

    /// First item of `unread`. The caller never shows bytes that the step took again, and shows all others
    /// again.
    pub fn next<'a>(&mut self, unread: &'a [u8]) -> Result<Step<'a>, Malformed> {
        if self.left_bytes > 0 {
            return Ok(self.part(unread, false));
        }
        let Some(header) = unread.get(..HEADER_BYTES) else {
            if let Some(&tag) = unread.first() {
                self.side.longest(tag)?;
            }
            return Ok(Step::More(HEADER_BYTES));
        };
        let tag = header[0];
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        if length < 4 || length > self.side.longest(tag)? {
            return Err(Malformed::Length);
        }
        let whole = length as usize + 1;
        let held = self.side.held(tag, self.hold_bytes);
        if whole > held {
            // The first part is large enough for the names at its beginning.
            if unread.len() < held {
                return Ok(Step::More(held));
            }
            self.tag = tag;
            self.left_bytes = whole;
            return Ok(self.part(unread, true));
        }
        Ok(match unread.get(..whole) {
            Some(bytes) => Step::Whole(Frame { bytes }),
            None => Step::More(whole),
        })
    }

    fn part<'a>(&mut self, unread: &'a [u8], first: bool) -> Step<'a> {
        let bytes = &unread[..unread.len().min(self.left_bytes)];
        if bytes.is_empty() {
            return Step::More(1);
        }
        self.left_bytes -= bytes.len();
        Step::Part(Part { tag: self.tag, bytes, first, last: self.left_bytes == 0 })
    }
}
