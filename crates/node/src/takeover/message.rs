//! Handover messages between the two processes, as bytes.

use serde::{Deserialize, Serialize};

/// A handover message of one process to the other. `Hello` and `Refused` are the same in every version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Letter {
    /// The new one: it speaks this version of the protocol.
    Hello(u32),
    /// The old one: it goes on as it was, because of this.
    Refused(String),
    /// The predecessor: its process, the disabled databases (DISABLE), and the part of the process numbers
    /// that the successor draws from.
    Welcome(u32, Vec<String>, u32),
    /// The old one: the socket that comes along is used for this.
    Socket(String),
    /// The old one: there are no more sockets. The new one gets ready.
    Sockets,
    /// The new one: it could serve; whether two at a time would do harm by its configuration.
    Ready(bool),
    /// The old one: a client, as its session has written itself down, whose socket comes along.
    Client(Vec<u8>),
    /// The old one: that is all that there is now.
    Yours,
    /// The new one: it has got it, and waits for a last word.
    Mine,
    /// The old one: from here on all of that is the new one's.
    Go,
    /// The successor: a client wants to cancel the statement of this session, which the predecessor may still
    /// have.
    Cancel(i32, Vec<u8>),
}

/// The first bytes of the handover messages that look the same in every version.
const HELLO: u8 = 0;
const REFUSED: u8 = 1;

impl Letter {
    /// Its bytes.
    pub(crate) fn written(&self) -> Vec<u8> {
        match self {
            Letter::Hello(version) => [&[HELLO][..], &version.to_be_bytes()].concat(),
            Letter::Refused(why) => {
                [&[REFUSED][..], &(why.len() as u64).to_be_bytes(), why.as_bytes()].concat()
            }
            _ => postcard::to_stdvec(self).expect("a letter is plain data"),
        }
    }

    /// The handover message of these bytes. `None`: they are something else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Letter> {
        match bytes {
            [HELLO, version @ ..] => Some(Letter::Hello(u32::from_be_bytes(version.try_into().ok()?))),
            [REFUSED, rest @ ..] => {
                let (length, why) = rest.split_first_chunk()?;
                let is_whole = u64::from_be_bytes(*length) == why.len() as u64;
                is_whole.then(|| String::from_utf8(why.to_vec()).ok())?.map(Letter::Refused)
            }
            _ => {
                let (letter, rest) = postcard::take_from_bytes(bytes).ok()?;
                rest.is_empty().then_some(letter)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_as_they_were_written_and_not_in_part() {
        let text = |text: &str| text.to_owned();
        for letter in [
            Letter::Hello(7),
            Letter::Refused(text("why")),
            Letter::Welcome(7, vec![text("a"), text("b")], 1),
            Letter::Socket(text("tcp 127.0.0.1:1")),
            Letter::Sockets,
            Letter::Ready(true),
            Letter::Client(vec![1, 0, 2]),
            Letter::Yours,
            Letter::Mine,
            Letter::Go,
            Letter::Cancel(-7, vec![1, 2]),
        ] {
            let bytes = letter.written();
            assert_eq!(Letter::read(&bytes), Some(letter));
            for end in 0..bytes.len() {
                assert_eq!(Letter::read(&bytes[..end]), None, "{bytes:?}");
            }
        }
        assert_eq!(Letter::read(&[11]), None);
    }

    /// A process of version 5 and a present one exchange the message that the predecessor goes on.
    #[test]
    fn first_letters_look_as_in_earlier_versions() {
        assert_eq!(Letter::Hello(7).written(), [0, 0, 0, 0, 7]);
        assert_eq!(Letter::Refused("no".to_owned()).written(), [1, 0, 0, 0, 0, 0, 0, 0, 2, b'n', b'o']);
    }
}
