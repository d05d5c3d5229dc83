//! The socket between the two processes: handover messages, each with a file descriptor or without one.

use super::Letter;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Header of each handover message: its length, and a flag for a descriptor.
const HEADER_BYTES: usize = 5;
/// Maximum length of a handover message: 4,096 statements of 64 kB, the most that a session keeps.
const LETTER_BYTES: usize = 512 << 20;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// The socket between the two processes.
pub(crate) struct Channel {
    stream: UnixStream,
    unread: Vec<u8>,
    /// Received descriptors of handover messages that are read later.
    came: VecDeque<OwnedFd>,
}

impl Channel {
    /// Over this socket.
    pub(crate) fn over(stream: UnixStream) -> Channel {
        Channel { stream, unread: Vec::new(), came: VecDeque::new() }
    }

    /// The peer's user and process.
    pub(crate) fn peer(&self) -> io::Result<(u32, Option<i32>)> {
        let peer = self.stream.peer_cred()?;
        Ok((peer.uid(), peer.pid()))
    }

    /// The socket alone, for another runtime: nothing that was read may be left.
    pub(crate) fn into_stream(self) -> io::Result<std::os::unix::net::UnixStream> {
        self.stream.into_std()
    }

    /// Writes a handover message. Must not be cancelled.
    pub(crate) async fn send(&self, letter: &Letter, along: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = framed(letter, along.is_some())?;
        let (mut sent, mut along) = (0, along);
        while sent < bytes.len() {
            sent +=
                self.stream.async_io(Interest::WRITABLE, || self.send_some(&bytes[sent..], along)).await?;
            along = None;
        }
        Ok(())
    }

    /// Writes a small handover message if there is room for it now, else nothing of it: for a message after a
    /// read that must go on.
    ///
    /// # Errors
    /// The other process is gone.
    pub(crate) fn send_now(&self, letter: &Letter) -> io::Result<()> {
        let bytes = framed(letter, false)?;
        match self.stream.try_io(Interest::WRITABLE, || self.send_some(&bytes, None)) {
            // The kernel takes so few bytes as a whole.
            Ok(sent) if sent < bytes.len() => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn send_some(&self, bytes: &[u8], along: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let along = along.as_slice();
        if !along.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(along));
        }
        Ok(sendmsg(self.stream.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    }

    /// The next handover message, and its descriptor. May be cancelled and called again.
    ///
    /// # Errors
    /// The other process is gone, or writes something else.
    pub(crate) async fn receive(&mut self) -> io::Result<(Letter, Option<OwnedFd>)> {
        loop {
            if let Some(letter) = self.next_letter()? {
                return Ok(letter);
            }
            let Channel { stream, unread, came } = self;
            if stream.async_io(Interest::READABLE, || receive_some(stream, unread, came)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn next_letter(&mut self) -> io::Result<Option<(Letter, Option<OwnedFd>)>> {
        let Some((header, rest)) = self.unread.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [length @ .., has_one] = *header;
        let length = u32::from_be_bytes(length) as usize;
        let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "invalid handover message");
        if length > LETTER_BYTES {
            return Err(nonsense());
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let letter = Letter::read(body).ok_or_else(nonsense)?;
        let along = (has_one != 0).then(|| self.came.pop_front().ok_or_else(nonsense)).transpose()?;
        self.unread.drain(..HEADER_BYTES + length);
        Ok(Some((letter, along)))
    }
}

/// The bytes of a handover message.
fn framed(letter: &Letter, has_one: bool) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes.extend_from_slice(&letter.written());
    let length = u32::try_from(bytes.len() - HEADER_BYTES).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes[4] = u8::from(has_one);
    Ok(bytes)
}

fn receive_some(
    stream: &UnixStream,
    unread: &mut Vec<u8>,
    came: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let at = unread.len();
    unread.resize(at + READ_BYTES, 0);
    let received = recvmsg(
        stream.as_fd(),
        &mut [IoSliceMut::new(&mut unread[at..])],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    );
    unread.truncate(at + received.as_ref().map_or(0, |received| received.bytes));
    let received = received?;
    // With the next socket in its place, a session would go on at another client's socket.
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "file descriptor lost: limit of open files reached",
        ));
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            came.extend(descriptors);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[tokio::test]
    async fn descriptors_come_with_their_letters() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, mut other) = (Channel::over(one), Channel::over(other));
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let written = async {
            for number in 0..300 {
                let along = (number % 3 == 0).then(|| far.as_fd());
                one.send(&Letter::Socket("x".repeat(number)), along).await.unwrap();
            }
            one.send(&Letter::Cancel(1, vec![7; 300_000]), None).await.unwrap();
            drop(one);
        };
        let read = async {
            for number in 0..300 {
                let (letter, along) = other.receive().await.unwrap();
                assert_eq!(letter, Letter::Socket("x".repeat(number)));
                assert_eq!(along.is_some(), number % 3 == 0);
                if let Some(along) = along {
                    let mut said = [0];
                    std::os::unix::net::UnixStream::from(along).write_all(&[number as u8]).unwrap();
                    near.read_exact(&mut said).unwrap();
                    assert_eq!(said, [number as u8]);
                }
            }
            assert_eq!(other.receive().await.unwrap().0, Letter::Cancel(1, vec![7; 300_000]));
            let gone = other.receive().await.unwrap_err();
            assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof);
        };
        tokio::join!(written, read);
    }

    #[tokio::test]
    async fn what_is_written_now_waits_for_nobody() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, mut other) = (Channel::over(one), Channel::over(other));
        let cancel = Letter::Cancel(1, vec![7; 32]);
        one.send(&cancel, None).await.unwrap();
        // Without a reader: more than any socket holds.
        (0..100_000).for_each(|_| one.send_now(&cancel).unwrap());
        drop(one);
        let mut read = 0;
        let end = loop {
            match other.receive().await {
                Ok((letter, _)) => assert_eq!(letter, cancel),
                Err(end) => break end,
            }
            read += 1;
        };
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof, "each is there whole, or not at all");
        assert!((2..100_000).contains(&read), "{read}");
    }

    #[tokio::test]
    async fn a_descriptor_that_is_lost_is_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        let too_many = [one.as_fd(); 20];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&too_many)));
        let letter = [0, 0, 0, 1, 1, 7];
        sendmsg(one.as_fd(), &[IoSlice::new(&letter)], &mut control, SendFlags::NOSIGNAL).unwrap();
        let error = Channel::over(other).receive().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("descriptor lost"), "{error}");
    }

    #[tokio::test]
    async fn what_nobody_understands_is_an_error() {
        for said in [&[0, 0, 0, 1, 0, 99][..], &[0xff; 5], &[0, 0, 0, 1, 1, 5], &[0, 0, 0, 2, 0, 5, 5]] {
            let (mut stranger, here) = std::os::unix::net::UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            stranger.write_all(said).unwrap();
            let error = Channel::over(UnixStream::from_std(here).unwrap()).receive().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{said:?}");
        }
    }
}
