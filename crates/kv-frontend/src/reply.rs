//! Replies of the Redis protocol, in its two versions.

use bytes::{BufMut, Bytes, BytesMut};
use std::fmt::Write;

/// Version of the protocol, which the client chooses by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP2.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

impl Protocol {
    /// The number as HELLO has it.
    pub(crate) fn number(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A status, such as `OK`.
    Status(&'static str),
    /// An error: its code, a space, the reason and the remedy.
    Error(String),
    Integer(i64),
    Bulk(Bytes),
    /// No value.
    Null,
    /// No array: EXEC after a watched key has changed.
    NullArray,
    Array(Vec<Reply>),
    /// Pairs, in RESP2 as a flat array.
    Map(Vec<(Reply, Reply)>),
    /// Text for a person.
    Text(String),
}

impl Reply {
    pub(crate) const OK: Reply = Reply::Status("OK");

    /// A bulk string with this text.
    pub(crate) fn text(text: impl Into<String>) -> Reply {
        Reply::Bulk(Bytes::from(text.into()))
    }

    /// A value, or none.
    pub(crate) fn value(value: Option<Bytes>) -> Reply {
        value.map_or(Reply::Null, Reply::Bulk)
    }

    /// A number of things.
    pub(crate) fn count(count: usize) -> Reply {
        Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Appends the reply's bytes.
    pub(crate) fn write(&self, protocol: Protocol, out: &mut BytesMut) {
        match self {
            Reply::Status(status) => line(out, '+', status),
            // An end of line would end the reply.
            Reply::Error(error) => line(out, '-', &error.replace(['\r', '\n'], " ")),
            Reply::Integer(number) => header(out, ':', *number),
            Reply::Bulk(bytes) => bulk(out, bytes),
            Reply::Text(text) if protocol == Protocol::Resp3 => {
                header(out, '=', length(text.len() + 4));
                out.put_slice(b"txt:");
                out.put_slice(text.as_bytes());
                out.put_slice(b"\r\n");
            }
            Reply::Text(text) => bulk(out, text.as_bytes()),
            Reply::Null | Reply::NullArray if protocol == Protocol::Resp3 => out.put_slice(b"_\r\n"),
            Reply::Null => out.put_slice(b"$-1\r\n"),
            Reply::NullArray => out.put_slice(b"*-1\r\n"),
            Reply::Array(replies) => {
                header(out, '*', length(replies.len()));
                replies.iter().for_each(|reply| reply.write(protocol, out));
            }
            Reply::Map(pairs) => {
                match protocol {
                    Protocol::Resp2 => header(out, '*', length(2 * pairs.len())),
                    Protocol::Resp3 => header(out, '%', length(pairs.len())),
                }
                for (key, value) in pairs {
                    key.write(protocol, out);
                    value.write(protocol, out);
                }
            }
        }
    }
}

fn length(length: usize) -> i64 {
    i64::try_from(length).expect("memory is smaller")
}

fn line(out: &mut BytesMut, kind: char, text: &str) {
    let _ = write!(out, "{kind}{text}\r\n");
}

fn header(out: &mut BytesMut, kind: char, number: i64) {
    let _ = write!(out, "{kind}{number}\r\n");
}

fn bulk(out: &mut BytesMut, bytes: &[u8]) {
    header(out, '$', length(bytes.len()));
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, protocol: Protocol) -> String {
        let mut out = BytesMut::new();
        reply.write(protocol, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn both_versions_have_their_own_nulls_and_maps() {
        let pairs = vec![(Reply::text("a"), Reply::Integer(1)), (Reply::text("b"), Reply::Null)];
        let reply = Reply::Array(vec![Reply::Map(pairs), Reply::NullArray, Reply::Text("x".to_owned())]);
        let (two, three) = (written(&reply, Protocol::Resp2), written(&reply, Protocol::Resp3));
        assert_eq!(two, "*3\r\n*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n$-1\r\n*-1\r\n$1\r\nx\r\n");
        assert_eq!(three, "*3\r\n%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n_\r\n_\r\n=5\r\ntxt:x\r\n");
    }

    #[test]
    fn errors_stay_on_one_line() {
        assert_eq!(written(&Reply::Error("ERR a\r\n+OK".to_owned()), Protocol::Resp2), "-ERR a  +OK\r\n");
    }
}
