//! Requests of the Redis protocol: arrays of bulk strings, and inline commands, cut out of a byte stream within limits.
//!
//! The reader keeps its place between calls, so a request that arrives in pieces is read once. It takes no memory for a length that
//! was announced, only for bytes that came.

use bytes::{Buf, Bytes, BytesMut};
use std::fmt;

/// Maximum bytes of a line: an inline command, or a header.
const MAX_LINE: usize = 64 << 10;

/// Limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLimits {
    /// Arguments.
    pub(crate) arguments: usize,
    /// Bytes of one argument.
    pub(crate) argument: usize,
    /// Bytes of all arguments.
    pub(crate) request: usize,
}

impl RequestLimits {
    /// Limits of a client that has not authenticated, as Redis has them.
    pub(crate) const UNAUTHENTICATED: RequestLimits =
        RequestLimits { arguments: 10, argument: 16 << 10, request: 64 << 10 };
    /// Limits of an authenticated client. Redis itself refuses a bulk string of more than 512 MB.
    pub(crate) const AUTHENTICATED: RequestLimits =
        RequestLimits { arguments: 1 << 20, argument: 16 << 20, request: 64 << 20 };
}

/// Longest argument that is skipped, to keep a connection whose request is too large. A longer one closes the connection.
const MAX_SKIPPED: usize = 512 << 20;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A command and its arguments; empty for an empty line.
    Command(Vec<Bytes>),
    /// A request whose arguments were skipped, because they are larger than a limit. The sentence says which.
    TooLarge(String),
}

/// The bytes are no request. The connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// A request that is being read.
#[derive(Debug, Default)]
pub(crate) struct RequestReader {
    arguments: Vec<Bytes>,
    /// Arguments that are missing. 0: between two requests.
    missing: usize,
    /// Announced length of the next argument.
    length: Option<usize>,
    /// Bytes of all arguments so far.
    bytes: usize,
    /// Bytes of the next argument that are still skipped, with its end of line.
    skipped: usize,
    too_large: Option<String>,
}

impl RequestReader {
    /// True between two requests.
    pub(crate) fn is_between(&self) -> bool {
        self.missing == 0
    }

    /// Cuts the next request off the buffer. `None`: it is not complete.
    ///
    /// # Errors
    /// The bytes are no request.
    pub(crate) fn next(
        &mut self,
        buffer: &mut BytesMut,
        limits: &RequestLimits,
    ) -> Result<Option<Request>, Malformed> {
        if self.missing == 0 {
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(line) = line(buffer)? else { return Ok(None) };
                    self.missing = count(&line[1..], limits)?;
                }
                Some(_) => {
                    let Some(line) = line(buffer)? else { return Ok(None) };
                    return inline(&line).map(|words| Some(Request::Command(words)));
                }
            }
        }
        while self.missing > 0 {
            if !self.argument(buffer, limits)? {
                return Ok(None);
            }
        }
        self.bytes = 0;
        let arguments = std::mem::take(&mut self.arguments);
        Ok(Some(self.too_large.take().map_or(Request::Command(arguments), Request::TooLarge)))
    }

    /// Reads one argument, or skips it. False: it is not complete.
    fn argument(&mut self, buffer: &mut BytesMut, limits: &RequestLimits) -> Result<bool, Malformed> {
        if self.skipped > 0 {
            return Ok(self.skip(buffer));
        }
        let length = match self.length {
            Some(length) => length,
            None => {
                let Some(line) = line(buffer)? else { return Ok(false) };
                let length = bulk_length(&line)?;
                self.announced(length, limits)?;
                if self.too_large.is_some() {
                    self.arguments.clear();
                    self.skipped = length + 2;
                    return Ok(self.skip(buffer));
                }
                self.length = Some(length);
                length
            }
        };
        if buffer.len() < length + 2 {
            return Ok(false);
        }
        self.arguments.push(buffer.split_to(length).freeze());
        if !buffer.starts_with(b"\r\n") {
            return Err(Malformed("a bulk string does not end after its length".to_owned()));
        }
        buffer.advance(2);
        self.length = None;
        self.missing -= 1;
        Ok(true)
    }

    /// Drops bytes of an argument that is too large. False: more of them are to come.
    fn skip(&mut self, buffer: &mut BytesMut) -> bool {
        let there = self.skipped.min(buffer.len());
        buffer.advance(there);
        self.skipped -= there;
        if self.skipped > 0 {
            return false;
        }
        self.missing -= 1;
        true
    }

    /// Compares an announced length with the limits.
    fn announced(&mut self, length: usize, limits: &RequestLimits) -> Result<(), Malformed> {
        let unauthenticated = *limits == RequestLimits::UNAUTHENTICATED;
        if length > MAX_SKIPPED || unauthenticated && length > limits.argument {
            let kind = if unauthenticated { "unauthenticated bulk length" } else { "bulk length" };
            return Err(Malformed(format!("invalid {kind}: {length} exceeds the limit")));
        }
        self.bytes += length;
        if length > limits.argument {
            let most = limits.argument >> 20;
            self.too_large
                .get_or_insert(format!("a value has {length} bytes, and at most {most} MB are taken"));
        } else if self.bytes > limits.request {
            let most = limits.request >> 20;
            self.too_large.get_or_insert(format!("the request has more than {most} MB"));
        }
        if self.bytes > 4 * MAX_SKIPPED {
            return Err(Malformed("the request is too large to be skipped".to_owned()));
        }
        Ok(())
    }
}

/// Cuts off a line without its end.
fn line(buffer: &mut BytesMut) -> Result<Option<BytesMut>, Malformed> {
    let Some(end) = buffer.iter().take(MAX_LINE + 2).position(|byte| *byte == b'\n') else {
        if buffer.len() > MAX_LINE {
            return Err(Malformed("too big inline request".to_owned()));
        }
        return Ok(None);
    };
    let mut line = buffer.split_to(end + 1);
    line.truncate(end - usize::from(line[..end].ends_with(b"\r")));
    Ok(Some(line))
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Number of arguments in the header of an array. 0 and less mean an empty request.
fn count(digits: &[u8], limits: &RequestLimits) -> Result<usize, Malformed> {
    let invalid = || Malformed("invalid multibulk length".to_owned());
    let count = usize::try_from(number(digits).ok_or_else(invalid)?.max(0)).map_err(|_| invalid())?;
    if count > limits.arguments {
        if *limits == RequestLimits::UNAUTHENTICATED {
            return Err(Malformed("unauthenticated multibulk length".to_owned()));
        }
        return Err(invalid());
    }
    Ok(count)
}

fn bulk_length(line: &[u8]) -> Result<usize, Malformed> {
    let Some(digits) = line.strip_prefix(b"$") else {
        let got = line.first().copied().map_or(' ', char::from);
        return Err(Malformed(format!("expected '$', got '{got}'")));
    };
    let length = number(digits).and_then(|length| usize::try_from(length).ok());
    length.ok_or_else(|| Malformed("invalid bulk length".to_owned()))
}

/// Splits an inline command into words; quotes group as in `redis-cli`.
fn inline(line: &[u8]) -> Result<Vec<Bytes>, Malformed> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let Some(&first) = rest.first() else { return Ok(words) };
        let word = match first {
            b'"' | b'\'' => quoted(&mut rest, first)?,
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                rest = after;
                word.to_vec()
            }
        };
        words.push(Bytes::from(word));
    }
}

/// Reads a word in quotes. Double quotes know `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`; single ones `\'` alone.
fn quoted(rest: &mut &[u8], quote: u8) -> Result<Vec<u8>, Malformed> {
    let unbalanced = || Malformed("unbalanced quotes in request".to_owned());
    let mut word = Vec::new();
    let mut at = 1;
    loop {
        let byte = *rest.get(at).ok_or_else(unbalanced)?;
        at += 1;
        match byte {
            byte if byte == quote => break,
            b'\\' if quote == b'"' => {
                let escaped = *rest.get(at).ok_or_else(unbalanced)?;
                at += 1;
                let hex = rest.get(at..at + 2).and_then(|digits| std::str::from_utf8(digits).ok());
                let hex = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                word.push(match (escaped, hex) {
                    (b'x', Some(byte)) => {
                        at += 2;
                        byte
                    }
                    (b'n', _) => b'\n',
                    (b'r', _) => b'\r',
                    (b't', _) => b'\t',
                    (b'b', _) => 8,
                    (b'a', _) => 7,
                    (other, _) => other,
                });
            }
            b'\\' if rest.get(at) == Some(&quote) => {
                at += 1;
                word.push(quote);
            }
            byte => word.push(byte),
        }
    }
    *rest = &rest[at..];
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(unbalanced()),
        _ => Ok(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits::AUTHENTICATED;

    fn words(request: &[&str]) -> Request {
        Request::Command(request.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect())
    }

    /// Requests of a stream that arrives in pieces of this size.
    fn read(stream: &[u8], piece: usize) -> Result<Vec<Request>, Malformed> {
        let (mut reader, mut buffer, mut found) = (RequestReader::default(), BytesMut::new(), Vec::new());
        for piece in stream.chunks(piece) {
            buffer.extend_from_slice(piece);
            while let Some(request) = reader.next(&mut buffer, &LIMITS)? {
                found.push(request);
            }
        }
        assert!(buffer.is_empty() && reader.is_between());
        Ok(found)
    }

    #[test]
    fn requests_in_pieces_of_any_size_are_the_same() {
        let stream = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*0\r\n\r\n*1\r\n$4\r\nPI\r\n\r\nset k \"a \\x41\\n\"  'b\\'c' \r\n";
        let wanted = vec![
            words(&["GET", "k"]),
            words(&["PING"]),
            words(&[]),
            words(&[]),
            words(&["PI\r\n"]),
            words(&["set", "k", "a A\n", "b'c"]),
        ];
        for piece in 1..=stream.len() {
            assert_eq!(read(stream, piece).unwrap(), wanted, "pieces of {piece}");
        }
    }

    #[test]
    fn values_above_the_limit_are_skipped_and_named() {
        let mut stream = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", LIMITS.argument + 1).into_bytes();
        stream.resize(stream.len() + LIMITS.argument + 1, b'x');
        stream.extend_from_slice(b"\r\nPING\r\n");
        let found = read(&stream, 1 << 20).unwrap();
        assert!(matches!(&found[0], Request::TooLarge(why) if why.contains("16 MB")), "{:?}", found[0]);
        assert_eq!(found[1], words(&["PING"]), "the connection goes on");
    }

    #[test]
    fn announced_lengths_take_no_memory() {
        for stream in
            ["*1000000000\r\n", "*-", "$3\r\n", "*1\r\n+OK\r\n", "*1\r\n$-1\r\n", "*1\r\n$9999999999\r\n"]
        {
            let (mut reader, mut buffer) = (RequestReader::default(), BytesMut::from(stream));
            match reader.next(&mut buffer, &LIMITS) {
                Ok(Some(request)) => assert_eq!(request, words(&["$3"]), "an inline command"),
                Ok(None) => assert_eq!(stream, "*-"),
                Err(_) => assert!(reader.arguments.capacity() == 0),
            }
        }
        let mut buffer = BytesMut::from(vec![b'x'; MAX_LINE + 1].as_slice());
        assert!(RequestReader::default().next(&mut buffer, &LIMITS).is_err());
    }

    #[test]
    fn unauthenticated_clients_have_smaller_limits() {
        for stream in ["*11\r\n", "*2\r\n$4\r\nAUTH\r\n$16385\r\n"] {
            let mut buffer = BytesMut::from(stream);
            let found = RequestReader::default().next(&mut buffer, &RequestLimits::UNAUTHENTICATED);
            assert!(found.unwrap_err().to_string().contains("unauthenticated"));
        }
    }
}
