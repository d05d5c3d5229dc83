//! Any bytes as the first packet of a connection.

use wire::{Asks, FirstPacket, MAX_STARTUP_BYTES, first_packet};

/// An accepted packet is complete, is there, and stays the same when it is written again.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(Some((packet, taken))) = first_packet(bytes) else { return };
    assert!(taken <= bytes.len() && taken <= MAX_STARTUP_BYTES);
    assert_eq!(first_packet(&bytes[..taken]), Ok(Some((packet.clone(), taken))));
    assert_eq!(first_packet(&bytes[..taken - 1]), Ok(None));
    let mut again = Vec::new();
    match &packet {
        FirstPacket::Startup(startup) => {
            let _ = (startup.needs_negotiation(), startup.replication());
            let named = [("user", startup.user.as_str()), ("database", startup.database.as_str())];
            let others = startup.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let options = startup.unknown.iter().map(|name| (name.as_str(), ""));
            again.startup(&named.into_iter().chain(others).chain(options).collect::<Vec<_>>());
            if again.len() > MAX_STARTUP_BYTES {
                return;
            }
            again[6..8].copy_from_slice(&startup.minor.to_be_bytes());
        }
        FirstPacket::Cancel(request) => again.cancel(request),
        FirstPacket::Ssl => again.ssl_request(),
        FirstPacket::Gss | FirstPacket::Unsupported(..) => return,
    }
    let length = again.len();
    assert_eq!(first_packet(&again), Ok(Some((packet, length))));
}
