//! Fuzzing of the PROXY header with any bytes (`make fuzz`, which has this file and the reader alone).

use super::proxy_protocol::header;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Maximum bytes of a version 2 header that is read.
const MOST_BYTES: usize = 16 + 4096;

/// The header, and no byte after it, is taken from the stream. Its client is the address in the header's
/// client field. A refused header is refused with any continuation.
pub(crate) fn check(bytes: &[u8]) {
    let (read, taken) = read(bytes);
    let header = &bytes[..taken];
    assert!(taken <= MOST_BYTES);
    match read {
        Ok(client) => assert_eq!(client, named(header)),
        Err(ErrorKind::InvalidData) => {}
        Err(kind) => {
            assert!(kind == ErrorKind::UnexpectedEof && taken == bytes.len(), "{kind}");
            return;
        }
    }
    assert_eq!(self::read(header), (read, taken));
}

/// Result for a stream of these bytes, and the number of bytes taken from it.
fn read(bytes: &[u8]) -> (Result<Option<SocketAddr>, ErrorKind>, usize) {
    let mut rest = bytes;
    let read = {
        let mut reading = pin!(header(&mut rest));
        match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => read.map_err(|error| error.kind()),
            Poll::Pending => panic!("all that comes is there"),
        }
    };
    (read, bytes.len() - rest.len())
}

/// Client address that an accepted header names.
fn named(header: &[u8]) -> Option<SocketAddr> {
    let port_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (address, port) = if header[0] == b'P' {
        // The rest of such a header is ignored, and need not be a text.
        if header.starts_with(b"PROXY UNKNOWN ") || header == b"PROXY UNKNOWN\r\n" {
            return None;
        }
        let line = std::str::from_utf8(header).expect("the header is text");
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        (words[2].parse::<IpAddr>().expect("an address"), words[4].parse::<u16>().expect("a port"))
    } else {
        // The command, and the family of the addresses.
        match (header[12] & 0xf, header[13] >> 4) {
            (1, 1) => (IpAddr::from([header[16], header[17], header[18], header[19]]), port_at(24)),
            (1, 2) => {
                let address: [u8; 16] = header[16..32].try_into().expect("sixteen bytes");
                (Ipv6Addr::from(address).into(), port_at(48))
            }
            _ => return None,
        }
    };
    Some(SocketAddr::new(address.to_canonical(), port))
}
