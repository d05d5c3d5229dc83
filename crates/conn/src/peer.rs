//! One end of a connection: a socket with its unparsed input and its unsent output. Buffers are borrowed from
//! the thread only while they hold bytes, so that an idle connection owns none.
//!
//! Output is not flushed per message: it is gathered, and written once when there is nothing more to gather.

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

/// Size of one buffer, in bytes.
pub const ROOM_BYTES: usize = 32 * 1024;
/// Maximum number of spare buffers that a thread keeps.
const ROOMS_KEPT: usize = 64;
/// Output is written at the latest when this many bytes are gathered.
pub const GATHERED_BYTES: usize = 2 * ROOM_BYTES;
/// Maximum number of unread bytes that are buffered from a peer while another wait is in progress.
const UNREAD_BYTES: usize = 8 * GATHERED_BYTES;

/// Spare buffers of the thread.
#[derive(Clone, Default)]
pub struct Rooms(Rc<RefCell<Spare>>);

#[derive(Default)]
struct Spare {
    inboxes: Vec<Vec<u8>>,
    outboxes: Vec<Vec<u8>>,
}

impl Rooms {
    /// Returns a buffer to read into: its length is its size.
    fn inbox(&self) -> Vec<u8> {
        self.0.borrow_mut().inboxes.pop().unwrap_or_else(|| vec![0; ROOM_BYTES])
    }

    /// Returns an empty buffer to write from.
    pub fn outbox(&self) -> Vec<u8> {
        self.0.borrow_mut().outboxes.pop().unwrap_or_else(|| Vec::with_capacity(ROOM_BYTES))
    }

    /// Number of spare buffers.
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

    /// Returns an output buffer to the spare ones, for the next peer that sends.
    pub fn outbox_back(&self, mut room: Vec<u8>) {
        let spare = &mut self.0.borrow_mut().outboxes;
        if (1..=GATHERED_BYTES).contains(&room.capacity()) && spare.len() < ROOMS_KEPT {
            room.clear();
            spare.push(room);
        }
    }
}

/// One end of a connection.
///
/// Invariants: `start <= end <= inbox.len()`, `sent <= outbox.len()`. After [`Peer::rest`], a peer without
/// unread bytes has no inbox, and a peer without unsent bytes has no outbox.
pub struct Peer {
    socket: Socket,
    rooms: Rooms,
    /// Cuts the input into frames.
    pub splitter: Splitter,
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    outbox: Vec<u8>,
    sent: usize,
    moved: Moved,
    stall: Option<Rc<Stall>>,
}

/// Time since which the other end accepts no output; `None` while it accepts some.
pub type Stall = Cell<Option<Instant>>;

/// Bytes that a socket received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
}

impl Peer {
    /// Creates a peer on `socket` that buffers frames of up to `hold_bytes` bytes whole.
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

    /// Records in `stall`, from now on, since when the other end accepts no output.
    pub fn notes_stalls(&mut self, stall: Rc<Stall>) {
        self.stall = Some(stall);
    }

    /// Records that the other end has accepted output (`something`), or accepts none now.
    fn takes(&self, something: bool) {
        if let Some(stall) = &self.stall {
            stall.set(if something { None } else { stall.get().or_else(|| Some(Instant::now())) });
        }
    }

    /// Bytes received since the last [`Peer::take_moved`].
    pub fn received(&self) -> u64 {
        self.moved.received
    }

    /// Returns the bytes moved since the last call, and starts again at zero.
    pub fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Input that is not consumed yet.
    pub fn unread(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    /// Puts input in front that the other end has already sent to another process.
    pub fn has_come(&mut self, bytes: &[u8]) {
        self.inbox.truncate(self.end);
        self.inbox.extend_from_slice(bytes);
        self.end = self.inbox.len();
    }

    /// Unconsumed input, together with the splitter that cuts frames out of it.
    pub fn cut(&mut self) -> (&[u8], &mut Splitter) {
        (&self.inbox[self.start..self.end], &mut self.splitter)
    }

    /// Consumes the first `bytes` of the input.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "nothing is consumed that has not come");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// The output buffer, to append to.
    pub fn out(&mut self) -> &mut Vec<u8> {
        if self.outbox.capacity() == 0 {
            self.outbox = self.rooms.outbox();
        }
        &mut self.outbox
    }

    /// Appends a filled buffer to the output, after the bytes that are already there.
    pub fn hand_over(&mut self, mut filled: Vec<u8>) {
        if self.outbox.is_empty() {
            std::mem::swap(&mut self.outbox, &mut filled);
        } else {
            self.outbox.append(&mut filled);
        }
        self.rooms.outbox_back(filled);
    }

    /// The socket's descriptor, if another process could go on with the socket.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.descriptor()
    }

    /// Spare buffers of the thread.
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Discards the unsent output: the other end has closed.
    pub fn forget_unsent(&mut self) {
        self.outbox.clear();
        self.sent = 0;
    }

    /// Number of bytes that are not sent yet.
    pub fn unsent(&self) -> usize {
        self.outbox.len() - self.sent
    }

    /// Returns empty buffers to the spare ones.
    pub fn rest(&mut self) {
        if self.start == self.end && !self.inbox.is_empty() {
            self.rooms.inbox_back(std::mem::take(&mut self.inbox));
        }
        if self.outbox.is_empty() && self.outbox.capacity() > 0 {
            self.rooms.outbox_back(std::mem::take(&mut self.outbox));
        }
    }

    /// Makes room after the unread bytes.
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

    /// Reads more input after the unread bytes.
    ///
    /// # Errors
    /// The other end has closed.
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

    /// Completes when the other end has closed. Input that arrives meanwhile stays unread, up to a limit: a
    /// close after more input is not seen.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.unread().len() < UNREAD_BYTES {
            if ready!(self.poll_fill(cx)).is_err() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Writes the output; completes when all of it is sent.
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

    /// [`Peer::poll_fill`] as a future.
    pub async fn fill(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// [`Peer::poll_send`] as a future.
    pub async fn send(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_send(cx)).await
    }

    /// Waits for a whole frame of at most `limit` bytes at the start of the unread input, and returns its
    /// length. Meant for log-ins, where no frame is large.
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

    /// Sends the output and closes the sending side.
    pub async fn finish(&mut self) {
        if self.send().await.is_ok() {
            let _ = poll_fn(|cx| Pin::new(&mut self.socket).poll_shutdown(cx)).await;
        }
    }

    /// Writes as much output as the socket accepts at once: a last message to a peer that may not read any
    /// more.
    pub fn send_now(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let _ = self.poll_send(&mut cx);
    }

    /// Returns the bare socket, for TLS to begin on it. All input must have been consumed.
    pub fn into_socket(mut self) -> Option<Socket> {
        (self.start == self.end).then(|| {
            self.rest();
            self.socket
        })
    }
}

/// The error for a stream that violates the protocol.
pub fn malformed(why: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The protocol violation that this error carries, if it carries one.
pub fn malformation(error: &io::Error) -> Option<Malformed> {
    error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
}
