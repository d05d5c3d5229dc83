//! One end of a conversation: a socket with what was read and not yet understood, and what is to be written. Buffers
//! are borrowed from the thread while there is something in them, so that an idle connection owns none.
//!
//! Nothing is flushed per message: what leaves is gathered and written once, when there is nothing more to gather.

use crate::socket::Socket;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use wire::{HEADER_BYTES, Malformed, Side, Splitter};

/// The size of a buffer.
pub const ROOM_BYTES: usize = 32 * 1024;
/// So many buffers are kept for the next that needs one.
const ROOMS_KEPT: usize = 64;
/// Nothing is gathered beyond this before it is written.
pub const GATHERED_BYTES: usize = 2 * ROOM_BYTES;
/// While somebody waits no more of what it sends is read.
const UNREAD_BYTES: usize = 8 * GATHERED_BYTES;

/// The thread's spare buffers.
#[derive(Clone, Default)]
pub struct Rooms(Rc<RefCell<Spare>>);

#[derive(Default)]
struct Spare {
    inboxes: Vec<Vec<u8>>,
    outboxes: Vec<Vec<u8>>,
}

impl Rooms {
    /// A buffer to read into: its length is its size.
    fn inbox(&self) -> Vec<u8> {
        self.0.borrow_mut().inboxes.pop().unwrap_or_else(|| vec![0; ROOM_BYTES])
    }

    /// A buffer to write from: empty.
    pub fn outbox(&self) -> Vec<u8> {
        self.0.borrow_mut().outboxes.pop().unwrap_or_else(|| Vec::with_capacity(ROOM_BYTES))
    }

    /// How many spare buffers there are.
    pub fn spare(&self) -> usize {
        let spare = self.0.borrow();
        spare.inboxes.len() + spare.outboxes.len()
    }

    fn inbox_back(&self, room: Vec<u8>) {
        let spare = &mut self.0.borrow_mut().inboxes;
        if room.len() == ROOM_BYTES && spare.len() < ROOMS_KEPT {
            spare.push(room);
        }
    }

    /// An outbox comes back, for the next peer that sends.
    pub fn outbox_back(&self, mut room: Vec<u8>) {
        let spare = &mut self.0.borrow_mut().outboxes;
        if (1..=GATHERED_BYTES).contains(&room.capacity()) && spare.len() < ROOMS_KEPT {
            room.clear();
            spare.push(room);
        }
    }
}

/// One end of a conversation.
///
/// Invariants: `start <= end <= inbox.len()`, `sent <= outbox.len()`; with nothing unread there is no inbox, with
/// nothing unsent no outbox, once [`Peer::rest`] was called.
pub struct Peer {
    socket: Socket,
    rooms: Rooms,
    /// Cuts what comes in into frames.
    pub splitter: Splitter,
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    outbox: Vec<u8>,
    sent: usize,
    moved: Moved,
    stall: Option<Rc<Stall>>,
}

/// Since when the other end takes nothing of what is to leave, if that is so.
pub type Stall = Cell<Option<Instant>>;

/// Bytes that went over a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// In.
    pub received: u64,
    /// Out.
    pub sent: u64,
}

impl Peer {
    /// A conversation over `socket` whose frames are waited for up to `hold_bytes`.
    pub fn new(socket: Socket, side: Side, hold_bytes: usize, rooms: &Rooms) -> Peer {
        Peer {
            socket,
            rooms: rooms.clone(),
            splitter: Splitter::new(side, hold_bytes),
            inbox: Vec::new(),
            start: 0,
            end: 0,
            outbox: Vec::new(),
            sent: 0,
            moved: Moved::default(),
            stall: None,
        }
    }

    /// Notes there from now on since when the other end takes nothing.
    pub fn notes_stalls(&mut self, stall: Rc<Stall>) {
        self.stall = Some(stall);
    }

    /// The other end has taken something, or takes nothing now.
    fn takes(&self, something: bool) {
        if let Some(stall) = &self.stall {
            stall.set(if something { None } else { stall.get().or_else(|| Some(Instant::now())) });
        }
    }

    /// So many bytes have come since what has moved was taken last.
    pub fn received(&self) -> u64 {
        self.moved.received
    }

    /// What has moved since this was asked last.
    pub fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// What has come and was not consumed.
    pub fn unread(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    /// The other end has sent this already, to another process.
    pub fn has_come(&mut self, bytes: &[u8]) {
        self.inbox.truncate(self.end);
        self.inbox.extend_from_slice(bytes);
        self.end = self.inbox.len();
    }

    /// What has come, beside the place where frames are cut out of it.
    pub fn cut(&mut self) -> (&[u8], &mut Splitter) {
        (&self.inbox[self.start..self.end], &mut self.splitter)
    }

    /// The first `bytes` of what has come are done with.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "nothing is consumed that has not come");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Where to write what is to leave.
    pub fn out(&mut self) -> &mut Vec<u8> {
        if self.outbox.capacity() == 0 {
            self.outbox = self.rooms.outbox();
        }
        &mut self.outbox
    }

    /// Hands a filled buffer over, to leave behind what is to leave already.
    pub fn hand_over(&mut self, mut filled: Vec<u8>) {
        if self.outbox.is_empty() {
            std::mem::swap(&mut self.outbox, &mut filled);
        } else {
            self.outbox.append(&mut filled);
        }
        self.rooms.outbox_back(filled);
    }

    /// The socket, if another process could go on with it as it is.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.descriptor()
    }

    /// The thread's spare buffers.
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// What is to leave stays: the other end is gone.
    pub fn forget_unsent(&mut self) {
        self.outbox.clear();
        self.sent = 0;
    }

    /// Bytes that have not left yet.
    pub fn unsent(&self) -> usize {
        self.outbox.len() - self.sent
    }

    /// Gives the buffers back that are empty.
    pub fn rest(&mut self) {
        if self.start == self.end && !self.inbox.is_empty() {
            self.rooms.inbox_back(std::mem::take(&mut self.inbox));
        }
        if self.outbox.is_empty() && self.outbox.capacity() > 0 {
            self.rooms.outbox_back(std::mem::take(&mut self.outbox));
        }
    }

    /// Makes place behind the unread bytes.
    fn make_place(&mut self) {
        if self.inbox.is_empty() {
            self.inbox = self.rooms.inbox();
        }
        if self.end < self.inbox.len() {
            return;
        }
        if self.start > 0 {
            self.inbox.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else {
            self.inbox.resize(self.inbox.len() * 2, 0);
        }
    }

    /// Reads more behind the unread bytes; an error if the other end has closed.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.make_place();
        let mut place = ReadBuf::new(&mut self.inbox[self.end..]);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut place))?;
        match place.filled().len() {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            more => {
                self.end += more;
                self.moved.received += more as u64;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Ready when the other end has closed. What it sends meanwhile stays unread; who sends very much is not heard to its end.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.unread().len() < UNREAD_BYTES {
            if ready!(self.poll_fill(cx)).is_err() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Writes what is to leave; ready when all of it has left.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.sent < self.outbox.len() {
            let written = Pin::new(&mut self.socket).poll_write(cx, &self.outbox[self.sent..]);
            self.takes(written.is_ready());
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => {
                    self.sent += more;
                    self.moved.sent += more as u64;
                }
            }
        }
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.takes(flushed.is_ready());
        ready!(flushed)?;
        self.outbox.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// [`Peer::poll_fill`], as a future.
    pub async fn fill(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// [`Peer::poll_send`], as a future.
    pub async fn send(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_send(cx)).await
    }

    /// Waits for a whole frame of at most `limit` bytes and returns its length; it stands at the beginning of what is
    /// unread. For log-ins, where nothing large has a place.
    pub async fn whole_frame(&mut self, limit: usize) -> io::Result<usize> {
        loop {
            if let Some(header) = self.unread().get(..HEADER_BYTES) {
                let stated = u32::from_be_bytes(header[1..].try_into().expect("four bytes")) as usize;
                if !(4..limit).contains(&stated) {
                    return Err(malformed(Malformed::Length));
                }
                if self.unread().len() > stated {
                    return Ok(stated + 1);
                }
            }
            self.fill().await?;
        }
    }

    /// What is to leave is written, and nothing more will be.
    pub async fn finish(&mut self) {
        if self.send().await.is_ok() {
            let _ = poll_fn(|cx| Pin::new(&mut self.socket).poll_shutdown(cx)).await;
        }
    }

    /// Writes what can be written at once, for a last word to somebody who may not listen any more.
    pub fn send_now(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let _ = self.poll_send(&mut cx);
    }

    /// The socket alone, for TLS to begin on it; what was read must have been consumed.
    pub fn into_socket(mut self) -> Option<Socket> {
        (self.start == self.end).then(|| {
            self.rest();
            self.socket
        })
    }
}

/// The error of a stream that does not follow the protocol.
pub fn malformed(why: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Why the stream does not follow the protocol, if that is the error.
pub fn malformation(error: &io::Error) -> Option<Malformed> {
    error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
}
