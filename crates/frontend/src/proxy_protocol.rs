//! The PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt`): a balancer in front of Consort
//! names its client in the first bytes of a connection. The header is read from the addresses in
//! `proxy_protocol_from` alone, and is required from them: from any other address it could be forged.

use ppp::{HeaderResult, v1, v2};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Minimum bytes of a header: `PROXY UNKNOWN` and the end of its line.
const SHORTEST: usize = 15;
/// Maximum bytes of a version 1 header.
const LONGEST_TEXT: usize = 107;
/// First bytes of a header of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a version 2 header before the part that its length field counts. `LONGEST_REST` bounds that part.
const FIXED: usize = 16;
const LONGEST_REST: usize = 4096;

/// Takes the header from the stream. Returns the client's address, or `None` if the balancer speaks for
/// itself, as in a health check.
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
