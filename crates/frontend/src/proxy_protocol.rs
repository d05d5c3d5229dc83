//! The PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt`): a balancer in front of Consort says in the first
//! bytes of a connection who its client is. It is read from those alone whom `proxy_protocol_from` names, and from them
//! it must come: whoever else sends it could be anybody.

use ppp::{HeaderResult, v1, v2};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt};

/// `PROXY UNKNOWN` and the end of its line: no header is shorter.
const SHORTEST: usize = 15;
/// No header of version 1 is longer.
const LONGEST_TEXT: usize = 107;
/// What begins a header of version 2,
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// and how much of it stands before what its length counts, which is no more than that.
const FIXED: usize = 16;
const LONGEST_REST: usize = 4096;

/// Takes the header from the stream: the client's address, or `None` if the balancer speaks for itself, as it does to see
/// whether somebody listens.
///
/// # Errors
/// Those of the stream; [`io::ErrorKind::InvalidData`] if it is no header.
pub(super) async fn header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; SHORTEST];
    header[0] = stream.read_u8().await?;
    if !matches!(header[0], b'P' | b'\r') {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.read_exact(&mut header[1..]).await?;
    if header.starts_with(SIGNATURE) {
        header.push(stream.read_u8().await?);
        let rest = usize::from(u16::from_be_bytes([header[FIXED - 2], header[FIXED - 1]]));
        if rest > LONGEST_REST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        header.resize(FIXED + rest, 0);
        stream.read_exact(&mut header[FIXED..]).await?;
    } else {
        while !header.ends_with(b"\r\n") {
            if header.len() == LONGEST_TEXT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            header.push(stream.read_u8().await?);
        }
    }
    client(&header)
}

fn client(header: &[u8]) -> io::Result<Option<SocketAddr>> {
    let at = |address: IpAddr, port| Ok(Some(SocketAddr::new(address.to_canonical(), port)));
    match HeaderResult::parse(header) {
        HeaderResult::V1(Ok(header)) => match header.addresses {
            v1::Addresses::Unknown => Ok(None),
            v1::Addresses::Tcp4(from) => at(from.source_address.into(), from.source_port),
            v1::Addresses::Tcp6(from) => at(from.source_address.into(), from.source_port),
        },
        HeaderResult::V2(Ok(v2::Header { command: v2::Command::Local, .. })) => Ok(None),
        HeaderResult::V2(Ok(header)) => match header.addresses {
            v2::Addresses::Unspecified | v2::Addresses::Unix(_) => Ok(None),
            v2::Addresses::IPv4(from) => at(from.source_address.into(), from.source_port),
            v2::Addresses::IPv6(from) => at(from.source_address.into(), from.source_port),
        },
        HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => Err(io::ErrorKind::InvalidData.into()),
    }
}
